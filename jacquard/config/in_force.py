"""Lists the effective settings with their sources: the default, a line of the settings file, an environment variable, or
the file that a variable names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from filament import load_yaml_marked
from jacquard.config.fields import Credential
from jacquard.config.reference import Setting, settings_of
from jacquard.config.sections import RuntimeConfig, drop_secrets
from jacquard.config.service import ServiceSettings, load_settings
from jacquard.config.settings import SERVICE, find_variable
from jacquard.config.tenant_sections import TenantSettings
from mnemosyne.core.codec import to_plain
from mnemosyne.core.masking.credentials import mask_credentials
from mnemosyne.stores.locate import mask_passwords

DEFAULT = "default"
GIVEN = "start"
"""Source of a value that came with the start of the service: from its settings file, or by an option of its command."""
HIDDEN = "***"
"""Text that is shown instead of a key."""


def settings_in_force(
    file: Path | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[tuple[str, Any, str]]:
    """Yield (path, value, source) of every setting. The path is written with dots, and the value contains no secrets.

    Reads `file`, so call it off the event loop. Raises ConfigError that names all faults.
    """
    given = os.environ if environment is None else environment
    service, turns = load_settings(file, given)
    whole = to_plain(turns) | {SERVICE: to_plain(service)}
    lines = load_yaml_marked(file.read_text(encoding="utf-8"))[1] if file is not None else {}
    for setting in _list_settings():
        value = _without_secrets(setting, _look_up(whole, setting))
        yield ".".join(setting.path), value, _source(setting, given, file, lines)


def _list_settings() -> tuple[Setting, ...]:
    return (*settings_of(), *settings_of(ServiceSettings, (SERVICE,)))


def _look_up(whole: Mapping[str, Any], setting: Setting) -> Any:
    value: Any = whole
    for step in setting.path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def settings_of_service(
    service: ServiceSettings,
    turns: RuntimeConfig,
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Iterator[tuple[str, Any, str]]:
    """Yield (path, value, source) of every setting of a running service, like `settings_in_force`.

    A value that neither the default nor the environment nor `file` has was given at the start (GIVEN). Raises ConfigError if
    `file` has become invalid since the start.
    """
    whole = to_plain(turns) | {SERVICE: to_plain(service)}
    for setting, (name, value, source) in zip(_list_settings(), settings_in_force(file, environment), strict=True):
        shown = _without_secrets(setting, _look_up(whole, setting))
        yield name, shown, source if shown == value else GIVEN


def settings_of_tenant(service: ServiceSettings, turns: RuntimeConfig, tenant: str) -> Iterator[tuple[str, Any, str]]:
    """Yield (path, value, source) of the settings that concern a tenant: those of its turns, and its quotas.

    Keys and addresses are hidden. The source is DEFAULT or GIVEN, because files and variables belong to the host.
    """
    whole, usual = to_plain(turns), to_plain(RuntimeConfig())
    for setting in settings_of():
        value = _look_up(whole, setting)
        shown = HIDDEN if setting.field.rules.get("credential") is not None and value else drop_secrets(value)
        yield ".".join(setting.path), shown, DEFAULT if value == _look_up(usual, setting) else GIVEN
    own, usual = to_plain(service.of_tenant(tenant)), to_plain(TenantSettings())
    for name, value in own.items():
        yield f"{SERVICE}.each_tenant.{name}", value, DEFAULT if value == usual[name] else GIVEN


def _without_secrets(setting: Setting, value: Any) -> Any:
    holds = setting.field.rules.get("credential")
    if holds is None or not isinstance(value, str):
        return drop_secrets(value)
    return HIDDEN if holds is Credential.KEY else mask_credentials(mask_passwords(value))


def _source(
    setting: Setting, environment: Mapping[str, str], file: Path | None, lines: Mapping[tuple[str | int, ...], int]
) -> str:
    holds = setting.field.rules.get("credential")
    if (variable := find_variable(setting.variable, environment, has_file=holds is not None)) != "":
        return variable
    found = lines.get(setting.path)
    return DEFAULT if found is None else f"{file}:{found}"

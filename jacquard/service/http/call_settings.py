"""The settings and the memory verbs of one call, and the ids that its idempotency key gives to what it makes. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jacquard.config.sections import RuntimeConfig, list_credentials
from jacquard.config.settings import config_from_mapping
from jacquard.core.errors import ConfigError
from jacquard.service.http.operation import Call
from jacquard.service.values import Scope
from jacquard.wiring.verbs import MemoryVerbs


def config_for(call: Call, given: Mapping[str, Any] | None) -> RuntimeConfig | None:
    """Return the settings of a call: those that were sent over those of the service, with the viewer of the token; None where they
    are those of the service. ConfigError for a setting that cannot be.
    """
    base, viewer = call.runtime.engine.config, call.principal.viewer
    if given and not call.principal.allows(Scope.ADMIN):
        _check_settings(given)
    config = base if not given else config_from_mapping(given, base)
    if viewer is not None:
        config = replace(config, viewer=viewer)
    return None if config is base else config


def _check_settings(given: Mapping[str, Any]) -> None:
    """Raise ConfigError for a setting that names an address, a key or a program's argument: the service would use it."""
    for path in list_credentials():
        value: Any = given
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        if value is not None:
            raise ConfigError(
                f"{'.'.join(path)} can only be set in the settings of the service, or with a token of scope admin."
            )


def verbs_for(call: Call) -> MemoryVerbs:
    """Return the memory verbs for who makes a call."""
    principal = call.principal
    author = principal.token_id or principal.author or "host"
    return MemoryVerbs(call.runtime, author=author, viewer=principal.viewer, is_model=principal.is_model)


def id_from_key(call: Call, kind: str) -> str | None:
    """Return the id that an idempotency key gives what a call makes; None without a key."""
    if not call.key:
        return None
    parts = (kind, call.principal.tenant, call.principal.token_id, *call.ids.values(), call.key)
    return f"{kind}-{hashlib.sha256(chr(0).join(parts).encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"

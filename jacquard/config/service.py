"""Defines the settings of the service, and reads them.

The settings come from the section `service` of the settings file, from `JACQUARD_SERVICE__*` variables, and from
options of the command.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from jacquard.config.fields import Credential, bounded_field, check, credential_field, plain_field
from jacquard.config.sections import RuntimeConfig
from jacquard.config.settings import BETWEEN, PREFIX, SERVICE, find_variable, gather_faults, load_config, load_section
from jacquard.config.tenant_sections import HousekeepingSettings, TenantSettings
from jacquard.core.errors import ConfigError
from mnemosyne.schema.memory import EMPTY
from mnemosyne.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceLimits:
    """Limits of one request and of one tenant. A request beyond a limit is refused before it costs anything."""

    body_bytes: int = bounded_field(
        8_000_000,
        1_000,
        1_000_000_000,
        doc="Maximum size of a request's body, in bytes, except for calls of the proxy (`chat_bytes`).",
    )
    chat_bytes: int = bounded_field(
        48_000_000,
        1_000,
        1_000_000_000,
        doc="Maximum size of the body of a call of the proxy, in bytes, with the pictures in it.",
    )
    body_seconds: float = bounded_field(10.0, 0.1, 600.0, doc="Time limit for receiving a request's body, in seconds.")
    request_seconds: float = bounded_field(
        120.0, 0.1, 3_600.0, doc="Time limit of a request, in seconds; a streamed answer has no such limit."
    )
    at_once: int = bounded_field(8, 1, 1_000, doc="Number of requests that a process handles at once.")
    long_at_once: int = bounded_field(
        2,
        1,
        1_000,
        doc="Number of the requests in `at_once` that may be long ones (`long_seconds`); the other places are for short requests.",
    )
    long_seconds: float = bounded_field(
        2.0,
        0.01,
        3_600.0,
        doc="Time, in seconds, that a request must take so that the next one of its kind and session counts as long.",
    )
    waiting: int = bounded_field(
        32, 0, 10_000, doc="Number of requests that may wait for a place; more are refused with 429."
    )
    waiting_seconds: float = bounded_field(
        5.0, 0.0, 600.0, doc="Time after which a waiting request is refused with 429, in seconds."
    )
    tenant_at_once: int = bounded_field(
        0,
        0,
        1_000,
        doc="Number of requests of one tenant that are handled at once; more are refused with 429 (0: no limit).",
    )
    tenant_a_minute: int = bounded_field(
        0, 0, 1_000_000, doc="Number of requests of one tenant that a process accepts in a minute (0: no limit)."
    )
    streams: int = bounded_field(
        100, 1, 100_000, doc="Number of event streams and proxy calls that may be open at once."
    )
    open_tenants: int = bounded_field(64, 1, 10_000, doc="Number of tenants' stores that stay open while unused.")
    shutdown_seconds: float = bounded_field(
        30.0, 0.0, 600.0, doc="Time that running requests get when the service ends, in seconds."
    )

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class ProxySettings:
    """Settings of the proxy, through which chat clients call a model server (`upstream` of the service)."""

    enabled: bool = plain_field(
        True, doc="Whether calls are turns; otherwise every call passes unchanged, and nothing is stored."
    )
    place: str = plain_field(
        "before_last_user",
        doc="Place of our message: `after_system`, `before_last_user`, `depth:N` (before the Nth message from the end), or "
        "`merged` (into the client's system message; chosen for a model that takes only one, after its first refusal).",
    )
    max_tokens: int = bounded_field(4_000, 0, 1_000_000, doc="Maximum tokens of our message (0: nothing is added).")
    rules: str | None = plain_field(
        None, doc="File of rules for calls that are not turns; none means the shipped rules."
    )
    key: str | None = credential_field(
        None, Credential.KEY, doc="Key of the model server; with `tenants` it replaces the clients' keys."
    )
    prepare_seconds: float = bounded_field(
        20.0, 0.1, 600.0, doc="Time limit of the engine, in seconds, after which a call passes through without it."
    )
    silent_seconds: float = bounded_field(
        600.0,
        1.0,
        86_400.0,
        doc="Time without an answer of the model server, in seconds, after which a call is cancelled.",
    )

    def __post_init__(self) -> None:
        """Check the values. Raises ConfigError if `place` is not a known place."""
        check(self)
        if re.fullmatch(r"after_system|before_last_user|merged|depth:[0-9]{1,4}", self.place) is None:
            raise ConfigError(
                f"ProxySettings.place: is {self.place[:40]!r}, but must be after_system, before_last_user, merged or depth:N"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceSettings:
    """Settings of the service's process. The rest of the same file contains the settings of turns (`RuntimeConfig`)."""

    host: str = plain_field("127.0.0.1", doc="The address to listen on; any but the loopback one needs `tenants`.")
    port: int = bounded_field(8321, 1, 65_535, doc="The port to listen on.")
    store: str = credential_field(".jacquard", Credential.ADDRESS, doc="The store of every command without `--store`.")
    world: str | None = plain_field(None, doc="The folder of the world pack from which new sessions start.")
    embedder: str = credential_field("auto", Credential.ARGUMENT, doc="The embedding model, as `--embedder` takes it.")
    upstream: str | None = credential_field(
        None, Credential.ADDRESS, doc="The model server of the proxy: its base URL, or a model as litellm names it."
    )
    hosts: tuple[str, ...] = plain_field(
        ("host.docker.internal", "host.containers.internal"),
        doc="Names of this machine, besides localhost, by which the service may be called while it has no tenants; without ports.",
    )
    origins: tuple[str, ...] = plain_field(
        (),
        doc="Origins of pages that may call the service from a browser, as `http://localhost:8000`; `null` is a page from a file.",
    )
    studio: bool = plain_field(False, doc="Whether the studio, pages for people, is served at `/` (docs/en/studio.md).")
    workers: int = bounded_field(1, 1, 128, doc="Number of processes.")
    tenants: bool = plain_field(False, doc="Whether every request needs a token (`jacquard operate tokens`).")
    limits: ServiceLimits = field(default=ServiceLimits())
    each_tenant: TenantSettings = field(default=TenantSettings())
    by_tenant: Mapping[str, TenantSettings] = plain_field(
        default_factory=lambda: EMPTY,
        doc="Settings of single tenants, by name, with the names of `each_tenant`; they replace all of those.",
    )
    housekeeping: HousekeepingSettings = field(default=HousekeepingSettings())
    proxy: ProxySettings = field(default=ProxySettings())

    def __post_init__(self) -> None:
        """Check the values. Raises ConfigError if a host is not just a name, or if an origin has a form that no browser sends."""
        check(self)
        for host in self.hosts:
            if re.fullmatch(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:]+", host) is None:
                raise ConfigError(
                    f"ServiceSettings.hosts: {host[:60]!r} is not a name of a host; write it without scheme and port."
                )
        for origin in self.origins:
            if re.fullmatch(r"null|https?://[^/\s*]+|[a-z][a-z0-9+.-]*://[a-z0-9.-]+", origin) is None:
                raise ConfigError(
                    f"ServiceSettings.origins: {origin[:60]!r} is not an origin; write scheme, host and port like the browser, "
                    "as in http://localhost:8000, without a slash at the end."
                )

    def of_tenant(self, tenant: str) -> TenantSettings:
        """Return the settings of `tenant`: its quotas, and the times for which its sessions are kept."""
        return self.by_tenant.get(tenant, self.each_tenant)


def load_service_settings(
    file: Path | None = None, environment: Mapping[str, str] | None = None, options: Mapping[str, Any] = EMPTY
) -> ServiceSettings:
    """Return the settings of the service. `options` override the environment, which overrides the file.

    Reads `file`, so call it off the event loop. Raises ConfigError that names all faults.
    """
    return load_section(ServiceSettings, SERVICE, file, environment, options)


def load_settings(
    file: Path | None = None, environment: Mapping[str, str] | None = None, options: Mapping[str, Any] = EMPTY
) -> tuple[ServiceSettings, RuntimeConfig]:
    """Return (service, turns): the settings of the service, and the settings of turns. `options` apply only to the
    service.

    Reads `file`, so call it off the event loop. Raises ConfigError that names all faults of both.
    """
    settings, engine = ServiceSettings(), RuntimeConfig()
    with gather_faults() as faults:
        with faults():
            settings = load_service_settings(file, environment, options)
        with faults():
            engine = load_config(file, environment)
    return settings, engine


def find_store(file: Path | None = None, environment: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Return (address, source) of the store in the settings. The source is a variable (with the file that it names), the
    settings file, or 'default'.

    Reads `file`, so call it off the event loop. If a setting of the service is wrong, raises ConfigError that names all
    faults of the settings.
    """
    variables = os.environ if environment is None else environment
    try:
        store = load_service_settings(file, variables).store
    except ConfigError:
        load_settings(file, variables)
        raise
    if variable := find_variable(f"{PREFIX}{SERVICE.upper()}{BETWEEN}STORE", variables, has_file=True):
        return store, variable
    return store, "default" if store == ServiceSettings().store else f"service.store of {file}"

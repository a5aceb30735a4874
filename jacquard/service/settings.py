"""Settings of the service: one YAML file, overridden by `JACQUARD_SERVICE_*` variables and by options of the command."""

from __future__ import annotations

from dataclasses import dataclass, field

from jacquard.config.sections import RuntimeConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceSettings:
    """How the service runs.

    `store`: an address as `jacquard.open_runtime` takes it. `world`: the folder of the pack from which new sessions start.
    `upstream`: the base URL of an OpenAI-compatible server, or a model's name as litellm has it. `tenants`: whether requests need a
    token; without tenants only the loopback address may be used. `engine`: the settings of turns.
    """

    host: str = "127.0.0.1"
    port: int = 8321
    store: str = ".jacquard"
    world: str | None = None
    embedder: str = "auto"
    upstream: str | None = None
    workers: int = 1
    tenants: bool = False
    open_tenants: int = 64
    engine: RuntimeConfig = field(default_factory=RuntimeConfig)

"""The settings and the memory verbs of one call, and the ids that its idempotency key gives to what it makes. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from jacquard.config.experiments import with_viewer
from jacquard.config.per_call import read_call_settings
from jacquard.config.sections import RuntimeConfig
from jacquard.config.settings import config_from_mapping
from jacquard.service.http.operation import Call
from jacquard.service.values import Scope
from jacquard.wiring.verbs import MemoryVerbs


def config_for(call: Call, given: Mapping[str, Any] | None) -> RuntimeConfig | None:
    """Return the settings of a call: those that were sent over those of the service, for the viewer of the token; None where they
    are those of the service. ConfigError for a setting that cannot be, or that a call may not set.
    """
    base, principal = call.runtime.engine.config, call.principal
    config = base
    if given:
        read = config_from_mapping if principal.allows(Scope.ADMIN) else read_call_settings
        config = read(given, base)
    if principal.viewer is not None:
        config = with_viewer(config, call.session_id, principal.viewer)
    return None if config is base else config


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

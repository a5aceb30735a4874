"""The settings and the memory verbs of one call, and the ids that its idempotency key gives to what it makes. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from jacquard.config.experiments import with_viewer
from jacquard.config.per_call import CLOSED, read_call_settings
from jacquard.config.sections import RuntimeConfig
from jacquard.config.settings import config_from_mapping
from jacquard.core.errors import ConfigError
from jacquard.service.http.operation import Call
from jacquard.service.values import Scope
from jacquard.wiring.verbs import MemoryVerbs
from mnemosyne.schema.ingest import IngestOptions
from mnemosyne.schema.memory import Trust


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


OPEN_OPTIONS = frozenset(
    {
        "args",
        "as_document",
        "confidence",
        "dedup",
        "derived_from",
        "dry_run",
        "idempotency_key",
        "selectors",
        "shown",
        "trust",
        "ttl_seconds",
    }
)
"""Options of ingestion that a call may set; the others are settings of the service (`redaction`, `evidence`)."""


def options_for(call: Call, sent: IngestOptions | None) -> IngestOptions:
    """Return how a text of a call is ingested: what was sent over the settings of the service.

    ConfigError for an option that only the settings and tokens of scope admin set.
    """
    if sent is not None and sent.trust is Trust.AUTHORED and not call.principal.allows(Scope.AUTHOR):
        raise ConfigError("options.trust: only tokens of scope author label a text as authored.")
    own, default = call.runtime.engine.parts.ingest_options or IngestOptions(), IngestOptions()
    closed = {each.name for each in fields(default)} - OPEN_OPTIONS
    changed = {name for name in closed if sent is not None and getattr(sent, name) != getattr(default, name)}
    refused = sorted(name for name in changed if getattr(sent, name) != getattr(own, name))
    if refused and not call.principal.allows(Scope.ADMIN):
        raise ConfigError(f"options.{refused[0]}: {CLOSED}")
    return replace(sent or own, **{name: getattr(own, name) for name in closed - changed})


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

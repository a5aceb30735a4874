"""Derives three things from one call of the service: the settings of the call, its memory verbs (functions that edit
memory) with the rights of the caller, and the ids of new objects from its idempotency key. Nothing is written.
"""

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
from jacquard.service.http.call import Call
from jacquard.service.values import Scope
from jacquard.wiring.verbs import MemoryVerbs
from mnemosyne.core import codec
from mnemosyne.core.off_loop import calculate, size_of
from mnemosyne.evidence.rules import check_confidence, expiry_time
from mnemosyne.schema.ingest import IngestOptions
from mnemosyne.schema.memory import Trust

MOST_SETTINGS = 1_000
"""Maximum number of settings of a call; each entry of a list or a mapping counts."""

MOST_CHARS = 400_000
"""Maximum characters of a call's settings as JSON; they are stored with the turn."""

_SETTING_CHARS = 100
"""Cost of reading a setting, in characters for `calculate`."""


async def config_for(
    call: Call, given: Mapping[str, Any] | None, base: RuntimeConfig | None = None
) -> RuntimeConfig | None:
    """Return the settings of a call: `base` (None: the service's settings), overridden by `given`. If the token of the call
    belongs to one viewer, the setting `viewer` is this viewer, whatever `given` contains. Return None if `base` applies
    unchanged.

    Raises ConfigError if there are too many settings, if one is invalid, or if this caller has no right to set it.
    """
    base, principal = base or call.runtime.engine.config, call.principal
    config = base
    if given:
        read = config_from_mapping if principal.allows(Scope.ADMIN) else read_call_settings
        count = await calculate(_count_settings, given, size=size_of(given))
        config = await calculate(read, given, base, size=count * _SETTING_CHARS)
    if principal.viewer is not None:
        config = with_viewer(config, call.session_id, principal.viewer)
    return None if config is base else config


def _count_settings(given: Mapping[str, Any]) -> int:
    count, waiting = 0, list[Any]([given])
    while waiting and count <= MOST_SETTINGS:
        below = waiting.pop()
        count += len(below)
        items = below.values() if isinstance(below, Mapping) else below
        waiting += [each for each in items if isinstance(each, Mapping | list)]
    if count > MOST_SETTINGS:
        most = f"{MOST_SETTINGS:,} settings"
        raise ConfigError(f"config has more than {most}; the settings file of the service takes more.")
    if (chars := len(codec.encode(given))) > MOST_CHARS:
        raise ConfigError(f"config has {chars:,} characters; a call may have at most {MOST_CHARS:,}.")
    return count


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
"""Options of ingestion that any call may set. All other options are settings of the service."""


def options_for(call: Call, sent: IngestOptions | None) -> IngestOptions:
    """Return the options for ingesting the text of a call: `sent` (None: none were sent), completed by the service's
    settings.

    Raises ConfigError if the call labels a text as authored without a token of scope author, changes an option outside
    of OPEN_OPTIONS without a token of scope admin, or sends a number that is out of range.
    """
    if sent is not None and sent.trust is Trust.AUTHORED and not call.principal.allows(Scope.AUTHOR):
        raise ConfigError("options.trust: only tokens of scope author label a text as authored.")
    own, default = call.runtime.engine.parts.ingest_options or IngestOptions(), IngestOptions()
    closed = {each.name for each in fields(default)} - OPEN_OPTIONS
    changed = {name for name in closed if sent is not None and getattr(sent, name) != getattr(default, name)}
    refused = sorted(name for name in changed if getattr(sent, name) != getattr(own, name))
    if refused and not call.principal.allows(Scope.ADMIN):
        raise ConfigError(f"options.{refused[0]}: {CLOSED}")
    try:
        if sent is not None and sent.confidence is not None:
            check_confidence(sent.confidence)
        expiry_time(call.runtime.engine.parts.clock.now(), sent.ttl_seconds if sent is not None else None)
    except ValueError as error:
        raise ConfigError(f"options: {error}") from None
    return replace(sent or own, **{name: getattr(own, name) for name in closed - changed})


def verbs_for(call: Call) -> MemoryVerbs:
    """Return the functions that edit memory. They have the viewer and the rights of the caller's token."""
    principal = call.principal
    author = principal.token_id or principal.author or "host"
    return MemoryVerbs(
        call.runtime,
        author=author,
        viewer=principal.viewer,
        is_model=principal.is_model,
        edits_lore=principal.allows(Scope.AUTHOR),
    )


def id_from_key(call: Call, kind: str) -> str | None:
    """Return the id of the object that a call creates, made from `kind` and the idempotency key. Return None if the
    call has no key. A call that is sent again gets the same id.
    """
    if not call.key:
        return None
    parts = (kind, call.principal.tenant, call.principal.token_id, *call.ids.values(), call.key)
    return f"{kind}-{hashlib.sha256(chr(0).join(parts).encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"

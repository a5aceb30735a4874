"""Hides locations on this host (file paths, store addresses) from the answers of a service with tenants."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from jacquard.pipeline.record.prepared_turn import PreparedTurn
from jacquard.remote.wire import ErrorBody
from jacquard.service.values import Principal
from mnemosyne.schema.event import Event

_ROOTS = {"app", "data", "etc", "home", "mnt", "opt", "root", "srv", "tmp", "usr", "var", "Users", "Volumes"}
"""First parts of file paths on hosts. They distinguish file paths from other texts with a slash at the beginning, such
as addresses of the service and places in the state.
"""
with suppress(OSError):
    _ROOTS.update(each.name for each in Path("/").iterdir())

_PLACE = re.compile(
    r"""(?P<quote>['"`])(?:file://)?(?:/|[A-Za-z]:[\\/]|\\\\)[^'"`\n]*(?P=quote)
    |(?<![\w/.~-])(?:file://)?(?:/|[A-Za-z]:[\\/]|\\\\)[^\s'"`,;:()<>\]]+
    |\b(?P<scheme>postgres(?:ql)?|s3|gs|abfss?|memory)://[^\s'"`,;()<>\]]+""",
    re.VERBOSE,
)


def hide_places(value: Any) -> Any:
    """Return JSON data in which each path of this host is shortened to its last part, and each store address to its
    scheme.

    Values of fields named `…_id` stay unchanged, because callers chose them.
    """
    if isinstance(value, str):
        return _PLACE.sub(_shorten, value)
    if isinstance(value, Mapping):
        # Names given by the caller stay unchanged.
        return {name: each if name.endswith("_id") else hide_places(each) for name, each in value.items()}
    return [hide_places(each) for each in value] if isinstance(value, list | tuple) else value


def error_for(principal: Principal, error: ErrorBody) -> ErrorBody:
    """Return the description of an error for a caller. A caller with a token (a tenant) does not see locations on this host."""
    if not principal.token_id:
        return error
    return replace(error, message=hide_places(error.message), facts=hide_places(error.facts))


def texts_for(principal: Principal, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return sentences about failures for a caller. A caller with a token does not see locations on this host."""
    return tuple(hide_places(texts)) if principal.token_id else texts


def event_for(principal: Principal, event: Event) -> Event:
    """Return an event for a caller. A caller with a token does not see locations on this host."""
    return replace(event, payload=hide_places(event.payload)) if principal.token_id else event


def turn_for(principal: Principal, turn: PreparedTurn) -> PreparedTurn:
    """Return a prepared turn for a caller. For a caller with a token, the failures in its plan and in its receipt (why
    each block is in the prompt) are shown without locations on this host.
    """
    if not principal.token_id:
        return turn
    report = turn.report
    planned = hide_places({name: report.plan[name] for name in ("reasons", "tier1") if name in report.plan})
    shown = replace(
        report,
        stream_b=replace(report.stream_b, reason=hide_places(report.stream_b.reason)),
        degradations=tuple(replace(each, detail=hide_places(each.detail)) for each in report.degradations),
        plan={**report.plan, **planned},
        errors=hide_places(report.errors),
    )
    plan = replace(turn.plan, reasons=tuple(hide_places(turn.plan.reasons)), tier1=hide_places(turn.plan.tier1))
    return replace(turn, report=shown, plan=plan)


def _shorten(found: re.Match[str]) -> str:
    text, quote = found[0], found["quote"] or ""
    if found["scheme"]:
        return f"{found['scheme']}://…"
    parts = re.split(r"[/\\]+", text.strip(quote).removeprefix("file://").rstrip("/\\"))
    if text.lstrip(quote).startswith(("/", "file:///")) and (len(parts) < 2 or parts[1] not in _ROOTS):
        return text
    return f"{quote}…/{parts[-1]}{quote}"

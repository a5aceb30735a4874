"""Operations on the turns of a session: prepared, answered, and read again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from jacquard.client.wire import SentTurn, encode_turn
from jacquard.config.sections import RuntimeConfig, list_credentials
from jacquard.config.settings import config_from_mapping
from jacquard.core.errors import BudgetExceededError, ConfigError, InputTooLargeError, WorldUnavailableError
from jacquard.pipeline.record.commit import CommitResult
from jacquard.service.http.operations import Call, Operation
from jacquard.service.values import Scope
from mnemosyne.core.errors import EvidenceNotFoundError, SessionNotFoundError, TurnNotFoundError, TurnNotPendingError
from mnemosyne.schema.session import Ref

ChatMessage = str | dict[str, Any]
"""A message: its text, or the object of a chat API (`role`, `content`, `tool_calls`…)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnRequest:
    """The input of a turn. `config` are settings for this turn alone, nested as in the settings file, over those of the service."""

    message: ChatMessage
    config: dict[str, Any] | None = None
    turn_id: str | None = None
    branch_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplyRequest:
    """A reply to the pending turn, or to the turn of an id."""

    message: ChatMessage
    refs: tuple[Ref, ...] = ()
    turn_id: str | None = None


async def prepare_turn(call: Call) -> bytes:
    """Prepare a turn."""
    sent = call.read(TurnRequest)
    turn = await call.runtime.engine.prepare_turn(
        call.ids["session_id"],
        sent.message,
        config_for(call, sent.config),
        turn_id=sent.turn_id or id_from_key(call, "turn"),
        branch_id=sent.branch_id,
    )
    return encode_turn(turn)


async def commit_reply(call: Call) -> CommitResult:
    """Commit a reply."""
    sent = call.read(ReplyRequest)
    return await call.runtime.engine.commit_assistant_message(
        call.ids["session_id"], sent.message, sent.refs or None, turn_id=sent.turn_id
    )


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


def id_from_key(call: Call, kind: str) -> str | None:
    """Return the id that an idempotency key gives what a call makes; None without a key."""
    if not call.key:
        return None
    parts = (kind, call.principal.tenant, call.principal.token_id, *call.ids.values(), call.key)
    return f"{kind}-{hashlib.sha256(chr(0).join(parts).encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


_SESSION = "/api/v1/sessions/{session_id}"
OPERATIONS = (
    Operation(
        name="prepare_turn",
        method="POST",
        path=f"{_SESSION}/turns",
        doc="Prepare a turn: the prompt for the main model, with its receipt.",
        run=prepare_turn,
        body=TurnRequest,
        answer=SentTurn,
        errors=(SessionNotFoundError, WorldUnavailableError, InputTooLargeError, BudgetExceededError),
    ),
    Operation(
        name="commit_assistant_message",
        method="POST",
        path=f"{_SESSION}/reply",
        doc="Commit the reply of the main model: its text, and its state ops all or none.",
        run=commit_reply,
        body=ReplyRequest,
        answer=CommitResult,
        errors=(TurnNotFoundError, TurnNotPendingError, EvidenceNotFoundError, InputTooLargeError),
    ),
)

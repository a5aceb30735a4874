"""Operations on the turns of a session: prepare, answer, and record events in between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jacquard.client.wire import SentTurn, encode_turn, message_from_wire
from jacquard.core.errors import (
    BudgetExceededError,
    ChunkConflictError,
    ConfigError,
    InputTooLargeError,
    MissingChunksError,
    ToolPairError,
    WorldUnavailableError,
)
from jacquard.pipeline.record.commit import CommitResult
from jacquard.pipeline.record.prepared_turn import PreparedTurn
from jacquard.service.host_paths import turn_for
from jacquard.service.http.call_settings import config_for, id_from_key, options_for
from jacquard.service.http.operation import INCLUDE, Call, Operation, Query
from jacquard.service.http.viewer_guard import check_author, check_left_turns, check_turn
from jacquard.turns.host.values import to_message
from mnemosyne.core.errors import EvidenceNotFoundError, SessionNotFoundError, TurnNotFoundError, TurnNotPendingError
from mnemosyne.schema.document import ModelUsage, ToolCall
from mnemosyne.schema.ingest import IngestOptions
from mnemosyne.schema.record import PutResult
from mnemosyne.schema.session import Ref

SentChatMessage = str | dict[str, Any]
"""A message: its text, the object of a chat API (`role`, `content`, `tool_calls`…), or a stored message with all its fields."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnRequest:
    """Input of a turn. `config` overrides the service's settings for this turn, nested as in the settings file.

    With `dry_run` nothing is written.
    """

    message: SentChatMessage
    config: dict[str, Any] | None = None
    turn_id: str | None = None
    branch_id: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class AgainRequest:
    """A turn to prepare again: `turn_id` for another reply to that turn (default: the newest)."""

    config: dict[str, Any] | None = None
    turn_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TailRequest:
    """The host's own tool calls and results, as messages of the OpenAI API, to follow the prompt of a turn."""

    tail: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptAnswer:
    """A prompt as messages of the OpenAI API."""

    messages: tuple[dict[str, Any], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplyRequest:
    """A reply to the pending turn, or to the turn of an id."""

    message: SentChatMessage
    refs: tuple[Ref, ...] | None = None
    turn_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkRequest:
    """A chunk of a reply, numbered from 0."""

    chunk: str
    chunk_index: int
    turn_id: str | None = None
    message_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class FinalizeRequest:
    """The end of a reply that came in chunks."""

    refs: tuple[Ref, ...] | None = None
    turn_id: str | None = None
    message_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class AbortRequest:
    """Reply whose chunks are to be dropped."""

    turn_id: str | None = None
    message_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class AbortAnswer:
    """Number of chunks that were dropped."""

    chunks: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCallRequest:
    """A tool call, with the ids of the evidence of its results or with the result itself."""

    tool_call: ToolCall
    result_evidence_ids: tuple[str, ...] | None = None
    result: str | None = None
    options: IngestOptions | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageRequest:
    """A call of a model, with the evidence of its answer."""

    model_usage: ModelUsage
    llm_output_evidence_id: str | None = None
    turn_id: str | None = None


async def prepare(call: Call) -> PreparedTurn:
    """Prepare a turn and return it unchanged."""
    sent = call.read(TurnRequest)
    turn_id = sent.turn_id or id_from_key(call, "turn")
    if turn_id is not None:
        await check_turn(call, turn_id)
    message = to_message(message_from_wire(sent.message))
    check_author(call, message)
    turn = await call.runtime.engine.prepare_turn(
        call.session_id,
        message,
        await config_for(call, sent.config),
        turn_id=turn_id,
        branch_id=sent.branch_id,
        dry_run=is_dry_run(call),
    )
    return await _checked(call, turn)


def is_dry_run(call: Call) -> bool:
    """Return whether a call of `prepare_turn` writes nothing."""
    return call.read(TurnRequest).dry_run or bool(call.query.get("dry_run"))


async def _checked(call: Call, turn: PreparedTurn) -> PreparedTurn:
    """Return a turn for the caller. Raises TurnNotFoundError if it is not of the viewer of the token: a turn that is there
    already is answered from its record, whoever it was made for.
    """
    await check_turn(call, turn.turn_id)
    return turn_for(call.principal, turn)


async def prepare_turn(call: Call) -> bytes:
    """Prepare a turn."""
    return encode_turn(await prepare(call), call.query["include"])


async def swipe(call: Call) -> bytes:
    """Prepare the input of a committed turn once more."""
    sent = call.read(AgainRequest)
    config = await config_for(call, sent.config)
    await check_turn(call, sent.turn_id, is_committed=True)
    if sent.turn_id is not None and call.principal.viewer is not None:
        again = await call.runtime.store.turn(call.session_id, sent.turn_id)
        await check_left_turns(call, again.parent_id)
    turn = await call.runtime.engine.swipe(call.session_id, config, turn_id=sent.turn_id)
    return encode_turn(await _checked(call, turn), call.query["include"])


async def retry(call: Call) -> bytes:
    """Prepare the newest input again; raises ConfigError if a turn id is given."""
    sent = call.read(AgainRequest)
    if sent.turn_id is not None:
        raise ConfigError("retry prepares the newest input; leave turn_id out, or call swipe.")
    await check_turn(call, None)
    turn = await call.runtime.engine.retry(call.session_id, await config_for(call, sent.config))
    return encode_turn(await _checked(call, turn), call.query["include"])


async def assemble(call: Call) -> PromptAnswer:
    """Return a prompt with a tail."""
    messages = await call.runtime.engine.assemble(call.session_id, call.ids["turn_id"], call.read(TailRequest).tail)
    return PromptAnswer(messages=tuple(messages))


async def commit_reply(call: Call) -> CommitResult:
    """Commit a reply."""
    sent = call.read(ReplyRequest)
    await check_turn(call, sent.turn_id)
    _check_key(call, sent.turn_id)
    return await call.runtime.engine.commit_assistant_message(
        call.session_id, message_from_wire(sent.message), sent.refs, turn_id=sent.turn_id
    )


def _check_key(call: Call, turn_id: str | None) -> None:
    """Raise ConfigError for a key without a turn: when it comes again, the reply would be taken for that to a later turn."""
    if call.key and turn_id is None:
        raise ConfigError("A reply with an idempotency key needs turn_id; name the turn that it answers.")


async def commit_chunk(call: Call) -> None:
    """Take in a chunk of a reply."""
    sent = call.read(ChunkRequest)
    await check_turn(call, sent.turn_id)
    await call.runtime.engine.commit_assistant_chunk(
        call.session_id, sent.chunk, sent.chunk_index, turn_id=sent.turn_id, message_id=sent.message_id
    )


async def finalize(call: Call) -> CommitResult:
    """Join the chunks of a reply and commit it."""
    sent = call.read(FinalizeRequest)
    await check_turn(call, sent.turn_id)
    _check_key(call, sent.turn_id)
    return await call.runtime.engine.finalize_assistant_message(
        call.session_id, sent.refs, turn_id=sent.turn_id, message_id=sent.message_id
    )


async def abort(call: Call) -> AbortAnswer:
    """Forget the chunks of a reply."""
    sent = call.read(AbortRequest)
    await check_turn(call, sent.turn_id)
    chunks = await call.runtime.engine.abort_assistant_message(
        call.session_id, turn_id=sent.turn_id, message_id=sent.message_id
    )
    return AbortAnswer(chunks=chunks)


async def record_tool_call(call: Call) -> PutResult:
    """Write a tool call."""
    sent = call.read(ToolCallRequest)
    options = options_for(call, sent.options)
    return await call.runtime.engine.record_tool_call(
        call.session_id, sent.tool_call, sent.result_evidence_ids, result=sent.result, options=options
    )


async def record_usage(call: Call) -> PutResult:
    """Write a call of a model."""
    sent = call.read(UsageRequest)
    return await call.runtime.engine.record_model_usage(
        call.session_id, sent.model_usage, sent.llm_output_evidence_id, turn_id=sent.turn_id
    )


_SESSION = "/api/v1/sessions/{session_id}"
_TURN_ERRORS = (SessionNotFoundError, WorldUnavailableError, InputTooLargeError, BudgetExceededError)
_REPLY_ERRORS = (TurnNotFoundError, TurnNotPendingError, EvidenceNotFoundError, InputTooLargeError)
OPERATIONS = (
    Operation(
        name="prepare_turn",
        method="POST",
        path=f"{_SESSION}/turns",
        doc="Prepare a turn: the prompt for the main model, with a short report.",
        run=prepare_turn,
        body=TurnRequest,
        answer=SentTurn,
        is_dry=is_dry_run,
        query=(
            INCLUDE,
            Query(name="dry_run", kind=bool, doc="As `dry_run` of the body: nothing is written.", default=False),
        ),
        errors=_TURN_ERRORS,
        open_to_viewers=True,
    ),
    Operation(
        name="swipe",
        method="POST",
        path=f"{_SESSION}/swipe",
        doc="Prepare the input of a committed turn once more, on a new branch, for another reply.",
        run=swipe,
        body=AgainRequest,
        answer=SentTurn,
        query=(INCLUDE,),
        errors=(TurnNotFoundError, *_TURN_ERRORS),
        open_to_viewers=True,
        is_repeatable=False,
    ),
    Operation(
        name="retry",
        method="POST",
        path=f"{_SESSION}/retry",
        doc="Prepare the newest input again: that of the turn that waits for its reply, or else as `swipe` does.",
        run=retry,
        body=AgainRequest,
        answer=SentTurn,
        query=(INCLUDE,),
        errors=(TurnNotFoundError, *_TURN_ERRORS),
        open_to_viewers=True,
    ),
    Operation(
        name="assemble",
        method="POST",
        path=f"{_SESSION}/turns/{{turn_id}}/assemble",
        doc="Return the prompt of a prepared turn again, followed by the host's own tool calls and results.",
        run=assemble,
        body=TailRequest,
        answer=PromptAnswer,
        errors=(TurnNotFoundError, ToolPairError, BudgetExceededError),
    ),
    Operation(
        name="commit_assistant_message",
        method="POST",
        path=f"{_SESSION}/reply",
        doc="Commit the reply of the main model: its text, and its state ops all or none.",
        run=commit_reply,
        body=ReplyRequest,
        answer=CommitResult,
        errors=_REPLY_ERRORS,
        open_to_viewers=True,
    ),
    Operation(
        name="commit_assistant_chunk",
        method="POST",
        path=f"{_SESSION}/reply/chunks",
        doc="Take in a chunk of the reply; nothing is written before it is whole.",
        run=commit_chunk,
        body=ChunkRequest,
        errors=(ChunkConflictError, TurnNotFoundError, InputTooLargeError),
        open_to_viewers=True,
        in_one_process=True,
    ),
    Operation(
        name="finalize_assistant_message",
        method="POST",
        path=f"{_SESSION}/reply/finalize",
        doc="Join the chunks of a reply and commit it.",
        run=finalize,
        body=FinalizeRequest,
        answer=CommitResult,
        errors=(MissingChunksError, *_REPLY_ERRORS),
        open_to_viewers=True,
        in_one_process=True,
    ),
    Operation(
        name="abort_assistant_message",
        method="POST",
        path=f"{_SESSION}/reply/abort",
        doc="Forget the chunks of a reply; the turn stays pending.",
        run=abort,
        body=AbortRequest,
        answer=AbortAnswer,
        errors=(TurnNotFoundError,),
        open_to_viewers=True,
        in_one_process=True,
    ),
    Operation(
        name="record_tool_call",
        method="POST",
        path=f"{_SESSION}/tool-calls",
        doc="Write a tool call, linked both ways with the evidence of its results.",
        run=record_tool_call,
        body=ToolCallRequest,
        answer=PutResult,
        errors=(SessionNotFoundError, EvidenceNotFoundError, InputTooLargeError),
    ),
    Operation(
        name="record_model_usage",
        method="POST",
        path=f"{_SESSION}/model-usages",
        doc="Write a call of a model; what the provider reported corrects the token estimate of later turns.",
        run=record_usage,
        body=UsageRequest,
        answer=PutResult,
        errors=(SessionNotFoundError, EvidenceNotFoundError, TurnNotFoundError),
    ),
)

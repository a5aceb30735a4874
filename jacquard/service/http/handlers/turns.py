"""Handlers for turns: preparing a prompt, committing the reply, and recording tool calls in between."""

from __future__ import annotations

from anyio import to_thread

from jacquard.authoring.pack_files import change_world
from jacquard.core.errors import (
    ConfigError,
)
from jacquard.pipeline.record.commit import CommitResult
from jacquard.pipeline.record.prepared_turn import PreparedTurn
from jacquard.remote.bodies import (
    AbortAnswer,
    AbortRequest,
    AgainRequest,
    ChunkRequest,
    EstimateAnswer,
    EstimateRequest,
    FinalizeRequest,
    PromptAnswer,
    ReplyRequest,
    TailRequest,
    ToolCallRequest,
    TurnRequest,
)
from jacquard.remote.wire import encode_turn, message_from_wire
from jacquard.service.host_paths import turn_for
from jacquard.service.http.call import Call, handles
from jacquard.service.http.call_settings import config_for, id_from_key, options_for
from jacquard.service.http.handlers.world_files import find_folder
from jacquard.service.http.viewer_guard import check_author, check_left_turns, check_turn
from jacquard.service.values import Scope
from jacquard.turns.host.values import to_message
from mnemosyne.schema.record import PutResult
from mnemosyne.schema.session import Message
from mnemosyne.world.pack_json import with_own_digest


async def prepare(call: Call) -> PreparedTurn:
    """Prepare a turn and return it as a value, not yet encoded as JSON."""
    sent = call.read(TurnRequest)
    turn_id = sent.turn_id or id_from_key(call, "turn")
    if turn_id is not None:
        await check_turn(call, turn_id)
    message = to_message(message_from_wire(sent.message))
    check_author(call, message)
    if sent.files:
        return await _checked(call, await _prepare_with_files(call, sent, message))
    turn = await call.runtime.engine.prepare_turn(
        call.session_id,
        message,
        await config_for(call, sent.config),
        turn_id=turn_id,
        branch_id=sent.branch_id,
        dry_run=call.is_dry_run,
    )
    return await _checked(call, turn)


async def _prepare_with_files(call: Call, sent: TurnRequest, message: Message) -> PreparedTurn:
    """Return a turn as it would be with other texts of some files of its world. Nothing is written.

    Raises ConfigError if the call is not a dry run, or if its token may not read the files of a world.
    """
    if not call.is_dry_run:
        raise ConfigError("files: unsaved texts serve a dry run only; store them (`put_world_files`), or set dry_run.")
    if not call.principal.allows(Scope.AUTHOR) or call.principal.viewer is not None:
        raise ConfigError("files: unsaved texts of a world need a token of scope author that is bound to no viewer.")
    world, config = await call.runtime.world_of(call.session_id), await config_for(call, sent.config)
    changed = await to_thread.run_sync(change_world, world, find_folder(call, world), sent.files)
    async with call.runtime.overlay() as runtime:
        await runtime.engine.worlds.store_pack(await to_thread.run_sync(with_own_digest, changed))
        return await runtime.engine.prepare_turn(
            call.session_id, message, config, turn_id=sent.turn_id, branch_id=sent.branch_id
        )


async def _checked(call: Call, turn: PreparedTurn) -> PreparedTurn:
    """Return a turn for the caller. Raises TurnNotFoundError if it is not of the viewer of the token: a turn that is there
    already is answered from its record, whoever it was made for.
    """
    await check_turn(call, turn.turn_id)
    return turn_for(call.principal, turn)


@handles
async def prepare_turn(call: Call) -> bytes:
    """Prepare a turn and return it as JSON."""
    return encode_turn(await prepare(call), call.query["include"])


@handles
async def swipe(call: Call) -> bytes:
    """Prepare the input of a committed turn again, for another reply. If the call names no turn, the newest turn is
    prepared again.
    """
    sent = call.read(AgainRequest)
    config = await config_for(call, sent.config)
    await check_turn(call, sent.turn_id, is_committed=True)
    if sent.turn_id is not None and call.principal.viewer is not None:
        again = await call.runtime.store.turn(call.session_id, sent.turn_id)
        await check_left_turns(call, again.parent_id)
    turn = await call.runtime.engine.swipe(call.session_id, config, turn_id=sent.turn_id)
    return encode_turn(await _checked(call, turn), call.query["include"])


@handles
async def retry(call: Call) -> bytes:
    """Prepare the newest input again. Raises ConfigError if the request names a turn; `swipe` takes one."""
    sent = call.read(AgainRequest)
    if sent.turn_id is not None:
        raise ConfigError("retry prepares the newest input; leave turn_id out, or call swipe.")
    await check_turn(call, None)
    turn = await call.runtime.engine.retry(call.session_id, await config_for(call, sent.config))
    return encode_turn(await _checked(call, turn), call.query["include"])


@handles
async def assemble(call: Call) -> PromptAnswer:
    """Return the prompt of a turn together with its tail: the tool calls and results that follow it."""
    messages = await call.runtime.engine.assemble(call.session_id, call.ids["turn_id"], call.read(TailRequest).tail)
    return PromptAnswer(messages=messages)


@handles
async def commit_assistant_message(call: Call) -> CommitResult:
    """Commit the reply to a turn."""
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


@handles
async def commit_assistant_chunk(call: Call) -> None:
    """Store a chunk of a reply that is not complete yet."""
    sent = call.read(ChunkRequest)
    await check_turn(call, sent.turn_id)
    await call.runtime.engine.commit_assistant_chunk(
        call.session_id, sent.chunk, sent.chunk_index, turn_id=sent.turn_id, message_id=sent.message_id
    )


@handles
async def finalize_assistant_message(call: Call) -> CommitResult:
    """Join the chunks of a reply, and commit the reply."""
    sent = call.read(FinalizeRequest)
    await check_turn(call, sent.turn_id)
    _check_key(call, sent.turn_id)
    return await call.runtime.engine.finalize_assistant_message(
        call.session_id, sent.refs, turn_id=sent.turn_id, message_id=sent.message_id
    )


@handles
async def abort_assistant_message(call: Call) -> AbortAnswer:
    """Drop the stored chunks of a reply."""
    sent = call.read(AbortRequest)
    await check_turn(call, sent.turn_id)
    chunks = await call.runtime.engine.abort_assistant_message(
        call.session_id, turn_id=sent.turn_id, message_id=sent.message_id
    )
    return AbortAnswer(chunks=chunks)


@handles
async def record_tool_call(call: Call) -> PutResult:
    """Record a tool call with its result."""
    sent = call.read(ToolCallRequest)
    options = options_for(call, sent.options)
    return await call.runtime.engine.record_tool_call(
        call.session_id, sent.tool_call, sent.result_evidence_ids, result=sent.result, options=options
    )


@handles
async def estimate_messages(call: Call) -> EstimateAnswer:
    """Count the tokens of messages. Raises ConfigError if the content of a message is neither text nor a list of parts."""
    sent = call.read(EstimateRequest)
    if any(not isinstance(each.get("content", ""), str | list) for each in sent.messages):
        raise ConfigError("A message has a content that is neither text nor a list of parts.")
    return EstimateAnswer(tokens=await call.runtime.engine.estimate_messages(sent.messages, sent.model_hint))

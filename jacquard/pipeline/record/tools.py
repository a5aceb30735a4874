"""Records the work of a host in a session: tool calls, model calls and tasks.

A recorded call names the evidence of its result, and this evidence names the call. Call each function only while the
session is locked. This module must not import a concrete store.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from jacquard.core.block_kinds import EVIDENCE_SOURCE
from jacquard.core.calibration import add_token_counts
from jacquard.core.degradations import DegradationCode
from jacquard.core.errors import ConfigError
from jacquard.pipeline.record.evidence import place_in_turn
from mnemosyne.chains.uris import EntryAddress, EvidenceAddress, parse_uri
from mnemosyne.core.codec import check_times, decode, encode
from mnemosyne.core.errors import CodecError, EvidenceNotFoundError, RedactionError, UriError
from mnemosyne.documents.views import TURN_ID
from mnemosyne.evidence.documents import is_document
from mnemosyne.protocols import Redactor, Store, TokenEstimator
from mnemosyne.schema.document import ModelUsage, ModelUsageStage, Task, ToolCall, ToolCallStatus, ToolType
from mnemosyne.schema.evidence import Evidence
from mnemosyne.schema.record import PutResult, SessionWindow, TurnRecord
from mnemosyne.schema.session import Ref, Role
from mnemosyne.values import dataclass

WITHHELD = "[withheld: redaction failed]"


@dataclass(frozen=True, kw_only=True, slots=True)
class ContinuedCall:
    """Tool call to be stored, joined with its beginning."""

    call: ToolCall
    was_begun: bool = False
    """True if the beginning of the call was recorded earlier, and `call` is its end."""
    is_known: bool = False
    """True if the host recorded the beginning of a call that is stored already. Then nothing needs to be stored."""


async def require_evidence(store: Store, session_id: str, evidence_ids: Sequence[str]) -> tuple[Evidence, ...]:
    """Return the evidence items with these ids.

    Raises EvidenceNotFoundError if the session lacks one of the items.
    """
    found: list[Evidence] = []
    for evidence_id in dict.fromkeys(evidence_ids):
        evidence = await store.get_evidence(session_id, evidence_id)
        if evidence is None:
            raise EvidenceNotFoundError(session_id, evidence_id)
        found.append(evidence)
    return tuple(found)


async def resolve_refs(store: Store, session_id: str, refs: Sequence[Ref]) -> tuple[Ref, ...]:
    """Return `refs`, changed so that each ref names evidence of the session by its id.

    A ref in `refs` may name the evidence by its id, by its block in a context package (`evidence:ID`), or by its
    address (`mnemosyne://…`). Remote refs are returned unchanged. Raises EvidenceNotFoundError if the session does not
    have the evidence.
    """
    resolved = []
    for ref in refs:
        if ref.remote:
            resolved.append(ref)
            continue
        names = [ref.evidence_id, ref.evidence_id.removeprefix(EVIDENCE_SOURCE)]
        with suppress(UriError):
            address = parse_uri(ref.evidence_id)
            names += [address.evidence_id] if isinstance(address, EvidenceAddress) else []
            names += [address.entry_id] if isinstance(address, EntryAddress) else []
        for name in dict.fromkeys(names):
            if await store.get_evidence(session_id, name) is not None:
                resolved.append(replace(ref, evidence_id=name))
                break
        else:
            raise EvidenceNotFoundError(session_id, ref.evidence_id)
    return tuple(resolved)


async def check_tool_call(
    store: Store, session_id: str, call: ToolCall, result_evidence_ids: Sequence[str], result: object
) -> ToolCall:
    """Return `call` with its arguments as plain JSON values (times and Decimals become texts). `result_evidence_ids`
    and `result` are only checked.

    All faults of the call are found here, before anything is written.

    Raises:
        ConfigError: the id is empty, the result is not a text, the arguments have no JSON form, or a time has no time zone.
        EvidenceNotFoundError: the session does not have one of the evidence items that the call names.
    """
    _require_id(call.tool_call_id, "tool_call_id")
    if result is not None and not isinstance(result, str):
        kind = type(result).__name__
        raise ConfigError(
            f"The result of tool call {call.tool_call_id!r} is a {kind}; give its text, as JSON for example."
        )
    await require_evidence(store, session_id, (*call.result_evidence_ids, *result_evidence_ids))
    try:
        check_times(call.called_at)
        plain = decode(encode(call.args_digest), dict)
        encode(call)
    except CodecError as error:
        raise ConfigError(f"Tool call {call.tool_call_id!r} cannot be stored. {error} Nothing was written.") from None
    return replace(call, args_digest=plain)


async def continue_tool_call(store: Store, session_id: str, call: ToolCall, now: datetime) -> ContinuedCall:
    """Return `call` joined with its stored beginning, if there is one. `now` is the present time.

    A host records a call once with the status RUNNING (its beginning), and again when it is done (its end). Fields that the end
    leaves out are taken from the beginning. The duration is the time since the beginning, unless the end states one. A beginning
    of a call that is already stored changes nothing. Raises ConfigError if a beginning has a result.
    """
    is_running = call.status is ToolCallStatus.RUNNING
    if is_running and call.result_evidence_ids:
        raise ConfigError(
            f"Tool call {call.tool_call_id!r} is running and has a result; record its end with the result."
        )
    stored = await _find_tool_call(store, session_id, call.tool_call_id)
    if is_running:
        begun = call if call.called_at is not None else replace(call, called_at=now)
        return ContinuedCall(call=stored or begun, is_known=stored is not None)
    if stored is None or stored.status is not ToolCallStatus.RUNNING:
        return ContinuedCall(call=call)
    called_at = call.called_at or stored.called_at
    passed = 0 if called_at is None else max(round((now - called_at).total_seconds() * 1000), 0)
    whole = replace(
        call,
        tool=call.tool or stored.tool,
        provider=call.provider or stored.provider,
        type=stored.type if call.type is ToolType.TOOL else call.type,
        called_at=called_at,
        args_digest=call.args_digest or stored.args_digest,
        duration_ms=call.duration_ms or passed,
        task_id=call.task_id or stored.task_id,
        extra={**stored.extra, **call.extra},
    )
    return ContinuedCall(call=whole, was_begun=True)


async def _find_tool_call(store: Store, session_id: str, tool_call_id: str) -> ToolCall | None:
    # A store of a host may be older than this method of the Protocol.
    find = getattr(store, "tool_call", None) or partial(Store.tool_call, store)
    found: ToolCall | None = await find(session_id, tool_call_id)
    return found


async def record_tool_call(
    store: Store,
    session_id: str,
    call: ToolCall,
    result_evidence_ids: Sequence[str],
    redactor: Redactor | None,
    turn: TurnRecord | None = None,
) -> tuple[PutResult, tuple[str, ...]]:
    """Store a call with links to its results, its turn and its task, and link the results back to the call.

    A result that belongs to no call and no turn yet becomes evidence of `turn`, unless it is a document. Arguments are
    redacted by `redactor` (None: they are stored unchanged). Return (done, codes): the result of the write, and the
    codes of degradations in the redaction. Raises EvidenceNotFoundError if the session does not have one of the
    results. Raises ConfigError if the id of the call is empty.
    """
    _require_id(call.tool_call_id, "tool_call_id")
    ids = tuple(dict.fromkeys((*call.result_evidence_ids, *result_evidence_ids)))
    results = await require_evidence(store, session_id, ids)
    digest, degraded = await _redact_arguments(call.args_digest, redactor)
    for evidence in results:
        if evidence.links.tool_call_id is None:
            links, metadata = replace(evidence.links, tool_call_id=call.tool_call_id), evidence.metadata
            if links.turn_id is None and (turn is None or is_document(evidence)):
                links = replace(links, turn_id="")
            elif links.turn_id is None and turn is not None:
                links, metadata = place_in_turn(turn, links, metadata)
            await store.put_evidence(session_id, replace(evidence, links=links, metadata=metadata))
    if call.task_id is not None and ids:
        window = await store.window(session_id, message_limit=1)
        tasks = [_add_results(task, ids) for task in window.tasks if task.task_id == call.task_id]
        await store.upsert_tasks(session_id, tasks)
    if turn is not None:
        call = replace(call, extra={**call.extra, TURN_ID: turn.turn_id})
    done = await store.append_tool_calls(session_id, [replace(call, result_evidence_ids=ids, args_digest=digest)])
    return done, (DegradationCode.REDACTION_FAILED.value,) if degraded else ()


async def record_model_usage(
    store: Store,
    session_id: str,
    usage: ModelUsage,
    llm_output_evidence_id: str | None,
    turn_id: str | None,
    estimator: TokenEstimator,
) -> PutResult:
    """Store a model call with its turn and our token estimates. If `llm_output_evidence_id` names the evidence of the
    call's answer, this evidence is linked with the call.

    The turn is `turn_id`, or else the pending turn, or else the last turn. Raises EvidenceNotFoundError if the session does not
    have the evidence of the answer. Raises ConfigError if the id of the call is empty.
    """
    _require_id(usage.model_usage_id, "model_usage_id")
    if llm_output_evidence_id is not None:
        (evidence,) = await require_evidence(store, session_id, [llm_output_evidence_id])
        if evidence.links.model_usage_id is None:
            links = replace(evidence.links, model_usage_id=usage.model_usage_id)
            await store.put_evidence(session_id, replace(evidence, links=links))
    window = await store.window(session_id, message_limit=1)
    record = await store.turn(session_id, turn_id) if turn_id is not None else _find_usage_turn(window, usage)
    prompt_tokens, reply_tokens = (
        _estimates(record, estimator) if usage.stage is ModelUsageStage.ANSWER else (None, None)
    )
    counted = add_token_counts(usage, prompt_tokens, reply_tokens, turn_id=record.turn_id if record else None)
    return await store.append_model_usage(session_id, [counted])


def check_tasks(tasks: Sequence[Task], known: Sequence[Task]) -> None:
    """Check `tasks` before they are stored. `known` are the tasks that the session has already.

    Raises ConfigError if a task has no id, depends on an unknown task, or depends on itself through other tasks.
    """
    whole = {task.task_id: task for task in (*known, *tasks)}
    for task in tasks:
        _require_id(task.task_id, "task_id")
        for other in task.depends_on:
            if other not in whole:
                raise ConfigError(f"Task {task.task_id!r} depends on {other!r}, which is not a task of this session.")
    for task in tasks:
        if task.task_id in _ancestors(task.task_id, whole):
            raise ConfigError(f"Task {task.task_id!r} depends on itself by way of other tasks; take one step out.")


def _ancestors(task_id: str, whole: Mapping[str, Task]) -> set[str]:
    seen: set[str] = set()
    waiting = list(whole[task_id].depends_on)
    while waiting:
        name = waiting.pop()
        if name not in seen and name in whole:
            seen.add(name)
            waiting.extend(whole[name].depends_on)
    return seen


def _find_usage_turn(window: SessionWindow, usage: ModelUsage) -> TurnRecord | None:
    """Return the turn of a model call: the pending one, else the last one."""
    return window.pending or window.previous


def _estimates(record: TurnRecord | None, estimator: TokenEstimator) -> tuple[int | None, int | None]:
    if record is None or record.receipt is None:
        return None, None
    used = record.receipt.get("budget", {}).get("used_tokens")
    reply = "".join(message.content for message in record.messages if message.role is Role.ASSISTANT)
    raw = (record.report or {}).get("raw", reply)
    return (used if isinstance(used, int) else None), estimator.estimate(str(raw)) if raw else None


def _add_results(task: Task, evidence_ids: Sequence[str]) -> Task:
    return replace(task, result_evidence_ids=tuple(dict.fromkeys((*task.result_evidence_ids, *evidence_ids))))


def _require_id(value: str, name: str) -> None:
    if not value.strip():
        raise ConfigError(f"{name} is empty; give an id that stays the same when the call is recorded again.")


async def _redact_arguments(digest: Mapping[str, Any], redactor: Redactor | None) -> tuple[Mapping[str, Any], bool]:
    """Return the arguments without data that must not be stored; if they cannot be searched, they are withheld (fail closed)."""
    if redactor is None or not digest:
        return digest, False
    try:
        cleaned = await redactor.redact(json.dumps(digest, ensure_ascii=False))
        value = json.loads(cleaned.redacted_text)
    except (RedactionError, ValueError):
        return dict.fromkeys(digest, WITHHELD), True
    return (value, False) if isinstance(value, dict) else (dict.fromkeys(digest, WITHHELD), True)

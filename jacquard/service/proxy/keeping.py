"""Makes a turn of each call of a chat client: prepares the turn before the model server is called, and commits the
reply after that.

If preparing or committing fails, the client still gets the answer of the model server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from itertools import islice
from urllib.parse import quote
from weakref import WeakValueDictionary

import anyio

from jacquard.authoring.replay.model_calls import STOP_REASON
from jacquard.config.experiments import apply_experiments
from jacquard.config.service import ProxySettings
from jacquard.core.calibration import ESTIMATED
from jacquard.integrations.core.adapter import COUNTED, REPORTED_WITH_MORE
from jacquard.integrations.core.mapping import read_arguments
from jacquard.pipeline.record.prepared_turn import PreparedTurn, turn_from_record
from jacquard.pipeline.record.stored_turn import report_of, viewer_of
from jacquard.service.proxy.alignment import Decision, is_asked_again
from jacquard.service.proxy.conversation import MESSAGE_CHARS, CallMessages, read_said
from jacquard.service.proxy.message_forms import form_of
from jacquard.service.proxy.our_text import (
    MOST_OF_CUT,
    MOST_SHOWN,
    ClientCall,
    record_again,
    settings_for,
    take_our_text,
)
from jacquard.service.proxy.placing import ensure_session, goes_on_with_reply, place
from jacquard.service.proxy.replies.answers import AnswerReader
from jacquard.service.proxy.requests.chat_request import ChatRequest, OurText, text_of
from jacquard.service.proxy.stored_paths import find_session
from jacquard.service.tenants import TenantRuntimes
from jacquard.service.values import Principal
from jacquard.templating.profiles import ReplyForm
from jacquard.turns.engine import ContextEngine
from jacquard.turns.record import amend_sent
from jacquard.turns.writing.branches import find_input
from jacquard.wiring.runtime import Runtime
from mnemosyne.core.errors import SessionNotFoundError
from mnemosyne.core.masking.call_logs import open_log
from mnemosyne.core.off_loop import calculate
from mnemosyne.formats.worlds.pack import authors_note_of
from mnemosyne.schema.document import ModelUsage, ModelUsageStage, ToolCall
from mnemosyne.schema.record import TurnRecord
from mnemosyne.schema.session import Message, Role
from mnemosyne.values import dataclass

_log = open_log(__name__)
FRAMEWORK = "proxy"


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptTurn:
    """Turn that was prepared for a call. `ours` is the text that is added to the client's messages."""

    session_id: str
    turn_id: str
    ours: OurText
    reply_form: ReplyForm
    call: int
    """Number of this model call in the turn, counted from 1. It is above 1 if the model has called tools."""
    reply: str | None = None
    """Reply that the engine gives without a model (None: a model answers)."""
    degraded: tuple[str, ...] = ()
    """Degradation codes: they name what failed or was left out while the turn was prepared."""
    decision: Decision = field(default_factory=Decision)
    sent_tokens: int = 0
    """Tokens of the first call as our estimator counts them; 0 if they were not counted."""

    @property
    def address(self) -> str:
        """Path of the turn in the HTTP interface of this service."""
        return f"/api/v1/sessions/{quote(self.session_id, safe='')}/turns/{quote(self.turn_id, safe='')}"


@dataclass(frozen=True, kw_only=True, slots=True)
class CallTimes:
    """Times of an answer in milliseconds from the call of the model server.

    `first_ms` is the time to the first word of the answer (None: there was no word). `whole_ms` is the time to the end
    of the answer.
    """

    first_ms: int | None
    whole_ms: int


class TurnKeeper:
    """Prepares and commits the turns of calls, on the runtime of the caller's tenant."""

    def __init__(self, settings: ProxySettings, tenants: TenantRuntimes) -> None:
        self._settings, self._tenants = settings, tenants
        # Held only during a call, so that two calls do not move a session at the same time.
        self._locks: WeakValueDictionary[tuple[str, str], anyio.Lock] = WeakValueDictionary()

    async def begin(self, principal: Principal, headers: Mapping[str, str], request: ChatRequest) -> KeptTurn | None:
        """Move the session to the position that the client's messages show, prepare the turn, and return it.

        Return None if the call asks the model to continue its own last reply. The next call of the client shows the
        whole reply, which is stored then. Raises TimeoutError if preparing takes longer than `prepare_seconds`. Errors
        of the engine pass through.
        """
        with anyio.fail_after(self._settings.prepare_seconds):
            said = await read_said(headers, request, principal.viewer)
            async with self._tenants.use(principal.tenant) as runtime:
                session_id = said.named or await find_session(runtime, said)
                lock = self._locks.setdefault((principal.tenant, session_id), anyio.Lock())
                async with lock:
                    if request.continues and await goes_on_with_reply(runtime, session_id, said, request.beginnings):
                        return None
                    turn, ours, decision = await self._begin(runtime, principal, session_id, request, said)
        answered = sum(each.get("role") == "assistant" for each in request.tail)
        return KeptTurn(
            session_id=session_id,
            turn_id=turn.turn_id,
            ours=ours,
            reply_form=turn.reply_form,
            call=answered + 1,
            reply=turn.reply,
            degraded=tuple(dict.fromkeys(each.code for each in turn.report.degradations)),
            decision=decision,
            sent_tokens=0 if (sent := turn.report.sent) is None else sent.client_tokens + sent.our_tokens,
        )

    async def _begin(
        self, runtime: Runtime, principal: Principal, session_id: str, request: ChatRequest, said: CallMessages
    ) -> tuple[PreparedTurn, OurText, Decision]:
        waiting = await self._find_waiting(runtime, session_id, request, said)
        # Results of tools continue a turn; a call that only looks like that begins one.
        counted = "prepare_turn" if waiting is None else "record_tool_call"
        await self._tenants.quotas.check(counted, principal.tenant, runtime.store)
        await ensure_session(runtime, session_id)
        turn, ours, decision = waiting or await self._prepare(runtime, session_id, request, said)
        if request.tail:
            await _record_tools(runtime, session_id, turn.turn_id, request)
        return turn, ours, decision

    async def text_of_newest_turn(
        self, principal: Principal, headers: Mapping[str, str], request: ChatRequest
    ) -> OurText:
        """Return the text that was added to the call of the newest turn. Return an empty text if the newest turn does
        not answer the user's newest message.

        Raises TimeoutError if the work takes longer than `prepare_seconds`. Errors of the engine pass through.
        """
        with anyio.fail_after(self._settings.prepare_seconds):
            said = await read_said(headers, request, principal.viewer)
            async with self._tenants.use(principal.tenant) as runtime:
                session_id = said.named or await find_session(runtime, said)
                head = await runtime.store.head(session_id)
                record = None if head.turn_id is None else await runtime.store.turn(session_id, head.turn_id)
                is_answer = record is not None and _answers(record, runtime, said)
                return take_our_text(report_of(record)) if record is not None and is_answer else OurText()

    async def _prepare(
        self, runtime: Runtime, session_id: str, request: ChatRequest, said: CallMessages
    ) -> tuple[PreparedTurn, OurText, Decision]:
        engine = runtime.engine
        placed = await place(runtime, session_id, said)
        has_state = bool((await runtime.store.window(session_id, message_limit=1)).state)
        shown = min(placed.shown, MOST_OF_CUT if placed.is_cut else MOST_SHOWN)
        count = shown + len(request.messages) - (request.last_user or 0)
        newest = (each for each in reversed(request.messages) if each.get("role") in ("user", "assistant"))
        plain = [{"role": each["role"], "content": text_of(each.get("content"))} for each in islice(newest, count)]
        tokens = await engine.estimate_messages(plain)
        config = settings_for(
            # Arms of experiments come first, so that none replaces a setting that the proxy or its viewer needs.
            apply_experiments(engine.config, session_id),
            viewer=said.viewer,
            has_state=has_state,
            is_cut=placed.is_cut,
            shown=shown,
            shown_turns=placed.shown_turns,
            shown_tokens=tokens + 16,
            our_tokens=self._settings.max_tokens,
        )
        call = ClientCall(
            request=request,
            most_tokens=self._settings.max_tokens,
            has_state=has_state,
            is_cut=placed.is_cut,
            count=engine.parts.estimator.estimate,
            note=authors_note_of(await runtime.world_of(session_id)),
            alignment=placed.decision.sentences,
        )
        if placed.again_turn is not None:
            turn = await engine.swipe(session_id, config, turn_id=placed.again_turn, finish=call.record)
        else:
            turn = await engine.prepare_turn(session_id, placed.user, config, finish=call.record)
        return turn, take_our_text(turn.report), placed.decision

    async def _find_waiting(
        self, runtime: Runtime, session_id: str, request: ChatRequest, said: CallMessages
    ) -> tuple[PreparedTurn, OurText, Decision] | None:
        """Return the turn that a call with tool results continues: its text is the same as in its first call."""
        if not request.tail or request.last_user is None:
            return None
        try:
            pending = (await runtime.store.window(session_id, message_limit=1)).pending
        except SessionNotFoundError:
            return None
        if pending is None or not _answers(pending, runtime, said):
            return None
        turn = turn_from_record(pending, 0)
        return turn, take_our_text(turn.report), Decision()

    async def keep(
        self,
        principal: Principal,
        turn: KeptTurn,
        answer: AnswerReader,
        times: CallTimes,
        *,
        is_whole: bool,
        again: ChatRequest | None = None,
    ) -> None:
        """Commit the reply of `turn` that `answer` has read, and record the cost of the model call. If the reply was
        cut off (`is_whole` is False), commit the part that the client saw.

        If the answer calls tools, there is no reply yet, and the turn waits for the results. `again` is the repeated
        call that was answered, if the model server refused the first form of the call (None: it was not repeated).
        Errors are only logged.
        """
        try:
            async with self._tenants.use(principal.tenant) as runtime:
                engine = runtime.engine
                if again is not None and answer.has_begun:
                    await _amend_sent(engine, turn, again)
                if answer.usage or answer.has_begun:
                    estimate = engine.parts.estimator.estimate
                    words = 0 if answer.usage else await calculate(estimate, answer.raw, size=len(answer.raw))
                    usage = _usage_of(turn, answer, times, words)
                    await engine.record_model_usage(turn.session_id, usage, turn_id=turn.turn_id)
                said = answer.raw if is_whole else answer.shown
                if said.strip() and not answer.calls_tools:
                    reply = Message(role=Role.ASSISTANT, content=said)
                    await engine.commit_assistant_message(turn.session_id, reply, turn_id=turn.turn_id)
        except Exception as error:
            _log.warning("proxy: a reply could not be kept (%s)", type(error).__name__)


async def _amend_sent(engine: ContextEngine, turn: KeptTurn, request: ChatRequest) -> None:
    """Update the receipt of a turn with the messages actually sent; this call is the one whose answer has begun."""
    record = await engine.parts.store.turn(turn.session_id, turn.turn_id)
    count = engine.parts.estimator.estimate
    size = MESSAGE_CHARS * len(request.messages)
    changed = await calculate(record_again, turn_from_record(record, 0), request, count, size=size)
    await amend_sent(engine.parts, changed)


def _answers(record: TurnRecord, runtime: Runtime, said: CallMessages) -> bool:
    """Return whether a turn answers the user's newest message for the viewer of a call, so that the call may get its text."""
    viewer = said.viewer or apply_experiments(runtime.engine.config, record.session_id).viewer
    if record.prompt is None or viewer_of(record) != viewer:
        return False
    asked = find_input(record)
    return asked is not None and is_asked_again(said.user_form, form_of(asked))


async def _record_tools(runtime: Runtime, session_id: str, turn_id: str, request: ChatRequest) -> None:
    """Record the tool calls whose results this call contains: those after the assistant's newest message."""
    tail = request.tail
    newest = max(at for at, each in enumerate(tail) if each.get("role") == "tool")
    asked = [at for at in range(newest) if tail[at].get("role") == "assistant"]
    if not asked:
        return
    calls = [call for call in tail[asked[-1]].get("tool_calls") or () if isinstance(call, dict)]
    by_id = {str(call["id"]): call for call in calls if call.get("id")}
    brought = sum(each.get("role") == "tool" for each in tail[asked[-1] + 1 :])
    results = list(request.results)[-brought:]
    for number, (call_id, each) in enumerate(results):
        told = each.get("tool_call_id")
        # If either has no id, a result belongs to the call at its place.
        answered = by_id.get(str(told)) if told and by_id else next(iter(calls[number:]), None)
        function = {} if answered is None else answered.get("function") or {}
        if answered is None or not isinstance(function, dict):
            continue
        call = ToolCall(
            tool_call_id=f"{turn_id}.{call_id}",
            tool=str(function.get("name") or "tool"),
            args_digest=read_arguments(function.get("arguments")),
            called_at=runtime.engine.parts.clock.now(),
            extra={"call_id": call_id, "framework": FRAMEWORK, "turn_id": turn_id},
        )
        await runtime.engine.record_tool_call(session_id, call, result=text_of(each.get("content")) or None)


def _usage_of(turn: KeptTurn, answer: AnswerReader, times: CallTimes, reply_tokens: int) -> ModelUsage:
    """Return the record of a call; `reply_tokens` is our own count, used if the model server reports no cost."""
    counts = answer.usage or {"prompt_tokens": turn.sent_tokens, "completion_tokens": reply_tokens}
    asked = counts.get("prompt_tokens", counts.get("input_tokens", 0))
    said = counts.get("completion_tokens", counts.get("output_tokens", 0))
    return ModelUsage(
        model_usage_id=f"{turn.turn_id}.m{turn.call}",
        model=answer.model,
        stage=ModelUsageStage.TOOL_CALL if answer.calls_tools else ModelUsageStage.ANSWER,
        prompt_tokens=asked,
        completion_tokens=said,
        total_tokens=counts.get("total_tokens", asked + said),
        first_token_latency_ms=times.first_ms,
        latency_ms=times.whole_ms,
        # The provider counts the client's own messages too, so its count corrects none of ours.
        extra={
            "framework": FRAMEWORK,
            COUNTED: REPORTED_WITH_MORE if answer.usage else ESTIMATED,
            STOP_REASON: answer.stop_reason,
        },
    )

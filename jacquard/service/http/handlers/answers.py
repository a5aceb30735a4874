"""Handler that has the model server of the service answer a prepared turn."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from jacquard.core.errors import ConfigError
from jacquard.pipeline.record.prepared_turn import PreparedTurn
from jacquard.pipeline.record.sent_prompt import record_edit
from jacquard.pipeline.weaving.assemble import PromptMessage
from jacquard.remote.bodies import AnswerRequest
from jacquard.service.http.call import Call, handles
from jacquard.service.http.handlers.records import load_turn
from jacquard.service.http.viewer_guard import check_turn
from jacquard.service.proxy.keeping import KeptTurn, TurnKeeper
from jacquard.service.proxy.passage import TurnPassage
from jacquard.service.proxy.relay import Relay
from jacquard.service.proxy.replies.events import value_of
from jacquard.service.proxy.requests.chat_request import Api, ChatRequest, OurText, write_json
from jacquard.service.proxy.routes import CHAT, NO_UPSTREAM
from jacquard.service.proxy.upstreams.opening import open_upstream, own_key_headers
from jacquard.service.proxy.upstreams.protocol import Upstream, UpstreamAnswer, UpstreamCall, UpstreamError
from jacquard.service.values import Principal
from jacquard.turns.record import amend_sent
from mnemosyne.core.errors import TurnNotPendingError
from mnemosyne.core.off_loop import calculate, size_of
from mnemosyne.schema.session import TurnStatus

_READ_BYTES, _SHOWN_CHARS = 65_536, 500


@handles
async def answer_turn(call: Call) -> Relay:
    """Send the prompt of a waiting turn to the model server, stream the answer to the caller, and commit the reply.

    Raises TurnNotPendingError if the turn has its reply. Raises ConfigError if the settings name no model server, or if the
    request has not one text for each message of the prompt.
    """
    sent = call.read(AnswerRequest)
    await check_turn(call, call.ids["turn_id"])
    record, turn = await load_turn(call)
    if record.status is not TurnStatus.PREPARED:
        raise TurnNotPendingError(call.session_id, record.turn_id)
    opened = open_upstream(call.settings)
    if opened is None:
        raise ConfigError(NO_UPSTREAM)
    upstream = _OwnUpstream(opened)
    messages = await _edit(call, turn, sent.texts)
    body = {"model": sent.model, "messages": messages, "stream": True}
    data = await calculate(write_json, body, size=size_of(body))
    request = ChatRequest(api=Api.OPENAI, body=body, messages=tuple(messages))
    keeper = TurnKeeper(call.settings.proxy, call.tenants)
    passage = _AnswerPassage(keeper, call.principal, _kept_turn(turn), request, upstream)
    headers = [*own_key_headers(call.settings), ("content-type", "application/json"), ("accept-encoding", "identity")]
    asked = UpstreamCall(method="POST", path=CHAT, headers=headers, body=data, model=sent.model)
    return Relay(upstream, asked, {}, passage)


async def _edit(call: Call, turn: PreparedTurn, texts: Sequence[str] | None) -> list[Mapping[str, Any]]:
    """Return the messages to send. If `texts` replace those of the prompt, the receipt of the turn states it."""
    if texts is None:
        texts = tuple(each.content for each in turn.messages)
    if len(texts) != len(turn.messages):
        raise ConfigError(
            f"texts has {len(texts)} texts, and the prompt of the turn has {len(turn.messages)} messages; send one text for each."
        )
    parts = call.runtime.engine.parts
    changed = await calculate(record_edit, turn, texts, parts.estimator.estimate, size=size_of(texts))
    if changed.report.sent != turn.report.sent:
        await amend_sent(parts, changed)
    edited = replace(
        turn,
        messages=tuple(
            PromptMessage(role=each.role, content=text) for each, text in zip(turn.messages, texts, strict=True)
        ),
    )
    return [each for each in edited.to_openai() if each.get("content") != "" or each.get("tool_calls")]


def _kept_turn(turn: PreparedTurn) -> KeptTurn:
    return KeptTurn(
        session_id=turn.session_id,
        turn_id=turn.turn_id,
        ours=OurText(),
        reply_form=turn.reply_form,
        call=1,
        sent_tokens=turn.report.budget.used_tokens,
    )


class UpstreamRefusedError(UpstreamError):
    """Raised if the model server refuses a call of the service itself."""

    code = "upstream_refused"


class _OwnUpstream:
    """`Upstream` for calls that the service makes by itself. A refusal is raised, because its status is not that of this service:
    401 would state that the caller's token is wrong.
    """

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    @asynccontextmanager
    async def call(self, call: UpstreamCall) -> AsyncIterator[UpstreamAnswer]:
        """Make a call; see `Upstream.call`. Raises UpstreamRefusedError for a status from 400 on."""
        async with self._upstream.call(call) as answer:
            if answer.status >= 400:
                body = b""
                async for part in answer.parts():
                    body += part
                    if len(body) > _READ_BYTES:
                        break
                raise UpstreamRefusedError(_read_fault(answer.status, body))
            yield answer

    async def close(self) -> None:
        """Close all connections."""
        await self._upstream.close()


class _AnswerPassage(TurnPassage):
    """Passage of an answer that closes the connection to the model server at its end."""

    def __init__(
        self, keeper: TurnKeeper, principal: Principal, turn: KeptTurn, call: ChatRequest, upstream: Upstream
    ) -> None:
        super().__init__(keeper, principal, turn, call)
        self._upstream = upstream

    async def close(self) -> None:
        """Commit the part of an interrupted reply that the client saw, and close the connection to the model server."""
        await super().close()
        await self._upstream.close()


def _read_fault(status: int, body: bytes) -> str:
    """Return a sentence about the error that a model server answered."""
    text = body.decode("utf-8", "replace").strip()
    value = value_of(text)
    error = value.get("error", value) if isinstance(value, dict) else None
    told = error.get("message") if isinstance(error, dict) else error if isinstance(error, str) else text
    return f"The model server refused the call ({status}): {str(told or '')[:_SHOWN_CHARS]}"

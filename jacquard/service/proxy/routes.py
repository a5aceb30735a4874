"""Answers calls of chat clients below `/v1`, at the paths that clients of OpenAI and Anthropic use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from urllib.parse import quote

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from jacquard.adapters.prompts.templates import warm_prompts
from jacquard.config.service import ServiceSettings
from jacquard.remote.bodies import MOST_MESSAGES
from jacquard.service.access.principals import principal_of
from jacquard.service.answers import JSON, describe
from jacquard.service.proxy.keeping import KeptTurn, TurnKeeper
from jacquard.service.proxy.passage import TurnPassage
from jacquard.service.proxy.relay import EVENTS, Relay, upstream_fault
from jacquard.service.proxy.replies.own_answer import write_answer
from jacquard.service.proxy.requests.chat_request import MERGED, Api, ChatRequest, OurText, read_request, with_our_text
from jacquard.service.proxy.requests.headers import (
    ALIGNMENT,
    DEGRADED,
    ERROR,
    PAGE,
    PASSED,
    RECEIPT,
    Headers,
    headers_for_upstream,
)
from jacquard.service.proxy.requests.paths import leads_outside
from jacquard.service.proxy.requests.rules import PASS, SAME_TURN, TURN, CallRule, find_rule, load_rules
from jacquard.service.proxy.upstreams.one_system import OneSystemUpstream
from jacquard.service.proxy.upstreams.protocol import Upstream, UpstreamCall
from jacquard.service.tenants import TenantRuntimes
from mnemosyne.core.masking.call_logs import open_log
from mnemosyne.core.off_loop import calculate

_log = open_log(__name__)

PREFIX = "/v1"
CHAT, MODELS, MESSAGES, COUNT = "/chat/completions", "/models", "/messages", "/messages/count_tokens"
CONTINUED, TOO_MANY = "nothing to answer", f"more than {MOST_MESSAGES} messages"
"""Reasons for passing a call unchanged: it has no user message to answer, or it has too many messages."""

NO_UPSTREAM = (
    "No model server is set. Start the service with `jacquard operate serve --upstream http://HOST:PORT/v1`, or set "
    "service.upstream in the settings file."
)


class Proxy:
    """Answers the calls of chat clients. `upstream` is the model server. If `upstream` is None, every call gets an
    error which states that no model server is set.
    """

    def __init__(self, settings: ServiceSettings, tenants: TenantRuntimes, upstream: Upstream | None) -> None:
        self._settings, self._upstream = settings, None if upstream is None else OneSystemUpstream(upstream)
        self._rules: tuple[CallRule, ...] = ()
        self._keeper = TurnKeeper(settings.proxy, tenants)

    async def open(self) -> None:
        """Load the rules and the prompts of all languages. Call this method before the first request.

        Raises ConfigError if the rules cannot be read or are invalid.
        """
        await warm_prompts()
        self._rules = await to_thread.run_sync(load_rules, self._settings.proxy.rules)

    def routes(self) -> list[Route]:
        """Return the routes of the proxy.

        In a service without tenants, all other calls below `/v1` pass to the model server too. With tenants, such calls
        are refused, because they would use the service's key.
        """
        known = [
            Route(f"{PREFIX}{CHAT}", self.answer_chat, methods=["POST"]),
            Route(f"{PREFIX}{MODELS}", self.pass_through, methods=["GET"]),
            Route(f"{PREFIX}{MODELS}/{{model:path}}", self.pass_through, methods=["GET"]),
            Route(f"{PREFIX}{COUNT}", self.pass_through, methods=["POST"]),
            Route(f"{PREFIX}{MESSAGES}", self.answer_chat, methods=["POST"]),
        ]
        others = Route(f"{PREFIX}/{{path:path}}", self.pass_through, methods=["GET", "POST"])
        return known if self._settings.tenants else [*known, others]

    async def pass_through(self, request: Request) -> Response:
        """Send a call to the model server unchanged, and return its answer."""
        if self._upstream is None:
            fault = await upstream_fault(NO_UPSTREAM, "upstream_missing", request.headers)
            return Response(fault, 503, media_type=JSON)
        if leads_outside(_path_below(request)):
            fault = await upstream_fault("There is no such address.", "not_found", request.headers)
            return Response(fault, 404, media_type=JSON)
        body = await request.body()
        return Relay(self._upstream, self._call(request, body), {})

    async def answer_chat(self, request: Request) -> Response:
        """Answer a chat call. If the call is a turn, memories are added to the call and the reply is committed.

        If the engine fails, the call goes to the model server unchanged, and a header of the answer states the error.
        """
        if self._upstream is None or not self._settings.proxy.enabled:
            return await self.pass_through(request)
        body = await request.body()
        api = Api.ANTHROPIC if _path_below(request) == MESSAGES else Api.OPENAI
        call = await calculate(read_request, api, body, size=len(body))
        treat, name, principal = PASS, "", principal_of(request)
        if call is not None:
            treat, name = await calculate(_treat, call, self._rules, request.headers, size=len(body))
        own: dict[str, str] = {}
        merged: Callable[[], Awaitable[bytes]] | None = None
        passage: TurnPassage | None = None
        if name:
            own[PASSED] = quote(name)
        if call is not None and treat != PASS:
            try:
                place = MERGED if self._upstream.takes_one(call.model) else self._settings.proxy.place
                call = replace(call, place=place)
                if treat == SAME_TURN:
                    ours = await self._keeper.text_of_newest_turn(principal, request.headers, call)
                elif (turn := await self._keeper.begin(principal, request.headers, call)) is None:
                    own[PASSED], ours = quote(CONTINUED), OurText()
                else:
                    own |= _headers_of(turn)
                    ours = turn.ours
                    if turn.reply is not None:
                        return _answer_self(call, turn.reply, turn.turn_id, own)
                    passage = TurnPassage(self._keeper, principal, turn, call)
                if ours != OurText():
                    body = await calculate(with_our_text, call, ours, place, size=len(body))
                    if place != MERGED and passage is not None:
                        merged = partial(passage.merge, len(body))
                    elif place != MERGED:
                        merged = partial(calculate, with_our_text, call, ours, MERGED, size=len(body))
            except Exception as error:
                own[ERROR] = "timeout" if isinstance(error, TimeoutError) else describe(error).code
                _log.warning("proxy: a call passes without the engine (%s)", own[ERROR])
        sent = replace(self._call(request, body), model="" if call is None else call.model, merged=merged)
        return Relay(self._upstream, sent, own, passage)

    def _call(self, request: Request, body: bytes) -> UpstreamCall:
        path = _path_below(request)
        headers = headers_for_upstream(request.headers.items(), self._key_headers(path))
        # Not from `request.url`, which begins with the client's name for this host.
        query = request.scope["query_string"].decode("latin-1")
        return UpstreamCall(method=request.method, path=path, query=query, headers=headers, body=body)

    def _key_headers(self, path: str) -> Headers | None:
        """Return the headers of the server's own key; None if the client's own goes upstream."""
        if not self._settings.tenants:
            return None
        key = (self._settings.proxy.key or "").encode().decode("latin-1")
        if not key:
            return []
        return [("x-api-key", key)] if path in (MESSAGES, COUNT) else [("authorization", f"Bearer {key}")]


def _treat(call: ChatRequest, rules: Sequence[CallRule], headers: Mapping[str, str]) -> tuple[str, str]:
    """Return the treatment of a call, and the name of the reason if it is not a turn of its own."""
    # Empty messages of Anthropic's API are ignored here, but sent on.
    if max(len(call.messages), len(call.body["messages"])) > MOST_MESSAGES:
        return PASS, TOO_MANY
    rule = find_rule(rules, call, headers)
    if rule is not None and rule.treat == PASS:
        return PASS, rule.name
    if rule is not None and rule.treat == SAME_TURN and call.continues and call.last_user is not None:
        return SAME_TURN, rule.name
    return (PASS, CONTINUED) if call.last_user is None else (TURN, "")


def _headers_of(turn: KeptTurn) -> dict[str, str]:
    """Return the headers that lead to the record of a turn, with its degradations."""
    degraded = {DEGRADED: ", ".join(turn.degraded)} if turn.degraded else {}
    addresses = {RECEIPT: f"{turn.address}/receipt", PAGE: f"{turn.address}/page"}
    return {**addresses, ALIGNMENT: turn.decision.code, **degraded}


def _answer_self(call: ChatRequest, reply: str, turn_id: str, headers: dict[str, str]) -> Response:
    """Return the engine's own answer: the turn is complete, and no model is called."""
    is_stream, model = bool(call.body.get("stream")), call.body.get("model")
    body = write_answer(call.api, turn_id, model if isinstance(model, str) else "", reply, is_stream=is_stream)
    return Response(body, headers=headers, media_type=EVENTS if is_stream else JSON)


def _path_below(request: Request) -> str:
    """Return the path below `/v1` as it was sent, so that an encoded slash stays part of a model's name."""
    path: str = request.scope["path"]
    return path.removeprefix(PREFIX)

"""Forwards a request to the process that works on its session, over the Unix socket of that process, and returns the
answer.

Therefore the caches and the events of a session are in one process only. If this process cannot be reached, the process
that received the request handles the request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

import anyio
import httpx
from starlette.types import ASGIApp, Receive, Scope, Send

from jacquard.service.access.bodies import RequestBody
from jacquard.service.access.gate import HAS_ARRIVED, REQUEST_ID
from jacquard.service.access.principals import RequestNote
from jacquard.service.affinity import session_in_path
from jacquard.service.answers import Refusal
from jacquard.service.running.workers.places import WorkerPlaces
from jacquard.service.running.workers.request_session import is_in_body, session_in_body
from mnemosyne.core.off_loop import calculate

AT_OWNER, OWNER_GONE = "is_at_owner", "owner_is_gone"
"""Keys in the state of a request. AT_OWNER is set if this process is the one that works on the request's session.
OWNER_GONE is True if the process for the session could not be reached.
"""

KEEP_SECONDS = 30.0
"""Seconds for which an unused connection to another process stays open. The other process keeps connections for longer,
so none is closed while it is in use.
"""

_OF_ONE_WAY = {b"connection", b"keep-alive", b"transfer-encoding", b"te", b"upgrade", b"expect", b"date"}

Pairs = Sequence[tuple[bytes, bytes]]


class ForwardedRequests:
    """Passes requests that another process has forwarded to the application `app`. Each request is marked, so that `app`
    does not forward it again.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Mark a request as forwarded, and pass it to the application."""
        scope.setdefault("state", {})[HAS_ARRIVED] = True
        await self._app(scope, receive, send)


class OwnerForwarder:
    """Finds the process that works on a request's session (its owner), and forwards the request to that process."""

    def __init__(self, places: WorkerPlaces) -> None:
        self._places = places
        self._ways: dict[str, httpx.AsyncHTTPTransport] = {}

    async def pass_on(
        self,
        scope: Scope,
        headers: Mapping[str, str],
        body: RequestBody,
        receive: Receive,
        send: Send,
        note: RequestNote,
    ) -> bool:
        """Forward a request to the owner of its session. Return True if the owner answered the request. Return False if
        this process must handle the request.

        The names in `headers` are in lower case. Raises Refusal with status 503 if the owner ended before it had answered.
        """
        state, path = scope["state"], scope["path"]
        if state.get(HAS_ARRIVED):
            state[AT_OWNER] = True
            return False
        session_id = session_in_path(path)
        if not session_id and scope["method"] == "POST" and is_in_body(path):
            session_id = await calculate(session_in_body, path, headers, body.data, size=len(body.data))
        if not session_id:
            return False
        owner = self._places.owner_of(note.principal.tenant, session_id)
        if owner == self._places.mine:
            state[AT_OWNER] = True
            return False
        note.is_passed_on = await self._try(owner, scope, body, receive, send, note)
        state[OWNER_GONE] = not note.is_passed_on
        return note.is_passed_on

    async def close(self) -> None:
        """Close all connections."""
        for way in self._ways.values():
            await way.aclose()

    async def _try(
        self, owner: str, scope: Scope, body: RequestBody, receive: Receive, send: Send, note: RequestNote
    ) -> bool:
        """Return whether the owner was reached; the client then has its answer, unless it disconnected."""
        request, way = _request(scope, body, note), self._way(owner)
        is_reached, has_ended = True, False
        async with anyio.create_task_group() as tasks:

            async def cancel_when_gone() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                tasks.cancel_scope.cancel()

            tasks.start_soon(cancel_when_gone)
            try:
                await _relay(await way.handle_async_request(request), send)
            except httpx.ConnectError:
                is_reached = False
            except httpx.TransportError:
                has_ended = True
            tasks.cancel_scope.cancel()
        if has_ended:
            # The request may have been carried out: only the caller knows whether it may be repeated.
            raise Refusal(503, "worker_ended", "The process of this session ended before it had answered; ask again.")
        return is_reached

    def _way(self, owner: str) -> httpx.AsyncHTTPTransport:
        if owner not in self._ways:
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=KEEP_SECONDS)
            self._ways[owner] = httpx.AsyncHTTPTransport(uds=self._places.socket_of(owner), limits=limits)
        return self._ways[owner]


async def _relay(answer: httpx.Response, send: Send) -> None:
    try:
        own = [pair for pair in answer.headers.raw if pair[0].lower() not in (*_OF_ONE_WAY, REQUEST_ID.encode())]
        await send({"type": "http.response.start", "status": answer.status_code, "headers": own})
        async for part in answer.aiter_raw():
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        with anyio.CancelScope(shield=True):
            await answer.aclose()


def _request(scope: Scope, body: RequestBody, note: RequestNote) -> httpx.Request:
    async def send_body() -> AsyncIterator[bytes]:
        yield body.data
        # The other process has it, or this one has ended the call.
        body.release()

    query: bytes = scope["query_string"]
    target = scope["path"].encode("latin-1") + (b"?" + query if query else b"")
    dropped = {*_OF_ONE_WAY, b"content-length", REQUEST_ID.encode()}
    headers = [pair for pair in scope["headers"] if pair[0].lower() not in dropped]
    headers += [(REQUEST_ID.encode(), note.request_id.encode()), (b"content-length", str(len(body.data)).encode())]
    # Sent without httpx's client, which would store cookies of all callers; `target` exactly as received.
    extensions = {"target": target}
    return httpx.Request(scope["method"], "http://worker", headers=headers, content=send_body(), extensions=extensions)

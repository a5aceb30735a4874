"""Connects a client to a service: sends calls, reads answers, and repeats a call if this is safe.

`remote` makes a client's methods from the table of operations (`jacquard.remote.operations`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import update_wrapper
from inspect import signature
from time import monotonic
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar
from urllib.parse import quote
from uuid import uuid4

import anyio
import httpx

from jacquard.client.affinity import rank_nodes
from jacquard.client.errors import ServiceUnreachableError, error_of, read_error
from jacquard.remote.operation import Operation
from jacquard.remote.operations import BY_PYTHON
from mnemosyne.core import codec

KEY_HEADER = "Idempotency-Key"
"""Header with the idempotency key, by which the service recognises a repeated call."""
SESSION_HEADER = "X-Jacquard-Session"
"""Header that names the session, by which a balancer finds the host of the session."""
AWAY_SECONDS = 5.0
"""Seconds for which a host that did not answer is tried only after all other hosts."""

ATTEMPTS = 3
"""Maximum number of attempts at each host."""
FIRST_PAUSE_SECONDS = 0.2
"""Pause before the second attempt. It doubles with each further attempt."""
_CLOSING = 503
_BUSY = (429, _CLOSING)
_NO_ANSWER = (502, 504)


class Connection:
    """Connection to a service at `url` (`http://host:port`). `token` is needed if the service has tenants.

    Use the connection in `async with`, or call `close`. `url` may contain several addresses: the hosts of one service
    over one database. Every client must write these addresses in the same way. The calls of a session go to the
    session's host (`rank_nodes`). While this host cannot be reached, they go to the next host.

    A call is made at most three times at each host. It is repeated after the answers 429 and 503. It is also repeated
    after a broken connection (or a balancer's 502 or 504), but only if the service can recognise the repeated call.
    Raises ValueError if `url` has no address.
    """

    def __init__(
        self,
        url: str | Sequence[str],
        token: str | None = None,
        *,
        timeout_seconds: float = 60.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._hosts = tuple(each.rstrip("/") for each in ((url,) if isinstance(url, str) else url))
        if not self._hosts:
            raise ValueError("a connection needs the address of a service")
        self._away: dict[str, float] = {}
        self._client = httpx.AsyncClient(headers=headers, timeout=timeout_seconds, transport=transport, trust_env=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections. Later calls raise an error."""
        await self._client.aclose()

    async def call(
        self,
        method: str,
        address: tuple[str, ...],
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str | int] | None = None,
        once: bool = False,
        keyed: bool = True,
        key: str | None = None,
    ) -> bytes:
        """Make a call and return the body of the answer.

        Raises the error of the engine that the answer names. Raises ServiceError for other errors of the service.
        Raises ServiceUnreachableError if no host answers.

        Args:
            method: HTTP method.
            address: parts of the path after `/api/v1`; each of them is encoded.
            body: fields of the JSON body.
            query: parameters of the query.
            once: do not repeat the call after a broken connection, because the service could not recognise it. The call
                then has no idempotency key.
            keyed: give a POST an idempotency key.
            key: idempotency key of the caller, in place of a new one.
        """
        path = "/api/v1/" + "/".join(quote(part, safe="") for part in address)
        has_key = method == "POST" and (key is not None or (keyed and not once))
        owner = _owner_of(address, body or {})
        headers = _session_header(owner) | ({KEY_HEADER: key or uuid4().hex} if has_key else {})
        content = None if body is None else codec.encode(dict(body))
        if content is not None:
            headers["Content-Type"] = "application/json"
        hosts = self._hosts_of(owner)
        asked = 0
        while True:
            host, attempt = hosts[asked % len(hosts)], asked // len(hosts)
            asked += 1
            is_last, waits = asked == ATTEMPTS * len(hosts), asked % len(hosts) == 0
            try:
                answer = await self._send(method, host + path, content, dict(query or {}), headers)
            except httpx.TransportError as error:
                self._away[host] = monotonic() + AWAY_SECONDS
                sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
                if is_last or (sent and once):
                    raise ServiceUnreachableError(host, str(error) or type(error).__name__, sent=sent) from error
                await anyio.sleep(FIRST_PAUSE_SECONDS * 2**attempt if waits else 0.0)
                continue
            if answer.is_success:
                self._away.pop(host, None)
                return answer.content
            if answer.status_code not in _BUSY or is_last:
                raise error_of(answer.status_code, answer.content)
            # A host that is closing sends its sessions to the next one; an overloaded host is waited for.
            if waits or answer.status_code != _CLOSING:
                await anyio.sleep(_pause(answer, attempt))

    async def _send(
        self, method: str, url: str, content: bytes | None, query: dict[str, str | int], headers: dict[str, str]
    ) -> httpx.Response:
        answer = await self._client.request(method, url, content=content, params=query, headers=headers)
        if answer.status_code in _NO_ANSWER and read_error(answer.content) is None:
            raise httpx.RemoteProtocolError(f"a balancer answers with {answer.status_code}")
        return answer

    def _hosts_of(self, owner: str) -> list[str]:
        """Return the hosts in the order of attempts: those that did not answer lately come last."""
        ranked = rank_nodes(owner, self._hosts)
        return sorted(ranked, key=lambda host: self._away.get(host, 0.0) > monotonic())

    @asynccontextmanager
    async def stream(self, address: tuple[str, ...]) -> AsyncIterator[AsyncIterator[str]]:
        """Yield the lines of a streamed answer. Raises the errors of `call`, including ServiceUnreachableError."""
        path = "/api/v1/" + "/".join(quote(part, safe="") for part in address)
        owner = _owner_of(address, {})
        host = self._hosts_of(owner)[0]
        try:
            async with self._client.stream("GET", host + path, timeout=None, headers=_session_header(owner)) as answer:
                if not answer.is_success:
                    raise error_of(answer.status_code, await answer.aread())
                yield answer.aiter_lines()
        except httpx.TransportError as error:
            raise ServiceUnreachableError(host, type(error).__name__, sent=True) from error


def _owner_of(address: tuple[str, ...], body: Mapping[str, Any]) -> str:
    """Return the session or user of a call, also a session that it creates; '' if there is none."""
    if address == ("sessions",):
        return str(body.get("session_id") or "")
    return address[1] if len(address) > 1 and address[0] in ("sessions", "users") else ""


def _session_header(owner: str) -> dict[str, str]:
    """Return the header by which a balancer finds the host of a session."""
    return {SESSION_HEADER: quote(owner, safe="")} if owner else {}


def _pause(answer: httpx.Response, attempt: int) -> float:
    told = answer.headers.get("retry-after", "")
    return min(float(told), 30.0) if told.isdigit() else FIRST_PAUSE_SECONDS * 2**attempt


P = ParamSpec("P")
T = TypeVar("T")


class Caller(Protocol):
    """Object whose methods call a service."""

    @property
    def _connection(self) -> Connection: ...

    @property
    def _caller(self) -> Mapping[str, str]:
        """Parameters that every call has whose operation knows them, such as the viewer."""


def remote(like: Callable[Concatenate[Any, P], Awaitable[T]]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return a method that calls the service's operation for the method `like`, with the same parameters and the same
    result.
    """
    operation, parameters = BY_PYTHON[like.__qualname__], signature(like)

    async def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        bound = parameters.bind(self, *args, **kwargs)
        bound.apply_defaults()
        _, *given = bound.arguments.items()
        result: T = await call_operation(self, operation, dict(given))
        return result

    update_wrapper(call, like)
    return call


async def call_operation(caller: Caller, operation: Operation, given: Mapping[str, Any], **how: Any) -> Any:
    """Call an operation of the service and return its answer.

    `given` maps names to values: the ids in the address, the parameters, and the fields of the body. If the answer has
    only one field, the value of this field is returned. `how` is passed on to `Connection.call`.
    """
    names = {each.name for each in fields(operation.body)} if operation.body is not None else set()
    body = {name: value for name, value in given.items() if name in names}
    known = {each.name for each in operation.query}
    query = {
        name: _write(value)
        for name, value in {**caller._caller, **given}.items()
        if name in known and value is not None
    }
    how = {"once": operation.once, **how}
    data = await caller._connection.call(
        operation.method, address_of(operation, given), body if names else None, query=query, **how
    )
    if operation.answer is None:
        return None
    answer = codec.decode(data, operation.answer)
    if is_dataclass(answer) and len(parts := fields(answer)) == 1:
        return getattr(answer, parts[0].name)
    return answer


def address_of(operation: Operation, ids: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the parts of an operation's address below `/api/v1`, with `ids` in their places."""
    return tuple(str(ids[each[1:-1]]) if each[0] == "{" else each for each in operation.below[1:].split("/"))


def _write(value: Any) -> str | int:
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, int) else str(value)

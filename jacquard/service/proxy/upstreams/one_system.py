"""Handles model servers that accept only one system message. If such a server refuses a call, the call is repeated with
our text (the text that a turn adds) inside the client's system message.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from jacquard.service.proxy.requests.headers import Headers
from jacquard.service.proxy.upstreams.protocol import Upstream, UpstreamAnswer, UpstreamCall, UpstreamError
from mnemosyne.values import dataclass

MOST_MODELS = 1_000
"""Maximum number of models that are remembered."""
_LOOKED_AT_BYTES = 65_536
_REFUSING = frozenset({400, 422, 500})
_REFUSAL = re.compile(
    rb"system.{0,60}(?:message|role|prompt|instruction)|(?:message|role|prompt|instruction).{0,60}system"
    rb"|\brole|developer|template|jinja|alternat|raise_exception" + "|系统|角色".encode(),
    re.IGNORECASE,
)
"""Wording of servers and templates that refuse a message because of its role or its place."""


class OneSystemUpstream:
    """`Upstream` that remembers which models accept only one system message.

    A refusal is recognised by the status and the wording of an answer. The model is remembered if the repeated call is
    answered.
    """

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._models: dict[str, None] = {}

    def takes_one(self, model: str) -> bool:
        """Return whether a model has refused a second system message before."""
        return model in self._models

    @asynccontextmanager
    async def call(self, call: UpstreamCall) -> AsyncIterator[UpstreamAnswer]:
        """Make a call; see `Upstream.call`. If the call has a `merged` body and the server refuses the call, it is
        repeated with the merged body.
        """
        async with AsyncExitStack() as calls:
            answer = await calls.enter_async_context(self._upstream.call(call))
            if call.merged is not None:
                answer = await _begin(answer)
                if answer.is_refusal:
                    merged = replace(call, body=await call.merged(), merged=None)
                    try:
                        again = await _begin(await calls.enter_async_context(self._upstream.call(merged)))
                    except UpstreamError:
                        again = answer
                    if again.status < 400 and not again.is_refusal:
                        self._remember(call.model)
                        answer = again
            yield answer

    def _remember(self, model: str) -> None:
        self._models[model] = None
        while len(self._models) > MOST_MODELS:
            del self._models[next(iter(self._models))]

    async def close(self) -> None:
        """Close all connections."""
        await self._upstream.close()


@dataclass(slots=True)
class _BegunAnswer:
    """Answer whose beginning has been read: all of a refusal, else the first part."""

    status: int
    headers: Headers
    begun: bytes
    rest: AsyncIterator[bytes]
    fault: UpstreamError | None

    @property
    def is_refusal(self) -> bool:
        """True if the server refuses a message because of its role or place; some do so in a stream that has begun, or end it
        silently.
        """
        if self.status == 200 and not self.begun:
            return True
        is_error = self.status in _REFUSING or (self.status == 200 and b'"error"' in self.begun)
        return is_error and _REFUSAL.search(self.begun) is not None

    async def parts(self) -> AsyncIterator[bytes]:
        if self.begun:
            yield self.begun
        if self.fault is not None:
            raise self.fault
        async for part in self.rest:
            yield part


async def _begin(answer: UpstreamAnswer) -> _BegunAnswer:
    begun, rest, fault = b"", answer.parts(), None
    try:
        async for part in rest:
            begun += part
            if answer.status not in _REFUSING or len(begun) > _LOOKED_AT_BYTES:
                break
    except UpstreamError as error:
        fault = error
    return _BegunAnswer(answer.status, answer.headers, begun, rest, fault)

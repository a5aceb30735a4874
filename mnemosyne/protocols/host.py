"""What callers pass in from outside: a clock, a receiver of events, session locks, a token estimator.

Nothing in mnemosyne reads the machine's clock or state by itself. It must not import another module of protocols.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol

from mnemosyne.schema.event import Event


class Clock(Protocol):
    """The only source of time."""

    def now(self) -> datetime:
        """Return the present as an aware datetime."""
        ...


class EventBus(Protocol):
    """Tells of what happens (seed 002 section 9.2).

    1. Handlers of one kind are told of that kind alone, those of all of every event, each once, in the order of `on`.
    2. A handler that fails harms neither the sender nor another handler.
    3. When `emit` returns, every handler has been told; async ones have ended.
    """

    async def emit(self, event: Event) -> None:
        """Tell every handler of one event."""
        ...

    def on(self, event_type: str, handler: Callable[[Event], Awaitable[None] | None]) -> None:
        """Tell `handler` of events of this kind."""
        ...

    def off(self, event_type: str, handler: Callable[[Event], Awaitable[None] | None]) -> None:
        """Tell `handler` no more of events of this kind."""
        ...

    def on_all(self, handler: Callable[[Event], Awaitable[None] | None]) -> None:
        """Tell `handler` of every event."""
        ...


class SessionLocks(Protocol):
    """Lets one caller at a time work on a session, among all processes that use one store.

    1. While one holds a session nobody else does; different sessions never wait for each other.
    2. A holder that dies, in whatever way, holds nothing any more.
    3. The event loop is not held up by waiting.
    4. Who waited too long gets StoreBusyError and holds nothing.
    """

    def hold(self, session_id: str) -> AbstractAsyncContextManager[None]:
        """Hold a session as long as the block lasts."""
        ...

    async def close(self) -> None:
        """Release what is open."""
        ...


class TokenEstimator(Protocol):
    """Counts tokens. Pure and synchronous; the same text always has the same count."""

    name: str

    def estimate(self, text: str) -> int:
        """Return the tokens of `text` (0 for the empty text)."""
        ...

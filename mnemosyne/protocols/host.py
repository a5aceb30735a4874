"""Defines the protocols of the parts that a host provides: clock, ids, hashes, event bus, session locks, token estimator.

No part of mnemosyne reads the machine's clock by itself. This module must not import another module of protocols.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Protocol

from mnemosyne.schema.event import Event


class Clock(Protocol):
    """Tells the time. It is the only source of time."""

    def now(self) -> datetime:
        """Return the current time as an aware datetime."""
        ...


class IdGenerator(Protocol):
    """Makes unique ids."""

    def generate(self) -> str:
        """Return a new id: letters, digits, `-` and `_`."""
        ...


class Hasher(Protocol):
    """Hashes texts. Equal texts have equal digests, and different texts have different digests."""

    def digest(self, content: str) -> str:
        """Return the digest of a text as hexadecimal digits."""
        ...


class EventBus(Protocol):
    """Delivers events to handlers.

    1. A handler that `on` registered for one kind receives only events of this kind. A handler that `on_all`
       registered receives every event. Each handler receives an event once, in the order of registration.
    2. A handler that fails affects neither the sender nor another handler.
    3. When `emit` returns, every handler has run to its end, async handlers included.
    """

    async def emit(self, event: Event) -> None:
        """Deliver an event to its handlers. An exception of a handler is never raised here."""
        ...

    def has_handler(self, event_type: str) -> bool:
        """Return whether a handler receives events of the kind `event_type`. If not, the sender need not make the event."""
        ...

    def on(self, event_type: str, handler: Callable[[Event], Awaitable[None] | None]) -> None:
        """Deliver events of the kind `event_type` to `handler`."""
        ...

    def off(self, event_type: str, handler: Callable[[Event], Awaitable[None] | None]) -> None:
        """Stop delivering events of the kind `event_type` to `handler`."""
        ...

    def on_all(self, handler: Callable[[Event], Awaitable[None] | None]) -> None:
        """Deliver every event to `handler`."""
        ...


class SessionLocks(Protocol):
    """Lets one caller at a time work on a session, across all processes that use one store.

    1. While one caller holds a session, no other caller can hold it. Callers of different sessions never wait for each
       other.
    2. A holder that dies, in any way, releases its locks.
    3. Waiting does not block the event loop.
    4. A caller that has waited too long gets StoreBusyError and holds no lock.
    """

    def hold(self, session_id: str) -> AbstractAsyncContextManager[None]:
        """Hold a session until the block ends.

        Raises:
            StoreBusyError: if the lock was not free within the time limit.
            StoreUnavailableError: if locks cannot be used.
        """
        ...

    async def close(self) -> None:
        """Release connections and threads."""
        ...


class TokenEstimator(Protocol):
    """Counts tokens, synchronously and without I/O. The same text always gives the same count."""

    name: str

    def estimate(self, text: str) -> int:
        """Return the number of tokens of `text` (0 for the empty text)."""
        ...


class MessageEstimator(TokenEstimator, Protocol):
    """A `TokenEstimator` that also counts messages. A `model_hint` names the model to count for.

    1. A message costs at least as many tokens as its text.
    2. A `model_hint` that the estimator does not know changes nothing.

    `MessageTokenEstimator` makes a `MessageEstimator` of an estimator that has only `estimate`.
    """

    def estimate_text(self, text: str, model_hint: str | None = None) -> int:
        """Return the number of tokens of `text` for the model `model_hint` (None: for any model)."""
        ...

    def estimate_message(self, role: str, content: str, model_hint: str | None = None) -> int:
        """Return the number of tokens of one message, with its role and the separator before the next one."""
        ...

    def estimate_messages(self, messages: Iterable[Any], model_hint: str | None = None) -> int:
        """Return the number of tokens of `messages`. A message is an object with the fields `role` and `content`, or
        a mapping with these keys.
        """
        ...

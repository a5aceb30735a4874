"""Delivers the events of an engine to the handlers of one process. Handlers subscribe to event types.

The engine does not know the handlers. This module must not import an engine, a store or an exporter.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from mnemosyne.core.masking.call_logs import open_log
from mnemosyne.core.masking.credentials import mask_beginning
from mnemosyne.core.off_loop import on_loop
from mnemosyne.protocols import Clock, EventBus
from mnemosyne.schema.event import Event, EventType
from mnemosyne.schema.memory import EMPTY

DETAIL_CHARS = 2_000
"""Maximum length of an error's text in its event, in characters."""

_log = open_log(__name__)
Handler = Callable[[Event], Awaitable[None] | None]


class InMemoryEventBus:
    """Calls the handlers of this process: first the handlers of the event's type, then the handlers of all events.

    Each group is called in the order of subscription.
    """

    def __init__(self) -> None:
        self._handlers: dict[str, list[Handler]] = {}
        self._all: list[Handler] = []

    def on(self, event_type: str, handler: Handler) -> None:
        """Subscribe `handler`, which may be async, to events of one type. Raises ValueError if the type is unknown."""
        self._handlers.setdefault(EventType(event_type).value, []).append(handler)

    def on_all(self, handler: Handler) -> None:
        """Subscribe `handler`, which may be async, to all events."""
        self._all.append(handler)

    def off(self, event_type: str, handler: Handler) -> None:
        """Unsubscribe `handler` from events of one type. If it is not subscribed, nothing happens."""
        known = self._handlers.get(EventType(event_type).value, [])
        if handler in known:
            known.remove(handler)

    def off_all(self, handler: Handler) -> None:
        """Unsubscribe a handler that `on_all` subscribed. Its subscriptions to single types stay."""
        if handler in self._all:
            self._all.remove(handler)

    def has_handler(self, event_type: str) -> bool:
        """Return whether any handler receives events of one type."""
        return bool(self._all or self._handlers.get(event_type))

    async def emit(self, event: Event) -> None:
        """Call every handler, one after the other. An error of a handler is logged and not raised."""
        for handler in (*self._handlers.get(event.event_type.value, ()), *self._all):
            try:
                told = handler(event)
                if inspect.isawaitable(told):
                    await told
            except Exception:
                _log.exception("a handler of %s failed", event.event_type.value)


_added_tags: ContextVar[Mapping[str, str]] = ContextVar("jacquard_added_tags", default=EMPTY)


@contextmanager
def add_tags(tags: Mapping[str, str]) -> Iterator[None]:
    """Add tags to every event and span of an engine while the block runs (for example the name of an agent framework)."""
    token = _added_tags.set({**_added_tags.get(), **tags})
    try:
        yield
    finally:
        _added_tags.reset(token)


def _no_tags(session_id: str) -> Mapping[str, str]:
    return EMPTY


class EventEmitter:
    """Emits events to a bus, with the time and the tags (labels) of the session. Without a bus, no event is emitted.

    `tags_of` returns the tags of a session, for example the arms of its experiments.
    """

    def __init__(
        self, bus: EventBus | None, clock: Clock, tags_of: Callable[[str], Mapping[str, str]] | None = None
    ) -> None:
        self._bus, self._clock, self._tags_of = bus, clock, tags_of or _no_tags

    def tags_of(self, session_id: str) -> Mapping[str, str]:
        """Return the tags of a session, including those of `add_tags`."""
        added = _added_tags.get()
        return {**self._tags_of(session_id), **added} if added else self._tags_of(session_id)

    def is_received(self, event_type: EventType) -> bool:
        """Return whether a handler receives events of this type. If not, the event need not be made."""
        return self._bus is not None and self._bus.has_handler(event_type.value)

    def with_tags_of(self, tags_of: Callable[[str], Mapping[str, str]], *, enabled: bool = True) -> EventEmitter:
        """Return an emitter to the same bus that takes the tags of a session from `tags_of`. If `enabled` is false, the
        emitter emits nothing.
        """
        return EventEmitter(self._bus if enabled else None, self._clock, tags_of)

    def with_tags(self, tags: Mapping[str, str]) -> EventEmitter:
        """Return an emitter to the same bus that gives every session the same tags."""
        return EventEmitter(self._bus, self._clock, lambda _: tags)

    async def emit(
        self,
        event_type: EventType,
        session_id: str,
        turn_id: str | None = None,
        *,
        task_id: str | None = None,
        tool_call_id: str | None = None,
        model_usage_id: str | None = None,
        **payload: Any,
    ) -> None:
        """Emit one event. An error of the bus is logged and not raised, so that no turn fails because of it. The ids
        are those of the turn, task, tool call or model call that the event is about (None: it is about none). `payload`
        contains further values of the event.
        """
        if self._bus is None or not self._bus.has_handler(event_type.value):
            return
        if isinstance(detail := payload.get("detail"), str):
            payload["detail"] = mask_beginning(detail, DETAIL_CHARS)
        event = Event(
            event_type=event_type,
            session_id=session_id,
            at=self._clock.now(),
            turn_id=turn_id,
            task_id=task_id,
            tool_call_id=tool_call_id,
            model_usage_id=model_usage_id,
            tags=self.tags_of(session_id),
            payload=payload,
        )
        try:
            await on_loop(self._bus.emit, event)
        except Exception:
            _log.exception("the event bus failed at %s", event_type.value)

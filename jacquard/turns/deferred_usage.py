"""Writes the usage of model calls that a turn did not wait for, once they end.

Stream B's background work itself knows no session and no transaction. This module must not import a concrete store.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from jacquard.adapters.observe.bus import EventEmitter
from jacquard.core.model_calls import CallBook
from jacquard.pipeline.record.events import emit_usage
from mnemosyne.core.errors import ContextEngineError
from mnemosyne.protocols import Store

_log = logging.getLogger(__name__)


class DeferredUsage:
    """Writes late calls over their first records. `hold` locks a session for one caller at a time."""

    def __init__(
        self,
        store: Store,
        count: Callable[[str], int],
        hold: Callable[[str], AbstractAsyncContextManager[None]],
        emitter: EventEmitter,
    ) -> None:
        self._store, self._count, self._hold, self._emitter = store, count, hold, emitter

    async def write(self, session_id: str, turn_id: str, calls: CallBook) -> None:
        """Write the calls that ended since the turn was made; it waits for the turn's own transaction. It never raises."""
        try:
            async with self._hold(session_id):
                usages = calls.late_usages(turn_id, self._count)
                if usages:
                    await self._store.append_model_usage(session_id, usages)
        except ContextEngineError:
            _log.exception("late model calls of turn %s could not be written", turn_id)
            return
        for usage in usages:
            await emit_usage(self._emitter, session_id, turn_id, usage)

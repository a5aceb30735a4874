"""Updates the index of memories in the background after each committed turn.

The next turn then need not embed the messages of the previous turn. No turn waits for the update. A turn that starts
before the update has ended finds the new messages only by their words, not by vectors.

The words are indexed at once, because such a turn would otherwise index them itself. The vectors are made when no call uses the
session, because their calculation would take the processor from the turn. If the engine ends first, the first turns of the next
engine index the rest. This module must not import a concrete store, index or embedder.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import anyio
from anyio.abc import TaskGroup

from jacquard.core.protocols import IndexFeeder
from mnemosyne.core.masking.call_logs import open_log
from mnemosyne.protocols import Store
from mnemosyne.schema.memory import session_scope, world_scope

_log = open_log(__name__)
_MOST_WAIT_SECONDS = 10.0
"""Longest time that vectors wait for a session to be free, because calls may follow each other without a pause."""


class IndexFeed:
    """Indexes the entries of a session and of its world after each turn of the session, with one run at a time per session.

    `wait_until_free(session_id)` returns when no call uses a session.
    """

    def __init__(
        self,
        store: Store,
        feeder: IndexFeeder,
        tasks: TaskGroup,
        wait_until_free: Callable[[str], Awaitable[None]],
    ) -> None:
        self._store, self._feeder, self._tasks = store, feeder, tasks
        self._wait_until_free = wait_until_free
        self._running: dict[str, anyio.Event] = {}
        self._again: set[str] = set()
        self._loading: anyio.Event | None = None

    async def wait_until_idle(self) -> None:
        """Wait until nothing is being indexed or loaded."""
        while self._running:
            await next(iter(self._running.values())).wait()
        if self._loading is not None:
            await self._loading.wait()

    def begin_loading(self) -> None:
        """Start to load the embedding models in the background, because a turn had to do without them. Return at once."""
        if self._loading is None:
            self._loading = anyio.Event()
            self._tasks.start_soon(self._load, self._loading)

    async def _load(self, done: anyio.Event) -> None:
        try:
            await self._feeder.warm()
        except Exception:
            _log.exception("the embedding models could not be loaded behind a turn")
        finally:
            self._loading = None
            done.set()

    def begin(self, session_id: str) -> None:
        """Start to index the new entries of a session in the background. Return at once."""
        if session_id in self._running:
            self._again.add(session_id)
        else:
            self._running[session_id] = anyio.Event()
            self._tasks.start_soon(self._run, session_id)

    async def _run(self, session_id: str) -> None:
        try:
            head = await self._store.head(session_id)
            self._again.add(session_id)
            while session_id in self._again:
                self._again.discard(session_id)
                scopes = session_scope(session_id), world_scope(head.world_id)
                await self._feeder.feed(scopes, partial(self._wait_for_turn, session_id))
        except Exception:
            # The next commit tries again; until then recall finds the entries by words.
            _log.exception("session %s could not be indexed behind its turn", session_id)
        finally:
            self._again.discard(session_id)
            self._running.pop(session_id).set()

    async def _wait_for_turn(self, session_id: str) -> None:
        """Wait until no call uses the session, for at most `_MOST_WAIT_SECONDS`."""
        with anyio.move_on_after(_MOST_WAIT_SECONDS):
            await self._wait_until_free(session_id)

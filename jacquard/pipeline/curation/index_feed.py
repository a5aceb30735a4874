"""Updates the index after committed turns, so that no turn has to embed the messages of the previous one.

Nothing waits for it. A turn that starts earlier finds the new messages by their words; if the engine ends, the next engine's
first turns index the rest. This module must not import a concrete store, index or embedder.
"""

from __future__ import annotations

import anyio
from anyio.abc import TaskGroup

from jacquard.core.protocols import IndexFeeder
from mnemosyne.core.masking.call_logs import open_log
from mnemosyne.protocols import Store
from mnemosyne.schema.memory import session_scope, world_scope

_log = open_log(__name__)


class IndexFeed:
    """Indexes the entries of a session and its world after each of its turns; one run at a time for each session."""

    def __init__(self, store: Store, feeder: IndexFeeder, tasks: TaskGroup) -> None:
        self._store, self._feeder, self._tasks = store, feeder, tasks
        self._running: dict[str, anyio.Event] = {}
        self._again: set[str] = set()
        self._loading: anyio.Event | None = None

    async def wait_until_idle(self) -> None:
        """Return when nothing is being indexed or loaded."""
        while self._running:
            await next(iter(self._running.values())).wait()
        if self._loading is not None:
            await self._loading.wait()

    def begin_loading(self) -> None:
        """Start loading the embedding models that a turn had to do without; returns at once."""
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
        """Start indexing the entries of a committed turn; returns at once."""
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
                await self._feeder.feed((session_scope(session_id), world_scope(head.world_id)))
        except Exception:
            # The next commit tries again; until then recall finds the entries by words.
            _log.exception("session %s could not be indexed behind its turn", session_id)
        finally:
            self._again.discard(session_id)
            self._running.pop(session_id).set()

"""Embeds the newest messages of a session in the background after each turn, because recall for the next input may need them.

A commit does not wait for the embedding. If the next turn starts before the embedding has ended, the recall of that
turn waits for the embedding. If no embedding is running, recall embeds the messages itself. This module must not import
a concrete store or embedder.
"""

from __future__ import annotations

import anyio
from anyio.abc import TaskGroup

from jacquard.core.protocols import QueryPrefetcher
from jacquard.pipeline.curation.recall_query import RECENT_MESSAGES, recent_texts
from mnemosyne.core.masking.call_logs import open_log
from mnemosyne.protocols import Store

_log = open_log(__name__)


class HistoryPrefetcher:
    """Embeds a session's newest messages after each of its turns."""

    def __init__(self, store: Store, embedder: QueryPrefetcher, tasks: TaskGroup) -> None:
        self._store, self._embedder, self._tasks = store, embedder, tasks
        self._behind: list[anyio.Event] = []

    async def wait_until_idle(self) -> None:
        """Wait until no messages are being read or embedded."""
        while self._behind:
            await self._behind[0].wait()

    def begin(self, session_id: str, turn_id: str) -> None:
        """Start to embed the newest messages of a session, up to the committed turn `turn_id`, in the background.
        Return at once.
        """
        done = anyio.Event()
        self._behind.append(done)
        self._tasks.start_soon(self._run, session_id, turn_id, done)

    async def _run(self, session_id: str, turn_id: str, done: anyio.Event) -> None:
        try:
            branch_id = (await self._store.turn(session_id, turn_id)).branch_id
            window = await self._store.window(session_id, message_limit=RECENT_MESSAGES, branch_id=branch_id)
            await self._embedder.prefetch_recent(recent_texts(window.messages))
        except Exception:
            _log.exception("the talk of session %s could not be read ahead", session_id)
        finally:
            self._behind.remove(done)
            done.set()

"""Runs the background work of an engine. No turn waits for this work.

There are four kinds: memory selections that came too late for their turn, rolling summaries, consolidation (making
memories from past turns), and preparing the next search (embedding and indexing). All work is cancelled when the engine
closes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self

import anyio

from jacquard.adapters.observe.bus import EventEmitter
from jacquard.config.sections import RuntimeConfig
from jacquard.core.degradations import DegradationCode
from jacquard.core.receipt import Report
from jacquard.memory.consolidate.consolidator import Consolidator
from jacquard.memory.summarize.roller import SummaryRoller
from jacquard.pipeline.curation.deadline import CurationDeadline
from jacquard.pipeline.curation.history_prefetch import HistoryPrefetcher
from jacquard.pipeline.curation.index_feed import IndexFeed
from jacquard.pipeline.worlds import WorldSource
from jacquard.turns.parts import EngineParts


class BackgroundWork:
    """Owns the task group of an engine and starts background work in it. Create and enter it in a running event loop.

    `hold(session_id)` locks a session for one caller at a time. `wait_until_free(session_id)` returns when no call uses a
    session.
    """

    def __init__(
        self,
        parts: EngineParts,
        hold: Callable[[str], AbstractAsyncContextManager[None]],
        wait_until_free: Callable[[str], Awaitable[None]],
        worlds: WorldSource,
        emitter: EventEmitter,
    ) -> None:
        self.tasks = anyio.create_task_group()
        self.deadline = CurationDeadline(self.tasks)
        self.roller = SummaryRoller(
            parts.store,
            worlds,
            parts.estimator,
            parts.clock,
            parts.summarizer,
            self.tasks,
            hold,
            emitter,
            parts.failures.summaries,
        )
        self.consolidator = Consolidator(
            parts.store,
            parts.consolidator,
            parts.estimator,
            parts.clock,
            hold,
            worlds,
            emitter,
            parts.failures.memories,
        )
        self._prefetcher = None if parts.ahead is None else HistoryPrefetcher(parts.store, parts.ahead, self.tasks)
        self._index_feed = (
            None if parts.feeder is None else IndexFeed(parts.store, parts.feeder, self.tasks, wait_until_free)
        )

    async def __aenter__(self) -> Self:
        await self.tasks.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel all work. An error of the caller is passed on unchanged, not wrapped in an exception group."""
        self.tasks.cancel_scope.cancel()
        await self.tasks.__aexit__(None, None, None)

    async def wait_until_idle(self) -> None:
        """Wait until no background work is running."""
        await self.deadline.wait_until_idle()
        await self.roller.wait_until_idle()
        await self.consolidator.wait_until_idle()
        if self._prefetcher is not None:
            await self._prefetcher.wait_until_idle()
        if self._index_feed is not None:
            await self._index_feed.wait_until_idle()

    def follow_turn(self, report: Report) -> None:
        """Load the embedder in the background if `report` states that the turn had to do without it."""
        lacks = any(each.code == DegradationCode.EMBEDDER_LOADING for each in report.degradations)
        if self._index_feed is not None and lacks:
            self._index_feed.begin_loading()

    def follow_commit(self, session_id: str, turn_id: str, config: RuntimeConfig) -> None:
        """Start the work that follows a committed turn: summary, consolidation, embedding and indexing."""
        self.roller.begin_next_summary(session_id, turn_id, config)
        self.consolidator.begin(self.tasks, session_id, turn_id, config.consolidation, review=config.memory.review)
        if self._prefetcher is not None and config.curation.enabled:
            self._prefetcher.begin(session_id, turn_id)
        if self._index_feed is not None:
            self._index_feed.begin(session_id)

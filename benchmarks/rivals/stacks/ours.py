"""Ours: a session in SQLite, the tiered index on disk, and the engine's own `prepare_turn` with the heuristic selector.

Put together as by `jacquard.wiring.runtime.open_runtime`, except that the embedder records its times.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from anyio import to_thread

from benchmarks.rivals.stacks.stack import HISTORY_TOKENS, Turn, TurnRequest
from jacquard import (
    BudgetConfig,
    ContextEngine,
    CurationConfig,
    HistoryConfig,
    PreparedTurn,
    RuntimeConfig,
    SummaryConfig,
)
from jacquard.core.receipt import Action
from jacquard.pipeline.curation.recall_query import build_recall_query
from jacquard.pipeline.curation.selectors.heuristic import HeuristicSelector
from jacquard.pipeline.curation.stream import CurationStream
from jacquard.pipeline.planning.rules import RulePlanner
from jacquard.pipeline.skeleton.automation import AutomationStream
from jacquard.pipeline.turn import ShownHistory
from jacquard.pipeline.turn import Turn as PlannedTurn
from jacquard.pipeline.worlds import build_bare_world
from jacquard.templating import find_shipped_templates
from jacquard.turns.parts import EngineParts
from jacquard.wiring.process_tuning import ProcessTuning
from mnemosyne import CalibratedEstimator, Embedder, Message, RetrievalQuery, Role, SqliteStore
from mnemosyne.formats.corpora.corpus import Corpus, CorpusDocument, to_session
from mnemosyne.retrieval.embedding.prefetching import PrefetchingEmbedder
from mnemosyne.retrieval.engines.tiered_index import TieredIndex
from mnemosyne.retrieval.recall.hybrid import HybridRetriever
from mnemosyne.schema.memory import session_scope
from mnemosyne.schema.record import SessionWindow
from mnemosyne.schema.session import SessionHead

_SESSION = "bench"
_FLESH = "flesh:"
_ROOM_TOKENS = 16_384
_PATIENCE_SECONDS = 60.0


class _Clock:
    def now(self) -> datetime:
        return datetime.now(UTC)


class Ours:
    """The shipped parts with their shipped settings, but for the history window, which is that of all stacks.

    Summaries are switched off, because no other stack makes one, and because a window that always shows as many of the newest
    messages would need a summary with each turn.

    No turn is late here (deadline and patience of a minute): what is measured is how long it takes.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = PrefetchingEmbedder(embedder)
        self._folder = tempfile.TemporaryDirectory(prefix="jacquard-rivals-")
        self._engine: ContextEngine | None = None
        self._tuning = ProcessTuning()
        self._talk, self._places, self._waits = 0, 0, False

    async def index(self, documents: Sequence[CorpusDocument], talk: Sequence[CorpusDocument]) -> None:
        """Bring everything into a store, index it, and open the engine on it."""
        await self._close_all()
        folder = Path(tempfile.mkdtemp(dir=self._folder.name))
        self._talk = len(talk)
        own = tuple(replace(each, session=None) for each in documents)
        start = to_session(Corpus(path="", documents=own, sessions=()), None, session_id=_SESSION, world_id="bare")
        self._store = SqliteStore(folder / "store.db")
        self._index = TieredIndex(folder / "index")
        estimator = CalibratedEstimator()
        self._retriever = HybridRetriever(
            self._store,
            self._index,
            self._embedder,
            estimator,
            inline_vectors=0,
            vector_patience_seconds=_PATIENCE_SECONDS,
        )
        self._head: SessionHead = await self._store.create_session(start)
        await self._retriever.sync(session_scope(_SESSION))
        shipped = await to_thread.run_sync(find_shipped_templates)
        world = build_bare_world("bare")
        parts = EngineParts(
            store=self._store,
            planner=RulePlanner(),
            automation=AutomationStream(estimator, shipped),
            curation=CurationStream(self._retriever, None, HeuristicSelector()),
            pruner=None,
            estimator=estimator,
            clock=_Clock(),
            roots=(shipped,),
            worlds={world.world_id: world},
            ahead=self._embedder,
            feeder=self._retriever,
        )
        self._engine = await ContextEngine(parts, RuntimeConfig()).__aenter__()
        await to_thread.run_sync(self._tuning.tune)

    async def turn(self, ask: TurnRequest) -> Turn:
        """Return the prompt of `prepare_turn`; memories are in the order of choice as far as they fit `ask.tokens`."""
        prepared = await self._opened.prepare_turn(_SESSION, ask.query, self._config(ask.limit))
        self._waits = True
        report = prepared.report
        ranked = sorted(report.stream_b.candidates, key=lambda each: each.rank)
        return Turn(
            ranked=tuple(each.entry_id for each in ranked),
            evidence=_select_within(prepared, ask.tokens),
            messages=tuple((each.role, each.content) for each in prepared.messages),
            steps_ms=dict(report.timings_ms),
        )

    async def recall(self, query: str, limit: int) -> tuple[str, ...]:
        """Return ids, best first, of what the planner makes of the query."""
        recall = await self._retriever.recall(self._query(query, limit))
        return tuple(each.entry_id for each in recall.candidates)

    async def commit(self, query: str, reply: str) -> None:
        """Commit the reply to the turn before; its input is in the store already."""
        await self._opened.commit_assistant_message(_SESSION, reply)
        self._waits = False

    async def discard(self) -> None:
        """Leave an input without a reply on a branch of its own; it would belong to the session of the next one."""
        if self._waits:
            head = await self._store.head(_SESSION)
            self._places += 1
            await self._store.fork(_SESSION, head.turn_id, f"place-{self._places}")
            self._waits = False

    async def settle(self) -> None:
        """Wait until the index is up to date, and what goes on behind a commit has ended."""
        if not await self._opened.settle(_PATIENCE_SECONDS):
            raise RuntimeError(f"what goes on behind a commit took longer than {_PATIENCE_SECONDS:.0f} s")

    async def close(self) -> None:
        """Close engine, index and store; the folder is gone afterwards."""
        await self._close_all()
        await to_thread.run_sync(self._folder.cleanup)

    @property
    def _opened(self) -> ContextEngine:
        if self._engine is None:
            raise RuntimeError("index first")
        return self._engine

    async def _close_all(self) -> None:
        if self._engine is not None:
            await self._engine.__aexit__(None, None, None)
            await self._index.close()
            await self._store.close()
            self._tuning.release()
            self._engine = None

    def _config(self, limit: int) -> RuntimeConfig:
        return RuntimeConfig(
            budget=BudgetConfig(max_input_tokens=_ROOM_TOKENS),
            history=HistoryConfig(max_messages=self._talk, max_tokens=HISTORY_TOKENS, low_water=1.0),
            summary=SummaryConfig(enabled=False),
            curation=CurationConfig(
                select_limit=limit, fallback_limit=limit, deadline_ms=int(_PATIENCE_SECONDS * 1000)
            ),
        )

    def _query(self, query: str, limit: int) -> RetrievalQuery:
        config = self._config(limit)
        world = build_bare_world("bare")
        window = SessionWindow(head=self._head, messages=(), state={})
        plan = RulePlanner().plan(query, window, world)
        message = Message(role=Role.USER, content=query)
        turn = PlannedTurn(
            plan=plan, window=window, world=world, message=message, config=config, history=ShownHistory()
        )
        return replace(build_recall_query(turn), limit=limit)


def _select_within(prepared: PreparedTurn, tokens: int) -> tuple[tuple[str, int], ...]:
    """Return the chosen memories in the prompt, in the order of choice, as far as their blocks fit."""
    costs: Mapping[str, Any] = {
        each.block_id.removeprefix(_FLESH): each.tokens
        for each in prepared.report.decisions
        if each.block_id.startswith(_FLESH) and each.action is not Action.DROPPED
    }
    chosen, left = [], tokens
    for name in prepared.report.stream_b.selected:
        if name not in costs:
            continue
        if costs[name] > left:
            break
        left -= costs[name]
        chosen.append((name, costs[name]))
    return tuple(chosen)

"""Engine for plays: a durable store in a temporary folder, the local model for embeddings, a clock that the script
sets.

It uses only the public names of jacquard and mnemosyne. The same script gives the same prompts, however busy the
machine is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Literal

import numpy as np
from anyio import to_thread

from evals.running.cache import CachedEmbedder, VectorCache
from jacquard import ContextEngine, PreparedTurn, RuntimeConfig, create_context_engine
from jacquard.wiring.runtime import open_embedder
from mnemosyne import Embedder, Message, SqliteStore, Store
from mnemosyne.evidence import RedactingIngestor
from mnemosyne.privacy.redact import RegexRedactor
from mnemosyne.protocols import Vectors
from mnemosyne.schema.world import WorldPack

SESSION = "play"
LATE_CODES = frozenset({"vectors_late", "summarize_late", "shorten_late", "timeout"})
"""Degradations of a busy machine: figures of a turn with one of them could differ the next time."""
PATIENCE_MS = 600_000
SETTLE_SECONDS = 600.0
_START = datetime(2026, 3, 1, 20, 0, tzinfo=UTC)
_STEP = timedelta(minutes=1)
_WARM_UP = "warm-up"
_ATTEMPTS = 5


class ScriptClock:
    """A clock that the host sets; the engine reads it."""

    def __init__(self) -> None:
        self._now = _START

    def now(self) -> datetime:
        """Return the time of the play."""
        return self._now

    def step(self, to: datetime | None = None) -> None:
        """Let a minute pass, or go on to a later time."""
        self._now = self._now + _STEP if to is None or to <= self._now else to

    def set_start(self, at: datetime) -> None:
        """Begin at another time."""
        self._now = at


class RememberingEmbedder:
    """An embedder that computes the vector of a query once, so that a turn that was late can be prepared again at once."""

    def __init__(self, inner: Embedder) -> None:
        self.name = inner.name
        self._inner = inner
        self._known: dict[str, Vectors] = {}

    async def warm(self) -> None:
        """Load the model; EmbedderUnavailableError."""
        await self._inner.warm()

    async def fitness(self, text: str) -> float:
        """Ask the model."""
        return await self._inner.fitness(text)

    async def embed(self, texts: Sequence[str], purpose: Literal["query", "document"]) -> Vectors:
        """Return one row a text."""
        if purpose == "document" or not texts:
            return await self._inner.embed(texts, purpose)
        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        if missing:
            self._known.update(zip(missing, await self._inner.embed(missing, purpose), strict=True))
        return np.stack([self._known[text] for text in texts])


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenedEngine:
    """An open engine and the session that is played; `root` is its last turn before the play, if there is any."""

    session: str
    world: WorldPack
    engine: ContextEngine
    store: Store
    clock: ScriptClock
    ingestor: RedactingIngestor
    config: RuntimeConfig
    root: str | None

    async def begin(self, session: str, start: datetime | None = None) -> OpenedEngine:
        """Start another session of the world, at a time of its own, and return the engine as it plays that."""
        if start is not None:
            self.clock.set_start(start)
        head = await self.engine.start_session(session, self.world)
        return replace(self, session=session, root=head.turn_id)

    async def prepare(self, message: Message, branch_id: str | None = None) -> PreparedTurn:
        """Prepare a turn; one in which a part was late is prepared again, with settings that differ only in the
        deadline.
        """
        turn = await self.engine.prepare_turn(self.session, message, branch_id=branch_id)
        for attempt in range(1, _ATTEMPTS):
            if turn.reply is not None or not codes_of(turn) & LATE_CODES:
                break
            await self.engine.settle(SETTLE_SECONDS)
            curation = replace(self.config.curation, deadline_ms=PATIENCE_MS + attempt)
            again = replace(self.config, curation=curation)
            turn = await self.engine.prepare_turn(self.session, message, again, branch_id=branch_id)
        return turn

    async def settle(self) -> None:
        """Wait for the work behind turns."""
        await self.engine.settle(SETTLE_SECONDS)


def codes_of(turn: PreparedTurn) -> set[str]:
    """Return what a turn did without, and the path of its curation, as codes."""
    return {*(each.code for each in turn.report.degradations), turn.report.stream_b.path.value}


def limit_prompts(config: RuntimeConfig | None, budget_tokens: int) -> RuntimeConfig:
    """Return settings under which a prompt takes at most a budget, and no turn is late."""
    given = config or RuntimeConfig()
    kept_free = given.budget.reserved_reply_tokens + given.budget.reserved_tail_tokens
    budget = replace(given.budget, max_input_tokens=budget_tokens + kept_free)
    return replace(given, budget=budget, curation=replace(given.curation, deadline_ms=PATIENCE_MS))


@asynccontextmanager
async def open_engine(
    world: WorldPack,
    *,
    locale: str,
    embedder: str,
    config: RuntimeConfig,
    cache: Path | None = None,
) -> AsyncIterator[OpenedEngine]:
    """Open an engine with a session of a world, whose lore is indexed.

    `cache` is a folder for vectors of documents. EmbedderUnavailableError where the model cannot be loaded.
    """
    model = await _open_model(embedder, locale, cache)
    clock = ScriptClock()
    async with _open_folder() as folder:
        store = SqliteStore(folder / "play.db", synchronous="NORMAL")
        try:
            ingestor = RedactingIngestor(store, RegexRedactor(), clock)
            made = create_context_engine(
                store, config=config, world=world, embedder=model, clock=clock, ingestor=ingestor
            )
            async with made as engine:
                if world.lore:
                    await _index_lore(engine, world)
                head = await engine.start_session(SESSION, world)
                yield OpenedEngine(
                    session=SESSION,
                    world=world,
                    engine=engine,
                    store=store,
                    clock=clock,
                    ingestor=ingestor,
                    config=config,
                    root=head.turn_id,
                )
        finally:
            await store.close()


@asynccontextmanager
async def _open_folder() -> AsyncIterator[Path]:
    made = await to_thread.run_sync(partial(mkdtemp, prefix="jacquard-play-"))
    try:
        yield Path(made)
    finally:
        await to_thread.run_sync(partial(rmtree, made, ignore_errors=True))


async def _open_model(name: str, locale: str, cache: Path | None) -> Embedder | None:
    found: Embedder | None = await to_thread.run_sync(partial(open_embedder, name, language=locale))
    if found is None:
        return None
    if cache is not None:
        found = CachedEmbedder(found, VectorCache(cache))
    model = RememberingEmbedder(found)
    await model.warm()
    return model


async def _index_lore(engine: ContextEngine, world: WorldPack) -> None:
    """Let the engine index the lore before the play, as it would be in any session but the first."""
    await engine.start_session(_WARM_UP, world)
    turn = await engine.prepare_turn(_WARM_UP, world.title)
    if turn.reply is None:
        await engine.commit_assistant_message(_WARM_UP, world.title)
    await engine.settle(SETTLE_SECONDS)

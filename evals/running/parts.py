"""The real parts of a run, by name. The only module of the evals that knows concrete indexes and selectors.

Heavy parts (models, litellm, rank-bm25) are imported by their own module when an option names them. Parts of plugins and of
the evaluator are opened by `own_parts`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import islice

from anyio import to_thread

from evals.errors import SetupError
from evals.running.cache import CachedEmbedder, VectorCache
from evals.running.oracle import OracleSelector
from evals.running.own_parts import RUN_SELECTORS, CheckedRetriever, CheckedSelector, OpenPart, find_part
from evals.running.plain_rrf import score_reciprocal_ranks
from jacquard import LlmAdapter, Selector
from jacquard.config.extension_points import RETRIEVERS
from jacquard.pipeline.curation.selectors.flash import FlashSelector
from jacquard.pipeline.curation.selectors.heuristic import HeuristicSelector
from jacquard.pipeline.curation.selectors.rerank import RerankSelector
from jacquard.wiring.runtime import open_embedder as named_embedder
from jacquard.wiring.runtime import open_reranker
from mnemosyne import (
    CalibratedEstimator,
    MemoryEntry,
    Recall,
    RetrievalQuery,
    Retriever,
)
from mnemosyne.core.optional_packages import explain_missing_package
from mnemosyne.protocols import EntrySource
from mnemosyne.retrieval.engines.tables.memory import MemoryIndex
from mnemosyne.retrieval.recall.arms import ALL_ARMS, BM25, VECTOR
from mnemosyne.retrieval.recall.hybrid import HybridRetriever
from mnemosyne.schema.memory import session_scope

PATIENCE_SECONDS = 60.0
"""A turn goes on by words when the query's vector is late; a score must not depend on how busy the machine is."""

SelectorSource = Callable[[Mapping[str, int]], Selector]
"""Gives the selector of one query; only the oracle looks at the labels."""


class Arm(StrEnum):
    """Retrievers that are arms of our own recall: all together, only one, or both joined by plain RRF."""

    HYBRID = "hybrid"
    VECTOR = "vector"
    BM25 = "bm25"
    RRF = "rrf"


class Choice(StrEnum):
    """Built-in selectors of a run."""

    HEURISTIC = "heuristic"
    FLASH = "flash"
    RERANK = "rerank"
    ORACLE = "oracle"


RANK_BM25 = "rank-bm25"
"""Name of the reference retriever; it needs no vectors."""
_WORDS, _VECTORS = frozenset({BM25}), frozenset({VECTOR})
_ARMS = {Arm.HYBRID: (ALL_ARMS,), Arm.VECTOR: (_VECTORS,), Arm.BM25: (_WORDS,), Arm.RRF: (_WORDS, _VECTORS)}


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolMemory:
    """One pool's memory: recall over it, and its full entries. If there are several retrievers, plain RRF joins them."""

    scope: str
    source: EntrySource
    retrievers: Sequence[Retriever]

    async def sync(self, progress: Callable[[int, int], None]) -> None:
        """Index everything, vectors too."""
        for each in self.retrievers:
            if isinstance(each, HybridRetriever | CheckedRetriever):
                await each.sync(self.scope, progress)

    async def recall(self, query: RetrievalQuery) -> Recall:
        """Return the candidates of a query."""
        found = [await each.recall(query) for each in self.retrievers]
        return found[0] if len(found) == 1 else _join_recalls(found, query.limit)

    async def entries(self, entry_ids: Sequence[str]) -> tuple[MemoryEntry, ...]:
        """Return full entries in the order asked."""
        return await self.source.entries(self.scope, entry_ids)


def _join_recalls(recalls: Sequence[Recall], limit: int) -> Recall:
    found = {each.entry_id: each for recall in reversed(recalls) for each in recall.candidates}
    scores = score_reciprocal_ranks([[each.entry_id for each in recall.candidates] for recall in recalls])
    return Recall(
        candidates=tuple(replace(found[name], score=score) for name, score in islice(scores.items(), limit)),
        queries=recalls[0].queries,
        degradations=tuple(dict.fromkeys(code for recall in recalls for code in recall.degradations)),
    )


def find_retriever(name: str) -> OpenPart | None:
    """Return what opens the retriever of a name; None for an arm of our own recall. SetupError if there is none."""
    if name in _ARMS:
        return None
    if name == RANK_BM25:
        found: OpenPart = import_module("evals.running.rank_bm25_retriever").RankBm25Retriever
        return partial(found, "")
    opener = find_part(RETRIEVERS, name)
    return lambda **options: CheckedRetriever(opener(**options), name)


async def open_embedder(name: str, arm: str, cache: VectorCache, language: str | None = None) -> CachedEmbedder | None:
    """Return the embedder of a name, warm and with its cache; None for a run only by words.

    SetupError if vectors are asked for and there is no model; EmbedderUnavailableError if it cannot be loaded.
    """
    if arm in (Arm.BM25, RANK_BM25):
        return None
    found = await to_thread.run_sync(partial(named_embedder, name, language=language))
    if found is None:
        if arm in (Arm.VECTOR, Arm.RRF):
            raise SetupError(f"{arm} needs a model, and `--embedder {name}` gives none: name another.")
        return None
    embedder = CachedEmbedder(found, cache)
    await embedder.warm()
    return embedder


@asynccontextmanager
async def open_memory(
    source: EntrySource,
    session_id: str,
    embedder: CachedEmbedder | None,
    name: str,
    open_retriever: OpenPart | None = None,
) -> AsyncIterator[PoolMemory]:
    """Open the memory of one session: by `open_retriever`, or by arms over an index of its own, which is gone afterwards."""
    index = MemoryIndex()
    retrievers: Sequence[Retriever]
    if open_retriever is not None:
        retrievers = (open_retriever(source=source, embedder=embedder),)
    else:
        retrievers = tuple(
            HybridRetriever(
                source, index, embedder, CalibratedEstimator(), arms=arms, vector_patience_seconds=PATIENCE_SECONDS
            )
            for arms in _ARMS[Arm(name)]
        )
    try:
        yield PoolMemory(scope=session_scope(session_id), source=source, retrievers=retrievers)
    finally:
        await index.close()


@asynccontextmanager
async def open_selectors(
    name: str, model: str | None, api_base: str | None, reranker: str | None = None, *, rationale: bool = True
) -> AsyncIterator[SelectorSource]:
    """Give the selector of each query; a model's connections are released afterwards. SetupError, ConfigError."""
    if (name == Choice.RERANK) != (reranker is not None):
        raise SetupError("`--selector rerank` and `--reranker FOLDER` go together.")
    if reranker is not None:
        scorer = await to_thread.run_sync(open_reranker, reranker)
        try:
            await scorer.warm()
            reranking = RerankSelector(scorer)
            yield lambda relevant: reranking
        finally:
            await scorer.close()
        return
    if name in (Choice.HEURISTIC, Choice.ORACLE):
        if model is not None:
            raise SetupError(f"`--model` is for `--selector flash` and for selectors of plugins; {name} calls none.")
        heuristic = HeuristicSelector()
        yield OracleSelector if name == Choice.ORACLE else lambda relevant: heuristic
        return
    if name == Choice.FLASH and model is None:
        raise SetupError("`--selector flash` needs `--model NAME` (and `--api-base URL` if it is served elsewhere).")
    open_own = None if name == Choice.FLASH else find_part(RUN_SELECTORS, name)
    adapter = None if model is None else _open_model(name, model, api_base)
    try:
        if adapter is not None:
            await adapter.warm()
        if open_own is not None:
            own = CheckedSelector(open_own(model=adapter), name)
            yield lambda relevant: own
        elif adapter is not None:
            flash = FlashSelector(adapter, rationale=rationale)
            yield lambda relevant: flash
    finally:
        if adapter is not None:
            await adapter.close()


def _open_model(selector: str, model: str, api_base: str | None) -> LlmAdapter:
    if find_spec("litellm") is None:
        raise SetupError(explain_missing_package(f"`--selector {selector}`", "litellm", "models"))
    adapter: LlmAdapter = import_module("jacquard.adapters.models.litellm_adapter").LiteLlmModel(model, api_base)
    return adapter

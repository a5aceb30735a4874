"""A run: every query of a labelled set goes through the recall and selection of the engine, one at a time.

What is asked is what the engine would ask: the planner reads the query, the scene is made from what was said before it,
the retriever recalls out of a real store, the selector chooses. Scores are made elsewhere (`metrics`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio
from anyio import to_thread

from evals.answers.answer_scores import Evidence, score_answer
from evals.dataset import LabelledQuery, LabelledSet, Pool
from evals.errors import PartError
from evals.metrics import Outcome
from evals.reporting.machine import load, machine, versions
from evals.reporting.report import Result, Row
from evals.running.cache import CachedEmbedder, VectorCache
from evals.running.journal import Journal, identity_of
from evals.running.own_parts import RUN_SELECTORS, OpenPart, describe_origin
from evals.running.parts import (
    Arm,
    Choice,
    PoolMemory,
    SelectorSource,
    find_retriever,
    open_embedder,
    open_memory,
    open_selectors,
)
from jacquard import (
    CurationConfig,
    RuntimeConfig,
    Selection,
    SelectionRequest,
    Selector,
    SelectorError,
)
from jacquard.config.extension_points import RETRIEVERS
from jacquard.pipeline.curation.memory_blocks import MemoryLabels, render_memories
from jacquard.pipeline.curation.recall_query import build_recall_query, recent_lines
from jacquard.pipeline.planning.rules import RulePlanner
from jacquard.pipeline.turn import ShownHistory, Turn
from jacquard.pipeline.worlds import build_bare_world
from mnemosyne import (
    Author,
    AuthorKind,
    CalibratedEstimator,
    Chain,
    EvidenceSource,
    EvidenceType,
    IngestOptions,
    MemoryEntry,
    Message,
    Role,
    SourceKind,
    SqliteStore,
    SystemClock,
    TokenEstimator,
)
from mnemosyne.evidence import RedactingIngestor
from mnemosyne.formats.corpora.corpus import CorpusDocument, to_session
from mnemosyne.privacy.redact import RegexRedactor
from mnemosyne.retrieval.text.words import has_cjk
from mnemosyne.schema.memory import session_scope
from mnemosyne.schema.record import SessionWindow
from mnemosyne.schema.session import SessionHead, WindowMessage

SELECT_LIMIT = 5
DEFAULT_CACHE = Path(".jacquard") / "evals"
SHARED = "shared"
SCORE_DIGITS = 6
"""Digits that are kept of a candidate's score."""
_NOTHING = Selection(entry_ids=())
_NO_NAMES: Mapping[str, tuple[str, ...]] = {}
_PAGE = 1_000
_PARTED = "\n\n"
"""Between what was said at different times, in the transcript of a conversation."""

Progress = Callable[[str, int, int], None]
"""Told what is done (`indexing` or `queries`), how far, of how many."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """Options of a run."""

    retriever: str = Arm.HYBRID
    """An `Arm`, `rank-bm25`, a plugin, or `module:attribute`."""
    selector: str = Choice.HEURISTIC
    """A `Choice`, a plugin, or `module:attribute`."""
    embedder: str = "auto"
    """A name, `none` or `auto`."""
    model: str | None = None
    api_base: str | None = None
    rationale: bool = True
    """Whether `flash` asks its model for a sentence that states why."""
    reranker: str | None = None
    recall_limit: int = 50
    """Number of candidates."""
    floor: float = 0.0
    """Minimum probability of relevance (0..1) of a memory that the heuristic selects."""
    limit: int | None = None
    """Maximum number of queries."""
    cache: Path = DEFAULT_CACHE
    as_evidence: bool = False
    """Whether the documents are put into the session as evidence and recalled by their passages, not as memory."""


async def run_set(
    labelled: LabelledSet,
    options: Options,
    progress: Progress | None = None,
    selectors: AbstractAsyncContextManager[SelectorSource] | None = None,
    journal: Path | None = None,
) -> Result:
    """Run every query (or an even sample of `options.limit`) and return the results, in the order of the file.

    `selectors` replace the one in the options. Progress is kept in `journal` row by row; a run that finds one of itself
    continues from there, and removes it at its end. Raises SetupError if parts are missing. A selector that fails on a
    query is a row with an error, not an end.
    """
    progress = progress or (lambda what, done, total: None)
    sampled = labelled.sample(options.limit)
    pools = sampled.pools()
    config = RuntimeConfig(curation=CurationConfig(recall_limit=options.recall_limit, select_limit=SELECT_LIMIT))
    kept = None
    if journal is not None:
        identity = identity_of(sampled, {**asdict(options), "cache": None}, {**versions(), **_origins(options)})
        kept = await to_thread.run_sync(Journal, journal, identity)
    rows: dict[str, Row] = dict(kept.rows) if kept is not None else {}
    resumed = len(rows)
    before = load()
    language = find_language(pools)
    open_retriever = await to_thread.run_sync(find_retriever, options.retriever)
    embedder = await open_embedder(options.embedder, options.retriever, VectorCache(options.cache), language)
    named = open_selectors(
        options.selector, options.model, options.api_base, options.reranker, rationale=options.rationale
    )
    async with selectors or named as opened:
        runner = _Runner(
            config=config, selectors=opened, options=options, embedder=embedder, open_retriever=open_retriever
        )
        with tempfile.TemporaryDirectory(prefix="jacquard-evals-") as folder:
            for number, pool in enumerate(pools):
                done = sum(query.query_id in rows for query in sampled.queries)

                def each(count: int, base: int = done) -> None:
                    progress("queries", base + count, len(sampled.queries))

                left = tuple(query for query in pool.queries if query.query_id not in rows)
                if left:
                    rest = replace(pool, queries=left)
                    rows.update(await runner.run(labelled, rest, Path(folder) / f"{number}.db", progress, each, kept))
    if kept is not None:
        await to_thread.run_sync(kept.close)
    return Result(
        rows=tuple(rows[query.query_id] for query in sampled.queries),
        config={**_config(labelled, options, embedder), "load": {"before": before, "after": load()}},
        counts={
            "documents": len(labelled.corpus.documents),
            "queries_in_set": len(labelled.queries),
            "pools": len(pools),
            "embedded": embedder.computed if embedder is not None else 0,
            "resumed": resumed,
        },
    )


def find_language(pools: Sequence[Pool]) -> str:
    """Return the language for which `auto` chooses a model: `zh` if most documents of the set have CJK characters."""
    documents = [document for pool in pools for document in pool.documents]
    return "zh" if 2 * sum(has_cjk(document.text) for document in documents) > len(documents) else "en"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Runner:
    """Runs the queries of one pool at a time."""

    config: RuntimeConfig
    selectors: SelectorSource
    options: Options
    embedder: CachedEmbedder | None
    open_retriever: OpenPart | None
    planner: RulePlanner = field(default_factory=RulePlanner)
    estimator: TokenEstimator = field(default_factory=CalibratedEstimator)

    async def run(
        self,
        labelled: LabelledSet,
        pool: Pool,
        file: Path,
        progress: Progress,
        each: Callable[[int], None],
        journal: Journal | None,
    ) -> dict[str, Row]:
        """Bring a pool into a store of its own, index it, and run its queries."""
        start = to_session(labelled.corpus, pool.session, session_id=pool.session or SHARED)
        store = SqliteStore(file, synchronous="NORMAL")
        rows: dict[str, Row] = {}
        try:
            if self.options.as_evidence:
                start = replace(start, turns=(), entries=())
            head = await store.create_session(start)
            names = await self._put_documents(store, pool, head) if self.options.as_evidence else _NO_NAMES
            named = self.options.retriever, self.open_retriever
            async with open_memory(store, head.session_id, self.embedder, *named) as memory:
                await memory.sync(lambda done, total: progress("indexing", done, total))
                ids = pool.ids
                for count, query in enumerate(pool.queries, start=1):
                    row = rows[query.query_id] = await self._row(query, head, memory, ids, names)
                    if journal is not None:
                        await to_thread.run_sync(journal.add, row)
                    each(count)
        finally:
            await store.close()
            await anyio.Path(file).unlink(missing_ok=True)
        return rows

    async def _put_documents(self, store: SqliteStore, pool: Pool, head: SessionHead) -> Mapping[str, tuple[str, ...]]:
        """Put the documents of a pool into a session as evidence, a conversation as one: its transcript. Return the ids of what
        each passage holds.
        """
        ingestor = RedactingIngestor(store, RegexRedactor(), SystemClock())
        # The labels are of the unchanged texts.
        options = IngestOptions(redact=False, dedup=False, as_document=True)
        parts: dict[str, Sequence[CorpusDocument]] = {}
        for whole in _whole_documents(pool.documents):
            source = EvidenceSource(
                kind=SourceKind.RAG, name=str(whole[0].metadata.get("title", "")), uri=f"set:{whole[0].document_id}"
            )
            text = _PARTED.join(part.text for part in whole)
            done = await ingestor.ingest(head.session_id, text, source, EvidenceType.RAG_DOC, options=options)
            parts[str(done.evidence_id)] = whole
        names: dict[str, tuple[str, ...]] = {}
        scope, after = session_scope(head.session_id), 0
        while page := await store.entries_after(scope, Chain.LORE, after, _PAGE):
            for item in page:
                of_document = parts.get(item.entry.metadata.get("document_id", ""))
                if of_document is not None:
                    names[item.entry.entry_id] = tuple(_name_parts(item.entry, of_document))
            after = page[-1].sequence
        return names

    async def _row(
        self,
        query: LabelledQuery,
        head: SessionHead,
        memory: PoolMemory,
        ids: frozenset[str],
        names: Mapping[str, tuple[str, ...]],
    ) -> Row:
        turn = self._plan(query, head)
        started = perf_counter()
        # The turn's deadline does not count, because a score must not depend on how busy the machine is.
        recall = await memory.recall(replace(build_recall_query(turn), patience_seconds=None))
        recalled = perf_counter()
        selector = self.selectors(query.relevant)
        request = SelectionRequest(
            user_message=query.text,
            recent=recent_lines(turn.shown),
            plan=turn.plan,
            candidates=recall.candidates,
            limit=SELECT_LIMIT,
            relevance_floor=self.options.floor,
        )
        selection, error = await _select(selector, request)
        chosen = perf_counter()
        retrieved = tuple(candidate.entry_id for candidate in recall.candidates)
        entries = {
            entry.entry_id: entry
            for entry in await memory.entries(tuple({*retrieved, *selection.entry_ids, *query.wanted}))
        }
        if unknown := sorted({*retrieved} - set(entries)):
            raise PartError(f"--retriever {self.options.retriever}: {unknown[0]!r} is not an entry of this session.")
        sizes = {name: self.estimator.estimate(entry.text) for name, entry in entries.items()}
        scores = {each.entry_id: round(each.score, SCORE_DIGITS) for each in recall.candidates}
        passages = _name_documents(retrieved, names)
        return Row(
            outcome=Outcome(
                query_id=query.query_id,
                category=query.category,
                relevant=query.relevant,
                retrieved=tuple(passages),
                scores=tuple(scores[passage] for passage in passages.values()),
                selected=tuple(_name_documents(selection.entry_ids, names)),
                tokens=tuple(_document_tokens(retrieved, names, sizes)),
            ),
            session=query.session,
            recall_ms=(recalled - started) * 1000,
            select_ms=(chosen - recalled) * 1000,
            tokens=sum(sizes.get(entry_id, 0) for entry_id in selection.entry_ids),
            unreachable=tuple(sorted(query.wanted - ids)),
            error=error,
            counts=selection.counts,
            degradations=recall.degradations,
            answers=await to_thread.run_sync(self._score_answer, query, retrieved, selection.entry_ids, entries),
        )

    def _score_answer(
        self,
        query: LabelledQuery,
        retrieved: Sequence[str],
        selected: Sequence[str],
        entries: Mapping[str, MemoryEntry],
    ) -> dict[str, float]:
        """Return whether the text that a prompt writes of the selected entries contains the gold answer."""
        if query.answer is None:
            return {}

        def write(names: Iterable[str]) -> list[Evidence]:
            found = [entries[name] for name in names if name in entries]
            selection = Selection(entry_ids=tuple(entry.entry_id for entry in found))
            limit_tokens = self.config.curation.max_entry_tokens
            # As in every session without a world pack.
            blocks = render_memories(selection, found, self.estimator, limit_tokens, labels=MemoryLabels(dates=True))
            written = {block.rank: block.content for block in blocks}
            return [Evidence(text=entry.text, written=written[rank]) for rank, entry in enumerate(found)]

        return score_answer(
            query.answer,
            gold=write(name for name in query.relevant if name in query.wanted),
            recalled=write(retrieved),
            prompt=[each.written for each in write(selected)],
            count=self.estimator.estimate,
        )

    def _plan(self, query: LabelledQuery, head: SessionHead) -> Turn:
        """Return a query as the engine plans it; what was said before it is the history window."""
        world = build_bare_world(head.world_id)
        shown = tuple(_build_shown_message(query, place, head) for place in range(len(query.history)))
        window = SessionWindow(head=head, messages=shown, state={})
        plan = self.planner.plan(query.text, window, world)
        return Turn(
            plan=plan,
            window=window,
            world=world,
            message=Message(role=Role.USER, content=query.text),
            config=self.config,
            history=ShownHistory(messages=shown),
        )


def _whole_documents(documents: Iterable[CorpusDocument]) -> Iterable[Sequence[CorpusDocument]]:
    """Yield what makes one document: a conversation of several messages, or a text by itself."""
    talks: dict[str, list[CorpusDocument]] = {}
    for document in documents:
        if document.chain is Chain.HISTORY and document.session is not None:
            talks.setdefault(document.session, []).append(document)
        else:
            yield (document,)
    yield from talks.values()


def _name_parts(passage: MemoryEntry, parts: Sequence[CorpusDocument]) -> Iterable[str]:
    """Yield the ids of the parts of a document of which a passage holds half or more, in order."""
    low, high = map(int, str(passage.metadata["section_id"]).removeprefix("chars:").split("-"))
    begin = 0
    for part in parts:
        end = begin + len(part.text)
        if 2 * (min(high, end) - max(low, begin)) >= end - begin:
            yield part.document_id
        begin = end + len(_PARTED)


def _name_documents(entry_ids: Sequence[str], names: Mapping[str, tuple[str, ...]]) -> Mapping[str, str]:
    """Return the ids of documents, in order, each with its best passage; an entry that is not a passage is its own document."""
    found: dict[str, str] = {}
    for entry_id in entry_ids:
        for name in names.get(entry_id, (entry_id,)):
            found.setdefault(name, entry_id)
    return found


def _document_tokens(
    entry_ids: Sequence[str], names: Mapping[str, tuple[str, ...]], sizes: Mapping[str, int]
) -> Iterable[int]:
    """Yield the tokens of each document's passage; one that holds several counts once."""
    counted = set[str]()
    for passage in _name_documents(entry_ids, names).values():
        yield 0 if passage in counted else sizes.get(passage, 0)
        counted.add(passage)


async def _select(selector: Selector, request: SelectionRequest) -> tuple[Selection, str | None]:
    try:
        return await selector.select(request), None
    except SelectorError as error:
        return _NOTHING, str(error)


def _build_shown_message(query: LabelledQuery, place: int, head: SessionHead) -> WindowMessage:
    """Return a line of the talk before a query as a message that is already in the prompt.

    It comes after everything that is remembered, so it hides nothing of that.
    """
    said = query.history[place]
    first = query.history[0].speaker
    return WindowMessage(
        message=Message(
            role=Role.USER if said.speaker == first else Role.ASSISTANT,
            content=said.text,
            message_id=f"{query.query_id}:said:{place}",
            author=Author(kind=AuthorKind.USER, id=said.speaker) if said.speaker else None,
        ),
        turn_id=f"{query.query_id}:said",
        branch_id=head.branch_id,
        depth=head.depth + 1 + place,
    )


def _origins(options: Options) -> dict[str, str]:
    """Return the versions of the parts that are not built in, by their options."""
    found = {
        "retriever_origin": describe_origin(RETRIEVERS, options.retriever),
        "selector_origin": describe_origin(RUN_SELECTORS, options.selector),
    }
    return {name: origin for name, origin in found.items() if origin}


def _config(labelled: LabelledSet, options: Options, embedder: CachedEmbedder | None) -> Mapping[str, Any]:
    return {
        "retriever": str(options.retriever),
        "selector": str(options.selector),
        "embedder": embedder.name if embedder is not None else "none",
        "model": options.model or (options.reranker and Path(options.reranker).name),
        "k": options.recall_limit,
        "floor": options.floor,
        "select_limit": SELECT_LIMIT,
        "limit": options.limit,
        **({"as_evidence": True} if options.as_evidence else {}),
        **_origins(options),
        "data": labelled.describe(),
        "versions": versions(),
        "machine": machine(),
    }

"""A run on a world pack: every labelled query is a real turn of the engine, from the planner to the finished prompt.

Unlike a run on a corpus it knows viewers, conditions, budget and prompt, so it also counts leaks: entries that a viewer may
not know and that reached the candidates or the text. Sets lie in `evals/sets`; their ids are those of the pack.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from anyio import to_thread

from evals.dataset import LabelledQuery, read_queries
from evals.errors import DatasetError
from evals.metrics import Outcome
from evals.reporting.machine import load, machine, versions
from evals.reporting.report import WHOLE_TURNS, Result, Row
from jacquard import (
    BudgetConfig,
    CurationConfig,
    HistoryConfig,
    Runtime,
    RuntimeConfig,
    SummaryConfig,
    open_runtime,
)
from jacquard.core.receipt import Action
from mnemosyne import CalibratedEstimator, Chain, MemoryEntry, Store
from mnemosyne.schema.memory import session_scope, world_scope

SELECT_LIMIT = 5
PATIENCE_MS = 600_000
BATCH = 10_000
_SESSION = "played"
_SHOWN_ENTRY = "flesh:"
_TELLING_CHARS = 8
_TOKENS = CalibratedEstimator()

Progress = Callable[[str, int, int], None]
Known = Mapping[str, MemoryEntry]


async def run_world(
    pack: Path,
    file: Path,
    *,
    embedder: str = "auto",
    layout: str = "classic",
    max_input_tokens: int | None = None,
    limit: int | None = None,
    progress: Progress = lambda what, done, total: None,
) -> Result:
    """Prepare a turn for every query of `file` at the start of a session of `pack`, and return what came back.

    DatasetError where a label names nothing that the session holds. No turn is late here: a score must not depend on how
    busy the machine is.
    """
    queries = await to_thread.run_sync(read_queries, file)
    if limit is not None and limit < len(queries):
        queries = tuple(queries[place * len(queries) // limit] for place in range(limit))
    budget = BudgetConfig() if max_input_tokens is None else BudgetConfig(max_input_tokens=max_input_tokens)
    config = RuntimeConfig(
        layout=layout,
        budget=budget,
        # A label names recalled memories, so only the end of the conversation is shown, and no summary covers the rest.
        history=HistoryConfig(max_messages=60, max_tokens=3_000, low_water=0.5),
        summary=SummaryConfig(enabled=False),
        # The precision of the first five is measured, so there are five; what a floor leaves out is measured by plays.
        curation=CurationConfig(
            select_limit=SELECT_LIMIT,
            fallback_limit=SELECT_LIMIT,
            relevance_floor=0,
            relevance_floor_past=0,
            deadline_ms=PATIENCE_MS,
        ),
    )
    before = load()
    rows = []
    async with open_runtime("memory:", world=pack, embedder=embedder, config=config) as runtime:
        head = await runtime.ensure_session(_SESSION, index=False)
        scopes = (world_scope(head.world_id), session_scope(_SESSION))
        known = await _entries(runtime.store, scopes)
        _check(file, queries, known)
        await runtime.warm()
        await runtime.sync(_SESSION, lambda done, total: progress("indexing", done, total))
        for count, query in enumerate(queries, start=1):
            # A branch for each, because an input without a reply would belong to the session of the next.
            await runtime.store.fork(_SESSION, head.turn_id, f"query-{count}")
            rows.append(await _turn(runtime, query, config, known))
            progress("queries", count, len(queries))
        name = runtime.embedder.name if runtime.embedder is not None else "none"
    return Result(
        rows=tuple(rows),
        config={
            "retriever": WHOLE_TURNS,
            "selector": "heuristic",
            "embedder": name,
            "model": None,
            "k": config.curation.recall_limit,
            "select_limit": SELECT_LIMIT,
            "limit": limit,
            "layout": layout,
            "max_input_tokens": budget.max_input_tokens,
            "data": _describe_data(pack, file),
            "versions": await to_thread.run_sync(versions),
            "machine": await to_thread.run_sync(machine),
            "load": {"before": before, "after": load()},
        },
        counts={"documents": len(known), "queries_in_set": len(queries), "pools": 1, "embedded": 0},
    )


def _describe_data(pack: Path, file: Path) -> dict[str, str | None]:
    """Return what reports on other sets say of their data; a set of a world is part of this project."""
    name = f"{pack.name}/{file.name}"
    return {"name": name, "licence": "as the project", "part": None, "source": None, "commit": None}


async def _entries(store: Store, scopes: Iterable[str]) -> Known:
    """Return everything that recall could bring, by id."""
    found = [
        each.entry for scope in scopes for kept in Chain for each in await store.entries_after(scope, kept, 0, BATCH)
    ]
    return {entry.entry_id: entry for entry in found}


def _check(file: Path, queries: Sequence[LabelledQuery], known: Known) -> None:
    for query in queries:
        for document_id in chain(query.relevant, query.forbidden):
            if document_id not in known:
                raise DatasetError(f"{file}:{query.line}: the session holds no entry {document_id!r}.")


async def _turn(runtime: Runtime, query: LabelledQuery, config: RuntimeConfig, known: Known) -> Row:
    prepared = await runtime.engine.prepare_turn(_SESSION, query.text, replace(config, viewer=query.viewer))
    report = prepared.report
    candidates = sorted(report.stream_b.candidates, key=lambda each: each.rank)
    retrieved = tuple(each.entry_id for each in candidates)
    sizes = tuple(_TOKENS.estimate(known[each].text) if each in known else 0 for each in retrieved)
    kept = {each.block_id for each in report.decisions if each.action is not Action.DROPPED}
    secret = {*query.forbidden, *(name for name, entry in known.items() if _is_hidden(entry, query.viewer))}
    timings = report.timings_ms
    return Row(
        outcome=Outcome(
            query_id=query.query_id,
            category=query.category,
            relevant=query.relevant,
            retrieved=retrieved,
            selected=report.stream_b.selected,
            tokens=sizes,
            scores=tuple(each.score for each in candidates),
        ),
        session=None,
        recall_ms=float(timings.get("recall", 0.0)),
        select_ms=float(timings.get("select", 0.0)),
        tokens=sum(_TOKENS.estimate(known[each].text) for each in report.stream_b.selected if each in known),
        degradations=tuple(each.code for each in report.degradations),
        shown=frozenset(name.removeprefix(_SHOWN_ENTRY) for name in kept),
        leaked=_leaks(secret, retrieved, prepared.text, known),
    )


def _is_hidden(entry: MemoryEntry, viewer: str | None) -> bool:
    return bool(entry.viewers) and viewer not in entry.viewers


def _leaks(secret: Iterable[str], retrieved: Sequence[str], text: str, known: Known) -> tuple[str, ...]:
    """Return the secret ids that are candidates, or whose revealing words are in the prompt."""
    open_text = _normalise("\n".join(entry.text for name, entry in known.items() if name not in set(secret)))
    prompt = _normalise(text)
    found = []
    for name in sorted(secret):
        telling = [piece for piece in _pieces(known[name].text) if piece not in open_text]
        if name in retrieved or any(piece in prompt for piece in telling):
            found.append(name)
    return tuple(found)


def _pieces(text: str) -> list[str]:
    """Return the runs of words between punctuation that are long enough to tell something."""
    return [piece for piece in (_normalise(run) for run in re.split(r"[^\w\s]+", text)) if len(piece) >= _TELLING_CHARS]


def _normalise(text: str) -> str:
    return " ".join(text.split())

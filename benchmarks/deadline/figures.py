"""Figures, laws and tables of a deadline run. Pure but for the printing.

No law limits the lateness: they are about paths, late results and the circuit breaker. `AIM_MS` is only shown with the
figures.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from evals.reporting.figures import percentiles
from evals.reporting.machine import load, machine
from jacquard.pipeline.curation.breaker import BreakerChange
from mnemosyne.retrieval.text.words import word_tokens

AIM_MS = 20.0
LEGAL = {
    "selected": {"selected"},
    "fallback": {"model_error", "unreadable", "timeout", "circuit_open", "deadline"},
    "timeout": {"deadline"},
    "prefetched": {"prefetched"},
    "skipped": {"disabled", "nothing_recalled"},
}
"""The roads of a turn in such a run, by their codes; `internal` is none of them."""
ASKED = frozenset({"selected", "deadline", "model_error", "unreadable", "timeout"})
"""The codes of turns for which a call may have been made, each at most one."""
_BEFORE = ("window", "summary", "plan")
_SOURCE = re.compile(r"^Chosen for turn (\S+),")


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Settings of a run."""

    turns: int = 2000
    sessions: int = 6
    messages: int = 400
    deadline_ms: int = 1500
    think_seconds: float = 1.0
    """Mean pause between the turns of a session."""
    reset_seconds: float = 3.0
    """Pause of the circuit breaker."""
    failure_limit: int = 3
    embedder: str = "none"


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One turn: wall time of `prepare_turn`, of Stream B in it, and the road it took. `at` is when it began."""

    session: str
    turn_id: str
    text: str
    mood: str
    at: float
    wall_ms: float
    stream_ms: float
    path: str
    code: str
    reason: str = ""
    refused: str = ""
    selected: Sequence[str] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict)

    @property
    def before_ms(self) -> float:
        """Return the time of the turn before its streams began."""
        return sum(self.timings_ms.get(step, 0.0) for step in _BEFORE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A change of the circuit breaker, when by its own clock, and how many failures in a row it knew of."""

    at: float
    what: str
    failures: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """Measurements of a run."""

    samples: Sequence[Sample]
    changes: Sequence[Change]
    requests: Sequence[Mapping[str, Any]]
    stalls_ms: Sequence[float]
    queued_ms: Sequence[float]


def figures_of(run: Run, settings: Settings, seconds: float) -> dict[str, Any]:
    """Return all figures, the rows, and in `faults` a sentence for each breach of a law."""
    samples = run.samples
    own = [each.wall_ms for each in samples if each.code == "disabled"]
    waited = [each for each in samples if each.code == "deadline"]
    own_p50 = percentiles(own, 50)[0]
    prompts = [each.wall_ms - each.before_ms - settings.deadline_ms for each in waited]
    asked = [each for each in samples if each.code != "disabled"]
    used = sum(each.path == "prefetched" for each in samples)
    refused = [each.refused for each in samples if each.refused]
    return {
        "settings": asdict(settings),
        "seconds": seconds,
        "paths": dict(Counter(each.path for each in samples)),
        "roads": _count_paths(samples),
        "lateness_ms": {
            "stream": _lateness([each.stream_ms - settings.deadline_ms for each in asked]),
            "stream_at_deadline": _lateness([each.stream_ms - settings.deadline_ms for each in waited]),
            "turn": _lateness([each.wall_ms - settings.deadline_ms - own_p50 for each in asked]),
            "turn_at_deadline": _lateness([each.wall_ms - settings.deadline_ms - own_p50 for each in waited]),
            "prompt_at_deadline": _lateness(prompts),
        },
        "own_ms": dict(zip(("p50", "p99", "max"), percentiles(own, 50, 99, 100), strict=True)),
        "loop_ms": _spread(run.stalls_ms),
        "queued_ms": _spread(run.queued_ms),
        "prefetch": {
            "offered": used + len(refused),
            "used": used,
            "guarded_out": len(refused),
            "guards": dict(Counter(_generalise_guard(each) for each in refused).most_common()),
        },
        "breaker": _breaker(run.changes, settings),
        "server": {"calls": len(run.requests), "by_mood": dict(Counter(str(each["mood"]) for each in run.requests))},
        "faults": list(faults_of(run, settings)),
        "machine": machine(),
        "load": load(),
        "rows": [asdict(each) for each in samples],
        "changes": [asdict(each) for each in run.changes],
    }


def faults_of(run: Run, settings: Settings) -> Iterator[str]:
    """Yield a sentence for each breach: an illegal road, a late result out of place, a breaker that is not as documented."""
    for each in run.samples:
        if each.code not in LEGAL.get(each.path, ()):
            yield f"turn {each.turn_id} took an illegal road: {each.path}/{each.code}: {each.reason}"
    yield from _find_misplaced_late_results(run.samples)
    yield from _breaker_faults(run, settings)


def _find_misplaced_late_results(samples: Sequence[Sample]) -> Iterator[str]:
    """Check that a late result serves the turn right after the one that asked, in its session, if they share a word."""
    last: dict[str, Sample] = {}
    for each in sorted(samples, key=lambda one: one.at):
        before, last[each.session] = last.get(each.session), each
        if each.path != "prefetched":
            continue
        source = _SOURCE.match(each.reason)
        if before is None or source is None or source.group(1) != before.turn_id:
            yield f"turn {each.turn_id} used a late result that was not its predecessor's: {each.reason}"
        elif before.code != "deadline":
            yield f"turn {each.turn_id} used a result of turn {before.turn_id}, which was not late ({before.path})"
        elif not set(word_tokens(before.text)) & set(word_tokens(each.text)):
            yield f"turn {each.turn_id} used a late result of another scene: {before.text!r}, then {each.text!r}"
        if each.path == "prefetched" and not each.selected:
            yield f"turn {each.turn_id} used a late result that holds nothing"


def _breaker_faults(run: Run, settings: Settings) -> Iterator[str]:
    opens = (BreakerChange.OPENED, BreakerChange.REOPENED)
    for before, after in pairwise(run.changes):
        if after.what == BreakerChange.TRIAL:
            if before.what not in opens:
                yield f"the breaker made a trial after it had {before.what}"
            elif after.at - before.at < settings.reset_seconds:
                yield f"the breaker tried again after {after.at - before.at:.2f} s, not {settings.reset_seconds:g}"
    for change in run.changes:
        if change.what == BreakerChange.OPENED and change.failures != settings.failure_limit:
            yield f"the breaker opened after {change.failures} failures, not {settings.failure_limit}"
    asked = sum(each.code in ASKED for each in run.samples)
    if len(run.requests) > asked:
        yield f"{len(run.requests)} calls reached the server for {asked} turns that asked it"


def _breaker(changes: Sequence[Change], settings: Settings) -> dict[str, Any]:
    counted = Counter(change.what for change in changes)
    opens = (BreakerChange.OPENED, BreakerChange.REOPENED)
    pauses = [b.at - a.at for a, b in pairwise(changes) if a.what in opens and b.what == BreakerChange.TRIAL]
    return {
        **{each.value: counted[each.value] for each in BreakerChange},
        "failure_limit": settings.failure_limit,
        "failures_at_opening": sorted({each.failures for each in changes if each.what == BreakerChange.OPENED}),
        "reset_seconds": settings.reset_seconds,
        "shortest_pause_seconds": min(pauses, default=0.0),
    }


def _generalise_guard(sentence: str) -> str:
    """Return a guard's sentence without what is different each time."""
    return re.sub(r"\d+", "n", sentence)


def _count_paths(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    found = []
    for path, code in sorted({(each.path, each.code) for each in samples}):
        walls = [each.wall_ms for each in samples if (each.path, each.code) == (path, code)]
        p50, p99, top = percentiles(walls, 50, 99, 100)
        found.append(
            {
                "path": path,
                "code": code,
                "turns": len(walls),
                "wall_p50_ms": p50,
                "wall_p99_ms": p99,
                "wall_max_ms": top,
            }
        )
    return found


def _lateness(beyond_ms: Sequence[float]) -> dict[str, float]:
    """Return how far values lie beyond the deadline; those before it are not late at all (0)."""
    return {"turns": len(beyond_ms), **_spread([max(each, 0.0) for each in beyond_ms])}


def _spread(values: Sequence[float]) -> dict[str, float]:
    return dict(zip(("p50", "p99", "p999", "max"), percentiles(values, 50, 99, 99.9, 100), strict=True))


def show(figures: Mapping[str, Any], console: Console) -> None:
    """Print the figures."""
    where, settings = figures["machine"], figures["settings"]
    console.print(
        Text(
            f"{where['cpu']}, {where['cores']} cores, load {figures['load']}; {settings['turns']} turns of "
            f"{settings['sessions']} sessions at once in {figures['seconds']:.0f} s, deadline {settings['deadline_ms']} ms, "
            f"embedder {settings['embedder']}"
        )
    )
    _show_paths(figures["roads"], console)
    _show_lateness(figures, console)
    prefetch, breaker, server = figures["prefetch"], figures["breaker"], figures["server"]
    offered = prefetch["offered"]
    share = f" ({prefetch['used'] / offered:.0%})" if offered else ""
    lines = [
        f"late results: {offered} at hand, {prefetch['used']} used{share}, {prefetch['guarded_out']} guarded out",
        *(f"    {count}: {guard}" for guard, count in prefetch["guards"].items()),
        f"circuit breaker: opened {breaker['opened']} times after {breaker['failures_at_opening']} failures in a row "
        f"(limit {breaker['failure_limit']}), {breaker['trial']} trials, the soonest after "
        f"{breaker['shortest_pause_seconds']:.1f} s (pause {breaker['reset_seconds']:g} s): {breaker['reopened']} failed, "
        f"{breaker['closed']} closed it; closed {breaker['closed_late']} times by a late answer",
        f"calls that reached the server: {server['calls']} "
        + ", ".join(f"{mood} {count}" for mood, count in server["by_mood"].items()),
    ]
    for line in lines:
        console.print(Text(line))
    for fault in figures["faults"]:
        console.print(Text(f"against the law: {fault}", style="bold red"))
    if not figures["faults"]:
        console.print(
            Text("every road is a legal one; late results were used only where the scene matched", style="bold")
        )


def _show_paths(roads: Sequence[Mapping[str, Any]], console: Console) -> None:
    table = Table(title="roads: the whole of prepare_turn", title_justify="left")
    for name in ("path", "code", "turns", "p50 ms", "p99 ms", "max ms"):
        table.add_column(name, justify="left" if name in ("path", "code") else "right")
    for road in roads:
        walls = (f"{road[name]:.0f}" for name in ("wall_p50_ms", "wall_p99_ms", "wall_max_ms"))
        table.add_row(*map(Text, (road["path"], road["code"], str(road["turns"]), *walls)))
    console.print(table)


def _show_lateness(figures: Mapping[str, Any], console: Console) -> None:
    own = figures["own_ms"]["p50"]
    table = Table(title=f"ms beyond the deadline (aim: p99.9 of Stream B within {AIM_MS:g})", title_justify="left")
    for name in ("of", "turns", "p50", "p99", "p99.9", "max"):
        table.add_column(name, justify="left" if name == "of" else "right")
    for key, name in (
        ("stream", "Stream B, all turns with it"),
        ("stream_at_deadline", "Stream B, turns that ran into the deadline"),
        ("turn", f"prepare_turn, all, less its own {own:.1f} ms"),
        ("turn_at_deadline", f"prepare_turn at the deadline, less its own {own:.1f} ms"),
        ("prompt_at_deadline", "prepare_turn at the deadline, from where Stream B began"),
    ):
        late = figures["lateness_ms"][key]
        cells = (f"{late[rank]:.1f}" for rank in ("p50", "p99", "p999", "max"))
        table.add_row(*map(Text, (name, str(late["turns"]), *cells)))
    for key, name in (
        ("loop_ms", "the event loop itself"),
        ("queued_ms", "of which: waiting for a core that others had"),
    ):
        spread = (f"{figures[key][rank]:.1f}" for rank in ("p50", "p99", "p999", "max"))
        table.add_row(*map(Text, (name, "", *spread)))
    console.print(table)

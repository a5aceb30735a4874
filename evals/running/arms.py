"""Compares ours with its parts, on the same queries in one run: only words, only vectors, and both by plain RRF.

All have the same keys, the same model and the same planner, so that only the joining differs. The better of words and
vectors is chosen afterwards, metric by metric, which is in favour of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from evals.compare import compare
from evals.dataset import LabelledSet
from evals.metrics import BUDGETS, CUTS
from evals.reporting.report import result_json
from evals.running.journal import SUFFIX
from evals.running.parts import Arm
from evals.running.run import Options, run_set
from jacquard.authoring.reports import LEVEL, Difference, clusters_of, interval

RANKED = (*(f"recall@{k}" for k in CUTS), "all@10", "ndcg@5")
WITHIN = tuple(f"recall@{budget}tok" for budget in BUDGETS)
SHOWN = (*RANKED, *WITHIN)
SINGLES = (Arm.VECTOR, Arm.BM25)
ORDER = (*SINGLES, Arm.RRF, Arm.HYBRID)

Report = Mapping[str, Any]
Keep = Callable[[Report, Path], object]


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmComparison:
    """One set: the reports by arm, the interval of ours, and per metric ours less the better single arm and less RRF.

    `drawn`: how many sessions or single queries the intervals are drawn from.
    """

    name: str
    drawn: int
    reports: Mapping[Arm, Report]
    intervals: Mapping[str, tuple[float, float]]
    to_best: Mapping[str, tuple[Arm, Difference]]
    to_rrf: Mapping[str, Difference]


async def run_arms(
    labelled: LabelledSet, options: Options, folder: Path, keep: Keep, progress: Callable[[str, int, int], None]
) -> dict[Arm, Report]:
    """Run every arm on a set; each report is given to `keep` with its place in `folder` (`SET.ARM.json`) once it is whole.

    A run that was stopped goes on within the arm in which it was. SetupError without a model.
    """
    reports: dict[Arm, Report] = {}
    for arm in ORDER:
        file = folder / f"{labelled.name}.{arm}.json"

        def named(what: str, done: int, total: int, arm: Arm = arm) -> None:
            progress(f"{labelled.name}, {arm}: {what}", done, total)

        journal = file.with_name(file.name + SUFFIX)
        reports[arm] = result_json(await run_set(labelled, replace(options, retriever=arm), named, None, journal))
        keep(reports[arm], file)
    return reports


def compare_with_arms(name: str, reports: Mapping[Arm, Report], *, by_session: bool = False) -> ArmComparison:
    """Compare ours with the other arms; `by_session` draws whole sessions. DatasetError where nothing was scored."""
    ours = reports[Arm.HYBRID]
    less = {arm: _gains(reports[arm], ours, by_session=by_session) for arm in (*SINGLES, Arm.RRF)}
    rows = [row for row in ours["queries"] if row["metrics"] is not None]
    clusters = clusters_of(rows, by_session=by_session)
    return ArmComparison(
        name=name,
        drawn=len(set(clusters)),
        reports=reports,
        intervals={metric: interval([row["metrics"][metric] for row in rows], clusters=clusters) for metric in SHOWN},
        to_best={
            metric: max(((arm, less[arm][metric]) for arm in SINGLES), key=lambda found: found[1].a) for metric in SHOWN
        },
        to_rrf=less[Arm.RRF],
    )


def _gains(a: Report, b: Report, *, by_session: bool) -> dict[str, Difference]:
    return {each.metric: each for each in compare(a, b, metrics=SHOWN, by_session=by_session).differences[""]}


def arms_to_json(found: ArmComparison) -> dict[str, Any]:
    """Return the figures as a JSON value, 0..1, with the data and versions; every single query is in the reports."""
    ours = found.reports[Arm.HYBRID]
    data = ours["config"]["data"]
    return {
        "data": {name: data[name] for name in ("name", "licence", "source", "commit")},
        "versions": ours["config"]["versions"],
        "embedder": ours["config"]["embedder"],
        "queries": ours["counts"]["scored"],
        "drawn": found.drawn,
        "means": {arm.value: {m: _round(found.reports[arm]["metrics"][m]) for m in SHOWN} for arm in ORDER},
        "intervals": {metric: [_round(end) for end in ends] for metric, ends in found.intervals.items()},
        "to_best": {metric: {"arm": arm.value, **_json(each)} for metric, (arm, each) in found.to_best.items()},
        "to_rrf": {metric: _json(each) for metric, each in found.to_rrf.items()},
    }


def print_arms(found: ArmComparison, console: Console) -> None:
    """Print a set: a row an arm, the interval of ours, and what ours gains."""
    ours = found.reports[Arm.HYBRID]
    data, counts, machine = ours["config"]["data"], ours["counts"], ours["config"]["machine"]
    console.print(
        Text(
            f"{found.name} ({data['licence']}): {counts['queries']} queries of {counts['queries_in_set']}, "
            f"{counts['documents']} documents; embedder {ours['config']['embedder']}; {machine['cpu']}, {machine['cores']} cores"
        )
    )
    for metrics in (RANKED, WITHIN):
        console.print(_table(found, metrics))


def _table(found: ArmComparison, metrics: Sequence[str]) -> Table:
    drawn = f"{found.drawn} drawn, whole sessions" if found.drawn < _count_scored(found) else "queries drawn"
    table = Table(title=f"percent; in brackets {LEVEL:g} % intervals ({drawn})", title_justify="left")
    table.add_column("", no_wrap=True)
    for name in metrics:
        table.add_column(name.replace("recall@", "R@").replace("ndcg@", "nDCG@"), justify="right", no_wrap=True)
    for arm in ORDER:
        means = found.reports[arm]["metrics"]
        cells = [f"{100 * means[metric]:.1f}" for metric in metrics]
        table.add_row("ours" if arm is Arm.HYBRID else arm.value, *cells, style="bold" if arm is Arm.HYBRID else "")
    table.add_row("", *(_format_interval(*found.intervals[metric], sign="") for metric in metrics))
    table.add_row("to the better", *(_gain(found.to_best[metric][1]) for metric in metrics))
    table.add_row("to plain RRF", *(_gain(found.to_rrf[metric]) for metric in metrics))
    return table


def _count_scored(found: ArmComparison) -> int:
    return int(found.reports[Arm.HYBRID]["counts"]["scored"])


def _gain(each: Difference) -> Text:
    style = {"better": "green", "worse": "red"}.get(each.verdict, "")
    return Text(f"{100 * each.delta:+.1f}\n{_format_interval(each.low, each.high, sign='+')}", style=style)


def _format_interval(low: float, high: float, *, sign: str) -> str:
    return f"({100 * low:{sign}.1f} {100 * high:{sign}.1f})"


def _json(each: Difference) -> dict[str, Any]:
    return {"delta": _round(each.delta), "low": _round(each.low), "high": _round(each.high), "verdict": each.verdict}


def _round(value: float) -> float:
    return round(value, 5)

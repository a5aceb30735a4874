"""Two reports of the same queries side by side: paired differences with intervals, over all queries and by category.

The interval is a percentile bootstrap over paired differences: queries are drawn with replacement, or whole sessions where
questions of one conversation hang together. The seed is fixed, so the same two reports give the same table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from evals.answers.answer_scores import ANSWER_METRICS
from evals.errors import DatasetError

SHOWN = ("recall@5", "recall@10", "recall@25", "recall@50", "all@10", "ndcg@5", "precision@5")
RESAMPLES = 10_000
LEVEL = 95.0
DIGITS = 5
"""Smaller differences count as none, because a baseline has rounded values."""
_SEED = 20_240_601
_LISTED = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """B minus A of one metric: means 0..1, the ends of the interval, and on how many queries B was better or worse."""

    metric: str
    a: float
    b: float
    low: float
    high: float
    better: int
    worse: int

    @property
    def delta(self) -> float:
        """Return the difference of the means."""
        return self.b - self.a

    @property
    def verdict(self) -> str:
        """Return `better`, `worse`, or `open` if the interval contains zero."""
        return "better" if self.low > 0 else "worse" if self.high < 0 else "open"


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Differences by category; the empty name stands for all queries. `queries` counts those of each."""

    queries: Mapping[str, int]
    differences: Mapping[str, tuple[Difference, ...]]


def read_report(file: Path) -> dict[str, Any]:
    """Read the JSON of a run; DatasetError when the file is none."""
    try:
        report = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DatasetError(
            f"{file}: cannot be read as a report ({error}). Make one with `run --json {file}`."
        ) from error
    if not isinstance(report, dict) or not isinstance(report.get("queries"), list):
        raise DatasetError(f"{file}: holds no report: `queries` is missing. Make one with `run --json {file}`.")
    return report


def compare(
    a: Mapping[str, Any],
    b: Mapping[str, Any],
    *,
    metrics: Sequence[str] = SHOWN,
    by_session: bool = False,
    resamples: int = RESAMPLES,
) -> Comparison:
    """Pair the scored queries of two reports by id and return the differences B − A.

    Answer metrics follow, each over the queries to which it applies, if both reports have it. DatasetError if the
    reports are not of the same queries with the same labels, or lack a metric.
    """
    rows_a, rows_b = _select_scored(a), _select_scored(b)
    _check_same(rows_a, rows_b)
    for metric in metrics:
        for name, rows in (("first", rows_a), ("second", rows_b)):
            if any(metric not in row["metrics"] for row in rows.values()):
                raise DatasetError(f"The {name} report has no {metric}; make it anew with this version.")
    groups: dict[str, list[str]] = {"": list(rows_a)}
    for query_id, row in rows_a.items():
        groups.setdefault(row["category"] or "(none)", []).append(query_id)
    if len(groups) == 2:
        groups = {"": groups[""]}
    differences = {}
    for name, ids in groups.items():
        differences[name] = tuple(
            _compare_rows(
                metric, [rows_a[each] for each in judged], [rows_b[each] for each in judged], by_session, resamples
            )
            for metric in (*metrics, *ANSWER_METRICS)
            if (judged := _find_judged(metric, ids, rows_a, rows_b))
        )
    return Comparison(queries={name: len(ids) for name, ids in groups.items()}, differences=differences)


def clusters_of(rows: Sequence[Mapping[str, Any]], *, by_session: bool) -> list[Any]:
    """Return the cluster that is drawn with each scored query: its session if wanted, else only itself.

    A query without a session is its own cluster; so is each query if all are of one session, which leaves nothing to
    draw from.
    """
    sessions = {row.get("session") for row in rows}
    drawn = by_session and len(sessions - {None}) > 1
    return [(drawn and row.get("session")) or ("alone", row["id"]) for row in rows]


def interval(
    values: Sequence[float], *, clusters: Sequence[Any] | None = None, resamples: int = RESAMPLES
) -> tuple[float, float]:
    """Return the ends of the bootstrap interval of a mean; values of one of the `clusters` are drawn together."""
    drawn = range(len(values)) if clusters is None else clusters
    return _bootstrap(np.asarray(values, dtype=np.float64), list(drawn), resamples)


def comparison_json(found: Comparison) -> dict[str, Any]:
    """Return a comparison as a JSON value."""
    return {
        name or "all": {
            "queries": found.queries[name],
            "metrics": {
                each.metric: {
                    "a": each.a,
                    "b": each.b,
                    "delta": each.delta,
                    "low": each.low,
                    "high": each.high,
                    "better": each.better,
                    "worse": each.worse,
                    "verdict": each.verdict,
                }
                for each in differences
            },
        }
        for name, differences in found.differences.items()
    }


def print_comparison(found: Comparison, names: tuple[str, str], console: Console) -> None:
    """Print a table a category; A and B are named first."""
    console.print(Text(f"A: {names[0]}\nB: {names[1]}"))
    for name, differences in found.differences.items():
        table = Table(
            title=Text(f"{name or 'all'}: {found.queries[name]} queries, percent, {LEVEL:g} % interval of B − A"),
            title_justify="left",
        )
        for column in ("", "A", "B", "B − A", "low", "high", "better on", "worse on", ""):
            table.add_column(column, justify="left" if column == "" else "right")
        for each in differences:
            style = {"better": "green", "worse": "red"}.get(each.verdict, "")
            numbers = (each.a, each.b, each.delta, each.low, each.high)
            cells = [
                f"{100 * value:+.1f}" if place > 1 else f"{100 * value:.1f}" for place, value in enumerate(numbers)
            ]
            table.add_row(each.metric, *cells, str(each.better), str(each.worse), each.verdict, style=style)
        console.print(table)


def _select_scored(report: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {row["id"]: row for row in report["queries"] if row.get("metrics") is not None}


def _check_same(a: Mapping[str, Mapping[str, Any]], b: Mapping[str, Mapping[str, Any]]) -> None:
    if not a:
        raise DatasetError("The first report has no scored query; there is nothing to compare.")
    alone = sorted(set(a) ^ set(b))
    if alone:
        raise DatasetError(
            f"The reports are not of the same queries: {len(alone)} are in only one "
            f"({', '.join(alone[:_LISTED])}…). Run both with the same --data and --limit."
        )
    changed = [each for each in a if a[each]["relevant"] != b[each]["relevant"]]
    if changed:
        raise DatasetError(
            f"The labels of {len(changed)} queries differ ({', '.join(changed[:_LISTED])}…). "
            "Run both on the same version of the set."
        )


def _find_judged(metric: str, ids: Sequence[str], a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Return the ids of the queries that have a metric in both reports."""
    if metric not in ANSWER_METRICS:
        return list(ids)
    return [each for each in ids if all(metric in rows[each].get("answers", {}) for rows in (a, b))]


def _compare_rows(
    metric: str, a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]], by_session: bool, resamples: int
) -> Difference:
    field = "answers" if metric in ANSWER_METRICS else "metrics"
    values = [np.array([row[field][metric] for row in rows], dtype=np.float64) for rows in (a, b)]
    return _difference(metric, values[0], values[1], clusters_of(a, by_session=by_session), resamples)


def _difference(
    metric: str, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], clusters: Sequence[Any], resamples: int
) -> Difference:
    delta = np.round(b - a, DIGITS)
    low, high = _bootstrap(delta, clusters, resamples)
    return Difference(
        metric=metric,
        a=float(a.mean()),
        b=float(b.mean()),
        low=low,
        high=high,
        better=int((delta > 0).sum()),
        worse=int((delta < 0).sum()),
    )


def _bootstrap(values: np.ndarray[Any, Any], clusters: Sequence[Any], resamples: int) -> tuple[float, float]:
    """Return the ends of the interval of the mean; clusters are drawn whole, the mean stays one over values."""
    numbered = {name: place for place, name in enumerate(dict.fromkeys(clusters))}
    places = np.array([numbered[name] for name in clusters])
    sums, counts = np.bincount(places, weights=values), np.bincount(places)
    chance = np.random.default_rng(_SEED)
    drawn = chance.multinomial(len(sums), np.full(len(sums), 1 / len(sums)), size=resamples)
    means = (drawn @ sums) / (drawn @ counts)
    low, high = np.percentile(means, [(100 - LEVEL) / 2, (100 + LEVEL) / 2])
    return float(low), float(high)

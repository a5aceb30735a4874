"""Reports of evaluations (`python -m evals`): reads them, and compares two runs of the same questions.

An interval is a percentile bootstrap: questions are drawn with replacement, or whole sessions if questions of one conversation
belong together. A p-value is that of a paired randomization test: the sign of each difference is drawn. A comparison has many
p-values, so each is also given with Holm's correction. The seed is fixed, so the same reports give the same figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from jacquard.core.errors import ConfigError
from mnemosyne.core import codec
from mnemosyne.core.errors import CodecError
from mnemosyne.schema.memory import EMPTY
from mnemosyne.values import dataclass

METRICS = ("recall@5", "recall@10", "recall@25", "recall@50", "all@10", "ndcg@5", "precision@5")
"""Scores of a run that are compared, in the order in which they are shown; all are 0..1, more is better."""

KEPT_OUT = "kept_out"
"""Share of the unwanted documents (grade 0) that were not selected. Only questions with such a label have it."""

ANSWER_METRICS = (
    "answer@500tok",
    "answer_fits@500tok",
    "answer_recalled",
    "date@500tok",
    "date_fits@500tok",
    "date_recalled",
)
"""Scores of the gold answer in the prompt, each of the questions to which it applies."""

RESAMPLES = 10_000
LEVEL = 95.0
DIGITS = 5
"""Smaller differences count as none, because a baseline has rounded values."""
_SEED = 20_240_601
_LISTED = 3
_MOST_CELLS = 4_000_000
"""Maximum number of drawn numbers in memory at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportRow:
    """One question of a run."""

    id: str
    session: str | None = None
    category: str = ""
    metrics: Mapping[str, float] | None = None
    """Scores (0..1) by metric. None if nothing is relevant to the question."""
    relevant: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    """Expected documents with their grades; 0 is one that should not come."""
    retrieved: tuple[str, ...] = ()
    selected: tuple[str, ...] = ()
    evidence: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    """Stage at which each relevant document was lost, or `delivered`."""
    answers: Mapping[str, float] = field(default_factory=lambda: EMPTY)
    error: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunData:
    """Labelled set of a run."""

    name: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunConfig:
    """Parts that a run measured."""

    retriever: str = ""
    selector: str = ""
    embedder: str = ""
    floor: float = 0.0
    data: RunData = field(default=RunData())


@dataclass(frozen=True, kw_only=True, slots=True)
class PlayTurn:
    """One turn of a play, with what its prompt lacks."""

    turn: int
    input: str = ""
    error: str = ""
    missing: tuple[str, ...] = ()
    wrong: tuple[Mapping[str, str], ...] = ()
    lost: tuple[str, ...] = ()
    answered: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PlayReport:
    """One play: a session that was played from a script."""

    name: str
    figures: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    turns: tuple[PlayTurn, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationReport:
    """Report of a run (`queries`) or of plays (`plays`)."""

    queries: tuple[ReportRow, ...] = ()
    plays: tuple[PlayReport, ...] = ()
    config: RunConfig = field(default=RunConfig())
    metrics: Mapping[str, float] = field(default_factory=lambda: EMPTY)
    evidence: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    latency_ms: Mapping[str, float] = field(default_factory=lambda: EMPTY)

    @property
    def scored(self) -> tuple[ReportRow, ...]:
        """Questions that have scores."""
        return tuple(each for each in self.queries if each.metrics is not None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """Difference B minus A of one metric: means (0..1), the ends of the interval, on how many questions B was better or worse, and
    the p-value.
    """

    metric: str
    a: float
    b: float
    low: float
    high: float
    better: int
    worse: int
    p: float
    """Probability of so large a difference if both runs were equally good."""
    p_holm: float = 1.0
    """`p` corrected by Holm's method for all p-values of the same comparison, which is valid however they depend on each other."""

    @property
    def delta(self) -> float:
        """Difference of the means."""
        return self.b - self.a

    @property
    def verdict(self) -> str:
        """`better`, `worse`, or `open` if the interval contains zero."""
        return "better" if self.low > 0 else "worse" if self.high < 0 else "open"


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Differences by category, and the number of questions of each category. The empty name stands for all questions."""

    queries: Mapping[str, int]
    differences: Mapping[str, tuple[Difference, ...]]


def read_evaluation(data: bytes) -> EvaluationReport:
    """Return the report that a file contains. Raises ConfigError if the file is not a report of a run or of plays."""
    try:
        report = codec.decode(data, EvaluationReport)
    except CodecError as error:
        raise ConfigError(f"This is not a report of an evaluation ({error}).") from None
    if not report.queries and not report.plays:
        raise ConfigError("This is not a report of an evaluation: it has neither `queries` nor `plays`.")
    return report


def compare_reports(
    a: Mapping[str, Any],
    b: Mapping[str, Any],
    *,
    metrics: Sequence[str] = METRICS,
    by_session: bool = False,
    resamples: int = RESAMPLES,
) -> Comparison:
    """Pair the scored questions of two reports (as JSON values) by id, and return the differences B minus A.

    `kept_out` and the answer metrics follow, each over the questions to which it applies, if both reports have it. Raises
    ConfigError if the reports are not of the same questions with the same labels, or lack a metric.
    """
    rows_a, rows_b = _select_scored(a), _select_scored(b)
    _check_same(rows_a, rows_b)
    for metric in metrics:
        for name, rows in (("first", rows_a), ("second", rows_b)):
            if any(metric not in row["metrics"] for row in rows.values()):
                raise ConfigError(f"The {name} report has no {metric}; make it anew with this version.")
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
            for metric in (*metrics, KEPT_OUT, *ANSWER_METRICS)
            if (judged := _find_judged(metric, ids, rows_a, rows_b))
        )
    return Comparison(queries={name: len(ids) for name, ids in groups.items()}, differences=_correct(differences))


def _correct(differences: Mapping[str, tuple[Difference, ...]]) -> dict[str, tuple[Difference, ...]]:
    """Return the differences with p-values that are corrected for how many there are (Holm's step-down method)."""
    places = sorted(
        ((each.p, name, place) for name, found in differences.items() for place, each in enumerate(found)),
        key=lambda each: each[0],
    )
    corrected: dict[tuple[str, int], float] = {}
    least = 0.0
    for number, (p, name, place) in enumerate(places):
        least = max(least, min(1.0, (len(places) - number) * p))
        corrected[name, place] = least
    return {
        name: tuple(replace(each, p_holm=corrected[name, place]) for place, each in enumerate(found))
        for name, found in differences.items()
    }


def clusters_of(rows: Sequence[Mapping[str, Any]], *, by_session: bool) -> list[Any]:
    """Return the cluster that is drawn with each scored question: its session if wanted, else only itself.

    A question without a session is its own cluster. So is each question if all are of one session, which leaves nothing to
    draw from.
    """
    sessions = {row.get("session") for row in rows}
    drawn = by_session and len(sessions - {None}) > 1
    return [(drawn and row.get("session")) or ("alone", row["id"]) for row in rows]


def interval(
    values: Sequence[float], *, clusters: Sequence[Any] | None = None, resamples: int = RESAMPLES
) -> tuple[float, float]:
    """Return the ends of the bootstrap interval of a mean. Values of one of the `clusters` are drawn together."""
    drawn = range(len(values)) if clusters is None else clusters
    return _bootstrap(np.asarray(values, dtype=np.float64), list(drawn), resamples)


def _select_scored(report: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {row["id"]: row for row in report["queries"] if row.get("metrics") is not None}


def _check_same(a: Mapping[str, Mapping[str, Any]], b: Mapping[str, Mapping[str, Any]]) -> None:
    if not a:
        raise ConfigError("The first report has no scored query; there is nothing to compare.")
    alone = sorted(set(a) ^ set(b))
    if alone:
        raise ConfigError(
            f"The reports are not of the same queries: {len(alone)} are in only one "
            f"({', '.join(alone[:_LISTED])}…). Run both with the same --data and --limit."
        )
    changed = [each for each in a if a[each]["relevant"] != b[each]["relevant"]]
    if changed:
        raise ConfigError(
            f"The labels of {len(changed)} queries differ ({', '.join(changed[:_LISTED])}…). "
            "Run both on the same version of the set."
        )


def _find_judged(metric: str, ids: Sequence[str], a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Return the ids of the questions that have a metric in both reports."""
    source = "answers" if metric in ANSWER_METRICS else "metrics"
    return [each for each in ids if all(metric in rows[each].get(source, {}) for rows in (a, b))]


def _compare_rows(
    metric: str, a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]], by_session: bool, resamples: int
) -> Difference:
    source = "answers" if metric in ANSWER_METRICS else "metrics"
    before, after = [np.array([row[source][metric] for row in rows], dtype=np.float64) for rows in (a, b)]
    delta = np.round(after - before, DIGITS)
    clusters = clusters_of(a, by_session=by_session)
    low, high = _bootstrap(delta, clusters, resamples)
    return Difference(
        metric=metric,
        a=float(before.mean()),
        b=float(after.mean()),
        low=low,
        high=high,
        better=int((delta > 0).sum()),
        worse=int((delta < 0).sum()),
        p=_randomize(delta, clusters, resamples),
    )


def _sum_clusters(values: np.ndarray[Any, Any], clusters: Sequence[Any]) -> tuple[Any, Any]:
    """Return (sum, number of values) of each cluster."""
    numbered = {name: place for place, name in enumerate(dict.fromkeys(clusters))}
    places = np.array([numbered[name] for name in clusters])
    return np.bincount(places, weights=values), np.bincount(places)


def _split_draws(resamples: int, size: int) -> Iterator[int]:
    """Yield numbers of draws that together are `resamples`, so that few numbers are in memory at once."""
    most = max(1, _MOST_CELLS // size)
    for begin in range(0, resamples, most):
        yield min(most, resamples - begin)


def _bootstrap(values: np.ndarray[Any, Any], clusters: Sequence[Any], resamples: int) -> tuple[float, float]:
    """Return the ends of the interval of the mean. Clusters are drawn whole; the mean is that of the values."""
    sums, counts = _sum_clusters(values, clusters)
    chance, size = np.random.default_rng(_SEED), len(sums)
    means = []
    for count in _split_draws(resamples, size):
        drawn = chance.multinomial(size, np.full(size, 1 / size), size=count)
        means.append((drawn @ sums) / (drawn @ counts))
    low, high = np.percentile(np.concatenate(means), [(100 - LEVEL) / 2, (100 + LEVEL) / 2])
    return float(low), float(high)


def _randomize(delta: np.ndarray[Any, Any], clusters: Sequence[Any], resamples: int) -> float:
    """Return the two-sided p-value of a mean difference: how often drawn signs make it as large. A cluster has one sign."""
    sums, _ = _sum_clusters(delta, clusters)
    sums = sums[sums != 0]
    if not len(sums):
        return 1.0
    chance, least, found = np.random.default_rng(_SEED), abs(float(sums.sum())) - 10**-DIGITS, 0
    for count in _split_draws(resamples, len(sums)):
        signs = chance.integers(0, 2, size=(count, len(sums)), dtype=np.int8) * 2 - 1
        found += int((np.abs(signs @ sums) >= least).sum())
    return (found + 1) / (resamples + 1)

"""A/B experiments judged by their receipts: the arms of an experiment, pair by pair.

Every recorded turn says in its receipt which arm its session was in (`jacquard.config.experiments`). Sessions are what was
assigned,
so they are what is drawn: the interval of a difference is a percentile bootstrap over the sessions of both arms, with a fixed
seed. Only reads the store; needs no model and no index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from evals.errors import DatasetError
from jacquard import Report
from jacquard.config.experiments import TAG
from jacquard.core.receipt import Action, CurationPath
from mnemosyne import Store
from mnemosyne.core import codec
from mnemosyne.schema.record import TurnRecord

RESAMPLES = 10_000
LEVEL = 95.0
METRICS = (
    "prompt_tokens",
    "fresh_tokens",
    "prefix_share",
    "memories",
    "fallback",
    "late",
    "dropped_blocks",
    "ops_refused",
    "prepare_ms",
)
"""Measures of a turn: tokens of the prompt; tokens not shared with the turn before, and the share that is; memories
shown; whether the heuristic chose, or nobody did in time; blocks that found no room; whether the reply's ops were
refused; milliseconds until the prompt was ready.
"""
_SEED = 20_240_601
_EVERY = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmTurns:
    """The turns of one arm: rows of METRICS, and the session of each row."""

    arm: str
    rows: np.ndarray[Any, Any]
    sessions: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmDifference:
    """B minus A of the mean over turns of one metric, with the ends of its interval; `verdict`: more, less or open."""

    metric: str
    a: float
    b: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Return `more`, `less`, or `open` if the interval contains zero."""
        return "more" if self.low > 0 else "less" if self.high < 0 else "open"


@dataclass(frozen=True, kw_only=True, slots=True)
class PairOfArms:
    """Two arms of one experiment; `turns` and `sessions` count those of A and of B."""

    experiment: str
    a: str
    b: str
    turns: tuple[int, int]
    sessions: tuple[int, int]
    differences: tuple[ArmDifference, ...]


async def read_arms(store: Store, limit: int = _EVERY) -> dict[str, tuple[ArmTurns, ...]]:
    """Return the arms of each experiment that the receipts of a store name, by experiment; arms by name.

    Of each session the newest `limit` turns of its active branch are read.
    """
    rows: dict[str, dict[str, list[tuple[list[float], str]]]] = {}
    for session_id in await store.sessions():
        for listed in await store.turns(session_id, limit=limit):
            record = await store.turn(session_id, listed.turn_id)
            if record.receipt is None:
                continue
            report = codec.from_plain(dict(record.receipt), Report)
            measured = measures_of(report, record)
            for tag, arm in report.tags.items():
                if tag.startswith(TAG):
                    found = rows.setdefault(tag.removeprefix(TAG), {}).setdefault(arm, [])
                    found.append(([measured[name] for name in METRICS], session_id))
    return {
        name: tuple(
            ArmTurns(arm=arm, rows=np.array([row for row, _ in found]), sessions=tuple(each for _, each in found))
            for arm, found in sorted(arms.items())
        )
        for name, arms in sorted(rows.items())
    }


def measures_of(report: Report, record: TurnRecord) -> dict[str, float]:
    """Return what is measured of one turn, by the names of METRICS."""
    total, shared = report.prefix.total_tokens, report.prefix.shared_tokens
    verdicts = (record.report or {}).get("verdicts") or ()
    return {
        "prompt_tokens": float(report.budget.used_tokens),
        "fresh_tokens": float(total - shared),
        "prefix_share": shared / total if total else 0.0,
        "memories": float(len(report.stream_b.selected)),
        "fallback": float(report.stream_b.path is CurationPath.FALLBACK),
        "late": float(report.stream_b.code == "deadline"),
        "dropped_blocks": float(sum(d.action is Action.DROPPED for d in report.decisions)),
        "ops_refused": float(any(verdict.get("outcome") == "refused" for verdict in verdicts)),
        "prepare_ms": float(report.timings_ms.get("total", 0.0)),
    }


def compare_arms(
    arms: Mapping[str, Sequence[ArmTurns]], *, experiment: str | None = None, resamples: int = RESAMPLES
) -> tuple[PairOfArms, ...]:
    """Return every pair of arms of every experiment (or of one); DatasetError if there is nothing to compare."""
    if experiment is not None and experiment not in arms:
        known = ", ".join(arms) or "none"
        raise DatasetError(f"No receipt names an experiment {experiment!r}; there are: {known}.")
    chosen = {name: found for name, found in arms.items() if experiment in (None, name)}
    pairs = tuple(_pair(name, a, b, resamples) for name, found in chosen.items() for a, b in combinations(found, 2))
    if not pairs:
        raise DatasetError(
            "There are no two arms to compare: no turn of this store was prepared in an experiment with two arms."
        )
    return pairs


def pairs_json(pairs: Sequence[PairOfArms]) -> list[dict[str, Any]]:
    """Return the comparison as a JSON value."""
    return [
        {
            "experiment": pair.experiment,
            "a": pair.a,
            "b": pair.b,
            "turns": list(pair.turns),
            "sessions": list(pair.sessions),
            "metrics": {
                d.metric: {"a": d.a, "b": d.b, "delta": d.b - d.a, "low": d.low, "high": d.high, "verdict": d.verdict}
                for d in pair.differences
            },
        }
        for pair in pairs
    ]


def print_pairs(pairs: Sequence[PairOfArms], console: Console) -> None:
    """Print a table a pair."""
    for pair in pairs:
        size = f"{pair.turns[0]} turns of {pair.sessions[0]} sessions, {pair.turns[1]} of {pair.sessions[1]}"
        table = Table(
            title=Text(f"{pair.experiment}: A = {pair.a}, B = {pair.b} ({size}); {LEVEL:g} % interval of B − A"),
            title_justify="left",
        )
        for column in ("", "A", "B", "B − A", "low", "high", ""):
            table.add_column(column, justify="left" if column == "" else "right")
        for d in pair.differences:
            cells = [
                f"{value:.3g}" if abs(value) < 10 else f"{value:.0f}" for value in (d.a, d.b, d.b - d.a, d.low, d.high)
            ]
            table.add_row(d.metric, *cells, d.verdict, style="" if d.verdict == "open" else "bold")
        console.print(table)


def _pair(experiment: str, a: ArmTurns, b: ArmTurns, resamples: int) -> PairOfArms:
    drawn = _means(b, resamples, _SEED + 1) - _means(a, resamples, _SEED)
    low, high = np.percentile(drawn, [50 - LEVEL / 2, 50 + LEVEL / 2], axis=0)
    mean_a, mean_b = a.rows.mean(axis=0), b.rows.mean(axis=0)
    return PairOfArms(
        experiment=experiment,
        a=a.arm,
        b=b.arm,
        turns=(len(a.rows), len(b.rows)),
        sessions=(len(set(a.sessions)), len(set(b.sessions))),
        differences=tuple(
            ArmDifference(
                metric=name, a=float(mean_a[at]), b=float(mean_b[at]), low=float(low[at]), high=float(high[at])
            )
            for at, name in enumerate(METRICS)
        ),
    )


def _means(turns: ArmTurns, resamples: int, seed: int) -> np.ndarray[Any, Any]:
    """Return bootstrap means of an arm's metrics, of shape (resamples, metrics); sessions are drawn whole."""
    numbered = {name: place for place, name in enumerate(dict.fromkeys(turns.sessions))}
    places = np.array([numbered[name] for name in turns.sessions])
    sums = np.zeros((len(numbered), turns.rows.shape[1]))
    np.add.at(sums, places, turns.rows)
    counts = np.bincount(places, minlength=len(numbered)).astype(np.float64)
    draws = np.random.default_rng(seed).integers(0, len(numbered), size=(resamples, len(numbered)))
    weights = np.stack([np.bincount(draw, minlength=len(numbered)) for draw in draws]).astype(np.float64)
    means: np.ndarray[Any, Any] = (weights @ sums) / (weights @ counts)[:, None]
    return means

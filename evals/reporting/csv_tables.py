"""Reports as CSV, for spreadsheets and data frames: a row a query, or a row a metric of a comparison. No texts of a set."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.compare import comparison_json
from jacquard.authoring.reports import Comparison

_DIFFERENCE = ("a", "b", "delta", "low", "high", "better", "worse", "p", "p_holm", "verdict")


def write_queries(file: Path, report: Mapping[str, Any]) -> None:
    """Write a row for each query of a report: its id, session, category and scores. A query without a score has empty cells."""
    rows = report["queries"]
    metrics = list(dict.fromkeys(name for row in rows for name in row["metrics"] or {}))
    answers = list(dict.fromkeys(name for row in rows for name in row.get("answers", {})))
    table = [
        [
            row["id"],
            row["session"] or "",
            row["category"],
            *((row["metrics"] or {}).get(name, "") for name in metrics),
            *(row.get("answers", {}).get(name, "") for name in answers),
            row["latency_ms"]["recall"],
            row["latency_ms"]["select"],
            row["tokens"],
        ]
        for row in rows
    ]
    _write(file, ["id", "session", "category", *metrics, *answers, "recall_ms", "select_ms", "tokens"], table)


def write_comparison(file: Path, found: Comparison) -> None:
    """Write a row for each metric of each category of a comparison."""
    table = [
        [category, values["queries"], metric, *(each[name] for name in _DIFFERENCE)]
        for category, values in comparison_json(found).items()
        for metric, each in values["metrics"].items()
    ]
    _write(file, ["category", "queries", "metric", *_DIFFERENCE], table)


def _write(file: Path, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    with file.open("w", encoding="utf-8", errors="replace", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(head)
        writer.writerows(rows)

"""Two reports of the same queries side by side, as a table and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from evals.errors import DatasetError
from jacquard import ConfigError
from jacquard.authoring.reports import LEVEL, METRICS, RESAMPLES, Comparison, compare_reports


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
    metrics: Sequence[str] = METRICS,
    by_session: bool = False,
    resamples: int = RESAMPLES,
) -> Comparison:
    """Return the differences B − A of two reports; DatasetError if they are not of the same queries, or lack a metric."""
    try:
        return compare_reports(a, b, metrics=metrics, by_session=by_session, resamples=resamples)
    except ConfigError as error:
        raise DatasetError(str(error)) from error


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
                    "p": each.p,
                    "p_holm": each.p_holm,
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
        for column in ("", "A", "B", "B − A", "low", "high", "better on", "worse on", "p", "p (Holm)", ""):
            table.add_column(column, justify="left" if column == "" else "right")
        for each in differences:
            style = {"better": "green", "worse": "red"}.get(each.verdict, "")
            numbers = (each.a, each.b, each.delta, each.low, each.high)
            cells = [
                f"{100 * value:+.1f}" if place > 1 else f"{100 * value:.1f}" for place, value in enumerate(numbers)
            ]
            counts = (str(each.better), str(each.worse), f"{each.p:.3f}", f"{each.p_holm:.3f}")
            table.add_row(each.metric, *cells, *counts, each.verdict, style=style)
        console.print(table)

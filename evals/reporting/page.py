"""Plots of one or more reports, and one HTML page of them: recall by k and by tokens, latency, losses of evidence, tables.

Plots are drawn by matplotlib into the page itself; the page loads nothing. Texts from reports are escaped by the
template. The same plots are written as files for a paper (`write_figures`). Points of recall have 95 % bootstrap intervals.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from evals.errors import DatasetError, SetupError
from evals.metrics import BUDGETS, CUTS
from evals.reporting.losses import LossStage
from jacquard.authoring.reports import ANSWER_METRICS, interval
from mnemosyne.core.optional_packages import explain_missing_package

try:
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogFormatter
except ImportError as error:
    raise SetupError(explain_missing_package("A page", "matplotlib", "evals", error)) from error

TABLED = (*(f"recall@{k}" for k in CUTS), "all@10", "ndcg@5", "precision@5")
TEMPLATE = "page.html.j2"
_RC: Any = {"svg.hashsalt": "jacquard", "svg.fonttype": "none", "text.parse_math": False}
_RESAMPLES = 2_000
_COLOURS = ("#3b6fb6", "#d9822b", "#3f8f5b", "#a3456f", "#6d5fa6", "#7a6a55")
_STAGE_COLOURS = ("#8c8c8c", "#a3456f", "#d9822b", "#6d5fa6", "#3f8f5b")


def page(reports: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page; the names of the reports are in every legend. DatasetError if a report is of an older kind."""
    _check(reports)
    shown = {name: {**report, "intervals": _intervals(report)} for name, report in reports.items()}
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(TEMPLATE).render(
        reports=shown,
        metrics=TABLED,
        answer_metrics=_find_answer_metrics(reports),
        stages=[stage.value for stage in LossStage],
        plots={title: _render_svg(figure) for _, title, figure in _draw(reports)},
    )


def write_figures(reports: Mapping[str, Mapping[str, Any]], folder: Path) -> list[Path]:
    """Write each plot as SVG and as PDF, and return the files. DatasetError if a report is of an older kind."""
    _check(reports)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, _, figure in _draw(reports):
        files += [folder / f"{name}.svg", folder / f"{name}.pdf"]
        with mpl.rc_context(_RC):
            figure.savefig(files[-2], format="svg", metadata={"Date": None, "Creator": None})
            figure.savefig(files[-1], format="pdf", metadata={"CreationDate": None, "Creator": None, "Producer": None})
    return files


def _check(reports: Mapping[str, Mapping[str, Any]]) -> None:
    for name, report in reports.items():
        if "evidence" not in report or f"recall@{BUDGETS[0]}tok" not in report["metrics"]:
            raise DatasetError(f"{name}: the report lacks figures that a page shows; make it anew with this version.")


def _draw(reports: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str, Any]]:
    """Return the plots as (name of a file, title, figure). Reports of run files have no times."""
    timed = {name: report for name, report in reports.items() if report["config"]["machine"] is not None}
    return [
        ("recall_by_candidates", "Recall by number of candidates", _plot_by_k(reports)),
        ("recall_by_tokens", "Recall by budget of tokens", _plot_by_tokens(reports)),
        *([("recall_time", "Recall time, each query", _plot_latency(timed))] if timed else []),
        ("losses", "Where relevant evidence was lost", _plot_losses(reports)),
    ]


def _find_answer_metrics(reports: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the answer metrics that any report has; reports of an earlier release have none."""
    there = {name for report in reports.values() for name in report.get("answers", {}).get("all", {})}
    return [name for name in ANSWER_METRICS if name in there]


def _intervals(report: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    rows = _scored(report)
    return {name: interval([row[name] for row in rows], resamples=_RESAMPLES) for name in TABLED} if rows else {}


def _scored(report: Mapping[str, Any]) -> list[Mapping[str, float]]:
    return [row["metrics"] for row in report["queries"] if row["metrics"] is not None]


def _plot_by_k(reports: Mapping[str, Mapping[str, Any]]) -> Any:
    figure, axes = _build_canvas("candidates taken, best first", "share of relevant found, %")
    for colour, (name, report) in zip(_cycle(reports), reports.items(), strict=True):
        _plot_points(axes, CUTS, [f"recall@{k}" for k in CUTS], report, colour, name)
    axes.set_xticks(CUTS)
    return _finish(figure, axes)


def _plot_by_tokens(reports: Mapping[str, Mapping[str, Any]]) -> Any:
    figure, axes = _build_canvas("tokens of the texts taken, best first", "share of relevant found, %")
    for colour, (name, report) in zip(_cycle(reports), reports.items(), strict=True):
        _plot_points(axes, BUDGETS, [f"recall@{budget}tok" for budget in BUDGETS], report, colour, name)
    axes.set_xticks(BUDGETS)
    return _finish(figure, axes)


def _plot_points(
    axes: Any, places: Sequence[int], metrics: Sequence[str], report: Mapping[str, Any], colour: str, name: str
) -> None:
    """Plot the means of a report's metrics, with the bootstrap interval of each as a bar."""
    rows = _scored(report)
    means = [100 * report["metrics"][metric] for metric in metrics]
    ends = [interval([row[metric] for row in rows], resamples=_RESAMPLES) for metric in metrics]
    below = [max(0.0, mean - 100 * low) for mean, (low, _) in zip(means, ends, strict=True)]
    above = [max(0.0, 100 * high - mean) for mean, (_, high) in zip(means, ends, strict=True)]
    axes.errorbar(places, means, yerr=(below, above), fmt="o-", color=colour, label=name, capsize=3, elinewidth=1)


def _plot_latency(reports: Mapping[str, Mapping[str, Any]]) -> Any:
    figure, axes = _build_canvas("milliseconds (the query's embedding included)", "share of queries that took less, %")
    for colour, (name, report) in zip(_cycle(reports), reports.items(), strict=True):
        times = sorted(row["latency_ms"]["recall"] for row in report["queries"])
        shares = [100 * (place + 1) / len(times) for place in range(len(times))]
        axes.step(times, shares, where="post", color=colour, label=name)
    axes.set_xscale("log")
    for axis in (axes.xaxis.set_major_formatter, axes.xaxis.set_minor_formatter):
        axis(LogFormatter(labelOnlyBase=False, minor_thresholds=(2, 0.5)))
    return _finish(figure, axes)


def _plot_losses(reports: Mapping[str, Mapping[str, Any]]) -> Any:
    figure, axes = _build_canvas("share of all relevant documents, %", "")
    names = list(reports)
    left = [0.0] * len(names)
    for stage, colour in zip(LossStage, _STAGE_COLOURS, strict=True):
        totals = [max(1, sum(reports[name]["evidence"].values())) for name in names]
        widths = [
            100 * reports[name]["evidence"][stage.value] / total for name, total in zip(names, totals, strict=True)
        ]
        axes.barh(names, widths, left=left, color=colour, label=stage.value)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    return _finish(figure, axes, loc="lower center", ncols=len(LossStage), bbox_to_anchor=(0.5, 1.0))


def _build_canvas(across: str, up: str) -> tuple[Any, Any]:
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.grid(visible=True, alpha=0.25)
    return figure, axes


def _finish(figure: Any, axes: Any, **legend: Any) -> Any:
    axes.legend(fontsize="small", framealpha=0.6, **legend)
    return figure


def _render_svg(figure: Any) -> Markup:
    """Return a figure as SVG that is the same for the same reports."""
    out = io.StringIO()
    with mpl.rc_context(_RC):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    return Markup(text[text.index("<svg") :])  # matplotlib escapes what it writes


def _cycle(reports: Mapping[str, Any]) -> Sequence[str]:
    return [_COLOURS[place % len(_COLOURS)] for place in range(len(reports))]

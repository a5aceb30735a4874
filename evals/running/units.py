"""Recall in the three units of published figures: by document, by group (any), and by group (all).

Published figures on long conversations count differently and are not comparable: by turn (LoCoMo's paper), by session if any one
with evidence is found, or by session if all of them are (both in LongMemEval). A session of these sets is one sitting of a
conversation; here it is a group of documents, named by a field of their `meta`.

Groups are ranked by their best document, as LongMemEval's turn-to-session evaluation does: the ranking of documents with each
later document of a group taken out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from evals.compare import compare, comparison_json
from evals.dataset import LabelledSet
from evals.errors import DatasetError, SetupError
from evals.metrics import mean
from evals.reporting.report import result_json
from evals.running.journal import SUFFIX
from evals.running.parts import RANK_BM25, Arm
from evals.running.run import Options, run_set
from jacquard.authoring.reports import LEVEL, Comparison, clusters_of, interval

GROUP_FIELDS = ("sitting", "session_id")
"""Fields of `meta` that are tried if none is named: those of the converted LoCoMo and LongMemEval."""

RETRIEVERS = (Arm.HYBRID.value, Arm.BM25.value, RANK_BM25)
DOCUMENT_CUTS = (5, 10, 50)
GROUP_CUTS = (1, 3, 5, 10)
BY_DOCUMENT = tuple(f"document@{k}" for k in DOCUMENT_CUTS)
BY_ANY = tuple(f"group_any@{k}" for k in GROUP_CUTS)
BY_ALL = tuple(f"group_all@{k}" for k in GROUP_CUTS)
UNITS = {
    "by document: share of the evidence among the first k": BY_DOCUMENT,
    "by group, any: one group with evidence is among the first k": BY_ANY,
    "by group, all: every group with evidence is among the first k": BY_ALL,
}
_UNSAFE = re.compile(r"[^\w.-]+")

Report = Mapping[str, Any]
Keep = Callable[[Report, Path], object]


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitScores:
    """Scores of several retrievers on one set; the first is compared with each of the others."""

    name: str
    field: str
    """Field of `meta` that names the group of a document."""
    groups: int
    drawn: int
    """Number of sessions or of single queries from which the intervals are drawn."""
    reports: Mapping[str, Report]
    """Reports by retriever, with the scores of this module as their metrics."""
    intervals: Mapping[str, Mapping[str, tuple[float, float]]]
    comparisons: Mapping[str, Comparison]
    """Differences of the first retriever less each other one."""


def find_groups(labelled: LabelledSet, field: str | None = None) -> tuple[str, dict[str, str]]:
    """Return (field, group of each document). Groups of different sessions differ; without a field the known ones are tried.

    Raises:
        DatasetError: if a document has no such field.
    """
    documents = labelled.corpus.documents
    fields = GROUP_FIELDS if field is None else (field,)
    for name in fields:
        if all(each.metadata.get(name) is not None for each in documents):
            return name, {each.document_id: f"{each.session}\0{each.metadata[name]}" for each in documents}
    lacking = next(each for each in documents if any(each.metadata.get(name) is None for name in fields))
    raise DatasetError(
        f"{labelled.corpus.path}:{lacking.line}: meta has no {' and no '.join(fields)}, so {lacking.document_id!r} is in no group. "
        "Name the field that does with --group."
    )


def score_units(relevant: Mapping[str, int], retrieved: Sequence[str], groups: Mapping[str, str]) -> dict[str, float]:
    """Return the scores (0..1) of one query in all units; nothing if nothing is relevant.

    A relevant document without a group is one that the corpus does not have: it counts as a group that is never found.
    """
    wanted = {name for name, grade in relevant.items() if grade > 0}
    if not wanted:
        return {}
    ranked = list(dict.fromkeys(groups[name] for name in retrieved if name in groups))
    homes = {groups.get(name, f"\0{name}") for name in wanted}
    scores = {
        name: len(wanted.intersection(retrieved[:k])) / len(wanted)
        for name, k in zip(BY_DOCUMENT, DOCUMENT_CUTS, strict=True)
    }
    for any_name, all_name, k in zip(BY_ANY, BY_ALL, GROUP_CUTS, strict=True):
        found = homes.intersection(ranked[:k])
        scores[any_name], scores[all_name] = float(bool(found)), float(found == homes)
    return {name: scores[name] for names in UNITS.values() for name in names}


def with_unit_scores(report: Report, groups: Mapping[str, str]) -> dict[str, Any]:
    """Return a report of a run whose metrics are the scores of `score_units`."""
    rows = [
        {**row, "metrics": score_units(row["relevant"], row["retrieved"], groups) or None, "answers": {}}
        for row in report["queries"]
    ]
    scored = [row for row in rows if row["metrics"] is not None]
    kinds = dict.fromkeys(row["category"] for row in scored)
    by_category = {
        kind: {"queries": len(own), **mean(row["metrics"] for row in own)}
        for kind in kinds
        if (own := [row for row in scored if row["category"] == kind])
    }
    return {**report, "queries": rows, "metrics": mean(row["metrics"] for row in scored), "by_category": by_category}


async def run_units(
    labelled: LabelledSet,
    options: Options,
    retrievers: Sequence[str],
    folder: Path,
    keep: Keep,
    progress: Callable[[str, int, int], None],
) -> dict[str, Report]:
    """Run every retriever on a set; each report goes to `keep` with its place in `folder` (`SET.RETRIEVER.json`).

    A run that was stopped goes on within the retriever in which it was.
    """
    if len(set(retrievers)) < len(retrievers):
        raise SetupError("Each --retriever may be named once.")
    reports: dict[str, Report] = {}
    for name in retrievers:
        file = folder / f"{labelled.name}.{_UNSAFE.sub('_', name)}.json"

        def named(what: str, done: int, total: int, name: str = name) -> None:
            progress(f"{labelled.name}, {name}: {what}", done, total)

        journal = file.with_name(file.name + SUFFIX)
        reports[name] = result_json(await run_set(labelled, replace(options, retriever=name), named, None, journal))
        keep(reports[name], file)
    return reports


def compare_units(
    labelled: LabelledSet, reports: Mapping[str, Report], field: str | None = None, *, by_session: bool = False
) -> UnitScores:
    """Score reports in all units, with intervals, and compare the first with each other one.

    Raises:
        DatasetError: if documents have no group, if nothing was scored, or if the reports are of different queries.
    """
    found_field, groups = find_groups(labelled, field)
    scored = {name: with_unit_scores(report, groups) for name, report in reports.items()}
    first, *others = scored
    rows = [row for row in scored[first]["queries"] if row["metrics"] is not None]
    if not rows:
        raise DatasetError(f"{labelled.name}: no query has anything relevant; there is nothing to score.")
    clusters = clusters_of(rows, by_session=by_session)
    metrics = (*BY_DOCUMENT, *BY_ANY, *BY_ALL)
    return UnitScores(
        name=labelled.name,
        field=found_field,
        groups=len(set(groups.values())),
        drawn=len(set(clusters)),
        reports=scored,
        intervals={
            name: {
                metric: interval(
                    [row["metrics"][metric] for row in report["queries"] if row["metrics"] is not None],
                    clusters=clusters,
                )
                for metric in metrics
            }
            for name, report in scored.items()
        },
        comparisons={
            name: compare(scored[name], scored[first], metrics=metrics, by_session=by_session) for name in others
        },
    )


def units_to_json(found: UnitScores) -> dict[str, Any]:
    """Return the figures as a JSON value, 0..1; every single query is in the reports of the runs."""
    config = next(iter(found.reports.values()))["config"]
    return {
        "data": config["data"],
        "versions": config["versions"],
        "group": found.field,
        "groups": found.groups,
        "drawn": found.drawn,
        "queries": next(len(_scored(report)) for report in found.reports.values()),
        "retrievers": {
            name: {
                "embedder": report["config"]["embedder"],
                "means": dict(report["metrics"]),
                "intervals": {metric: list(ends) for metric, ends in found.intervals[name].items()},
                "by_category": report["by_category"],
            }
            for name, report in found.reports.items()
        },
        "differences": {name: comparison_json(each) for name, each in found.comparisons.items()},
    }


def print_units(found: UnitScores, console: Console) -> None:
    """Print a table a unit: a row a retriever, then what the first gains over each other one; then the categories."""
    first, *others = found.reports
    report = found.reports[first]
    data, counts = report["config"]["data"], report["counts"]
    scored = len(_scored(report))
    drawn = f"{found.drawn} whole sessions drawn" if found.drawn < scored else "queries drawn"
    console.print(
        Text(
            f"{found.name} ({data['licence']}): {scored} queries, {counts['documents']} documents in {found.groups} groups "
            f"(meta.{found.field}); embedder {report['config']['embedder']}; percent, {LEVEL:g} % intervals, {drawn}"
        )
    )
    for title, metrics in UNITS.items():
        table = Table(title=title, title_justify="left")
        table.add_column("", no_wrap=True)
        for name in metrics:
            table.add_column(f"@{name.partition('@')[2]}", justify="right", no_wrap=True)
        for name, each in found.reports.items():
            cells = [
                f"{100 * each['metrics'][metric]:.1f} ({100 * low:.1f} {100 * high:.1f})"
                for metric in metrics
                for low, high in [found.intervals[name][metric]]
            ]
            table.add_row(name, *cells, style="bold" if name == first else "")
        for name in others:
            gains = {each.metric: each for each in found.comparisons[name].differences[""]}
            cells = [
                f"{100 * gains[metric].delta:+.1f} ({100 * gains[metric].low:+.1f} {100 * gains[metric].high:+.1f})"
                for metric in metrics
            ]
            table.add_row(f"{first} − {name}", *cells)
        console.print(table)
    _print_categories(found, console)


def _print_categories(found: UnitScores, console: Console) -> None:
    metrics = (*BY_DOCUMENT[:2], BY_ANY[2], BY_ALL[2])
    table = Table(title="by category", title_justify="left")
    for column in ("", "", "n", *metrics):
        table.add_column(column, justify="right" if column and column != "" else "left", no_wrap=True)
    for name, report in found.reports.items():
        for kind, values in report["by_category"].items():
            cells = [f"{100 * values[metric]:.1f}" for metric in metrics]
            table.add_row(Text(name), Text(kind or "(none)"), str(values["queries"]), *cells)
    if any(len(report["by_category"]) > 1 for report in found.reports.values()):
        console.print(table)


def _scored(report: Report) -> list[Mapping[str, Any]]:
    return [row for row in report["queries"] if row["metrics"] is not None]

"""Results of a run, as JSON for programs and as tables for people. It computes nothing that `metrics` does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from evals.answers.answer_scores import collect_scores
from evals.metrics import METRICS, TOKEN_METRICS, Outcome, Scores, by_category, judge, mean
from evals.reporting.figures import percentiles
from evals.reporting.losses import LossStage, count_stages, find_stages
from jacquard.authoring.reports import ANSWER_METRICS, LEVEL, interval

LISTED = 5
_RESAMPLES = 2_000
WHOLE_TURNS = "engine"
"""The retriever of a report on whole turns, the only ones that count leaks."""

RUN_FILE = "run file"
"""The embedder of a report on a run file: nothing was measured but the rankings."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """Results of one query."""

    outcome: Outcome
    session: str | None
    recall_ms: float
    select_ms: float
    tokens: int
    """Tokens of the selected texts."""
    unreachable: tuple[str, ...] = ()
    """Relevant ids that are not in its pool."""
    error: str | None = None
    """Reason why the selector could not choose (then nothing is selected)."""
    counts: Mapping[str, int] = field(default_factory=dict)
    degradations: tuple[str, ...] = ()
    """Codes of the parts that recall had to do without."""
    shown: frozenset[str] | None = None
    """Ids in the prompt, if a whole turn was run."""
    leaked: tuple[str, ...] = ()
    """Ids that reached candidates or prompt although the viewer may not know them, if a whole turn was run."""
    answers: Mapping[str, float] = field(default_factory=dict)
    """Scores of the gold answer in the prompt (`score_answer`), if the query has one."""

    @property
    def lost(self) -> dict[str, LossStage]:
        """Return the stage at which each relevant document was lost."""
        return find_stages(self.outcome, unreachable=self.unreachable, shown=self.shown)


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """A whole run: rows in the order of the queries, and what was run on what."""

    rows: tuple[Row, ...]
    config: Mapping[str, Any]
    counts: Mapping[str, int]


def result_json(result: Result) -> dict[str, Any]:
    """Return the report as a JSON value; metrics are 0..1, latencies milliseconds, tokens estimates."""
    outcomes = [row.outcome for row in result.rows]
    scores = judge(outcomes)
    groups = by_category(outcomes, scores)
    recall_p50, recall_p95 = percentiles([row.recall_ms for row in result.rows], 50, 95)
    select_p50, select_p95 = percentiles([row.select_ms for row in result.rows], 50, 95)
    tokens = [float(row.tokens) for row in result.rows]
    tokens_p50, tokens_p95 = percentiles(tokens, 50, 95)
    return {
        "metrics": mean(scores.values()),
        "by_category": {name: {"queries": len(found), **mean(found)} for name, found in groups.items()},
        "latency_ms": {
            "recall_p50": round(recall_p50, 3),
            "recall_p95": round(recall_p95, 3),
            "select_p50": round(select_p50, 3),
            "select_p95": round(select_p95, 3),
        },
        "tokens": {
            "selection_mean": round(sum(tokens) / len(tokens), 1) if tokens else 0.0,
            "selection_p50": tokens_p50,
            "selection_p95": tokens_p95,
            "selection_total": int(sum(tokens)),
            **_sum_usage(result.rows),
        },
        "counts": {**result.counts, "queries": len(result.rows), "scored": len(scores)},
        "answers": _answers(result.rows),
        "evidence": count_stages(stage for row in result.rows for stage in row.lost.values()),
        "leaks": _leaks(result.rows),
        "problems": _problems(result.rows, scores),
        "config": dict(result.config),
        "queries": [_row_json(row, scores.get(row.outcome.query_id)) for row in result.rows],
    }


def print_report(report: Mapping[str, Any], console: Console) -> None:
    """Print the tables of a report (the value of `result_json`); whatever comes from data is text, never markup."""
    config, counts = report["config"], report["counts"]
    data = config["data"]
    console.print(
        Text(
            f"{data['name']} ({data['licence']}): {counts['queries']} queries, {counts['documents']} documents, "
            f"{_count(counts['pools'], 'pool')}\nretriever {config['retriever']}, embedder {config['embedder']}, "
            f"selector {config['selector']}"
        )
    )
    table = Table(title="percent, means over queries", title_justify="left")
    table.add_column("")
    table.add_column("n", justify="right")
    for name in METRICS:
        table.add_column(
            name.replace("recall@", "R@").replace("precision@", "P@").replace("ndcg@", "nDCG@"), justify="right"
        )
    table.add_row(*_cells("all", counts["scored"], report["metrics"]), style="bold")
    if len(report["by_category"]) > 1:
        for name, values in report["by_category"].items():
            table.add_row(*_cells(name or "(none)", values["queries"], values))
    console.print(table)
    if TOKEN_METRICS[0] in report["metrics"]:
        shares = ", ".join(
            f"{name.removeprefix('recall@').removesuffix('tok')}: {100 * report['metrics'][name]:.1f}"
            for name in TOKEN_METRICS
        )
        console.print(Text(f"recall within a budget of tokens, percent: {shares}"))
    if report.get("answers", {}).get("all"):
        console.print(_build_answer_table(report["answers"]))
    latency, tokens, machine = report["latency_ms"], report["tokens"], config["machine"]
    if machine is not None:
        console.print(
            Text(
                f"recall {latency['recall_p50']:.1f} ms p50, {latency['recall_p95']:.1f} p95; "
                f"select {latency['select_p50']:.1f} ms p50, {latency['select_p95']:.1f} p95 "
                f"({machine['cpu']}, {machine['cores']} cores)"
            )
        )
    console.print(
        Text(f"selection {tokens['selection_mean']:.0f} tokens a query (mean), {tokens['selection_p95']:.0f} p95")
    )
    console.print(
        Text("relevant evidence: " + ", ".join(f"{count} {stage}" for stage, count in report["evidence"].items()))
    )
    if report["leaks"]["queries"]:
        console.print(
            Text(f"LEAKED on {_count(report['leaks']['queries'], 'query')}: {report['leaks']['ids']}", style="bold red")
        )
    elif config["retriever"] == WHOLE_TURNS:
        console.print(Text(f"leaks: 0 of {_count(counts['queries'], 'query')}"))
    for line in _warnings(report["problems"]):
        console.print(Text(line, style="yellow"))


def _build_answer_table(answers: Mapping[str, Any]) -> Table:
    """Return the table of the answers in the prompt: a row a category, the bounds of each figure after it."""
    title = f"gold answer in the prompt, percent of the queries to which it applies, {LEVEL:g} % interval"
    table = Table(title=title, title_justify="left")
    table.add_column("")
    shown = [name for name in ANSWER_METRICS if name in answers["all"]]
    for name in shown:
        if "@" in name and "fits" not in name:
            table.add_column("n", justify="right")
        table.add_column(name, justify="right")
    for group, values in {"all": answers["all"], **answers["by_category"]}.items():
        cells: list[str] = []
        for name in shown:
            each = values.get(name)
            is_first = "@" in name and "fits" not in name
            cells += [str(each["queries"]) if each else "-"] if is_first else []
            cells.append(_format_share(each, with_interval=is_first) if each else "-")
        table.add_row(*(Text(cell) for cell in (group or "(none)", *cells)), style="bold" if group == "all" else "")
    return table


def _format_share(each: Mapping[str, Any], *, with_interval: bool) -> str:
    ends = f" ({100 * each['low']:.1f} {100 * each['high']:.1f})" if with_interval else ""
    return f"{100 * each['mean']:.1f}{ends}"


def _answers(rows: Sequence[Row]) -> dict[str, Any]:
    """Return, over all queries and by category, the share of each answer metric with its interval and its queries."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.outcome.category, []).append(row)
    found = {name: _average_answers(group) for name, group in groups.items()}
    return {"all": _average_answers(rows), "by_category": {name: values for name, values in found.items() if values}}


def _average_answers(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    averages = {}
    for name, values in collect_scores([row.answers for row in rows]).items():
        low, high = interval(values, resamples=_RESAMPLES)
        averages[name] = {"queries": len(values), "mean": sum(values) / len(values), "low": low, "high": high}
    return averages


def _leaks(rows: Sequence[Row]) -> dict[str, Any]:
    """Return on how many queries something forbidden got through, and what; the rate is over all queries."""
    found = {row.outcome.query_id: list(row.leaked) for row in rows if row.leaked}
    return {"queries": len(found), "rate": len(found) / len(rows) if rows else 0.0, "ids": found}


def _sum_usage(rows: Sequence[Row]) -> dict[str, int]:
    """Return the usage of a selector's model, if it reported it."""
    names = ("prompt_tokens", "completion_tokens")
    return {
        f"selector_{name}": sum(row.counts.get(name, 0) for row in rows)
        for name in names
        if any(name in row.counts for row in rows)
    }


def _problems(rows: Sequence[Row], scores: Mapping[str, Scores]) -> dict[str, Any]:
    mended: Counter[str] = Counter()
    for row in rows:
        mended.update({name: count for name, count in row.counts.items() if not name.endswith("_tokens")})
    return {
        "unreachable": {row.outcome.query_id: list(row.unreachable) for row in rows if row.unreachable},
        "unlabelled": [row.outcome.query_id for row in rows if row.outcome.query_id not in scores],
        "selector_errors": dict(Counter(row.error.partition(":")[0] for row in rows if row.error)),
        "selector_counts": dict(mended),
        "degradations": dict(Counter(code for row in rows for code in row.degradations)),
    }


def _row_json(row: Row, scores: Scores | None) -> dict[str, Any]:
    outcome = row.outcome
    shown: dict[str, Any] = {
        "id": outcome.query_id,
        "session": row.session,
        "category": outcome.category,
        "metrics": None if scores is None else dict(scores),
        "relevant": dict(outcome.relevant),
        "retrieved": list(outcome.retrieved),
        "retrieved_scores": list(outcome.scores),
        "retrieved_tokens": list(outcome.tokens),
        "selected": list(outcome.selected),
        "latency_ms": {"recall": round(row.recall_ms, 3), "select": round(row.select_ms, 3)},
        "tokens": row.tokens,
    }
    if row.lost:
        shown["evidence"] = {document_id: stage.value for document_id, stage in row.lost.items()}
    if row.answers:
        shown["answers"] = dict(row.answers)
    if row.leaked:
        shown["leaked"] = list(row.leaked)
    if row.unreachable:
        shown["unreachable"] = list(row.unreachable)
    if row.error is not None:
        shown["error"] = row.error
    return shown


def _cells(name: str, count: int, values: Mapping[str, float]) -> list[Text]:
    percents = [f"{100 * values[metric]:.1f}" if metric in values else "-" for metric in METRICS]
    return [Text(cell) for cell in (name, str(count), *percents)]


def _warnings(problems: Mapping[str, Any]) -> list[str]:
    lines = []
    unreachable, unlabelled = problems["unreachable"], problems["unlabelled"]
    if unreachable:
        missing = sum(len(ids) for ids in unreachable.values())
        lines.append(
            f"{_count(len(unreachable), 'query')} with relevant ids that are not in the pool ({missing}; they count as not found): "
            f"{_join_some(list(unreachable))}"
        )
    if unlabelled:
        lines.append(
            f"{_count(len(unlabelled), 'query')} without anything relevant (not scored): {_join_some(unlabelled)}"
        )
    if problems.get("not_in_run"):
        lines.append(
            f"{_count(len(problems['not_in_run']), 'query')} without a ranking in the run (nothing was found): "
            f"{_join_some(problems['not_in_run'])}"
        )
    if problems.get("not_in_set"):
        foreign = problems["not_in_set"]
        lines.append(f"{_count(len(foreign), 'query')} of the run not in the set (left out): {_join_some(foreign)}")
    lines += [
        f"selector failed on {_count(count, 'query')}: {code}" for code, count in problems["selector_errors"].items()
    ]
    lines += [
        f"recall did without on {_count(count, 'query')}: {code}" for code, count in problems["degradations"].items()
    ]
    return lines


def _join_some(names: Sequence[str]) -> str:
    return ", ".join(names[:LISTED]) + (", …" if len(names) > LISTED else "")


def _count(number: int, noun: str) -> str:
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"

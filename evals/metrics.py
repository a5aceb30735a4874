"""Scores of rankings and selections. The numbers come from ir-measures; this module only asks for them and averages.

Three steps, each on its own: judge every query (`judge`), combine (`mean`), split (`by_category`). It knows no
retriever and no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from jacquard.authoring.reports import KEPT_OUT
from mnemosyne.core.optional_packages import explain_missing_package

try:
    import ir_measures
    from ir_measures import P, R, nDCG
except ImportError as error:
    raise ImportError(explain_missing_package("Scoring", "ir-measures", "evals", error)) from error

CUTS = (5, 10, 25, 50)
BUDGETS = (250, 500, 1000, 2000)
METRICS = (*(f"recall@{k}" for k in CUTS), *(f"all@{k}" for k in CUTS), "ndcg@5", "precision@5")
"""Names in the order in which they are shown; all are 0..1, more is better."""

TOKEN_METRICS = tuple(f"recall@{budget}tok" for budget in BUDGETS)
"""Recall within a budget of tokens; all are 0..1, more is better."""

_WHOLE = 1.0 - 1e-9

Scores = Mapping[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """Results for one query."""

    query_id: str
    category: str
    relevant: Mapping[str, int]
    retrieved: tuple[str, ...]
    """Best first."""
    selected: tuple[str, ...]
    """In the order of choice."""
    tokens: tuple[int, ...] = ()
    """Tokens of the full texts of `retrieved`, in the same order."""
    scores: tuple[float, ...] = ()
    """Scores that the retriever gave `retrieved`, in the same order; scores of different queries cannot be compared."""


def judge(outcomes: Sequence[Outcome]) -> dict[str, Scores]:
    """Return the scores of each query by its id; one without anything relevant cannot be scored and is left out.

    `recall@k` is the share of the relevant among the first k retrieved, `all@k` is 1 if that share is whole, `ndcg@5`
    is that of the ranking with graded gain; `precision@5` is the number of relevant ones selected, divided by 5 however
    few were selected. `kept_out` is the share of the documents with grade 0 that were not selected; a query without such a
    document has no such score. A relevant document that is not in the pool counts as not found.
    """
    judged = [each for each in outcomes if any(grade > 0 for grade in each.relevant.values())]
    labels = [
        ir_measures.Qrel(each.query_id, document_id, grade)
        for each in judged
        for document_id, grade in each.relevant.items()
    ]
    found: dict[str, dict[str, float]] = {each.query_id: {} for each in judged}
    rankings = _run((each.query_id, each.retrieved) for each in judged)
    for result in ir_measures.iter_calc([*(R @ k for k in CUTS), nDCG @ 5], labels, rankings):
        found[result.query_id][_name(str(result.measure))] = float(result.value)
    choices = _run((each.query_id, each.selected) for each in judged)
    for result in ir_measures.iter_calc([P @ 5], labels, choices):
        found[result.query_id]["precision@5"] = float(result.value)
    for scores in found.values():
        scores.update({f"all@{k}": float(scores[f"recall@{k}"] >= _WHOLE) for k in CUTS})
    for each in judged:
        found[each.query_id].update(_score_within_budgets(each))
        if unwanted := {document_id for document_id, grade in each.relevant.items() if grade <= 0}:
            found[each.query_id][KEPT_OUT] = 1 - len(unwanted.intersection(each.selected)) / len(unwanted)
    names = (*METRICS, KEPT_OUT, *TOKEN_METRICS)
    return {query_id: {name: scores[name] for name in names if name in scores} for query_id, scores in found.items()}


def mean(scores: Iterable[Scores]) -> dict[str, float]:
    """Return the mean of each metric over the queries that have it; nothing of nothing."""
    rows = list(scores)
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: float(np.mean([row[name] for row in rows if name in row])) for name in names}


def by_category(outcomes: Sequence[Outcome], scores: Mapping[str, Scores]) -> dict[str, list[Scores]]:
    """Return the scores of each category's queries, biggest category first; queries without a score are left out."""
    groups: dict[str, list[Scores]] = {}
    for each in outcomes:
        if each.query_id in scores:
            groups.setdefault(each.category, []).append(scores[each.query_id])
    return dict(sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])))


def _score_within_budgets(outcome: Outcome) -> dict[str, float]:
    wanted = {document_id for document_id, grade in outcome.relevant.items() if grade > 0}
    used = np.cumsum(outcome.tokens, dtype=np.int64)
    return {
        f"recall@{budget}tok": len(
            wanted.intersection(outcome.retrieved[: int(np.searchsorted(used, budget, "right"))])
        )
        / len(wanted)
        for budget in BUDGETS
    }


def _run(rankings: Iterable[tuple[str, Sequence[str]]]) -> list[ir_measures.ScoredDoc]:
    """Return rankings as scored documents: the library orders by score, so a score is the place counted from the end."""
    return [
        ir_measures.ScoredDoc(query_id, document_id, float(len(ranked) - place))
        for query_id, ranked in rankings
        for place, document_id in enumerate(ranked)
    ]


def _name(measure: str) -> str:
    kind, _, cut = measure.partition("@")
    return f"{'recall' if kind == 'R' else kind.lower()}@{cut}"

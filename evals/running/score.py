"""Scores rankings of another system, from a run file of trec_eval, as a run of ours would be scored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from evals.dataset import LabelledSet, Pool
from evals.errors import DatasetError
from evals.metrics import Outcome
from evals.reporting.machine import versions
from evals.reporting.report import RUN_FILE, Result, Row, result_json
from evals.reporting.trec import TrecRun, read_run
from mnemosyne import CalibratedEstimator

SELECT_LIMIT = 5
_LISTED = 3


def score_run(labelled: LabelledSet, file: Path) -> dict[str, Any]:
    """Return the report of a run file on a set. The first five documents of a ranking count as its selection.

    A query that the run does not have retrieved nothing. Documents outside of a query's pool count as not relevant.

    Raises:
        DatasetError: if the file is not a run, or if it has no query of the set.
    """
    run = read_run(file)
    known = {query.query_id for query in labelled.queries}
    foreign = [name for name in run.rankings if name not in known]
    if len(foreign) == len(run.rankings):
        raise DatasetError(
            f"{file}: none of its {len(foreign)} queries ({', '.join(foreign[:_LISTED])}…) is in the set {labelled.name}, which "
            f"has {', '.join(query.query_id for query in labelled.queries[:_LISTED])}… Name the set that the run was made on."
        )
    pools = labelled.pools()
    rows = {row.outcome.query_id: row for pool in pools for row in _score_pool(pool, run)}
    report = result_json(
        Result(
            rows=tuple(rows[query.query_id] for query in labelled.queries),
            config={
                "retriever": run.tag,
                "selector": f"first {SELECT_LIMIT}",
                "embedder": RUN_FILE,
                "model": None,
                "select_limit": SELECT_LIMIT,
                "run": file.name,
                "data": labelled.describe(),
                "versions": versions(),
                "machine": None,
                "load": None,
            },
            counts={
                "documents": len(labelled.corpus.documents),
                "queries_in_set": len(labelled.queries),
                "pools": len(pools),
                "embedded": 0,
            },
        )
    )
    report["problems"] |= {
        "not_in_run": [query.query_id for query in labelled.queries if query.query_id not in run.rankings],
        "not_in_set": foreign,
    }
    return report


def _score_pool(pool: Pool, run: TrecRun) -> Iterator[Row]:
    texts: Mapping[str, str] = {each.document_id: each.text for each in pool.documents}
    estimator = CalibratedEstimator()
    count = cache(lambda name: estimator.estimate(texts.get(name, "")))
    for query in pool.queries:
        ranking = run.rankings.get(query.query_id, ())
        retrieved = tuple(each.document_id for each in ranking)
        selected = retrieved[:SELECT_LIMIT]
        yield Row(
            outcome=Outcome(
                query_id=query.query_id,
                category=query.category,
                relevant=query.relevant,
                retrieved=retrieved,
                selected=selected,
                tokens=tuple(count(name) for name in retrieved),
                scores=tuple(each.score for each in ranking),
            ),
            session=query.session,
            recall_ms=0.0,
            select_ms=0.0,
            tokens=sum(count(name) for name in selected),
            unreachable=tuple(sorted(query.wanted - texts.keys())),
        )

"""Finds the stage at which relevant evidence was lost on its way from the store to the prompt. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

from evals.metrics import Outcome


class LossStage(StrEnum):
    """The step at which a relevant document was lost, in the order of the road; DELIVERED: it was not."""

    NOT_INDEXED = "not indexed"
    NOT_RECALLED = "not recalled"
    NOT_SELECTED = "not selected"
    PRUNED = "pruned"
    DELIVERED = "delivered"


def find_stages(
    outcome: Outcome, *, unreachable: Iterable[str] = (), shown: frozenset[str] | None = None
) -> dict[str, LossStage]:
    """Return the stage of each relevant document by id.

    `unreachable` are ids that no index has; `shown` those in the prompt (None: all selected ones).
    """
    missing = frozenset(unreachable)
    chosen = frozenset(outcome.selected)
    there = chosen if shown is None else shown
    found = {}
    for document_id, grade in outcome.relevant.items():
        if grade <= 0:
            continue
        if document_id in there:
            found[document_id] = LossStage.DELIVERED
        elif document_id in missing:
            found[document_id] = LossStage.NOT_INDEXED
        elif document_id in chosen:
            found[document_id] = LossStage.PRUNED
        elif document_id in outcome.retrieved:
            found[document_id] = LossStage.NOT_SELECTED
        else:
            found[document_id] = LossStage.NOT_RECALLED
    return found


def count_stages(found: Iterable[LossStage]) -> dict[str, int]:
    """Return how many documents ended at each stage, every stage named, in the order of the road."""
    counted = Counter(found)
    return {stage.value: counted[stage] for stage in LossStage}

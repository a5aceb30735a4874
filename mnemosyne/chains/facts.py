"""Decides when each fact about a user is valid, because a later fact on the same topic ends an earlier one, and finds the facts
that are valid at a given time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

from mnemosyne.schema.memory import FactKind, UserFact

_EARLIEST = datetime.min.replace(tzinfo=UTC)


def settle_facts(facts: Iterable[UserFact]) -> tuple[UserFact, ...]:
    """Return `facts` ordered by the time from which they are valid. The next fact of the same kind and topic ends a fact.

    If two such facts begin at the same time, only the one that was recorded later is ever valid. A fact without a topic is
    not ended by another fact.
    """
    by_topic: dict[tuple[FactKind, str], list[UserFact]] = {}
    settled: list[UserFact] = []
    for fact in sorted(facts, key=_order):
        if fact.topic:
            by_topic.setdefault((fact.kind, fold_topic(fact.topic)), []).append(fact)
        else:
            settled.append(fact)
    for line in by_topic.values():
        for fact, following in zip(line, [*line[1:], None], strict=True):
            settled.append(fact if following is None else _end(fact, following))
    return tuple(sorted(settled, key=_order))


def facts_at(facts: Iterable[UserFact], at: datetime) -> tuple[UserFact, ...]:
    """Return the facts that are valid at the time `at`, in their order. `facts` must be a result of `settle_facts`."""
    return tuple(fact for fact in facts if begin_of(fact) <= at and (fact.valid_to is None or at < fact.valid_to))


def former_facts(facts: Iterable[UserFact], at: datetime) -> tuple[UserFact, ...]:
    """Return the facts that were valid before the time `at` and no longer are, in their order. `facts` must be a result of
    `settle_facts`.
    """
    return tuple(fact for fact in facts if fact.valid_to is not None and begin_of(fact) < fact.valid_to <= at)


def begin_of(fact: UserFact) -> datetime:
    """Return the time from which `fact` is valid."""
    return fact.valid_from or fact.recorded_at or _EARLIEST


def fold_topic(topic: str) -> str:
    """Return `topic` in the form in which topics are compared: without extra blanks and without case."""
    return " ".join(topic.split()).casefold()


def _end(fact: UserFact, following: UserFact) -> UserFact:
    end = begin_of(following)
    ends = end if fact.valid_to is None else min(fact.valid_to, end)
    return replace(fact, valid_to=ends, superseded_by=following.fact_id)


def _order(fact: UserFact) -> tuple[datetime, datetime, str]:
    return (begin_of(fact), fact.recorded_at or _EARLIEST, fact.fact_id)

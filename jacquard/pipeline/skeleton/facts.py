"""Turns the facts that are known about the user into prompt blocks. Pure.

Kinds of facts are profile, preferences, goals, policies and rules of the developer. Each fact is a block of its own, so
that the budget can keep the newest facts, and the receipt has a line for each. A fact that is no longer true is shown,
with its time, if the input asks about the past or names a year in which the fact was true.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime

from filament.boundaries import show_text
from filament.markup import open_tag
from jacquard.core.block_kinds import (
    FACTS_SLOT,
    FORMER_SECTION,
    USER_LAYER,
    USER_SOURCE_OF_FACTS,
    PackagePart,
    slot_traits,
)
from jacquard.core.blocks import Block, BlockKind, BlockOrigin, BlockPlace, Placement, Position
from jacquard.core.plan import Temporal
from jacquard.pipeline.turn import Turn
from mnemosyne.chains.facts import begin_of, facts_at, former_facts
from mnemosyne.chains.uris import evidence_uri
from mnemosyne.schema.evidence import BlockType, Priority
from mnemosyne.schema.memory import FactKind, UserFact, profile_session_id

_RULES = frozenset({FactKind.POLICIES, FactKind.TOOLING_RULES, FactKind.FORMAT_RULES, FactKind.SAFETY_RULES})
_YEAR = re.compile(r"(?<![0-9])(?:1[89]|20)[0-9]{2}(?![0-9])")
_READ_CHARS = 8_000
_MOST_FORMER = 40
"""Maximum number of facts shown that are no longer true; the newest are kept."""


def fact_blocks(turn: Turn, at: datetime, count: Callable[[str], int]) -> tuple[Block, ...]:
    """Return a block for each fact about the user that is true at the time `at`, newest first.

    If the input is about the past, blocks of facts that are no longer true are added. If it names a year, blocks of
    facts that were true in that year are added. `count` returns the tokens of a text.
    """
    session_id = profile_session_id(turn.facts.user_id)
    # Facts recorded at exactly this time count already.
    at = max([at, *(fact.recorded_at for fact in turn.facts.user_facts if fact.recorded_at is not None)])
    now = list(reversed(facts_at(turn.facts.user_facts, at)))
    blocks = [_block(fact, rank, session_id, count, turn.boundary) for rank, fact in enumerate(now)]
    is_past = turn.plan.search_intent.temporal_context is Temporal.PAST
    years = {int(year) for year in _YEAR.findall(turn.text[:_READ_CHARS])}
    former = [fact for fact in former_facts(turn.facts.user_facts, at) if is_past or _held_in(fact, years)]
    former = sorted(former, key=begin_of, reverse=True)[:_MOST_FORMER]
    blocks += [_block(fact, rank, session_id, count, turn.boundary, is_former=True) for rank, fact in enumerate(former)]
    return tuple(blocks)


def _held_in(fact: UserFact, years: Iterable[int]) -> bool:
    """Return whether a former fact was true in one of these years."""
    last = fact.valid_to.year if fact.valid_to is not None else 0
    return any(begin_of(fact).year <= year <= last for year in years)


def _block(
    fact: UserFact,
    rank: int,
    session_id: str,
    count: Callable[[str], int],
    boundary: str,
    *,
    is_former: bool = False,
) -> Block:
    is_rule = fact.kind in _RULES and not is_former
    section = FORMER_SECTION if is_former else fact.kind.value
    attributes = [
        ("kind", fact.kind.value if is_former else ""),
        ("topic", fact.topic),
        ("from", _date(begin_of(fact)) if is_former or fact.valid_from is not None else ""),
        ("until", _date(fact.valid_to) if is_former and fact.valid_to is not None else ""),
        ("trust", fact.trust.value),
    ]
    content = f"{open_tag('fact', [pair for pair in attributes if pair[1]])}{show_text(fact.text, boundary)}</fact>"
    is_for_developer = slot_traits(FACTS_SLOT, section).part is PackagePart.DEVELOPER_BLOCKS
    return Block(
        block_id=f"user-fact:{fact.fact_id}",
        kind=BlockKind.FACT,
        block_type=BlockType.INSTRUCTION if is_rule or is_for_developer else BlockType.MEMORY,
        content=content,
        place=BlockPlace(
            slot=FACTS_SLOT,
            placement=Placement(position=Position.SYSTEM, order=78 if is_former else 25),
            layer=USER_LAYER,
            section=section,
            volatile=is_former,
        ),
        origin=BlockOrigin(
            source=f"{USER_SOURCE_OF_FACTS}{fact.kind.value}",
            title=fact.topic or fact.kind.value,
            trust=fact.trust,
            at=fact.recorded_at,
            uri=evidence_uri(session_id, fact.fact_id),
        ),
        priority=Priority.MUST if is_rule else Priority.MEDIUM if is_former else Priority.HIGH,
        rank=rank,
        tokens=count(content),
    )


def _date(at: datetime) -> str:
    return at.date().isoformat()

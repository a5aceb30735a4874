"""Heuristic selector: a selection without a model, always available. Pure.

Candidates are ordered by their fused score with corrections:
- Near-duplicates are merged into the better one, unless they differ in a number, a name or a "not".
- Candidates that name entities of the plan get a bonus; lore whose subject the input names gets a larger one, because it
  explains a proper noun; the largest goes to an entity of the input that no chosen candidate covers yet.
- Among candidates of nearly equal score, chains get shares by the plan's weights.
- A candidate of a turn that is already represented loses score, because a turn's messages and summary repeat each other; no
  turn gets more than two.
- An overview is spread over time: a candidate from a stretch of turns that is represented loses score, and one with a new
  entity gets a bonus.

No correction lifts a candidate from the bottom of recall to its top. Candidates below the request's relevance floor are not
chosen (`relevance`). Measurements: `docs/decisions/0023-selection.md` and `0038-relevance.md`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from jacquard.core.names import mentions, normalise
from jacquard.core.plan import OverviewScope, PlanContext, Temporal
from jacquard.core.protocols import Selection, SelectionContext, SelectionRequest
from jacquard.pipeline.curation.recall_query import SEVERAL, repeat_key
from jacquard.pipeline.curation.selectors.relevance import estimate_relevance
from mnemosyne.core.off_loop import calculate
from mnemosyne.retrieval.text.words import word_tokens
from mnemosyne.schema.memory import THREAD, Chain
from mnemosyne.schema.query import Candidate

FOLD_OVERLAP = 0.7
FOCUS_BONUS = 0.05
SUBJECT_BONUS = 0.1
COVER_BONUS = 0.2
CHAIN_COST = 0.02
LEAST_SHARE = 0.02
TURN_COST = 0.05
MOST_OF_A_TURN = 2
LEAST_FOR_PAST = 2
OVERVIEW_TURN_COST = 0.3
STRETCH_COST = 0.15
_FIGURES = re.compile(
    r"\d+(?:[.,]\d+)*|[二三四五六七八九十百千万两]+"
    r"|\b(?:two|three|four|five|six|seven|eight|nine|ten|hundred|thousand)\b"
)
_NOT = re.compile(
    r"\b(?:not|never|no|nobody|nothing|none|without|refused?)\b|n['’]t\b|[不没沒未无無非别莫勿]", re.IGNORECASE
)
_CHARS_A_CANDIDATE = 120
"""Cost of one candidate, in characters for `calculate` (100 candidates take about 1 ms)."""

_NAMED = re.compile(r"\b[A-Z][\w'’-]*")
_ARTICLE = re.compile(r"^(?:the|an?)\s+")
_WEIGHT_NAMES = {Chain.HISTORY: "narrative", Chain.NARRATIVE: "narrative", Chain.LORE: "lore", Chain.EVENT: "event"}


@dataclass(frozen=True, kw_only=True, slots=True)
class _ScoredCandidate:
    """Candidate with its score."""

    candidate: Candidate
    """The candidate."""
    name: str
    share: float
    """Part (0..1) of the best score of recall."""
    bonus: float
    """Bonus for words of the plan."""
    shingles: frozenset[tuple[str, ...]]
    figures: frozenset[str]
    habit: tuple[str, ...] | None


class HeuristicSelector:
    """Selects by score. The same request gives the same selection; it never fails.

    `fold_overlap` (0..1] is the Jaccard overlap of words and word pairs from which two previews are near-duplicates. Texts with
    different figures, names, negations or entities never are: "paid 5 coins" and "paid 7 coins" are two facts. Only if several
    messages differ just in their numbers are they a habit ("I look around, time 3."), and one represents the others.
    """

    name = "heuristic"

    def __init__(self, fold_overlap: float = FOLD_OVERLAP) -> None:
        self._fold_overlap = fold_overlap

    async def select(self, request: SelectionRequest, context: SelectionContext | None = None) -> Selection:
        """Return the best candidates; `why` has each one's deciding score and its probability of relevance."""
        return await calculate(self._select, request, size=len(request.candidates) * _CHARS_A_CANDIDATE)

    def _select(self, request: SelectionRequest) -> Selection:
        likely = dict(zip((each.entry_id for each in request.candidates), estimate_relevance(request), strict=True))
        floor = _find_floor(request, likely)
        below = {entry_id: share for entry_id, share in likely.items() if share < floor}
        waiting = [each for each in _score_candidates(request) if each.candidate.entry_id not in below]
        shares, timeline = _chain_shares(request.plan), _Timeline.of(request)
        wanted = frozenset(request.plan.entities)
        if timeline is not None:
            wanted = wanted.union(*(each.entities for each in request.candidates))
        chosen: list[_ScoredCandidate] = []
        folded: dict[str, str] = {}
        why: dict[str, str] = {}
        of_full_turn: list[str] = []
        while waiting and len(chosen) < request.limit:
            scorer = _Scorer.build(chosen, shares, wanted, timeline)
            best = _prefer_thread(max(waiting, key=scorer.score), waiting)
            chosen.append(best)
            full = _find_full_turns(chosen)
            rest, waiting = waiting, []
            for one in rest:
                if one is best:
                    why[one.candidate.entry_id] = _describe(scorer, one, likely[one.candidate.entry_id], floor)
                elif self._are_alike(one, best):
                    folded[one.candidate.entry_id] = best.candidate.entry_id
                elif one.candidate.turn_id in full:
                    of_full_turn.append(one.candidate.entry_id)
                else:
                    waiting.append(one)
        if waiting and chosen:
            last = f"the last one's {scorer.score(best):.2f}"
            why |= {one.candidate.entry_id: f"its score of {scorer.score(one):.2f} against {last}" for one in waiting}
        return Selection(
            entry_ids=tuple(one.candidate.entry_id for one in chosen),
            why=why,
            folded=folded,
            floor=floor,
            below_floor=below,
            of_full_turn=tuple(of_full_turn),
            counts={"folded": len(folded)} if folded else {},
        )

    def _are_alike(self, one: _ScoredCandidate, other: _ScoredCandidate) -> bool:
        if THREAD in (one.candidate.kind, other.candidate.kind) and (
            _is_said_in(one.candidate, other.candidate) or _is_said_in(other.candidate, one.candidate)
        ):
            return True
        if one.habit is not None and one.habit == other.habit:
            return True
        if one.figures != other.figures or not one.shingles or not other.shingles:
            return False
        if set(one.candidate.entities) != set(other.candidate.entities):
            return False
        sizes = len(one.shingles), len(other.shingles)
        if min(sizes) < self._fold_overlap * max(sizes):
            return False
        shared = len(one.shingles & other.shingles)
        return shared >= self._fold_overlap * (sum(sizes) - shared)


def _prefer_thread(best: _ScoredCandidate, waiting: Sequence[_ScoredCandidate]) -> _ScoredCandidate:
    """Return the open thread with the same content as the candidate, because it also states that it is open; else the
    candidate.
    """
    threads = (one for one in waiting if one.candidate.kind == THREAD)
    return next((one for one in threads if _is_said_in(one.candidate, best.candidate)), best)


def _is_said_in(thread: Candidate, other: Candidate) -> bool:
    """Return whether an open thread is a part of another candidate of its turn."""
    return thread.kind == THREAD and thread.turn_id == other.turn_id and thread.preview in other.preview


def _find_floor(request: SelectionRequest, likely: Mapping[str, float]) -> float:
    """Return the minimum probability of relevance; halved for the best few if the input is about the past, because it wants a
    memory.
    """
    floor = request.relevance_floor
    enough = sum(share >= floor for share in likely.values())
    if likely and request.plan.search_intent.temporal_context is Temporal.PAST and enough < LEAST_FOR_PAST:
        best = sorted(likely.values(), reverse=True)[:LEAST_FOR_PAST]
        floor = min(floor, max(best[-1], floor / 2))
    return floor


def _describe(scorer: _Scorer, one: _ScoredCandidate, likely: float, floor: float) -> str:
    """Return the reason for a candidate's place (its score) and for its choice (its relevance, or its part of an overview)."""
    if scorer.timeline is not None:
        return f"{scorer.timeline.describe(one.candidate.depth)}; score {scorer.score(one):.2f} = {scorer.explain(one)}"
    above = f" (floor {floor:.0%})" if floor else ""
    return f"score {scorer.score(one):.2f} = {scorer.explain(one)}; relevant at {likely:.0%}{above} by the rules"


def _find_full_turns(chosen: Sequence[_ScoredCandidate]) -> frozenset[str]:
    """Return the turns that have the maximum number of chosen candidates."""
    counts = Counter(each.candidate.turn_id for each in chosen if each.candidate.turn_id is not None)
    return frozenset(turn_id for turn_id, count in counts.items() if count >= MOST_OF_A_TURN)


def _score_candidates(request: SelectionRequest) -> list[_ScoredCandidate]:
    """Return candidates with scores of 0..1 plus bonus, in recall order, because `max` takes the first of equal ones."""
    top = max((candidate.score for candidate in request.candidates), default=0.0)
    keywords = [keyword for keyword in request.plan.search_intent.focus_keywords if keyword.strip()]
    focus = frozenset(request.plan.entities)
    subjects = {_strip_article(keyword) for keyword in request.plan.search_intent.focus_keywords} - {""}
    habits = Counter(repeat_key(each.preview) for each in request.candidates if each.chain is Chain.HISTORY)
    scored = []
    for candidate in request.candidates:
        habit = repeat_key(candidate.preview) if candidate.chain is Chain.HISTORY else None
        shingles, figures = fingerprint_text(candidate.preview)
        about = bool(focus & set(candidate.entities)) or _is_mentioned(candidate.title, keywords)
        scored.append(
            _ScoredCandidate(
                candidate=candidate,
                name=_WEIGHT_NAMES.get(candidate.chain, "narrative"),
                share=max(candidate.score / top, 0.0) if top > 0 else 0.0,
                bonus=SUBJECT_BONUS if _is_subject(candidate, subjects) else FOCUS_BONUS if about else 0.0,
                shingles=shingles,
                figures=figures,
                habit=habit if habit is not None and habits[habit] >= SEVERAL else None,
            )
        )
    return scored


@lru_cache(maxsize=1 << 12)
def fingerprint_text(text: str) -> tuple[frozenset[tuple[str, ...]], frozenset[str]]:
    """Return the common parts of near-duplicates (words and word pairs), and the figures, names and negations that distinguish
    facts.

    Results are cached, because recall finds the same texts turn after turn.
    """
    words = word_tokens(text)
    facts = [*_FIGURES.findall(text.lower()), *(each.lower() for each in _NOT.findall(text))]
    facts += [name for name in _NAMED.findall(text) if word_tokens(name)]
    return frozenset([*((word,) for word in words), *pairwise(words)]), frozenset(facts)


def _is_subject(candidate: Candidate, subjects: Collection[str]) -> bool:
    """Return whether the title of a lore entry is an entity or keyword of the input."""
    return candidate.chain is Chain.LORE and _strip_article(candidate.title) in subjects


def _strip_article(name: str) -> str:
    return _ARTICLE.sub("", normalise(name))


@dataclass(frozen=True, slots=True)
class _Timeline:
    """Turns of an overview's candidates, divided into as many stretches as there are places; `about` names the overview."""

    about: str
    first: int
    turns: int
    stretches: int

    @classmethod
    def of(cls, request: SelectionRequest) -> _Timeline | None:
        """Return the timeline of an overview; None if the input does not ask for one."""
        scope = request.plan.search_intent.overview
        if scope is None:
            return None
        depths = [each.depth for each in request.candidates if each.depth is not None]
        first = min(depths, default=0)
        turns = max(depths, default=0) - first + 1
        named = ", ".join(request.plan.search_intent.focus_keywords) if scope in _NAMED_SCOPES else ""
        return cls(named or _SCOPE_NAMES[scope], first, turns, min(turns, max(request.limit, 1)))

    def place(self, depth: int | None) -> int | None:
        """Return the stretch of a turn; None for a candidate without a place in time."""
        return None if depth is None else (depth - self.first) * self.stretches // self.turns

    def describe(self, depth: int | None) -> str:
        """Return the reason for choosing a candidate."""
        place = self.place(depth)
        if place is None:
            return f"overview of {self.about}: background"
        begin, end = (-(-each * self.turns // self.stretches) + self.first for each in (place, place + 1))
        return f"overview of {self.about}: turn {begin}" + (f" to {end - 1}" if end - 1 > begin else "")


_NAMED_SCOPES = frozenset({OverviewScope.PERSON, OverviewScope.PLACE, OverviewScope.THING})
_SCOPE_NAMES = {
    OverviewScope.ALL: "everything",
    OverviewScope.QUEST: "quests",
    OverviewScope.PERSON: "persons",
    OverviewScope.PLACE: "places",
    OverviewScope.THING: "things",
    OverviewScope.OWN: "what the player carries and has left to do",
}


@dataclass(frozen=True, slots=True)
class _Scorer:
    """Scores candidates relative to those already chosen.

    It adds a bonus for an entity of the input that they do not cover (`left`), and subtracts the costs of the candidate's turn
    and chain. The cost of a chain follows Sainte-Laguë: it grows with the entries chosen from it and falls with its share, so
    that candidates of equal score are chosen in proportion to the plan's weights.
    """

    left: frozenset[str]
    chosen_turn_ids: frozenset[str | None]
    costs: Mapping[str, float]
    timeline: _Timeline | None = None
    stretches: Mapping[int | None, int] = field(default_factory=dict)

    @classmethod
    def build(
        cls,
        chosen: Sequence[_ScoredCandidate],
        shares: Mapping[str, float],
        input_entities: frozenset[str],
        timeline: _Timeline | None,
    ) -> _Scorer:
        repeats = Counter(each.name for each in chosen)
        return cls(
            left=input_entities.difference(*(each.candidate.entities for each in chosen)),
            chosen_turn_ids=frozenset(each.candidate.turn_id for each in chosen) - {None},
            costs={
                name: CHAIN_COST * (repeats[name] + 0.5) / (len(shares) * share) if timeline is None else 0.0
                for name, share in shares.items()
            },
            timeline=timeline,
            stretches=Counter(timeline.place(each.candidate.depth) for each in chosen) if timeline else {},
        )

    def score(self, one: _ScoredCandidate) -> float:
        crowd = 0.0 if self.timeline is None else self._crowd(one)
        return one.share + one.bonus + self._cover(one) - self._again(one) - crowd - self.costs[one.name]

    def explain(self, one: _ScoredCandidate) -> str:
        """Return the parts of a score as text."""
        parts = (
            (one.bonus, "for what the input names"),
            (self._cover(one), "for an entity that none before it covers"),
            (-self._again(one), "for a turn that is chosen already"),
            (-self._crowd(one), "for turns near it that are"),
            (-self.costs[one.name], "for its chain"),
        )
        shown = (
            f" {'-' if value < 0 else '+'} {abs(value):.2f} {what}" for value, what in parts if abs(value) >= 0.005
        )
        return f"{one.share:.2f} of the best in recall{''.join(shown)}"

    def _cover(self, one: _ScoredCandidate) -> float:
        return COVER_BONUS if self.left.intersection(one.candidate.entities) else 0.0

    def _again(self, one: _ScoredCandidate) -> float:
        cost = TURN_COST if self.timeline is None else OVERVIEW_TURN_COST
        return cost if one.candidate.turn_id in self.chosen_turn_ids else 0.0

    def _crowd(self, one: _ScoredCandidate) -> float:
        """Return the cost of a stretch of an overview that has chosen candidates."""
        place = None if self.timeline is None else self.timeline.place(one.candidate.depth)
        return 0.0 if place is None else STRETCH_COST * self.stretches.get(place, 0)


def _is_mentioned(title: str, keywords: Iterable[str]) -> bool:
    plain = normalise(title)
    return any(mentions(plain, keyword) for keyword in keywords)


def _chain_shares(plan: PlanContext) -> Mapping[str, float]:
    """Return the share of each chain by the plan's weights, at least LEAST_SHARE; equal shares if all weights are 0."""
    weights = {name: max(plan.search_intent.domain_weight.get(name, 0.0), 0.0) for name in _WEIGHT_NAMES.values()}
    total = sum(weights.values())
    return {
        name: max(weight / total, LEAST_SHARE) if total > 0 else 1.0 / len(weights) for name, weight in weights.items()
    }

"""Selects memories by rules, without a model, so that a selection is always available. The rules are pure functions.

Candidates are chosen one by one, by their score in recall and, if the request has a minimum probability of relevance, by this
probability too, with these corrections:

- Near-duplicates are merged into the better one, unless they differ in a number, a name or a "not".
- A candidate that is about an entity in the plan gets a bonus. A lore entry whose title is named in the input gets a
  larger bonus. The largest bonus goes to a candidate about an entity in the plan that no chosen candidate is about yet.
- If scores are nearly equal, the chains (kinds of memory) get shares by the weights of the plan.
- A candidate loses score if another candidate from the same turn is chosen, because messages and summary of a turn
  repeat each other. At most two candidates from one turn are chosen.
- If the input asks for an overview, the choice is spread over time. A candidate loses score if another one from the
  same stretch of turns is chosen. A candidate gets a bonus if it is about an entity that no chosen candidate is about.

The corrections are small: none of them lifts a candidate from the bottom of recall to its top. Candidates below the request's
minimum probability of relevance are not chosen (module `relevance`). The minimum is higher for an input that asks nothing, and
lower for the best candidate of recall if the input is about the past. Measurements: `docs/decisions/0023-selection.md` and
`0038-relevance.md`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from itertools import pairwise

from jacquard.core.names import mentions, normalise
from jacquard.core.plan import OverviewScope, PlanContext, Temporal
from jacquard.core.protocols import Selection, SelectionContext, SelectionRequest
from jacquard.pipeline.curation.recall_query import SEVERAL, repeat_key
from jacquard.pipeline.curation.selectors.relevance import estimate_relevance, is_asking
from mnemosyne.core.codec import Struct
from mnemosyne.core.off_loop import calculate
from mnemosyne.retrieval.text.words import word_tokens
from mnemosyne.schema.memory import THREAD, Chain
from mnemosyne.schema.query import Candidate
from mnemosyne.values import dataclass

FOLD_OVERLAP = 0.7
FOCUS_BONUS = 0.05
SUBJECT_BONUS = 0.1
COVER_BONUS = 0.2
CHAIN_COST = 0.02
LEAST_SHARE = 0.02
TURN_COST = 0.05
MOST_OF_A_TURN = 2
RELEVANCE_SHARE = 0.75
"""Weight of the relevance (0..1) of a candidate next to its share (0..1) of the best score of recall."""
STATEMENT_FACTOR = 1.3
"""Factor of the floor of relevance for an input that asks nothing, because it seldom needs a memory."""
PAST_SHARE = 0.5
"""Share of the floor that the best candidate of recall needs if the input is about the past, because it wants a memory."""
THREAD_SHARE = 0.5
"""Minimum share of a message that its open thread must contain to be chosen in its place."""
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


class _Columns(Struct, frozen=True, kw_only=True):
    """Candidates of a request with what the rules compare, as columns in recall order."""

    candidates: Sequence[Candidate]
    names: list[str]
    """Name of each one's weight in the plan."""
    shares: list[float]
    """Part (0..1) of the best score of recall, or of score and relevance if the request has a floor."""
    measure: str
    """Names what the shares measure."""
    bonuses: list[float]
    """Bonus for words of the plan."""
    prints: list[tuple[frozenset[tuple[str, ...]], frozenset[str]]]
    """`fingerprint_text` of each."""
    habits: list[tuple[str, ...] | None]


class HeuristicSelector:
    """Selects by score. The same request gives the same selection, and a selection never fails.

    Two previews are near-duplicates if the Jaccard overlap of their words and word pairs is at least `fold_overlap`
    (0..1]. Previews with different figures, names, negations or entities are not near-duplicates: "paid 5 coins" and
    "paid 7 coins" are two facts. An exception is a habit: three or more messages that differ only in their numbers ("I
    look around, time 3."). Only one message of a habit is chosen.
    """

    name = "heuristic"

    def __init__(self, fold_overlap: float = FOLD_OVERLAP) -> None:
        self._fold_overlap = fold_overlap

    async def select(self, request: SelectionRequest, context: SelectionContext | None = None) -> Selection:
        """Return a selection of the best candidates of `request`, at most `request.limit`. `context` is not used.

        `why` of the selection states the score of each candidate, and the relevance of the chosen ones.
        """
        size = len(request.user_message) + len(request.candidates) * _CHARS_A_CANDIDATE
        return await calculate(self._select, request, size=size)

    def _select(self, request: SelectionRequest) -> Selection:
        likely = dict(zip([each.entry_id for each in request.candidates], estimate_relevance(request), strict=True))
        floor = _find_floor(request)
        columns, ids = _read_columns(request, likely), [each.entry_id for each in request.candidates]
        floors = dict.fromkeys(ids, floor)
        if ids and likely[ids[0]] < floor and _is_about_past(request):
            floors[ids[0]] = PAST_SHARE * floor
        below = {entry_id: share for entry_id, share in likely.items() if share < floors[entry_id]}
        waiting = [row for row, entry_id in enumerate(ids) if entry_id not in below]
        shares, timeline = _chain_shares(request.plan), _Timeline.of(request)
        wanted = frozenset(request.plan.entities)
        if timeline is not None:
            wanted = wanted.union(*(each.entities for each in request.candidates))
        chosen: list[int] = []
        folded: dict[str, str] = {}
        why: dict[str, str] = {}
        of_full_turn: list[str] = []
        while waiting and len(chosen) < request.limit:
            scorer = _Scorer.build(columns, chosen, shares, wanted, timeline)
            scores = scorer.scores(waiting)
            best = _prefer_thread(waiting[scores.index(max(scores))], waiting, columns.candidates)
            chosen.append(best)
            full = _find_full_turns([columns.candidates[row] for row in chosen])
            rest, waiting = waiting, []
            for row in rest:
                if row == best:
                    why[ids[row]] = _describe(scorer, row, likely[ids[row]], floors[ids[row]])
                elif self._are_alike(columns, row, best):
                    folded[ids[row]] = ids[best]
                elif columns.candidates[row].turn_id in full:
                    of_full_turn.append(ids[row])
                else:
                    waiting.append(row)
        if waiting and chosen:
            last, scores = f"the last one's {scorer.scores([best])[0]:.2f}", scorer.scores(waiting)
            why |= {
                ids[row]: f"its score of {score:.2f} against {last}" for row, score in zip(waiting, scores, strict=True)
            }
        return Selection(
            entry_ids=tuple([ids[row] for row in chosen]),
            why=why,
            folded=folded,
            floor=floor,
            below_floor=below,
            of_full_turn=tuple(of_full_turn),
            counts={"folded": len(folded)} if folded else {},
        )

    def _are_alike(self, columns: _Columns, row: int, other: int) -> bool:
        one, two, habit = columns.candidates[row], columns.candidates[other], columns.habits[row]
        if THREAD in (one.kind, two.kind) and (_is_said_in(one, two) or _is_said_in(two, one)):
            return True
        if habit is not None and habit == columns.habits[other]:
            return True
        (shingles, figures), (other_shingles, other_figures) = columns.prints[row], columns.prints[other]
        if figures != other_figures or not shingles or not other_shingles:
            return False
        if set(one.entities) != set(two.entities):
            return False
        sizes = len(shingles), len(other_shingles)
        if min(sizes) < self._fold_overlap * max(sizes):
            return False
        shared = len(shingles & other_shingles)
        return shared >= self._fold_overlap * (sum(sizes) - shared)


def _prefer_thread(best: int, waiting: Sequence[int], candidates: Sequence[Candidate]) -> int:
    """Return the row of the open thread with most of the content of the candidate, because it also states that it is open; else
    the candidate's.
    """
    other = candidates[best]
    threads = [row for row in waiting if candidates[row].kind == THREAD and _is_said_in(candidates[row], other)]
    least = THREAD_SHARE * len(other.preview)
    return next((row for row in threads if len(candidates[row].preview) >= least), best)


def _is_said_in(thread: Candidate, other: Candidate) -> bool:
    """Return whether an open thread is a part of another candidate of its turn."""
    return thread.kind == THREAD and thread.turn_id == other.turn_id and thread.preview in other.preview


def _find_floor(request: SelectionRequest) -> float:
    """Return the minimum probability of relevance; it is raised if the input asks nothing and is not about the past."""
    floor = request.relevance_floor
    if _is_about_past(request) or is_asking(request.searched_text or request.user_message):
        return floor
    return min(STATEMENT_FACTOR * floor, (1.0 + floor) / 2)


def _is_about_past(request: SelectionRequest) -> bool:
    return request.plan.search_intent.temporal_context is Temporal.PAST


def _describe(scorer: _Scorer, row: int, likely: float, floor: float) -> str:
    """Return the reason for a candidate's place (its score) and for its choice (its relevance, or its part of an overview)."""
    score = f"score {scorer.scores([row])[0]:.2f} = {scorer.explain(row)}"
    if scorer.timeline is not None:
        return f"{scorer.timeline.describe(scorer.columns.candidates[row].depth)}; {score}"
    above = f" (floor {floor:.0%})" if floor else ""
    return f"{score}; relevant at {likely:.0%}{above} by the rules"


def _find_full_turns(chosen: Sequence[Candidate]) -> frozenset[str]:
    """Return the turns that have the maximum number of chosen candidates."""
    counts = Counter([each.turn_id for each in chosen if each.turn_id is not None])
    return frozenset([turn_id for turn_id, count in counts.items() if count >= MOST_OF_A_TURN])


def _read_columns(request: SelectionRequest, likely: Mapping[str, float]) -> _Columns:
    """Return the candidates with scores of 0..1 and their bonuses. `likely` is the relevance (0..1) of each."""
    candidates, plan = request.candidates, request.plan
    shares, has_floor = _scale([candidate.score for candidate in candidates]), request.relevance_floor > 0.0
    if has_floor:
        shares = _scale(
            [share + RELEVANCE_SHARE * likely[each.entry_id] for share, each in zip(shares, candidates, strict=True)]
        )
    keywords = [keyword for keyword in plan.search_intent.focus_keywords if keyword.strip()]
    focus = frozenset(plan.entities)
    subjects = {_strip_article(keyword) for keyword in plan.search_intent.focus_keywords} - {""}
    habits = [repeat_key(each.preview) if each.chain is Chain.HISTORY else None for each in candidates]
    often = Counter(habits)
    bonuses = []
    for each in candidates:
        if subjects and each.chain is Chain.LORE and _strip_article(each.title) in subjects:
            bonuses.append(SUBJECT_BONUS)
        else:
            is_about = not focus.isdisjoint(each.entities) or (keywords and _is_mentioned(each.title, keywords))
            bonuses.append(FOCUS_BONUS if is_about else 0.0)
    return _Columns(
        candidates=candidates,
        names=[_WEIGHT_NAMES.get(each.chain, "narrative") for each in candidates],
        shares=shares,
        measure="recall and relevance" if has_floor else "recall",
        bonuses=bonuses,
        prints=[fingerprint_text(each.preview) for each in candidates],
        habits=[habit if habit is not None and often[habit] >= SEVERAL else None for habit in habits],
    )


def _scale(scores: Sequence[float]) -> list[float]:
    """Return each score as a part (0..1) of the best one."""
    top = max(scores, default=0.0)
    return [max(score / top, 0.0) if top > 0 else 0.0 for score in scores]


@lru_cache(maxsize=1 << 12)
def fingerprint_text(text: str) -> tuple[frozenset[tuple[str, ...]], frozenset[str]]:
    """Return (words, facts): the words and word pairs of a text, and its figures, names and negations.

    Near-duplicates have most of `words` in common and the same `facts`. Results are cached, because recall finds the same texts
    turn after turn.
    """
    words = word_tokens(text)
    facts = [*_FIGURES.findall(text.lower()), *(each.lower() for each in _NOT.findall(text))]
    facts += [name for name in _NAMED.findall(text) if word_tokens(name)]
    return frozenset([*[(word,) for word in words], *pairwise(words)]), frozenset(facts)


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

    columns: _Columns
    left: frozenset[str]
    chosen_turn_ids: frozenset[str | None]
    costs: Mapping[str, float]
    timeline: _Timeline | None = None
    stretches: Mapping[int | None, int] = field(default_factory=dict)

    @classmethod
    def build(
        cls,
        columns: _Columns,
        chosen: Sequence[int],
        shares: Mapping[str, float],
        input_entities: frozenset[str],
        timeline: _Timeline | None,
    ) -> _Scorer:
        repeats = Counter([columns.names[row] for row in chosen])
        known = [columns.candidates[row] for row in chosen]
        return cls(
            columns=columns,
            left=input_entities.difference(*[each.entities for each in known]),
            chosen_turn_ids=frozenset([each.turn_id for each in known]) - {None},
            costs={
                name: CHAIN_COST * (repeats[name] + 0.5) / (len(shares) * share) if timeline is None else 0.0
                for name, share in shares.items()
            },
            timeline=timeline,
            stretches=Counter([timeline.place(each.depth) for each in known]) if timeline else {},
        )

    def scores(self, rows: Sequence[int]) -> list[float]:
        """Return the scores of some candidates."""
        return [
            share + bonus + cover - again - crowd - cost
            for share, bonus, cover, again, crowd, cost in self._parts(rows)
        ]

    def explain(self, row: int) -> str:
        """Return the parts of a score as text."""
        ((share, bonus, cover, again, crowd, cost),) = self._parts([row])
        parts = (
            (bonus, "for what the input names"),
            (cover, "for an entity that none before it covers"),
            (-again, "for a turn that is chosen already"),
            (-crowd, "for turns near it that are"),
            (-cost, "for its chain"),
        )
        shown = [
            f" {'-' if value < 0 else '+'} {abs(value):.2f} {what}" for value, what in parts if abs(value) >= 0.005
        ]
        return f"{share:.2f} of the best in {self.columns.measure}{''.join(shown)}"

    def _parts(self, rows: Sequence[int]) -> list[tuple[float, float, float, float, float, float]]:
        """Return share, bonus, cover bonus, and the costs of turn, stretch and chain, of some candidates."""
        columns, left, turn_ids = self.columns, self.left, self.chosen_turn_ids
        turn_cost = TURN_COST if self.timeline is None else OVERVIEW_TURN_COST
        crowds = [0.0] * len(rows) if self.timeline is None else [self._crowd(columns.candidates[row]) for row in rows]
        return [
            (
                columns.shares[row],
                columns.bonuses[row],
                0.0 if left.isdisjoint(columns.candidates[row].entities) else COVER_BONUS,
                turn_cost if columns.candidates[row].turn_id in turn_ids else 0.0,
                crowd,
                self.costs[columns.names[row]],
            )
            for row, crowd in zip(rows, crowds, strict=True)
        ]

    def _crowd(self, candidate: Candidate) -> float:
        """Return the cost of a stretch of an overview that has chosen candidates."""
        place = None if self.timeline is None else self.timeline.place(candidate.depth)
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

"""Late results of Stream B (spec B5): what is kept of them, and when they may serve a later turn. Pure.

A late choice was made for another input. It is used only where the scene is still the same: same line of turns, same
focus, same subject. This room must not import a store; it makes and reads values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jacquard.lexicon import normalise
from jacquard.plan import PlanContext
from jacquard.protocols import Selection
from jacquard.report import CurationPath
from jacquard.streams.curation import Curation
from mnemosyne.index.words import tokens
from mnemosyne.query import Candidate, Recall, Signals
from mnemosyne.schema.memory import Chain, Trust
from mnemosyne.schema.record import Prefetch
from mnemosyne.schema.session import SessionHead

WORD_OVERLAP = 0.5
"""From this share of common content words on, two inputs without keywords are about the same."""


def is_keepable(curation: Curation) -> bool:
    """Say whether a late result is worth keeping: a selector's own choice that is not empty."""
    return curation.path is CurationPath.SELECTED and bool(curation.chosen)


def prefetch_of(
    curation: Curation, plan: PlanContext, turn_id: str, branch_id: str, depth: int, user_text: str
) -> Prefetch:
    """Return a late result with the scene it was made for; `depth` is that of the turn that asked."""
    selection = curation.selection
    chosen = {candidate.entry_id for candidate in curation.chosen}
    return Prefetch(
        turn_id=turn_id,
        branch_id=branch_id,
        depth=depth,
        focus_quest_id=plan.active_quest_id,
        keywords=plan.search_intent.focus_keywords,
        value={
            "words": sorted(set(tokens(user_text))),
            "model": selection.model,
            "rationale": selection.rationale,
            "why": {entry_id: why for entry_id, why in selection.why.items() if entry_id in chosen},
            "queries": list(curation.recall.queries),
            "candidates": [_candidate_to_json(candidate) for candidate in curation.chosen],
        },
    )


def scene_matches(
    prefetch: Prefetch, plan: PlanContext, head: SessionHead, user_text: str, *, shown: frozenset[str]
) -> tuple[bool, str]:
    """Say whether a late result may serve the turn that follows `head`, and why or why not.

    `shown` holds entry ids that the prompt shows already or must not show. Needed are all of: the same line of turns;
    made for this turn or the one right before; the same focus quest; a common focus keyword (or, where neither turn had
    any, at least half of the content words of the longer input); something left to show.
    """
    if not _same_line(prefetch, head):
        return False, "The late result belongs to another line of turns."
    if prefetch.depth not in (head.depth, head.depth + 1):
        return False, f"The late result was made for turn {prefetch.depth}; this is turn {head.depth + 1}."
    if prefetch.focus_quest_id != plan.active_quest_id:
        return False, f"The focus moved from {prefetch.focus_quest_id} to {plan.active_quest_id}."
    fits, subject = _same_subject(prefetch, plan, user_text)
    if not fits:
        return False, subject
    if all(candidate["entry_id"] in shown for candidate in _candidates(prefetch)):
        return False, "All that the late result chose is in the prompt already, or may not be shown."
    return True, subject


def prefetched_curation(prefetch: Prefetch, why: str, *, shown: frozenset[str]) -> Curation:
    """Return a kept result as this turn's curation, without entries in `shown` (in the prompt already, or hidden)."""
    candidates = tuple(_candidate_from_json(raw) for raw in _candidates(prefetch) if raw["entry_id"] not in shown)
    value = prefetch.value
    return Curation(
        path=CurationPath.PREFETCHED,
        code="prefetched",
        reason=f"Chosen for turn {prefetch.turn_id}, which could not wait for it. {why}",
        recall=Recall(candidates=candidates, queries=tuple(value.get("queries", ()))),
        selection=Selection(
            entry_ids=tuple(candidate.entry_id for candidate in candidates),
            rationale=str(value.get("rationale") or ""),
            why=dict(value.get("why") or {}),
            model=value.get("model"),
        ),
    )


def _same_line(prefetch: Prefetch, head: SessionHead) -> bool:
    """A turn that is not committed has only its branch; a committed one must be an ancestor of the head."""
    if prefetch.depth > head.depth:
        return prefetch.branch_id == head.branch_id
    return any(span.branch_id == prefetch.branch_id and prefetch.depth <= span.upto_depth for span in head.lineage)


def _same_subject(prefetch: Prefetch, plan: PlanContext, user_text: str) -> tuple[bool, str]:
    then = {normalise(keyword) for keyword in prefetch.keywords} - {""}
    now = {normalise(keyword): keyword for keyword in plan.search_intent.focus_keywords if normalise(keyword)}
    if then or now:
        common = [keyword for form, keyword in now.items() if form in then]
        if common:
            return True, f"Both turns are about {', '.join(common)}."
        return False, "The late result was made for other keywords."
    words_then, words_now = set(prefetch.value.get("words", ())), set(tokens(user_text))
    longer = max(len(words_then), len(words_now))
    if longer and len(words_then & words_now) >= WORD_OVERLAP * longer:
        return True, f"The inputs share {len(words_then & words_now)} of {longer} content words."
    return False, "The inputs have too few words in common."


def _candidates(prefetch: Prefetch) -> Sequence[Mapping[str, Any]]:
    return tuple(prefetch.value.get("candidates", ()))


def _candidate_to_json(candidate: Candidate) -> dict[str, Any]:
    signals = candidate.signals
    return {
        "entry_id": candidate.entry_id,
        "scope": candidate.scope,
        "chain": candidate.chain.value,
        "kind": candidate.kind,
        "title": candidate.title,
        "preview": candidate.preview,
        "score": candidate.score,
        "signals": {
            "vector": signals.vector,
            "fts": signals.fts,
            "fused": signals.fused,
            "recency": signals.recency,
            "graph": signals.graph,
            "rerank": signals.rerank,
        },
        "tags": list(candidate.tags),
        "entities": list(candidate.entities),
        "depth": candidate.depth,
        "turn_id": candidate.turn_id,
        "trust": candidate.trust.value,
    }


def _candidate_from_json(raw: Mapping[str, Any]) -> Candidate:
    plain = dict(raw)
    return Candidate(
        **{
            **plain,
            "chain": Chain(plain["chain"]),
            "signals": Signals(**plain["signals"]),
            "tags": tuple(plain["tags"]),
            "entities": tuple(plain["entities"]),
            "trust": Trust(plain["trust"]),
        }
    )

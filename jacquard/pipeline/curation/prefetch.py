"""Choices kept for later turns: late results of Stream B (spec B5) and leases; what is kept, and when it may be used. Pure.

A kept choice was made for another input. It is used only where the scene is still the same: the same branch, viewer and
focus. A late result needs the same subject besides, because it is used without recall; whether a lease still fits is checked
against the turn's own recall (`lease`). This module must not import a store; it makes and reads values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from jacquard.config.sections import CurationConfig
from jacquard.core.names import normalise
from jacquard.core.plan import PlanContext
from jacquard.core.protocols import Selection
from jacquard.core.receipt import CurationPath
from jacquard.pipeline.curation.lease import Lease
from jacquard.pipeline.curation.stream import Curation, make_entry_ids_unique
from mnemosyne.retrieval.text.words import word_tokens
from mnemosyne.schema.memory import Chain, Trust
from mnemosyne.schema.query import SIGNAL_NAMES, Candidate, Recall, Signals
from mnemosyne.schema.record import Prefetch
from mnemosyne.schema.session import SessionHead

WORD_OVERLAP = 0.5
"""From this share of common content words on, two inputs without keywords are about the same."""
FEW_WORDS = 2
"""An input of so many content words (two pairs of Chinese characters are one) says too little to change the subject."""

_ASKS = re.compile("[?？]")
_HAN = re.compile("[\u3400-\u9fff]")


def is_keepable(curation: Curation) -> bool:
    """Say whether a choice is worth keeping: a selector's own that is not empty."""
    return curation.path is CurationPath.SELECTED and bool(curation.chosen)


def build_prefetch(
    curation: Curation,
    plan: PlanContext,
    turn_id: str,
    branch_id: str,
    depth: int,
    user_text: str,
    *,
    viewer: str | None = None,
    late: bool = True,
) -> Prefetch:
    """Return a choice with the scene it was made for; `depth` is that of the turn that asked.

    `late`: the turn that asked went out without it. What the model said of its choice is not kept: it was said of another
    input, and may speak of what must not be known by then.
    """
    return Prefetch(
        turn_id=turn_id,
        branch_id=branch_id,
        depth=depth,
        focus_quest_id=plan.active_quest_id,
        keywords=plan.search_intent.focus_keywords,
        value={
            "late": late,
            "viewer": viewer,
            "template_id": plan.template_id,
            "temporal": plan.search_intent.temporal_context.value,
            "entities": list(plan.entities),
            "words": sorted(set(word_tokens(user_text))),
            "model": curation.selection.model,
            "queries": list(curation.recall.queries),
            "candidates": [_candidate_to_json(candidate) for candidate in curation.chosen],
        },
    )


def is_late(prefetch: Prefetch) -> bool:
    """Say whether the turn that asked went out without it; then it may serve the next one without any recall."""
    return bool(prefetch.value.get("late", True))


def scene_matches(
    prefetch: Prefetch,
    plan: PlanContext,
    head: SessionHead,
    user_text: str,
    *,
    shown: frozenset[str],
    viewer: str | None = None,
) -> tuple[bool, str]:
    """Say whether a late result may serve the turn that follows `head`, and why or why not.

    `shown` holds entry ids that the prompt shows already or must not show. Needed are all of: the same line of turns;
    made for this turn or the one right before; the same viewer; the same focus quest; a common focus keyword (or, where
    neither turn had any, at least half of the content words of the longer input); something left to show.
    """
    if _same_line(prefetch, head) and prefetch.depth not in (head.depth, head.depth + 1):
        return False, f"The late result was made for turn {prefetch.depth}; this is turn {head.depth + 1}."
    if (other := _explain_other_scene(prefetch, plan, head, viewer)) is not None:
        return False, other
    fits, subject = _same_subject(prefetch, plan, user_text)
    if not fits:
        return False, subject
    if all(candidate["entry_id"] in shown for candidate in _candidates(prefetch)):
        return False, "All that was chosen is in the prompt already, or may not be shown."
    return True, subject


def prefetched_curation(prefetch: Prefetch, why: str, *, shown: frozenset[str]) -> Curation:
    """Return a late result as this turn's curation, without entries in `shown` (in the prompt already, or hidden)."""
    kept = tuple(_candidate_from_json(raw) for raw in _candidates(prefetch) if raw["entry_id"] not in shown)
    candidates = make_entry_ids_unique(Recall(candidates=kept)).candidates
    value = prefetch.value
    return Curation(
        path=CurationPath.PREFETCHED,
        code="prefetched",
        reason=f"Chosen for turn {prefetch.turn_id}, which could not wait for it. {why}",
        recall=Recall(candidates=candidates, queries=tuple(value.get("queries", ()))),
        selection=Selection(entry_ids=tuple(candidate.name for candidate in candidates), model=value.get("model")),
        chosen_for=prefetch.turn_id,
    )


def find_lease(
    prefetch: Prefetch,
    plan: PlanContext,
    head: SessionHead,
    user_text: str,
    settings: CurationConfig,
    *,
    viewer: str | None,
) -> tuple[Lease | None, str]:
    """Return the lease that a kept choice gives the turn that follows `head`, or None and why it has ended.

    Needed are all of: the same line of turns; made at most `lease_turns` turns before; the same viewer; the same focus
    quest, template and time of the plan; no entity named that neither the input it was made for nor the choice itself is
    about. Nothing is said ("") of a choice that has ended before; an empty one is kept to say so. What of it this turn may
    show, and whether it is still the best, is for recall to say; but an input that says little ("go on", "我点点头") is
    searched with the words of the one that it goes on from, and the choice has no rival there.
    """
    age, turns = head.depth + 1 - prefetch.depth, settings.lease_turns
    if turns == 0 or age > turns + 1 or not _candidates(prefetch):
        return None, ""
    if age < 0:
        return None, "It was made further on than this turn."
    if age > turns and _same_line(prefetch, head):
        return None, f"It was chosen {age} turns ago; a choice is kept for {turns}."
    if (other := _explain_other_scene(prefetch, plan, head, viewer) or _explain_other_plan(prefetch, plan)) is not None:
        return None, other
    little = _says_little(plan, user_text)
    focus = f"The focus is still {plan.active_quest_id}." if plan.active_quest_id else "There is no focus, as then."
    return Lease(
        turn_id=prefetch.turn_id,
        entry_ids=tuple(str(candidate["entry_id"]) for candidate in _candidates(prefetch)),
        places=tuple(_candidate_from_json(candidate).place for candidate in _candidates(prefetch)),
        age=age,
        turns=turns,
        margin=inf if little else settings.lease_margin,
        why=f"{focus} The input says too little to change the subject." if little else focus,
        model=prefetch.value.get("model"),
        keywords=prefetch.keywords if little else (),
    ), ""


def _explain_other_scene(prefetch: Prefetch, plan: PlanContext, head: SessionHead, viewer: str | None) -> str | None:
    """Return how the scene differs from that of a kept choice, or None: line of turns, viewer, focus."""
    if not _same_line(prefetch, head):
        return "It belongs to another line of turns."
    if prefetch.value.get("viewer") != viewer:
        return "It was chosen for another viewer."
    if prefetch.focus_quest_id != plan.active_quest_id:
        return f"The focus moved from {prefetch.focus_quest_id} to {plan.active_quest_id}."
    return None


def _explain_other_plan(prefetch: Prefetch, plan: PlanContext) -> str | None:
    """Return how the plan differs from that of a kept choice, or None."""
    value, temporal = prefetch.value, plan.search_intent.temporal_context.value
    if (template := value.get("template_id", plan.template_id)) != plan.template_id:
        return f"The template changed from {template} to {plan.template_id}."
    if (then := value.get("temporal", temporal)) != temporal:
        return f"It was chosen for the {then}; this input speaks of the {temporal}."
    known = {*value.get("entities", ()), *(name for each in _candidates(prefetch) for name in each["entities"])}
    new = [entity for entity in plan.entities if entity not in known]
    return f"The input names {', '.join(new)} for the first time." if new else None


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
    words_then, words_now = set(prefetch.value.get("words", ())), set(word_tokens(user_text))
    longer = max(len(words_then), len(words_now))
    if longer and len(words_then & words_now) >= WORD_OVERLAP * longer:
        return True, f"The inputs share {len(words_then & words_now)} of {longer} content words."
    return False, "The inputs have too few words in common."


def _says_little(plan: PlanContext, user_text: str) -> bool:
    """Say whether an input names nothing, asks nothing (or nothing but "and then?") and has few words of its own."""
    words = sum(0.5 if _HAN.match(word) else 1.0 for word in word_tokens(user_text))
    return not plan.entities and words <= (0.5 if _ASKS.search(user_text) else FEW_WORDS)


def _candidates(prefetch: Prefetch) -> Sequence[Mapping[str, Any]]:
    return tuple(prefetch.value.get("candidates", ()))


def _candidate_to_json(candidate: Candidate) -> dict[str, Any]:
    return {
        "entry_id": candidate.entry_id,
        "scope": candidate.scope,
        "chain": candidate.chain.value,
        "kind": candidate.kind,
        "title": candidate.title,
        "preview": candidate.preview,
        "score": candidate.score,
        "signals": {name: getattr(candidate.signals, name) for name in SIGNAL_NAMES},
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

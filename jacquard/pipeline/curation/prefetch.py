"""Decides which selections of memories are kept for later turns, and which later turns may use them. Pure.

A selection is used later in one of two ways:

- Late result: the selection came after its turn had gone on; a later turn uses it instead of recall.
- Lease: the selection was used, and later turns use it again without a model call.

A kept selection was made for another input. Therefore a later turn uses the selection only if the scene is the same:
the branch, the viewer and the focus (active quest). For a late result the subject of the input must be the same too. A
lease is compared with the recall of the later turn (module `lease`). This module must not import a store.
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
from mnemosyne.core import codec
from mnemosyne.retrieval.text.words import word_tokens
from mnemosyne.schema.query import Candidate, Recall
from mnemosyne.schema.record import Prefetch
from mnemosyne.schema.session import SessionHead

WORD_OVERLAP = 0.5
"""Minimum share of content words that two inputs without keywords must have in common to count as having the same
subject.
"""
FEW_WORDS = 2
"""Maximum number of content words of an input that does not change the subject; two pairs of Chinese characters count as one."""

_ASKS = re.compile("[?？]")
_HAN = re.compile("[\u3400-\u9fff]")


def is_keepable(curation: Curation) -> bool:
    """Return whether the selection of `curation` may be kept: the selector made the selection in this run, and it is
    not empty.
    """
    return curation.path is CurationPath.SELECTED and bool(curation.chosen)


def build_prefetch(
    curation: Curation,
    plan: PlanContext,
    turn_id: str,
    branch_id: str,
    depth: int,
    user_message: str,
    *,
    viewer: str | None = None,
    late: bool = True,
) -> Prefetch:
    """Return the memories that `curation` selected in the form in which they are stored for later turns, with the scene
    for which they were selected.

    All other parameters describe the turn for which the memories were selected: `depth` is its number on its branch,
    `user_message` is its input, and `viewer` is the character who read its prompt (None: nobody in particular). `late`
    is true if the selection came too late for the prompt of this turn. The reasons that the model gave are not stored,
    because they refer to this input and could mention something that a later viewer must not know.
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
            "words": sorted(set(word_tokens(user_message))),
            "model": curation.selection.model,
            "queries": list(curation.recall.queries),
            "candidates": [_candidate_to_json(candidate) for candidate in curation.chosen],
        },
    )


def is_late(prefetch: Prefetch) -> bool:
    """Return whether the selection `prefetch` is a late result: it came too late for the prompt of the turn for which it
    was made.
    """
    return bool(prefetch.value.get("late", True))


def scene_matches(
    prefetch: Prefetch,
    plan: PlanContext,
    head: SessionHead,
    user_message: str,
    *,
    shown: frozenset[str],
    viewer: str | None = None,
) -> tuple[bool, str]:
    """Return (fits, sentence): whether the turn after `head` may use the late result `prefetch`, and a sentence that
    states why.

    All of these conditions must be true:

    - The late result was made for this turn or the previous one, on the branch of `head` or on an ancestor of this
      branch.
    - `viewer` and the focus quest in `plan` are the same as when the late result was made.
    - Both turns share a focus keyword. If neither turn has a focus keyword, the inputs share at least half of the
      content words of the longer input.
    - At least one chosen entry is not in `shown`, which contains the ids of entries that the prompt shows already or
      must not show.
    """
    if _is_same_line(prefetch, head) and prefetch.depth not in (head.depth, head.depth + 1):
        return False, f"The late result was made for turn {prefetch.depth}; this is turn {head.depth + 1}."
    if (other := _explain_other_scene(prefetch, plan, head, viewer)) is not None:
        return False, other
    fits, subject = _compare_subjects(prefetch, plan, user_message)
    if not fits:
        return False, subject
    if all(candidate["entry_id"] in shown for candidate in _candidates(prefetch)):
        return False, "All that was chosen is in the prompt already, or may not be shown."
    return True, subject


def build_prefetched_curation(prefetch: Prefetch, why: str, *, shown: frozenset[str]) -> Curation:
    """Return a late result as the result of Stream B for this turn; `why` is the sentence of `scene_matches`.

    Entries whose id is in `shown` are left out, because the prompt shows them already or must not show them.
    """
    kept = tuple(codec.from_plain(raw, Candidate) for raw in _candidates(prefetch) if raw["entry_id"] not in shown)
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
    user_message: str,
    settings: CurationConfig,
    *,
    viewer: str | None,
) -> tuple[Lease | None, str]:
    """Return (lease, why) for the turn after `head`. If the selection `prefetch` may be used again, `lease` is this
    lease and `why` is ''. Otherwise `lease` is None, and `why` is a sentence that states why the lease ended.

    All of these conditions must be true:

    - The selection was made at most `settings.lease_turns` turns before, on the branch of `head` or on an ancestor of
      this branch.
    - `viewer` is the same. Focus quest, template and time in `plan` are the same.
    - The input names no new entity.

    If the lease ended in an earlier turn already, `why` is ''. After recall, `renew_choice` decides whether the entries
    of the lease are still the best. An input that says little ("go on", "我点点头") is searched together with the keywords
    of the earlier input. In this case a better entry does not end the lease.
    """
    age, turns = head.depth + 1 - prefetch.depth, settings.lease_turns
    # The end of a lease is reported once, in the turn after its last.
    if turns == 0 or age > turns + 1 or not _candidates(prefetch):
        return None, ""
    if age < 0:
        return None, "It was made further on than this turn."
    if age > turns and _is_same_line(prefetch, head):
        return None, f"It was chosen {age} turns ago; a choice is kept for {turns}."
    if (other := _explain_other_scene(prefetch, plan, head, viewer) or _explain_other_plan(prefetch, plan)) is not None:
        return None, other
    little = _is_vague(plan, user_message)
    focus = f"The focus is still {plan.active_quest_id}." if plan.active_quest_id else "There is no focus, as then."
    return Lease(
        turn_id=prefetch.turn_id,
        entry_ids=tuple(str(candidate["entry_id"]) for candidate in _candidates(prefetch)),
        places=tuple(codec.from_plain(candidate, Candidate).place for candidate in _candidates(prefetch)),
        age=age,
        turns=turns,
        margin=inf if little else settings.lease_margin,
        why=f"{focus} The input says too little to change the subject." if little else focus,
        model=prefetch.value.get("model"),
        keywords=prefetch.keywords if little else (),
    ), ""


def _explain_other_scene(prefetch: Prefetch, plan: PlanContext, head: SessionHead, viewer: str | None) -> str | None:
    """Return the difference from the scene of a kept selection (line of turns, viewer, focus), or None."""
    if not _is_same_line(prefetch, head):
        return "It belongs to another line of turns."
    if prefetch.value.get("viewer") != viewer:
        return "It was chosen for another viewer."
    if prefetch.focus_quest_id != plan.active_quest_id:
        return f"The focus moved from {prefetch.focus_quest_id} to {plan.active_quest_id}."
    return None


def _explain_other_plan(prefetch: Prefetch, plan: PlanContext) -> str | None:
    """Return the difference from the plan of a kept selection, or None."""
    value, temporal = prefetch.value, plan.search_intent.temporal_context.value
    if (template := value.get("template_id", plan.template_id)) != plan.template_id:
        return f"The template changed from {template} to {plan.template_id}."
    if (then := value.get("temporal", temporal)) != temporal:
        return f"It was chosen for the {then}; this input speaks of the {temporal}."
    known = {*value.get("entities", ()), *(name for each in _candidates(prefetch) for name in each["entities"])}
    new = [entity for entity in plan.entities if entity not in known]
    return f"The input names {', '.join(new)} for the first time." if new else None


def _is_same_line(prefetch: Prefetch, head: SessionHead) -> bool:
    """Return whether a kept selection belongs to this line of turns.

    A turn that is not committed has only its branch; a committed one must be an ancestor of the head.
    """
    if prefetch.depth > head.depth:
        return prefetch.branch_id == head.branch_id
    return any(span.branch_id == prefetch.branch_id and prefetch.depth <= span.upto_depth for span in head.lineage)


def _compare_subjects(prefetch: Prefetch, plan: PlanContext, user_message: str) -> tuple[bool, str]:
    then = {normalise(keyword) for keyword in prefetch.keywords} - {""}
    now = {normalise(keyword): keyword for keyword in plan.search_intent.focus_keywords if normalise(keyword)}
    if then or now:
        common = [keyword for form, keyword in now.items() if form in then]
        if common:
            return True, f"Both turns are about {', '.join(common)}."
        return False, "The late result was made for other keywords."
    words_then, words_now = set(prefetch.value.get("words", ())), set(word_tokens(user_message))
    longer = max(len(words_then), len(words_now))
    if longer and len(words_then & words_now) >= WORD_OVERLAP * longer:
        return True, f"The inputs share {len(words_then & words_now)} of {longer} content words."
    return False, "The inputs have too few words in common."


def _is_vague(plan: PlanContext, user_message: str) -> bool:
    """Return whether an input names nothing, asks nothing (or only "and then?") and has few words of its own."""
    words = sum(0.5 if _HAN.match(word) else 1.0 for word in word_tokens(user_message))
    return not plan.entities and words <= (0.5 if _ASKS.search(user_message) else FEW_WORDS)


def _candidates(prefetch: Prefetch) -> Sequence[Mapping[str, Any]]:
    return tuple(prefetch.value.get("candidates", ()))


def _candidate_to_json(candidate: Candidate) -> dict[str, Any]:
    """Return a candidate without its alias, which is its name in one recall only."""
    plain: dict[str, Any] = codec.to_plain(candidate)
    del plain["alias"]
    return plain

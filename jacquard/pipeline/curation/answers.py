"""Gives a chosen question its answer: "Why did the captain want the clapper?" alone tells a model nothing. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jacquard.core.protocols import Selection
from mnemosyne.schema.memory import Chain, Trust
from mnemosyne.schema.query import Candidate

_ENDS = ("?", "？", "吗", "呢")
_CLOSING = " \t\n\"'”’」』）)*_.。!！~～…"


def pair_questions(selection: Selection, candidates: Sequence[Candidate], limit: int) -> Selection:
    """Return a selection in which each question of a player stands before a memory of its turn that can answer it.

    A question whose turn has no other candidate is left out. Where the limit is reached, the last ones make room.
    """
    known = {each.name: each for each in candidates}
    chosen: list[str] = []
    answers: dict[str, str] = {}
    unanswered: list[str] = []
    for name in selection.entry_ids:
        if name in chosen:
            continue
        question = known.get(name)
        if question is None or not _is_question(question):
            chosen.append(name)
            continue
        of_turn = [each.name for each in candidates if each.turn_id == question.turn_id and each is not question]
        answer = next((each for each in (*selection.entry_ids, *of_turn) if each in of_turn), None)
        if answer is None:
            unanswered.append(name)
            continue
        if answer not in selection.entry_ids:
            answers[answer] = f"it answers {name}"
        chosen += [name] if answer in chosen else [name, answer]
    if tuple(chosen) == selection.entry_ids:
        return selection
    kept = chosen[:limit]
    if len(chosen) > limit and kept and kept[-1] in known and _is_question(known[kept[-1]]):
        # An answer says more alone than its question.
        kept[-1] = chosen[limit]
    return replace(
        selection,
        entry_ids=tuple(kept),
        why={**selection.why, **{name: why for name, why in answers.items() if name in kept}},
        unanswered=tuple(unanswered),
    )


def _is_question(candidate: Candidate) -> bool:
    """Return whether a candidate is what a player asked and nothing more. Its preview may be cut, and then it tells more."""
    if candidate.chain is not Chain.HISTORY or candidate.trust is not Trust.USER or candidate.turn_id is None:
        return False
    return candidate.preview.rstrip(_CLOSING).endswith(_ENDS)

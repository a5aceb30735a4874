"""Stream A of a turn: the rendered skeleton, with the tool results and the notes on a cut state that the store has.

It reads the session and writes nothing; it must not import a concrete store, an index, a model or Stream B.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from anyio import to_thread

from jacquard.core.calibration import correction_of
from jacquard.pipeline.evidence.blocks import load_evidence_blocks
from jacquard.pipeline.evidence.candidates import evidence_query, newest_texts
from jacquard.pipeline.evidence.context_blocks import load_context_blocks
from jacquard.pipeline.planned_turn import PlannedTurn
from jacquard.pipeline.skeleton.automation import AutomationStream, Skeleton
from jacquard.pipeline.skeleton.state_origin import describe_state
from mnemosyne.core.off_loop import calculate, size_of
from mnemosyne.protocols import Clock, Store


class SkeletonStream:
    """Makes the skeletons of turns. `count` gives the tokens of a text."""

    def __init__(self, automation: AutomationStream, store: Store, clock: Clock, count: Callable[[str], int]) -> None:
        self._automation, self._store, self._clock, self._count = automation, store, clock, count

    async def render(self, turn: PlannedTurn, state_tokens: int) -> Skeleton:
        """Return the skeleton of a turn, whose state takes at most `state_tokens`; TemplateError."""
        skeleton = await to_thread.run_sync(self._automation.render, turn, state_tokens)
        size = size_of(turn.user_message, newest_texts(turn))
        shown, query = turn.config.evidence, await calculate(evidence_query, turn, size=size)
        results = await load_evidence_blocks(
            self._store, self._clock, turn.session_id, shown, self._count, query, turn.boundary
        )
        document = await load_context_blocks(self._store, self._clock, turn, self._count)
        return replace(
            skeleton,
            results=results.with_document(document),
            degradations=await describe_state(self._store, turn.window.head, skeleton.state_cut),
        )


def state_tokens_of(turn: PlannedTurn) -> int:
    """Return how many tokens the state may take at first: its share of what the prompt may take."""
    budget = turn.config.budget
    correction = correction_of(turn.window.usages, turn.config.model_hint)
    return int(budget.prompt_tokens(correction) * budget.state_share)

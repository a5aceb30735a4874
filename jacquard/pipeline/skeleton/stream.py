"""Makes the skeleton of a turn (Stream A), with everything that has to be read from the store.

The skeleton is the part of the prompt that follows fixed rules. The store is read for results of tools and searches,
for blocks of the session's document, and for the reason why a state is too large. This module only reads the session.
The module must not import a concrete store, an index, a model or Stream B.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from anyio import to_thread

from jacquard.core.calibration import correction_of
from jacquard.pipeline.evidence.blocks import load_evidence_blocks
from jacquard.pipeline.evidence.candidates import evidence_query, newest_texts
from jacquard.pipeline.evidence.context_blocks import load_context_blocks
from jacquard.pipeline.evidence.rendering import EvidenceParts, default_parts
from jacquard.pipeline.skeleton.automation import AutomationStream, Skeleton
from jacquard.pipeline.skeleton.state_origin import describe_state
from jacquard.pipeline.turn import Turn
from mnemosyne.core.off_loop import calculate, size_of
from mnemosyne.protocols import Clock, Store
from mnemosyne.schema.document import Session, SessionDocument, TaskState, TodoList
from mnemosyne.schema.evidence import BlockType, DeriveOptions


class SkeletonStream:
    """Makes the skeletons of turns.

    `automation` renders the templates and `count` returns the tokens of a text. `parts` derive and render evidence (None: the
    built-in parts).
    """

    def __init__(
        self,
        automation: AutomationStream,
        store: Store,
        clock: Clock,
        count: Callable[[str], int],
        parts: EvidenceParts | None = None,
    ) -> None:
        self._automation, self._store, self._clock, self._count = automation, store, clock, count
        self._parts = parts or default_parts(store, clock, count)

    async def render(self, turn: Turn, state_tokens: int) -> Skeleton:
        """Return the skeleton of a turn, in which the state takes at most `state_tokens`.

        Raises TemplateError if a template cannot be rendered.
        """
        left_out = _left_out_types(self._parts.options)
        skeleton = await to_thread.run_sync(self._automation.render, turn, state_tokens, left_out)
        size = size_of(turn.text, newest_texts(turn))
        shown, query = turn.config.evidence, await calculate(evidence_query, turn, size=size)
        store, clock, count, parts = self._store, self._clock, self._count, self._parts
        known = _describe_session(turn)
        most = turn.config.prune.max_sensitivity
        results = await load_evidence_blocks(
            store, clock, turn.session_id, shown, count, query, parts, known, turn.boundary, turn.facts.evidences, most
        )
        document = await load_context_blocks(store, clock, turn, count, parts, results.derived)
        return replace(
            skeleton,
            results=results.with_document(document),
            degradations=(
                *skeleton.degradations,
                *await describe_state(self._store, turn.window.head, skeleton.state_cut),
            ),
        )


def _left_out_types(options: DeriveOptions) -> tuple[BlockType, ...]:
    """Return the types of template blocks that a host does not want."""
    talk = () if options.include_conversation else (BlockType.CONVERSATION,)
    return talk if options.include_state else (*talk, BlockType.STATE, BlockType.PLAN)


def _describe_session(turn: Turn) -> SessionDocument:
    """Return the loaded part of the turn's session as a document, for a deriver of the host."""
    window = turn.window
    return SessionDocument(
        meta=window.meta,
        session=Session(
            session_id=turn.session_id,
            messages=tuple(placed.message for placed in window.messages),
            summary=None if window.summary is None else window.summary.summary,
            task_state=TaskState(todo_list=TodoList(tasks=window.tasks)),
            model_usage=window.usages,
        ),
    )


def state_tokens_of(turn: Turn) -> int:
    """Return the tokens that the state may take at first: the configured share of the prompt's token limit."""
    budget = turn.config.budget
    correction = correction_of(turn.window.usages, turn.config.model_hint)
    return int(budget.prompt_tokens(correction) * budget.state_share)

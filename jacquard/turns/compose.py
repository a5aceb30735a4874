"""Composes the prompt of one turn from the results of both streams.

A prompt is made in three steps. The first step decides which blocks (pieces of the prompt) fit the token budget. The
second step shortens blocks that do not fit completely. The third step builds the messages. Nothing is written. The
store is read only for the evidence ids of recalled entries, and for blocks of the previous prompt that may stay in
their place. This module must not import a concrete store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from jacquard.core.blocks import Block, SkeinTemplate
from jacquard.core.degradations import describe_degradation
from jacquard.core.model_calls import Call, usage_of
from jacquard.core.protocols import Shortener
from jacquard.pipeline.curation.memory_blocks import describe_cuts, labels_of, render_memories
from jacquard.pipeline.curation.recall_query import may_recall
from jacquard.pipeline.curation.stream import Curation
from jacquard.pipeline.evidence.rendering import describe_ingestions
from jacquard.pipeline.record.build_prompt import PromptInputs, PromptParts, build_turn_prompt, lay_out_prompt
from jacquard.pipeline.record.evidence import evidence_ids_of
from jacquard.pipeline.record.prepared_turn import PreparedTurn
from jacquard.pipeline.record.stored_turn import damage_codes
from jacquard.pipeline.refusals import refusal_blocks
from jacquard.pipeline.skeleton.automation import Skeleton, make_block_ids_unique
from jacquard.pipeline.skeleton.facts import fact_blocks
from jacquard.pipeline.skeleton.instructions import instruction_blocks
from jacquard.pipeline.skeleton.world_info import world_info_blocks
from jacquard.pipeline.turn import Turn
from jacquard.pipeline.weaving.degrade import apply_degradations
from jacquard.pipeline.weaving.policies import load_turn_layout
from jacquard.pipeline.weaving.prompt import PromptLayout
from jacquard.pipeline.weaving.shorten import SummarizingShortener
from jacquard.pipeline.weaving.standing import (
    addresses_of,
    appends_blocks,
    keep_standing_blocks,
    read_shown_blocks,
)
from jacquard.templating.files import template_roots
from jacquard.turns.parts import EngineParts
from jacquard.turns.turn_log import TurnLog
from mnemosyne.chains.state import view_state
from mnemosyne.chains.uris import entry_uri
from mnemosyne.core.errors import ContextEngineError
from mnemosyne.core.off_loop import on_loop, run_off_loop
from mnemosyne.evidence.redactions import degradations_of
from mnemosyne.protocols import combined_reads
from mnemosyne.schema.document import ModelUsage, ModelUsageStage
from mnemosyne.schema.memory import DOCUMENT_ID, MemoryEntry, session_scope, world_scope
from mnemosyne.values import dataclass

_Decided = tuple[PromptInputs, PromptLayout, PreparedTurn | None]


@dataclass(frozen=True, slots=True)
class _ShownBlocks:
    """Blocks of the previous turn's prompt, and those that may stay."""

    blocks: tuple[Block, ...]


class PromptComposer:
    """Makes the prompts of planned turns from the skeleton (Stream A) and the selected memories (Stream B)."""

    def __init__(self, parts: EngineParts) -> None:
        self._parts = parts
        self._prompt_parts = PromptParts(
            estimator=parts.estimator, pruner=parts.pruner, assembler=parts.assembler, hash_text=parts.hasher.digest
        )
        self._shortener = parts.shortener
        if parts.shortener is None and parts.summarizer is not None:
            self._shortener = SummarizingShortener(parts.summarizer)

    async def compose(self, turn: Turn, skeleton: Skeleton, curation: Curation, log: TurnLog) -> PreparedTurn:
        """Return the prepared turn. Its receipt does not contain the timings yet. Usages and timings of this step are
        added to `log`.

        Raises BudgetExceededError if the blocks that must not be dropped exceed the budget. Raises LayoutError if the
        layout is missing or not valid.
        """
        inputs, layout, prompt = await self._decide_off_loop(turn, skeleton, curation, log)
        if prompt is not None:
            return prompt
        usages: list[ModelUsage] = []
        shorten = partial(
            apply_degradations,
            layout.orders,
            count=layout.count,
            shortener=self._shortener_of(turn, usages),
            within_seconds=turn.config.summary.timeout_ms / 1000,
        )
        degraded = await on_loop(shorten)
        log.stopwatch.lap("degrade")
        inputs = replace(inputs, degradations=(*inputs.degradations, *degraded.degradations))
        prepared = await run_off_loop(build_turn_prompt, inputs, self._prompt_parts, layout, degraded.blocks)
        return replace(prepared, usages=tuple(usages))

    async def compose_ahead(
        self, turn: Turn, skeleton: Skeleton, missed: Curation, log: TurnLog
    ) -> PreparedTurn | None:
        """Return the prompt that is used if Stream B misses its deadline; called shortly before the deadline.

        `missed` is the result of Stream B in this case. Return None if a block would have to be shortened, because this
        takes too long. Return None also if the prompt cannot be made; `compose` raises the error later.
        """
        try:
            return (await self._decide_off_loop(turn, skeleton, missed, log))[2]
        except ContextEngineError:
            return None

    async def _decide_off_loop(self, turn: Turn, skeleton: Skeleton, curation: Curation, log: TurnLog) -> _Decided:
        """Decide and build in a thread. If the layout appends to the previous prompt, the store is asked which blocks
        may stay.
        """
        codes = self._codes_of(turn, log)
        ids = await evidence_ids_of(self._parts.store, turn.session_id, curation.entries, curation.evidences)
        decide = partial(self._decide_and_build, turn, skeleton, curation, codes, ids)
        decided = await run_off_loop(decide)
        if not isinstance(decided, _ShownBlocks):
            return decided
        standing = await self._find_standing_blocks(turn, skeleton, decided.blocks)
        decided = await run_off_loop(partial(decide, standing=standing))
        assert not isinstance(decided, _ShownBlocks)
        return decided

    async def _find_standing_blocks(
        self, turn: Turn, skeleton: Skeleton, shown: tuple[Block, ...]
    ) -> tuple[Block, ...]:
        """Return the blocks of the previous turn that keep their position."""
        store = self._parts.store
        read = await combined_reads(store).chosen_inputs(store, turn.session_id, addresses_of(shown))
        entries = {entry_uri(each): each for found in read.entries.values() for each in found}
        may_know = partial(
            may_recall,
            viewer=turn.config.viewer,
            view=view_state(turn.window.state),
            most=turn.config.prune.max_sensitivity,
            now=turn.message.at or self._parts.clock.now(),
        )

        def may_stand(entry: MemoryEntry) -> bool:
            return entry.entry_id not in turn.lore.hidden and may_know(entry)

        return keep_standing_blocks(shown, entries, (each.block_id for each in skeleton.history), may_stand)

    def _codes_of(self, turn: Turn, log: TurnLog) -> tuple[str, ...]:
        """Return the degradations of the turn so far, including the damaged records that were skipped."""
        scopes = session_scope(turn.session_id), world_scope(turn.world.world_id)
        return (*log.degradations, *damage_codes(self._parts.store, log.damage_mark, *scopes))

    def _decide_and_build(
        self,
        turn: Turn,
        skeleton: Skeleton,
        curation: Curation,
        codes: tuple[str, ...],
        evidence_ids: Mapping[str, str],
        standing: tuple[Block, ...] | None = None,
    ) -> _Decided | _ShownBlocks:
        """Decide, and build the prompt unless a block must be degraded first or `standing` is not known yet.

        `standing` are the blocks of the previous turn that stay. Slow: call it off the event loop.
        """
        template, previous = load_turn_layout(turn, template_roots(self._parts.roots, turn.world)), turn.window.previous
        if standing is None and previous is not None and appends_blocks(template):
            shown = read_shown_blocks(previous)
            if shown:
                return _ShownBlocks(shown)
        inputs, layout = self._decide(turn, skeleton, curation, codes, evidence_ids, standing or (), template)
        return inputs, layout, None if layout.orders else build_turn_prompt(inputs, self._prompt_parts, layout, {})

    def _decide(
        self,
        turn: Turn,
        skeleton: Skeleton,
        curation: Curation,
        codes: tuple[str, ...],
        evidence_ids: Mapping[str, str],
        standing: tuple[Block, ...],
        template: SkeinTemplate,
    ) -> tuple[PromptInputs, PromptLayout]:
        """Join both streams, and decide which blocks the prompt keeps."""
        parts, config, entries = self._parts, turn.config, curation.entries
        count = parts.estimator.estimate
        names = tuple(evidence_ids.get(entry_uri(entry), entry.entry_id) for entry in entries)
        chosen = replace(curation.selection, entry_ids=names)
        memories = render_memories(
            chosen,
            entries,
            parts.estimator,
            config.curation.max_entry_tokens,
            evidence_ids,
            labels_of(turn, curation.story_times, curation.validity),
            parts.hasher.digest,
        )
        stands = {block.origin.uri for block in standing}
        joining = (
            *standing,
            *instruction_blocks(config.instructions, count),
            *fact_blocks(turn, parts.clock.now(), count),
            *refusal_blocks(turn, count),
            *skeleton.results.blocks,
            *(
                block
                for block in (*world_info_blocks(turn, count), *memories)
                if block.origin.uri not in stands or not block.origin.uri
            ),
        )
        skeleton, flesh = make_block_ids_unique(skeleton, joining)
        passages = [each for each in entries if DOCUMENT_ID in each.metadata]
        codes = (
            *codes,
            *curation.degradations,
            *skeleton.results.degradations,
            *describe_ingestions(
                (str(each.metadata[DOCUMENT_ID]), degradations_of(each.metadata)) for each in passages
            ),
            *describe_cuts(flesh, entries),
        )
        inputs = PromptInputs(
            turn=turn,
            skeleton=skeleton,
            curation=curation,
            flesh=flesh,
            layout=template,
            evidence_ids=evidence_ids,
            degradations=(*skeleton.degradations, *map(describe_degradation, codes)),
            at=turn.message.at or parts.clock.now(),
        )
        return inputs, lay_out_prompt(inputs, self._prompt_parts)

    def _shortener_of(self, turn: Turn, usages: list[ModelUsage]) -> Shortener | None:
        """Return the shortener of this turn; its model calls are added to `usages`."""
        if not isinstance(self._shortener, SummarizingShortener):
            return self._shortener

        def note(call: Call, error: str) -> None:
            usage_id, count = f"{turn.turn_id}.shorten.{len(usages) + 1}", self._parts.estimator.estimate
            stage = ModelUsageStage.SUMMARIZE
            usages.append(
                usage_of(usage_id, call, count, stage=stage, purpose="shorten", turn_id=turn.turn_id, error=error)
            )

        return self._shortener.with_note(note)

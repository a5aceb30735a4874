"""Makes further forms of a prompt: one XML text, a context package, context blocks, and evidence. Pure.

These forms follow from the snapshot (the inputs of the prompt) and the receipt. The forms are not stored; each form is
made when it is first used.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from filament import unescape
from jacquard.core.block_kinds import SUMMARY_SLOT
from jacquard.core.blocks import Block, BlockKind, PlacedBlock, Skein
from jacquard.core.plan import PlanContext
from jacquard.core.receipt import Report
from jacquard.pipeline.record.package import build_package, context_blocks_of, is_passage
from jacquard.pipeline.record.prompt_snapshot import PromptSnapshot
from jacquard.pipeline.skeleton.messages import without_notice
from jacquard.pipeline.weaving.assemble import write_xml
from jacquard.pipeline.weaving.layers import share
from jacquard.pipeline.weaving.weave import truncate, weave
from mnemosyne.schema.evidence import ContextBlock, Evidence
from mnemosyne.schema.package import ContextPackage, PackageMessage
from mnemosyne.values import dataclass


@dataclass(frozen=True, kw_only=True)
class PromptForms:
    """Makes the further forms of one prompt, and caches each form."""

    snapshot: PromptSnapshot
    report: Report
    plan: PlanContext
    memories: tuple[Evidence, ...] = ()
    """The recalled entries in the prompt, best first. Passages of documents are included."""
    assembled_text: str = ""
    """The XML text that the host's own assembler made; '' if the built-in assembler made the prompt."""
    at_hand: Skein | None = None
    """The blocks in the prompt. None: the turn was read from its record, so the blocks are ordered again when they are
    needed.
    """

    @cached_property
    def text(self) -> str:
        """The prompt as one XML text."""
        return self.assembled_text if self.snapshot.assembler else write_xml(self.skein)

    @cached_property
    def skein(self) -> Skein:
        """The blocks in the prompt."""
        if self.at_hand is not None:
            return self.at_hand
        snapshot = self.snapshot
        blocks, history, _ = share(snapshot.blocks, snapshot.history, snapshot.runtime.layers)
        woven = weave(blocks, history, snapshot.user_input, snapshot.layout, snapshot.layer_attributes).skein
        standing = {each.block.block_id: each for each in woven.blocks()}
        for block in snapshot.carried:
            placement = block.place.placement
            standing[block.block_id] = PlacedBlock(block=block, placement=placement, tokens=block.tokens)
        for name in snapshot.dropped:
            standing.pop(name, None)
        return truncate(woven, standing)

    @cached_property
    def context_blocks(self) -> tuple[ContextBlock, ...]:
        """The blocks of the prompt in the form of session document 1.0."""
        return context_blocks_of(self.skein.blocks())

    @cached_property
    def evidences(self) -> tuple[Evidence, ...]:
        """The recalled entries as evidence, without passages of documents, which are evidence of the session already."""
        return tuple(each for each in self.memories if not is_passage(each))

    @cached_property
    def package(self) -> ContextPackage:
        """The ContextPackage 0.1."""
        snapshot, blocks = self.snapshot, self.skein.blocks()
        return build_package(
            report=self.report,
            plan=self.plan,
            blocks=blocks,
            summary=str(snapshot.source.variables.get(SUMMARY_SLOT) or ""),
            history=_read_messages([each.block for each in blocks if each.block.kind is BlockKind.MESSAGE]),
            user_message=_read_messages([snapshot.user_input])[0].content,
            memories=self.memories,
            created_at=snapshot.at,
            limits=snapshot.runtime.package,
        )


def _read_messages(blocks: Sequence[Block]) -> list[PackageMessage]:
    """Return messages with their original texts: only the prompt is escaped (decision 0004)."""
    return [
        PackageMessage(
            role=str(block.place.role),
            content=block.content if block.place.as_written else unescape(without_notice(block.content)),
        )
        for block in blocks
    ]

"""Turns the context blocks of a session's document into prompt blocks.

The context blocks that are shown were written by a host or came with an imported document. A turn also stores the
blocks of its own prompt as context blocks. These blocks are only a record and are not shown again. This module only
reads the session and must not import a concrete store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from filament.boundaries import show_text
from filament.markup import open_tag
from jacquard.core.block_kinds import DOCUMENT_SOURCE, slot_of
from jacquard.core.blocks import Block, BlockKind, BlockOrigin, BlockPlace, sensitivity_of
from jacquard.core.receipt import CandidateDecision, LeftOut
from jacquard.pipeline.evidence.rendering import EvidenceParts, default_parts, describe_ingestions
from jacquard.pipeline.turn import Turn
from mnemosyne.chains.audience import Audience, join_audiences, may_read, read_audience
from mnemosyne.documents.document_trust import TRUST, verify_trust
from mnemosyne.evidence.blocks.resolve import ResolvedBlock
from mnemosyne.evidence.redactions import degradations_of
from mnemosyne.evidence.rules import lowest_trust
from mnemosyne.protocols import Clock, Store
from mnemosyne.schema.evidence import BlockType, ContextBlock, Evidence
from mnemosyne.schema.ingest import ConflictRecord
from mnemosyne.schema.memory import Trust
from mnemosyne.schema.query import BlockFilter, EvidenceFilter
from mnemosyne.schema.redaction import RedactionRecord
from mnemosyne.values import dataclass

MADE_BY = "made_by"
ENGINE = "jacquard"
MADE_BY_ENGINE: Mapping[str, Any] = {MADE_BY: ENGINE}
"""Value of `extra` of a block that a turn recorded from its own prompt."""

UNPINNED = "unpinned"
"""Key in `extra` of an empty block that replaces the block of a memory which is no longer pinned."""

SHOWN_MESSAGES = "shown:messages"
"""Id of the recorded block that stands for the messages of a turn's prompt, without their texts."""

_RECORDED = ("flesh:", "evidence:", "host:", "user-fact:", "shown:")
"""Prefixes of the ids of recorded blocks that are new in each turn, so that a session may have many of them."""

CONTEXT_BLOCKS = BlockFilter(without_prefixes=_RECORDED)
"""Filter for the context blocks that a turn reads."""

_PLACE = BlockPlace(slot=slot_of(BlockKind.CONTEXT))
_TRUST = {BlockType.CONVERSATION: Trust.USER, BlockType.EVIDENCE: Trust.TOOL}


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceBlocks:
    """Evidence and context blocks of a session as prompt blocks, the best last, with their lines of the receipt."""

    blocks: tuple[Block, ...] = ()
    conflicts: tuple[ConflictRecord, ...] = ()
    degradations: tuple[str, ...] = ()
    """Degradations as `code: detail`."""
    errors: tuple[str, ...] = ()
    decisions: tuple[CandidateDecision, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    document_ids: frozenset[str] = frozenset()
    """Ids of all context blocks of the session's document, shown or not."""
    redactions: tuple[RedactionRecord, ...] = ()
    derived: tuple[ContextBlock, ...] = ()
    """Context blocks that the deriver made of something else than the shown evidence."""
    newest: str = ""
    """Ids of the newest candidates as one text (`mark_newest`)."""
    audience: Audience = ()
    """Viewers who may know everything that is shown (empty: everyone)."""

    def with_document(self, document: EvidenceBlocks) -> EvidenceBlocks:
        """Return the blocks of the session's document (`document`) and these blocks together."""
        return replace(
            self,
            blocks=(*document.blocks, *self.blocks),
            degradations=(*self.degradations, *document.degradations),
            errors=(*self.errors, *document.errors),
            left_out=(*self.left_out, *document.left_out),
            document_ids=document.document_ids,
            audience=join_audiences((self.audience, document.audience)),
        )


NO_RESULTS = EvidenceBlocks()


async def load_context_blocks(
    store: Store,
    clock: Clock,
    turn: Turn,
    count: Callable[[str], int],
    parts: EvidenceParts | None = None,
    derived: Sequence[ContextBlock] = (),
) -> EvidenceBlocks:
    """Return the context blocks of the session's document, followed by the blocks `derived`, as prompt blocks.

    The receipt has a line for each block that is left out because it has no text, or because the history or the summary shows
    its text already. A block is left out without a line if it refers to evidence of another branch, or if the viewer must not
    know it. `count` returns the tokens of a text. `parts` render the blocks (None: the built-in parts).
    """
    stored = turn.facts.blocks
    if stored is None:
        stored = await store.list_context_blocks(turn.session_id, CONTEXT_BLOCKS)
    own = [block for block in stored if not is_made_by_engine(block) and _may_show(block, turn.config.viewer)]
    known, hidden = await _load_cited(store, turn, own)
    own = [block for block in own if hidden.isdisjoint(ref.evidence_id for ref in block.refs)]
    stored_ids = {block.block_id for block in own}
    own += [block for block in derived if block.block_id not in stored_ids]
    with_parts = parts or default_parts(store, clock, count)
    said = {placed.message.content.strip() for placed in turn.shown}
    if turn.window.summary is not None:
        said.add(turn.window.summary.summary.content.strip())
    blocks: list[Block] = []
    told: list[str] = []
    left_out: list[LeftOut] = []
    errors: list[str] = []
    for place, resolved in enumerate(await with_parts.render_all(turn.session_id, own, known)):
        block = resolved.block
        told += resolved.details
        errors += [resolved.error] if resolved.error else []
        text = resolved.text.strip()
        if not text or (block.block_type is BlockType.CONVERSATION and text in said):
            code, reason = (
                ("empty", "It has no text.") if not text else ("duplicate", "The talk says the same already.")
            )
            left_out.append(LeftOut(what="context_block", code=code, reason=reason, first=block.block_id, count=1))
        else:
            found = [each.evidence for each in resolved.refs if each.text and each.evidence is not None]
            trusts = [await verify_trust(store, each) for each in found]
            blocks.append(_prompt_block(resolved, text, trusts, place, count, turn.boundary))
    shown_ids = [ref.evidence_id for block in own for ref in block.refs]
    cited = [known[name] for name in shown_ids if name in known]
    told += describe_ingestions((each.evidence_id, degradations_of(each.extra)) for each in cited)
    return EvidenceBlocks(
        blocks=tuple(blocks),
        document_ids=frozenset(block.block_id for block in own),
        degradations=tuple(told),
        left_out=tuple(left_out),
        errors=tuple(errors),
        audience=join_audiences(
            [*(read_audience(block.extra) for block in own), *(read_audience(each.metadata) for each in cited)]
        ),
    )


async def _load_cited(
    store: Store, turn: Turn, blocks: Sequence[ContextBlock]
) -> tuple[dict[str, Evidence], frozenset[str]]:
    """Return the cited evidence that the turn may know, by id, and the ids of evidence that it may not know."""
    cited = frozenset(ref.evidence_id for block in blocks for ref in block.refs)
    if not cited:
        return {}, cited
    viewer = turn.config.viewer
    where = EvidenceFilter(
        evidence_ids=cited,
        branch_id=turn.window.head.branch_id,
        known_to=frozenset(() if viewer is None else (viewer,)),
    )
    known = {each.evidence_id: each for each in await store.list_evidences(turn.session_id, where)}
    others = await store.list_evidences(turn.session_id, EvidenceFilter(evidence_ids=cited - known.keys()))
    return known, frozenset(each.evidence_id for each in others)


def is_of_document(block: Block) -> bool:
    """Return whether a prompt block is a context block of the session's document."""
    return block.kind is BlockKind.CONTEXT


def is_made_by_engine(block: ContextBlock) -> bool:
    """Return whether a context block is the record of a block in a turn's own prompt."""
    return block.extra.get(MADE_BY) == ENGINE


def _may_show(block: ContextBlock, viewer: str | None) -> bool:
    """Return whether a pinned memory is still pinned, and whether the viewer may know a block."""
    return UNPINNED not in block.extra and may_read(read_audience(block.extra), viewer)


def _trust_of_text(block: ContextBlock) -> Trust:
    """Return the trust of a block's own text: that of a document, unless a host states otherwise; a pinned memory keeps its
    own.
    """
    if block.block_type in _TRUST:
        return _TRUST[block.block_type]
    claimed = block.extra.get(TRUST)
    if claimed in tuple(Trust):
        return Trust(claimed)
    return Trust.TOOL if block.block_type is BlockType.MEMORY else Trust.USER


def _prompt_block(
    resolved: ResolvedBlock, text: str, trusts: Sequence[Trust], rank: int, count: Callable[[str], int], boundary: str
) -> Block:
    block = resolved.block
    trust = lowest_trust(trusts) if trusts else _trust_of_text(block)
    attributes = (("id", block.block_id), ("type", block.block_type.value), ("trust", trust.value))
    content = f"{open_tag('context_block', attributes)}\n{show_text(text, boundary)}\n</context_block>"
    return Block(
        block_id=block.block_id,
        kind=BlockKind.CONTEXT,
        block_type=block.block_type,
        content=content,
        place=_PLACE,
        origin=BlockOrigin(
            source=f"{DOCUMENT_SOURCE}{block.block_type.value}",
            title=block.block_id,
            refs=block.refs if trusts else (),
            trust=trust,
            sensitivity=sensitivity_of(block.extra),
        ),
        priority=block.priority,
        rank=rank,
        tokens=count(content),
    )

"""Makes the context blocks that show evidence in a prompt.

A block is a part of a prompt. Evidence is text from outside. A block contains refs (references to parts of evidence) and no
text. The texts of the refs are looked up when a prompt is assembled, so that a changed source is noticed and long evidence is
stored only once. This module writes no prompt text and reads no store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial

from anyio import to_thread

from mnemosyne.core.errors import SelectorResolveError
from mnemosyne.core.off_loop import calculate
from mnemosyne.evidence.conflicts import ConflictResolution
from mnemosyne.evidence.ingestor import SHOWN_REFS
from mnemosyne.evidence.rules import is_expired
from mnemosyne.evidence.selectors import RefSelector
from mnemosyne.host_parts import HashText, digest_of, hash_with_sha256
from mnemosyne.protocols import Clock, TextSelector
from mnemosyne.schema.document import SessionDocument
from mnemosyne.schema.evidence import BlockType, ContextBlock, DeriveOptions, Evidence, Priority
from mnemosyne.schema.session import Ref

HIGH_CONFIDENCE = 0.75
LOW_CONFIDENCE = 0.4
HIGH_PLACES = 2
"""Maximum number of blocks with the priority HIGH.

Only the newest confident items get this priority, so that old results do not crowd out the turn's own blocks.
"""


def evidence_block_id(evidence_id: str) -> str:
    """Return the id of the block that shows the evidence item `evidence_id`."""
    return f"evidence:{evidence_id}"


def derive_evidence_blocks(
    evidences: Sequence[Evidence],
    *,
    now: datetime,
    count: Callable[[str], int],
    settlement: ConflictResolution | None = None,
    hash_text: HashText = hash_with_sha256,
    text_selector: TextSelector | None = None,
) -> tuple[ContextBlock, ...]:
    """Return a block for each of `evidences` that has not expired at `now`, in the given order (oldest first).

    Items that lost a conflict (`left_out` of `settlement`) get no block. The newest two items with a confidence of at least
    0.75 get the priority HIGH. Items with a confidence below 0.4 get LOW. All other items, and items without a confidence, get
    MEDIUM. `count` returns the number of tokens of a text. `hash_text` and `text_selector` replace the built-in functions.
    """
    selector = text_selector or RefSelector()
    left_out: Mapping[str, str] = settlement.left_out if settlement is not None else {}
    kept = [each for each in evidences if not is_expired(each, now) and each.evidence_id not in left_out]
    sure = [each.evidence_id for each in kept if (each.confidence or 0.0) >= HIGH_CONFIDENCE][-HIGH_PLACES:]
    return tuple(
        ContextBlock(
            block_id=evidence_block_id(each.evidence_id),
            block_type=BlockType.EVIDENCE,
            priority=_priority_of(each, sure),
            token_estimate=count(_text_to_show(each, selector)),
            refs=refs_of(each, hash_text),
        )
        for each in kept
    )


class EvidenceBlockDeriver:
    """The built-in `BlockDeriver`: returns the host's own blocks, then one block for each evidence item.

    Templates make the blocks for conversation, state, plan and tasks, so this class does not. `count` returns the number of
    tokens of a text.
    """

    def __init__(
        self,
        clock: Clock,
        count: Callable[[str], int],
        *,
        hash_text: HashText = hash_with_sha256,
        text_selector: TextSelector | None = None,
    ) -> None:
        self._clock, self._count = clock, count
        self._hash_text, self._selector = hash_text, text_selector or RefSelector()

    async def derive(
        self, session_doc: SessionDocument, evidences: Sequence[Evidence], options: DeriveOptions | None = None
    ) -> tuple[ContextBlock, ...]:
        """Return the custom blocks of `options`, then the blocks of `evidences` in the given order, without expired items."""
        wanted = options or DeriveOptions()
        if not wanted.include_evidences or not evidences:
            return wanted.custom_instructions
        derive = partial(
            derive_evidence_blocks,
            evidences,
            now=self._clock.now(),
            count=self._count,
            hash_text=self._hash_text,
            text_selector=self._selector,
        )
        # Selectors hold patterns; each may take its whole time.
        has_selectors = any(each.metadata.get(SHOWN_REFS) for each in evidences)
        size = sum(len(each.content) for each in evidences)
        blocks = await to_thread.run_sync(derive) if has_selectors else await calculate(derive, size=size)
        return (*wanted.custom_instructions, *blocks)


def refs_of(evidence: Evidence, hash_text: HashText = hash_with_sha256) -> tuple[Ref, ...]:
    """Return refs to the parts of `evidence` that a prompt shows, each with the hash of its first text.

    If the metadata names no parts, the result is one ref to the whole text. If the item stores only a pointer, the hash is
    the hash of the text to which the pointer led.
    """
    named = evidence.metadata.get(SHOWN_REFS)
    refs = tuple(
        Ref(evidence_id=evidence.evidence_id, selector=each["selector"], hash=each.get("hash"))
        for each in (named if isinstance(named, Sequence) and not isinstance(named, str) else ())
        if isinstance(each, Mapping) and isinstance(each.get("selector"), str)
    )
    whole = digest_of(evidence.content, hash_text) if evidence.content else evidence.content_hash or None
    return refs or (Ref(evidence_id=evidence.evidence_id, hash=whole),)


def _priority_of(evidence: Evidence, sure: Sequence[str]) -> Priority:
    if evidence.evidence_id in sure:
        return Priority.HIGH
    doubtful = evidence.confidence is not None and evidence.confidence < LOW_CONFIDENCE
    return Priority.LOW if doubtful else Priority.MEDIUM


def _text_to_show(evidence: Evidence, selector: TextSelector) -> str:
    texts = []
    for ref in refs_of(evidence):
        try:
            texts.append(evidence.content if ref.selector is None else selector.extract(evidence.content, ref.selector))
        except SelectorResolveError:
            continue
    return "\n".join(texts)

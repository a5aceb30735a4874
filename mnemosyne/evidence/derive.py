"""Makes context blocks that point at evidence (seed 002 section 6.4). Pure: it writes no prompt text.

A block holds refs and no text. Its text is resolved when a prompt is assembled, so that a changed source is noticed and
long evidence is stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from mnemosyne.core.errors import SelectorResolveError
from mnemosyne.evidence.conflicts import ConflictResolution
from mnemosyne.evidence.ingestor import SHOWN_REFS
from mnemosyne.evidence.rules import is_expired
from mnemosyne.evidence.selectors import extract, ref_hash
from mnemosyne.schema.evidence import BlockType, ContextBlock, Evidence, Priority
from mnemosyne.schema.session import Ref

HIGH_CONFIDENCE = 0.75
LOW_CONFIDENCE = 0.4
HIGH_PLACES = 2
"""Only this many of the newest confident items are HIGH, so that old results do not crowd out the turn's own blocks."""


def evidence_block_id(evidence_id: str) -> str:
    """Return the id of the block that shows an evidence item."""
    return f"evidence:{evidence_id}"


def derive_evidence_blocks(
    evidences: Sequence[Evidence],
    *,
    now: datetime,
    count: Callable[[str], int],
    settlement: ConflictResolution | None = None,
) -> tuple[ContextBlock, ...]:
    """Return a block for each evidence item that has not expired and was not left out, in the order given (oldest
    first).

    Priority depends on confidence and order: HIGH for the newest two of at least 0.75, LOW below 0.4, else MEDIUM;
    unknown confidence is MEDIUM. `count` returns the tokens of a text.
    """
    left_out: Mapping[str, str] = settlement.left_out if settlement is not None else {}
    kept = [each for each in evidences if not is_expired(each, now) and each.evidence_id not in left_out]
    sure = [each.evidence_id for each in kept if (each.confidence or 0.0) >= HIGH_CONFIDENCE][-HIGH_PLACES:]
    return tuple(
        ContextBlock(
            block_id=evidence_block_id(each.evidence_id),
            block_type=BlockType.EVIDENCE,
            priority=_priority_of(each, sure),
            token_estimate=count(_text_to_show(each)),
            refs=refs_of(each),
        )
        for each in kept
    )


def refs_of(evidence: Evidence) -> tuple[Ref, ...]:
    """Return refs to the parts of an evidence item to be shown, each with the hash of what it pointed at first.

    Where no parts were named, one ref to the whole; for a stored pointer, with the hash of the text that it led to.
    """
    named = evidence.metadata.get(SHOWN_REFS)
    refs = tuple(
        Ref(evidence_id=evidence.evidence_id, selector=each["selector"], hash=each.get("hash"))
        for each in (named if isinstance(named, Sequence) and not isinstance(named, str) else ())
        if isinstance(each, Mapping) and isinstance(each.get("selector"), str)
    )
    whole = ref_hash(evidence.content) if evidence.content else evidence.content_hash or None
    return refs or (Ref(evidence_id=evidence.evidence_id, hash=whole),)


def _priority_of(evidence: Evidence, sure: Sequence[str]) -> Priority:
    if evidence.evidence_id in sure:
        return Priority.HIGH
    doubtful = evidence.confidence is not None and evidence.confidence < LOW_CONFIDENCE
    return Priority.LOW if doubtful else Priority.MEDIUM


def _text_to_show(evidence: Evidence) -> str:
    texts = []
    for ref in refs_of(evidence):
        try:
            texts.append(evidence.content if ref.selector is None else extract(evidence.content, ref.selector).text)
        except SelectorResolveError:
            continue
    return "\n".join(texts)

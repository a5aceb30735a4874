"""Lists the redactions in a prompt for its receipt: the class, the block and the number of removed texts, never a text. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from jacquard.core.blocks import Block, BlockKind
from jacquard.core.receipt import BlockDecision
from jacquard.pipeline.weaving.degrade import WITHHELD
from jacquard.pipeline.weaving.packing import MASKED
from mnemosyne.schema.redaction import RedactionRecord

WITHHELD_CLASS = "withheld"
"""Class of a text that was withheld completely."""

_PLACEHOLDER = re.compile(r"\[redacted:([a-z_]{1,40})\]")
_SPOKEN = frozenset({BlockKind.MESSAGE, BlockKind.INPUT})
"""Kinds of blocks with texts of speakers. A speaker may write a placeholder of a redaction, so such a text counts only
if something was removed from it.
"""


def find_redactions(
    blocks: Iterable[Block],
    decisions: Sequence[BlockDecision],
    stored: Sequence[RedactionRecord],
    said: Mapping[str, RedactionRecord],
) -> tuple[RedactionRecord, ...]:
    """Return a record for each block of a prompt in which something was redacted, in reading order.

    `stored` contains the redactions of evidence, made before the evidence was stored. `said` maps the id of a block to the
    redactions of its message. `decisions` state which blocks were masked in this prompt.
    """
    masked = {each.block_id for each in decisions if each.code == MASKED}
    by_evidence = {each.evidence_id: each for each in stored}
    found = []
    for block in blocks:
        is_masked = block.block_id in masked
        record = said.get(block.block_id) if block.kind in _SPOKEN else None
        if block.kind in _SPOKEN and not is_masked and record is None:
            continue
        evidence_id = block.origin.refs[0].evidence_id if block.kind is BlockKind.EVIDENCE and block.origin.refs else ""
        counts = _count_classes(block.content, is_masked=is_masked)
        record = record or by_evidence.get(evidence_id)
        if record is None and counts:
            record = RedactionRecord(evidence_id=evidence_id, rules_applied=tuple(counts), fields_redacted=1)
        if record is not None:
            found.append(replace(record, block_id=block.block_id, counts=counts))
    return tuple(found)


def _count_classes(content: str, *, is_masked: bool) -> Mapping[str, int]:
    counts = dict(Counter(_PLACEHOLDER.findall(content)))
    if is_masked and WITHHELD in content:
        counts[WITHHELD_CLASS] = content.count(WITHHELD)
    return counts

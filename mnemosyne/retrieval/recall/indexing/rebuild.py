"""Compares an index with the source of its entries, to decide whether it must be rebuilt.

Ids are compared page by page, and nothing is written. The comparison detects a damaged index, and an index that was made from
another store. This module must not import a concrete index or source.
"""

from __future__ import annotations

from collections.abc import Sequence

from mnemosyne.protocols import EntrySource, Index
from mnemosyne.schema.memory import Chain
from mnemosyne.values import dataclass

_PAGE = 1_000
_ALL = 2**31 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class RebuildResult:
    """Outcome of rebuilding the index of one scope."""

    scope: str
    kept: int
    """Number of kept entries; `added` is the number of new ones."""
    added: int
    rebuilt: bool
    """Whether the index was damaged or had other content, and was rebuilt."""
    fault: str = ""
    """Work that could not be done (no model, no folder); empty without faults."""
    former_encoder: str = ""
    """Name of the embedder that made the former vectors of the scope, if another embedder has replaced them (else '')."""


async def compare_index(source: EntrySource, index: Index, scope: str, chains: Sequence[Chain]) -> int | None:
    """Return the number of entries of `scope` in `index`, if the index has exactly the entries of `source` up to its watermarks.

    Return None otherwise. A watermark is the highest sequence that the index has seen in one of `chains`.
    """
    kept = 0
    for chain in chains:
        mark = await index.watermark(scope, chain)
        held = set(await index.newest_ids(scope, chain, _ALL))
        wanted, gone, known, after = set[str](), set[str](), set[str](), 0
        while page := await source.entries_after(scope, chain, after, _PAGE):
            for item in page:
                entry_id = item.entry.entry_id
                known.add(entry_id)
                wanted.discard(entry_id)
                gone.discard(entry_id)
                if item.sequence <= mark:
                    (gone if item.deleted else wanted).add(entry_id)
            after = page[-1].sequence
        if not wanted <= held <= known or held & gone:
            return None
        kept += len(held)
    return kept

"""Entries, sources and filters that the tests of recall share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from mnemosyne import Chain, MemoryEntry, RetrievalQuery
from mnemosyne.protocols import Vectors
from mnemosyne.schema.memory import session_scope, world_scope
from mnemosyne.schema.query import Hits, IndexFilter
from mnemosyne.schema.record import SequencedEntry
from mnemosyne.schema.session import BranchSpan

WORLD = world_scope("forest")
SESSION = session_scope("s1")
ALL = frozenset(Chain)


def entry(entry_id: str, text: str, chain: Chain = Chain.LORE, **more: object) -> MemoryEntry:
    """Return an entry of the session (the world's for lore)."""
    fields: dict[str, object] = {"scope": WORLD if chain is Chain.LORE else SESSION, "kind": "note", **more}
    return MemoryEntry(entry_id=entry_id, text=text, chain=chain, **fields)  # type: ignore[arg-type]


def said(entry_id: str, speaker: str, text: str, depth: int, branch_id: str = "main", **more: object) -> MemoryEntry:
    """Return a message."""
    place: dict[str, object] = {"title": speaker, "speaker": speaker, "depth": depth, "branch_id": branch_id, **more}
    return entry(entry_id, text, Chain.HISTORY, kind="message", **place)


def written(entries: Iterable[MemoryEntry], first: int = 1) -> list[SequencedEntry]:
    """Return entries as a store would hand them out."""
    return [SequencedEntry(sequence=sequence, entry=each) for sequence, each in enumerate(entries, first)]


def where(
    scope: str = WORLD,
    *,
    chains: frozenset[Chain] = ALL,
    lineage: Sequence[tuple[str, int]] | None = None,
    exclude: Iterable[str] = (),
) -> IndexFilter:
    """Return a filter; `lineage` as (branch, depth) pairs."""
    spans = None if lineage is None else tuple(BranchSpan(branch_id=name, upto_depth=depth) for name, depth in lineage)
    return IndexFilter(scope=scope, chains=chains, lineage=spans, exclude=frozenset(exclude))


def question(text: str, **more: object) -> RetrievalQuery:
    """Return a query of session s1 on branch main, with everything up to depth 1000 behind it."""
    lineage = (BranchSpan(branch_id="main", upto_depth=1000),)
    fields: dict[str, object] = {"world_id": "forest", "session_id": "s1", "lineage": lineage, "depth": 10, **more}
    return RetrievalQuery(text=text, **fields)  # type: ignore[arg-type]


def scores_of(hits: Hits) -> dict[str, float]:
    """Return the score of each entry that a search found, the best first."""
    return dict(zip(hits.entry_ids, hits.scores, strict=True))


def unit(rows: Sequence[Sequence[float]]) -> Vectors:
    """Return rows scaled to length 1."""
    vectors = np.asarray(rows, dtype=np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


class LetterEmbedder:
    """A true, tiny embedder: a text's vector counts its letters. It knows no Chinese, and says so."""

    def __init__(self, name: str = "letters", letters: str = "abcdefghijklmnopqrstuvwxyz") -> None:
        self.name, self.letters = name, letters
        self.embedded: list[str] = []

    async def warm(self) -> None:
        return None

    async def fitness(self, text: str) -> float:
        known = [character for character in text if not character.isspace()]
        return sum(character.isascii() for character in known) / max(len(known), 1)

    async def embed(self, texts: Sequence[str], purpose: Literal["query", "document"]) -> Vectors:
        self.embedded.extend(texts)
        return unit([[1.0 + text.lower().count(letter) for letter in self.letters] for text in texts])

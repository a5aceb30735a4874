"""Makes the rows of an index from memory entries.

A row has the position of the entry in the turn tree, its search words, and its vector. All engines use these functions, so that
an entry is found by the same words in each engine. This module must not import an engine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from mnemosyne.protocols import Vectors
from mnemosyne.retrieval.text.date_spans import words_of, words_of_day
from mnemosyne.retrieval.text.dates import resolve_dates
from mnemosyne.retrieval.text.names import NAME_FACET, subject_names
from mnemosyne.retrieval.text.persons import PersonFinder, find_persons
from mnemosyne.retrieval.text.words import has_cjk, word_tokens_of_line
from mnemosyne.schema.memory import DOCUMENT, Chain, LoreCategory, MemoryEntry
from mnemosyne.schema.record import SequencedEntry
from mnemosyne.values import dataclass

_LEAD_CHARS = 120
FINDER_FACET = "finder="
"""Term of every message of which the persons were found by a `PersonFinder`, and begin of the term with its name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexRow:
    """One entry as it is indexed.

    `tokens` are word tokens, then facets (terms for quests and entities). `vector` has length 1; it is None if the entry has no
    vector. `model` is the name of the embedder that has processed the text, with or without success. It is '' if none has.
    """

    entry_id: str
    chain: Chain
    branch_id: str | None
    depth: int | None
    sequence: int
    tokens: tuple[str, ...]
    vector: Vectors | None = None
    model: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowBatch:
    """Rows to write, ids to remove, and for each chain the highest sequence that the writer has seen."""

    rows: tuple[IndexRow, ...]
    removed: tuple[str, ...]
    watermarks: dict[Chain, int]


NO_ROWS = RowBatch(rows=(), removed=(), watermarks={})


def merge_batches(held: RowBatch, late: RowBatch) -> RowBatch:
    """Return the batches `held` and `late` as one batch. If an id is in both, `late` counts."""
    rows: dict[str, IndexRow] = {row.entry_id: row for row in held.rows}
    removed = dict.fromkeys(held.removed)
    for row in late.rows:
        rows.pop(row.entry_id, None)
        rows[row.entry_id] = row
        removed.pop(row.entry_id, None)
    for entry_id in late.removed:
        rows.pop(entry_id, None)
        removed[entry_id] = None
    return RowBatch(
        rows=tuple(rows.values()), removed=tuple(removed), watermarks=merge_watermarks(held.watermarks, late.watermarks)
    )


def merge_watermarks(one: Mapping[Chain, int], other: Mapping[Chain, int]) -> dict[Chain, int]:
    """Return the higher watermark of each chain in `one` and `other`."""
    return {chain: max(one.get(chain, 0), other.get(chain, 0)) for chain in (*one, *other)}


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredScope:
    """The rows of a stored scope as columns, in the order of writing."""

    ids: tuple[str, ...]
    chains: npt.NDArray[np.int8]
    """Indexes into `tuple(Chain)`."""
    branches: tuple[str | None, ...]
    branch_codes: npt.NDArray[np.int32]
    """Indexes into `branches`."""
    depths: npt.NDArray[np.int32]
    """0 for a row that is not `placed`."""
    placed: npt.NDArray[np.bool_]
    """Whether each row has a depth."""
    sequences: npt.NDArray[np.int64]
    models: tuple[str, ...]
    model_codes: npt.NDArray[np.int32]
    """Indexes into `models`."""
    words: tuple[str, ...]
    codes: npt.NDArray[np.int32]
    """Indexes into `words`: the tokens of all rows, concatenated."""
    lengths: npt.NDArray[np.int64]
    """Number of tokens of each row."""
    vectors: Vectors | None = None
    """One row per entry, NaN for an entry without a vector. None if no entry has one."""
    lost: int = 0
    """Number of rows that were left out because they are damaged."""


def batch_of(stored: StoredScope) -> RowBatch:
    """Return the batch that would write a stored scope again."""
    chains, words = tuple(Chain), [stored.words[code] for code in stored.codes.tolist()]
    ends = np.cumsum(stored.lengths).tolist()
    starts = [0, *ends]
    known = np.zeros(len(stored.ids)) if stored.vectors is None else ~np.isnan(stored.vectors[:, 0])
    rows = tuple(
        IndexRow(
            entry_id=entry_id,
            chain=chains[stored.chains[place]],
            branch_id=stored.branches[stored.branch_codes[place]],
            depth=int(stored.depths[place]) if stored.placed[place] else None,
            sequence=int(stored.sequences[place]),
            tokens=tuple(words[starts[place] : ends[place]]),
            vector=stored.vectors[place] if stored.vectors is not None and known[place] else None,
            model=stored.models[stored.model_codes[place]],
        )
        for place, entry_id in enumerate(stored.ids)
    )
    return RowBatch(rows=rows, removed=(), watermarks={row.chain: row.sequence for row in rows})


def highest_sequences(stored: StoredScope) -> dict[Chain, int]:
    """Return the highest sequence of each chain that has rows in a stored scope."""
    chains = tuple(Chain)
    return {
        chains[code]: int(stored.sequences[stored.chains == code].max()) for code in np.unique(stored.chains).tolist()
    }


def quest_facet(quest_id: str) -> str:
    """Return the term under which every entry of a quest is indexed. No word of a text can be equal to it."""
    return f"quest={quote(quest_id, safe='')}"


def entity_facet(entity_id: str) -> str:
    """Return the term under which every entry about an entity is indexed. No word of a text can be equal to it."""
    return f"entity={quote(entity_id, safe='')}"


def names_of_subject(entry: MemoryEntry) -> tuple[str, ...]:
    """Return the names of the subject of an entry of lore, or of the persons whom a message means (`name_persons`).

    Passages of documents have none.
    """
    if entry.chain is Chain.HISTORY:
        return subject_names("", entry.keys, "")
    if entry.chain is not Chain.LORE or entry.kind == DOCUMENT:
        return ()
    is_person = entry.kind == LoreCategory.AGENT
    return subject_names(entry.title, entry.keys, entry.text[:_LEAD_CHARS], is_person=is_person)


def name_persons(entry: MemoryEntry, before: Sequence[MemoryEntry], finder: PersonFinder | None = None) -> MemoryEntry:
    """Return a message with the names of the persons whom it means as keys; `before` has the messages directly before it.

    Other entries are returned unchanged. If there is a `finder`, its name is added as a tag, so that the row says by what its names
    were found.
    """
    if entry.chain is not Chain.HISTORY:
        return entry
    spoken = [(each.speaker or "", each.text) for each in before]
    tags = () if finder is None else (FINDER_FACET, FINDER_FACET + finder.name)
    return replace(entry, keys=find_persons((entry.speaker or "", entry.text), spoken, finder), tags=tags)


def date_words(entry: MemoryEntry) -> str:
    """Return the dates of `entry` in words: its own date, and on further lines the dates that its text names (`yesterday`).

    If the text is Chinese, the Chinese forms are added. The result is '' for an entry without a date.
    """
    if entry.at is None:
        return ""
    chinese = has_cjk(entry.text)
    meant = [words_of(each, chinese=chinese) for each in resolve_dates(entry.text, entry.at)]
    return "\n".join(dict.fromkeys((words_of_day(entry.at.date(), chinese=chinese), *meant)))


def own_words(entry: MemoryEntry) -> str:
    """Return the text under which an entry without neighbours is found: its speaker or title, its keys, its text, and
    its dates if it is a message.
    """
    name = entry.speaker or entry.title
    dates = date_words(entry) if entry.chain is Chain.HISTORY else ""
    return "\n".join(part for part in (name, " ".join(entry.keys), entry.text, dates) if part)


def spoken_words(entry: MemoryEntry) -> str:
    """Return the speaker and the text of a message, as they are embedded and as they appear in the keys of its neighbours."""
    name = entry.speaker or entry.title
    return f"{name}: {entry.text}" if name else entry.text


def text_hash(entry: MemoryEntry) -> bytes:
    """Return a hash (16 bytes) of the text that is embedded for an entry."""
    return blake2b(spoken_words(entry).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def round_vectors(vectors: Vectors) -> Vectors:
    """Return vectors rounded to float16, as float32 arrays, so that every host compares the same numbers."""
    return np.asarray(vectors.astype(np.float16), dtype=np.float32)


def neighbour_key(entry: MemoryEntry, neighbours: Sequence[MemoryEntry]) -> str:
    """Return the text under which the message `entry` is found: its own words three times, and the words of `neighbours` once.

    A single message rarely names its topic, but the messages around it do. Two neighbours on each side raise BM25's recall@5 on
    LoCoMo dev from 57 to 70 percent (one on each side: 65). Only this search text contains the neighbours' words; the recalled
    text is the message itself.
    """
    own = own_words(entry)
    return "\n".join([own, own, own, *(spoken_words(neighbour) for neighbour in neighbours)])


def row_batch(
    entries: Sequence[SequencedEntry], vectors: Vectors | None, keys: Sequence[str] | None, model: str
) -> RowBatch:
    """Return the batch that an index writes for `entries`.

    A row of NaN in `vectors` means that the entry has no vector. `keys` are the texts under which the entries are found (None:
    their own words). `model` is the name of the embedder. If several entries have the same id, the last one counts.
    """
    rows: dict[str, IndexRow] = {}
    removed: dict[str, None] = {}
    watermarks: dict[Chain, int] = {}
    for place, item in enumerate(entries):
        entry = item.entry
        watermarks[entry.chain] = max(watermarks.get(entry.chain, 0), item.sequence)
        rows.pop(entry.entry_id, None)
        removed.pop(entry.entry_id, None)
        if item.deleted:
            removed[entry.entry_id] = None
            continue
        vector = None if vectors is None or np.isnan(vectors[place, 0]) else vectors[place]
        rows[entry.entry_id] = IndexRow(
            entry_id=entry.entry_id,
            chain=entry.chain,
            branch_id=entry.branch_id,
            depth=entry.depth,
            sequence=item.sequence,
            tokens=(*_tokens(own_words(entry) if keys is None else keys[place]), *_facets(entry)),
            vector=vector,
            model=model,
        )
    return RowBatch(rows=tuple(rows.values()), removed=tuple(removed), watermarks=watermarks)


def row_digest(entry: MemoryEntry) -> bytes:
    """Return a hash (16 bytes) of everything from which the row of an entry is made, apart from its neighbours."""
    parts = (
        entry.chain.value,
        entry.branch_id or "",
        str(entry.depth),
        own_words(entry),
        spoken_words(entry),
        *_facets(entry),
    )
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()[:16]


def _tokens(key: str) -> list[str]:
    # A message's lines are also in the keys of its neighbours, so lines are tokenised one by one (no token crosses a
    # line's end) and cached.
    return [token for line in key.split("\n") for token in word_tokens_of_line(line)]


def _facets(entry: MemoryEntry) -> tuple[str, ...]:
    quest = () if entry.quest_id is None else (quest_facet(entry.quest_id),)
    names = [NAME_FACET + name for name in names_of_subject(entry)]
    if entry.chain is Chain.HISTORY:
        names += [tag for tag in entry.tags if tag.startswith(FINDER_FACET)]
    return (*quest, *(entity_facet(entity) for entity in dict.fromkeys(entry.entities)), *names)

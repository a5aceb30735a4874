"""Holds the rows of one scope in memory and searches them exactly by words and by vectors.

A scope is one session or one world. Rows are in growing arrays, and filters are applied as masks before ranking. A slot is the
number of a row. The owner of a table (`memory.py`) calls it on worker threads. This module has no async code, reads no files and
must not import an engine.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mnemosyne.protocols import Vectors
from mnemosyne.retrieval.engines.rows import IndexRow, RowBatch, StoredScope, highest_sequences
from mnemosyne.retrieval.engines.tables.columns import RowColumns, RowView
from mnemosyne.retrieval.engines.tables.nearest import VectorRows
from mnemosyne.retrieval.text.lexical import INT_BYTES, FoundWords, Mask, Owners, Postings, Scores, TermCounts
from mnemosyne.schema.memory import Chain
from mnemosyne.schema.query import NO_HITS, Hits, IndexFilter
from mnemosyne.schema.session import BranchSpan
from mnemosyne.values import dataclass

_COMPACT_ROWS = 1_024
_FEW_SPANS = 8
_BLOCK = 64
_SAMPLE = 4_096
_CHARS_A_ROW = 6
"""Cost of searching a row, in characters for `calculate` (2,000 rows take about 1 ms)."""
_CHAINS = {chain: code for code, chain in enumerate(Chain)}
_NO_BRANCH = 0
_ANY_DEPTH = np.iinfo(np.int32).max


@dataclass(frozen=True, kw_only=True, slots=True)
class FrozenTable:
    """The content of a table, to be written to a file: small values, and arrays by name. The arrays must not be changed."""

    model: str
    branches: tuple[str | None, ...]
    watermarks: Mapping[Chain, int]
    ids: tuple[str, ...]
    words: tuple[str, ...]
    arrays: Mapping[str, npt.NDArray[Any]]


class ScopeTable:
    """The entries of one scope by slot. Threads may share it. Words and vectors have a lock each: a change takes
    both, a search one of them.

    Replacing an entry leaves a dead slot. Slots are compacted when more than half of them, and more than 1,024, are
    dead.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._vector_lock = threading.Lock()
        self._mask_lock = threading.Lock()
        self._postings = Postings()
        self._ids: list[str] = []
        self._places: dict[str, int] = {}
        self._branches: dict[str | None, int] = {None: _NO_BRANCH}
        self._watermarks: dict[Chain, int] = {}
        self._model = ""
        self._columns = RowColumns()
        self._vectors = VectorRows()
        self._last_admitted: tuple[IndexFilter, Mask] | None = None

    @property
    def model(self) -> str:
        """Name of the embedder that made the rows' vectors; empty if they have none."""
        return self._model

    def put(self, batch: RowBatch) -> None:
        """Add, replace and remove the rows of a batch."""
        with self._lock, self._vector_lock:
            self._last_admitted = None
            for entry_id in batch.removed:
                self._remove_slot(entry_id)
            self._append(batch.rows)
            for chain, sequence in batch.watermarks.items():
                self._watermarks[chain] = max(sequence, self._watermarks.get(chain, 0))
            dead = len(self._ids) - len(self._places)
            if dead > _COMPACT_ROWS and dead * 2 > len(self._ids):
                self._pack()

    def fill(self, stored: StoredScope) -> None:
        """Load the rows of a stored scope. The table must be empty."""
        with self._lock, self._vector_lock:
            self._last_admitted = None
            rows = len(stored.ids)
            self._ids = list(stored.ids)
            self._places = dict(zip(self._ids, range(rows), strict=True))
            codes = [self._branches.setdefault(name, len(self._branches)) for name in stored.branches]
            branches = np.array(codes, dtype=np.int32)[stored.branch_codes] if rows else stored.branch_codes
            named = np.array([bool(model) for model in stored.models], dtype=np.bool_)[stored.model_codes]
            last = int(stored.model_codes[np.flatnonzero(named)[-1]]) if named.any() else -1
            self._model = stored.models[last] if last >= 0 else ""
            seen = stored.model_codes == last
            self._columns.fill(stored.chains, branches, stored.depths, stored.placed, stored.sequences, seen)
            if len(self._places) < rows:
                # Of an id that occurs twice the row written last counts.
                self._columns.alive[:] = False
                self._columns.alive[list(self._places.values())] = True
            self._postings.append_codes(stored.words, stored.codes, stored.lengths)
            if stored.vectors is not None:
                known = seen & ~np.isnan(stored.vectors[:, 0])
                if known.any():
                    vectors = stored.vectors
                    self._vectors.take(vectors if known.all() else np.where(known[:, None], vectors, np.float32(0.0)))
                    self._columns.has_vector[:rows] = known
            self._watermarks.update(highest_sequences(stored))

    def pack(self) -> None:
        """Drop the slots of rows that were removed or replaced, with their words."""
        with self._lock, self._vector_lock:
            if len(self._ids) > len(self._places):
                self._pack()

    def freeze(self) -> FrozenTable:
        """Return the present content of the table."""
        with self._lock, self._vector_lock:
            rows = len(self._ids)
            words, postings = self._postings.freeze()
            arrays = {**self._columns.copy(rows), **postings, **self._vectors.freeze(rows)}
            return FrozenTable(
                model=self._model,
                branches=tuple(self._branches),
                watermarks=dict(self._watermarks),
                ids=tuple(self._ids),
                words=words,
                arrays=arrays,
            )

    def stored(self) -> StoredScope:
        """Return the content of the table as rows. The words of a row are in no particular order."""
        self.pack()
        frozen = self.freeze()
        arrays, rows = frozen.arrays, len(frozen.ids)
        owners = np.repeat(np.arange(len(arrays["starts"]) - 1, dtype=np.int32), np.diff(arrays["starts"]))
        counts = arrays["counts"].astype(np.int64)
        slots = np.repeat(arrays["slots"], counts)
        vectors = None
        if "vectors" in arrays:
            vectors = np.full((rows, arrays["vectors"].shape[1]), np.nan, dtype=np.float32)
            known = np.flatnonzero(arrays["has_vector"])
            vectors[known] = arrays["vectors"][known]
        return StoredScope(
            ids=frozen.ids,
            chains=arrays["chain"],
            branches=frozen.branches,
            branch_codes=arrays["branch"],
            depths=arrays["depth"],
            placed=arrays["placed"],
            sequences=arrays["sequence"],
            models=("", frozen.model),
            model_codes=arrays["seen"].astype(np.int32),
            words=frozen.words,
            codes=np.repeat(owners, counts)[np.argsort(slots, kind="stable")],
            lengths=arrays["lengths"].astype(np.int64),
            vectors=vectors,
        )

    @classmethod
    def restore(cls, frozen: FrozenTable) -> ScopeTable:
        """Return a table with the content of `frozen`, whose arrays are not changed."""
        table, ids, arrays = cls(), list(frozen.ids), frozen.arrays
        alive = arrays["alive"]
        slots = range(len(ids)) if alive.all() else np.flatnonzero(alive).tolist()
        table._ids, table._model = ids, frozen.model
        table._places = {ids[slot]: slot for slot in slots}
        table._branches = {name: code for code, name in enumerate(frozen.branches)}
        table._watermarks = dict(frozen.watermarks)
        table._columns = RowColumns.restore(arrays)
        table._postings = Postings.restore(frozen.words, arrays)
        table._vectors = VectorRows.restore(arrays)
        return table

    def begin_at(self, watermarks: Mapping[Chain, int]) -> None:
        """Replace the watermarks (the highest sequence that was seen for each chain) by `watermarks`.

        Call this if the rows have the sequences of another store.
        """
        with self._lock:
            self._watermarks = dict(watermarks)

    def watermark(self, chain: Chain) -> int:
        """Return the highest sequence that was seen for a chain (0: none)."""
        with self._lock:
            return self._watermarks.get(chain, 0)

    def is_unused(self, chains: Iterable[Chain]) -> bool:
        """Return whether no entry of these chains was ever added. It reads without the lock, so that a caller need not wait."""
        return not any(chain in self._watermarks for chain in chains)

    def count(self) -> int:
        """Return the number of live entries. It reads without the lock."""
        return len(self._places)

    @property
    def search_size(self) -> int:
        """Cost of a search in characters for `calculate`. It is large while rows are written, because a search waits
        for them.
        """
        is_written = self._lock.locked() or self._vector_lock.locked()
        return sys.maxsize if is_written else len(self._ids) * _CHARS_A_ROW

    def holds(self, entry_id: str) -> bool:
        """Return whether an entry is live. It reads without the lock."""
        return entry_id in self._places

    def memory_bytes(self) -> int:
        """Return about how many bytes the rows take, without the words, which tables share."""
        with self._lock, self._vector_lock:
            names = sys.getsizeof(self._ids) + sum(map(sys.getsizeof, self._ids))
            places = sys.getsizeof(self._places) + len(self._places) * INT_BYTES
            return (
                names
                + places
                + self._postings.memory_bytes()
                + self._columns.memory_bytes()
                + self._vectors.memory_bytes()
            )

    def chain_counts(self) -> dict[Chain, int]:
        """Return the number of live entries of each chain; chains without any are left out."""
        with self._lock:
            view = self._columns.view(len(self._ids))
            counts = np.bincount(view.chain[view.alive], minlength=len(_CHAINS)).tolist()
            return {chain: counts[code] for chain, code in _CHAINS.items() if counts[code]}

    def share(self, where: IndexFilter) -> float:
        """Return about the share (0..1) of live entries that a filter admits, estimated from 4,096 entries. Ids that
        the filter excludes are ignored.
        """
        with self._vector_lock:
            slots = np.arange(0, len(self._ids), max(len(self._ids) // _SAMPLE, 1))
            alive = int(np.count_nonzero(self._columns.alive[slots]))
            return int(np.count_nonzero(self._admit_slots(slots, where))) / max(alive, 1)

    def filter_hits(self, found: Sequence[tuple[str, float]], where: IndexFilter, model: str) -> Hits:
        """Return the pairs (id, score) of `found` whose entries `where` admits and the embedder `model` has processed, best
        first.
        """
        with self._vector_lock:
            if model != self._model:
                return NO_HITS
            known = [(self._places[name], score) for name, score in found if name in self._places]
            slots = np.array([slot for slot, _ in known], dtype=np.int64)
            scores = np.array([score for _, score in known], dtype=np.float64)
            keep = self._admit_slots(slots, where) & self._columns.seen[slots]
            keep &= np.array([self._ids[slot] not in where.exclude for slot in slots.tolist()], dtype=np.bool_)
            return self._rank_best(slots[keep], scores[keep], len(slots))

    def newest_ids(self, chain: Chain, limit: int) -> tuple[str, ...]:
        """Return the ids of the `limit` entries of `chain` that were written last, oldest first."""
        with self._lock:
            view = self._columns.view(len(self._ids))
            slots = np.flatnonzero(view.alive & (view.chain == _CHAINS[chain]))
            if len(slots) > limit:
                slots = slots[np.argpartition(view.sequence[slots], -limit)[-limit:]]
            order = slots[np.argsort(view.sequence[slots], kind="stable")]
            return tuple(self._ids[slot] for slot in order)

    def unembedded_ids(self, model: str, limit: int) -> tuple[str, ...]:
        """Return at most `limit` ids of entries that `model` has not processed, in the order of writing."""
        with self._lock:
            view = self._columns.view(len(self._ids))
            slots = np.flatnonzero(view.alive & ~view.seen if model == self._model else view.alive)
            if len(slots) > limit:
                slots = slots[np.argpartition(view.sequence[slots], limit)[:limit]]
            order = slots[np.argsort(view.sequence[slots], kind="stable")]
            return tuple(self._ids[slot] for slot in order[:limit])

    def find_words(self, terms: Collection[str], pools: Sequence[IndexFilter]) -> WordSearch:
        """Find `terms` in the rows of each pool, to be scored and ranked later.

        A pool has the rows that one filter in `pools` admits. The filters differ only in their chains, and no chain is in
        two filters. The result can be used without the lock, because a change of rows replaces its arrays and does not write
        to them.
        """
        with self._lock:
            owners, rows = self._owners(pools), len(self._ids)
            found = self._postings.find(terms, owners, len(pools))
            return WordSearch(found, owners, self._ids, self._columns.view(rows))

    def search_text(self, terms: Mapping[str, float], where: IndexFilter, limit: int) -> Hits:
        """Return the best rows by BM25 among the admitted rows that contain a term."""
        found = self.find_words(terms, (where,))
        return found.rank(terms, found.counts, (limit,))[0]

    def search_vector(self, vector: Vectors, model: str, where: IndexFilter, limit: int) -> Hits:
        """Return the best rows by cosine among the admitted rows that have a vector of `model`."""
        with self._vector_lock:
            if model != self._model or len(vector) != self._vectors.width:
                return NO_HITS
            admitted = self._admit(where) & self._columns.has_vector[: len(self._ids)]
            slots, cosines = self._vectors.best(vector, admitted, limit)
            return self._rank_best(slots, cosines, limit)

    def _owners(self, pools: Sequence[IndexFilter]) -> Owners:
        """Return the number of the pool of each row; their count for rows of none. Entries without words are not counted, as in
        LanceDB.
        """
        of_chain = np.full(len(_CHAINS), len(pools), dtype=np.int64)
        for pool, each in enumerate(pools):
            of_chain[[_CHAINS[chain] for chain in each.chains]] = pool
        admitted = self._admit_chains(pools[0]) & (self._postings.lengths > 0)
        return np.where(admitted, of_chain.take(self._columns.chain[: len(self._ids)]), len(pools))

    def _admit(self, where: IndexFilter) -> Mask:
        """Return a mask of the rows that a filter admits."""
        return self._admit_chains(where) & _has_chain(self._columns.chain[: len(self._ids)], where.chains)

    def _admit_chains(self, where: IndexFilter) -> Mask:
        """Return a mask of the rows that a filter admits if all chains count. Searches of several chains, and those for words and
        for vectors, share it, so it must not be changed.
        """
        with self._mask_lock:
            last = self._last_admitted
            if last is not None and last[0].lineage is where.lineage and last[0].exclude is where.exclude:
                return last[1]
            admitted = self._admit_paths(self._columns.view(len(self._ids)), where)
            admitted[[self._places[entry_id] for entry_id in where.exclude if entry_id in self._places]] = False
            admitted.flags.writeable = False
            self._last_admitted = (where, admitted)
            return admitted

    def _admit_slots(self, slots: npt.NDArray[np.int64], where: IndexFilter) -> Mask:
        """Return which of some slots a filter admits, without its exclusions."""
        view = self._columns.at(slots)
        return self._admit_paths(view, where) & _has_chain(view.chain, where.chains)

    def _admit_paths(self, view: RowView, where: IndexFilter) -> Mask:
        return view.alive.copy() if where.lineage is None else view.alive & self._on_path(view, where.lineage)

    def _on_path(self, view: RowView, lineage: Sequence[BranchSpan]) -> Mask:
        """Return a mask of the rows on a path of branch spans; rows without a branch are on every path."""
        upto = {self._branches[span.branch_id]: -1 for span in lineage if span.branch_id in self._branches}
        for span in lineage:
            code = self._branches.get(span.branch_id)
            if code is not None:
                upto[code] = max(upto[code], span.upto_depth)
        if len(upto) > _FEW_SPANS:
            limits = np.full(len(self._branches), -1, dtype=np.int64)
            limits[[_NO_BRANCH, *upto]] = [_ANY_DEPTH, *upto.values()]
            found: Mask = view.depth <= limits[view.branch]
            return found
        found = view.branch == _NO_BRANCH
        for code, depth in upto.items():
            found |= (view.branch == code) & (view.depth <= depth)
        return found

    def _rank_best(self, slots: npt.NDArray[np.int64], scores: npt.NDArray[np.float64], limit: int) -> Hits:
        return rank_rows(slots, scores, limit, self._ids, self._columns.view(len(self._ids)))

    def _append(self, rows: Sequence[IndexRow]) -> None:
        # A table of an older release may hold an id twice; the row written last counts.
        rows = tuple({row.entry_id: row for row in rows}.values())
        first = len(self._ids)
        for row in rows:
            self._remove_slot(row.entry_id)
            self._places[row.entry_id] = len(self._ids)
            self._ids.append(row.entry_id)
        self._write_row(rows)
        self._columns.write(
            first,
            [_CHAINS[row.chain] for row in rows],
            [self._branches.setdefault(row.branch_id, len(self._branches)) for row in rows],
            [row.depth for row in rows],
            [row.sequence for row in rows],
            [bool(row.model) and row.model == self._model for row in rows],
        )
        self._postings.append([row.tokens for row in rows])
        self._keep_vectors(first, rows)

    def _write_row(self, rows: Sequence[IndexRow]) -> None:
        model = next((row.model for row in reversed(rows) if row.model), self._model)
        if model != self._model:
            # Another model's vectors are in another space: they are dropped, and computed again gradually.
            self._model = model
            self._vectors.forget()
            self._columns.seen[:] = False
            self._columns.has_vector[:] = False

    def _keep_vectors(self, first: int, rows: Sequence[IndexRow]) -> None:
        given = [(first + place, row.vector) for place, row in enumerate(rows) if row.vector is not None]
        given = [(slot, vector) for slot, vector in given if rows[slot - first].model == self._model]
        if not given:
            return
        slots = [slot for slot, _ in given]
        self._vectors.put(slots, [vector for _, vector in given], len(self._ids))
        self._columns.has_vector[slots] = True

    def _remove_slot(self, entry_id: str) -> None:
        slot = self._places.pop(entry_id, None)
        if slot is not None:
            self._columns.alive[slot] = False

    def _pack(self) -> None:
        rows = len(self._ids)
        self._last_admitted = None
        keep = self._columns.alive[:rows].copy()
        self._postings.compact(keep)
        self._ids = [entry_id for entry_id, alive in zip(self._ids, keep, strict=True) if alive]
        self._places = {entry_id: slot for slot, entry_id in enumerate(self._ids)}
        self._columns.pack(keep)
        self._vectors.pack(keep)


class WordSearch:
    """The words that `ScopeTable.find_words` found in the pools of one table."""

    __slots__ = ("_found", "_ids", "_owners", "_view")

    def __init__(self, found: FoundWords, owners: Owners, ids: Sequence[str], view: RowView) -> None:
        self._found, self._owners, self._ids, self._view = found, owners, ids, view

    @property
    def counts(self) -> Sequence[TermCounts]:
        """Statistics of the terms in each pool."""
        return self._found.counts

    def rank(self, terms: Mapping[str, float], counts: Sequence[TermCounts], limits: Sequence[int]) -> list[Hits]:
        """Return the best rows of each pool by BM25, among the rows that contain a term. `limits` has the maximum for each pool.

        `FoundWords.scores` explains `counts`.
        """
        scores = self._found.scores(terms, counts)
        ranked = []
        for pool, limit in enumerate(limits):
            own = np.where(self._owners == pool, scores, 0.0) if len(limits) > 1 else scores
            slots = np.flatnonzero(own >= max(_find_threshold(own, limit), np.finfo(np.float64).tiny))
            ranked.append(rank_rows(slots, own[slots], limit, self._ids, self._view))
        return ranked


def rank_rows(
    slots: npt.NDArray[np.int64], scores: npt.NDArray[np.float64], limit: int, ids: Sequence[str], view: RowView
) -> Hits:
    """Return the best `limit` rows of `slots` by `scores`, best first. Rows with equal scores are ordered by id.

    `ids` are the entry ids by slot, and `view` has the columns of the table.
    """
    if not len(slots):
        return NO_HITS
    if len(slots) > limit:
        least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
        keep = scores >= least
        slots, scores = slots[keep], scores[keep]
    # In order except for equal scores, which are ordered by id.
    names = [ids[slot] for slot in slots.tolist()]
    order = [place for _, _, place in sorted(zip((-scores).tolist(), names, range(len(names)), strict=True))][:limit]
    slots = slots[order]
    return Hits(
        entry_ids=tuple([names[place] for place in order]),
        scores=tuple(scores[order].tolist()),
        depths=tuple(view.depth[slots].tolist()),
        sequences=tuple(view.sequence[slots].tolist()),
    )


def _has_chain(codes: npt.NDArray[np.int8], chains: Collection[Chain]) -> Mask:
    wanted = np.zeros(len(_CHAINS), dtype=np.bool_)
    wanted[[_CHAINS[chain] for chain in chains]] = True
    return wanted.take(codes)


def _find_threshold(scores: Scores, limit: int) -> float:
    """Return a score that at least `limit` of `scores` reach (0 if there are fewer), found in one pass over blocks.

    The `limit` greatest block maxima are `limit` scores, so the best `limit` of all are not smaller.
    """
    blocks = len(scores) // _BLOCK
    if blocks <= limit:
        return 0.0
    tops = scores[: blocks * _BLOCK].reshape(blocks, _BLOCK).max(axis=1)
    return float(np.partition(tops, blocks - limit)[blocks - limit])

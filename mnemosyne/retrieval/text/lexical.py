"""Computes BM25 scores of documents in memory. Documents are added one by one, without a rebuild.

BM25 is a score for how well the words of a document fit a query. Each document has a slot: the n-th added document has the slot
n-1, until `compact`. A posting states that a term occurs in a slot, and how often. The caller's mask decides which slots count:
a document that is removed, hidden or on another branch stays here, but does not influence any score. This module must not import
an engine or an embedder.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mnemosyne.core.codec import Struct
from mnemosyne.retrieval.text.posting_tail import NEWEST_DOCUMENTS, Parts, PostingTail, Slots, stable_order
from mnemosyne.retrieval.text.words import word_tokens

__all__ = ["K1", "B", "FoundWords", "Postings", "TermCounts", "inverse_frequency", "term_weights", "word_tokens"]

K1 = 1.2
"""Parameter of BM25: the greater, the more a repeated term counts."""
B = 0.75
"""Parameter of BM25 (0..1): the greater, the less a term counts in a long document."""
INT_BYTES = sys.getsizeof(1)
_TOGETHER = 1 << 15

Mask = npt.NDArray[np.bool_]
"""One flag per slot: whether the slot counts."""
Scores = npt.NDArray[np.float64]
"""One score per slot."""
Owners = npt.NDArray[np.int64]
"""For each slot, the number of the pool to which it belongs. A pool is a set of slots that is searched by itself."""


def inverse_frequency(documents: int, holding: int) -> float:
    """Return the inverse document frequency log(1 + (N - n + .5) / (n + .5)) of a term (as in Lucene).

    N is `documents`, the number of all documents; n is `holding`, the number of those that contain the term. Unlike in plain
    BM25, the result is above 0 even for a term that most documents contain.
    """
    return math.log(1.0 + (documents - holding + 0.5) / (holding + 0.5))


def inverse_frequencies(documents: int, holding: npt.NDArray[np.int64]) -> Scores:
    """Return `inverse_frequency` for each number in `holding`."""
    ratios = 1.0 + (documents - holding + 0.5) / (holding + 0.5)
    # The logarithm of the C library, because numpy's differs in the last bit between processors.
    return np.array([*map(math.log, ratios.tolist())], dtype=np.float64)


def term_weights(text: str) -> dict[str, float]:
    """Return the terms of `text` with their counts as weights, in order of first appearance."""
    return {term: float(count) for term, count in Counter(word_tokens(text)).items()}


class TermCounts(Struct, frozen=True, kw_only=True):
    """Statistics of a collection by which words are weighted: its documents, its tokens, and how many documents
    contain each term.
    """

    documents: int
    tokens: int
    holding: npt.NDArray[np.int64]
    """Number of documents that contain each term, in the order of the terms."""

    def __add__(self, other: TermCounts) -> TermCounts:
        return TermCounts(
            documents=self.documents + other.documents,
            tokens=self.tokens + other.tokens,
            holding=self.holding + other.holding,
        )


class _Part(NamedTuple):
    """Some postings; those of one slot are in the order of their terms."""

    terms: npt.NDArray[np.signedinteger]
    slots: Slots
    counts: Parts
    sizes: Parts
    """Length of each one's document."""


class FoundWords:
    """The postings of some terms, with the statistics of each pool (a set of slots that is searched by itself).

    All pools are scored in the same array operations, because in a small collection each operation costs more than
    its work.
    """

    __slots__ = ("_cells", "_parts", "_slots", "counts")

    def __init__(
        self, *, slots: int, parts: Sequence[_Part], cells: Sequence[Owners], counts: Sequence[TermCounts]
    ) -> None:
        self._slots, self._parts, self._cells, self.counts = slots, parts, cells, counts

    def scores(
        self, terms: Mapping[str, float], counts: Sequence[TermCounts], *, k1: float = K1, b: float = B
    ) -> Scores:
        """Return a BM25 score (>= 0) for each slot, by the statistics of its pool. A slot without a pool scores 0.

        `counts` has the statistics for each pool: of the pool itself, or of the pool together with other collections. The score
        of each term is multiplied by its weight in `terms`. `k1` and `b` are the parameters of BM25.
        """
        found = np.zeros(self._slots, dtype=np.float64)
        flat, slopes = np.float32(k1 * (1.0 - b)), np.zeros(len(counts) + 1, dtype=np.float32)
        scales = np.zeros((len(counts) + 1, len(terms)), dtype=np.float64)
        weights = np.array([*terms.values()], dtype=np.float64)
        for pool, each in enumerate(counts):
            slopes[pool] = k1 * b * each.documents / each.tokens if each.tokens else 0.0
            # A search for possible names has thousands of terms, and few of them are in any document.
            held = np.flatnonzero(each.holding)
            scales[pool, held] = weights[held] * inverse_frequencies(each.documents, each.holding[held]) * (k1 + 1.0)
        slopes = np.repeat(slopes, len(terms))
        for (_, slots, counted, sizes), cells in zip(self._parts, self._cells, strict=True):
            part = sizes * slopes.take(cells)
            part += flat
            part += counted
            np.divide(counted, part, out=part)
            # In the order of the terms, so that a sum does not depend on the parts.
            np.add.at(found, slots, part * scales.take(cells))
        return found


class Postings:
    """For each term, the slots of the documents that contain it, and how often.

    The postings are in a frozen segment (arrays sorted by term) and in a small tail with the newest documents. The tail is
    merged into the segment when it has more than 64 documents and more than an eighth of the segment. In the segment each
    posting stores its document's length with its count, so that scoring a term reads three arrays in order. Not thread-safe.
    """

    def __init__(self) -> None:
        self._vocabulary: dict[str, int] = {}
        self._starts: npt.NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        self._slots: Slots = np.zeros(0, dtype=np.int32)
        self._counts: Parts = np.zeros(0, dtype=np.float32)
        self._sizes: Parts = np.zeros(0, dtype=np.float32)
        self._lengths: Slots = np.zeros(16, dtype=np.int32)
        self._frozen = 0
        self._tail = PostingTail()
        self.documents = 0

    @classmethod
    def restore(cls, words: Sequence[str], arrays: Mapping[str, npt.NDArray[Any]]) -> Postings:
        """Return postings from the result of `freeze`."""
        postings = cls()
        postings._vocabulary = dict(zip(words, range(len(words)), strict=True))
        postings._starts, postings._slots = arrays["starts"], arrays["slots"]
        postings._counts, postings._sizes = arrays["counts"], arrays["sizes"]
        postings._lengths = arrays["lengths"].copy()
        postings.documents = postings._frozen = len(postings._lengths)
        return postings

    def freeze(self) -> tuple[tuple[str, ...], dict[str, npt.NDArray[Any]]]:
        """Return (terms, arrays): the terms, and the arrays with the content of all documents. Do not change the arrays."""
        self._merge_tail()
        arrays: dict[str, npt.NDArray[Any]] = {
            "starts": self._starts,
            "slots": self._slots,
            "counts": self._counts,
            "sizes": self._sizes,
        }
        return tuple(self._vocabulary), {**arrays, "lengths": self.lengths.copy()}

    def memory_bytes(self) -> int:
        """Return about how many bytes the postings take, without the texts of the terms."""
        arrays = (self._starts, self._slots, self._counts, self._sizes, self._lengths)
        codes = sys.getsizeof(self._vocabulary) + len(self._vocabulary) * INT_BYTES
        return sum(each.nbytes for each in arrays) + self._tail.memory_bytes() + codes

    @property
    def lengths(self) -> Slots:
        """The number of tokens of each document, by slot."""
        return self._lengths[: self.documents]

    def append(self, documents: Sequence[Sequence[str]]) -> None:
        """Add documents, each given as its tokens, at the next slots."""
        known = self._vocabulary
        if len(documents) > NEWEST_DOCUMENTS:
            codes = [known.setdefault(term, len(known)) for document in documents for term in document]
            lengths = np.fromiter(map(len, documents), dtype=np.int64, count=len(documents))
            self._freeze(np.asarray(codes, dtype=np.int32), lengths)
            return
        first = self._grow(np.fromiter(map(len, documents), dtype=np.int64, count=len(documents)))
        for slot, document in enumerate(documents, first):
            found = Counter(document)
            self._tail.append(slot, [known.setdefault(term, len(known)) for term in found], found.values())
        if self._tail.documents > NEWEST_DOCUMENTS and self._tail.documents * 8 > self._frozen:
            self._merge_tail()

    def append_codes(self, words: Sequence[str], codes: npt.NDArray[np.int32], lengths: npt.NDArray[np.int64]) -> None:
        """Add documents whose tokens are given as codes.

        `codes` are indexes into `words`, with all documents concatenated. `lengths` has the number of codes of each
        document.
        """
        known = self._vocabulary
        places = np.array([known.setdefault(word, len(known)) for word in words], dtype=np.int32)
        self._freeze(places[codes] if len(codes) else codes, lengths)

    def scores(self, terms: Mapping[str, float], admitted: Mask, *, k1: float = K1, b: float = B) -> Scores:
        """Return a BM25 score (>= 0) for each slot. The score of each term is multiplied by its weight in `terms`.

        Only the slots in the mask `admitted` count for the number and mean length of documents. All other slots score 0.
        """
        found = self.find(terms, np.where(admitted, 0, 1), 1)
        return found.scores(terms, found.counts, k1=k1, b=b)

    def find(self, terms: Collection[str], owners: Owners, pools: int) -> FoundWords:
        """Return the postings of `terms`, with the statistics of each pool. `pools` is the number of pools.

        `owners` has, for each slot, the number of its pool, from 0 on. A slot that does not count has the number `pools`.
        """
        codes = [self._vocabulary.get(term, -1) for term in terms]
        parts, lengths = [*self._frozen_parts(codes), *self._tail_parts(codes)], self.lengths
        cells = [owners.take(part.slots) * len(codes) + part.terms for part in parts]
        holding = np.zeros((pools + 1) * len(codes), dtype=np.int64)
        for each in cells:
            holding += np.bincount(each, minlength=len(holding))
        documents = np.bincount(owners, minlength=pools + 1).tolist()
        # Sums of whole numbers: exact in float64.
        tokens = np.bincount(owners, weights=lengths, minlength=pools + 1).tolist()
        rows = holding.reshape(pools + 1, len(codes))
        counts = [
            TermCounts(documents=documents[pool], tokens=int(tokens[pool]), holding=rows[pool]) for pool in range(pools)
        ]
        return FoundWords(slots=len(lengths), parts=parts, cells=cells, counts=counts)

    def compact(self, keep: Mask) -> None:
        """Drop the slots that are False in `keep`. The others keep their order and get new numbers."""
        self._merge_tail()
        places = np.cumsum(keep, dtype=np.int32) - 1
        live = keep[self._slots]
        owners = np.repeat(np.arange(len(self._starts) - 1, dtype=np.int64), np.diff(self._starts))[live]
        sizes = np.bincount(owners, minlength=len(self._vocabulary))
        self._starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes, dtype=np.int64)])
        self._slots = places[self._slots[live]]
        self._counts, self._sizes = self._counts[live], self._sizes[live]
        self._lengths = self.lengths[keep].copy()
        self.documents = self._frozen = len(self._lengths)

    def _grow(self, lengths: npt.NDArray[np.int64]) -> int:
        first, self.documents = self.documents, self.documents + len(lengths)
        if self.documents > len(self._lengths):
            wider = np.zeros(max(self.documents, 2 * len(self._lengths)), dtype=np.int32)
            wider[:first] = self._lengths[:first]
            self._lengths = wider
        self._lengths[first : self.documents] = lengths
        return first

    def _frozen_parts(self, codes: Sequence[int]) -> Iterator[_Part]:
        """Yield the postings of some terms (-1: an unknown one) in the frozen segment, in their order, at most about `_TOGETHER`
        in a part: more do not fit into the processor's caches.
        """
        starts, known = self._starts, len(self._starts) - 1
        terms: list[int] = []
        spans: list[slice] = []
        waiting = 0
        for term, code in enumerate(codes):
            if 0 <= code < known and (held := int(starts[code + 1] - starts[code])):
                if waiting and waiting + held > _TOGETHER:
                    yield self._frozen_part(terms, spans)
                    terms, spans, waiting = [], [], 0
                terms.append(term)
                spans.append(slice(starts[code], starts[code + 1]))
                waiting += held
        if waiting:
            yield self._frozen_part(terms, spans)

    def _frozen_part(self, terms: Sequence[int], spans: Sequence[slice]) -> _Part:
        held = [span.stop - span.start for span in spans]
        columns = (_gather(column, spans) for column in (self._slots, self._counts, self._sizes))
        return _Part(np.repeat(terms, held), *columns)

    def _tail_parts(self, codes: Sequence[int]) -> Iterator[_Part]:
        """Yield the postings of some terms in the tail."""
        for terms, slots, counts in self._tail.find(codes):
            yield _Part(terms, slots, counts, self._lengths.take(slots).astype(np.float32))

    def _freeze(self, codes: npt.NDArray[np.int32], lengths: npt.NDArray[np.int64]) -> None:
        self._merge_tail()
        first = self._grow(lengths)
        order = stable_order(codes)
        terms, slots = codes[order], np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)[order]
        # Equal pairs of term and slot follow one another now.
        ends = np.flatnonzero(
            np.append((np.diff(terms) != 0) | (np.diff(slots) != 0), np.ones(min(len(terms), 1), bool))
        )
        counts = np.diff(ends, prepend=-1)
        slots = slots[ends]
        self._merge(
            terms[ends].astype(np.int64),
            slots + np.int32(first),
            counts.astype(np.float32),
            lengths[slots].astype(np.float32),
        )

    def _merge_tail(self) -> None:
        if self._tail.documents:
            codes, slots, counts = self._tail.columns()
            self._tail = PostingTail()
            self._merge(codes.astype(np.int64), slots, counts, self._lengths[slots].astype(np.float32))

    def _merge(self, terms: npt.NDArray[np.int64], slots: Slots, counts: Parts, sizes: Parts) -> None:
        if len(self._slots):
            frozen_terms = np.repeat(np.arange(len(self._starts) - 1, dtype=np.int64), np.diff(self._starts))
            terms = np.concatenate([frozen_terms, terms])
            slots, counts = np.concatenate([self._slots, slots]), np.concatenate([self._counts, counts])
            sizes = np.concatenate([self._sizes, sizes])
        if len(terms) and np.any(terms[1:] < terms[:-1]):
            # Later slots come later in the input, so a stable sort by term keeps each list in slot order.
            order = np.argsort(terms, kind="stable")
            terms, slots, counts, sizes = terms[order], slots[order], counts[order], sizes[order]
        self._slots, self._counts, self._sizes = slots, counts, sizes
        held = np.bincount(terms, minlength=len(self._vocabulary))
        self._starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(held, dtype=np.int64)])
        self._frozen = self.documents


def _gather(column: npt.NDArray[Any], spans: Sequence[slice]) -> npt.NDArray[Any]:
    return column[spans[0]] if len(spans) == 1 else np.concatenate([column[span] for span in spans])

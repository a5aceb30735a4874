"""BM25 over documents in memory: postings in numpy to which documents are added one by one, without a rebuild.

A document has a slot: the n-th document added has slot n-1 until `compact`. The caller's mask decides which slots
count, so removing, branching and hiding need nothing here, and hidden documents change no score. Must not import an
engine or an embedder.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mnemosyne.retrieval.text.posting_tail import NEWEST_DOCUMENTS, Parts, PostingTail, Slots, stable_order
from mnemosyne.retrieval.text.words import word_tokens

__all__ = ["K1", "B", "Postings", "TermCounts", "inverse_frequency", "term_weights", "word_tokens"]

K1 = 1.2
B = 0.75
INT_BYTES = sys.getsizeof(1)
_SHORTER = 64

Mask = npt.NDArray[np.bool_]
Scores = npt.NDArray[np.float64]


def inverse_frequency(documents: int, holding: int) -> float:
    """Return Lucene's idf, log(1 + (N - n + .5) / (n + .5)): BM25's idf, kept above 0 for terms that most documents
    contain.
    """
    return math.log(1.0 + (documents - holding + 0.5) / (holding + 0.5))


def term_weights(text: str) -> dict[str, float]:
    """Return the terms of `text` with their counts as weights, in order of first appearance."""
    return {term: float(count) for term, count in Counter(word_tokens(text)).items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class TermCounts:
    """The statistics of a collection by which words are weighed: documents, tokens, and how many documents hold each term."""

    documents: int
    tokens: int
    holding: Mapping[str, int]


class Postings:
    """Slots of each term, with the number of its occurrences: a frozen segment (arrays sorted by term) and a small tail
    of recent documents.

    The tail is merged into the segment when it has more than 64 documents and an eighth of the segment. There each
    posting stores its document's length with its count, so that scoring a term reads three arrays in order. Not
    thread-safe.
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
        """Return the postings that `freeze` gave."""
        postings = cls()
        postings._vocabulary = dict(zip(words, range(len(words)), strict=True))
        postings._starts, postings._slots = arrays["starts"], arrays["slots"]
        postings._counts, postings._sizes = arrays["counts"], arrays["sizes"]
        postings._lengths = arrays["lengths"].copy()
        postings.documents = postings._frozen = len(postings._lengths)
        return postings

    def freeze(self) -> tuple[tuple[str, ...], dict[str, npt.NDArray[Any]]]:
        """Return the terms and the arrays of all documents, which nobody may change; a tail is merged first."""
        self._merge_tail()
        arrays: dict[str, npt.NDArray[Any]] = {
            "starts": self._starts,
            "slots": self._slots,
            "counts": self._counts,
            "sizes": self._sizes,
        }
        return tuple(self._vocabulary), {**arrays, "lengths": self.lengths.copy()}

    def memory_bytes(self) -> int:
        """Return about how many bytes the postings take, without the terms themselves."""
        arrays = (self._starts, self._slots, self._counts, self._sizes, self._lengths)
        codes = sys.getsizeof(self._vocabulary) + len(self._vocabulary) * INT_BYTES
        return sum(each.nbytes for each in arrays) + self._tail.memory_bytes() + codes

    @property
    def lengths(self) -> Slots:
        """The number of tokens of each document, by slot."""
        return self._lengths[: self.documents]

    def append(self, documents: Sequence[Sequence[str]]) -> None:
        """Add documents, each given as its tokens, at the next slots."""
        if len(documents) > NEWEST_DOCUMENTS:
            codes = [self._code(term) for document in documents for term in document]
            lengths = np.fromiter(map(len, documents), dtype=np.int64, count=len(documents))
            self._freeze(np.asarray(codes, dtype=np.int32), lengths)
            return
        first = self._grow(np.fromiter(map(len, documents), dtype=np.int64, count=len(documents)))
        for slot, document in enumerate(documents, first):
            found = Counter(document)
            self._tail.append(slot, [self._code(term) for term in found], found.values())
        if self._tail.documents > NEWEST_DOCUMENTS and self._tail.documents * 8 > self._frozen:
            self._merge_tail()

    def append_codes(self, words: Sequence[str], codes: npt.NDArray[np.int32], lengths: npt.NDArray[np.int64]) -> None:
        """Add documents given as dictionary codes.

        `codes` are indexes into `words`, all documents concatenated; `lengths` has the number of codes of each.
        """
        known = np.fromiter((self._code(word) for word in words), dtype=np.int32, count=len(words))
        self._freeze(known[codes] if len(codes) else codes, lengths)

    def count(self, terms: Mapping[str, float], admitted: Mask) -> TermCounts:
        """Return the statistics of the admitted slots for some terms."""
        hidden = np.flatnonzero(~admitted).astype(np.int32)
        found = {term: slots for term, slots, _, _ in self._find(terms)}
        return TermCounts(
            documents=self.documents - len(hidden),
            tokens=int(self.lengths.sum()) - int(self.lengths[hidden].sum()),
            holding={term: len(slots) - _count_hidden(slots, hidden, admitted) for term, slots in found.items()},
        )

    def scores(
        self,
        terms: Mapping[str, float],
        admitted: Mask,
        *,
        k1: float = K1,
        b: float = B,
        beside: Sequence[TermCounts] = (),
    ) -> Scores:
        """Return a BM25 score (>= 0) for each slot; each term's part is multiplied by its weight.

        Document counts and the mean length are those of the admitted slots and of the collections in `beside`; the
        other slots score 0.
        """
        found = np.zeros(self.documents, dtype=np.float64)
        hidden = np.flatnonzero(~admitted).astype(np.int32)
        documents = self.documents - len(hidden)
        if not documents or not terms:
            return found
        documents += sum(each.documents for each in beside)
        total = int(self.lengths.sum()) - int(self.lengths[hidden].sum()) + sum(each.tokens for each in beside)
        flat, slope = np.float32(k1 * (1.0 - b)), np.float32(k1 * b * documents / total if total else 0.0)
        buffer = np.empty(self.documents, dtype=np.float32)
        for term, slots, counts, sizes in self._find(terms):
            holding = len(slots) - _count_hidden(slots, hidden, admitted)
            if holding:
                part = np.multiply(sizes, slope, out=buffer[: len(slots)])
                part += flat
                part += counts
                np.divide(counts, part, out=part)
                holding += sum(each.holding[term] for each in beside)
                scale = np.float64(terms[term] * inverse_frequency(documents, holding) * (k1 + 1.0))
                np.add.at(found, slots, part * scale)
        found[hidden] = 0.0
        return found

    def compact(self, keep: Mask) -> None:
        """Drop the slots that `keep` excludes; the others keep their order and get new numbers."""
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

    def _code(self, term: str) -> int:
        return self._vocabulary.setdefault(term, len(self._vocabulary))

    def _grow(self, lengths: npt.NDArray[np.int64]) -> int:
        first, self.documents = self.documents, self.documents + len(lengths)
        if self.documents > len(self._lengths):
            wider = np.zeros(max(self.documents, 2 * len(self._lengths)), dtype=np.int32)
            wider[:first] = self._lengths[:first]
            self._lengths = wider
        self._lengths[first : self.documents] = lengths
        return first

    def _find(self, terms: Collection[str]) -> Iterator[tuple[str, Slots, Parts, Parts]]:
        """Yield each term with its slots, ascending, its counts in them, and their lengths."""
        codes = [self._vocabulary.get(term, -1) for term in terms]
        for term, code, (late, late_counts) in zip(terms, codes, self._tail.find(codes), strict=True):
            is_frozen = 0 <= code < len(self._starts) - 1
            start, end = (self._starts[code], self._starts[code + 1]) if is_frozen else (0, 0)
            slots, counts, sizes = self._slots[start:end], self._counts[start:end], self._sizes[start:end]
            if len(late):
                slots, counts = np.concatenate([slots, late]), np.concatenate([counts, late_counts])
                sizes = np.concatenate([sizes, self._lengths[late].astype(np.float32)])
            yield term, slots, counts, sizes

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


def _count_hidden(slots: Slots, hidden: Slots, admitted: Mask) -> int:
    """Return how many of a term's `slots` (ascending) are hidden, searching the longer list for the shorter one's
    members.
    """
    if not len(hidden) or not len(slots):
        return 0
    if len(hidden) * _SHORTER > len(slots):
        return len(slots) - int(np.count_nonzero(admitted.take(slots)))
    places = np.minimum(np.searchsorted(slots, hidden), len(slots) - 1)
    return int(np.count_nonzero(slots[places] == hidden))

"""BM25 must equal rank-bm25's formula; a plain reading of it stands beside ours, with the one idf that may differ."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from mnemosyne.retrieval.text.lexical import Postings, inverse_frequency, term_weights
from mnemosyne.retrieval.text.posting_tail import PostingTail

WORD = st.sampled_from(["key", "templ", "river", "神庙", "钥匙", "guild", "sword", "moon"])
CORPUS = st.lists(st.lists(WORD, max_size=12), min_size=1, max_size=30)


def reference(documents: list[list[str]], terms: dict[str, float], k1: float, b: float) -> list[float]:
    """Return rank-bm25's scores with Lucene's idf; rank-bm25 itself does the counting and the formula."""
    bm25 = BM25Okapi(documents, k1=k1, b=b)
    holding = {term: sum(term in document for document in documents) for term in terms}
    bm25.idf = {
        term: inverse_frequency(len(documents), count) * terms[term] for term, count in holding.items() if count
    }
    return [float(score) for score in bm25.get_scores(list(terms))]


@given(
    CORPUS,
    st.dictionaries(WORD, st.floats(0.1, 5.0), min_size=1),
    st.sampled_from([(1.2, 0.75), (1.5, 0.75), (2.0, 0.0)]),
)
@settings(deadline=None)
def test_scores_equal_rank_bm25(documents: list[list[str]], terms: dict[str, float], form: tuple[float, float]) -> None:
    if not any(documents):
        return
    postings = Postings()
    postings.append(documents)
    k1, b = form
    ours = postings.scores(terms, np.ones(len(documents), dtype=np.bool_), k1=k1, b=b)
    assert ours == pytest.approx(reference(documents, terms, k1, b))


def test_where_its_idf_is_positive_rank_bm25_differs_by_the_idf_alone() -> None:
    documents = [
        ["key", "river"],
        ["key"],
        ["moon", "moon", "river"],
        ["sword"],
        ["guild"],
        ["guild", "sword"],
        ["moon"],
    ]
    postings = Postings()
    postings.append(documents)
    ours = postings.scores({"key": 1.0}, np.ones(len(documents), dtype=np.bool_), k1=1.5)
    theirs = BM25Okapi(documents)
    ratio = inverse_frequency(7, 2) / theirs.idf["key"]
    assert ours == pytest.approx(theirs.get_scores(["key"]) * ratio)


@given(CORPUS, st.data())
@settings(deadline=None)
def test_what_is_not_admitted_changes_no_score(documents: list[list[str]], data: st.DataObject) -> None:
    mask = np.asarray(
        data.draw(st.lists(st.booleans(), min_size=len(documents), max_size=len(documents))), dtype=np.bool_
    )
    terms = {"key": 1.0, "神庙": 2.0}
    whole, part = Postings(), Postings()
    whole.append(documents)
    part.append([document for document, admitted in zip(documents, mask, strict=True) if admitted])
    ours = whole.scores(terms, mask)
    assert ours[mask] == pytest.approx(part.scores(terms, np.ones(int(mask.sum()), dtype=np.bool_)))
    assert not ours[~mask].any()


@given(CORPUS, st.integers(0, 30), st.booleans())
@settings(deadline=None)
def test_growing_by_degrees_equals_building_at_once(documents: list[list[str]], cut: int, coded: bool) -> None:
    at_once, grown = Postings(), Postings()
    at_once.append(documents)
    if coded:
        words = sorted({term for document in documents[:cut] for term in document})
        codes = [words.index(term) for document in documents[:cut] for term in document]
        lengths = np.asarray([len(document) for document in documents[:cut]], dtype=np.int64)
        grown.append_codes(words, np.asarray(codes, dtype=np.int32), lengths)
    else:
        grown.append(documents[:cut])
    for document in documents[cut:]:
        grown.append([document])
    admitted = np.ones(len(documents), dtype=np.bool_)
    terms = {"key": 1.0, "river": 1.0, "钥匙": 0.5}
    assert grown.scores(terms, admitted) == pytest.approx(at_once.scores(terms, admitted))


@given(st.lists(st.lists(st.sampled_from([0, 1, 2, 65_535, 65_536, 65_537, 140_000]), max_size=9), max_size=200))
@settings(deadline=None)
def test_a_tail_finds_what_was_appended(documents: list[list[int]]) -> None:
    tail, expected = PostingTail(), defaultdict[int, list[tuple[int, float]]](list)
    for slot, document in enumerate(documents, 5):
        found = Counter(document)
        tail.append(slot, list(found), found.values())
        for code, count in found.items():
            expected[code].append((slot, float(count)))
        if slot % 50 == 0:
            assert found_in(tail, list(expected)) == list(expected.values())
    asked = [-1, *expected, 7]
    assert found_in(tail, asked) == [expected.get(code, []) for code in asked]
    assert tail.documents == len(documents)
    codes, slots, counts = tail.columns()
    assert list(zip(codes.tolist(), slots.tolist(), counts.tolist(), strict=True)) == [
        (code, *posting) for code in sorted(expected) for posting in expected[code]
    ]


def found_in(tail: PostingTail, asked: list[int]) -> list[list[tuple[int, float]]]:
    found: list[list[tuple[int, float]]] = [[] for _ in asked]
    for places, slots, counts in tail.find(asked):
        for place, slot, count in zip(places.tolist(), slots.tolist(), counts.tolist(), strict=True):
            found[place].append((slot, count))
    return found


def test_the_tail_is_folded_in_and_compacted() -> None:
    rng = np.random.default_rng(3)
    documents = [[f"w{word}" for word in rng.integers(0, 60, 5)] for _ in range(2_600)]
    postings = Postings()
    postings.append(documents[:1_100])
    for document in documents[1_100:]:
        postings.append([document])
    keep = np.arange(len(documents)) % 3 == 0
    fresh = Postings()
    fresh.append(documents)
    expected = fresh.scores({"w7": 1.0, "w8": 1.0}, keep)[keep]
    postings.compact(keep)
    assert postings.documents == int(keep.sum())
    assert postings.scores({"w7": 1.0, "w8": 1.0}, np.ones(postings.documents, dtype=np.bool_)) == pytest.approx(
        expected
    )


def test_nothing_asked_or_nothing_there_scores_nothing() -> None:
    postings = Postings()
    assert len(postings.scores({"key": 1.0}, np.zeros(0, dtype=np.bool_))) == 0
    postings.append([[], ["key"]])
    assert not postings.scores({}, np.ones(2, dtype=np.bool_)).any()
    assert not postings.scores({"unheard": 1.0}, np.ones(2, dtype=np.bool_)).any()


def test_term_weights_count_repeats() -> None:
    assert term_weights("keys and the key of 神庙") == {"key": 2.0, "神庙": 1.0}


@given(CORPUS, CORPUS, st.dictionaries(WORD, st.floats(0.1, 5.0), min_size=1))
def test_collections_that_count_together_score_as_one(own, other, terms):
    both, alone, beside = Postings(), Postings(), Postings()
    both.append([*own, *other])
    alone.append(own)
    beside.append(other)
    found = alone.find(terms, np.zeros(len(own), dtype=np.int64), 1)
    counts = beside.find(terms, np.zeros(len(other), dtype=np.int64), 1).counts
    expected = both.scores(terms, np.ones(len(own) + len(other), dtype=np.bool_))[: len(own)]
    assert found.scores(terms, [found.counts[0] + counts[0]]) == pytest.approx(expected)


@given(CORPUS, st.dictionaries(WORD, st.floats(0.1, 5.0), min_size=1), st.data())
@settings(deadline=None)
def test_pools_searched_together_score_to_the_last_bit_as_each_by_itself(documents, terms, data):
    numbers = data.draw(st.lists(st.integers(0, 3), min_size=len(documents), max_size=len(documents)))
    postings, owners = Postings(), np.array(numbers, dtype=np.int64)
    postings.append(documents[: len(documents) // 2])
    for document in documents[len(documents) // 2 :]:
        postings.append([document])
    found = postings.find(terms, owners, 3)
    together = found.scores(terms, found.counts)
    for pool in range(3):
        expected = postings.scores(terms, owners == pool)
        assert together[owners == pool].tolist() == expected[owners == pool].tolist()
    assert not together[owners == 3].any()

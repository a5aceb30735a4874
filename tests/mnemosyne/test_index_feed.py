"""What an entry is found by: neighbours of talk, added one message at a time or all at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Literal

import anyio
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recall_parts import SESSION, WORLD, LetterEmbedder, entry, said, scores_of, where

from mnemosyne import CalibratedEstimator, Chain, MemoryEntry
from mnemosyne.core.errors import EmbedderUnavailableError
from mnemosyne.protocols import Vectors
from mnemosyne.retrieval.engines.rows import date_words, neighbour_key
from mnemosyne.retrieval.engines.tables.memory import MemoryIndex
from mnemosyne.retrieval.recall.entry_list import EntryList
from mnemosyne.retrieval.recall.indexing.indexer import Indexer
from mnemosyne.retrieval.recall.indexing.text_vectors import TextVectors
from mnemosyne.retrieval.text.preview import preview
from mnemosyne.retrieval.text.words import word_tokens

pytestmark = pytest.mark.anyio
NOON = datetime(2024, 5, 8, 12, tzinfo=UTC)

TALK = [
    said("m1", "Mara", "Where did we leave the lantern?", 1, at=NOON),
    said("m2", "Ilvane", "By the old mill, under the stairs.", 1, at=NOON),
    said("m3", "Mara", "And the silver key?", 2, at=NOON),
    said("m4", "Ilvane", "I never had it.", 2, at=NOON),
    said("m5", "Mara", "Then the ferryman has it.", 3, at=NOON + timedelta(days=2)),
]


async def found(index: MemoryIndex, text: str) -> dict[str, float]:
    hits = await index.search_text(text, where(SESSION), 50)
    return scores_of(hits)


async def test_a_message_is_found_by_its_neighbours_words_but_less_than_by_its_own() -> None:
    index = MemoryIndex()
    await Indexer(EntryList(TALK), index, None).index_new(SESSION)
    scores = await found(index, "lantern")
    assert set(scores) == {"m1", "m2", "m3"}
    assert scores["m1"] > max(scores["m2"], scores["m3"])


async def test_messages_of_another_sitting_are_no_neighbours() -> None:
    index = MemoryIndex()
    await Indexer(EntryList(TALK), index, None).index_new(SESSION)
    assert set(await found(index, "ferryman")) == {"m5"}


async def test_no_branch_lends_words_to_another() -> None:
    other = said("x2", "Ilvane", "Ask the dragon.", 1, "side", at=NOON)
    index = MemoryIndex()
    await Indexer(EntryList([TALK[0], other, TALK[1]]), index, None).index_new(SESSION)
    assert set(await found(index, "dragon")) == {"x2"}
    assert set(await found(index, "lantern")) == {"m1", "m2"}


@pytest.mark.parametrize("by_words_first", [False, True])
@pytest.mark.parametrize("fresh_feeder", [False, True])
async def test_one_by_one_equals_all_at_once(fresh_feeder: bool, by_words_first: bool) -> None:
    model = LetterEmbedder()
    whole, grown = MemoryIndex(), MemoryIndex()
    await Indexer(EntryList(TALK), whole, model).index_new(SESSION)
    source = EntryList()
    feeder = Indexer(source, grown, model)
    for message in TALK:
        source.append([message])
        feeder = Indexer(source, grown, model) if fresh_feeder else feeder
        await feeder.index_new(SESSION, vector_limit=0 if by_words_first else None)
        await feeder.feed(SESSION)
    for text in ("lantern", "key mill", "ferryman", "2024"):
        assert await found(grown, text) == pytest.approx(await found(whole, text))
    query = (await model.embed(["silver key"], "query"))[0]
    one, other = [
        scores_of(await index.search_vector(query, where(SESSION), 9, model="letters")) for index in (whole, grown)
    ]
    assert one == pytest.approx(other, abs=1e-6)
    assert await grown.count(SESSION) == len(TALK)


def passage(document: str, number: int, text: str) -> MemoryEntry:
    metadata = {"document_id": document, "section_id": f"chars:{number}-{number}"}
    made = entry(f"{document}#{number}", text, scope=SESSION, chain=Chain.LORE)
    return replace(made, kind="document", metadata=metadata)


PASSAGES = [
    passage("d1", 0, "The lantern hangs in the mill."),
    passage("d1", 1, "Nobody has lit it for years."),
    passage("d1", 2, "The miller moved away."),
    passage("d1", 3, "His daughter kept the key."),
    entry("lore", "A ferryman waits.", scope=SESSION, chain=Chain.LORE),
    passage("d2", 0, "Bridges are toll-free."),
    passage("d2", 1, "The toll house is a bakery now."),
]


async def test_a_passage_is_found_by_the_passages_around_it_in_its_document_alone() -> None:
    index = MemoryIndex()
    await Indexer(EntryList(PASSAGES), index, None).index_new(SESSION)
    assert set(await found(index, "lantern")) == {"d1#0", "d1#1", "d1#2"}
    assert set(await found(index, "key")) == {"d1#1", "d1#2", "d1#3"}
    assert set(await found(index, "ferryman")) == {"lore"}
    assert set(await found(index, "bakery")) == {"d2#0", "d2#1"}


@pytest.mark.parametrize("fresh_feeder", [False, True])
async def test_passages_one_by_one_equal_all_at_once(fresh_feeder: bool) -> None:
    model = LetterEmbedder()
    whole, grown, filled = MemoryIndex(), MemoryIndex(), MemoryIndex()
    await Indexer(EntryList(PASSAGES), whole, model).index_new(SESSION)
    await Indexer(EntryList(PASSAGES), filled, model).index_new(SESSION, vector_limit=0)
    await Indexer(EntryList(PASSAGES), filled, model).fill_vectors(SESSION)
    source = EntryList()
    feeder = Indexer(source, grown, model)
    for each in PASSAGES:
        source.append([each])
        feeder = Indexer(source, grown, model) if fresh_feeder else feeder
        await feeder.index_new(SESSION)
        await feeder.feed(SESSION)
    for text in ("lantern", "key mill", "toll ferryman"):
        assert await found(grown, text) == pytest.approx(await found(whole, text))
    query = (await model.embed(["silver key"], "query"))[0]
    one, other, third = [
        scores_of(await index.search_vector(query, where(SESSION), 9, model="letters"))
        for index in (whole, grown, filled)
    ]
    assert one == pytest.approx(other, abs=1e-6)
    assert one == pytest.approx(third, abs=1e-6)


async def test_vectors_lean_on_neighbours_and_have_length_one() -> None:
    model, index = LetterEmbedder(letters="xyz"), MemoryIndex()
    talk = [said("a", "", "xxxx", 1), said("b", "", "yyyy", 1), said("c", "", "zzzz", 2)]
    await Indexer(EntryList(talk), index, model).index_new(SESSION)
    towards = (await model.embed(["xxxx"], "query"))[0]
    scores = scores_of(await index.search_vector(towards, where(SESSION), 9, model="letters"))
    assert scores["a"] > scores["b"] == pytest.approx(scores["c"])
    assert all(-1.0001 <= score <= 1.0001 for score in scores.values())


async def test_chinese_gets_no_vector_from_a_model_that_does_not_know_it() -> None:
    model, index = LetterEmbedder(), MemoryIndex()
    source = EntryList([entry("en", "the temple gate"), entry("zh", "神庙的大门")])
    await Indexer(source, index, model).index_new(WORLD)
    assert model.embedded == ["the temple gate"]
    query = (await model.embed(["gate"], "query"))[0]
    assert (await index.search_vector(query, where(), 9, model="letters")).entry_ids == ("en",)
    assert await index.unembedded_ids(WORLD, "letters", 9) == ()


async def test_vectors_that_were_left_out_are_made_later_and_only_those() -> None:
    model, index, seen = LetterEmbedder(), MemoryIndex(), []
    source = EntryList([*TALK, entry("lore", "a note of the session", Chain.NARRATIVE, depth=1, branch_id="main")])
    await Indexer(source, index, None).index_new(SESSION)
    feeder = Indexer(source, index, model)
    fed = await feeder.fill_vectors(SESSION, lambda done, total: seen.append((done, total)))
    assert fed.entries == len(TALK) + 1
    assert seen[-1] == (len(TALK) + 1, len(TALK) + 1)
    before = len(model.embedded)
    assert (await feeder.fill_vectors(SESSION)).entries == 0
    assert len(model.embedded) == before
    assert await found(index, "lantern")


async def test_sessions_that_begin_alike_share_vectors_until_the_first_is_forgotten() -> None:
    model = LetterEmbedder()
    vectors = TextVectors(model, least_fitness=0.0, shared=None)
    for scope in ("session:a", "session:b"):
        assert await vectors.embed(scope, TALK) == ""
    assert len(model.embedded) == len(TALK)
    for each in TALK:
        one, other = (vectors.find(scope, each) for scope in ("session:a", "session:b"))
        assert one is not None
        assert other is not None
        assert one.tolist() == other.tolist()
    vectors.forget("session:a")
    await vectors.embed("session:c", TALK[:1])
    assert len(model.embedded) == len(TALK) + 1


async def test_more_new_entries_than_the_limit_get_words_only() -> None:
    model, index = LetterEmbedder(), MemoryIndex()
    await Indexer(EntryList(TALK), index, model).index_new(SESSION, vector_limit=3)
    assert model.embedded == []
    assert len(await index.unembedded_ids(SESSION, "letters", 99)) == len(TALK)
    assert await found(index, "lantern")


class Meddler(LetterEmbedder):
    """Lets something happen while a text is embedded."""

    def __init__(self, meddle: Callable[[], Awaitable[object]]) -> None:
        super().__init__()
        self.meddle: list[Callable[[], Awaitable[object]]] = [meddle]

    async def embed(self, texts: Sequence[str], purpose: Literal["query", "document"]) -> Vectors:
        while self.meddle:
            await self.meddle.pop()()
        return await super().embed(texts, purpose)


async def test_what_is_erased_while_it_is_embedded_does_not_come_back() -> None:
    index, source = MemoryIndex(), EntryList(TALK[:4])

    async def erase() -> None:
        source.remove([TALK[1]])
        await index.drop(SESSION)
        await feeder.rebuild(SESSION)

    feeder = Indexer(source, index, Meddler(erase))
    await feeder.index_new(SESSION, vector_limit=0)
    await feeder.feed(SESSION)
    assert set(await found(index, "mill lantern key")) == {"m1", "m3", "m4"}
    assert not await found(index, "stairs")
    assert await index.unembedded_ids(SESSION, "letters", 9) == ()


async def test_a_message_that_gains_a_neighbour_while_it_is_embedded_has_it_in_its_vector() -> None:
    model, whole, grown = LetterEmbedder(), MemoryIndex(), MemoryIndex()
    await Indexer(EntryList(TALK[:4]), whole, model).index_new(SESSION)
    source = EntryList(TALK[:2])

    async def say_more() -> None:
        source.append(TALK[2:4])
        await feeder.index_new(SESSION, vector_limit=0)
        assert await found(grown, "silver")

    feeder = Indexer(source, grown, Meddler(say_more))
    await feeder.index_new(SESSION, vector_limit=0)
    await feeder.feed(SESSION)
    query = (await model.embed(["silver key"], "query"))[0]
    one, other = [
        scores_of(await index.search_vector(query, where(SESSION), 9, model="letters")) for index in (whole, grown)
    ]
    assert one == pytest.approx(other, abs=1e-6)


async def test_a_feed_that_was_cancelled_is_continued() -> None:
    index = MemoryIndex()
    source = EntryList([said(f"m{number}", "Mara", f"line {number}", number) for number in range(40)])

    async def cancel() -> None:
        running.cancel()
        await anyio.lowlevel.checkpoint()

    feeder = Indexer(source, index, Meddler(cancel))
    await feeder.index_new(SESSION, vector_limit=0)
    with anyio.CancelScope() as running:
        await feeder.feed(SESSION)
    assert len(await index.unembedded_ids(SESSION, "letters", 99)) == 40
    assert await feeder.lacks_vectors(SESSION)
    assert not await feeder.lacks_vectors(SESSION, besides={f"m{number}" for number in range(40)})
    await feeder.feed(SESSION)
    assert await index.unembedded_ids(SESSION, "letters", 99) == ()
    assert not await feeder.lacks_vectors(SESSION)


async def test_a_changed_entry_gets_a_new_vector() -> None:
    model, index = LetterEmbedder(letters="xyz"), MemoryIndex()
    source = EntryList([entry("a", "xxxx"), entry("b", "zzzz")])
    feeder = Indexer(source, index, model)
    await feeder.index_new(WORLD)
    source.append([entry("a", "yyyy")])
    source.remove([entry("b", "zzzz")])
    await feeder.index_new(WORLD)
    towards = (await model.embed(["yyyy"], "query"))[0]
    hits = await index.search_vector(towards, where(), 9, model="letters")
    assert hits.entry_ids == ("a",)
    assert hits.scores[0] == pytest.approx(1.0, abs=1e-5)


async def test_a_model_that_fails_leaves_words_and_says_why() -> None:
    class Gone(LetterEmbedder):
        async def embed(self, texts: object, purpose: object) -> np.ndarray:  # type: ignore[override,type-arg]
            raise EmbedderUnavailableError("the model has gone fishing")

    index = MemoryIndex()
    fed = await Indexer(EntryList(TALK), index, Gone()).index_new(SESSION)
    assert fed.entries == len(TALK)
    assert "fishing" in fed.fault
    assert await found(index, "lantern")
    assert len(await index.unembedded_ids(SESSION, "letters", 99)) == len(TALK)


async def test_progress_reaches_the_end() -> None:
    seen: list[tuple[int, int]] = []
    entries = [entry(f"e{number}", f"entry {number}") for number in range(300)]
    source, index = EntryList(entries), MemoryIndex()
    await Indexer(source, index, None).index_new(WORLD, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (300, 300)
    assert len(seen) >= 2
    assert all(total == 300 for _, total in seen)


def test_the_key_of_a_message_counts_itself_three_times() -> None:
    key = word_tokens(neighbour_key(TALK[2], [TALK[1], TALK[3]]))
    assert key.count("silver") == 3
    assert key.count("mill") == 1


def test_days_are_words_in_the_language_of_the_entry() -> None:
    chinese = said("m", "玛拉", "钥匙在哪里?", 1, at=NOON)
    assert "2024年5月8日" in date_words(chinese)
    assert date_words(TALK[0]) == "8 May 2024"
    assert date_words(entry("a", "x")) == ""


TEXT = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Z", "S", "M")), max_size=900)


@given(TEXT, st.integers(3, 120))
@settings(deadline=None)
def test_a_preview_fits_and_is_the_beginning(text: str, limit: int) -> None:
    estimator = CalibratedEstimator()
    shown = preview(text, estimator, limit)
    whole = text.strip()
    assert estimator.estimate(shown) <= limit
    if estimator.estimate(whole) <= limit:
        assert shown == whole
    else:
        assert shown.endswith("…")
        assert whole.startswith(shown[:-1])
        assert len(shown) <= len(whole)


def test_a_preview_ends_with_a_sentence_where_it_can() -> None:
    text = "The mill is old. " * 60
    assert preview(text, CalibratedEstimator(), 30).endswith("old.…")
    chinese = preview("神庙的大门只有银钥匙才能打开。" * 40, CalibratedEstimator(), 50)
    assert chinese.endswith("打开。…")
    assert preview("short", CalibratedEstimator(), 30) == "short"


async def test_entry_lists_number_what_they_are_given() -> None:
    one, two, other = entry("a", "one"), entry("b", "two"), entry("a", "told anew")
    lists = EntryList([one, two])
    lists.append([other])
    lists.remove([two])
    place = (WORLD, one.chain)
    written = await lists.entries_after(*place, 0, 9)
    assert [(item.sequence, item.entry, item.deleted) for item in written] == [
        (1, one, False), (2, two, False), (3, other, False), (4, two, True),
    ]  # fmt: skip
    assert await lists.entries_after(*place, 1, 2) == written[1:3]
    assert await lists.entries(WORLD, ["b", "a", "c"]) == (other,)
    assert await lists.chains_written_after({place: 3}) == {place}
    assert await lists.chains_written_after({place: 4}) == frozenset()

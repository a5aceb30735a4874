"""An index whose embedder is no longer the configured one: the former serves until the new vectors are made beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import anyio
import pytest
from recall_parts import SESSION, LetterEmbedder, question, said

from mnemosyne import (
    CalibratedEstimator,
    Embedder,
    MemoryEntry,
    Recall,
)
from mnemosyne.protocols import Vectors
from mnemosyne.retrieval.engines.tables.memory import MemoryIndex
from mnemosyne.retrieval.engines.tiered_index import TieredIndex
from mnemosyne.retrieval.recall.entry_list import EntryList
from mnemosyne.retrieval.recall.hybrid import HybridRetriever
from mnemosyne.schema.memory import staged_scope

pytestmark = pytest.mark.anyio

WORDS = ("lantern", "key", "ferry", "wolf", "mill", "altar", "bell", "storm", "coin", "otter")
OLD, NEW = "old-letters", "new-letters"


def talk(count: int, first: int = 0) -> list[MemoryEntry]:
    places = range(first, first + count)
    return [said(f"m{at}", "Mara", f"The {WORDS[at % 10]} of day {at} was lost.", at + 1) for at in places]


def former(name: str) -> Embedder | None:
    return LetterEmbedder(name) if name == OLD else None


def nobody(name: str) -> Embedder | None:
    return None


def retriever(
    index: TieredIndex | MemoryIndex,
    source: EntryList,
    embedder: Embedder,
    open_former: Callable[[str], Embedder | None] = former,
) -> HybridRetriever:
    return HybridRetriever(
        source,
        index,
        embedder,
        CalibratedEstimator(),
        inline_vectors=0,
        vector_patience_seconds=60.0,
        open_former=open_former,
    )


def asked() -> object:
    return question("Where did the lantern go?", depth=1000)


def vectors_in(recall: Recall) -> int:
    return sum(each.signals.vector is not None for each in recall.candidates)


async def indexed(folder: Path, source: EntryList, **more: int) -> None:
    """Leave an index with the old embedder's vectors."""
    one = retriever(TieredIndex(folder, **more), source, LetterEmbedder(OLD))
    await one.sync(SESSION)
    assert (await one.recall(asked())).degradations == ()
    await one.close()


def files(folder: Path) -> Iterator[str]:
    return (each.name for each in folder.glob("*.checkpoint"))


async def test_the_former_embedder_serves_until_the_new_one_takes_over_at_once(tmp_path: Path) -> None:
    source = EntryList(talk(40))
    await indexed(tmp_path, source)
    index, embedder = TieredIndex(tmp_path), LetterEmbedder(NEW)
    one = retriever(index, source, embedder)
    assert await index.encoder_of(SESSION) == OLD
    before = await one.recall(asked())
    assert before.degradations == ("encoder_changed",)
    assert vectors_in(before) > 0
    assert embedder.embedded == [], "the configured embedder has no part in it"
    # A message that is written meanwhile is found by words and by the former embedder's vectors.
    source.append(talk(1, first=40))
    assert (await one.recall(asked())).degradations == ("encoder_changed", "vectors_behind")
    await one.feed([SESSION])
    assert await index.encoder_of(SESSION) == NEW
    after = await one.recall(asked())
    assert after.degradations == ()
    assert vectors_in(after) == vectors_in(before) + 1
    assert await index.count(SESSION) == 41
    await one.close()
    assert len([*files(tmp_path)]) == 1, "nothing is left of what was staged"
    again = TieredIndex(tmp_path)
    assert await again.encoder_of(SESSION) == NEW
    assert await again.unembedded_ids(SESSION, NEW, 100) == ()
    await again.close()


async def test_a_former_embedder_that_cannot_be_had_leaves_words_and_is_named(tmp_path: Path) -> None:
    source = EntryList(talk(20))
    await indexed(tmp_path, source)
    index = TieredIndex(tmp_path)
    one = retriever(index, source, LetterEmbedder(NEW), nobody)
    recall = await one.recall(asked())
    assert set(recall.degradations) == {"encoder_missing", "no_vectors"}
    assert recall.candidates
    await one.feed([SESSION])
    assert (await one.recall(asked())).degradations == ()
    assert await index.encoder_of(SESSION) == NEW
    await one.close()


class Halting(LetterEmbedder):
    """An embedder that stops after so many documents, as a process that is ended does."""

    def __init__(self, name: str, most: int) -> None:
        super().__init__(name)
        self.most = most

    async def embed(self, texts: Sequence[str], purpose: Literal["query", "document"]) -> Vectors:
        if purpose == "document" and len(self.embedded) + len(texts) > self.most:
            await anyio.sleep_forever()
        return await super().embed(texts, purpose)


async def test_a_change_that_is_interrupted_is_continued_by_the_next_process(tmp_path: Path) -> None:
    source = EntryList(talk(300))
    await indexed(tmp_path, source)
    halting = Halting(NEW, most=200)
    one = retriever(TieredIndex(tmp_path), source, halting)
    assert vectors_in(await one.recall(asked())) > 0
    with anyio.move_on_after(3):
        await one.feed([SESSION])
    made = len(halting.embedded)
    assert 0 < made <= 200
    assert (await one.recall(asked())).degradations == ("encoder_changed",)
    await one.close()
    index, embedder = TieredIndex(tmp_path), LetterEmbedder(NEW)
    other = retriever(index, source, embedder)
    assert (await other.recall(asked())).degradations == ("encoder_changed",)
    await other.feed([SESSION])
    assert await index.encoder_of(SESSION) == NEW
    # The neighbours of the first new message are embedded once more.
    assert len(embedder.embedded) - 8 <= 300 - made <= len(embedder.embedded)
    assert await index.unembedded_ids(SESSION, NEW, 1000) == ()
    await other.close()


async def test_what_was_staged_for_yet_another_embedder_is_dropped(tmp_path: Path) -> None:
    source = EntryList(talk(300))
    await indexed(tmp_path, source)
    one = retriever(TieredIndex(tmp_path), source, Halting("third", most=200))
    await one.recall(asked())
    with anyio.move_on_after(3):
        await one.feed([SESSION])
    await one.close()
    index = TieredIndex(tmp_path)
    other = retriever(index, source, LetterEmbedder(NEW))
    await other.recall(asked())
    await other.feed([SESSION])
    assert await index.encoder_of(SESSION) == NEW
    assert await index.unembedded_ids(SESSION, NEW, 1000) == ()
    await other.close()
    assert len([*files(tmp_path)]) == 1


async def test_an_erased_scope_leaves_nothing_staged(tmp_path: Path) -> None:
    source = EntryList(talk(300))
    await indexed(tmp_path, source)
    index = TieredIndex(tmp_path)
    one = retriever(index, source, Halting(NEW, most=200))
    await one.recall(asked())
    with anyio.move_on_after(3):
        await one.feed([SESSION])
    assert await index.count(staged_scope(SESSION)) > 0
    await index.maintain()
    await index.drop(SESSION)
    assert [*files(tmp_path)] == []
    assert await index.count(staged_scope(SESSION)) == 0
    await index.close()


async def test_a_scope_too_large_for_memory_changes_too(tmp_path: Path) -> None:
    source = EntryList(talk(150))
    await indexed(tmp_path, source, memory_rows=100)
    index = TieredIndex(tmp_path, memory_rows=100)
    # Vectors of another width: both cannot stand in one table.
    one = retriever(index, source, LetterEmbedder(NEW, letters="abcdefghijklmnop"))
    before = await one.recall(asked())
    assert before.degradations == ("encoder_changed",)
    assert await index.engine_of(SESSION) == "disk"
    await one.sync(SESSION)
    assert await index.encoder_of(SESSION) == NEW
    assert await index.count(SESSION) == 150
    after = await one.recall(asked())
    assert after.degradations == ()
    assert vectors_in(after) > 0
    await one.close()


async def test_a_rebuild_changes_the_embedder_and_names_the_former(tmp_path: Path) -> None:
    source = EntryList(talk(30))
    await indexed(tmp_path, source)
    one = retriever(TieredIndex(tmp_path), source, LetterEmbedder(NEW))
    done = await one.rebuild(SESSION)
    assert (done.kept, done.added, done.rebuilt, done.former_encoder) == (30, 0, False, OLD)
    assert (await one.rebuild(SESSION)).former_encoder == ""
    await one.close()


async def test_an_index_in_memory_changes_too() -> None:
    source, index = EntryList(talk(20)), MemoryIndex()
    await retriever(index, source, LetterEmbedder(OLD)).sync(SESSION)
    one = retriever(index, source, LetterEmbedder(NEW))
    assert (await one.recall(asked())).degradations == ("encoder_changed",)
    await one.feed([SESSION])
    assert (await one.recall(asked())).degradations == ()
    assert await index.count(SESSION) == 20

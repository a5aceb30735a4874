"""The player's words are embedded beside the plan and the scene, once; told by events and order, not by a clock."""

from __future__ import annotations

import anyio
import numpy as np
import pytest
from engine_parts import PLANNED, ModelError, ScriptedModel, small_engine

from jacquard import CurationConfig, RuntimeConfig
from jacquard.config.sections import PlannerConfig
from mnemosyne import MemoryStore, RetrievalQuery, StoreUnavailableError
from mnemosyne.core.errors import EmbedderUnavailableError
from mnemosyne.core.off_loop import on_loop
from mnemosyne.retrieval.embedding.prefetching import KEPT, PrefetchingEmbedder
from mnemosyne.retrieval.recall.query_features import vector_texts

pytestmark = pytest.mark.anyio
INPUT = "hm, and then?"
PATIENT = RuntimeConfig(planner=PlannerConfig(timeout_ms=60_000), curation=CurationConfig(deadline_ms=60_000))


class RecordingEmbedder:
    """Notes what it is asked for; a query has begun, and may end, when the events say so."""

    name = "recording"

    def __init__(self, fault=None):
        self.queries, self.begun, self.may_end, self.fault = [], anyio.Event(), anyio.Event(), fault

    async def warm(self):
        return None

    async def fitness(self, text):
        return 1.0

    async def embed(self, texts, purpose):
        if purpose == "query":
            self.queries.append(tuple(texts))
            self.begun.set()
            await self.may_end.wait()
            if self.fault is not None:
                raise self.fault
        return np.full((len(texts), 4), 0.5, dtype=np.float32)


def strings_in(value):
    """Return every string that an object holds, whatever its attributes are called; those of the test's own embedder are not
    counted.
    """
    if isinstance(value, str):
        return [value]
    if isinstance(value, RecordingEmbedder):
        return []
    if isinstance(value, dict):
        return [text for pair in value.items() for each in pair for text in strings_in(each)]
    if isinstance(value, list | tuple):
        return [text for each in value for text in strings_in(each)]
    names = [*getattr(value, "__slots__", ()), *getattr(value, "__dict__", ())]
    return [text for name in names for text in strings_in(getattr(value, name))]


class PlanningModel(ScriptedModel):
    """Plans only once the embedder has begun: were they one after the other, this would wait for ever."""

    def __init__(self, embedder, *steps):
        super().__init__(*steps)
        self.embedder, self.order = embedder, []

    async def generate(self, request):
        if not self.requests:
            self.order.append("plan asked")
            await self.embedder.begun.wait()
            self.order.append("embedding begun")
            self.embedder.may_end.set()
        return await super().generate(request)


@pytest.mark.parametrize("planned", [PLANNED, ModelError("connection", "nobody there")])
async def test_the_words_are_embedded_beside_the_plan_and_once(planned):
    embedder = RecordingEmbedder()
    model = PlanningModel(embedder, planned, "[]")
    with anyio.fail_after(60):
        async with small_engine(model=model, config=PATIENT, embedder=embedder) as (engine, _, _):
            turn = await engine.prepare_turn("s", INPUT)
    assert model.order == ["plan asked", "embedding begun"]
    assert embedder.queries == [(INPUT,)]
    assert turn.plan.tier == (1 if planned is PLANNED else 0)
    assert "embedder_unavailable" not in {each.code for each in turn.report.degradations}


class StoreThatReadsLast(MemoryStore):
    """Reads a session only once the embedder has begun: were they one after the other, this would wait for ever."""

    def __init__(self, embedder):
        super().__init__()
        self.embedder = embedder

    async def turn_inputs(self, *args, **options):
        await on_loop(self.embedder.begun.wait)
        self.embedder.may_end.set()
        return await super().turn_inputs(*args, **options)


async def test_the_words_are_embedded_before_the_session_is_read_and_once():
    embedder = RecordingEmbedder()
    with anyio.fail_after(60):
        async with small_engine(embedder=embedder, config=PATIENT, store=StoreThatReadsLast(embedder)) as (
            engine,
            _,
            _,
        ):
            await engine.prepare_turn("s", INPUT)
    assert embedder.queries == [(INPUT,)]


async def test_a_fault_of_it_harms_no_turn():
    embedder = RecordingEmbedder(EmbedderUnavailableError("no such model"))
    model = PlanningModel(embedder, PLANNED, "[]")
    with anyio.fail_after(60):
        async with small_engine(model=model, config=PATIENT, embedder=embedder) as (engine, _, _):
            turn = await engine.prepare_turn("s", INPUT)
    assert "embedder_unavailable" in {each.code for each in turn.report.degradations}


async def test_where_no_model_plans_the_words_are_embedded_once():
    embedder = RecordingEmbedder()
    embedder.may_end.set()
    with anyio.fail_after(60):
        async with small_engine(embedder=embedder, config=PATIENT) as (engine, _, _):
            await engine.prepare_turn("s", INPUT)
    assert embedder.queries == [(INPUT,)]


@pytest.mark.parametrize(
    ("said", "searched"),
    [
        ("Do you remember the old mill?", [("the old mill?",)]),
        ("(OOC: short, please) I go to the mill.", [("I go to the mill.",)]),
        (
            "I sit down. Where does the miller live?",
            [("I sit down. Where does the miller live?",), ("Where does the miller live?",)],
        ),
    ],
)
async def test_what_is_searched_for_is_embedded_ahead_and_nothing_else(said, searched):
    embedder = RecordingEmbedder()
    embedder.may_end.set()
    with anyio.fail_after(60):
        async with small_engine(embedder=embedder, config=PATIENT) as (engine, _, _):
            await engine.prepare_turn("s", said)
    assert embedder.queries == searched


async def test_what_recall_leans_on_is_known_and_only_what_is_missing_is_made():
    embedder = RecordingEmbedder()
    embedder.may_end.set()
    ahead = PrefetchingEmbedder(embedder)
    await ahead.prefetch("阿岚在哪里？", ["他点头"], ["阿岚"])
    assert embedder.queries == [("阿岚在哪里？",)]
    both = await ahead.embed(("阿岚在哪里？", "他点头"), "query")
    assert both.shape == (2, 4)
    assert embedder.queries[1:] == [("他点头",)]


async def test_other_texts_than_expected_are_made_anew_and_of_inputs_nothing_is_kept():
    embedder = RecordingEmbedder()
    embedder.may_end.set()
    ahead = PrefetchingEmbedder(embedder)
    await ahead.prefetch("the key", ["she nods"])
    await ahead.embed(("another question",), "query")
    texts = (*vector_texts(RetrievalQuery(text="the key", world_id="", recent=("she nods",))),)
    await ahead.embed(texts, "query")
    assert embedder.queries == [texts, ("another question",)]
    await ahead.embed(texts, "query")
    assert embedder.queries[2:] == [("the key",)]
    for number in range(2 * KEPT):
        await ahead.prefetch(f"question {number}")
    assert not [text for text in strings_in(ahead) if "question" in text]
    made = len(embedder.queries)
    await ahead.embed(tuple(f"question {number}" for number in range(KEPT, 2 * KEPT)), "query")
    assert embedder.queries[made:] == []
    await ahead.embed((f"question {KEPT - 1}",), "query")
    assert embedder.queries[made:] == [(f"question {KEPT - 1}",)]


async def test_talk_is_made_once_for_all_that_leans_on_it_until_it_is_to_be_forgotten():
    embedder = RecordingEmbedder()
    embedder.may_end.set()
    ahead = PrefetchingEmbedder(embedder)
    for text in ("she waits", "and then?"):
        await ahead.prefetch_recent(["she nods"])
        await ahead.prefetch(text, ["she nods"])
        await ahead.embed((text, "she nods"), "query")
    assert embedder.queries == [("she nods",), ("she waits",), ("and then?",)]
    ahead.forget()
    await ahead.prefetch_recent(["she nods"])
    await ahead.prefetch_recent([])
    assert embedder.queries[3:] == [("she nods",)]


@pytest.mark.parametrize("fault", [EmbedderUnavailableError("no such model"), ValueError("odd")])
async def test_talk_that_cannot_be_embedded_ahead_is_asked_for_again(fault):
    embedder = RecordingEmbedder(fault)
    embedder.may_end.set()
    ahead = PrefetchingEmbedder(embedder)
    nothing = strings_in(ahead)
    await ahead.prefetch_recent(["she nods"])
    assert strings_in(ahead) == nothing
    embedder.fault = None
    assert (await ahead.embed(("she nods",), "query")).shape == (1, 4)
    assert embedder.queries == [("she nods",), ("she nods",)]


async def test_what_is_forgotten_while_it_is_made_is_not_kept():
    embedder = RecordingEmbedder()
    ahead = PrefetchingEmbedder(embedder)
    async with anyio.create_task_group() as group:
        group.start_soon(ahead.prefetch_recent, ["she nods"])
        await embedder.begun.wait()
        ahead.forget()
        embedder.may_end.set()
    await ahead.embed(("she nods",), "query")
    assert embedder.queries == [("she nods",), ("she nods",)]


async def test_behind_a_turn_the_talk_is_embedded_so_that_the_next_embeds_its_input_alone():
    embedder = RecordingEmbedder()
    embedder.may_end.set()
    with anyio.fail_after(60):
        async with small_engine(embedder=embedder, config=PATIENT) as (engine, _, _):
            await engine.prepare_turn("s", INPUT)
            await engine.commit_assistant_message("s", "She nods.")
            assert await engine.settle(60)
            assert embedder.queries == [(INPUT,), (f"{INPUT}\nShe nods.",)]
            await engine.prepare_turn("s", "she waits")
            assert embedder.queries[2:] == [("she waits",)]
            await engine.commit_assistant_message("s", "She nods again.")
            assert await engine.settle(60)
            await engine.prepare_turn("s", "or rather stay")
            assert embedder.queries[4:] == [("or rather stay",)]


async def test_where_nothing_is_recalled_no_talk_is_embedded():
    embedder = RecordingEmbedder()
    embedder.may_end.set()
    without = RuntimeConfig(curation=CurationConfig(enabled=False))
    async with small_engine(embedder=embedder, config=without) as (engine, _, _):
        await engine.prepare_turn("s", INPUT)
        await engine.commit_assistant_message("s", "She nods.")
        assert await engine.settle(60)
    assert embedder.queries == []


class StoreThatFailsBehind(MemoryStore):
    """Cannot read a turn once one has been committed."""

    def __init__(self, fault):
        super().__init__()
        self.fault, self.has_committed = fault, False

    async def commit_turn(self, session_id, commit, *, expected_version):
        done = await super().commit_turn(session_id, commit, expected_version=expected_version)
        self.has_committed = True
        return done

    async def turn(self, session_id, turn_id):
        if self.has_committed:
            raise self.fault
        return await super().turn(session_id, turn_id)


@pytest.mark.parametrize("fault", [StoreUnavailableError("store.db", "no space"), OSError("odd")])
async def test_a_store_that_fails_behind_a_turn_harms_nothing(caplog, fault):
    embedder = RecordingEmbedder()
    embedder.may_end.set()
    async with small_engine(embedder=embedder, config=PATIENT, store=StoreThatFailsBehind(fault)) as (engine, _, _):
        await engine.prepare_turn("s", INPUT)
        assert (await engine.commit_assistant_message("s", "She nods.")).content == "She nods."
        assert await engine.settle(60)
    assert "could not be read ahead" in caplog.text

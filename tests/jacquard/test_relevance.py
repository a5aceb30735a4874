"""What belongs into a prompt: the floor of relevance, the limits of the flesh, and what is not repeated (decision 0038)."""

from __future__ import annotations

import re
from dataclasses import replace

import anyio
import pytest
from curation_parts import asked, candidate, head, plan
from hypothesis import given, settings
from hypothesis import strategies as st

from jacquard import CurationConfig, EvidenceConfig, HistoryConfig, RuntimeConfig, SummaryConfig, open_runtime
from jacquard.core.plan import SearchIntent, Temporal
from jacquard.core.receipt import CurationPath
from jacquard.pipeline.curation.recall_query import find_searched_text
from jacquard.pipeline.curation.selectors.heuristic import HeuristicSelector
from jacquard.pipeline.curation.selectors.relevance import estimate_relevance
from jacquard.pipeline.curation.stream import Curation, build_stream_report
from mnemosyne import (
    Chain,
    MemoryEntry,
    Recall,
    RetrievalQuery,
    ToolCall,
    WorldPackError,
    load_world,
)
from mnemosyne.schema.memory import THREAD, session_scope
from mnemosyne.schema.record import SessionWindow

SCORE = re.compile(r"score (-?\d\.\d\d) = ")
RELEVANT = re.compile(r"relevant at (\d+)%")
WORLD = """id: mill
title: The mill
locale: en
persona: {name: The Narrator}
user_name: Ilse
entities:
  - {id: jost, name: Jost, aliases: [the miller], kind: person}
state:
  time:
    day: 1
    hour: [9, morning]
  hero: {gold: 3}
story_time: [time.day, time.hour]
"""
LORE = """- id: lore_jost
  name: Jost
  category: agent
  content: Jost is the miller. He lost two fingers to the great wheel.
  entities: [jost]
- id: lore_weir
  name: The weir
  category: encyclopedia
  content: The weir above the village was built by monks.
"""


def pack_at(folder, world=WORLD):
    (folder / "lore").mkdir(parents=True)
    (folder / "world.yaml").write_text(world, encoding="utf-8")
    (folder / "lore" / "people.yaml").write_text(LORE, encoding="utf-8")
    return folder


@pytest.fixture
async def runtime(tmp_path):
    async with open_runtime(tmp_path / "store", world=pack_at(tmp_path / "mill"), embedder="none") as opened:
        await opened.ensure_session("s")
        yield opened


async def play(runtime, text, reply="Very well."):
    turn = await runtime.engine.prepare_turn("s", text)
    await runtime.engine.commit_assistant_message("s", reply)
    return turn


def choose(request):
    return anyio.run(HeuristicSelector().select, request)


def test_a_floor_leaves_out_what_has_nothing_to_do_with_the_input_and_says_how_likely_it_was():
    pool = (
        candidate("jost", "Jost lost two fingers to the great wheel.", 1.0, title="Jost", entities=("jost",)),
        candidate("weir", "The weir was built by monks.", 0.9),
    )
    request = asked(*pool, text="What happened to Jost?", plan_=plan(entities=("jost",)), relevance_floor=0.5)
    selection = choose(request)
    assert selection.entry_ids == ("jost",)
    assert set(selection.below_floor) == {"weir"}
    assert 0 < selection.below_floor["weir"] < 0.5
    assert "by the rules" in selection.why["jost"]


def test_nothing_is_a_normal_answer():
    pool = [candidate(f"c{number}", text) for number, text in enumerate(("Rivers run south.", "Bread is cheap."))]
    selection = choose(asked(*pool, text="I sit down.", relevance_floor=0.5))
    assert selection.entry_ids == ()
    assert len(selection.below_floor) == 2


def test_without_a_floor_the_best_are_chosen_whatever_they_are():
    pool = [candidate(f"c{number}", text) for number, text in enumerate(("Rivers run south.", "Bread is cheap."))]
    assert len(choose(asked(*pool, text="I sit down.")).entry_ids) == 2


@settings(max_examples=60)
@given(st.lists(st.floats(0, 100), min_size=1, max_size=8), st.text(max_size=40))
def test_an_estimate_is_a_share_and_one_more_shared_entity_never_lowers_it(scores, text):
    bare = [candidate(f"c{n}", f"Text {n}.", score) for n, score in enumerate(scores)]
    named = [candidate(f"c{n}", f"Text {n}.", score, entities=("jost",)) for n, score in enumerate(scores)]
    about = plan(entities=("jost",))
    before = estimate_relevance(asked(*bare, text=text, plan_=about))
    after = estimate_relevance(asked(*named, text=text, plan_=about))
    assert all(0 <= low < high <= 1 for low, high in zip(before, after, strict=True))


def test_no_turn_gets_more_than_two_of_the_places():
    texts = ("A red lamp.", "A blue door.", "A green hat.", "A grey cat.")
    pool = [candidate(f"m{n}", text, chain=Chain.HISTORY, turn_id="t1") for n, text in enumerate(texts)]
    other = candidate("other", "A white horse.", 0.1, chain=Chain.HISTORY, turn_id="t2")
    assert choose(asked(*pool, other, limit=5)).entry_ids == ("m0", "m1", "other")


@pytest.mark.anyio
@pytest.mark.parametrize(
    "said", ["Hm.", "嗯", "😀", "/status", "((back in five minutes))", "Ilse: (OOC: a short break)"]
)
async def test_an_input_that_asks_for_nothing_brings_no_memory(runtime, said):
    for _ in range(2):
        turn = await play(runtime, said)
    assert turn.report.stream_b.candidates == ()
    assert "<memory" not in turn.text


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.floats(0, 100), st.sampled_from(["jost", "weir", ""]), st.sampled_from(["t1", "t2", None])),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from([0.0, 0.3]),
)
def test_the_score_that_is_shown_decided_the_place_and_the_floor_who_has_one(found, floor):
    pool = [
        candidate(f"c{n}", f"Text {n} of the mill.", score, entities=(about,) if about else (), turn_id=turn_id)
        for n, (score, about, turn_id) in enumerate(found)
    ]
    request = asked(*pool, text="Jost and the mill?", plan_=plan(entities=("jost",)), relevance_floor=floor, limit=3)
    selection = choose(request)
    recall = Recall(candidates=tuple(pool))
    curation = Curation(path=CurationPath.FALLBACK, code="", reason="", recall=recall, selection=selection)
    reasons = {each.entry_id: (each.code, each.reason) for each in build_stream_report(curation).candidates}
    shown = [float(SCORE.search(reasons[entry_id][1])[1]) for entry_id in selection.entry_ids]
    assert shown == sorted(shown, reverse=True)
    for entry_id, (code, reason) in reasons.items():
        if code == "selected":
            assert float(RELEVANT.search(reason)[1]) + 0.5 >= 100 * selection.floor
        if code == "below_cut":
            own, last = map(float, re.findall(r"-?\d\.\d\d", reason))
            assert own <= last == shown[-1]
        if code == "below_floor":
            assert float(RELEVANT.search(reason)[1]) - 0.5 <= 100 * selection.floor
            assert reason.endswith(f"below the floor of {selection.floor:.0%}.")
        if code == "turn_full":
            turn_id = next(each.turn_id for each in pool if each.entry_id == entry_id)
            assert [each.turn_id for each in pool if each.entry_id in selection.entry_ids].count(turn_id) == 2


@pytest.mark.anyio
async def test_the_receipt_names_the_floor_and_the_engine_keeps_it(runtime):
    turn = await play(runtime, "I sit down on the wall.")
    codes = {each.entry_id: each.code for each in turn.report.stream_b.candidates}
    assert set(codes.values()) <= {"below_floor"}
    turn = await play(runtime, "What happened to Jost's fingers?")
    assert "two fingers" in turn.text
    chosen = {each.entry_id for each in turn.report.stream_b.candidates if each.chosen}
    assert chosen == {"lore_jost"}
    floor = turn.report.stream_b.relevance_floor
    assert floor == RuntimeConfig().curation.relevance_floor_past
    (jost,) = turn.report.stream_b.candidates
    assert f"(floor {floor:.0%})" in jost.reason


@pytest.mark.anyio
async def test_flesh_takes_no_more_tokens_than_it_may_but_the_best_is_always_shown(runtime):
    for number in range(4):
        await play(
            runtime, f"The lamp of room {number} broke.", f"The lamp of room {number} lies in pieces, all of it."
        )
    config = RuntimeConfig(
        curation=CurationConfig(flesh_tokens=1, relevance_floor=0, relevance_floor_past=0),
        history=HistoryConfig(max_messages=2),
    )
    turn = await runtime.engine.prepare_turn("s", "Which lamp broke?", config)
    codes = [each.code for each in turn.report.stream_b.candidates]
    assert codes.count("selected") == 1
    assert "over_tokens" in codes
    assert turn.text.count("<memory ") + turn.text.count("<entry ") == 1


@pytest.mark.anyio
async def test_memories_show_the_time_of_the_story_and_the_names_of_the_speakers(runtime):
    await play(
        runtime,
        "I ask the miller about his fingers.",
        'He shows his hand. <state_update>{"ops": [["SET", "time.day", 2], ["SET", "time.hour", [18, "dusk"]]]}</state_update>',
    )
    for _ in range(3):
        await play(runtime, "Hm.")
    config = RuntimeConfig(
        curation=CurationConfig(relevance_floor=0, relevance_floor_past=0), history=HistoryConfig(max_messages=2)
    )
    turn = await runtime.engine.prepare_turn("s", "What did the miller show me about his fingers?", config)
    memories = [line for line in turn.text.splitlines() if "<memory " in line]
    assert any('time="day: 2, hour: 18 (dusk)"' in line for line in memories)
    assert {'speaker="Ilse"' in line or 'speaker="The Narrator"' in line for line in memories} == {True}
    assert not any(' at="' in line for line in memories)


@pytest.mark.parametrize(("path", "said"), [("time.dya", "did you mean"), ("time", "not a single value")])
def test_a_time_of_the_story_that_is_no_value_is_a_fault_of_the_pack(tmp_path, path, said):
    pack = pack_at(tmp_path / "mill", WORLD.replace("[time.day, time.hour]", f"[{path}]"))
    with pytest.raises(WorldPackError, match=r"world\.yaml.*" + said):
        load_world(pack)


def entry(kind, depth, *, first=None, quest=None):
    metadata = {} if first is None else {"from_turn": first}
    return MemoryEntry(
        entry_id="e",
        scope=session_scope("s"),
        chain=Chain.NARRATIVE,
        kind=kind,
        text="x",
        depth=depth,
        quest_id=quest,
        metadata=metadata,
    )


@pytest.mark.parametrize(
    ("memory", "repeats"),
    [
        (entry("message", 7), True),
        (entry("message", 4), False),
        (entry("macro", 8, first=3), True),
        (entry("macro", 5, first=1), False),
        (entry("macro", 8), False),
        (entry("quest_update", 1, quest="q_open"), True),
        (entry("quest_update", 1, quest="q_done"), False),
    ],
)
def test_what_the_prompt_shows_already_is_not_recalled(memory, repeats):
    query = RetrievalQuery(text="x", world_id="w", shown_from=5, shown_quests=frozenset({"q_open"}))
    assert query.is_in_prompt(memory) is repeats


@pytest.mark.anyio
async def test_a_retry_shows_what_a_tool_returned_meanwhile_and_else_is_the_same_turn(runtime):
    first = await runtime.engine.prepare_turn("s", "How high is the water?")
    again = await runtime.engine.prepare_turn("s", "How high is the water?")
    assert (again.turn_id, again.text) == (first.turn_id, first.text)
    call = ToolCall(tool_call_id="c1", tool="gauge", args_digest={"place": "weir"})
    await runtime.engine.record_tool_call("s", call, result="The gauge stands at two metres ten.")
    third = await runtime.engine.prepare_turn("s", "How high is the water?")
    assert third.turn_id == first.turn_id
    assert "two metres ten" in third.text


@pytest.mark.anyio
async def test_an_old_result_without_a_word_of_the_input_is_left_out_with_a_line(runtime):
    for number, text in enumerate(("Fog at sea.", *(f"Gauge {n} is dry." for n in range(6)))):
        call = ToolCall(tool_call_id=f"c{number}", tool="look", args_digest={"n": number})
        await runtime.engine.record_tool_call("s", call, result=text)
    await play(runtime, "I look around.")
    config = RuntimeConfig(evidence=EvidenceConfig(limit=10))
    turn = await runtime.engine.prepare_turn("s", "Which gauge is dry?", config)
    assert "Fog at sea." not in turn.text
    lines = {each.preview: (each.code, each.reason) for each in turn.report.evidence}
    assert lines["Fog at sea."][0] == "below_floor"
    assert "evidence.relevance_floor" in lines["Fog at sea."][1]


def test_a_rare_character_alone_is_a_word():
    others = [candidate(f"o{n}", f"第{n}天，海上起了雾。", 1.0 - n / 20) for n in range(8)]
    cough = candidate("cough", "老人弯下腰咳起来，用手帕捂着嘴。", 0.5)
    estimates = dict(
        zip(
            [*(each.entry_id for each in others), "cough"],
            estimate_relevance(asked(*others, cough, text="你咳得很厉害")),
            strict=True,
        )
    )
    assert max(estimates, key=lambda name: estimates[name]) == "cough"


SHIPPING = "每单运费 12 元，订单满 199 元免运费。"
HELP = (
    SHIPPING,
    "工作日 15:00 前的订单当天发货。",
    "五个工作日内原路退款。",
    "玻璃灯罩的灯分两箱寄出。",
    "The shipping is 12 crowns.",
)


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("运费多少？", 0),
        ("运费多少钱", 0),
        ("请问运费？", 0),
        ("多少钱免运费？", 0),
        ("几天发货？", 1),
        ("什么时候退款？", 2),
        ("灯罩呢？", 3),
        ("How much is the shipping?", 4),
    ],
)
def test_a_short_question_of_one_word_finds_the_text_that_has_it_without_vectors(question, wanted):
    pool = [candidate(f"c{n}", text, 1.0 - n / 10) for n, text in enumerate(HELP)]
    assert f"c{wanted}" in choose(asked(*pool, text=question, relevance_floor=0.5)).entry_ids


@pytest.mark.parametrize(
    "text",
    ["你好吗？", "多少？", "谁？", "我数运费。", "How many?", "他在哪里？", "好了没？我付运费。", "Ship it please."],
)
def test_a_word_of_asking_alone_and_a_statement_with_one_word_find_nothing(text):
    pool = [candidate(f"c{n}", each, 1.0 - n / 10) for n, each in enumerate(HELP)]
    pool += [candidate(f"d{n}", f"第 {n} 天，灯塔亮着，多少人谁也不知道。", 0.4) for n in range(5)]
    assert choose(asked(*pool, text=text, relevance_floor=0.5)).entry_ids == ()


def test_a_word_that_many_candidates_have_makes_none_of_them_relevant():
    pool = [candidate(f"c{n}", f"第 {n} 单的运费已经付了。", 1.0 - n / 20) for n in range(9)]
    assert choose(asked(*pool, text="运费多少？", relevance_floor=0.5)).entry_ids == ()


def test_who_asks_about_the_past_gets_the_best_of_recall_at_half_of_the_floor():
    pool = [
        candidate(f"c{n}", f"The {word} stood there.", 1.0 - n / 10) for n, word in enumerate(("mill", "inn", "barn"))
    ]
    intent = SearchIntent(enabled=True, temporal_context=Temporal.PAST)
    past = replace(plan(), search_intent=intent)
    request = replace(asked(*pool, text="What did the miller say?"), plan=past)
    first, *_, last = estimate_relevance(request)
    found = choose(replace(request, relevance_floor=1.9 * first))
    assert found.entry_ids == ("c0",)
    assert f"(floor {0.95 * first:.0%})" in found.why["c0"]
    assert choose(replace(request, relevance_floor=2.1 * first)).entry_ids == ()
    assert choose(replace(request, plan=plan(), relevance_floor=1.9 * first)).entry_ids == ()
    assert len(choose(replace(request, relevance_floor=last)).entry_ids) == 3


def test_a_key_of_a_lore_entry_in_the_input_is_as_good_as_its_name():
    keyed = replace(candidate("weir", "It hides an iron sluice.", 0.4, title="The sluice"), keys=("weir",))
    (estimate,) = estimate_relevance(asked(keyed, text="What lies beside the weir?"))
    (without,) = estimate_relevance(asked(replace(keyed, keys=()), text="What lies beside the weir?"))
    assert estimate > 0.5 > without


@pytest.mark.parametrize(
    ("said", "searched"),
    [
        ("我记得第一次上岛时你咳得很厉害", "第一次上岛时你咳得很厉害"),
        ("保险箱的密码是多少来着？", "保险箱的密码是多少 ？"),
        ("Do you remember when we met Jost?", "we met Jost?"),
        ("Joss (Ilse): where is the weir?", "where is the weir?"),
        ("Ilse: where is the weir?", "where is the weir?"),
        ("Note: where is the weir?", "Note: where is the weir?"),
        ("I remember.", "I remember."),
    ],
)
def test_what_is_searched_for(tmp_path, said, searched):
    world = load_world(pack_at(tmp_path / "mill"))
    window = SessionWindow(head=head(), messages=(), state={})
    assert find_searched_text(said, window, world) == searched


@pytest.mark.parametrize(
    ("asking", "saying"),
    [
        (
            "Where did Jost lose two fingers, in the mill, in the inn or at the weir?",
            "Jost fixes the mill, the inn, the weir.",
        ),
        ("约斯特在磨坊干活时伤了哪里？", "约斯特去磨坊拿东西，再到酒馆坐着。"),
    ],
)
def test_an_input_that_asks_nothing_needs_a_memory_that_fits_better(asking, saying):
    pool = [candidate("c0", "Jost bakes. 约斯特在烤面包。", 1.0), candidate("c1", "Bread is cheap. 面包很便宜。", 0.9)]
    for text, factor in ((asking, 1.0), (saying, 1.3)):
        request = asked(*pool, text=text)
        likely = estimate_relevance(request)[0]
        assert choose(replace(request, relevance_floor=0.99 * likely / factor)).entry_ids == ("c0",)
        assert choose(replace(request, relevance_floor=1.01 * likely / factor)).entry_ids == ()


def test_words_of_the_question_before_it_make_an_answer_relevant():
    def estimate_answer(question, turn_id):
        pool = [
            candidate("t1.u", question, 1.0, chain=Chain.HISTORY, turn_id="t1"),
            candidate("t1.a", "The ninth of September.", 0.5, chain=Chain.HISTORY, turn_id=turn_id),
        ]
        return estimate_relevance(asked(*pool, text="I buy flour. When is the birthday of Grandmother?"))[1]

    without = estimate_answer("I ask Ilse for bread.", "t1")
    said = estimate_answer("I ask Ilse for flour.", "t1")
    asked_for = estimate_answer("I ask Ilse for her birthday.", "t1")
    assert without < said < asked_for
    assert estimate_answer("I ask Ilse for her birthday.", "t2") == without


def test_with_a_floor_the_more_relevant_memory_comes_before_the_better_of_recall():
    pool = (
        candidate("c0", "Jost bakes bread.", 1.0),
        candidate("c1", "Jost lost two fingers to the great wheel.", 0.9),
    )
    request = asked(*pool, text="How did Jost lose two fingers to the wheel?")
    assert choose(request).entry_ids == ("c0", "c1")
    selection = choose(replace(request, relevance_floor=0.01))
    assert selection.entry_ids == ("c1", "c0")
    assert "of the best in recall and relevance" in selection.why["c1"]


def test_a_thread_takes_the_place_of_its_message_only_if_it_has_most_of_it():
    promise = "I promise to keep it a secret."

    def choose_of(message):
        pool = (
            candidate("t1.a", message, 1.0, chain=Chain.HISTORY, turn_id="t1"),
            replace(candidate("t1.thread.1", promise, 0.9, chain=Chain.EVENT, turn_id="t1"), kind=THREAD),
        )
        selection = choose(asked(*pool, text="What did I promise to keep secret?"))
        return selection.entry_ids, dict(selection.folded)

    assert choose_of(f"Well. {promise}") == (("t1.thread.1",), {"t1.a": "t1.thread.1"})
    long = f"The ship struck the third rock of the reef, and the owner must never learn of it. {promise}"
    assert choose_of(long) == (("t1.a",), {"t1.thread.1": "t1.a"})


def test_the_word_for_grandmother_is_a_word_of_an_input():
    pool = [candidate("c0", "外婆坐在窗下剥橘子。", 1.0), candidate("c1", "老何坐在窗下喝茶。", 1.0)]
    first, second = estimate_relevance(asked(*pool, text="外婆呢？"))
    assert first > second


TALKS = {
    "en": (
        ("My brother Tom lives in Lisbon.", "He plays the cello in an orchestra.", "I bought new shoes."),
        ("Mara is my cousin. She works at the harbour.", "She broke her arm last week.", "The train was late."),
    ),
    "zh": (
        ("我弟弟叫小明，他住在成都。", "他在乐团里拉大提琴。", "我买了新鞋。"),
        ("王芳是我表姐。她在港口上班。", "她上周摔断了胳膊。", "火车晚点了。"),
    ),
}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("language", "question", "wanted"),
    [
        ("en", "What instrument does my brother play?", "cello"),
        ("en", "Which instrument does Tom play?", "cello"),
        ("en", "What happened to Mara?", "broke her arm"),
        ("en", "What happened to my cousin?", "broke her arm"),
        ("zh", "我弟弟演奏什么乐器？", "大提琴"),
        ("zh", "小明会什么乐器？", "大提琴"),
        ("zh", "王芳怎么了？", "胳膊"),
        ("zh", "我表姐出了什么事？", "胳膊"),
    ],
)
async def test_a_question_shows_what_is_said_of_a_person_without_the_name(language, question, wanted):
    config = RuntimeConfig(
        profile="assistant", history=HistoryConfig(max_messages=2), summary=SummaryConfig(enabled=False)
    )
    async with open_runtime("memory:", embedder="none", config=config) as runtime:
        for said in (*TALKS[language][0], *TALKS[language][1]):
            await play(runtime, said, "好。" if language == "zh" else "I see.")
        turn = await runtime.engine.prepare_turn("s", question)
    assert wanted in turn.text

"""Overviews: an input that asks for everything gets memories of all times, persons and places, and nothing twice."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from servers.scripted_model import ScriptedModel

from jacquard import (
    BudgetConfig,
    CurationConfig,
    HistoryConfig,
    RuntimeConfig,
    SelectorConfig,
    SummaryConfig,
    create_context_engine,
    find_differences,
    open_runtime,
    read_snapshot,
    replay_prompt,
)
from jacquard.core.plan import OverviewScope, plan_from_json, plan_to_json
from jacquard.pipeline.planning.rules import RulePlanner
from mnemosyne import CalibratedEstimator, Chain, MemoryEntry, MemoryStore, RetrievalQuery, load_world
from mnemosyne.retrieval.engines.tables.memory import MemoryIndex
from mnemosyne.retrieval.recall.entry_list import EntryList
from mnemosyne.retrieval.recall.hybrid import HybridRetriever
from mnemosyne.schema.memory import session_scope
from mnemosyne.schema.query import RatedEntry
from mnemosyne.schema.record import SessionWindow
from mnemosyne.schema.session import BranchSpan, SessionHead

WORLDS = Path(__file__).parents[2] / "examples" / "whispering_forest"
PACKS = {locale: load_world(WORLDS / locale) for locale in ("zh", "en")}
PLANNER = RulePlanner()
NO_SUMMARY = RuntimeConfig(
    history=HistoryConfig(max_messages=8),
    summary=SummaryConfig(enabled=False),
    curation=CurationConfig(deadline_ms=600_000),
)
EVERYTHING = {"zh": "整理一下所有线索", "en": "Summarise everything that has happened."}


def plan(locale: str, text: str):
    world = PACKS[locale]
    head = SessionHead(
        session_id="s", world_id=world.world_id, branch_id="main", turn_id=None, depth=0, lineage=(), version=0
    )
    return PLANNER.plan(text, SessionWindow(head=head, messages=(), state=world.state), world)


@pytest.mark.parametrize(
    ("locale", "text", "scope"),
    [
        ("en", "Summarise everything that has happened.", "all"),
        ("en", "sum up all the clues", "all"),
        ("en", "Okay, what do we know so far?", "all"),
        ("en", "Where do things stand?", "all"),
        ("en", "I was away for a week, so bring me up to speed", "all"),
        ("en", "(OOC: what happened so far? I forgot everything)", "all"),
        ("en", "I go through everything I have found out, in my head.", "all"),
        ("en", "What have I left to do, and what do I carry?", "own"),
        ("en", "Do I have any unfinished business?", "own"),
        ("en", "Show me my inventory", "own"),
        ("en", "Remind me who is who", "person"),
        ("en", "Who have I talked to?", "person"),
        ("en", "What have we learned about the chief so far?", "person"),
        ("en", "Recap everything about Tam.", "person"),
        ("en", "Give me a summary of what happened at the mill", "place"),
        ("en", "Where have I been so far?", "place"),
        ("en", "List all my quests", "quest"),
        ("en", "Sum up all that we know about the emerald key.", "thing"),
        ("zh", "整理一下所有线索", "all"),
        ("zh", "总结一下到目前为止发生的一切", "all"),
        ("zh", "我忘了前面发生了什么，帮我捋一遍", "all"),
        ("zh", "目前有什么头绪？", "all"),
        ("zh", "（场外：前情提要）", "all"),
        ("zh", "我身上有什么，还有哪些事没做完？", "own"),
        ("zh", "还有没有没兑现的承诺？", "own"),
        ("zh", "谁是谁来着，再说一遍", "person"),
        ("zh", "我都跟谁打过交道？", "person"),
        ("zh", "我们对白芷了解多少？", "person"),
        ("zh", "磨坊那边的事，把我们知道的都捋一捋", "place"),
        ("zh", "我都去过哪里？", "place"),
        ("zh", "我现在有哪些任务？", "quest"),
        ("zh", "翡翠钥匙的线索整理一下", "thing"),
    ],
)
def test_an_input_that_asks_for_everything_is_an_overview_with_its_scope(locale, text, scope):
    planned = plan(locale, text)
    assert planned.search_intent.overview == scope
    assert planned.template_id == "dense"


@pytest.mark.parametrize(
    ("locale", "text"),
    [
        ("en", "I sum up the coins on the table"),
        ("en", "I go over the bridge and look through the window."),
        ("en", "I list the goods for the buyer."),
        ("en", "What happened at the mill last night?"),
        ("en", "What did I promise Reed?"),
        ("en", "Tell me everything you saw, Tam."),
        ("en", "I tell Reed everything that happened."),
        ("en", "I give Maud a summary of the night."),
        ("en", "Don't sum it up, just go on."),
        ("en", '"Sum it all up," I tell the clerk.'),
        ("en", "How much money have I left, and how am I?"),
        ("en", "What is in his pockets?"),
        ("en", "Who are these people?"),
        ("en", "I take everything out of my bag."),
        ("zh", "我整理一下衣服"),
        ("zh", "我整理背包，把绳子拿出来"),
        ("zh", "我清点人数，一个不少"),
        ("zh", "昨晚磨坊发生了什么？"),
        ("zh", "把你知道的都说出来！"),
        ("zh", "我告诉阿苇发生的一切"),
        ("zh", "不用总结，继续"),
        ("zh", "我说：“把线索都理一遍。”"),
        ("zh", "他身上有什么？"),
        ("zh", "你都见过谁？"),
        ("zh", "阿苇把刚才看到的归纳成一句话：快跑。"),
        ("zh", "我还有多少钱？"),
    ],
)
def test_an_ordinary_input_is_no_overview(locale, text):
    assert plan(locale, text).search_intent.overview is None


def test_a_plan_of_before_is_read_as_one_without_an_overview():
    written = plan_to_json(plan("en", "Recap, please"))
    assert plan_from_json(written).search_intent.overview is OverviewScope.ALL
    del written["search_intent"]["overview"]
    assert plan_from_json(written).search_intent.overview is None
    assert "overview" not in plan_to_json(plan("en", "I sit down."))["search_intent"]


async def prepare(tmp_path: Path, locale: str, embedder: str, text: str, config: RuntimeConfig = NO_SUMMARY):
    async with open_runtime(
        str(tmp_path / "saves"), world=WORLDS / locale, embedder=embedder, config=config
    ) as runtime:
        await runtime.ensure_session("s")
        return await runtime.engine.prepare_turn("s", text)


def chosen_turns(turn) -> list[int]:
    chosen = {each.entry_id: each for each in turn.report.stream_b.candidates if each.chosen}
    ids = [chosen[name].turn_id for name in turn.report.stream_b.selected]
    return [int(turn_id[1:]) for turn_id in ids if turn_id is not None]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("locale", "embedder"),
    [("zh", "none"), ("en", "none"), ("en", "auto"), pytest.param("zh", "auto", marks=pytest.mark.full)],
)
async def test_an_overview_is_told_of_all_times_in_their_order(tmp_path, locale, embedder):
    turn = await prepare(tmp_path, locale, embedder, EVERYTHING[locale])
    turns, receipt = chosen_turns(turn), turn.report.stream_b
    assert len(turns) >= 15
    assert turns == sorted(turns)
    assert all(any(first <= each < first + 6 for each in turns) for first in range(1, 36, 6))
    assert not any(each.code == "below_floor" for each in receipt.candidates)
    assert (receipt.path, receipt.code) == ("heuristic", "overview")
    assert all("overview of everything: " in each.reason for each in receipt.candidates if each.chosen)
    assert any(re.search(r": turn \d+ to \d+;", each.reason) for each in receipt.candidates if each.chosen)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("locale", "text", "wanted", "name"),
    [
        ("en", "Refresh my memory: everything I know about Granny Maud.", {14, 20}, "Granny Maud"),
        ("zh", "芸婆的事，把我们知道的都理一理", {14, 20}, "芸婆"),
    ],
)
async def test_an_overview_of_a_person_tells_of_that_person(tmp_path, locale, text, wanted, name):
    turn = await prepare(tmp_path, locale, "none", text)
    receipt = turn.report.stream_b
    chosen = [each for each in receipt.candidates if each.chosen]
    assert wanted <= set(chosen_turns(turn))
    assert "lore_agent_granny" in receipt.selected
    assert all(f"overview of {name}" in each.reason for each in chosen)
    assert not set(chosen_turns(turn)) & {1, 2, 29, 35}


@pytest.mark.anyio
@pytest.mark.parametrize(("locale", "text"), [("en", "Remind me who is who"), ("zh", "谁是谁，再说一遍")])
async def test_who_is_who_introduces_those_who_were_met(tmp_path, locale, text):
    turn = await prepare(tmp_path, locale, "none", text)
    met = {name for name in turn.report.stream_b.selected if name.startswith("lore_agent_")}
    assert len(met) >= 8
    assert not {"lore_secret_linnet_fate", "lore_secret_finger"} & {
        each.entry_id for each in turn.report.stream_b.candidates
    }


@pytest.mark.anyio
@pytest.mark.parametrize("locale", ["zh", "en"])
async def test_an_overview_repeats_neither_the_window_nor_the_summary(tmp_path, locale):
    told = replace(NO_SUMMARY, summary=SummaryConfig())
    turn = await prepare(tmp_path, locale, "none", EVERYTHING[locale], told)
    chosen = [each for each in turn.report.stream_b.candidates if each.chosen]
    summary = "".join(turn.text.partition("<summary>")[2].partition("</summary>")[0].split())
    assert summary
    assert chosen
    assert not [each for each in chosen if "".join(each.preview.split()) in summary]
    shown = {each.block_id for each in turn.report.decisions if each.source.startswith("history")}
    assert not shown & set(turn.report.stream_b.selected)


@pytest.mark.anyio
@pytest.mark.parametrize("locale", ["zh", "en"])
async def test_nothing_is_said_about_what_is_not_recorded_beside_an_overview(tmp_path, locale):
    remembered = {"zh": "提醒我一下谁是谁，我记得都见过", "en": "Remind me who is who"}
    for text in (EVERYTHING[locale], remembered[locale]):
        guidance = (await prepare(tmp_path, locale, "none", text)).text.partition("<guidance>")[2]
        guidance = guidance.partition("</guidance>")[0]
        assert {"zh": "整体回顾", "en": "asks for an overview"}[locale] in guidance
        for words in ("not recorded", "Invent nothing", "not given", "没有记载", "不要编造", "没有给出"):
            assert words not in guidance


@pytest.mark.anyio
async def test_an_overview_is_the_same_when_it_is_prepared_again_and_replayed(tmp_path):
    store = str(tmp_path / "saves")
    async with open_runtime(store, world=WORLDS / "en", embedder="none", config=NO_SUMMARY) as runtime:
        head = await runtime.ensure_session("s")
        first = await runtime.engine.prepare_turn("s", EVERYTHING["en"])
        record = await runtime.store.turn("s", first.turn_id)
        await runtime.store.fork("s", head.turn_id, "again")
        again = await runtime.engine.prepare_turn("s", EVERYTHING["en"])
    assert again.report.stream_b.selected == first.report.stream_b.selected
    assert again.text == first.text
    snapshot = read_snapshot(record)
    assert snapshot is not None
    assert find_differences(record, replay_prompt(snapshot, CalibratedEstimator().estimate)) == ()


@pytest.mark.anyio
async def test_no_selector_is_asked_for_an_overview_and_its_choice_serves_no_other_turn():
    small, world = ScriptedModel([]), PACKS["en"]
    config = replace(
        NO_SUMMARY,
        curation=CurationConfig(deadline_ms=600_000, lease_turns=5),
        selector=SelectorConfig(name="flash"),
    )
    async with create_context_engine(MemoryStore(), llm_adapter=small, config=config, world=world) as engine:
        await engine.start_session("s", world)
        for text in ("What did the chief say of the temple key?", "Recap everything, please.", "And the temple key?"):
            turn = await engine.prepare_turn("s", text)
            await engine.commit_assistant_message("s", "<content>Rain.</content>")
            if text.startswith("Recap"):
                assert len(turn.report.stream_b.selected) > 6
                assert turn.report.stream_b.lease_refused == ""
    assert small.asked
    assert not any("<current_input>Recap" in text for text in small.asked)


@pytest.mark.anyio
async def test_an_overview_takes_a_part_of_what_the_history_leaves(tmp_path):
    budget = BudgetConfig(max_input_tokens=5_000)
    async with open_runtime(
        str(tmp_path / "saves"), world=WORLDS / "en", embedder="none", config=replace(NO_SUMMARY, budget=budget)
    ) as runtime:
        await runtime.ensure_session("s")
        for text in ("I sit down.", EVERYTHING["en"]):
            turn = await runtime.engine.prepare_turn("s", text)
            await runtime.engine.commit_assistant_message("s", "<content>Rain.</content>")
    assert len(turn.report.stream_b.selected) >= 8
    assert not [each for each in turn.report.decisions if each.action == "dropped"]
    assert turn.report.budget.used_tokens <= budget.prompt_tokens()


@pytest.mark.anyio
async def test_a_long_session_is_told_of_from_its_beginning_to_its_end():
    entries = [
        MemoryEntry(
            entry_id=f"t{turn}.summary",
            scope=session_scope("s"),
            chain=Chain.NARRATIVE,
            kind="turn_summary",
            text=f"On day {turn} Ilse found letter {turn} of the miller Oda.",
            turn_id=f"t{turn}",
            branch_id="main",
            depth=turn,
        )
        for turn in range(1, 12_001)
    ]
    query = RetrievalQuery(
        text="",
        world_id="",
        session_id="s",
        lineage=(BranchSpan(branch_id="main", upto_depth=11_000),),
        limit=30,
        written={(session_scope("s"), Chain.NARRATIVE): 12_000},
        rate=lambda found: [RatedEntry(each, 1.0) for each in found],
    )
    retriever = HybridRetriever(EntryList(entries), MemoryIndex(), None, CalibratedEstimator())
    depths = sorted(each.depth for each in (await retriever.recall(query)).candidates)
    assert len(depths) == 30
    assert depths[0] < 1_000
    assert 10_000 < depths[-1] <= 11_000
    assert all(after - before < 1_500 for before, after in pairwise(depths))


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("locale", "promise", "question"),
    [
        ("en", "I promise Reed that I will bring her moonmint before the thaw.", "What have I left to do?"),
        ("zh", "我答应阿苇，化冻之前一定给她带月薄荷回来。", "还有什么没做完的？"),
    ],
)
async def test_an_open_promise_is_among_what_is_left_to_do(tmp_path, locale, promise, question):
    async with open_runtime(
        str(tmp_path / "saves"), world=WORLDS / locale, embedder="none", config=NO_SUMMARY
    ) as runtime:
        await runtime.ensure_session("s")
        for text in (promise, "…", "…", "…", "…"):
            await runtime.engine.prepare_turn("s", text)
            await runtime.engine.commit_assistant_message("s", "<content>…</content>")
        await runtime.engine.settle(30)
        turn = await runtime.engine.prepare_turn("s", question)
    chosen = [each.preview for each in turn.report.stream_b.candidates if each.chosen]
    assert any(promise[:12] in text for text in chosen)

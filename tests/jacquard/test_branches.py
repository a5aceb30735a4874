"""Retry, swipe, fork and rollback on the real stories: everything follows the branch.

State, talk, events, summaries, recall and late results of Stream B come from ancestors of the head alone, whatever was played
beside. Each story is played in Chinese and in English.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from deadline_parts import deadline_by_hand
from servers.openai_server import OpenAiServer
from typer.testing import CliRunner

from jacquard import (
    CurationConfig,
    HistoryConfig,
    PreparedTurn,
    Runtime,
    RuntimeConfig,
    SelectorConfig,
    SummaryConfig,
    open_runtime,
)
from jacquard.cli.app import app
from mnemosyne import Chain, MemoryEntry, Summary, load_world
from mnemosyne.schema.memory import session_scope
from mnemosyne.schema.record import PathSummary
from mnemosyne.schema.world import WorldPack

pytestmark = pytest.mark.anyio

FORESTS = Path(__file__).parents[2] / "examples" / "whispering_forest"
LAST = "p040"


@dataclass(frozen=True, kw_only=True)
class Story:
    """What is said in one language; `marks` are words that stand nowhere else in the story."""

    language: str
    asked: str
    again: str
    marks: tuple[str, str]
    secret: str
    reminded: str
    bread: str


STORIES = (
    Story(
        language="zh",
        asked="我把五枚金币交给阿苇保管。",
        again="那把钥匙是不是开启神庙的?我记得之前提到过。",
        marks=("青石渡口的白鹭", "赤陶瓮里的蜂蜜"),
        secret="我把暗号说给阿苇听:{}。",
        reminded="我说过的暗号是什么?{}",
        bread="吃一块面包",
    ),
    Story(
        language="en",
        asked="I hand five coins to Reed for safe keeping.",
        again="Is that the key that opens the temple? I remember it came up before.",
        marks=("heron of the slate ferry", "honey in the terracotta urn"),
        secret="I tell Reed the password: {}.",
        reminded="What was the password I told her? {}",
        bread="eat some bread",
    ),
)


@pytest.fixture(params=STORIES, ids=lambda story: story.language)
def story(request: pytest.FixtureRequest) -> Story:
    return request.param


SLOW = pytest.mark.parametrize(
    "story",
    [pytest.param(STORIES[0], id="zh"), pytest.param(STORIES[1], id="en", marks=pytest.mark.full)],
    indirect=True,
)


@cache
def pack(language: str) -> WorldPack:
    return load_world(FORESTS / language)


UNSUMMED = RuntimeConfig(summary=SummaryConfig(enabled=False), curation=CurationConfig(deadline_ms=60_000))
WITHOUT_RECALL = replace(UNSUMMED, curation=CurationConfig(enabled=False))
SUMMED = replace(
    WITHOUT_RECALL,
    summary=SummaryConfig(
        max_summary_tokens=4000, trigger_message_count=2, trigger_token_threshold=1, preserve_recent_messages=0
    ),
    history=HistoryConfig(max_messages=2),
)


@pytest.fixture
async def quiet(tmp_path: Path, story: Story) -> AsyncIterator[Runtime]:
    """A runtime that recalls nothing: for what the store and Stream A alone decide."""
    world = pack(story.language)
    async with open_runtime(tmp_path / "store", world=world, embedder="none", config=WITHOUT_RECALL) as opened:
        await opened.ensure_session("s", index=False)
        yield opened


@pytest.fixture
async def runtime(tmp_path: Path, story: Story) -> AsyncIterator[Runtime]:
    world = pack(story.language)
    async with open_runtime(tmp_path / "store", world=world, embedder="none", config=UNSUMMED) as opened:
        await opened.ensure_session("s")
        yield opened


def reply(text: str, *ops: Any) -> str:
    return f"<content>{text}</content><state_update>{json.dumps(ops)}</state_update>"


async def play(runtime: Runtime, asked: str, said: str, *ops: Any) -> PreparedTurn:
    turn = await runtime.engine.prepare_turn("s", asked)
    done = await runtime.engine.commit_assistant_message("s", reply(said, *ops))
    assert (done.turn_id, done.refused) == (turn.turn_id, None)
    return turn


async def gold(runtime: Runtime, branch: str | None = None) -> int:
    state = (await runtime.store.window("s", message_limit=1, branch_id=branch)).state
    head = await runtime.store.head("s", branch)
    assert await runtime.store.state_at("s", head.turn_id) == state
    value = state["hero"]["gold"]
    return value[0] if isinstance(value, list) else value


def words(turn: PreparedTurn) -> str:
    return "\n".join(message.content for message in turn.messages)


async def test_retry_of_a_pending_turn_is_answered_from_its_record_and_changes_nothing(quiet: Runtime, story: Story):
    start = await gold(quiet)
    first = await quiet.engine.prepare_turn("s", story.asked)
    assert await quiet.engine.prepare_turn("s", story.asked) == first
    other = await quiet.engine.prepare_turn("s", story.again)
    assert (await quiet.store.window("s", message_limit=1)).pending.turn_id == other.turn_id
    assert words(other).count(story.asked) == 1
    assert await gold(quiet) == start


async def test_a_swipe_is_another_answer_to_the_same_input_beside_the_first(quiet: Runtime, story: Story):
    start = await gold(quiet)
    first = await play(quiet, story.asked, story.marks[0], ["SUB", "hero.gold", 5])
    await quiet.store.fork("s", LAST, "swipe")
    second = await play(quiet, story.asked, story.marks[1], ["SUB", "hero.gold", 1])
    assert second.turn_id != first.turn_id
    assert [message.content for message in second.messages] == [message.content for message in first.messages]
    assert (await gold(quiet, "main"), await gold(quiet, "swipe")) == (start - 5, start - 1)
    after = words(await quiet.engine.prepare_turn("s", story.again))
    assert story.marks[1] in after
    assert story.marks[0] not in after
    await quiet.store.switch("s", "main")
    before = words(await quiet.engine.prepare_turn("s", story.again))
    assert story.marks[0] in before
    assert story.marks[1] not in before


async def test_rolling_back_takes_talk_and_state_back_and_forgets_nothing(quiet: Runtime, story: Story):
    start = await gold(quiet)
    kept = await play(quiet, story.asked, story.marks[0], ["SUB", "hero.gold", 5])
    await quiet.engine.prepare_turn("s", story.bread)
    undone = await play(quiet, story.again, story.marks[1], ["SET", "hero.gold", 0])
    await quiet.store.fork("s", kept.turn_id, "back")
    assert (await gold(quiet), await gold(quiet, "main")) == (start - 5, 0)
    turn = await quiet.engine.prepare_turn("s", story.again)
    assert story.marks[0] in words(turn)
    assert story.marks[1] not in words(turn)
    assert turn.depth == kept.depth + 1
    assert (await quiet.store.turn("s", undone.turn_id)).messages[1].content == story.marks[1]


async def test_ids_that_one_branch_gave_away_are_free_on_the_other(quiet: Runtime, story: Story):
    await play(quiet, story.asked, "a", ["PUSH", "bag_main", {"name": story.marks[0]}])
    await quiet.store.fork("s", LAST, "other")
    await play(quiet, story.again, "b", ["PUSH", "bag_main", {"name": story.marks[1]}], ["DELETE", "item_map_01"])
    for branch, name in (("main", story.marks[0]), ("other", story.marks[1])):
        state = (await quiet.store.window("s", message_limit=1, branch_id=branch)).state
        things = {item["id"]: item["name"] for item in state["inventory"]["main_bag"]["items"]}
        assert things["item_1"] == name
        assert ("item_map_01" in things) is (branch == "main")
        assert ("item_map_01" in state.get("$meta", {}).get("gone", {})) is (branch == "other")


async def test_events_and_finished_quests_follow_the_branch(runtime: Runtime, story: Story):
    done = await play(
        runtime,
        story.asked,
        "so",
        ["SET", "q_008.status", "active"],
        ["SET", "q_008.status", "completed"],
        ["SET", "q_008.outcome", story.marks[0]],
    )
    event = f"{done.turn_id}.quest.q_008"
    assert len(await runtime.store.entries(session_scope("s"), [event])) == 1
    here = await runtime.engine.prepare_turn("s", story.reminded.format(story.marks[0]))
    found = {candidate.entry_id for candidate in here.report.stream_b.candidates}
    assert {event, "q_008"} & found
    assert story.marks[0] in words(here)
    await runtime.store.fork("s", LAST, "other")
    there = await runtime.engine.prepare_turn("s", story.reminded.format(story.marks[0]))
    assert not {event, "q_008"} & {candidate.entry_id for candidate in there.report.stream_b.candidates}
    assert words(there).count(story.marks[0]) == 1


async def test_summaries_follow_the_branch(runtime: Runtime, story: Story):
    left = await play(runtime, story.asked, "a")
    await runtime.store.save_summary("s", rolled(left, story.marks[0]))
    await runtime.store.append_entries("s", [memory(left, story.marks[0])])
    await play(runtime, story.again, "…")
    await runtime.store.fork("s", LAST, "other")
    right = await play(runtime, story.asked, "b")
    await runtime.store.save_summary("s", rolled(right, story.marks[1]))
    await runtime.store.append_entries("s", [memory(right, story.marks[1])])
    await play(runtime, story.again, "…")
    for branch, mine, theirs in (("main", *story.marks), ("other", *reversed(story.marks))):
        await runtime.store.switch("s", branch)
        window = await runtime.store.window("s", message_limit=1)
        assert window.summary is not None
        assert window.summary.summary.content == mine
        turn = await runtime.engine.prepare_turn("s", story.again)
        assert theirs not in words(turn)
        short = replace(UNSUMMED, history=HistoryConfig(max_messages=2))
        asked = await runtime.engine.prepare_turn("s", story.reminded.format(mine), short)
        ids = {candidate.entry_id for candidate in asked.report.stream_b.candidates}
        assert f"{(left if branch == 'main' else right).turn_id}.told" in ids
        assert f"{(right if branch == 'main' else left).turn_id}.told" not in ids


async def test_what_the_engine_sums_up_follows_the_branch(quiet: Runtime, story: Story):
    for branch, mark in zip(("main", "other"), story.marks, strict=True):
        if branch == "other":
            await quiet.store.fork("s", LAST, branch)
        for asked, said in ((story.asked, mark), (story.again, "…"), (story.again, "…")):
            await quiet.engine.prepare_turn("s", asked, SUMMED)
            await quiet.engine.commit_assistant_message("s", reply(said))
    for branch, mine, theirs in (("main", *story.marks), ("other", *reversed(story.marks))):
        await quiet.store.switch("s", branch)
        turn = await quiet.engine.prepare_turn("s", story.again + "!", SUMMED)
        window = await quiet.store.window("s", message_limit=1)
        assert window.summary is not None
        assert mine in window.summary.summary.content
        assert theirs not in window.summary.summary.content
        assert mine in words(turn)
        assert theirs not in words(turn)


def rolled(turn: PreparedTurn, text: str) -> PathSummary:
    return PathSummary(turn_id=turn.turn_id, branch_id=turn.branch_id, depth=turn.depth, summary=Summary(content=text))


def memory(turn: PreparedTurn, text: str) -> MemoryEntry:
    return MemoryEntry(
        entry_id=f"{turn.turn_id}.told",
        scope=session_scope("s"),
        chain=Chain.NARRATIVE,
        kind="turn_summary",
        text=text,
        turn_id=turn.turn_id,
    )


async def test_recall_finds_what_was_said_on_this_branch_alone(runtime: Runtime, story: Story):
    for branch, mark in zip(("main", "other"), story.marks, strict=True):
        if branch == "other":
            await runtime.store.fork("s", LAST, branch)
        await play(runtime, story.secret.format(mark), "…")
        for number in range(2):
            await play(runtime, f"{story.again} ({number})", "...")
    short = replace(UNSUMMED, history=HistoryConfig(max_messages=4))
    for branch, mine, theirs in (("main", *story.marks), ("other", *reversed(story.marks))):
        await runtime.store.switch("s", branch)
        for asked in (mine, theirs):
            turn = await runtime.engine.prepare_turn("s", story.reminded.format(asked), short)
            previews = " ".join(candidate.preview for candidate in turn.report.stream_b.candidates)
            assert mine in previews or asked == theirs
            assert theirs not in previews


@SLOW
async def test_a_late_choice_serves_the_branches_that_hold_the_turn_that_asked(tmp_path: Path, story: Story):
    with OpenAiServer("slow:1") as server:
        config = RuntimeConfig(
            selector=SelectorConfig(model="openai/x", api_base=server.api_base),
            curation=CurationConfig(deadline_ms=60_000),
        )
        async with open_runtime(tmp_path, world=pack(story.language), embedder="none", config=config) as opened:
            await opened.ensure_session("s")
            await opened.warm(story.again)
            with deadline_by_hand(config.curation) as deadline:
                first = await deadline.missed(server, lambda: opened.engine.prepare_turn("s", story.again))
            assert await opened.engine.settle(60)
            await opened.engine.commit_assistant_message("s", reply("…"))
    assert first.report.stream_b.code == "deadline"
    async with open_runtime(tmp_path, world=pack(story.language), embedder="none", config=UNSUMMED) as opened:
        paths = {}
        for branch, at in (("before", "p039"), ("beside", LAST), ("after", first.turn_id)):
            await opened.store.fork("s", at, branch)
            paths[branch] = (await opened.engine.prepare_turn("s", story.again)).report.stream_b.path.value
        await opened.store.switch("s", "main")
        paths["main"] = (await opened.engine.prepare_turn("s", story.again)).report.stream_b.path.value
    assert paths["main"] == "prefetched"
    assert paths["before"] == paths["beside"] == "heuristic"
    assert paths["after"] in ("prefetched", "heuristic")


@SLOW
def test_the_command_line_forks_switches_and_shows_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, story: Story
):
    monkeypatch.chdir(tmp_path)

    def run(*args: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, args)
        assert done.exit_code == code, done.output
        return done.stdout if code == 0 else done.output

    def coins(*args: str) -> int:
        value = json.loads(run("play", "state", "--session", "s", "--json", *args))["hero"]["gold"]
        return value[0] if isinstance(value, list) else value

    world = str(FORESTS / story.language)
    weave = (
        "play",
        "weave",
        "--session",
        "s",
        "--world",
        world,
        "--embedder",
        "none",
        "--json",
        "--deadline-ms",
        "60000",
        "--input",
    )
    turn = json.loads(run(*weave, story.asked))["turn_id"]
    start = coins()
    run("play", "commit", "--session", "s", "--text", reply("a", ["SUB", "hero.gold", 5]))
    assert coins() == start - 5
    assert coins("--turn", LAST) == start
    forked = json.loads(run("play", "fork", "--session", "s", "--at", LAST, "--name", "swipe", "--json"))
    assert (forked["branch_id"], forked["turn_id"], forked["depth"]) == ("swipe", LAST, 40)
    assert coins() == start
    assert coins("--branch", "main") == start - 5
    again = json.loads(run(*weave, story.asked))["turn_id"]
    assert again != turn
    run("play", "commit", "--session", "s", "--text", reply("b", ["SUB", "hero.gold", 1]))
    assert coins() == start - 1
    branches = json.loads(run("play", "history", "--session", "s", "--json"))["branches"]
    assert [branch["branch_id"] for branch in branches] == ["swipe", "main"]
    assert json.loads(run("play", "switch", "--session", "s", "--name", "main", "--json"))["turn_id"] == turn
    assert coins() == start - 5
    assert coins("--turn", again) == start - 1
    assert "start" not in run("play", "fork", "--session", "s", "--at", "start", "--name", "anew")
    assert "nowhere" in run("play", "switch", "--session", "s", "--name", "nowhere", code=1)
    run("play", "fork", "--session", "s", "--at", LAST, "--name", "swipe", code=1)
    run("play", "fork", "--session", "s", "--at", "t999", "--name", "x", code=1)
    run("play", "state", "--session", "s", "--turn", "t999", code=1)

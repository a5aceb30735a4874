"""Open threads: what a turn leaves open is found by rules, comes up with its people, places and dates, and ends when it is kept."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from thread_cases import CLOSED, DEBT, OPEN, PROMISE

from jacquard import (
    ConsolidationConfig,
    HistoryConfig,
    MemoryVerbs,
    RuntimeConfig,
    SummaryConfig,
    open_runtime,
)
from jacquard.memory.path_entries import load_path_entries
from jacquard.memory.threads import find_keeping, find_kept, find_threads, open_threads
from jacquard.testing.server import ScriptedServer
from mnemosyne import Author, AuthorKind, Chain, Erasure, MemoryEntry, Message, Role

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("asked", "told", "kind", "words"), OPEN)
def test_a_turn_leaves_a_promise_a_debt_or_a_question_open(asked, told, kind, words):
    assert [words in each.text for each in find_threads(asked, told) if each.kind == kind] == [True]


@pytest.mark.parametrize(("asked", "told"), CLOSED)
def test_a_turn_leaves_nothing_open(asked, told):
    assert find_threads(asked, told) == ()


KEPT = (
    (DEBT, "So you owe me five coins now, says Marta.", "I pay Marta back the five coins.", "Marta smiles."),
    (DEBT, "「那你现在欠我五枚金币了。」玛婶说。", "我把五枚金币还给玛婶。", "玛婶笑了。"),
    (
        PROMISE,
        "I promise you, Oda, I will bring the bell back before Friday.",
        "I ring the bell for Oda, as promised.",
        "It rings.",
    ),
    (
        PROMISE,
        "I promise you, Oda, I will bring the bell back.",
        "I wait.",
        "You kept your promise: the bell is back, says Oda.",
    ),
    (PROMISE, "我向阿朵保证，周五之前把铜钟带回来。", "我如约把铜钟带回来，交给阿朵。", "阿朵笑了。"),
)
NOT_KEPT = (
    (DEBT, "So you owe me five coins now, says Marta.", "I pay Jonas back the five coins.", "Jonas smiles."),
    (DEBT, "So you owe me five coins now, says Marta.", "I will pay Marta back the five coins.", "Marta waits."),
    (
        PROMISE,
        "I promise you, Oda, I will bring the bell back.",
        "I go to the mill.",
        "Finn kept his promise and mended the wheel.",
    ),
    (DEBT, "「那你现在欠我五枚金币了。」玛婶说。", "我明天会把五枚金币还给玛婶。", "玛婶等着。"),
    (PROMISE, "我向阿朵保证，周五之前把铜钟带回来。", "我没有兑现诺言，铜钟还在阿朵的井里。", "阿朵叹气。"),
)


def thread(kind, text):
    return MemoryEntry(
        entry_id="t1.thread.1", scope="session:s", chain=Chain.EVENT, kind="thread", text=text, tags=(kind,), depth=1
    )


@pytest.mark.parametrize(("kind", "text", "asked", "told"), KEPT)
def test_a_thread_ends_when_a_turn_says_that_it_is_kept(kind, text, asked, told):
    assert find_kept([thread(kind, text)], find_keeping(asked, told), ())


@pytest.mark.parametrize(("kind", "text", "asked", "told"), NOT_KEPT)
def test_a_thread_does_not_end_by_what_is_only_intended_or_kept_by_others(kind, text, asked, told):
    assert find_kept([thread(kind, text)], find_keeping(asked, told), ()) == []


@pytest.fixture(params=["sqlite", "file", "postgresql"])
def address(request, tmp_path):
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    return str(tmp_path / "store") if request.param == "sqlite" else f"file:{tmp_path / 'store'}"


SETTINGS = RuntimeConfig(
    profile="assistant", history=HistoryConfig(max_messages=4), summary=SummaryConfig(enabled=False)
)
VOW = "I promise you, Oda, I will bring the bell back before Friday."
VOW_ZH = "我向阿朵保证，周五之前把铜钟带回来。"


@asynccontextmanager
async def opened(address, config=SETTINGS):
    async with open_runtime(address, embedder="none", config=config) as runtime:
        await runtime.ensure_session("s")
        yield runtime, MemoryVerbs(runtime, author="ana")


async def say(runtime, asked, told, session_id="s"):
    turn = await runtime.engine.prepare_turn(session_id, asked)
    await runtime.engine.commit_assistant_message(session_id, told, turn_id=turn.turn_id)
    return turn


async def pass_time(runtime, words=("I walk along the river.", "The river is wide.")):
    for _ in range(4):
        await say(runtime, *words)


async def threads_of(runtime, session_id="s"):
    head = await runtime.store.head(session_id)
    return [each.text for each in open_threads(await load_path_entries(runtime.store, head, Chain.EVENT))]


def shown(turn):
    return "\n".join(message.content for message in turn.messages)


@pytest.mark.parametrize(
    ("vow", "reply", "others", "cues"),
    [
        (
            VOW,
            "Oda nods.",
            ("I walk along the river.", "The river is wide."),
            ("I see Oda at the gate.", "It is Friday morning.", "Where is the bell that Oda wants?"),
        ),
        (
            VOW_ZH,
            "阿朵点点头。",
            ("我沿着河边走。", "河很宽。"),
            ("我看见阿朵站在门口。", "今天是周五早上。", "铜钟在哪里，阿朵？"),
        ),
    ],
)
async def test_a_thread_comes_up_by_itself_with_its_person_or_date_and_with_nothing_else(
    tmp_path, vow, reply, others, cues
):
    async with opened(str(tmp_path / "store")) as (runtime, _):
        await say(runtime, vow, reply)
        await pass_time(runtime, others)
        assert await threads_of(runtime) == [vow]
        assert 'open="promise"' not in shown(await say(runtime, *others))
        for cue in cues:
            prompt = shown(await say(runtime, cue, others[1]))
            assert f'open="promise" speaker="user">{vow}' in prompt
            assert prompt.count(vow) == 1


async def test_a_thread_that_is_kept_comes_up_no_more_but_on_the_branch_where_it_is_open(address):
    async with opened(address) as (runtime, _):
        await say(runtime, VOW, "Oda nods.")
        await pass_time(runtime)
        fork = (await runtime.store.head("s")).turn_id
        await say(runtime, "I hand Oda the bell, as promised.", "Oda rings the bell.")
        assert await threads_of(runtime) == []
        assert 'open="promise"' not in shown(await say(runtime, "I see Oda at the gate.", "She waves."))
        await runtime.engine.fork("s", fork, "other")
        assert await threads_of(runtime) == [VOW]
        assert 'open="promise"' in shown(await say(runtime, "I see Oda at the gate.", "She waves."))


async def test_threads_are_seen_edited_and_ended_by_the_memory_verbs(address):
    async with opened(address) as (runtime, verbs):
        await say(runtime, VOW, "Oda nods.")
        await pass_time(runtime)
        found = next(each for each in await verbs.search("s", "bell Oda promise") if each.kind == "thread")
        assert (await verbs.memory("s", found.memory_id)).text == VOW
        edit = await verbs.edit("s", found.memory_id, "I promised Oda the bell by Sunday.")
        assert 'open="promise"' not in shown(await say(runtime, "I see Oda at the gate.", "She waves."))
        await verbs.undo("s", edit.edit_id)
        await verbs.supersede("s", found.memory_id)
        assert VOW not in [each.text for each in await verbs.search("s", "bell Oda promise") if each.kind == "thread"]


async def test_a_new_session_has_the_open_threads_of_the_old_one_and_can_keep_them(address):
    async with opened(address) as (runtime, _):
        await say(runtime, VOW, "Oda nods.")
        await say(runtime, "I borrow five coins from Marta.", "Marta shrugs.")
        await say(runtime, "I pay Marta back the five coins I borrowed.", "Marta smiles.")
        await runtime.engine.continue_session("s", "next", memory_ids=[])
        assert await threads_of(runtime, "next") == [VOW]
        prompt = shown(await say(runtime, "I see Oda at the gate.", "She waves.", "next"))
        assert 'session="s" turn="1"' in prompt
        assert f'open="promise" speaker="user">{VOW}' in prompt
        await say(runtime, "I hand Oda the bell, as promised.", "Oda rings the bell.", "next")
        assert await threads_of(runtime, "next") == []


async def test_a_quest_that_ends_ends_what_it_was_about(tmp_path):
    world = Path(__file__).parents[3] / "examples" / "whispering_forest" / "en"
    async with open_runtime(str(tmp_path / "store"), world=world, embedder="none", config=RuntimeConfig()) as runtime:
        await runtime.ensure_session("s")
        state = await runtime.store.state_at("s", (await runtime.store.head("s")).turn_id)
        key, quest = next(
            (k, q) for k, q in state["quests"].items() if isinstance(q, dict) and q.get("status") == "active"
        )
        title = quest["title"] if isinstance(quest["title"], str) else quest["title"][0]
        before = await threads_of(runtime)
        await say(runtime, f"I promise I will see to it: {title}.", "<content>Good.</content>")
        assert len(await threads_of(runtime)) == len(before) + 1
        ops = f'<state_update>[["SET", "quests.{key}.status", "completed"]]</state_update>'
        await say(runtime, "It is done.", f"<content>Well done.</content>{ops}")
        assert await threads_of(runtime) == before


def told_of(*turns):
    """Return the answer of a small model on turns, each given as its number, what it leaves open and what it keeps."""
    found = [
        {"n": number, "summary": f"Turn {number}.", "events": [], "threads": left, "kept": kept, "chapter_end": False}
        for number, left, kept in turns
    ]
    return f"text:{json.dumps({'turns': found})}"


ASKED = {"kind": "question", "text": "Who painted the door red?"}


@pytest.fixture
def small_model():
    answers = (told_of((1, [ASKED], []), (2, [], [])), told_of((3, [], [1]), (4, [], [])))
    with ScriptedServer(*answers) as server:
        yield server


async def test_the_small_model_tells_and_ends_threads_in_the_call_that_it_answers_anyway(tmp_path, small_model):
    made = ConsolidationConfig(
        model="openai/small", api_base=f"{small_model.base_url}/v1", api_key="k", every_turns=0, batch_turns=2
    )
    async with opened(str(tmp_path / "store"), replace(SETTINGS, consolidation=made)) as (runtime, _):
        for number in range(4):
            await say(runtime, f"I look at door {number}.", "It is a door.")
        await runtime.engine.consolidate("s")
        assert [str(each.body).count("<thread n=") for each in small_model.requests] == [0, 1]
        assert ASKED["text"] in str(small_model.requests[1].body)
        head = await runtime.store.head("s")
        told = [each.kind for each in await load_path_entries(runtime.store, head, Chain.EVENT)]
        assert sorted(told) == ["thread", "thread_kept"]
        assert await threads_of(runtime) == []


async def test_a_thread_is_known_to_those_alone_who_know_its_turn_and_goes_with_its_user(address):
    async with opened(address) as (runtime, _):
        lin = Author(kind=AuthorKind.USER, id="lin")
        await say(runtime, Message(role=Role.USER, content=VOW, author=lin), "Oda nods.")
        assert await threads_of(runtime) == [VOW]
        await runtime.forget(Erasure(at=datetime(2026, 11, 1, tzinfo=UTC), user_id="lin"))
        assert await runtime.store.find_text((VOW,)) == ()

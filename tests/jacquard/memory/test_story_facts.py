"""Facts of the story with the turns in which they are valid: a labelled play in English and Chinese whose values change."""

from __future__ import annotations

import json
import re
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

import pytest
from anyio import to_thread
from verb_faces import FACES

from jacquard import (
    ConfigError,
    ConsolidationConfig,
    HistoryConfig,
    MemoryVerbs,
    RuntimeConfig,
    SummaryConfig,
    find_differences,
    open_runtime,
    read_snapshot,
    replay_prompt,
    why_not,
)
from jacquard.config.sections import MemoryConfig
from jacquard.memory.path_entries import load_path_entries
from jacquard.memory.verbs.browse import MemoryFilter, browse_memory
from jacquard.pipeline.curation.validity import find_asked_turn
from jacquard.sync import open_runtime as open_sync
from jacquard.testing.server import ScriptedServer
from mnemosyne import Chain, Erasure, MemoryEntry, SessionStart
from mnemosyne.chains.story_facts import end_former_facts, facts_of_state, find_endings
from mnemosyne.schema.record import TurnRecord
from mnemosyne.schema.session import BranchSpan, TurnKind, TurnStatus

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Play:
    """Sixteen turns in which a key changes hands, a person moves, and a promise is kept, with questions on them."""

    locale: str
    state: dict
    turns: dict[int, tuple[str, str]]
    """Turn -> input and reply of the turns that matter; the others are `idle`."""
    idle: tuple[str, str]
    events: dict[int, dict]
    """Turn -> event that the small model finds in it."""
    questions: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]]
    """Name -> question, patterns that a memory of the prompt has, and patterns that none has."""


def fact(summary, subject, attribute, value):
    return {
        "type": "travelled",
        "summary": summary,
        "participants": [subject],
        "location": "",
        "subject": subject,
        "attribute": attribute,
        "value": value,
    }


EN = Play(
    locale="en",
    state={"items": {"brass_key": {"name": "brass key", "holder": ["Mara", "who holds the brass key"]}}},
    turns={
        2: ("I ask Joss about his house.", "Joss nods: he lives at the mill, above the wheel."),
        3: ("I promise you, Oda, I will bring the bell back before Friday.", "Oda nods."),
        4: (
            "I watch Mara.",
            "<content>Mara hands the brass key to Joss.</content>"
            '<state_update>[["SET", "items.brass_key.holder", "Joss"]]</state_update>',
        ),
        8: ("I visit Joss.", "Joss has moved to the harbour, into the red house."),
        9: ("I hand Oda the bell, as promised.", "Oda rings the bell."),
        10: (
            "I watch Joss.",
            "<content>Joss gives the brass key to Ilse.</content>"
            '<state_update>[["SET", "items.brass_key.holder", "Ilse"]]</state_update>',
        ),
    },
    idle=("I walk along the river.", "The river is wide."),
    events={
        2: fact("Joss lives at the mill.", "Joss", "home", "the mill"),
        8: fact("Joss moved to the harbour.", "Joss", "home", "the harbour"),
    },
    questions={
        "home_now": (
            "Where does Joss live?",
            (r'(?:since="turn 8" before="the mill"|until="turn 8" now="the harbour")',),
            (r">Joss lives at the mill\.", r'turn="2"(?![^>]*until="turn 8")[^>]*>[^<]*the mill'),
        ),
        "home_before": (
            "Where did Joss live before?",
            (r'turn="2"[^>]*until="turn 8" now="the harbour"[^>]*>[^<]*the mill',),
            (),
        ),
        "home_as_of_turn": (
            "Where did Joss live as of turn 5?",
            (r'turn="2"[^>]*until="turn 8" now="the harbour"[^>]*>[^<]*the mill',),
            (),
        ),
        "key_now": ("Who holds the brass key?", (), (r"state\.items\.brass_key\.holder",)),
        "key_before": (
            "Who held the brass key before?",
            (
                r'turn="4"[^>]*since="turn 4" before="Mara" until="turn 10" now="Ilse"',
                r'turn="10"[^>]*since="turn 10" before="Joss"',
            ),
            (),
        ),
        "key_since_when": ("Since when does Ilse have the brass key?", (r'since="turn 10" before="Joss"',), ()),
        "key_as_of_turn": (
            "Who held the brass key as of turn 3?",
            (r'since="turn 4" before="Mara"',),
            (),
        ),
        "promise_now": ("What about Oda and the bell?", (), (r'open="promise"',)),
        "promise_before": (
            "What did I promise Oda about the bell before?",
            (r'turn="3"[^>]*open="promise" until="turn 9"[^>]*>I promise you, Oda',),
            (),
        ),
    },
)
ZH = Play(
    locale="zh",
    state={"物品": {"铜钥匙": {"name": "铜钥匙", "持有者": ["玛拉", "铜钥匙在谁手里"]}}},
    turns={
        2: ("我问乔斯家在哪里。", "乔斯点点头：他住在磨坊，水轮上头。"),
        3: ("我向阿朵保证，周五之前把铜钟带回来。", "阿朵点点头。"),
        4: (
            "我看着玛拉。",
            "<content>玛拉把铜钥匙交给乔斯。</content>"
            '<state_update>[["SET", "物品.铜钥匙.持有者", "乔斯"]]</state_update>',
        ),
        8: ("我去看乔斯。", "乔斯已经搬到港口的红房子里。"),
        9: ("我如约把铜钟带回来，交给阿朵。", "阿朵敲响了铜钟。"),
        10: (
            "我看着乔斯。",
            "<content>乔斯把铜钥匙给了伊尔莎。</content>"
            '<state_update>[["SET", "物品.铜钥匙.持有者", "伊尔莎"]]</state_update>',
        ),
    },
    idle=("我沿着河边走。", "河面很宽。"),
    events={
        2: fact("乔斯住在磨坊。", "乔斯", "住处", "磨坊"),
        8: fact("乔斯搬到了港口。", "乔斯", "住处", "港口"),
    },
    questions={
        "home_now": (
            "乔斯住在哪里？",
            (r'(?:since="turn 8" before="磨坊"|until="turn 8" now="港口")',),
            (r">乔斯住在磨坊。", r'turn="2"(?![^>]*until="turn 8")[^>]*>[^<]*磨坊'),
        ),
        "home_before": ("乔斯以前住在哪里？", (r'turn="2"[^>]*until="turn 8" now="港口"[^>]*>[^<]*磨坊',), ()),
        "home_as_of_turn": ("第五轮时乔斯住在哪里？", (r'turn="2"[^>]*until="turn 8" now="港口"[^>]*>[^<]*磨坊',), ()),
        "key_now": ("铜钥匙在谁手里？", (), (r"state\.物品",)),
        "key_before": (
            "铜钥匙以前在谁手里？",
            (
                r'turn="4"[^>]*since="turn 4" before="玛拉" until="turn 10" now="伊尔莎"',
                r'turn="10"[^>]*since="turn 10" before="乔斯"',
            ),
            (),
        ),
        "key_since_when": ("铜钥匙从什么时候起在伊尔莎手里？", (r'since="turn 10" before="乔斯"',), ()),
        "key_as_of_turn": (
            "第 3 轮时铜钥匙在谁手里？",
            (r'since="turn 4" before="玛拉"',),
            (),
        ),
        "promise_now": ("阿朵和铜钟怎么样了？", (), (r'open="promise"',)),
        "promise_before": (
            "我以前向阿朵保证过什么？",
            (r'turn="3"[^>]*open="promise" until="turn 9"[^>]*>我向阿朵保证',),
            (),
        ),
    },
)
PLAYS = {"en": EN, "zh": ZH}
TURNS = 16


def answers_of(play):
    """Return the answer of the small model on a request: the events of the turns that it asks for."""

    def answer(request):
        asked = [int(number) for number in re.findall(r'<turn n="(\d+)">', request.messages[-1].text)]
        turns = [
            {
                "n": number,
                "summary": f"{number}. {play.idle[1]}",
                "events": [play.events[number]] if number in play.events else [],
                "threads": [],
                "kept": [],
                "chapter_end": False,
            }
            for number in asked
        ]
        return f"text:{json.dumps({'turns': turns}, ensure_ascii=False)}"

    return answer


@asynccontextmanager
async def opened(address, play, server, *, review=False):
    config = RuntimeConfig(
        memory=MemoryConfig(review=review),
        profile="story",
        history=HistoryConfig(max_messages=2),
        summary=SummaryConfig(enabled=False),
        consolidation=ConsolidationConfig(
            model="openai/small", api_base=f"{server.base_url}/v1", api_key="k", every_turns=0, batch_turns=4
        ),
    )
    config = replace(config, curation=replace(config.curation, deadline_ms=20_000))
    async with open_runtime(address, embedder="none", config=config) as runtime:
        await runtime.store.create_session(
            SessionStart(session_id="s", world_id="w", locale=play.locale, state=play.state)
        )
        yield runtime


async def say(runtime, asked, told):
    turn = await runtime.engine.prepare_turn("s", asked)
    await runtime.engine.commit_assistant_message("s", told, turn_id=turn.turn_id)


async def play_through(runtime, play, turns=range(1, TURNS + 1)):
    for number in turns:
        await say(runtime, *play.turns.get(number, play.idle))
    await runtime.engine.consolidate("s")
    await runtime.sync("s")


async def ask(runtime, question):
    turn = await runtime.engine.prepare_turn("s", question, dry_run=True)
    return turn, "\n".join(
        re.findall(r"<memory .*?</memory>", "\n".join(each.content for each in turn.messages), re.DOTALL)
    )


@pytest.fixture(params=["memory", "sqlite", "file", "postgresql"])
def address(request, tmp_path):
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    return {"memory": "memory:", "sqlite": str(tmp_path / "store"), "file": f"file:{tmp_path / 'store'}"}[request.param]


def _find_faults(memories, has, lacks):
    missing = [f"no {pattern}" for pattern in has if not re.search(pattern, memories, re.DOTALL)]
    return missing + [f"has {pattern}" for pattern in lacks if re.search(pattern, memories, re.DOTALL)]


@pytest.mark.parametrize("locale", ["en", "zh"])
async def test_each_question_of_the_labelled_play_finds_what_held_at_its_time(locale, tmp_path):
    play = PLAYS[locale]
    with ScriptedServer(answers_of(play)) as server:
        async with opened(str(tmp_path / "store"), play, server) as runtime:
            await play_through(runtime, play)
            faults = {}
            for name, (question, has, lacks) in play.questions.items():
                _, memories = await ask(runtime, question)
                if found := _find_faults(memories, has, lacks):
                    faults[name] = (found, memories)
            for name, (found, memories) in faults.items():
                print(name, *found, memories, sep="\n")
            assert [*faults] == []


@asynccontextmanager
async def played(address, play=EN):
    with ScriptedServer(answers_of(play)) as server:
        async with opened(address, play, server) as runtime:
            await play_through(runtime, play)
            yield runtime


def spans(facts):
    return {(each.subject, each.value): (each.valid_from, each.valid_to) for each in facts}


HOMES = {("Joss", "the mill"): (2, 8), ("Joss", "the harbour"): (8, None)}
HOLDERS = {("brass key", "Mara"): (0, 4), ("brass key", "Joss"): (4, 10), ("brass key", "Ilse"): (10, None)}


async def test_facts_of_state_and_of_memories_have_the_turns_in_which_they_hold_in_each_store(address):
    async with played(address) as runtime:
        verbs = MemoryVerbs(runtime)
        facts = await verbs.facts("s")
        assert spans(facts) == HOMES | HOLDERS
        assert [each.valid_from for each in facts] == sorted((each.valid_from for each in facts), reverse=True)
        by_value = {each.value: each for each in facts}
        assert by_value["the mill"].superseded_by == by_value["the harbour"].fact_id
        assert by_value["Mara"].superseded_by == by_value["Joss"].fact_id
        assert by_value["Joss"].turn_id == (await runtime.store.turns("s", limit=1, before_depth=5))[0].turn_id
        then = spans(await verbs.facts("s", as_of_turn=5))
        assert then == {("Joss", "the mill"): (2, None), ("brass key", "Joss"): (4, None)}
        assert (await verbs.get_state("s", as_of_turn=3))["items"]["brass_key"]["holder"][0] == "Mara"
        assert (await verbs.get_state("s", as_of_turn=4))["items"]["brass_key"]["holder"] == "Joss"
        assert (await verbs.get_state("s", as_of_turn=0)) == EN.state
        with pytest.raises(ConfigError, match="the turns 1 to 16"):
            await verbs.get_state("s", as_of_turn=17)
        assert {each.value for each in await verbs.facts("s", "harbour")} == {"the harbour"}


async def test_a_search_and_a_listing_as_of_a_turn_find_what_held_then(address):
    async with played(address) as runtime:
        verbs = MemoryVerbs(runtime)
        now = {each.text for each in await verbs.search("s", "Joss mill harbour")}
        assert "Joss lives at the mill." not in now
        assert "Joss moved to the harbour." in now
        then = {each.text for each in await verbs.search("s", "Joss mill harbour", as_of_turn=5)}
        assert "Joss lives at the mill." in then
        assert not any("harbour" in text for text in then)
        page = await browse_memory(runtime.store, "s", MemoryFilter(kind="travelled"))
        assert [(each.text, each.depth, each.valid_to) for each in page.items] == [
            ("Joss moved to the harbour.", 8, None),
            ("Joss lives at the mill.", 2, 8),
        ]
        assert page.items[1].superseded_by == page.items[0].memory_id
        page = await browse_memory(runtime.store, "s", MemoryFilter(kind="travelled"), as_of_turn=5)
        assert [(each.text, each.valid_to, each.superseded_by) for each in page.items] == [
            ("Joss lives at the mill.", None, "")
        ]


async def test_a_fact_is_superseded_only_on_its_branch_and_holds_again_when_the_turn_is_taken_back(address):
    async with played(address) as runtime:
        verbs = MemoryVerbs(runtime)
        fork = (await runtime.store.turns("s", limit=1, before_depth=8))[0]
        await runtime.engine.fork("s", fork.turn_id, "other")
        assert spans(await verbs.facts("s")) == {
            ("Joss", "the mill"): (2, None),
            ("brass key", "Mara"): (0, 4),
            ("brass key", "Joss"): (4, None),
        }
        assert "Joss lives at the mill." in {each.text for each in await verbs.search("s", "Joss mill")}
        _, memories = await ask(runtime, EN.questions["home_now"][0])
        assert "until=" not in memories
        assert "mill" in memories
        assert spans(await verbs.facts("s", branch_id="main")) == HOMES | HOLDERS
        await runtime.store.switch("s", "main")
        await runtime.engine.rollback("s", fork.turn_id)
        assert ("Joss", "the harbour") not in spans(await verbs.facts("s"))
        assert spans(await verbs.facts("s"))["Joss", "the mill"] == (2, None)


@pytest.mark.parametrize(
    ("locale", "question"),
    [
        ("en", "Where did Joss live before?"),
        ("en", "Where did Joss live at first?"),
        ("en", "Where did Joss live in chapter 2?"),
        ("en", "Where did Joss live as of turn 5?"),
        ("zh", "乔斯以前住在哪里？"),
        ("zh", "乔斯一开始住在哪里？"),
        ("zh", "第二章里乔斯住在哪里？"),
        ("zh", "第5轮时乔斯住在哪里？"),
    ],
)
async def test_a_question_about_the_past_may_get_what_held_then(locale, question, tmp_path):
    async with played(str(tmp_path / "store"), PLAYS[locale]) as runtime:
        turn, memories = await ask(runtime, question)
        assert turn.report.plan["search_intent"]["temporal_context"] == "past"
        assert re.search(r'turn="2"[^>]*until="turn 8" now="(?:the harbour|港口)"', memories)


async def test_a_fact_that_waits_for_a_yes_ends_nothing_until_it_is_accepted(tmp_path):
    with ScriptedServer(answers_of(EN)) as server:
        async with opened(str(tmp_path / "store"), EN, server, review=True) as runtime:
            await play_through(runtime, EN)
            verbs = MemoryVerbs(runtime)
            waiting = {each.after: each.edit_id for each in await verbs.proposals("s")}
            assert {(each.kind, each.value) for each in await verbs.facts("s") if each.subject == "Joss"} == set()
            old = await verbs.accept("s", waiting["Joss lives at the mill."])
            assert spans(await verbs.facts("s", "Joss lives")) == {("Joss", "the mill"): (2, None)}
            new = await verbs.accept("s", waiting["Joss moved to the harbour."])
            assert {key: span for key, span in spans(await verbs.facts("s")).items() if key in HOMES} == HOMES
            await verbs.undo("s", new.edit_id)
            assert spans(await verbs.facts("s", "Joss lives")) == {("Joss", "the mill"): (2, None)}
            corrected = "Joss moved to the lighthouse."
            await verbs.accept("s", waiting["Joss moved to the harbour."], corrected)
            assert spans(await verbs.facts("s", "Joss moved")) == {("Joss", corrected): (8, None)}
            await verbs.undo("s", old.edit_id)
            assert {each.value for each in await verbs.facts("s") if each.subject == "Joss"} == {corrected}


async def test_the_receipt_and_why_not_say_why_the_older_fact_was_left_out(tmp_path):
    async with played(str(tmp_path / "store")) as runtime:
        old, new = sorted(
            (each for each in await MemoryVerbs(runtime).facts("s") if each.subject == "Joss"),
            key=lambda each: each.valid_from,
        )
        turn, memories = await ask(runtime, "I heard that Joss moved to the harbour.")
        assert 'since="turn 8" before="the mill"' in memories
        (line,) = [each for each in turn.report.left_out if each.what == "fact"]
        assert (line.code, line.first, line.last) == ("superseded", old.fact_id, new.fact_id)
        assert line.reason == f"It was valid from turn 2 to turn 8; since then {new.fact_id} is valid."
        asked = await runtime.engine.prepare_turn("s", "Where does Joss live?")
        (absence,) = await why_not(runtime.engine, "s", old.fact_id, turn_id=asked.turn_id)
        assert (absence.code, absence.reason) == ("superseded", line.reason)


@pytest.mark.parametrize("name", ["home_now", "home_before", "key_before", "promise_before"])
async def test_a_turn_with_former_facts_replays_byte_for_byte(name, tmp_path):
    async with played(str(tmp_path / "store")) as runtime:
        turn = await runtime.engine.prepare_turn("s", EN.questions[name][0])
        record = await runtime.store.turn("s", turn.turn_id)
        again = replay_prompt(read_snapshot(record), runtime.engine.parts.estimator.estimate)
        assert find_differences(record, again) == ()


async def test_an_erasure_finds_closed_facts_and_their_ends(address):
    async with played(address) as runtime:
        await runtime.engine.prepare_turn("s", EN.questions["home_before"][0])
        assert await runtime.store.find_text(("Joss lives at the mill",)) != ()
        await runtime.forget(Erasure(at=datetime(2026, 11, 1, tzinfo=UTC), session_id="s"))
        assert await runtime.store.find_text(("Joss lives at the mill", "Joss moved to the harbour")) == ()


async def test_a_new_session_takes_along_only_facts_that_hold(tmp_path):
    async with played(str(tmp_path / "store")) as runtime:
        await runtime.engine.continue_session("s", "next")
        head = await runtime.store.head("next")
        texts = {each.text for each in await load_path_entries(runtime.store, head, Chain.EVENT)}
        assert "Joss moved to the harbour." in texts
        assert "Joss lives at the mill." not in texts


def test_the_sync_facade_reads_facts_as_of_a_turn(tmp_path):
    with open_sync(str(tmp_path / "store"), embedder="none") as runtime:
        runtime.run(
            runtime.runtime.store.create_session,
            SessionStart(session_id="s", world_id="w", locale="en", state={"hero": {"place": "mill"}}),
        )
        verbs = MemoryVerbs(runtime.runtime)
        runtime.run(verbs.set_state, "s", {"hero.place": "harbour"})
        facts = runtime.run(partial(verbs.facts, as_of_turn=0), "s")
        assert facts == ()
        assert spans(runtime.run(verbs.facts, "s")) == {("hero", "mill"): (0, 1), ("hero", "harbour"): (1, None)}


@pytest.mark.parametrize("face", ["python", "http"])
async def test_state_and_facts_as_of_a_turn_are_the_same_in_process_and_over_http(face, tmp_path):
    async with FACES[face](tmp_path) as verbs:
        await verbs.call("set_state", "s", {"hero": {"place": "mill"}})
        await verbs.call("set_state", "s", {"hero.place": "harbour"})
        assert await verbs.call("get_state", "s", as_of_turn=1) == {"hero": {"place": "mill"}}
        facts = await verbs.call("facts", "s", "place")
        assert [(each["value"], each["valid_from"], each["valid_to"]) for each in facts] == [
            ("harbour", 2, None),
            ("mill", 1, 2),
        ]
        (fact_then,) = await verbs.call("facts", "s", as_of_turn=1)
        assert (fact_then["value"], fact_then["valid_to"]) == ("mill", None)
        assert await verbs.call("search", "s", "place", as_of_turn=1) == []


async def test_a_command_prints_state_and_facts_as_of_a_turn(tmp_path):
    async with FACES["command"](tmp_path) as commands:
        await commands.ask("play", "state", "-s", "s", "--set", "hero=mill")
        await commands.ask("play", "state", "-s", "s", "--set", "hero=harbour")
        assert await commands.ask("play", "state", "-s", "s", "--as-of-turn", "2") == {"hero": "mill"}
        (fact_then,) = await commands.ask("memory", "facts", "-s", "s", "--as-of-turn", "2")
        assert (fact_then["attribute"], fact_then["value"]) == ("hero", "mill")
        printed = await to_thread.run_sync(commands.run, "memory", "facts", "-s", "s")
        assert printed.splitlines() == [
            "hero: harbour",
            "Valid from turn 3 on.",
            "hero: mill",
            "Valid from turn 2 to turn 3.",
        ]


@pytest.mark.parametrize(
    ("text", "turn"),
    [
        ("Who held the key as of turn 40?", 40),
        ("第40轮时钥匙在谁手里？", 40),
        ("第 十二 回合时他住在哪里？", 12),
        ("It is my turn to talk.", None),
        ("What did Ana say about when I turn 30?", None),
        ("Where was he in turn 12?", 12),
        ("第二天他去了哪里？", None),
    ],
)
def test_an_input_names_a_turn(text, turn):
    assert find_asked_turn(text) == turn


def told(name, depth, value, *, branch="main", viewers=(), subject="Joss"):
    return MemoryEntry(
        entry_id=name,
        scope="session:s",
        chain=Chain.EVENT,
        kind="travelled",
        text=f"{subject} lives at {value}.",
        turn_id=f"t{depth}",
        branch_id=branch,
        depth=depth,
        viewers=viewers,
        metadata={"subject": subject, "attribute": "home", "value": value},
    )


def ends(events, made):
    path = (BranchSpan(branch_id="main", upto_depth=99),)
    found = find_endings((*events, *end_former_facts(events, made)), path)
    return {name: (each.depth, each.superseded_by) for name, each in found.items()}


def test_a_later_fact_of_the_same_subject_and_attribute_ends_the_earlier_one():
    assert ends([told("a", 2, "mill")], [told("b", 8, "harbour", subject=" JOSS ")]) == {"a": (8, "b")}
    assert ends([told("a", 2, "mill")], [told("b", 8, "harbour", subject="Oda")]) == {}


def test_a_repeated_value_ends_nothing():
    assert ends([told("a", 2, "mill")], [told("b", 8, "Mill")]) == {}


def test_a_turn_that_is_consolidated_late_takes_its_place_between_the_others():
    events = [told("a", 2, "mill"), told("c", 8, "harbour")]
    events += end_former_facts(events[:1], events[1:])
    assert ends(events, [told("b", 5, "tower")]) == {"a": (5, "b"), "b": (8, "c")}


def test_a_secret_fact_does_not_end_one_that_everyone_may_know():
    assert ends([told("a", 2, "mill")], [told("b", 8, "harbour", viewers=("elara",))]) == {}
    assert ends([told("a", 2, "mill", viewers=("elara",))], [told("b", 8, "harbour")]) == {"a": (8, "b")}


def record(depth, *ops):
    return TurnRecord(
        turn_id=f"t{depth}",
        session_id="s",
        branch_id="main",
        depth=depth,
        parent_id=None,
        kind=TurnKind.NUMERICAL,
        status=TurnStatus.COMMITTED,
        messages=(),
        ops=ops,
    )


def op(kind, path, value=None):
    return {"op": kind, "path": path, **({} if kind == "remove" else {"value": value})}


def test_values_in_lists_and_of_new_and_removed_parts_are_facts():
    base = {
        "hero": {"bag": ["rope", "flint", "salt"], "coins": [5, "in the purse"]},
        "pets": [{"id": "cat", "mood": "calm"}],
    }
    turns = [
        record(1, op("add", "/hero/bag/-", "key")),
        record(2, op("replace", "/hero/coins/0", 3), op("replace", "/pets/0/mood", "wild")),
        record(3, op("remove", "/hero/bag/0")),
        record(4, op("add", "/hero/home", {"place": "mill"})),
        record(5, op("remove", "/hero/home")),
    ]
    shown = {
        "hero": {"bag": ["flint", "salt", "key"], "coins": [3, "in the purse"], "home": {}},
        "pets": [{"id": "cat", "mood": "wild"}],
    }
    found = [
        (each.text, each.valid_from, each.valid_to, each.superseded_by) for each in facts_of_state(base, turns, shown)
    ]
    assert found == [
        ("hero.coins: 5 (in the purse)", 0, 2, "t2.state.hero.coins"),
        ("pets.cat.mood: calm", 0, 2, "t2.state.pets.cat.mood"),
        ("hero.bag: rope", 0, 3, ""),
        ("hero.bag: key", 1, None, ""),
        ("hero.coins: 3 (in the purse)", 2, None, ""),
        ("pets.cat.mood: wild", 2, None, ""),
        ("hero.home.place: mill", 4, 5, ""),
    ]


def test_hidden_parts_of_the_state_are_no_facts():
    base = {"hero": {"$meta": {"hidden": ["curse"]}, "curse": "mild", "mood": "calm"}}
    turns = [record(1, op("replace", "/hero/curse", "grave"), op("replace", "/hero/mood", "wild"))]
    assert {each.value for each in facts_of_state(base, turns, {"hero": {"mood": "wild"}})} == {"calm", "wild"}
    assert facts_of_state(base, turns, {"town": {}}) == []


def test_a_list_of_two_texts_that_is_declared_as_a_list_has_two_values():
    base = {"hero": {"$meta": {"lists": ["bag"]}, "bag": ["rope"]}}
    found = facts_of_state(base, [record(1, op("add", "/hero/bag/-", "key"))], {"hero": {"bag": ["rope", "key"]}})
    assert [(each.text, each.valid_from) for each in found] == [("hero.bag: key", 1)]

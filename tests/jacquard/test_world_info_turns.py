"""World info in turns by the rules of SillyTavern: what is set off, where it stands, what the receipt says, replay, branches."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from engine_parts import small_engine
from forest_parts import WORLD as FOREST
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from jacquard import (
    BudgetConfig,
    BudgetExceededError,
    ConfigError,
    CurationConfig,
    RuntimeConfig,
    find_differences,
    read_snapshot,
    replay_prompt,
)
from jacquard.cli.app import app
from jacquard.config.sections import WorldInfoConfig
from jacquard.config.settings import config_from_mapping
from jacquard.pipeline.weaving.assemble import PromptMessage
from mnemosyne import CalibratedEstimator, Chain, MemoryEntry, MemoryStore, Role
from mnemosyne.schema.memory import Comparison, Condition

GOLDEN = Path(__file__).parents[1] / "golden" / "world_info.txt"
RECALL = RuntimeConfig(activation="recall")


def info(uid, text, *, kind="encyclopedia", viewers=(), when=(), **fields) -> MemoryEntry:
    """Return an entry of lore as an import makes it of an entry of the book `Mill`."""
    return MemoryEntry(
        entry_id=f"mill_{uid}",
        scope="world:forest",
        chain=Chain.LORE,
        kind=kind,
        text=text,
        title=fields.get("comment", f"entry {uid}"),
        keys=tuple(fields.get("key", ())),
        viewers=viewers,
        when=when,
        metadata={"world_info": {"world": "Mill", "uid": str(uid), "fields": {"content": text, **fields}}},
    )


def world_of(*lore, **changed):
    """Return the small forest with these entries in place of its lore, activated as in SillyTavern."""
    return replace(FOREST, **{"lore": lore, "digest": "mill", "activation": "sillytavern", **changed})


MILL = (
    info(0, "The mill grinds at night.", kind="axiom", constant=True, comment="The mill"),
    info(1, "Its door opens with a brass key.", key=["brass key"], position=1, comment="The door"),
    info(2, "磨坊主怕火。", key=["火把"], position=4, depth=1, role=0, comment="火"),
    info(3, "The river has no ford.", key=["river"], position=4, depth=0, comment="The river"),
    info(4, "Write short sentences.", key=["river"], position=2, comment="Above the note"),
    info(5, "{ada}: Mind the step.", key=["river"], position=5, comment="An example"),
    info(6, "Nobody reads this.", key=["river"], position=7, outletName="map", comment="For an outlet"),
    info(7, "Switched off.", key=["river"], disable=True),
    info(8, "<b>Wolves</b> & owls.", key=["wolf trail"], position=4, depth=3, role=2, comment="Wolves"),
)


async def converse(engine, *said, config=None):
    """Prepare a turn for each text and commit a reply to all but the last; return the last."""
    for text in said[:-1]:
        await engine.prepare_turn("s", text, config)
        await engine.commit_assistant_message("s", f"<content>Aye, {len(text)}.</content>")
    return await engine.prepare_turn("s", said[-1], config)


def weave(world, *said, config=None):
    """Return the last turn of a new session, its record, and the differences that a replay finds."""

    async def work():
        async with small_engine(world=world, config=config) as (engine, store, _):
            turn = await converse(engine, *said)
            record = await store.turn("s", turn.turn_id)
            again = replay_prompt(read_snapshot(record), CalibratedEstimator().estimate)
            return turn, record, find_differences(record, again)

    return anyio.run(work)


def shown(turn) -> list[str]:
    return [each.entry_id for each in turn.report.activation if each.chosen]


def codes(turn) -> dict[str, str]:
    return {each.entry_id: each.code for each in turn.report.activation}


ALL = "I cross the river with a 火把, the brass key and the wolf trail in mind."


def test_entries_stand_in_their_places_and_a_replay_gives_the_same_bytes():
    turn, _, differences = weave(world_of(*MILL), "Hello.", ALL)
    assert differences == ()
    system, *rest = turn.messages
    mill, persona, door = (system.content.index(text) for text in ("grinds at night", "<persona>", "a brass key."))
    assert mill < persona < door
    contents = [(message.role, message.content) for message in rest]
    assert contents[0] == ("system", '<lore id="mill_5">{ada}: Mind the step.</lore>')
    assert contents[1] == ("assistant", '<lore id="mill_8">&lt;b&gt;Wolves&lt;/b&gt; &amp; owls.</lore>')
    assert contents[2] == ("user", "Hello.")
    assert contents[4] == ("system", '<lore id="mill_2">磨坊主怕火。</lore>')
    last = rest[-1].content
    assert last.index("Write short") < last.index("no ford") < last.index("<user_input>")
    assert "Nobody reads" not in turn.text
    assert "Switched off" not in turn.text
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(turn.text, encoding="utf-8")
    assert GOLDEN.read_text(encoding="utf-8") == turn.text


def test_the_receipt_says_why():
    turn, record, _ = weave(world_of(*MILL), "Hello.", ALL)
    told = {each.entry_id: each for each in turn.report.activation}
    assert set(shown(turn)) == {"mill_0", "mill_1", "mill_2", "mill_3", "mill_4", "mill_5", "mill_8"}
    assert (told["mill_0"].code, told["mill_0"].position) == ("constant", "before")
    assert (told["mill_1"].code, told["mill_1"].key, told["mill_1"].pass_number) == ("key", "brass key", 1)
    assert "'火把'" in told["mill_2"].reason
    assert (told["mill_6"].chosen, told["mill_6"].code) == (False, "outlet")
    assert "mill_7" not in told
    kept = {each.block_id: each for each in turn.report.decisions}
    assert (kept["mill_1"].kind.value, kept["mill_1"].source, kept["mill_1"].title) == (
        "world_info",
        "world_info:Mill",
        "The door",
    )
    assert record.plan["world_info"]["chat_length"] == 3


def test_constant_entries_are_high_and_others_medium_and_none_must_stay():
    turn, _, _ = weave(world_of(*MILL), ALL)
    priorities = {block.block_id: block.priority.value for block in turn.context_blocks}
    assert priorities["mill_0"] == "high"
    assert {priorities[name] for name in ("mill_1", "mill_2", "mill_3")} == {"medium"}


def test_an_entry_stands_once_whatever_its_category_and_recall_leaves_it_out():
    door = info(1, "Its door opens with a brass key.", key=["brass key"], position=1)
    turn, _, _ = weave(world_of(*MILL[:1], door), "Where is the brass key of the mill?")
    assert turn.text.count("grinds at night") == 1
    assert turn.text.count("Its door opens") == 1
    assert not [each for each in turn.report.stream_b.candidates if each.entry_id.startswith("mill_")]


def test_entries_without_a_key_in_the_text_are_recalled_only_if_they_are_vectorized():
    lore = (
        info(1, "The brass key opens the mill.", key=["password"]),
        info(2, "The brass key was cast in the mill.", key=["foundry"], vectorized=True),
    )
    turn, _, _ = weave(world_of(*lore), "Where is the brass key of the mill?")
    assert [each.entry_id for each in turn.report.stream_b.candidates] == ["mill_2"]


def test_hidden_entries_never_fire():
    broken = Condition(path="hero.gold", op=Comparison.GE, value=9000)
    lore = (
        info(1, "The miller is the thief.", constant=True, viewers=("miller",)),
        info(2, "The dam broke.", constant=True, when=(broken,)),
        info(3, "The mill is open.", constant=True),
    )
    turn, _, _ = weave(world_of(*lore), "Hello.")
    assert shown(turn) == ["mill_3"]
    assert "mill_1" not in codes(turn)
    turn, record, _ = weave(world_of(*lore), "Hello.", config=RuntimeConfig(viewer="miller"))
    assert set(shown(turn)) == {"mill_1", "mill_3"}
    # Who may not know the entry may not know the turn that it was shown in.
    assert record.messages[0].extra


def test_entries_that_cannot_be_read_are_lore_like_any_other():
    lore = (
        info(1, "The brass key opens the mill.", key=["password"], position="nowhere"),
        info(2, "The mill is open.", constant=True),
        replace(info(2, "A second entry of that name."), entry_id="mill_2b"),
    )
    turn, _, _ = weave(world_of(*lore), "Where is the brass key of the mill?")
    assert shown(turn) == ["mill_2"]
    assert codes(turn)["mill_2b"] == "unreadable"


def test_names_of_speakers_and_fields_of_the_card_are_scanned():
    lore = (
        info(1, "The narrator limps.", key=["林语"]),
        info(2, "The hall is cold.", key=["great hall"], matchScenario=True),
        info(3, "The cellar is wet.", key=["cellar"]),
    )
    card = {
        "name": "林语",
        "file_name": "linyu",
        "document": {"data": {"scenario": "{{char}} waits in the great hall."}},
    }
    turn, _, _ = weave(world_of(*lore, imported={"cards": [card]}), "Hello.", "And now?")
    assert set(shown(turn)) == {"mill_1", "mill_2"}


def test_only_messages_that_the_prompt_shows_are_scanned():
    lore = (info(1, "The key is brass.", key=["key"], scanDepth=9),)
    whole, _, _ = weave(world_of(*lore), "I hold the key.", "Hm.", "And now?")
    assert shown(whole) == ["mill_1"]
    none = config_from_mapping({"history": {"max_messages": 0}})
    turn, _, _ = weave(world_of(*lore), "I hold the key.", "Hm.", "And now?", config=none)
    assert shown(turn) == []


def test_the_setting_decides_over_the_pack():
    world = world_of(*MILL)
    by_recall, _, _ = weave(world, "Hello.", ALL, config=RECALL)
    assert by_recall.report.activation == ()
    assert '<axiom id="mill_0">' in by_recall.text
    assert by_recall.plan.world_info is None
    pack, _, _ = weave(replace(world, activation="recall"), "Hello.", ALL)
    assert pack.messages == by_recall.messages
    forced, _, _ = weave(
        replace(world, activation="recall"), "Hello.", ALL, config=RuntimeConfig(activation="sillytavern")
    )
    assert forced.messages == weave(world, "Hello.", ALL)[0].messages


@pytest.mark.parametrize(
    ("given_", "named"),
    [
        ({"activation": "keywords"}, "activation"),
        ({"world_info": {"scan_depth": -1}}, "scan_depth"),
        ({"world_info": {"insertion_strategy": "sometimes"}}, "insertion_strategy"),
        ({"world_info": {"depth": 1}}, "depth"),
    ],
)
def test_settings_are_checked(given_, named):
    with pytest.raises(ConfigError, match=named):
        config_from_mapping(given_)


def test_world_info_config_has_the_shipped_defaults_and_refuses_what_cannot_be():
    assert (WorldInfoConfig().scan_depth, WorldInfoConfig().budget_percent, WorldInfoConfig().recursive) == (
        2,
        25,
        True,
    )
    with pytest.raises(ConfigError, match="budget_percent"):
        WorldInfoConfig(budget_percent=101)
    with pytest.raises(ConfigError, match="activation"):
        RuntimeConfig(activation="both")


def test_cache_first_keeps_what_changes_behind_the_history():
    turn, _, differences = weave(world_of(*MILL), "Hello.", ALL, config=RuntimeConfig(layout="cache_first"))
    assert differences == ()
    assert "grinds at night" in turn.messages[0].content
    assert "Its door opens" not in turn.messages[0].content
    assert "Its door opens" in turn.messages[-1].content


def test_layers_show_world_info_as_knowledge():
    turn, _, differences = weave(world_of(*MILL), "Hello.", ALL, config=RuntimeConfig(layout="layers"))
    assert differences == ()
    knowledge = next(message for message in turn.messages if "grinds at night" in message.content)
    assert "Its door opens" in knowledge.content
    assert "<persona>" not in knowledge.content


def test_entries_of_one_place_stand_by_order_and_equal_ones_reversed():
    lore = tuple(
        info(uid, f"Text {uid}.", constant=True, order=order) for uid, order in enumerate((100, 10, 100, 500, 10))
    )
    turn, _, _ = weave(world_of(*lore), "Hello.")
    places = sorted(range(5), key=lambda uid: turn.text.index(f"Text {uid}."))
    assert places == [4, 1, 2, 0, 3]


def test_a_short_budget_drops_the_entries_of_low_order_first():
    lore = tuple(
        info(uid, f"Text {uid}. " + "long " * 60, key=["mill"], order=order) for uid, order in enumerate((10, 900, 500))
    )
    config = RuntimeConfig(
        budget=BudgetConfig(max_input_tokens=1200, reserved_reply_tokens=100),
        world_info=WorldInfoConfig(context_tokens=100_000),
        curation=CurationConfig(enabled=False),
    )
    whole, _, _ = weave(world_of(*lore), "To the mill.")
    dropped_at = {}
    for tokens in range(500, whole.report.budget.used_tokens + 100, 40):
        short = replace(config, budget=BudgetConfig(max_input_tokens=tokens + 100, reserved_reply_tokens=100))
        try:
            turn, _, differences = weave(world_of(*lore), "To the mill.", config=short)
        except BudgetExceededError:
            continue
        assert differences == ()
        kept = frozenset(each.block_id for each in turn.report.decisions if each.action.value == "kept")
        for name in ("mill_0", "mill_1", "mill_2"):
            if name in kept:
                dropped_at.setdefault(name, tokens)
    assert dropped_at["mill_1"] <= dropped_at["mill_2"] <= dropped_at["mill_0"]


def test_effects_follow_the_branch():
    lore = (info(1, "The dam holds.", key=["dam"], sticky=6), info(2, "The mill is open.", constant=True))

    async def work():
        async with small_engine(world=world_of(*lore)) as (engine, _, _):
            first = await converse(engine, "Hello.", "Look at the dam.")
            await engine.commit_assistant_message("s", "<content>It holds.</content>")
            await converse(engine, "I go on.")
            await engine.commit_assistant_message("s", "<content>Aye.</content>")
            later = await converse(engine, "And on.")
            assert (first.plan.world_info.chat_length, later.plan.world_info.chat_length) == (3, 7)
            assert codes(later) == {"mill_1": "sticky", "mill_2": "constant"}
            again = await engine.swipe("s")
            assert again.plan.world_info.chat_length == 5
            assert codes(again)["mill_1"] == "sticky"
            await engine.rollback("s", None)
            fresh = await engine.prepare_turn("s", "Good evening.")
            assert fresh.plan.world_info.chat_length == 1
            assert codes(fresh) == {"mill_2": "constant"}

    anyio.run(work)


def test_a_numerical_turn_and_an_unanswered_message_carry_what_lasts():
    lore = (info(1, "The dam holds.", key=["dam"], sticky=8),)

    async def work():
        async with small_engine(world=world_of(*lore)) as (engine, _, _):
            await engine.prepare_turn("s", "Look at the dam.")
            await engine.prepare_turn("s", "Nobody answers?")
            await engine.commit_assistant_message("s", "<content>I do.</content>")
            potion = await engine.prepare_turn("s", "drink a potion")
            assert potion.reply
            assert (potion.report.activation, potion.plan.world_info.chat_length) == ((), 4)
            turn = await engine.prepare_turn("s", "I go on.")
            assert codes(turn) == {"mill_1": "sticky"}
            assert turn.plan.world_info.chat_length == 6

    anyio.run(work)


def test_a_swipe_is_a_reason_of_its_own():
    lore = (
        info(1, "Only for another reply.", constant=True, triggers=["swipe"]),
        info(2, "Only for the first.", constant=True, triggers=["normal"]),
    )

    async def work():
        async with small_engine(world=world_of(*lore)) as (engine, _, _):
            turn = await engine.prepare_turn("s", "Hello.")
            assert shown(turn) == ["mill_2"]
            await engine.commit_assistant_message("s", "<content>Aye.</content>")
            assert shown(await engine.swipe("s")) == ["mill_1"]

    anyio.run(work)


class StoreWithABrokenPlan(MemoryStore):
    """A store in which what world info left in the turn before cannot be read."""

    async def turn_inputs(self, *args, **kwargs):
        inputs = await super().turn_inputs(*args, **kwargs)
        previous = inputs.window.previous
        if previous is None:
            return inputs
        plan = {**previous.plan, "world_info": {"chat_length": "three"}}
        return replace(inputs, window=replace(inputs.window, previous=replace(previous, plan=plan)))


def test_effects_that_cannot_be_read_are_done_without():
    async def work():
        async with small_engine(world=world_of(*MILL), store=StoreWithABrokenPlan()) as (engine, _, _):
            turn = await converse(engine, "Hello.", "And now?")
            assert codes(turn) == {"mill_0": "constant"}
            assert turn.plan.world_info.chat_length == 3
            assert "record_damaged" in {each.code for each in turn.report.degradations}

    anyio.run(work)


def test_the_package_says_it_too():
    turn, _, _ = weave(world_of(*MILL), ALL)
    debug = turn.package.debug
    assert any(line.startswith("world info mill_1: key: ") for line in debug["why_selected"])
    assert any(line.startswith("world info mill_6: outlet: ") for line in debug["ignored"])
    sources = [block.source for block in turn.package.system_blocks]
    assert {"block_id": "mill_1", "memory_item_id": "mill_1"} in sources


def test_the_same_request_is_answered_from_its_record():
    async def work():
        async with small_engine(world=world_of(*MILL)) as (engine, _, _):
            turn = await engine.prepare_turn("s", ALL)
            again = await engine.prepare_turn("s", ALL)
            assert again == turn
            assert again.report.activation == turn.report.activation

    anyio.run(work)


TEXTS = st.text(alphabet=st.sampled_from("abc 诗村长钥匙poem.key"), min_size=1, max_size=20).filter(str.strip)


@settings(max_examples=12, deadline=None)
@given(TEXTS)
def test_a_world_without_world_info_has_the_same_bytes_by_either_rule(said):
    turn, record, _ = weave(FOREST, said)
    other, other_record, _ = weave(replace(FOREST, activation="sillytavern"), said)
    assert (other.messages, other.text) == (turn.messages, turn.text)
    assert other_record.plan == record.plan
    assert "world_info" not in record.plan
    assert other.report.activation == ()


@settings(max_examples=8, deadline=None)
@given(TEXTS)
def test_where_entries_are_recalled_what_they_were_in_their_book_changes_nothing(said):
    world = world_of(*MILL, activation="recall")
    bare = tuple(replace(entry, metadata={}) for entry in world.lore)
    assert weave(world, said)[0].messages == weave(replace(world, lore=bare), said)[0].messages


PACK = {
    "world.yaml": """id: mill
title: 磨坊
locale: zh
activation: sillytavern
instruction: 你是磨坊的叙事者。
persona: {name: 阿达}
user_name: 汤姆
""",
    "lore/book.yaml": """- id: lore_mill
  name: 磨坊
  category: axiom
  content: 磨坊只在夜里转动。
  world_info: {world: 磨坊志, uid: 0, fields: {content: 磨坊只在夜里转动。, constant: true, position: 0}}
- id: lore_key
  name: 铜钥匙
  category: encyclopedia
  keys: [铜钥匙]
  content: 铜钥匙打开地窖。
  world_info: {world: 磨坊志, uid: 1, fields: {content: 铜钥匙打开地窖。, key: [铜钥匙], position: 1}}
- id: lore_cellar
  name: 地窖
  category: encyclopedia
  keys: [酒窖]
  content: 地窖里有磨坊主的铜钥匙和酒。
  world_info:
    world: 磨坊志
    uid: 2
    fields: {content: 地窖里有磨坊主的铜钥匙和酒。, key: [酒窖], excludeRecursion: true}
- id: lore_off
  name: 旧稿
  category: encyclopedia
  enabled: false
  content: 旧稿。
  world_info: {world: 磨坊志, uid: 3, fields: {content: 旧稿。, constant: true}}
""",
}


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in PACK.items():
        path = tmp_path / "mill" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def call(*arguments):
        done = CliRunner().invoke(app, [*arguments])
        assert done.exit_code == 0, done.output
        return done.stdout

    return call


def test_the_commands_show_it(run):
    options = ("--session", "s", "--embedder", "none", "--input", "铜钥匙在哪里?")
    woven = run("play", "weave", "--world", "mill", *options)
    assert "world info: 2 entries set off, 2 shown" in woven
    assert "lore_key  铜钥匙" in woven
    explained = run("play", "explain")
    assert "constant: It is constant" in explained
    report = json.loads(run("play", "explain", "--json"))["report"]
    assert [each["entry_id"] for each in report["activation"]] == ["lore_mill", "lore_key"]
    origin = json.loads(run("play", "explain", "--find", "打开地窖", "--json"))["origins"][0]
    assert (origin["decision"]["source"], origin["uri"]) == (
        "world_info:磨坊志",
        "mnemosyne://world:mill/lore/lore_key",
    )
    assert "铜钥匙打开地窖。" in run("memory", "source", origin["uri"])
    assert "旧稿" not in woven
    run("play", "commit", "--session", "s", "--text", "<content>在地窖里。</content>")
    assert json.loads(run("author", "replay", "--session", "s", "--json"))["turns"][0]["same"]


def test_what_if_keeps_world_info(run):
    run("play", "weave", "--world", "mill", "--session", "s", "--embedder", "none", "--input", "铜钥匙在哪里?")
    run("play", "commit", "--session", "s", "--text", "<content>在地窖里。</content>")
    Path("other.yaml").write_text("layout: cache_first\nactivation: recall\n", encoding="utf-8")
    told = json.loads(run("author", "replay", "--session", "s", "--config", "other.yaml", "--json"))
    assert told["settings"] == {"played": ["layout"], "not_played": ["activation"]}
    # Every entry stays in the prompt, in the places of the other layout.
    assert (told["turns"][0]["decisions"], told["turns"][0]["moved"], told["turns"][0]["fault"]) == ([], True, "")


def test_a_preview_of_a_recorded_turn_is_the_recorded_prompt(run):
    run("play", "weave", "--world", "mill", "--session", "s", "--embedder", "none", "--input", "铜钥匙在哪里?")
    preview = run("author", "template", "preview", "--session", "s")
    assert preview.count("磨坊只在夜里转动。") == 1
    assert preview.count("铜钥匙打开地窖。") == 1
    assert "same prompt" in run("author", "template", "preview", "--session", "s")


def test_compare_shows_both_ways_side_by_side(run):
    run("play", "weave", "--world", "mill", "--session", "s", "--embedder", "none", "--input", "你好。")
    options = ("lore", "compare", "s", "--embedder", "none", "--input", "铜钥匙在哪里?")
    found = json.loads(run(*options, "--json"))
    assert found["activation"] == "sillytavern"
    told = {each["entry_id"]: each for each in found["entries"]}
    assert (told["lore_mill"]["sillytavern"]["code"], told["lore_mill"]["recall"]["code"]) == ("constant", "axiom")
    assert told["lore_key"]["sillytavern"]["chosen"]
    assert told["lore_cellar"]["sillytavern"] == {
        "chosen": False,
        "code": "not_set_off",
        "reason": "None of its keys is in the scanned text.",
    }
    assert told["lore_cellar"]["recall"]["code"] not in ("not_recalled", "")
    text = run(*options)
    assert "SillyTavern" in text
    assert "not_set_off" in text
    history = json.loads(run("play", "history", "--session", "s", "--json"))
    assert "铜钥匙在哪里" not in json.dumps(history, ensure_ascii=False)
    # What a comparison says is what the turn does.
    report = json.loads(
        run("play", "weave", "--session", "s", "--embedder", "none", "--input", "铜钥匙在哪里?", "--json")
    )
    by_rules = {name for name, each in told.items() if each["sillytavern"]["chosen"]}
    assert {each["entry_id"] for each in report["report"]["activation"] if each["chosen"]} == by_rules
    assert report["turn_id"] == found["turn_id"]
    assert PromptMessage.from_plain(report["messages"][0]).role == Role.SYSTEM.value

"""What a model is told about refused ops, and how a host repairs a state: sessions of the starter packs, in both languages."""

from __future__ import annotations

import anyio
import pytest
from typer.testing import CliRunner

from jacquard import ConfigError, MemoryVerbs, RuntimeConfig, open_runtime
from jacquard.cli.app import app
from mnemosyne import ToolCall
from mnemosyne.core.errors import StateOpError
from mnemosyne.world.scaffold import write_scaffold

BAD = 'Fine.<state_update>[["SET", "location", 42], ["ADD", "hero.helth", 5], ["SUB", "hero.coins", 2]]</state_update>'
EN = (
    "<refused_update>",
    "'location' takes text",
    "did you mean 'health'",
    "Right by themselves",
    '["SUB", "hero.coins", 2]',
)
ZH = ("<refused_update>", "没有执行", "这里要文字", "最接近的是 health", '["SUB", "hero.coins", 2]')


def play(tmp_path, locale, script, config=None):
    """Run a script over a session of the starter pack; it gets the runtime and the engine."""
    pack = tmp_path / "pack"
    if not pack.exists():
        write_scaffold(pack, locale)

    async def run():
        async with open_runtime(str(tmp_path / "store"), world=pack, embedder="none", config=config) as runtime:
            await runtime.ensure_session("s")
            return await script(runtime, runtime.engine)

    return anyio.run(run)


@pytest.mark.parametrize(("locale", "words"), [("en", EN), ("zh", ZH)])
def test_the_next_prompt_tells_what_was_refused_and_only_the_next(tmp_path, locale, words):
    async def script(runtime, engine):
        await engine.prepare_turn("s", "I look around.")
        done = await engine.commit_assistant_message("s", BAD)
        told = await engine.prepare_turn("s", "And now?")
        again = await engine.prepare_turn("s", "Or else?")
        await engine.commit_assistant_message("s", "Well.")
        after = await engine.prepare_turn("s", "Go on.")
        return done, told, again, after

    done, told, again, after = play(tmp_path, locale, script)
    assert [verdict.code for verdict in done.verdicts] == ["wrong_type", "unknown_path", "turn_refused"]
    for turn in (told, again):
        shown = turn.text
        assert all(word in shown for word in words)
        place = {"en": "the jetty of Gull Rock", "zh": "鸥岩的栈桥"}[locale]
        (line,) = (line for line in shown.splitlines() if line.startswith('- ["SET", "location", 42]'))
        assert place in line
        (kept,) = (each for each in turn.report.decisions if each.block_id == "refused_update")
        assert kept.action.value == "kept"
    assert "<refused_update>" not in after.text
    replayed = CliRunner().invoke(
        app, ["author", "replay", "--session", "s", "--store", str(tmp_path / "store"), "--json"]
    )
    assert replayed.exit_code == 0, replayed.output


UNTAGGED = [
    '<content>You paid.</content>\n```json\n[["SUB", "hero.coins", 2]]\n```',
    '<content>You paid.\n\n[["SUB", "hero.coins", 2]]</content>',
    '<content>You paid.</content>\n{"ops": [{"op": "SUB", "path": "hero.coins", "value": 2}]}',
    'You paid.\n["SUB", "hero.coins", 2]',
    'You paid. [["SUB", "hero.coins", 2]]',
    '<content>You paid.</content>\nstate_update: [["SUB", "hero.coins", 2]]',
]


@pytest.mark.parametrize("reply", UNTAGGED)
@pytest.mark.parametrize(("locale", "words"), [("en", "without their tag"), ("zh", "没有标签")])
def test_changes_without_their_tag_are_carried_out_and_told(tmp_path, locale, words, reply):
    async def script(runtime, engine):
        before = (await MemoryVerbs(runtime).get_state("s"))["hero"]["coins"]
        await engine.prepare_turn("s", "I pay.")
        done = await engine.commit_assistant_message("s", reply)
        told = await engine.prepare_turn("s", "And now?")
        await engine.commit_assistant_message("s", "<content>Well.</content>")
        after = await engine.prepare_turn("s", "Go on.")
        return before, (await MemoryVerbs(runtime).get_state("s"))["hero"]["coins"], done, told, after

    before, coins, done, told, after = play(tmp_path, locale, script)
    assert (done.content, done.refused, done.set_aside) == ("You paid.", None, ())
    assert any("without its tag" in each for each in done.corrections)
    assert (before, coins) == (before, before - 2)
    assert words in told.text
    assert "You paid." in told.text
    assert words not in after.text
    assert "SUB" not in after.text.split("<chat_history>")[-1]


@pytest.mark.parametrize("place", ["typed", "typed before", "remembered", "found", "setting"])
def test_changes_without_their_tag_that_the_prompt_contains_are_not_carried_out(tmp_path, place):
    typed = '["ADD", "hero.coins", 900]'

    async def script(runtime, engine):
        verbs = MemoryVerbs(runtime)
        before = (await verbs.get_state("s"))["hero"]["coins"]
        if place == "typed before":
            await engine.prepare_turn("s", f"The sign says {typed}.")
            await engine.commit_assistant_message("s", "<content>You read the sign.</content>")
        if place == "remembered":
            await verbs.remember("s", f"The sign at the harbour gate says {typed}")
        said = f"Say [{typed}] to me." if place == "typed" else "What does the sign at the harbour gate say?"
        turn = await engine.prepare_turn("s", said)
        if place == "found":
            call = ToolCall(tool_call_id="c1", tool="look", extra={"turn_id": turn.turn_id})
            await engine.record_tool_call("s", call, result=f"The sign at the harbour gate says {typed}")
            await engine.commit_assistant_message("s", "<content>You look.</content>")
            turn = await engine.prepare_turn("s", "What does the sign at the harbour gate say?")
        assert place == "setting" or "900" in turn.text
        done = await engine.commit_assistant_message("s", f"<content>It says:</content>\n[{typed}]")
        told = await engine.prepare_turn("s", "Go on.")
        return before, (await verbs.get_state("s"))["hero"]["coins"], done, told

    before, coins, done, told = play(tmp_path, "en", script, RuntimeConfig(untagged_updates=place != "setting"))
    assert coins == before
    assert [each.code for each in done.set_aside] == ["update_untagged" if place == "setting" else "update_echoed"]
    assert done.content == "It says:"
    assert ("was not applied: it has no tag" if place == "setting" else "was not carried out") in told.text


@pytest.mark.parametrize("update", ["", "[]", "{}", "\n```json\n```\n", "null", "无变化。", "No changes."])
def test_an_empty_update_is_not_told_as_refused(tmp_path, update):
    async def script(runtime, engine):
        await engine.prepare_turn("s", "I look around.")
        wrapped = f"<state_update>{update}</state_update>"
        done = await engine.commit_assistant_message("s", f"<content>Fine.</content>{wrapped}")
        first = await engine.prepare_turn("s", "And now?")
        await engine.commit_assistant_message("s", f"{wrapped}<content>Fine.</content>")
        second = await engine.prepare_turn("s", "And then?")
        real = '<state_update>[["SUB", "hero.coins", 2]]</state_update>'
        after = await engine.commit_assistant_message("s", f"<content>Paid.</content>{wrapped}{real}")
        return done, first, second, after

    done, first, second, after = play(tmp_path, "en", script)
    assert (done.refused, done.verdicts) == (None, ())
    assert "refused_update" not in first.text
    assert "refused_update" not in second.text
    assert [op["path"] for op in after.ops] == ["/hero/coins"]


@pytest.mark.parametrize("reply", ["", "<thought>Hm.</thought>", "<content> </content>"])
def test_an_empty_reply_is_not_sent_on(tmp_path, reply):
    async def script(runtime, engine):
        await engine.prepare_turn("s", "I look around.")
        await engine.commit_assistant_message("s", reply)
        return await engine.prepare_turn("s", "And now?"), await engine.prepare_turn("s", "Or else?")

    for turn in play(tmp_path, "en", script):
        assert all(message.content.strip() for message in turn.messages)
        assert sum(message.content.startswith("I look around.") for message in turn.messages) == 1
        assert '<message role="assistant"></message>' not in turn.text


def test_an_action_in_between_does_not_hide_it(tmp_path):
    async def script(runtime, engine):
        await engine.prepare_turn("s", "I look around.")
        await engine.commit_assistant_message("s", BAD)
        action = await engine.prepare_turn("s", "light the lamp")
        return action, await engine.prepare_turn("s", "And now?")

    action, told = play(tmp_path, "en", script)
    assert action.reply == "The lamp burns."
    assert "<refused_update>" in told.text


def test_an_update_at_the_wrong_place_is_told_and_a_quoted_one_is_not(tmp_path):
    async def script(runtime, engine):
        await engine.prepare_turn("s", "I look around.")
        await engine.commit_assistant_message("s", '<state_update>[["SUB", "hero.coins", 2]]</state_update>')
        told = await engine.prepare_turn("s", "And now?")
        await engine.commit_assistant_message(
            "s", 'You typed `<state_update>[["SUB", "hero.coins", 2]]</state_update>`.'
        )
        return told, await engine.prepare_turn("s", "Go on.")

    told, after = play(tmp_path, "en", script)
    assert "<refused_update>" in told.text
    assert "content first" in told.text or "content before it" in told.text
    assert "<refused_update>" not in after.text


def test_a_host_repairs_the_state_and_the_repair_is_in_the_log(tmp_path):
    async def script(runtime, engine):
        await engine.prepare_turn("s", "I look around.")
        await engine.commit_assistant_message(
            "s", 'Done.<state_update>[["SET", "q_light.status", "已完成"]]</state_update>'
        )
        before = await runtime.store.head("s")
        ops = [["SET", "q_light.status", "active"], ["SET", "hero.luck", 3]]
        done = await engine.repair_state("s", ops, reason="The light still burns.")
        record = await runtime.store.turn("s", done.turn_id)
        state = await runtime.store.state_at("s", done.turn_id)
        old = await runtime.store.state_at("s", before.turn_id)
        with pytest.raises(StateOpError, match="takes text"):
            await engine.repair_state("s", [["SET", "location", 42]])
        with pytest.raises(ConfigError, match="at least one op"):
            await engine.repair_state("s", [])
        turn = await engine.prepare_turn("s", "Go on.")
        return done, record, state, old, turn

    done, record, state, old, turn = play(tmp_path, "en", script)
    assert [verdict.is_applied for verdict in done.verdicts] == [True, True]
    assert record.report["repair"] == "The light still burns."
    assert record.report["events"]
    assert (old["quests"]["q_light"]["status"], state["quests"]["q_light"]["status"]) == ("completed", "active")
    assert state["hero"]["luck"] == 3
    assert "luck: 3" in turn.text
    assert turn.depth == record.depth + 1
    replayed = CliRunner().invoke(
        app, ["author", "replay", "--session", "s", "--store", str(tmp_path / "store"), "--json"]
    )
    assert replayed.exit_code == 0, replayed.output

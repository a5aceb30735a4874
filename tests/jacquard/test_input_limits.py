"""Inputs that are too large: refused with their size, their limit and the setting, and nothing is changed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jacquard import InputTooLargeError, JacquardError, LimitsConfig, RuntimeConfig, open_runtime
from jacquard.cli.app import app
from mnemosyne import ToolCall

FOREST = Path(__file__).parents[2] / "examples" / "whispering_forest" / "en"
SMALL = RuntimeConfig(limits=LimitsConfig(user_message_chars=40, reply_chars=60, tool_result_chars=50))


def forest(config=SMALL, store="memory:"):
    return open_runtime(store, world=FOREST, embedder="none", config=config)


async def pending(runtime):
    await runtime.ensure_session("s")
    return await runtime.engine.prepare_turn("s", "I open the door.")


@pytest.mark.anyio
async def test_a_user_message_of_the_limit_is_taken_and_one_more_character_is_not():
    async with forest() as runtime:
        await runtime.ensure_session("s")
        before = await runtime.store.head("s")
        with pytest.raises(InputTooLargeError) as caught:
            await runtime.engine.prepare_turn("s", "x" * 41)
        assert str(caught.value) == (
            "The user message has 41 characters, the limit is 40. Shorten it, or raise the setting limits.user_message_chars."
        )
        assert await runtime.store.head("s") == before
        assert (await runtime.engine.prepare_turn("s", "x" * 40)).depth == before.depth + 1


@pytest.mark.anyio
async def test_the_limit_of_a_turns_own_configuration_counts():
    async with forest() as runtime:
        await runtime.ensure_session("s")
        wide = replace(SMALL, limits=replace(SMALL.limits, user_message_chars=400))
        assert (await runtime.engine.prepare_turn("s", "x" * 400, wide)).messages[-1].content.count("x") >= 400
        with pytest.raises(InputTooLargeError):
            await runtime.engine.prepare_turn("s", "x" * 401, wide)


@pytest.mark.anyio
async def test_a_refused_first_message_starts_no_session(tmp_path):
    async with forest() as runtime:
        with pytest.raises(InputTooLargeError):
            await runtime.action("s", "x" * 41)
        assert await runtime.store.sessions() == ()


@pytest.mark.anyio
async def test_a_reply_that_is_too_long_leaves_the_turn_pending():
    async with forest() as runtime:
        turn = await pending(runtime)
        with pytest.raises(InputTooLargeError) as caught:
            await runtime.engine.commit_assistant_message("s", "<content>" + "y" * 80 + "</content>")
        assert (caught.value.what, caught.value.size, caught.value.limit) == ("reply", 99, 60)
        assert caught.value.setting == "limits.reply_chars"
        done = await runtime.engine.commit_assistant_message("s", "<content>A short one.</content>")
        assert (done.turn_id, done.content) == (turn.turn_id, "A short one.")
        # A turn that is committed is answered from its record, whatever comes.
        again = await runtime.engine.commit_assistant_message("s", "z" * 500, turn_id=turn.turn_id)
        assert again.content == "A short one."


@pytest.mark.anyio
async def test_chunks_are_counted_together_and_what_came_before_is_kept():
    async with forest() as runtime:
        engine = runtime.engine
        await pending(runtime)
        await engine.commit_assistant_chunk("s", "a" * 40, 0)
        with pytest.raises(InputTooLargeError) as caught:
            await engine.commit_assistant_chunk("s", "b" * 40, 1)
        assert (caught.value.size, caught.value.limit, caught.value.setting) == (80, 60, "limits.reply_chars")
        await engine.commit_assistant_chunk("s", "b" * 20, 1)
        assert (await engine.finalize_assistant_message("s")).content == "a" * 40 + "b" * 20


@pytest.mark.anyio
async def test_of_both_limits_of_chunks_the_smaller_counts():
    less = replace(SMALL, chunks=replace(SMALL.chunks, max_chars=30))
    async with forest(less) as runtime:
        await pending(runtime)
        with pytest.raises(JacquardError, match="would pass 30 characters"):
            await runtime.engine.commit_assistant_chunk("s", "a" * 31, 0)
    default = RuntimeConfig()
    assert default.chunks.max_chars >= default.limits.reply_chars


@pytest.mark.anyio
async def test_a_chunk_far_out_is_refused_instead_of_looking_for_all_before_it():
    async with forest() as runtime:
        await pending(runtime)
        with pytest.raises(JacquardError, match=r"Chunk 1000000000000 .* at most"):
            await runtime.engine.commit_assistant_chunk("s", "", 10**12)


@pytest.mark.anyio
async def test_a_tool_result_that_is_too_long_writes_no_call():
    async with forest() as runtime:
        await pending(runtime)
        call = ToolCall(tool_call_id="c1", tool="read")
        before = await runtime.store.head("s"), await runtime.store.list_evidences("s")
        with pytest.raises(InputTooLargeError) as caught:
            await runtime.engine.record_tool_call("s", call, result="w" * 51)
        assert (caught.value.what, caught.value.setting) == ("tool result", "limits.tool_result_chars")
        assert (await runtime.store.head("s"), await runtime.store.list_evidences("s")) == before
        await runtime.engine.record_tool_call("s", call, result="w" * 50)


@pytest.mark.anyio
@pytest.mark.parametrize("depth", [300, 700, 900, 100_000])
async def test_a_tool_result_that_is_nested_deep_is_taken_in(depth):
    async with forest(RuntimeConfig()) as workshop:
        await pending(workshop)
        nested = "[" * depth + '"a word"' + "]" * depth
        await workshop.engine.record_tool_call("s", ToolCall(tool_call_id="c1", tool="read"), result=nested)
        assert nested in [each.content for each in await workshop.store.list_evidences("s")]
        assert (await workshop.engine.prepare_turn("s", "And now?")).depth > 0


@pytest.mark.anyio
async def test_a_session_with_messages_beyond_the_limits_goes_on(tmp_path):
    """What was taken in before there were limits stays in the history, and turns go on behind it."""
    wide = RuntimeConfig(limits=LimitsConfig(user_message_chars=10**7, reply_chars=10**7))
    roomy = replace(wide, budget=replace(wide.budget, max_input_tokens=2_000_000))
    async with forest(roomy, tmp_path) as runtime:
        await runtime.ensure_session("s")
        first = await runtime.engine.prepare_turn("s", "a" + "\u0316\u0301" * 20_000)
        await runtime.engine.commit_assistant_message("s", "「" * 100_000)
    async with forest(SMALL, tmp_path) as runtime:
        turn = await runtime.engine.prepare_turn("s", "Where am I?")
        assert turn.depth == first.depth + 1
        await runtime.engine.commit_assistant_message("s", "<content>In the forest.</content>")


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text("limits: {user_message_chars: 40, reply_chars: 60}\n")

    def call(*args, code=0):
        more = ["--world", str(FOREST), "--session", "s", "--config", "small.yaml"]
        done = CliRunner().invoke(app, [*args, *more])
        assert done.exit_code == code, done.output
        return done

    return call


@pytest.mark.parametrize("command", ["weave", "action"])
def test_the_commands_tell_of_a_message_that_is_too_long_before_they_start_a_session(run, command):
    done = run(command, "--input", "x" * 41, code=1)
    assert "error: The user message has 41 characters, the limit is 40." in done.stderr
    assert "limits.user_message_chars" in done.stderr
    listed = CliRunner().invoke(app, ["play", "sessions", "--json"])
    assert '"s"' not in listed.output


def test_commit_tells_of_a_reply_that_is_too_long_and_the_turn_stays_pending(run):
    woven = json.loads(run("play", "weave", "--input", "I wait.", "--embedder", "none", "--json").stdout)
    done = run("play", "commit", "--text", "y" * 61, code=1)
    assert "error: The reply has 61 characters, the limit is 60." in done.stderr
    told = json.loads(run("play", "commit", "--text", "A leaf falls.", "--json").stdout)
    assert (told["turn_id"], told["content"]) == (woven["turn_id"], "A leaf falls.")


def test_limits_are_settings_like_all_others(run):
    Path("small.yaml").write_text("limits: {reply_chars: 0}\n")
    assert "limits.reply_chars" in run("play", "weave", "--input", "x", code=2).stderr

"""Limits of what a reply and an action may do to the state: nothing is applied, and the refusal says what to do."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from filament import OpLimits, judge_ops, with_anchors
from jacquard import CurationConfig, LimitsConfig, RuntimeConfig, create_context_engine
from jacquard.cli.app import app
from mnemosyne import MemoryStore, load_world
from mnemosyne.core.errors import StateOpError
from mnemosyne.schema.world import NumericalAction

pytestmark = pytest.mark.anyio
FOREST = Path(__file__).parents[2] / "examples" / "whispering_forest" / "en"
WORLD = load_world(FOREST)
SMALL = {
    "hero": {"name": "Rowan", "gold": 9, "mood": "calm", "health": [85, "wounded"]},
    "bag": {"_anchor": "bag", "items": []},
    "story": {"_anchor": "story", "lines": []},
}


@asynccontextmanager
async def engine_of(state, *, limits=None, actions=()):
    config = RuntimeConfig(curation=CurationConfig(enabled=False), limits=limits or LimitsConfig())
    world = replace(WORLD, state=state, actions=actions)
    store = MemoryStore()
    async with create_context_engine(store, world=world, config=config) as engine:
        yield engine, store
    await store.close()


async def answered(engine, ops, text="Hello there"):
    await engine.prepare_turn("s", text)
    reply = f"<content>So be it.</content><state_update>{json.dumps(ops, ensure_ascii=False)}</state_update>"
    return await engine.commit_assistant_message("s", reply)


async def test_a_value_of_30_kb_is_refused_with_size_limit_and_setting_and_the_session_goes_on():
    async with engine_of(SMALL) as (engine, store):
        done = await answered(engine, [["SUB", "hero.gold", 1], ["SET", "hero.diary", "x" * 30_000]])
        assert [verdict.code for verdict in done.verdicts] == ["turn_refused", "value_too_large"]
        for told in ("hero.diary", "30,002", "8,000", "limits.op_value_chars"):
            assert told in done.refused
        assert done.ops == ()
        window = await store.window("s", message_limit=1)
        assert window.state == SMALL
        assert (await answered(engine, [["SUB", "hero.gold", 1]], "Go on")).refused is None


async def test_a_reply_of_many_ops_is_refused_with_one_verdict_on_those_beyond_the_limit():
    async with engine_of(SMALL) as (engine, _):
        done = await answered(engine, [["ADD", "hero.gold", 1]] * 10_000)
        assert len(done.verdicts) == 501
        last = done.verdicts[-1]
        assert (last.number, last.code) == (500, "too_many_ops")
        assert "10,000" in last.reason
        assert "limits.reply_ops" in last.reason
        assert {verdict.code for verdict in done.verdicts[:-1]} == {"turn_refused"}
        assert (await answered(engine, [["ADD", "hero.gold", 1]] * 500, "Go on")).refused is None


async def test_many_small_pushes_are_refused_once_the_state_is_too_large_and_taking_away_helps():
    async with engine_of(SMALL, limits=LimitsConfig(state_chars=1500)) as (engine, store):
        codes = []
        for turn in range(40):
            done = await answered(
                engine, [["PUSH", "bag", {"name": f"pebble {turn}", "count": 1}]], f"Pick it up {turn}"
            )
            codes.append(done.verdicts[0].code)
        assert codes.index("state_too_large") > 5
        assert set(codes) == {"applied", "state_too_large"}
        assert codes == sorted(codes)
        assert "limits.state_chars" in done.refused
        assert "PUSH" in done.refused
        state = (await store.window("s", message_limit=1)).state
        assert len(json.dumps(state, separators=(",", ":"))) <= 1500

        fits = await answered(
            engine, [["SUB", "hero.gold", 1], ["SET", "hero.mood", "afraid of the dark"]], "Look around"
        )
        assert fits.refused is None
        gone = await answered(engine, [["POP", "bag"]] * 8, "Empty the bag")
        assert gone.refused is None
        again = await answered(engine, [["PUSH", "bag", {"name": "a pebble", "count": 1}]], "Pick one up")
        assert again.refused is None


async def test_what_is_nested_deeper_than_a_prompt_can_show_is_refused():
    async with engine_of(SMALL) as (engine, _):
        value = {"end": 1}
        for _ in range(30):
            value = {"in": value}
        path, codes = "hero.in", []
        for turn in range(6):
            codes.append((await answered(engine, [["SET", path, value]], f"Deeper {turn}")).verdicts[0].code)
            path += ".in" * 30
        assert codes[0] == "applied"
        assert "too_deep" in codes
        await engine.prepare_turn("s", "And on we go")


def an_action(*ops):
    return NumericalAction(action_id="write", patterns=("write",), guards=(), ops=ops, reply="Written.")


async def test_an_action_is_held_to_the_size_of_the_state():
    action = an_action(["PUSH", "story.lines", "and it rained " * 20])
    async with engine_of(SMALL, limits=LimitsConfig(state_chars=1000), actions=(action,)) as (engine, store):
        for _ in range(2):
            assert (await engine.prepare_turn("s", "write")).reply == "Written."
        before = await store.window("s", message_limit=1)
        with pytest.raises(StateOpError) as caught:
            await engine.prepare_turn("s", "write")
        assert caught.value.code == "state_too_large"
        assert "limits.state_chars" in str(caught.value)
        assert await store.window("s", message_limit=1) == before
        await engine.prepare_turn("s", "Hello there")


async def test_the_value_of_an_authors_op_may_be_long():
    action = an_action(["PUSH", "story.lines", "and it rained " * 1000])
    async with engine_of(SMALL, actions=(action,)) as (engine, _):
        assert (await engine.prepare_turn("s", "write")).reply == "Written."


def test_the_command_line_shows_the_refusal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*args):
        done = CliRunner().invoke(app, [str(arg) for arg in args])
        assert done.exit_code == 0, done.output
        return done.output

    call("play", "weave", "--world", FOREST, "--session", "s", "--input", "Hello", "--embedder", "none")
    ops = json.dumps([["SET", "hero.diary", "x" * 30_000]])
    (tmp_path / "reply.txt").write_text(f"<content>Ok.</content><state_update>{ops}</state_update>", encoding="utf-8")
    told = " ".join(call("play", "commit", "--session", "s", "--file", tmp_path / "reply.txt").split())
    assert "state unchanged" in told
    for part in ("hero.diary", "30,002", "8,000", "limits.op_value_chars"):
        assert part in told
    (tmp_path / "engine.yaml").write_text("limits: {op_value_chars: 40000}", encoding="utf-8")
    call("play", "weave", "--session", "s", "--input", "Go on", "--embedder", "none")
    assert "state unchanged" not in call(
        "play", "commit", "--session", "s", "--file", tmp_path / "reply.txt", "--config", tmp_path / "engine.yaml"
    )


class Walked(dict):
    """A part of a state that counts how often it is walked through."""

    times = 0

    def items(self):
        Walked.times += 1
        return super().items()


def walks(ops):
    state = {**SMALL, "far": Walked({f"f{n}": n for n in range(50)})}
    Walked.times = 0
    done = judge_ops(state, [["ADD", "hero.gold", 1]] * ops, limits=OpLimits(state_chars=100_000))
    assert done.refused is None
    return Walked.times


def test_the_state_is_measured_once_and_not_for_every_op():
    assert walks(1) == walks(100) > 0


TEXTS = st.text(max_size=30)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9999) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "name"]), inner, max_size=3),
    max_leaves=5,
)
OPS = st.one_of(
    st.tuples(st.just("SET"), st.sampled_from(["hero.mood", "hero.diary", "hero.gold", "bag.note", "hero"]), VALUES),
    st.tuples(st.just("PUSH"), st.sampled_from(["bag", "story.lines"]), VALUES),
    st.tuples(st.just("POP"), st.sampled_from(["bag", "story.lines"])),
    st.tuples(st.just("ADD"), st.just("hero.gold"), st.integers(0, 10**6)),
    st.tuples(st.just("DELETE"), st.sampled_from(["hero.diary", "bag.note"])),
)


def size(tree):
    return len(json.dumps(tree, ensure_ascii=False, separators=(",", ":")))


@given(st.lists(OPS, max_size=25), st.integers(200, 700))
def test_whatever_the_ops_the_state_outgrows_its_limit_by_small_values_alone(ops, limit):
    state = SMALL
    for op in ops:
        judged = judge_ops(state, [op], limits=OpLimits(state_chars=limit))
        free = judge_ops(state, [op])
        before, after = size(state), size(free.tree)
        if judged.refused is None:
            assert judged.tree == free.tree
            if after > max(limit, before):
                assert op[0] != "PUSH"
                assert after - before <= 200
        elif judged.refused.code == "state_too_large":
            assert after > limit
            assert after > before
            assert judged.tree == state
        state = judged.tree


@given(st.lists(OPS, max_size=12), st.integers(200, 700))
def test_sizes_are_kept_right_from_op_to_op(ops, limit):
    """Ops of one reply are held to the very size that the ops before them have left, as if each came in a reply of its own.

    Members of a list that is set whole get their ids with the next reply, which makes the state larger only then.
    """
    state, codes = SMALL, []
    for op in ops:
        assume(with_anchors(state) is state)
        judged = judge_ops(state, [op], limits=OpLimits(state_chars=limit))
        codes.append(judged.verdicts[0].code)
        state = judged.tree
    together = judge_ops(SMALL, ops, limits=OpLimits(state_chars=limit))
    own = [verdict.code for verdict in together.verdicts]
    assert [code if code != "turn_refused" else "applied" for code in own] == codes

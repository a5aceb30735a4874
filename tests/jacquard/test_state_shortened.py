"""A state that is too large for its prompt is shown shortened, with a line in the receipt; the session goes on."""

from __future__ import annotations

import json
import re
import shlex
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from filament import display, load_yaml, unescape, with_anchors
from jacquard import (
    BudgetConfig,
    BudgetExceededError,
    CurationConfig,
    LimitsConfig,
    RuntimeConfig,
    create_context_engine,
)
from jacquard.cli.app import app
from mnemosyne import MemoryStore, load_world

pytestmark = pytest.mark.anyio
FOREST = Path(__file__).parents[2] / "examples" / "whispering_forest" / "en"
WORLD = load_world(FOREST)
QUIET = CurationConfig(enabled=False)
SMALL = {"hero": {"name": "Rowan", "gold": 900, "health": [85, "wounded"]}, "place": "the ford"}
DIARY = "It rained <all day> & the road was gone. "
SPENDS = '<content>So be it.</content><state_update>[["SUB", "hero.gold", 1]]</state_update>'


@asynccontextmanager
async def engine_of(state, *, world=WORLD, budget=None, **more):
    config = RuntimeConfig(curation=QUIET, budget=budget or BudgetConfig(), **more)
    store = MemoryStore()
    async with create_context_engine(store, world=replace(world, state=state, actions=()), config=config) as engine:
        yield engine, store
    await store.close()


def body(turn, name):
    """What a reader of the prompt reads in a block of YAML; None where there is none."""
    found = re.search(f"<{name}>\n(.*?)\n</{name}>", turn.text, re.DOTALL)
    return None if found is None else load_yaml(unescape(found[1]))


def nested(levels):
    tree = {"end": 1}
    for _ in range(levels):
        tree = {"in": tree}
    return tree


LARGE = {
    "30 kB in one text": {"diary": DIARY * 750},
    "2 MB in one text": {"diary": DIARY * 50_000},
    "50,000 entries of a list": {"log": [{"id": f"e{n}", "text": f"entry {n}"} for n in range(50_000)]},
    "50,000 fields": {f"field {n}": n for n in range(50_000)},
    "a name of 100 kB": {"n" * 100_000: 1, "short": 2},
    "150 levels": nested(150),
    "2 MB in one description": {"mood": [3, DIARY * 50_000]},
    "only signs that are written longer": {"line": "&<>\x00\u2028" * 40_000},
}


@pytest.mark.parametrize("large", LARGE.values(), ids=LARGE)
async def test_a_session_whose_state_is_too_large_goes_on(large):
    async with engine_of({**SMALL, "notes": large}) as (engine, store):
        turn = await engine.prepare_turn("s", "Hello there")
        shown = body(turn, "status")
        assert shown["hero"] == {"name": "Rowan", "gold": 900, "health": "85 (wounded)"}
        assert shown["place"] == "the ford"
        (line,) = [each for each in turn.report.degradations if each.code == "state_shortened"]
        cut = turn.report.state_cut
        assert cut.after_tokens <= cut.limit_tokens
        assert all(part.path.startswith("/notes") for part in cut.parts)
        assert cut.biggest.path[:60] in line.detail
        assert f"{cut.before_tokens:,}" in line.detail
        assert f"{cut.after_tokens:,}" in line.detail
        assert turn.report.budget.used_tokens <= turn.report.budget.limit_tokens
        done = await engine.commit_assistant_message("s", SPENDS)
        assert done.refused is None
        window = await store.window("s", message_limit=1)
        assert window.state["hero"]["gold"] == 899
        assert window.state["notes"] == large


LONG = [
    pytest.param(name, 50, marks=pytest.mark.full)
    for name in ("30 kB in one text", "2 MB in one text", "50,000 entries of a list")
]


@pytest.mark.parametrize(("name", "turns"), [("30 kB in one text", 12), *LONG])
async def test_further_turns_go_on(name, turns):
    large = LARGE[name]
    # The list is shorter here: what is proved is that each turn follows, not how fast.
    large = {"log": large["log"][:1_500]} if "log" in large else large
    async with engine_of({**SMALL, "notes": large}) as (engine, store):
        for number in range(turns):
            turn = await engine.prepare_turn("s", f"And then, {number}?")
            assert turn.report.budget.used_tokens <= turn.report.budget.limit_tokens
            assert turn.report.state_cut is not None
            assert (await engine.commit_assistant_message("s", SPENDS)).refused is None
        assert (await store.window("s", message_limit=1)).state["hero"]["gold"] == 900 - turns


async def test_a_state_that_fits_stands_as_it_did_whatever_the_share():
    texts = []
    for share in (1.0, 0.75):
        async with engine_of(WORLD.state, budget=BudgetConfig(state_share=share)) as (engine, _):
            turn = await engine.prepare_turn("s", "Hello there")
            assert (turn.report.state_cut, turn.report.degradations) == (None, ())
            texts.append(turn.text)
    assert texts[0] == texts[1]


async def test_the_share_bounds_the_state_and_takes_the_biggest_part_first():
    state = {**SMALL, "diary": DIARY * 100, "letter": DIARY * 10, "log": [f"entry {n}" for n in range(30)]}
    async with engine_of(state, budget=BudgetConfig(state_share=0.15)) as (engine, _):
        turn = await engine.prepare_turn("s", "Hello there")
    cut, shown = turn.report.state_cut, body(turn, "status")
    assert [part.path for part in cut.parts] == ["/diary"]
    assert cut.limit_tokens == int(7168 * 0.15) >= cut.after_tokens
    assert cut.after_tokens > 0.7 * cut.limit_tokens
    assert cut.before_tokens > cut.limit_tokens
    assert not cut.is_estimated
    (part,) = cut.parts
    assert (part.unit, part.total) == ("characters", len(state["diary"]))
    assert (
        shown["diary"]
        == f"{state['diary'][: part.shown]} … [{part.total - part.shown:,} of {part.total:,} characters not shown]"
    )
    del shown["diary"], state["diary"]
    assert shown == display(state)


async def test_a_list_shows_its_first_entries_and_how_many_there_are_more():
    state = {
        **SMALL,
        "log": [f"entry {n}" for n in range(4_000)],
        "people": {f"p{n}": {"trust": n} for n in range(3_000)},
    }
    async with engine_of(state) as (engine, _):
        turn = await engine.prepare_turn("s", "Hello there")
    shown = body(turn, "status")
    kept = len(shown["log"])
    assert shown["log"] == state["log"][:kept]
    assert shown["… log"] == f"{4_000 - kept:,} more entries not shown"
    kept = len(shown["people"])
    assert shown["people"] == dict(list(state["people"].items())[:kept])
    assert shown["… people"] == f"{3_000 - kept:,} more fields not shown"
    assert {part.path: part.shown for part in turn.report.state_cut.parts} == {
        "/log": len(shown["log"]),
        "/people": kept,
    }


async def test_a_chinese_world_is_told_in_chinese():
    world = load_world(FOREST.parent / "zh")
    async with engine_of({**SMALL, "diary": "雨一直下。" * 9_000}, world=world) as (engine, _):
        turn = await engine.prepare_turn("s", "你好")
    assert re.search("［共 45,000 字，其后 [0-9,]+ 字未显示］", body(turn, "status")["diary"])


async def test_quests_and_the_goal_that_ops_have_written_are_shortened_too():
    step = {"id": "a", "text": DIARY * 2_000, "status": "active"}
    done = {"id": "b", "text": "gone", "status": "completed"}
    quests = {
        f"q{n}": {"id": f"q{n}", "title": f"Quest {n}", "status": "active", "progress": DIARY, "objectives": []}
        for n in range(400)
    }
    quests["q399"]["objectives"] = [done, step]
    plan = {"focus": "q399"}
    async with engine_of({**SMALL, "quests": quests}) as (engine, store):
        locked = replace(RuntimeConfig(curation=QUIET), planner=replace(RuntimeConfig().planner, **plan))
        turn = await engine.prepare_turn("s", "Hello there", locked)
        anchors = (await store.turn("s", turn.turn_id)).anchors
    rows = body(turn, "active_quests")
    assert (rows[0]["id"], rows[0]["focus"]) == ("q399", True)
    assert rows[0]["objectives"][0]["text"].startswith(DIARY)
    assert "characters not shown" in rows[0]["objectives"][0]["text"]
    assert rows[-1]["title"] == f"{400 - (len(rows) - 1)} more active quests not shown"
    assert "characters not shown" in body(turn, "guidance")["current_goal"]
    named = {part.path for part in turn.report.state_cut.parts}
    assert {"goal", "/quests", "/quests/q399/objectives/1/text"} <= named
    assert body(turn, "status") == display(SMALL)
    assert anchors["a"] == "/quests/q399/objectives/1"
    assert set(anchors) == {"a", *(row["id"] for row in rows[:-1])}


async def test_anchors_of_what_is_not_shown_are_not_in_the_turn_and_those_that_are_lead_to_the_stored_place():
    items = [{"id": f"item_{n}", "name": f"thing {n}", "count": 1} for n in range(3_000)]
    async with engine_of({**SMALL, "bag": {"_anchor": "bag", "items": items}}) as (engine, store):
        turn = await engine.prepare_turn("s", "Hello there")
        shown = body(turn, "status")["bag"]["items"]
        anchors = (await store.turn("s", turn.turn_id)).anchors
        assert 0 < len(shown) < 3_000
        assert anchors == {"bag": "/bag"} | {f"item_{n}": f"/bag/items/{n}" for n in range(len(shown))}
        last = len(shown) - 1
        reply = f'<content>Ok.</content><state_update>[["SET", "item_{last}.count", 7]]</state_update>'
        assert (await engine.commit_assistant_message("s", reply)).refused is None
        assert (await store.window("s", message_limit=1)).state["bag"]["items"][last]["count"] == 7


async def test_what_does_not_fit_without_the_state_is_an_error_that_says_what_and_what_to_do():
    tight = BudgetConfig(max_input_tokens=500, reserved_reply_tokens=100)
    async with engine_of({**SMALL, "diary": DIARY * 50}, budget=tight) as (engine, store):
        with pytest.raises(BudgetExceededError) as caught:
            await engine.prepare_turn("s", "Hello there")
        assert {"status", "instruction", "axioms"} <= {name for name, _ in caught.value.blocks}
        assert caught.value.without_state.needed_tokens < caught.value.needed_tokens
        assert "With nothing of the state shown it still needs" in str(caught.value)
        assert "The biggest is instruction: it is the pack's `instruction` in world.yaml" in str(caught.value)
        assert (await store.window("s", message_limit=1)).pending is None


def test_the_receipt_names_the_op_and_a_command_that_takes_it_back(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "engine.yaml").write_text("limits: {op_value_chars: 100000}", encoding="utf-8")

    def call(*args):
        done = CliRunner().invoke(app, [str(arg) for arg in args])
        assert done.exit_code == 0, done.output
        return done.stdout

    def weave(text):
        args = [
            "play",
            "weave",
            "--world",
            FOREST,
            "--session",
            "my demo",
            "--input",
            text,
            "--embedder",
            "none",
            "--json",
        ]
        return json.loads(call(*args))

    def lines(turn):
        return [each["detail"] for each in turn["report"]["degradations"] if each["code"] == "state_shortened"]

    def commit(ops):
        reply = f"<content>Ok.</content><state_update>{json.dumps(ops)}</state_update>"
        (tmp_path / "reply.txt").write_text(reply, encoding="utf-8")
        given = ["--session", "my demo", "--file", tmp_path / "reply.txt", "--config", tmp_path / "engine.yaml"]
        done = json.loads(call("play", "commit", *given, "--json"))
        assert done["refused"] is None
        return done["turn_id"]

    weave("Hello")
    before = commit([["SUB", "hero.gold", 1]])
    assert lines(weave("Write it down")) == []
    culprit = commit([["SET", "hero.diary", DIARY * 1_000]])
    weave("Go on")
    commit([["SUB", "hero.gold", 1]])

    (line,) = lines(weave("And then?"))
    assert f"add /hero/diary ({len(DIARY) * 1_000 + 2:,} characters), turn {culprit}" in line
    command = re.search("To take that turn back: (jacquard play fork .*?)[.] To go on", line)[1]
    words = shlex.split(command)
    assert words[:5] == ["jacquard", "play", "fork", "--session", "my demo"]
    assert words[words.index("--at") + 1] == before
    assert "diary" in json.loads(call("play", "state", "--session", "my demo", "--json"))["hero"]

    played = json.loads(call("author", "replay", "--session", "my demo", "--json"))
    assert "differs" not in json.dumps(played)

    call(*words[1:])
    assert lines(weave("Go on")) == []
    assert "diary" not in json.loads(call("play", "state", "--session", "my demo", "--json"))["hero"]


async def test_a_reply_can_make_the_state_small_again():
    limits = LimitsConfig(state_chars=20_000)
    async with engine_of({**SMALL, "notes": {"diary": DIARY * 750}}, limits=limits) as (engine, _):
        assert (await engine.prepare_turn("s", "Hello there")).report.state_cut is not None
        ops = [["SUB", "hero.gold", 1], ["SET", "notes.diary", "It rained."]]
        reply = f"<content>Ok.</content><state_update>{json.dumps(ops)}</state_update>"
        assert (await engine.commit_assistant_message("s", reply)).refused is None
        turn = await engine.prepare_turn("s", "And now?")
        assert turn.report.state_cut is None
        assert body(turn, "status")["notes"] == {"diary": "It rained."}


# --- any state, any budget -------------------------------------------------------------------------------------------

WORDS = st.text(alphabet=st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=12)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**6), 10**6),
    WORDS,
    st.builds(lambda text, n: text * n, WORDS, st.integers(1, 800)),
    st.tuples(st.integers(0, 100), st.text(max_size=4).map(lambda text: text * 500)).map(list),
)
KEYS = st.sampled_from(["gold", "name", "log", "diary", "a", "…", "… a", "x/y", "~"]) | WORDS
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.dictionaries(KEYS, inner, max_size=6),
        st.builds(lambda item, n: [item] * n, inner, st.integers(1, 60)),
        st.builds(lambda item, n: {f"f{k}": item for k in range(n)}, inner, st.integers(1, 40)),
    ),
    max_leaves=8,
)
STATES = st.dictionaries(KEYS.filter(lambda key: key != "quests"), TREES, max_size=5)


class Sessions:
    """One engine for many sessions, each over a state of its own."""

    def __init__(self, portal, engine):
        self._portal, self._engine, self._count = portal, engine, 0
        self.rest = self.prepared({}, BudgetConfig()).report.budget.used_tokens

    def prepared(self, state, budget):
        self._count += 1
        name, world = f"s{self._count}", replace(WORLD, state=state, actions=(), lore=(), narratives=(), prologue=())
        self._portal.call(self._engine.start_session, name, world)
        return self._portal.call(
            self._engine.prepare_turn, name, "Hello there", RuntimeConfig(curation=QUIET, budget=budget)
        )


@pytest.fixture(scope="module")
def sessions():
    with start_blocking_portal() as portal:
        engine = create_context_engine(
            MemoryStore(), world=replace(WORLD, lore=()), config=RuntimeConfig(curation=QUIET)
        )
        with portal.wrap_async_context_manager(engine):
            yield Sessions(portal, engine)


def check_untouched(stored, shown, path, named):
    """Everything that the receipt does not name stands as it is stored."""
    if path in named:
        check_rest_of_a_cut(stored, shown, path, named)
    elif not any(each.startswith(f"{path}/") for each in named):
        assert shown == stored, path
    elif isinstance(stored, dict):
        assert set(stored) <= set(shown), path
        for key, value in stored.items():
            check_untouched(value, shown[key], f"{path}/{key.replace('~', '~0').replace('/', '~1')}", named)
    elif isinstance(stored, list) and isinstance(shown, list):
        for at, value in enumerate(stored):
            check_untouched(value, shown[at], f"{path}/{at}", named)


def check_rest_of_a_cut(stored, shown, path, named):
    if isinstance(stored, dict) and isinstance(shown, dict):
        for key in stored.keys() & shown.keys():
            if not str(shown[key]).endswith("not shown") or shown[key] == stored[key]:
                check_untouched(stored[key], shown[key], f"{path}/{key.replace('~', '~0').replace('/', '~1')}", named)
    elif isinstance(stored, list) and isinstance(shown, list):
        for at, (old, new) in enumerate(zip(stored, shown, strict=False)):
            if not (isinstance(new, dict) and "…" in new and new != old):
                check_untouched(old, new, f"{path}/{at}", named)


@given(STATES, st.integers(0, 3_000), st.sampled_from([0.1, 0.5, 0.75, 1.0]))
@settings(
    max_examples=settings.default.max_examples // 4,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
def test_any_state_fits_any_budget_that_holds_the_rest(sessions, state, more, share):
    budget = BudgetConfig(max_input_tokens=sessions.rest + more + 100, reserved_reply_tokens=100, state_share=share)
    turn = sessions.prepared(state, budget)
    assert turn.text == sessions.prepared(state, budget).text
    report, cut = turn.report, turn.report.state_cut
    assert report.budget.used_tokens <= report.budget.limit_tokens
    tokens = sum(decision.tokens for decision in report.decisions if decision.block_id == "status")
    # Small budgets cut the persona too.
    codes = [each.code for each in report.degradations if each.code != "block_cut"]
    if cut is None:
        assert codes == []
    else:
        assert tokens <= cut.after_tokens <= cut.limit_tokens
        assert codes == ["state_shortened"]
    shown = body(turn, "status")
    named = set() if cut is None else {part.path for part in cut.parts}
    if shown is None:
        assert "" in named or not state
    else:
        check_untouched(display(with_anchors(state)), shown, "", named)

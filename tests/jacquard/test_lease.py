"""The lease: when a choice serves further turns, what it may never give, and how it is told of."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from math import inf
from pathlib import Path

import anyio
import pytest
from curation_parts import candidate, head, plan
from engine_parts import WORLD, small_engine
from forest_parts import lore
from hypothesis import given, settings
from hypothesis import strategies as st
from servers.openai_server import OpenAiServer
from servers.scripted_model import ScriptedModel

from jacquard import (
    ConfigError,
    CurationConfig,
    RuntimeConfig,
    Selection,
    SelectorConfig,
    config_from_yaml,
    find_differences,
    open_runtime,
    read_snapshot,
    replay_prompt,
)
from jacquard.adapters.observe.prometheus import PrometheusMetrics
from jacquard.config.settings import config_from_environment
from jacquard.core.plan import SearchIntent, Temporal
from jacquard.core.receipt import CurationPath
from jacquard.pipeline.curation.lease import Lease, renew_choice
from jacquard.pipeline.curation.prefetch import build_prefetch, find_lease, is_late
from jacquard.pipeline.curation.stream import Curation
from mnemosyne import (
    CalibratedEstimator,
    Erasure,
    Recall,
)
from mnemosyne.schema.memory import Comparison, Condition
from mnemosyne.schema.record import Prefetch
from mnemosyne.schema.session import BranchSpan

FOREST = Path(__file__).parents[2] / "examples" / "whispering_forest" / "en"
LEASING = CurationConfig(lease_turns=3)
CHOSEN = Curation(
    path=CurationPath.SELECTED,
    code="selected",
    reason="small chose 2 of 3.",
    recall=Recall(candidates=(candidate("a", entities=("temple_key",)), candidate("b"), candidate("c"))),
    selection=Selection(entry_ids=("b", "a"), rationale="The elder has hidden it.", model="small"),
)
ASKED = "Where is the temple key?"


def kept(*, quest="q_temple", branch_id="main", depth=10, viewer=None, entities=("temple",), late=False) -> Prefetch:
    asked = plan(("temple key",), quest=quest, entities=entities)
    return build_prefetch(CHOSEN, asked, "t10", branch_id, depth, ASKED, viewer=viewer, late=late)


def leased(choice, *, depth=10, text="And who may open it at night?", viewer=None, config=LEASING, **planned):
    planned.setdefault("quest", "q_temple")
    return find_lease(choice, plan((), **planned), head(depth=depth), text, config, viewer=viewer)


def lease(*entry_ids, margin=1.25, age=1) -> Lease:
    return Lease(turn_id="t10", entry_ids=entry_ids, age=age, turns=3, margin=margin, why="The focus is still q.")


def test_the_scene_that_holds_gives_a_lease_of_the_choice() -> None:
    given_, why = leased(kept())
    assert why == ""
    assert given_ is not None
    assert (given_.turn_id, given_.entry_ids, given_.age, given_.model) == ("t10", ("b", "a"), 1, "small")
    assert given_.margin == LEASING.lease_margin
    assert not is_late(kept())
    assert is_late(kept(late=True))


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        (leased(kept(depth=7)), "chosen 4 turns ago; a choice is kept for 3"),
        (leased(kept(branch_id="other")), "another line"),
        (leased(kept(viewer="chief"), viewer="watchman"), "another viewer"),
        (leased(kept(viewer="chief")), "another viewer"),
        (leased(kept(), viewer="chief"), "another viewer"),
        (leased(kept(), quest="q_wolf"), "The focus moved from q_temple to q_wolf"),
        (leased(kept(), entities=("wolf",)), "names wolf for the first time"),
    ],
)
def test_another_scene_ends_it(given_, words) -> None:
    held, why = given_
    assert held is None
    assert words in why


def test_what_the_input_or_the_choice_was_about_may_be_named_again() -> None:
    assert leased(kept(), entities=("temple", "temple_key"))[0] is not None


def test_another_template_or_time_ends_it() -> None:
    fight = replace(plan((), quest="q_temple"), template_id="combat")
    assert (
        "template changed from chat to combat"
        in find_lease(kept(), fight, head(depth=10), "x", LEASING, viewer=None)[1]
    )
    past = SearchIntent(enabled=True, temporal_context=Temporal.PAST)
    then = replace(plan((), quest="q_temple"), search_intent=past)
    assert "speaks of the past" in find_lease(kept(), then, head(depth=10), "x", LEASING, viewer=None)[1]


def test_off_or_long_ended_nothing_is_said_of_it() -> None:
    assert leased(kept(), config=CurationConfig()) == (None, "")
    assert leased(kept(depth=5)) == (None, "")


@pytest.mark.parametrize("text", ["Go on.", "I nod.", "I wait and listen.", "我点点头。", "继续。", "嗯?"])
def test_an_input_that_says_little_knows_no_rival(text: str) -> None:
    given_, _ = leased(kept(), text=text)
    assert given_ is not None
    assert (given_.margin, given_.keywords) == (inf, ("temple key",))


@pytest.mark.parametrize(
    "text", ["Where is Pip?", "阿苇在哪里?", "I climb the broken tower at once.", "我去磨坊找老板娘谈谈。"]
)
def test_an_input_that_asks_or_tells_does(text: str) -> None:
    given_, _ = leased(kept(), text=text)
    assert given_ is not None
    assert (given_.margin, given_.keywords) == (LEASING.lease_margin, ())


def test_only_what_this_turn_recalls_is_given_in_the_order_of_choice() -> None:
    recall = Recall(candidates=(candidate("a", score=1.0), candidate("x", score=0.9), candidate("b", score=0.8)))
    again, why = renew_choice(lease("b", "gone", "a"), recall, 5)
    assert again is not None
    assert again.entry_ids == ("b", "a")
    assert "Chosen for turn t10, a turn ago" in why
    assert "2 more to come" in why
    assert renew_choice(lease("gone"), recall, 5)[0] is None
    once, _ = renew_choice(lease("b", "a"), recall, 1)
    assert once is not None
    assert once.entry_ids == ("b",)


def test_a_much_better_find_ends_it_and_is_named() -> None:
    recall = Recall(candidates=(candidate("new", score=0.8), candidate("a", score=0.6)))
    assert renew_choice(lease("a", margin=1.5), recall, 5)[0] is not None
    again, why = renew_choice(lease("a", margin=1.25), recall, 5)
    assert again is None
    assert "new fits this turn better" in why
    assert renew_choice(lease("a", margin=inf), recall, 5)[0] is not None


IDS = st.sampled_from("abcdef")


@given(
    leased_=st.lists(IDS, unique=True, min_size=1),
    scores=st.dictionaries(IDS, st.floats(0, 1)),
    margin=st.floats(1, 3) | st.just(inf),
    limit=st.integers(1, 5),
)
def test_whatever_is_given_was_recalled_and_has_no_far_better_rival(leased_, scores, margin, limit) -> None:
    ranked = sorted(scores, key=lambda name: -scores[name])
    recall = Recall(candidates=tuple(candidate(name, score=scores[name]) for name in ranked))
    again, why = renew_choice(lease(*leased_, margin=margin), recall, limit)
    assert why
    if again is None:
        return
    assert again.entry_ids
    assert len(again.entry_ids) <= limit
    assert set(again.entry_ids) <= set(leased_) & set(scores)
    assert all(leased_.index(one) < leased_.index(two) for one, two in pairwise(again.entry_ids))
    best = max(scores[name] for name in again.entry_ids)
    assert margin == inf or all(scores[name] <= margin * best for name in scores if name not in leased_)


@settings(deadline=None)
@given(
    quests=st.tuples(*[st.sampled_from(["q1", "q2", None])] * 2),
    viewers=st.tuples(*[st.sampled_from(["gm", "chief", None])] * 2),
    depths=st.tuples(*[st.integers(0, 8)] * 2),
    turns=st.integers(0, 4),
    branch=st.sampled_from(["main", "fork"]),
    upto=st.integers(0, 8),
    entities=st.tuples(*[st.lists(st.sampled_from(["temple", "temple_key", "wolf"])).map(tuple)] * 2),
)
def test_whatever_is_leased_keeps_every_guard(quests, viewers, depths, turns, branch, upto, entities) -> None:
    choice = kept(quest=quests[0], depth=depths[0], viewer=viewers[0], entities=entities[0])
    here = head(branch, depths[1], BranchSpan(branch_id="main", upto_depth=min(upto, depths[1])))
    now = plan((), quest=quests[1], entities=entities[1])
    given_, _ = find_lease(choice, now, here, "x", CurationConfig(lease_turns=turns), viewer=viewers[1])
    if given_ is None:
        return
    assert 0 <= given_.age <= turns
    assert quests[0] == quests[1]
    assert viewers[0] == viewers[1]
    assert branch == "main" or depths[0] <= upto
    assert set(entities[1]) <= {*entities[0], "temple_key"}


def choose_all(text):
    """Choose all that is shown, and say what was seen."""
    seen = " ".join(re.findall(r"<item [^>]*>(.*?)</item>", text))
    return {"selected": re.findall(r'<item id="([^"]*)"', text), "rationale": seen}


KNOWERS = {"lore_gm": ("gm",), "lore_chief": ("chief",), "lore_both": ("gm", "chief"), "lore_all": ()}
SECRETS = replace(
    WORLD,
    lore=(
        *(
            lore(name, "encyclopedia", f"钥匙 key: what {name} tells.", viewers=viewers)
            for name, viewers in KNOWERS.items()
        ),
        lore(
            "lore_rich",
            "encyclopedia",
            "钥匙 key: what lore_rich tells.",
            when=(Condition(path="hero.gold", op=Comparison.GE, value=10),),
        ),
    ),
)
INPUTS = ("Who has the key?", "Go on.", "And what does the key open?")


@settings(deadline=None, max_examples=25)
@given(
    turns=st.lists(
        st.tuples(st.sampled_from(["gm", "chief", None]), st.sampled_from(INPUTS), st.sampled_from([0, 5, 20])),
        min_size=2,
        max_size=6,
    ),
    margin=st.sampled_from([1.0, 1.25, 100.0]),
)
def test_no_secret_reaches_a_prompt_by_a_lease(turns, margin) -> None:
    async def played() -> None:
        curation = CurationConfig(lease_turns=50, lease_margin=margin, deadline_ms=60_000)
        gold = 12
        async with small_engine(model=ScriptedModel(choose_all), world=SECRETS) as (engine, store, _):
            for number, (viewer, text, then) in enumerate(turns):
                config = RuntimeConfig(viewer=viewer, curation=curation)
                turn = await engine.prepare_turn("s", f"{text} ({number})", config)
                hidden = {name for name, knowers in KNOWERS.items() if knowers and viewer not in knowers}
                hidden |= set() if gold >= 10 else {"lore_rich"}
                told = turn.text + "\n".join(each.content for each in turn.messages)
                assert not [name for name in hidden if f"what {name} tells" in told]
                assert hidden.isdisjoint(each.entry_id for each in turn.report.stream_b.candidates)
                await engine.commit_assistant_message(
                    "s", f'<content>So be it.</content><state_update>[["SET", "hero.gold", {then}]]</state_update>'
                )
                gold = await gold_in(store)

    anyio.run(played)


async def gold_in(store) -> int:
    window = await store.window("s", message_limit=1)
    value = window.state["hero"]["gold"]
    return int(value[0] if isinstance(value, list) else value)


@pytest.fixture
def server():
    with OpenAiServer("first:3") as opened:
        yield opened


def leasing(server, viewer=None, **curation):
    return RuntimeConfig(
        viewer=viewer,
        selector=SelectorConfig(model="openai/x", api_base=server.api_base),
        curation=CurationConfig(deadline_ms=60_000, **{"lease_turns": 3, **curation}),
    )


async def said(runtime, text, config=None, *, reply="The elder says nothing for a while."):
    turn = await runtime.engine.prepare_turn("s", text, config)
    await runtime.engine.commit_assistant_message("s", reply)
    return turn


def road(turn):
    return turn.report.stream_b.path.value


@pytest.mark.anyio
async def test_a_scene_is_played_on_one_call_until_it_ends(tmp_path, server):
    async with open_runtime(tmp_path, world=FOREST, embedder="none", config=leasing(server)) as runtime:
        await runtime.ensure_session("s")
        metrics, told = PrometheusMetrics(), []
        for hear in (metrics.count, told.append):
            runtime.watchers.events.on_all(hear)
        first = await said(runtime, "Is that the temple key?")
        turns = [await said(runtime, text) for text in ("And who has the temple key now?", "I listen.", "I nod.")]
        assert (road(first), [road(turn) for turn in turns]) == ("selected", ["leased"] * 3)
        assert len(server.requests) == 1
        for turn in turns:
            stream = turn.report.stream_b
            assert (stream.code, stream.chosen_for, stream.model) == ("leased", first.turn_id, "openai/x")
            assert set(stream.selected) <= set(first.report.stream_b.selected)
            assert first.turn_id in stream.reason
            assert '<context_layer type="probabilistic" model="openai/x">' in turn.text
            assert {each.code for each in stream.candidates} == {"selected", "not_asked"}
            assert turn.usages == ()
        ended = await said(runtime, "Who else may hold the temple key?")
        assert road(ended) == "selected"
        assert "4 turns ago" in ended.report.stream_b.lease_refused
        away = await said(runtime, "What drives the fog hounds off?")
        assert "names fog_hound" in away.report.stream_b.lease_refused
        for turn in (first, *turns, ended, away):
            record = await runtime.store.turn("s", turn.turn_id)
            assert find_differences(record, replay_prompt(read_snapshot(record), CalibratedEstimator().estimate)) == ()
            again = await runtime.engine.prepare_turn("s", record.messages[0].content, turn_id=turn.turn_id)
            assert (again.text, again.report) == (turn.text, turn.report)
    leases = [event.payload["lease"] for event in told if event.event_type.value == "Assembled"]
    assert leases == ["none", "used", "used", "used", "refused", "refused"]
    assert b'jacquard_lease_total{what="used"} 3.0' in metrics.exposition()
    assert b'jacquard_lease_total{what="refused"} 2.0' in metrics.exposition()


@pytest.mark.anyio
async def test_what_has_ended_does_not_come_back(tmp_path):
    with OpenAiServer("first:3", "empty", "first:3") as server:
        async with open_runtime(tmp_path, world=FOREST, embedder="none", config=leasing(server)) as runtime:
            await runtime.ensure_session("s")
            asked = ("Is that the temple key?", "What drives the fog hounds off?", "And who has the temple key now?")
            turns = [await said(runtime, text) for text in asked]
    assert [road(turn) for turn in turns] == ["selected"] * 3
    assert turns[1].report.stream_b.lease_refused
    assert turns[2].report.stream_b.lease_refused == ""


@pytest.mark.anyio
async def test_off_every_turn_asks(tmp_path, server):
    config = leasing(server, lease_turns=0)
    async with open_runtime(tmp_path, world=FOREST, embedder="none", config=config) as runtime:
        await runtime.ensure_session("s")
        turns = [await said(runtime, text) for text in ("Is that the temple key?", "I nod.")]
        assert [road(turn) for turn in turns] == ["selected", "selected"]
        assert (await runtime.store.window("s", message_limit=1)).prefetch is None


@pytest.mark.anyio
async def test_another_viewer_gets_a_choice_of_his_own(tmp_path):
    secret, telling = "lore_secret_hearth", "lead box behind the new stone"
    with OpenAiServer(f"ids:{secret},lore_temple_key") as server:
        chief = leasing(server, viewer="chief")
        async with open_runtime(tmp_path, world=FOREST, embedder="none", config=chief) as runtime:
            await runtime.ensure_session("s")
            first = await said(runtime, "Is that the temple key?")
            assert telling in first.text
            assert telling in (await said(runtime, "And who has the temple key now?")).text
            other = await said(runtime, "And who has the temple key now?", leasing(server, viewer="watchman"))
    assert road(other) == "selected"
    assert "another viewer" in other.report.stream_b.lease_refused
    assert telling not in other.text
    assert secret not in [each.entry_id for each in other.report.stream_b.candidates]


@pytest.mark.anyio
async def test_what_a_condition_hides_by_now_is_not_given_again(tmp_path):
    names = ("lore_bridge_ruin", "lore_hunchback_bridge")
    mended = '<content>…</content><state_update>[["SET", "story.bridge_fallen", false]]</state_update>'
    with OpenAiServer(f"ids:{','.join(names)}") as server:
        config = leasing(server, lease_margin=100.0)
        async with open_runtime(tmp_path, world=FOREST, embedder="none", config=config) as runtime:
            await runtime.ensure_session("s")
            first = await said(runtime, "What is left of the Hunchback Bridge?", reply=mended)
            assert set(names) <= set(first.report.stream_b.selected)
            after = await said(runtime, "I nod.")
    assert road(after) == "leased"
    assert after.report.stream_b.selected == names[1:]
    assert "Two stumps" not in after.text


@pytest.mark.anyio
async def test_what_was_erased_and_another_branch_have_no_lease(tmp_path):
    with OpenAiServer("ids:p011.a,lore_temple_key") as server:
        config = leasing(server)
        async with open_runtime(tmp_path, world=FOREST, embedder="none", config=config) as runtime:
            await runtime.ensure_session("s")
            first = await said(runtime, "Which lock does the brass key at his belt open?")
            assert "p011.a" in first.report.stream_b.selected
            await runtime.store.fork("s", "p040", "elsewhere")
            assert road(await runtime.engine.prepare_turn("s", "I nod.")) == "selected"
            await runtime.store.switch("s", "main")
            lost = (await runtime.store.entries("session:s", ["p011.a"]))[0].text
            await runtime.forget(Erasure(at=datetime(2026, 1, 1, tzinfo=UTC), session_id="s", evidence_ids=("p011.a",)))
            after = await said(runtime, "I nod.")
    assert "p011.a" not in after.report.stream_b.selected
    assert lost not in after.text


def test_it_is_set_in_a_file_in_the_environment_and_in_code_within_bounds() -> None:
    read = config_from_yaml("curation:\n  lease_turns: 4\n  lease_margin: 2\n")
    assert (read.curation.lease_turns, read.curation.lease_margin) == (4, 2.0)
    assert config_from_environment({"JACQUARD_CURATION__LEASE_TURNS": "5"}).curation.lease_turns == 5
    assert RuntimeConfig().curation.lease_turns == 0
    with pytest.raises(ConfigError, match="lease_margin"):
        config_from_yaml("curation:\n  lease_margin: 0.5\n")
    with pytest.raises(ConfigError, match="lease_turns"):
        CurationConfig(lease_turns=51)

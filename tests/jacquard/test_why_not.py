"""'Why is it not there?' has an answer for every entry that exists, whatever kept it from the prompt of a turn."""

from __future__ import annotations

import json

import httpx
import pytest
from typer.testing import CliRunner

from jacquard import CurationConfig, MemoryVerbs, RuntimeConfig, open_runtime, why_not
from jacquard.cli.app import app
from jacquard.config.service import ServiceSettings
from jacquard.core.errors import MemoryNotFoundError
from jacquard.service.running.application import build_app

pytestmark = pytest.mark.anyio
WORLD = """id: mill
title: The mill
locale: en
persona: {name: The Narrator}
user_name: Ilse
state: {mill: {open: false, floors: 3}}
"""
LORE = """
- {id: lore_jost, category: agent, name: Jost, content: Jost the miller lost two fingers to the great wheel.}
- {id: lore_weir, category: encyclopedia, name: The weir, content: The weir was built by monks of the old abbey.}
- id: lore_cellar
  category: encyclopedia
  name: The cellar
  content: In the cellar of Jost the miller lies a chest of silver.
  when: [{path: mill.open, op: ==, value: true}]
- {id: lore_secret, category: agent, name: The secret, content: Jost the miller is a duke., viewers: [mira]}
- {id: axiom_rain, category: axiom, name: Rain, content: It always rains at the mill.}
"""
QUESTION = "What happened to the fingers of Jost the miller?"
PATIENT = RuntimeConfig(curation=CurationConfig(deadline_ms=60_000))


@pytest.fixture
def pack(tmp_path):
    folder = tmp_path / "mill"
    (folder / "lore").mkdir(parents=True)
    (folder / "world.yaml").write_text(WORLD, encoding="utf-8")
    others = [
        f"- {{id: l{n}, category: encyclopedia, name: Jost {n}, content: Jost the miller owns field {n}.}}"
        for n in range(70)
    ]
    (folder / "lore" / "all.yaml").write_text("\n".join([LORE.strip(), *others]), encoding="utf-8")
    return folder


@pytest.fixture
async def runtime(tmp_path, pack):
    async with open_runtime(tmp_path / "store", world=pack, embedder="none", config=PATIENT) as opened:
        await opened.ensure_session("s")
        yield opened


async def only(runtime, wanted, **more):
    (found,) = await why_not(runtime.engine, "s", wanted, **more)
    return found


async def test_each_reason_is_named_with_its_values(runtime):
    turn = await runtime.engine.prepare_turn("s", QUESTION)
    shown = await only(runtime, "lore_jost")
    assert (shown.code, shown.block_id) == ("shown", "flesh:lore_jost")
    hidden = await only(runtime, "lore_cellar")
    assert (hidden.code, hidden.reason) == ("condition", "mill.open == True did not hold: it was False.")
    guarded = await only(runtime, "lore_secret")
    assert (guarded.code, guarded.reason) == (
        "viewer",
        "Only mira may know it; the turn was prepared without a viewer.",
    )
    assert (await only(runtime, "axiom_rain")).code == "shown"
    assert (await only(runtime, "lore_weir")).code == "not_recalled"
    candidates = {each.entry_id: each for each in turn.report.stream_b.candidates}
    cut = next(each for each in candidates.values() if each.code == "below_cut")
    assert (await only(runtime, cut.entry_id)).reason == cut.reason
    behind = next(f"l{n}" for n in range(70) if f"l{n}" not in candidates)
    far = await only(runtime, behind)
    assert far.code == "not_among_best"
    assert far.rank > 50
    assert far.score <= far.least
    assert f"Recall rank {far.rank}" in far.reason


async def test_what_is_below_the_floor_is_told_with_the_floor(runtime):
    strict = CurationConfig(deadline_ms=60_000, relevance_floor=0.97, relevance_floor_past=0.97)
    turn = await runtime.engine.prepare_turn("s", "Who owns a field?", RuntimeConfig(curation=strict))
    below = next(each for each in turn.report.stream_b.candidates if each.code == "below_floor")
    judged = await only(runtime, below.entry_id)
    assert (judged.code, judged.rank, judged.least) == ("below_floor", below.rank, turn.report.stream_b.relevance_floor)
    assert f"below the floor of {judged.least:.0%}" in judged.reason


async def test_an_entry_is_found_by_its_words_and_one_that_nobody_has_is_refused(runtime):
    await runtime.engine.prepare_turn("s", QUESTION)
    assert (await only(runtime, "chest of silver")).entry_id == "lore_cellar"
    with pytest.raises(MemoryNotFoundError, match="no_such_thing"):
        await why_not(runtime.engine, "s", "no_such_thing")


async def test_it_answers_as_of_the_turn_that_is_named(runtime):
    first = await runtime.engine.prepare_turn("s", QUESTION)
    await runtime.engine.commit_assistant_message(
        "s", '<content>Hm.</content><state_update>[["SET", "mill.open", true]]</state_update>'
    )
    second = await runtime.engine.prepare_turn("s", "And what lies in the cellar of Jost the miller?")
    assert (await only(runtime, "lore_cellar", turn_id=first.turn_id)).code == "condition"
    assert (await only(runtime, "lore_cellar", turn_id=second.turn_id)).code == "shown"
    assert (await only(runtime, f"{first.turn_id}.a", turn_id=first.turn_id)).code == "later"
    assert (await only(runtime, f"{first.turn_id}.a", turn_id=second.turn_id)).code == "shown"


async def test_a_message_of_another_branch_an_edit_and_a_short_budget(runtime):
    turn = await runtime.engine.prepare_turn("s", QUESTION)
    await runtime.engine.commit_assistant_message("s", "The wheel took them.")
    await runtime.engine.rollback("s", None)
    verbs = MemoryVerbs(runtime)
    kept = await verbs.remember("s", "The key of the mill hangs behind the clock.")
    other = await runtime.engine.prepare_turn("s", QUESTION)
    assert (await only(runtime, f"{turn.turn_id}.a", turn_id=other.turn_id)).code == "other_branch"
    await verbs.supersede("s", kept.edit_id, "The key is lost.")
    told = await why_not(runtime.engine, "s", kept.edit_id)
    assert {each.code for each in told} <= {"superseded", "not_recalled", "below_floor"}
    off = RuntimeConfig(curation=CurationConfig(enabled=False))
    await runtime.engine.prepare_turn("s", f"{QUESTION} Now.", off)
    assert (await only(runtime, "lore_jost")).code == "disabled"
    tight = RuntimeConfig(curation=CurationConfig(deadline_ms=60_000, flesh_tokens=1))
    full = await runtime.engine.prepare_turn("s", f"{QUESTION} Again.", tight)
    over = next(each for each in full.report.stream_b.candidates if each.code == "over_tokens")
    assert (await only(runtime, over.entry_id)).code == "over_tokens"


def test_the_command_line_answers_and_finds_what_is_not_in_the_prompt(tmp_path, pack, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*args):
        done = CliRunner().invoke(app, [*args, "--session", "s", "--embedder", "none"])
        assert done.exit_code == 0, done.output
        return done.stdout

    call("play", "weave", "--world", str(pack), "--input", QUESTION)
    assert "condition: mill.open == True did not hold: it was False." in call(
        "play", "explain", "--why-not", "lore_cellar"
    )
    assert "viewer: Only mira may know it" in call("play", "explain", "--find", "Jost the miller is a duke")
    told = json.loads(call("play", "explain", "--why-not", "lore_jost", "--json"))
    assert [each["code"] for each in told["why_not"]] == ["shown"]


async def test_over_http_it_answers_for_a_turn(tmp_path, pack):
    async with open_runtime(tmp_path / "store", world=pack, embedder="none", config=PATIENT) as opened:
        await opened.ensure_session("s")
        turn = await opened.engine.prepare_turn("s", QUESTION)
    service = build_app(ServiceSettings(store=str(tmp_path / "store"), embedder="none"), PATIENT)
    client = httpx.AsyncClient(transport=httpx.ASGITransport(service), base_url="http://127.0.0.1/api/v1")
    async with service.router.lifespan_context(service), client:
        path = f"/sessions/s/turns/{turn.turn_id}/why-not"
        (told,) = (await client.get(path, params={"text": "lore_cellar"})).json()
        assert told["code"] == "condition"
        assert (await client.get(path, params={"text": "no_such_thing"})).status_code == 404
        assert (await client.get(path)).status_code == 422

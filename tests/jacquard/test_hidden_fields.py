"""Fields of the state that a pack hides (`$meta: {hidden: …}`): kept and changed, and never shown to a model or a player."""

from __future__ import annotations

import json

import anyio
import pytest
from typer.testing import CliRunner

from jacquard import open_runtime
from jacquard.cli.app import app

PACK = """id: inn
title: The inn
locale: {locale}
story_time: [time.day, time.tick]
state:
  hero: {{id: hero, coins: 3, doom: 77}}
  time: {{day: 2, tick: 4711}}
  program: {{cloth: true, clapper: false, guard: {{id: guard_flag, on: true}}}}
"""
RULES = """  $meta: {hidden: [program]}
"""
SECRETS = ("doom", "tick", "4711", "program", "cloth", "clapper", "guard_flag")
ADDED = {
    "hero: {": "hero: {$meta: {hidden: [doom], limits: {doom: [0, 99], coins: [0, 9]}}, ",
    "time: {": "time: {$meta: {hidden: [tick]}, ",
}


@pytest.fixture(params=["en", "zh"])
def pack(request, tmp_path):
    text = PACK.format(locale=request.param) + RULES
    for place, rule in ADDED.items():
        text = text.replace(place, rule)
    folder = tmp_path / "inn"
    folder.mkdir()
    (folder / "world.yaml").write_text(text, encoding="utf-8")
    return folder


def shown_of(turn):
    return json.dumps([turn.text, [dict(message) for message in turn.messages]], ensure_ascii=False)


def test_no_prompt_shows_them_and_ops_change_them(tmp_path, pack):
    update = '[["SET", "program.clapper", true], ["ADD", "hero.doom", 1], ["SUB", "hero.coins", 1]]'
    wrong = '[["SET", "hero.dooms", 1], ["SET", "guard_flags.on", 1]]'

    async def run():
        store = str(tmp_path / "store")
        async with open_runtime(store, world=pack, embedder="none") as runtime:
            await runtime.ensure_session("s")
            engine = runtime.engine
            first = await engine.prepare_turn("s", "I wait.")
            done = await engine.commit_assistant_message(
                "s", f"<content>Fine.</content><state_update>{update}</state_update>"
            )
            second = await engine.prepare_turn("s", "I wait again.")
            await engine.commit_assistant_message("s", f"<content>Fine.</content><state_update>{wrong}</state_update>")
            third = await engine.prepare_turn("s", "And now?")
            await engine.commit_assistant_message("s", "<content>Fine.</content>")
            summary = await engine.summarize("s")
            state = await runtime.store.state_at("s", third.turn_id)
            record = await runtime.store.turn("s", second.turn_id)
        return first, done, second, third, summary, state, record

    first, done, second, third, summary, state, record = anyio.run(run)
    assert done.refused is None
    assert (state["program"]["clapper"], state["hero"]["doom"]) == (True, 78)
    for turn in (first, second):
        assert not any(word in shown_of(turn) for word in SECRETS)
        assert "guard_flag" not in record.anchors
    assert "hero.coins: 0..9" in first.text
    assert "refused_update" in third.text
    told = shown_of(third)
    for own in ("hero.dooms", "'dooms'", "guard_flags"):
        told = told.replace(own, "")
    assert not any(word in told for word in SECRETS)
    assert summary is None or not any(word in summary.content for word in SECRETS)


def test_validate_reads_the_rule(pack):
    checked = CliRunner().invoke(app, ["author", "validate", str(pack)])
    assert checked.exit_code == 0, checked.output
    text = (pack / "world.yaml").read_text(encoding="utf-8")
    (pack / "world.yaml").write_text(text.replace("hidden: [doom]", "hidden: [dom]"), encoding="utf-8")
    checked = CliRunner().invoke(app, ["author", "validate", str(pack)])
    assert "names 'dom', which is not a field of this mapping" in checked.output
    assert "doom" in checked.output

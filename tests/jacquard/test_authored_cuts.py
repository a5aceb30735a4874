"""Authored texts that are too long for a prompt: their beginning is shown and the receipt says so; nothing is dropped whole."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jacquard import (
    BudgetConfig,
    BudgetExceededError,
    PreparedTurn,
    Runtime,
    RuntimeConfig,
    open_runtime,
    read_snapshot,
    replay_prompt,
)
from mnemosyne import CalibratedEstimator
from mnemosyne.core import codec

pytestmark = pytest.mark.anyio
COUNT = CalibratedEstimator().estimate
WORDS = {"en": "The keeper counts ship {n} again. ", "zh-CN": "守灯人又数了第{n}艘船。"}
INPUT = "Tell me of the lamp."


def words(count: int, locale: str = "en") -> str:
    return "".join(WORDS[locale].format(n=n) for n in range(count)).strip()


def budget(tokens: int) -> RuntimeConfig:
    return RuntimeConfig(budget=BudgetConfig(max_input_tokens=tokens, reserved_reply_tokens=100))


@asynccontextmanager
async def opened(
    folder: Path, world: Mapping[str, Any], files: Mapping[str, str] | None = None
) -> AsyncIterator[Runtime]:
    pack = folder / "pack"
    whole = {"id": "w", "title": "W", "locale": "en", "instruction": "You tell the story.", "state": {}, **world}
    for name, text in {"world.yaml": codec.encode(whole).decode(), **(files or {})}.items():
        (pack / name).parent.mkdir(parents=True, exist_ok=True)
        (pack / name).write_text(text, encoding="utf-8")
    async with open_runtime(folder / "store", world=pack, embedder="none") as runtime:
        await runtime.ensure_session("s")
        yield runtime


def decision(turn: PreparedTurn, block_id: str) -> Any:
    return next(each for each in turn.report.decisions if each.block_id == block_id)


def told(turn: PreparedTurn) -> str:
    return "\n".join(each.detail for each in turn.report.degradations if each.code == "block_cut")


def inside(turn: PreparedTurn, element: str) -> str:
    return turn.text.split(f"<{element} shortened")[1].split(f"</{element}>")[0]


@pytest.mark.parametrize("locale", ["en", "zh-CN"])
@pytest.mark.parametrize("sentences", [120, 700, 4000])
async def test_of_a_persona_every_field_is_shown_and_the_long_ones_begin(
    tmp_path: Path, locale: str, sentences: int
) -> None:
    persona = {"name": "Odessa", "description": words(sentences, locale), "scenario": "A lighthouse.", "age": 61}
    async with opened(tmp_path, {"persona": persona, "locale": locale}) as runtime:
        before: PreparedTurn | None = None
        for tokens in (1_500, 1_800, 3_000, 8_192, 30_000, 200_000):
            turn = await runtime.engine.prepare_turn("s", INPUT, budget(tokens), turn_id=f"t{tokens}")
            assert turn.report.budget.used_tokens <= turn.report.budget.limit_tokens
            own = decision(turn, "persona")
            if own.code == "fits":
                assert not told(turn)
                assert persona["description"] in turn.text
            else:
                shown = inside(turn, "persona")
                assert own.code == "cut"
                assert "name: Odessa\n" in shown
                assert "scenario: A lighthouse.\n" in shown
                assert "age: 61" in shown
                start, _, rest = shown.split("description: ")[1].partition(" […]")
                assert rest
                assert persona["description"].startswith(start.strip('"'))
                assert start.endswith((".", "。"))
                assert f"it is shown with {own.tokens:,}" in told(turn)
            if before is not None:
                assert decision(before, "persona").tokens <= own.tokens
            before = turn
        assert own.code == "fits"


async def test_a_bigger_budget_never_gives_a_worse_prompt(tmp_path: Path) -> None:
    persona = {"name": "Odessa", "description": words(900)}
    async with opened(tmp_path, {"persona": persona}) as runtime:
        for number in range(12):
            await runtime.engine.prepare_turn("s", f"Question {number}. {words(10)}")
            await runtime.engine.commit_assistant_message("s", f"<content>Answer {number}. {words(10)}</content>")
        kept: dict[str, int] = {}
        for tokens in range(1_400, 16_000, 370):
            turn = await runtime.engine.prepare_turn("s", INPUT, budget(tokens), turn_id=f"t{tokens}")
            now = {each.block_id: each.tokens for each in turn.report.decisions if each.action.value != "dropped"}
            assert kept.keys() <= now.keys()
            assert kept.get("persona", 0) <= now["persona"]
            kept = now


async def test_the_text_of_a_cut_persona_stays_the_same_over_turns(tmp_path: Path) -> None:
    persona = {"name": "Odessa", "description": words(3000)}
    async with opened(tmp_path, {"persona": persona}) as runtime:
        texts = []
        for number in range(12):
            turn = await runtime.engine.prepare_turn("s", f"Question {number}.")
            await runtime.engine.commit_assistant_message("s", f"<content>Answer {number}. {words(2)}</content>")
            texts.append(inside(turn, "persona"))
        assert len(set(texts)) <= 2


async def test_a_persona_beyond_what_templates_take_is_cut_and_said(tmp_path: Path) -> None:
    persona = {"name": "Odessa", "description": "The keeper & the lamp < the ships. " * 7_000, "voice": "Dry."}
    async with opened(tmp_path, {"persona": persona}) as runtime:
        for tokens in (8_192, 400_000):
            turn = await runtime.engine.prepare_turn("s", INPUT, budget(tokens), turn_id=f"t{tokens}")
            assert "persona.description has 245,000 characters" in told(turn)
            assert "voice: Dry." in turn.text
            assert "description: The keeper &amp; the lamp" in turn.text


@pytest.mark.parametrize("kind", ["directive", "template", "world info"])
async def test_every_authored_block_begins_where_there_is_no_room_for_all_of_it(tmp_path: Path, kind: str) -> None:
    text = words(1500)
    lore = {"id": "note", "name": "Note", "category": "directive", "content": text, "constant": True}
    world: dict[str, Any] = {}
    files = {"lore/all.yaml": codec.encode([lore]).decode()} if kind == "directive" else {}
    block_id, element = "note", "directive"
    if kind == "template":
        block = "  - {id: manners, file: manners.j2, type: instruction, slot: manners, priority: high, order: 25}\n"
        files = {
            "templates/own/template.yaml": f"id: own\nextends: chat\nblocks:\n{block}",
            "templates/own/manners.j2": f"<manners>\n<rule>Be brief.</rule>\n<rule>{text}</rule>\n</manners>\n",
            "planner.yaml": "default_template: own\n",
        }
        block_id, element = "manners", "manners"
    elif kind == "world info":
        fields = {"constant": True, "position": 0, "order": 100, "key": [], "ignoreBudget": True}
        entry = {**lore, "category": "encyclopedia", "world_info": {"world": "book", "uid": "0", "fields": fields}}
        del entry["constant"]
        world = {"activation": "sillytavern"}
        files = {"lore/all.yaml": codec.encode([entry]).decode()}
        element = "lore"
    async with opened(tmp_path, world, files) as runtime:
        turn = await runtime.engine.prepare_turn("s", INPUT, budget(4_000))
        own = decision(turn, block_id)
        assert (own.action.value, own.code) == ("degraded", "cut")
        shown = inside(turn, element)
        assert "The keeper counts ship 0 again." in shown
        assert "[…]" in shown
        assert block_id in told(turn)
        if kind == "template":
            assert "<rule>Be brief.</rule>" in shown


async def test_what_must_stay_is_named_and_never_cut(tmp_path: Path) -> None:
    async with opened(tmp_path, {"instruction": words(2000)}) as runtime:
        with pytest.raises(BudgetExceededError, match="instruction"):
            await runtime.engine.prepare_turn("s", INPUT, budget(4_000))


async def test_an_important_block_without_any_room_is_said(tmp_path: Path) -> None:
    async with opened(tmp_path, {"persona": {"description": words(300)}}) as runtime:
        least = await runtime.engine.prepare_turn("s", INPUT, budget(9_000))
        must = sum(each.tokens for each in least.report.decisions if each.code == "must")
        turn = await runtime.engine.prepare_turn("s", INPUT, budget(must + 160), turn_id="tight")
        assert decision(turn, "persona").code == "over_budget"
        assert "there is no room for it" in told(turn)


async def test_a_cut_prompt_is_replayed_byte_for_byte(tmp_path: Path) -> None:
    persona = {"name": "Odessa", "description": words(3000)}
    async with opened(tmp_path, {"persona": persona}) as runtime:
        turn = await runtime.engine.prepare_turn("s", INPUT)
        snapshot = read_snapshot(await runtime.store.turn("s", turn.turn_id))
    assert snapshot is not None
    assert replay_prompt(snapshot, COUNT).assembled.text == turn.text

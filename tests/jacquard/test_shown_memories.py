"""What the prompt shows already is offered to no selector under another id: quests, lore and messages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jacquard import HistoryConfig, RuntimeConfig, SummaryConfig, create_context_engine, open_runtime
from mnemosyne import Chain, MemoryEntry, MemoryStore, load_world
from mnemosyne.schema.memory import session_scope, world_scope

pytestmark = pytest.mark.anyio
WORLDS = Path(__file__).parents[2] / "examples" / "whispering_forest"
TOLD = {
    "zh": (
        "我把船票撕了，跟渡娘说再也不坐夜船。",
        "渡娘收起缆绳：夜船从此停开，你们在天亮前平安上了岸。",
        "夜船从此停开，天亮前平安上了岸。",
        "夜渡",
    ),
    "en": (
        "I thank the ferrywoman and step ashore.",
        "Nell coils the rope. You came over with the night ferry and landed safely before dawn.",
        "They came over with the night ferry and landed safely before dawn.",
        "The night ferry",
    ),
}


def with_closed_quest(locale: str):
    world = load_world(WORLDS / locale)
    _, _, outcome, title = TOLD[locale]
    quest = {"id": "q_ferry", "title": title, "status": "completed", "outcome": outcome}
    state = {**world.state, "quests": {**world.state["quests"], "q_ferry": quest}}
    return replace(world, state=state, prologue=())


@pytest.mark.parametrize("shown", [True, False])
@pytest.mark.parametrize("locale", ["zh", "en"])
async def test_a_closed_quest_is_no_memory_while_the_window_tells_how_it_ended(locale, shown):
    said, reply, _, title = TOLD[locale]
    world = with_closed_quest(locale)
    config = RuntimeConfig(history=HistoryConfig(max_messages=40 if shown else 2), summary=SummaryConfig(enabled=False))
    async with create_context_engine(MemoryStore(), config=config, world=world) as engine:
        await engine.start_session("s", world)
        for text, answer in ((said, reply), ("…", "…"), ("…", "…")):
            await engine.prepare_turn("s", text)
            await engine.commit_assistant_message("s", f"<content>{answer}</content>")
        turn = await engine.prepare_turn("s", title)
    offered = {each.entry_id for each in turn.report.stream_b.candidates}
    assert ("q_ferry" in offered) is not shown


@pytest.mark.parametrize("locale", ["zh", "en"])
async def test_an_entry_that_says_what_an_axiom_or_a_message_says_is_not_offered(tmp_path, locale):
    config = RuntimeConfig(summary=SummaryConfig(enabled=False))
    async with open_runtime(str(tmp_path / "saves"), world=WORLDS / locale, embedder="none", config=config) as runtime:
        head = await runtime.ensure_session("s")
        axiom = (await runtime.store.entries(world_scope(head.world_id), ["lore_axiom_whisper"]))[0]
        message = (await runtime.store.entries(session_scope("s"), ["p040.a"]))[0]
        copies = [
            MemoryEntry(
                entry_id=f"copy_{number}", scope=session_scope("s"), chain=Chain.EVENT, kind="plot_point", text=text,
                turn_id="p003", branch_id=message.branch_id, depth=3,
            )
            for number, text in enumerate((axiom.text, message.text.replace(" ", "  "), f"{message.text} ???"))
        ]  # fmt: skip
        await runtime.store.append_entries("s", copies)
        turn = await runtime.engine.prepare_turn("s", f"{axiom.text} {message.text}")
    offered = {each.entry_id for each in turn.report.stream_b.candidates}
    assert "copy_2" in offered
    assert not offered & {"copy_0", "copy_1"}

"""The layout `cache_append`: memories and lore stay where they first stood, so a provider's cache holds what came before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jacquard import HistoryConfig, MemoryVerbs, RuntimeConfig, open_runtime
from jacquard.pipeline.worlds import build_bare_world
from mnemosyne import Chain, MemoryEntry
from mnemosyne.schema.memory import LoreCategory, world_scope

pytestmark = pytest.mark.anyio
BEES = "Runa keeps nine hives of black bees behind the mill."
LANTERN = "The lantern of Saltmere burns for those who drowned in its bay."
APPEND = RuntimeConfig(layout="cache_append")


def lore(name, text, **fields):
    return MemoryEntry(
        entry_id=name,
        scope=world_scope("tea"),
        chain=Chain.LORE,
        kind=LoreCategory.ENCYCLOPEDIA,
        text=text,
        title=name,
        keys=(name,),
        **fields,
    )


def world_of(*entries):
    return replace(build_bare_world("tea"), lore=entries, digest="-".join(each.text for each in entries))


@pytest.fixture
async def chat(tmp_path):
    async with open_runtime(tmp_path / "store", embedder="none") as runtime:

        async def say(text, config=APPEND, world=None):
            if world is not None:
                await runtime.engine.start_session("s", world)
                await runtime.warm()
            turn = await runtime.engine.prepare_turn("s", text, config)
            await runtime.engine.commit_assistant_message("s", "So it is.", turn_id=turn.turn_id)
            return turn

        say.runtime = runtime
        yield say


WORLD = world_of(lore("bees", BEES), lore("lantern", LANTERN))


def places_of(turn, text):
    return [place for place, message in enumerate(turn.messages) if text in message.content]


async def test_lore_stays_before_the_message_that_it_was_first_shown_for(chat):
    first = await chat("What of the bees?", world=WORLD)
    second = await chat("And the lantern of Saltmere?")
    third = await chat("Good night to you.")
    [at] = places_of(first, BEES)
    assert places_of(second, BEES) == places_of(third, BEES) == [at]
    # The tail of the user's message is of its turn alone.
    assert second.messages[: len(first.messages) - 1] == first.messages[:-1]
    assert third.messages[: len(second.messages) - 1] == second.messages[:-1]
    assert places_of(second, LANTERN) == [len(second.messages) - 2]


async def test_what_stays_is_marked_for_a_providers_cache(chat):
    await chat("What of the bees?", world=WORLD)
    turn = await chat("And the lantern of Saltmere?")
    marked = [
        block["text"]
        for message in turn.to_anthropic()["messages"]
        for block in message["content"]
        if "cache_control" in block
    ]
    assert LANTERN in marked[-1]


async def test_lore_that_was_changed_stands_only_in_its_new_words(chat):
    await chat("What of the bees?", world=WORLD)
    await chat.runtime.engine.worlds.store_pack(world_of(lore("bees", "Runa sold her bees in autumn.")))
    turn = await chat("What of the bees of Runa now?")
    assert places_of(turn, BEES) == []
    assert places_of(turn, "sold her bees") == [len(turn.messages) - 2]


@pytest.mark.parametrize("viewer", [None, "runa"])
async def test_a_memory_that_is_for_some_viewers_does_not_stay(chat, viewer):
    secret = lore("bees", BEES, viewers=("runa",))
    await chat("What of the bees?", replace(APPEND, viewer="runa"), world=world_of(secret))
    turn = await chat("Good night to you.", replace(APPEND, viewer=viewer))
    assert places_of(turn, BEES) == []


async def test_a_memory_that_was_forgotten_does_not_stay(chat):
    await chat("Good morning.", world=WORLD)
    edit = await MemoryVerbs(chat.runtime).remember("s", "The gate code of the mill is heron.")
    shown = await chat("What is the gate code of the mill?")
    assert places_of(await chat("And now?"), "heron") == places_of(shown, "heron") != []
    await MemoryVerbs(chat.runtime).forget("s", edit.memory_id, reason="it was changed")
    assert places_of(await chat("Good night to you."), "heron") == []


async def test_what_stays_goes_with_its_message(chat):
    short = replace(APPEND, history=HistoryConfig(max_messages=4, low_water=0.5))
    await chat("What of the bees?", short, world=WORLD)
    for number in range(4):
        turn = await chat(f"Good night to you, {number}.", short)
    assert places_of(turn, BEES) == []
    assert places_of(await chat("What of the bees?", short), BEES) != []


async def test_another_branch_has_what_stood_before_it(chat):
    first = await chat("What of the bees?", world=WORLD)
    second = await chat("And the lantern of Saltmere?")
    await chat.runtime.engine.rollback("s", first.turn_id)
    turn = await chat("Good night to you.")
    assert places_of(turn, BEES) == places_of(first, BEES) == places_of(second, BEES)
    assert places_of(turn, LANTERN) == []

"""Memory by hand: what is remembered is recalled, what is corrected is not, what is pinned is in every prompt."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from jacquard import ConfigError, MemoryVerbs, RuntimeConfig, open_runtime
from jacquard.memory.verbs.values import MemoryAction
from mnemosyne import Message, Role, export_session, import_session
from mnemosyne.core.errors import StateOpError
from mnemosyne.evidence.documents import index_documents

pytestmark = pytest.mark.anyio
SETTINGS = RuntimeConfig(profile="assistant")
FACT, FIXED = "The boat key hangs behind the blue clock.", "The boat key lies under the red mat."
QUESTION = "Where is the boat key?"


@pytest.fixture(params=["sqlite", "file", "postgresql"])
def address(request, tmp_path):
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    return str(tmp_path / "store") if request.param == "sqlite" else f"file:{tmp_path / 'store'}"


@asynccontextmanager
async def opened(address, embedder="none", **more):
    async with open_runtime(address, embedder=embedder, config=SETTINGS, **more) as runtime:
        await runtime.ensure_session("s")
        yield runtime, MemoryVerbs(runtime, author="ana")


async def ask(runtime, text=QUESTION, viewer=None):
    config = RuntimeConfig(profile="assistant", viewer=viewer)
    turn = await runtime.engine.prepare_turn("s", text, config)
    await runtime.engine.commit_assistant_message(
        "s", Message(role=Role.ASSISTANT, content="Let me see."), turn_id=turn.turn_id
    )
    return turn


def shown(turn):
    return "\n".join(message.content for message in turn.messages)


async def test_what_is_remembered_is_recalled_with_its_author_and_time(address):
    async with opened(address) as (runtime, verbs):
        done = await verbs.remember("s", FACT, title="boat")
        assert (done.action, done.author, done.after) == (MemoryAction.REMEMBER, "ana", FACT)
        assert done.at is not None
        found = await verbs.search("s", QUESTION)
        assert (found[0].memory_id, found[0].text) == (done.edit_id, FACT)
        assert {"boat", "key"} <= set(found[0].words)
        assert found[0].signals["fts"] > 0
        assert FACT in shown(await ask(runtime))


async def test_a_corrected_memory_is_recalled_as_it_is_now(address):
    async with opened(address) as (runtime, verbs):
        first = await verbs.remember("s", FACT)
        second = await verbs.edit("s", first.edit_id, FIXED)
        assert (second.before, second.after, second.memory_id) == (FACT, FIXED, first.edit_id)
        assert [each.text for each in await verbs.search("s", QUESTION)] == [FIXED]
        prompt = shown(await ask(runtime))
        assert FIXED in prompt
        assert FACT not in prompt
        with pytest.raises(ConfigError, match="was superseded"):
            await verbs.edit("s", first.edit_id, "Another.")
        with pytest.raises(ConfigError, match="undo that one first"):
            await verbs.undo("s", first.edit_id)
        assert (await verbs.undo("s", second.edit_id)).undone_by == "ana"
        texts = [each.text for each in await verbs.search("s", QUESTION)]
        assert FACT in texts
        assert FIXED not in texts
        await verbs.undo("s", second.edit_id)
        await verbs.undo("s", first.edit_id)
        assert FACT not in [each.text for each in await verbs.search("s", QUESTION)]
        assert [edit.action for edit in await verbs.log("s")] == [MemoryAction.REMEMBER, MemoryAction.EDIT]


async def test_a_memory_made_of_turns_can_be_corrected_and_given_back(address):
    async with opened(address) as (runtime, verbs):
        await ask(runtime, "My sister Ida keeps the boat key in Bergen.")
        for number in range(12):
            await ask(runtime, f"And now to something else, number {number}.")
        [old] = [each for each in await verbs.search("s", "Ida boat key Bergen") if "Bergen" in each.text][:1]
        done = await verbs.supersede("s", old.memory_id, "Ida gave the boat key to Tom.")
        texts = [each.text for each in await verbs.search("s", "Ida boat key Bergen")]
        assert "Ida gave the boat key to Tom." in texts
        assert old.text not in texts
        await verbs.undo("s", done.edit_id)
        texts = [each.text for each in await verbs.search("s", "Ida boat key Bergen")]
        assert old.text in texts
        with pytest.raises(ConfigError, match="made of turns"):
            await verbs.forget("s", old.memory_id)


async def test_a_pinned_memory_is_in_every_prompt_once(address):
    async with opened(address) as (runtime, verbs):
        done = await verbs.remember("s", FACT)
        pin = await verbs.pin("s", done.edit_id)
        trust = (await verbs.memory("s", done.edit_id)).trust.value
        assert await verbs.pin("s", done.edit_id) == pin
        for text in ("What is the weather?", QUESTION):
            turn = await ask(runtime, text)
            assert shown(turn).count(FACT) == 1
            assert any(block.block_id == f"pinned:{done.edit_id}" for block in turn.context_blocks)
            assert f'<context_block id="pinned:{done.edit_id}" type="memory" trust="{trust}">' in shown(turn)
        corrected = await verbs.edit("s", done.edit_id, FIXED)
        prompt = shown(await ask(runtime, "And now?"))
        assert (prompt.count(FIXED), prompt.count(FACT)) == (1, 0)
        await verbs.unpin("s", corrected.edit_id)
        assert FIXED not in shown(await ask(runtime, "Say nothing."))
        assert FIXED in shown(await ask(runtime))
        with pytest.raises(ConfigError, match="not pinned"):
            await verbs.unpin("s", corrected.edit_id)


async def test_what_is_forgotten_is_nowhere(address, tmp_path):
    async with opened(address) as (runtime, verbs):
        first = await verbs.remember("s", FACT)
        second = await verbs.edit("s", first.edit_id, FIXED)
        await verbs.pin("s", second.edit_id)
        gone = await verbs.forget("s", second.edit_id)
        assert {first.edit_id, second.edit_id} <= set(gone)
        assert await verbs.search("s", QUESTION) == ()
        prompt = shown(await ask(runtime))
        assert "boat key hangs" not in prompt
        assert "red mat" not in prompt
        assert not await runtime.store.find_text((FACT, FIXED))
        assert [edit.edit_id for edit in await verbs.log("s") if edit.edit_id in gone] == []
    kept = [each for each in tmp_path.rglob("*") if each.is_file() and not each.name.endswith((".lock",))]
    assert not [each for each in kept if FACT.encode() in each.read_bytes() or FIXED.encode() in each.read_bytes()]


async def test_a_copy_of_the_session_heeds_its_edits(tmp_path):
    async with opened(str(tmp_path / "one")) as (runtime, verbs):
        first = await verbs.remember("s", FACT)
        await verbs.edit("s", first.edit_id, FIXED)
        await ask(runtime, "Hello.")
        document = await export_session(runtime.store, "s")
    async with open_runtime(str(tmp_path / "two"), embedder="none", config=SETTINGS) as runtime:
        await import_session(runtime.store, document)
        await index_documents(runtime.store, "s")
        verbs = MemoryVerbs(runtime)
        assert [each.text for each in await verbs.search("s", QUESTION)] == [FIXED]
        assert [edit.action for edit in await verbs.log("s")] == [MemoryAction.REMEMBER, MemoryAction.EDIT]


async def test_a_viewer_edits_what_it_may_know_and_keeps_its_own(tmp_path):
    async with opened(str(tmp_path / "store")) as (runtime, verbs):
        shared = await verbs.remember("s", FACT)
        elara = MemoryVerbs(runtime, author="elara", viewer="elara")
        own = await elara.remember("s", "Elara fears the old boat.")
        pin = await elara.pin("s", own.edit_id)
        tom = MemoryVerbs(runtime, author="tom", viewer="tom")
        assert [each.memory_id for each in await tom.search("s", "boat")] == [shared.edit_id]
        for attempt in (tom.pin, tom.forget, tom.memory):
            with pytest.raises(ConfigError, match="There is no memory"):
                await attempt("s", own.edit_id)
        with pytest.raises(ConfigError, match="There is no edit"):
            await tom.undo("s", pin.edit_id)
        assert [edit.edit_id for edit in await tom.log("s")] == [shared.edit_id]
        assert "fears" in shown(await ask(runtime, "Hello.", viewer="elara"))
        assert "fears" not in shown(await ask(runtime, "Hello.", viewer="tom"))
        assert "fears" not in shown(await ask(runtime, "Hello."))


async def test_what_the_prompt_showed_a_model_is_not_remembered_again(tmp_path):
    async with opened(str(tmp_path / "store")) as (runtime, verbs):
        await verbs.remember("s", FACT + " Nobody but Ida has ever looked there in all those years.")
        await ask(runtime)
        model = MemoryVerbs(runtime, author="model", is_model=True)
        with pytest.raises(ConfigError, match="Nothing of this text is new"):
            await model.remember("s", FACT + " Nobody but Ida has ever looked there in all those years.")
        done = await model.remember("s", "The user likes tea.")
        assert (await model.memory("s", done.edit_id)).trust.value == "model"


async def test_an_edit_of_a_pinned_memory_moves_the_pin_and_undo_moves_it_back(tmp_path):
    async with opened(str(tmp_path / "store")) as (runtime, verbs):
        first = await verbs.remember("s", FACT)
        await verbs.pin("s", first.edit_id)
        with pytest.raises(ConfigError, match="at most 20000"):
            await verbs.edit("s", first.edit_id, "x" * 20_001)
        assert FACT in shown(await ask(runtime, "Hello."))
        for change in (verbs.edit("s", first.edit_id, FIXED), verbs.supersede("s", first.edit_id)):
            done = await change
            assert FACT not in shown(await ask(runtime, "And now?"))
            await verbs.undo("s", done.edit_id)
            prompt = shown(await ask(runtime, "Again?"))
            assert FACT in prompt
            assert FIXED not in prompt


async def test_what_a_prompt_has_shown_can_still_be_pinned(tmp_path):
    async with open_runtime(str(tmp_path / "store"), world="examples/whispering_forest/en", embedder="none") as runtime:
        await runtime.ensure_session("s")
        turn = await runtime.engine.prepare_turn("s", "Does the temple key open the temple?")
        chosen = next(each for each in turn.report.stream_b.candidates if each.chosen)
        verbs = MemoryVerbs(runtime)
        await verbs.pin("s", chosen.entry_id)
        found = await verbs.search("s", chosen.title)
        assert [each.pinned for each in found if each.memory_id == chosen.entry_id] == [True]
        with pytest.raises(ConfigError, match="made of turns or of a world"):
            await verbs.forget("s", chosen.entry_id)


async def test_the_same_key_remembers_once(tmp_path):
    async with opened(str(tmp_path / "store")) as (_, verbs):
        first = await verbs.remember("s", FACT, key="k")
        assert await verbs.remember("s", FACT, key="k") == first
        assert len(await verbs.log("s")) == 1


async def test_values_of_the_state_are_set_all_or_none(tmp_path):
    async with open_runtime(str(tmp_path / "store"), world="examples/whispering_forest/en", embedder="none") as runtime:
        await runtime.ensure_session("s")
        verbs = MemoryVerbs(runtime, author="ana")
        before = await verbs.get_state("s")
        await verbs.set_state("s", {"hero.health": 42})
        after = await verbs.get_state("s")
        assert after != before
        with pytest.raises(StateOpError):
            await verbs.set_state("s", {"hero.health": 50, "hero.health.no.such": 1})
        assert await verbs.get_state("s") == after
        turn = await runtime.engine.prepare_turn("s", "Hello.")
        with pytest.raises(ConfigError, match="waits for its reply"):
            await verbs.set_state("s", {"hero.health": 1})
        assert turn.turn_id


async def test_lore_of_an_imported_world_is_listed_added_and_edited(tmp_path):
    store = str(tmp_path / "store")
    async with open_runtime(store, world="examples/whispering_forest/en", embedder="none") as runtime:
        head = await runtime.ensure_session("s")
        with pytest.raises(ConfigError, match="read from a folder"):
            await MemoryVerbs(runtime).add_lore(head.world_id, "New.")
    async with open_runtime(store, embedder="none") as runtime:
        verbs = MemoryVerbs(runtime, author="ana")
        before = await verbs.lore(head.world_id)
        added = await verbs.add_lore(head.world_id, "The ferry to Skye sails at noon.", title="Ferry")
        await verbs.edit_lore(head.world_id, added.entry_id, text="The ferry to Skye sails at dusk.")
        assert len(await verbs.lore(head.world_id)) == len(before) + 1
        assert [each.text for each in await verbs.lore(head.world_id, "ferry skye")] == [
            "The ferry to Skye sails at dusk."
        ]
        turn = await runtime.engine.prepare_turn("s", "When does the ferry to Skye sail?")
        assert "sails at dusk" in shown(turn)

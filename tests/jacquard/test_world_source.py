"""Engines of several hosts on one store: the store says which version of a world counts, and reads it when it is asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from anyio import to_thread
from pack_parts import ASKED, AT_NIGHT, LORE, SECRETS, write_pack
from servers.scripted_model import ScriptedModel

from jacquard import RuntimeConfig, create_context_engine, open_runtime
from mnemosyne import MemoryStore, SessionStart, SqliteStore, export_session, import_session, load_world
from mnemosyne.core.codec import decode, encode
from mnemosyne.world import pack_from_json, pack_to_json
from mnemosyne.world.scaffold import write_scaffold

pytestmark = pytest.mark.anyio

FOREST = Path(__file__).parents[2] / "examples" / "whispering_forest"


class Counted(MemoryStore):
    """A store that counts how often a pack is read and written."""

    def __init__(self):
        super().__init__()
        self.read, self.written = 0, 0

    async def pack(self, world_id, digest):
        self.read += 1
        return await super().pack(world_id, digest)

    async def replace_world(self, *args, **fields):
        self.written += 1
        return await super().replace_world(*args, **fields)


def mill(folder, lore=LORE, **files):
    return load_world(write_pack(folder, lore, files))


async def woven(store, text=ASKED, session="s", **parts):
    """Weave a turn by an engine of its own."""
    config = parts.pop("config", None)
    async with create_context_engine(store, config=config, **parts) as engine:
        return await engine.prepare_turn(session, text)


async def test_a_pack_is_read_once_and_only_for_its_own_sessions(tmp_path):
    store = Counted()
    world = mill(tmp_path / "mill")
    await woven(store, world=world)
    assert (store.read, store.written) == (0, 1)
    async with create_context_engine(store) as engine:
        assert store.read == 0, "opening an engine reads no pack"
        for text in (ASKED, AT_NIGHT, "And then?"):
            await engine.prepare_turn("s", text)
            await engine.commit_assistant_message("s", "<content>So.</content>")
        assert (store.read, store.written) == (1, 1)
        await engine.start_session("s2", world)
        await engine.start_session("s3", world)
        assert store.written == 2, "the same pack is brought once"


async def test_another_hosts_version_counts_from_the_next_turn_on(tmp_path):
    store = MemoryStore()
    first, second = mill(tmp_path / "one"), mill(tmp_path / "two", LORE.replace("Bread is holy", "Salt is holy"))
    async with create_context_engine(store, world=first) as here:
        assert "Bread is holy" in (await here.prepare_turn("s", ASKED)).text
        assert "Salt is holy" in (await woven(store, worlds={"mill": second}, text="Well?")).text
        turn = await here.prepare_turn("s", ASKED)
        assert "Salt is holy" in turn.text
        assert "Bread is holy" not in turn.text
    assert "Salt is holy" in (await woven(store)).text, "without a pack at hand it is the store's"


async def test_a_session_goes_on_without_the_pack_at_hand(tmp_path):
    store = MemoryStore()
    told = await woven(store, AT_NIGHT, world=mill(tmp_path / "mill"))
    assert "owls answer" in told.text
    again = await woven(store, AT_NIGHT)
    assert (again.turn_id, again.text) == (told.turn_id, told.text)
    parts = {"config": RuntimeConfig(template_id="night")}
    assert "owls answer" in (await woven(store, ASKED, **parts)).text


async def test_a_session_without_a_world_stays_bare():
    store = MemoryStore()
    told = await woven(store, "hello")
    assert "helpful agent" in told.text
    assert (await woven(store, "hello")).text == told.text
    assert await store.worlds() == {"bare": "bare"}


async def test_a_workshop_opens_a_session_that_an_engine_began_without_a_world(tmp_path):
    store = SqliteStore(tmp_path / "store" / "store.db")
    async with create_context_engine(store) as engine:
        told = await engine.prepare_turn("s", "hello")
        await engine.commit_assistant_message("s", "<content>Hi.</content>")
        told = await engine.prepare_turn("s", "hello")
    await store.close()
    async with open_runtime(tmp_path / "store", embedder="none") as runtime:
        assert (await runtime.engine.prepare_turn("s", "hello", turn_id="mine")).text == told.text
        document = await export_session(runtime.store, "s")
    async with open_runtime("memory:", embedder="none") as runtime:
        await import_session(runtime.store, document)
        assert "helpful agent" in (await runtime.engine.prepare_turn("s", "well?")).text
        start = SessionStart(session_id="own", world_id="a name of the hosts own", locale="en", state={})
        await runtime.store.create_session(start)
        assert "helpful agent" in (await runtime.engine.prepare_turn("own", "well?")).text


async def test_a_pack_of_the_hosts_own_making_is_kept_with_the_templates_of_its_folder(tmp_path):
    store = MemoryStore()
    loaded = mill(tmp_path / "mill")
    made = replace(loaded, templates=None, digest="1")
    told = await woven(store, AT_NIGHT, world=made)
    assert "owls answer" in told.text
    await to_thread.run_sync((tmp_path / "mill" / "templates" / "night" / "guidance.j2").unlink)
    assert (await woven(store, AT_NIGHT)).text == told.text
    other = replace(made, templates={}, instruction="Say nothing of it.")
    assert "Say nothing of it." in (await woven(store, ASKED, world=other)).text, "the same digest, another pack"
    assert "Say nothing of it." in (await woven(store, "Well?")).text


async def test_a_secret_that_comes_while_a_turn_is_under_way_stays_one(tmp_path):
    world = mill(tmp_path / "one")
    later = mill(tmp_path / "two", LORE + SECRETS)

    class Edited(MemoryStore):
        async def gated_entries(self, scopes):
            found = await super().gated_entries(scopes)
            await self.replace_world("mill", later.digest, later.lore, await to_thread.run_sync(pack_to_json, later))
            return found

    store, chooser = Edited(), ScriptedModel(["en_weir", "en_door", "t.u"])
    turn = await woven(store, "What of the weir and the iron sluice?", world=world, llm_adapter=chooser)
    assert "ninety oaks" in "".join(chooser.asked)
    for secret in ("iron sluice.", "hides an iron"):
        assert secret not in turn.text
        assert secret not in "".join(chooser.asked)


async def test_a_workshop_that_names_no_pack_reads_it_from_the_store(tmp_path):
    world = mill(tmp_path / "mill")
    async with open_runtime(tmp_path / "store", world=world, embedder="none") as runtime:
        await runtime.ensure_session("s")
        assert (await runtime.world_of("s")).digest == world.digest
        told = await runtime.engine.prepare_turn("s", ASKED)
    async with open_runtime(tmp_path / "store", embedder="none") as runtime:
        assert runtime.worlds == {}
        assert (await runtime.world_of("s")).lore == world.lore
        assert (await runtime.engine.prepare_turn("s", ASKED)).text == told.text
        action, known = await runtime.action("s", "pay the miller")
        assert (action.action_id, known) == ("pay", ("pay",))


async def test_many_first_turns_at_once_bring_one_pack(tmp_path):
    store, world = Counted(), mill(tmp_path / "mill")
    async with create_context_engine(store, world=world) as engine:
        await engine.start_session("s0", world)
        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(engine.start_session, f"t{number}", world)
    assert await store.worlds() == {"mill": world.digest}
    assert store.written == 1


@pytest.mark.parametrize("name", ["zh", "en", "starter"])
def test_a_pack_comes_back_as_it_was(tmp_path, name):
    if name == "starter":
        write_scaffold(tmp_path / "starter", "en")
    world = load_world(tmp_path / "starter" if name == "starter" else FOREST / name)
    kept = encode(pack_to_json(world))
    assert pack_from_json(decode(kept, dict)) == replace(world, template_root=None)
    assert encode(pack_to_json(pack_from_json(decode(kept, dict)))) == kept
    assert str(FOREST).encode() not in kept, "no path of this host"

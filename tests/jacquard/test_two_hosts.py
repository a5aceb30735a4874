"""Two engines over one PostgreSQL, each with an index folder of its own: a turn at the wrong host is slower, never wrong.

One session is played on one host alone, another with the same inputs on either host in turn; the prompts are the same bytes.
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from anyio import to_thread

from jacquard import Runtime, open_runtime
from mnemosyne import Erasure, load_world
from mnemosyne.schema.memory import session_scope

pytestmark = pytest.mark.anyio

FOREST = Path(__file__).parents[2] / "examples" / "whispering_forest" / "en"
EMBEDDER = """
from recall_parts import LetterEmbedder

EMBEDDED = []


class Counted(LetterEmbedder):
    def __init__(self, argument):
        super().__init__(name="counted")

    async def embed(self, texts, purpose):
        if purpose == "document":
            EMBEDDED.extend(texts)
        return await super().embed(texts, purpose)
"""
INPUTS = (
    "I look for the lantern near the old bridge.",
    "Who keeps the silver key of the mill?",
    "Elara, tell me about the king's decree.",
    "I go north to the witch and ask for the herbs.",
    "What did I say about the lantern?",
)


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """Install an embedder that counts what it embeds, and give the list of it."""
    info = tmp_path / "counted-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: counted\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[jacquard.embedders]\ncounted = counted_plugin:Counted\n", encoding="utf-8")
    (tmp_path / "counted_plugin.py").write_text(EMBEDDER, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    import counted_plugin

    counted_plugin.EMBEDDED.clear()
    return counted_plugin.EMBEDDED


async def open_hosts(stack: AsyncExitStack, url: str, count: int = 2) -> list[Runtime]:
    """Return runtimes with index folders of their own: the address of each differs in what only the server's log shows."""
    world = await to_thread.run_sync(load_world, FOREST)
    return [
        await stack.enter_async_context(
            open_runtime(f"{url}&application_name=host{number}", world=world, embedder="counted")
        )
        for number in range(count)
    ]


async def take_turn(host: Runtime, session: str, number: int, text: str) -> list[dict]:
    prepared = await host.engine.prepare_turn(session, text, turn_id=f"t{number}")
    reply = f"Reply {number}: {text[::-1]}"
    await host.engine.commit_assistant_message(session, reply, turn_id=f"t{number}")
    return prepared.messages


async def settle(hosts: list[Runtime]) -> None:
    for host in hosts:
        assert await host.engine.settle(60)


async def test_prompts_are_the_same_whichever_host_makes_them(postgres_url, counted):
    chance = random.Random(5)
    async with AsyncExitStack() as stack:
        hosts = await open_hosts(stack, postgres_url, 3)
        for session in ("alone", "either"):
            await hosts[0].ensure_session(session)
        for number in range(12):
            text = f"{INPUTS[number % len(INPUTS)]} ({number})"
            alone = await take_turn(hosts[2], "alone", number, text)
            either = await take_turn(hosts[chance.randrange(2)], "either", number, text)
            assert either == alone, number
            await settle(hosts)
        times = Counter(counted)
        # Both sessions begin with the same prologue and hear the same; no text of a session, and none of the world, comes twice.
        assert max(times.values()) == 2
        assert all(times[line] == 1 for line in times if "Fog hounds: They cast no shadow" in line)
        assert all(not host.index.faults() for host in hosts)
        assert not list(Path.cwd().rglob("*.lance"))


async def test_everything_that_is_done_at_one_host_is_known_at_the_other(postgres_url, counted):
    async with AsyncExitStack() as stack:
        one, other, third = await open_hosts(stack, postgres_url, 3)
        await one.ensure_session("alone")
        await one.ensure_session("s")

        async def both(number: int, host: Runtime) -> None:
            text = f"{INPUTS[number % len(INPUTS)]} ({number})"
            assert await take_turn(third, "alone", number, text) == await take_turn(host, "s", number, text)
            await settle([one, other, third])

        for number in range(4):
            await both(number, (one, other)[number % 2])
        # Prepared at one host, prepared again and committed at the other.
        prepared = await one.engine.prepare_turn("s", "Is it late?", turn_id="t4")
        again = await other.engine.prepare_turn("s", "Is it late?", turn_id="t4")
        assert again.messages == prepared.messages
        await other.engine.commit_assistant_message("s", "It is.", turn_id="t4")
        alone = await third.engine.prepare_turn("alone", "Is it late?", turn_id="t4")
        assert alone.messages == prepared.messages
        await third.engine.commit_assistant_message("alone", "It is.", turn_id="t4")
        await both(5, one)
        # Back to an earlier turn at one host, on from there at the other.
        await one.engine.rollback("s", "t2")
        await third.engine.rollback("alone", "t2")
        await both(6, other)
        await both(7, one)
        # The world changes at one host.
        world = one.world
        told = tuple(replace(each, text=f"{each.text} So it is told.") for each in world.lore)
        changed = replace(world, lore=told, digest="another")
        await one.engine.worlds.store_pack(changed)
        for host in (one, other, third):
            # Until the vectors of changed lore are there, it is found by words.
            await host.sync("s")
        for number in range(8, 12):
            await both(number, (other, one)[number % 2])


async def test_an_erasure_at_one_host_reaches_the_other(postgres_url, counted):
    async with AsyncExitStack() as stack:
        one, other = await open_hosts(stack, postgres_url)
        await one.ensure_session("s")
        for number in range(4):
            await take_turn((one, other)[number % 2], "s", number, f"The zyzzyva number {number} is mine.")
        await settle([one, other])
        report = await one.forget(Erasure(at=datetime.now(UTC), session_id="s"))
        assert report.done
        await one.ensure_session("s")
        prompt = await take_turn(other, "s", 9, "What is mine?")
        assert "zyzzyva" not in str(prompt)
        await settle([one, other])
        assert not await other.store.find_text(["zyzzyva"])
        filter_words = await other.index.unembedded_ids(session_scope("s"), "counted", 10)
        assert filter_words == ()

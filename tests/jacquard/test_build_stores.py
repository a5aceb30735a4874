"""A runtime on the stores that other tests do not open: a turn is played, and is there when it is opened again."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from servers.openai_server import OpenAiServer

from jacquard import open_runtime
from mnemosyne import Erasure
from mnemosyne.core.tokens import estimate_tokens

pytestmark = pytest.mark.anyio

WORLD = Path(__file__).parents[2] / "examples" / "whispering_forest" / "en"


@pytest.fixture(params=["file", "postgresql"])
def address(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return f"file://{tmp_path}/plain" if request.param == "file" else request.getfixturevalue("postgres_url")


async def play(address: str, text: str, tenant: str = "default") -> int:
    async with open_runtime(address, world=WORLD, embedder="none", tenant=tenant) as runtime:
        await runtime.ensure_session("demo")
        turn = await runtime.engine.prepare_turn("demo", text)
        assert "woven" in turn.messages[-1].content
        await runtime.engine.commit_assistant_message("demo", "<content>Quicksilver gleams.</content>")
        return (await runtime.store.head("demo")).depth


async def test_a_turn_is_there_when_the_store_is_opened_again(address):
    depth = await play(address, "Is it woven?")
    assert await play(address, "Is it woven again?") == depth + 1
    async with open_runtime(address, embedder="none") as runtime:
        window = await runtime.store.window("demo", message_limit=4)
        assert [placed.message.content for placed in window.messages][::2] == ["Is it woven?", "Is it woven again?"]
        assert (await runtime.world_of("demo")).world_id == "whispering_forest_en"


async def test_tenants_have_sessions_and_an_index_each(tmp_path):
    depth = await play(str(tmp_path), "Is it woven?", "red")
    assert await play(str(tmp_path), "Is it woven by another?", "blue") == depth
    assert len(list(tmp_path.glob("index-*"))) == 2
    async with open_runtime(tmp_path, embedder="none", tenant="blue") as runtime:
        assert await runtime.store.find_text(("Is it woven?",)) == ()


async def test_a_store_in_memory_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    await play("memory:", "Is it woven?")
    assert list(tmp_path.iterdir()) == []


async def test_an_erasure_empties_what_memory_holds_of_texts(tmp_path):
    secret = "The quicksilver ledger lies behind the brewery."
    async with open_runtime(tmp_path, world=WORLD, embedder="none") as runtime:
        await runtime.ensure_session("demo")
        await runtime.engine.prepare_turn("demo", secret)
        await runtime.engine.commit_assistant_message("demo", "<content>So it does.</content>")
        await runtime.engine.prepare_turn("demo", "Where does the ledger lie?")
        assert estimate_tokens.cache_info().currsize
        done = await runtime.forget(Erasure(at=datetime(2026, 2, 1, tzinfo=UTC), session_id="demo"))
        assert done.done
        seen = estimate_tokens.cache_info().hits
        estimate_tokens(secret)
        assert estimate_tokens.cache_info().hits == seen


async def test_an_erasure_empties_what_was_embedded_ahead(tmp_path):
    talk = ("Where does the ledger lie?",)
    with OpenAiServer() as server:
        embedder = f"openai/embed@{server.api_base}"
        async with open_runtime(tmp_path, world=WORLD, embedder=embedder) as runtime:
            await runtime.ensure_session("demo", index=False)
            for _ in range(2):
                await runtime.embedder.prefetch_recent(talk)
            assert [request.body["input"] for request in server.requests] == [[*talk]]
            assert (await runtime.forget(Erasure(at=datetime(2026, 2, 1, tzinfo=UTC), session_id="demo"))).done
            await runtime.embedder.prefetch_recent(talk)
        assert [request.body["input"] for request in server.requests] == [[*talk], [*talk]]

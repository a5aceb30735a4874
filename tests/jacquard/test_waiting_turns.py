"""What an engine holds of a prepared turn serves its commit only while nobody else has written: two engines on one database."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "attack"))

from engine_parts import WORLD, small_engine
from raw_search import bytes_of_object

from jacquard import open_runtime
from jacquard.turns.host.waiting import MOST_HELD, WaitingTurn, WaitingTurns
from mnemosyne import Erasure, PostgresStore, SqliteStore, ToolCall
from mnemosyne.core.errors import TurnNotPendingError
from mnemosyne.schema.session import SessionHead
from mnemosyne.testing.stores.samples import AT, prepared_turn

pytestmark = pytest.mark.anyio

ASKED = "Where is the elder's key?"


@asynccontextmanager
async def two_engines(kind, tmp_path, request):
    """Yield two engines on one database, as two processes have it, with a session `s`."""
    url = request.getfixturevalue("postgres_url") if kind == "postgresql" else ""
    async with AsyncExitStack() as stack:
        engines = []
        for _ in range(2):
            store = PostgresStore(url) if url else SqliteStore(tmp_path / "s.sqlite")
            engine, _, _ = await stack.enter_async_context(small_engine(store=store))
            engines.append(engine)
        yield engines


@pytest.fixture(params=["sqlite", "postgresql"])
async def engines(request, tmp_path):
    async with two_engines(request.param, tmp_path, request) as both:
        await both[0].start_session("s", WORLD)
        yield both


async def test_a_commit_reads_nothing_of_the_prepared_turn_again(engines):
    mine, _ = engines
    turn = await mine.prepare_turn("s", ASKED)
    held = mine.parts.waiting.find("s", turn.turn_id)
    stored = await mine.parts.store.turn("s", turn.turn_id)
    assert replace(held.record, prompt=None, receipt=None) == replace(stored, prompt=None, receipt=None)
    assert held.state == (await mine.parts.store.window("s", message_limit=1)).state
    done = await mine.commit_assistant_message("s", "In the mill.")
    assert (done.turn_id, mine.parts.waiting.find("s", None)) == (turn.turn_id, None)
    again = await mine.commit_assistant_message("s", "Another word.", turn_id=turn.turn_id)
    assert again.content == "In the mill."


async def test_what_another_engine_committed_is_answered_with_its_reply(engines):
    mine, other = engines
    turn = await mine.prepare_turn("s", ASKED)
    await other.commit_assistant_message("s", "The other engine's reply.", turn_id=turn.turn_id)
    done = await mine.commit_assistant_message("s", "Mine.", turn_id=turn.turn_id)
    assert done.content == "The other engine's reply."
    window = await mine.parts.store.window("s", message_limit=10)
    assert [each.message.content for each in window.messages][-1] == "The other engine's reply."


async def test_a_turn_that_another_engine_replaced_is_not_committed(engines):
    mine, other = engines
    turn = await mine.prepare_turn("s", ASKED)
    await other.prepare_turn("s", "Something else.", turn_id="t-else")
    await other.commit_assistant_message("s", "Yes.", turn_id="t-else")
    with pytest.raises(TurnNotPendingError):
        await mine.commit_assistant_message("s", "Mine.", turn_id=turn.turn_id)


async def test_what_another_engine_writes_meanwhile_is_kept(engines):
    mine, other = engines
    turn = await mine.prepare_turn("s", ASKED)
    await other.record_tool_call("s", ToolCall(tool_call_id="c1", tool="look", called_at=AT))
    done = await mine.commit_assistant_message("s", "Mine.", turn_id=turn.turn_id)
    assert done.content == "Mine."
    assert done.version == (await other.parts.store.head("s")).version
    assert (await other.parts.store.tool_call("s", "c1")).tool == "look"


async def test_an_erasure_forgets_prepared_turns(tmp_path):
    async with open_runtime(tmp_path / "store", world=WORLD, embedder="none") as runtime:
        await runtime.ensure_session("s")
        await runtime.engine.prepare_turn("s", "The secret of the old mill.")
        waiting = runtime.engine.parts.waiting
        assert any(b"secret of the old mill" in each for each in bytes_of_object(waiting))
        await runtime.forget(Erasure(at=AT, session_id="s"))
        assert not any(b"secret of the old mill" in each for each in bytes_of_object(waiting))


async def test_the_turns_of_the_sessions_that_were_played_last_are_held():
    waiting = WaitingTurns()
    for number in range(MOST_HELD + 1):
        record = prepared_record(f"s{number}")
        waiting.keep(WaitingTurn(record=record, state={}, agent="a", version=1))
    assert waiting.find("s0", None) is None
    assert waiting.find("s1", "t1") is not None
    assert waiting.find("s1", "t2") is None


def prepared_record(session_id):
    head = SessionHead(
        session_id=session_id, world_id="", branch_id="main", turn_id=None, depth=0, lineage=(), version=1
    )
    return replace(prepared_turn(head, "t1"), session_id=session_id)

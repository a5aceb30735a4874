"""A reply in chunks outlives the process that took them: another one finishes it, adds the rest, or drops it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from anyio import to_thread

from jacquard import RuntimeConfig, open_runtime
from jacquard.config.sections import ChunkConfig
from jacquard.core.errors import ChunkConflictError, MissingChunksError

pytestmark = pytest.mark.anyio
FOREST = Path(__file__).parents[2] / "examples" / "whispering_forest" / "en"
STREAM = """
import asyncio, sys, time
from jacquard import open_runtime

async def stream(address, world, *texts):
    async with open_runtime(address, world=world, embedder="none") as runtime:
        await runtime.ensure_session("s")
        await runtime.engine.prepare_turn("s", "Where is the key?")
        for index, text in enumerate(texts):
            await runtime.engine.commit_assistant_chunk("s", text, index)
        print("sent", flush=True)
        time.sleep(3600)

asyncio.run(stream(*sys.argv[1:]))
"""


@pytest.fixture(params=["sqlite", "file", "postgresql"])
def address(request, tmp_path):
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    return f"file:{tmp_path / 'files'}" if request.param == "file" else str(tmp_path / "store")


async def stream_and_kill(address, *texts):
    """Let a process take a turn's reply in chunks, and kill it once it has the last."""

    def run():
        command = [sys.executable, "-c", STREAM, address, str(FOREST), *texts]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            said = process.stdout.readline()
            process.kill()
        return said

    assert await to_thread.run_sync(run) == "sent\n"


async def test_another_process_finishes_a_reply_with_what_was_sent(address):
    await stream_and_kill(address, "It hangs ", "behind ", "the clock.")
    async with open_runtime(address, world=FOREST, embedder="none") as runtime:
        done = await runtime.engine.finalize_assistant_message("s")
        again = await runtime.engine.finalize_assistant_message("s", turn_id=done.turn_id)
        window = await runtime.store.window("s", message_limit=2)
        assert await runtime.store.unfinished_reply("s", done.turn_id, "") is None
    assert [each.message.content for each in window.messages] == ["Where is the key?", "It hangs behind the clock."]
    assert (done.content, again.content) == ("It hangs behind the clock.",) * 2


async def test_another_process_takes_the_rest_and_knows_what_it_has(address):
    await stream_and_kill(address, "It hangs ")
    async with open_runtime(address, world=FOREST, embedder="none") as runtime:
        await runtime.engine.commit_assistant_chunk("s", "It hangs ", 0)
        await runtime.engine.commit_assistant_chunk("s", "the clock.", 2)
        with pytest.raises(MissingChunksError) as caught:
            await runtime.engine.finalize_assistant_message("s")
        assert caught.value.missing == (1,)
        await runtime.engine.commit_assistant_chunk("s", "behind ", 1)
        assert (await runtime.engine.finalize_assistant_message("s")).content == "It hangs behind the clock."


async def test_another_process_drops_a_reply_or_answers_whole(address):
    await stream_and_kill(address, "It ", "hangs ")
    async with open_runtime(address, world=FOREST, embedder="none") as runtime:
        assert await runtime.engine.abort_assistant_message("s") == 2
        assert (await runtime.store.window("s", message_limit=1)).pending is not None
        assert (await runtime.engine.commit_assistant_message("s", "I do not know.")).content == "I do not know."


async def test_a_session_keeps_eight_unfinished_replies_of_a_bounded_length(tmp_path):
    config = RuntimeConfig(chunks=ChunkConfig(max_chars=10))
    async with open_runtime(tmp_path, world=FOREST, embedder="none", config=config) as runtime:
        await runtime.ensure_session("s")
        turn = (await runtime.engine.prepare_turn("s", "Where is the key?")).turn_id
        for number in range(10):
            await runtime.engine.commit_assistant_chunk("s", "0123456789", 0, message_id=f"m{number}")
        kept = [await runtime.store.unfinished_reply("s", turn, f"m{number}") is not None for number in range(10)]
        assert kept == [False, False] + [True] * 8
        for index, text, reason in (
            (0, "other", "another text"),
            (1, "x", "10 characters"),
            (-1, "x", "negative"),
        ):
            with pytest.raises(ChunkConflictError, match=reason):
                await runtime.engine.commit_assistant_chunk("s", text, index, message_id="m9")

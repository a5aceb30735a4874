"""The remote embedder against a real HTTP server, through LiteLLM."""

from __future__ import annotations

import anyio
import numpy as np
import pytest
from anyio import to_thread
from servers.openai_server import OpenAiServer, closed_port

from jacquard.wiring.runtime import open_embedder
from mnemosyne.core.errors import EmbedderUnavailableError
from mnemosyne.retrieval.embedding.remote import RemoteEmbedder

pytestmark = pytest.mark.anyio


async def test_rows_come_in_order_with_length_one_and_alike_for_the_same_text():
    with OpenAiServer() as server:
        embedder = RemoteEmbedder("openai/embed", api_base=server.api_base, timeout_seconds=60)
        rows = await embedder.embed(["神庙钥匙", "a wolf", "神庙钥匙"], "document")
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)
    assert np.array_equal(rows[0], rows[2])
    assert not np.array_equal(rows[0], rows[1])


async def test_a_server_that_is_not_there_is_named():
    embedder = RemoteEmbedder("openai/embed", api_base=f"http://127.0.0.1:{closed_port()}/v1", timeout_seconds=20)
    with pytest.raises(EmbedderUnavailableError, match="openai/embed"):
        await embedder.embed(["x"], "query")


async def test_the_event_loop_does_not_wait_for_a_call():
    """The server answers only once the loop has gone on: a call that held it up would end as a timeout."""
    with OpenAiServer() as server:
        server.hold_embeddings()
        embedder = RemoteEmbedder("openai/embed", api_base=server.api_base, timeout_seconds=60)

        async def let_go_once_asked():
            await to_thread.run_sync(server.wait_for_requests, 1)
            server.let_go()

        async with anyio.create_task_group() as group:
            group.start_soon(let_go_once_asked)
            rows = await embedder.embed(["the first text"], "query")
    assert rows.shape[0] == 1


async def test_an_address_may_stand_behind_the_name_of_a_remote_model():
    with OpenAiServer() as server:
        embedder = await to_thread.run_sync(open_embedder, f"openai/embed@{server.api_base}")
        assert embedder is not None
        assert embedder.name == "openai/embed"
        rows = await embedder.embed(["神庙钥匙"], "query")
    assert rows.shape[0] == 1

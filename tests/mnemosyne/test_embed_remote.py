"""The remote embedder against a real HTTP server, through LiteLLM."""

from __future__ import annotations

import numpy as np
import pytest
from servers.openai_server import OpenAiServer, closed_port

from mnemosyne.errors import EmbedderUnavailableError
from mnemosyne.index.embed_remote import RemoteEmbedder

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

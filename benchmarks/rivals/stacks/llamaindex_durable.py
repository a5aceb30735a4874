"""LlamaIndex with a session that survives the process: `Memory` over a chat store on SQLite.

What is recalled is in memory, as in `llamaindex_stack`. `SimpleChatStore.persist`, which writes JSON, is not compared: in release
0.14.25 it fails with pydantic 2.14.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from llama_index.core.llms import ChatMessage
from llama_index.core.memory import Memory
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from sqlalchemy.ext.asyncio import create_async_engine

from benchmarks.rivals.stacks.llamaindex_stack import LlamaIndex
from benchmarks.rivals.stacks.stack import HISTORY_TOKENS, Model

_SESSION = "bench"
_MESSAGES_SHARE = 0.7
"""Part of its limit that `Memory` has for messages by default."""


class LlamaIndexSqlite(LlamaIndex):
    """The session is read before each prompt and written with each commit."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._folder = tempfile.TemporaryDirectory(prefix="jacquard-rivals-")
        self._sessions = 0

    async def open_history(self, messages: list[ChatMessage]) -> None:
        """Start the session in a new database."""
        await self._dispose()
        self._sessions += 1
        self._database = create_async_engine(
            f"sqlite+aiosqlite:///{Path(self._folder.name) / f'chat-{self._sessions}.db'}"
        )
        self._chat = Memory.from_defaults(
            session_id=_SESSION,
            token_limit=int(HISTORY_TOKENS / _MESSAGES_SHARE),
            chat_store=SQLAlchemyChatStore(table_name="bench", async_engine=self._database),
        )
        await self._chat.aset(messages)

    async def read_history(self) -> list[ChatMessage]:
        """Return what the table holds."""
        return list(await self._chat.aget())

    async def append_history(self, messages: Sequence[ChatMessage]) -> None:
        """Write both messages."""
        await self._chat.aput_messages(list(messages))

    async def close(self) -> None:
        """Close and remove the database."""
        await self._dispose()
        self._folder.cleanup()

    async def _dispose(self) -> None:
        if self._sessions:
            await self._database.dispose()

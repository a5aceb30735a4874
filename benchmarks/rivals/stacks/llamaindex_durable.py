"""LlamaIndex with a session that survives the process: a chat store persisted as a file, and the one on SQLite.

What is recalled is in memory, as in `llamaindex_stack`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from llama_index.core.llms import ChatMessage
from llama_index.core.memory import Memory
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from sqlalchemy.ext.asyncio import create_async_engine

from benchmarks.rivals.stacks.llamaindex_stack import LlamaIndex
from benchmarks.rivals.stacks.stack import HISTORY_TOKENS, Model

_SESSION = "bench"


class _Stored(LlamaIndex):
    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._folder = tempfile.TemporaryDirectory(prefix="jacquard-rivals-")
        self._sessions = 0

    async def close(self) -> None:
        """Remove the file."""
        self._folder.cleanup()

    def _new_file(self, suffix: str) -> Path:
        self._sessions += 1
        return Path(self._folder.name) / f"chat-{self._sessions}{suffix}"


class LlamaIndexFile(_Stored):
    """`SimpleChatStore.persist` writes the session as JSON with each commit; turns read it from memory."""

    async def open_history(self, messages: list[ChatMessage]) -> None:
        """Start the session and write it."""
        await super().open_history(messages)
        self._file = self._new_file(".json")
        self._persist()

    async def append_history(self, messages: Sequence[ChatMessage]) -> None:
        """Add both messages and write the file."""
        await super().append_history(messages)
        self._persist()

    def _persist(self) -> None:
        store = self._memory.chat_store
        if isinstance(store, SimpleChatStore):
            store.persist(str(self._file))


class LlamaIndexSqlite(_Stored):
    """`Memory` over `SQLAlchemyChatStore`: read before each prompt, written with each commit."""

    async def open_history(self, messages: list[ChatMessage]) -> None:
        """Start the session in a new database."""
        await self._dispose()
        self._database = create_async_engine(f"sqlite+aiosqlite:///{self._new_file('.db')}")
        store = SQLAlchemyChatStore(table_name="bench", async_engine=self._database)
        # Seven tenths of the limit are for messages.
        self._chat = Memory.from_defaults(session_id=_SESSION, token_limit=int(HISTORY_TOKENS / 0.7), chat_store=store)
        await self._chat.aset(messages)

    async def read_history(self) -> list[ChatMessage]:
        """Return what the table holds."""
        return await self._chat.aget()

    async def append_history(self, messages: Sequence[ChatMessage]) -> None:
        """Write both messages."""
        await self._chat.aput_messages(list(messages))

    async def close(self) -> None:
        """Close and remove the database."""
        await self._dispose()
        await super().close()

    async def _dispose(self) -> None:
        if self._sessions:
            await self._database.dispose()

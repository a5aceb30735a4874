"""The shipped smoke of the engine, on the stores that need no server."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from jacquard import create_context_engine
from jacquard.testing.smoke import EngineSmoke
from mnemosyne import FileStore, SqliteStore


class TestInMemory(EngineSmoke):
    pass


class TestOnSqlite(EngineSmoke):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path):
        self._folder = tmp_path

    @asynccontextmanager
    async def open_engine(self):
        store = SqliteStore(self._folder / "store.db")
        try:
            async with create_context_engine(store) as engine:
                yield engine
        finally:
            await store.close()


class TestOnFiles(EngineSmoke):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path):
        self._folder = tmp_path

    @asynccontextmanager
    async def open_engine(self):
        store = FileStore(self._folder / "files")
        try:
            async with create_context_engine(store) as engine:
                yield engine
        finally:
            await store.close()

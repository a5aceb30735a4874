from __future__ import annotations

from pathlib import Path

from mnemosyne.protocols import Store
from mnemosyne.stores.file import FileStore
from mnemosyne.stores.memory import MemoryStore
from mnemosyne.stores.sqlite import SqliteStore
from mnemosyne.testing.store import StoreContract


class TestSqliteStore(StoreContract):
    async def make_store(self, folder: Path) -> Store:
        return SqliteStore(folder / "store.db")


class TestMemoryStore(StoreContract):
    persistent = False

    async def make_store(self, folder: Path) -> Store:
        return MemoryStore()


class TestFileStore(StoreContract):
    async def make_store(self, folder: Path) -> Store:
        return FileStore(folder / "store")

from __future__ import annotations

from pathlib import Path

from mnemosyne.protocols import Store
from mnemosyne.stores.sqlite import SqliteStore
from mnemosyne.testing.store import StoreContract


class TestSqliteStore(StoreContract):
    async def make_store(self, folder: Path) -> Store:
        return SqliteStore(folder / "store.db")

"""The shipped contract suite on every store."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
from postgres_server import own_tenant, running_server

from mnemosyne.protocols import Store
from mnemosyne.stores.file import FileStore
from mnemosyne.stores.memory import MemoryStore
from mnemosyne.stores.postgres import PostgresStore
from mnemosyne.stores.sqlite import SqliteStore
from mnemosyne.testing.store import StoreContract


class TestSqliteStore(StoreContract):
    async def make_store(self, folder: Path, tenant: str = "default") -> Store:
        return SqliteStore(folder / "store.db", tenant=tenant)


class TestMemoryStore(StoreContract):
    persistent = False

    memories: ClassVar[dict[Path, MemoryStore]] = {}

    async def make_store(self, folder: Path, tenant: str = "default") -> Store:
        return self.memories.setdefault(folder, MemoryStore()).for_tenant(tenant)


class TestFileStore(StoreContract):
    async def make_store(self, folder: Path, tenant: str = "default") -> Store:
        return FileStore(folder / "store", tenant)


@pytest.mark.usefixtures("postgres_server")
class TestPostgresStore(StoreContract):
    async def make_store(self, folder: Path, tenant: str = "default") -> Store:
        return PostgresStore(running_server().url("contract"), tenant=own_tenant(folder, tenant))

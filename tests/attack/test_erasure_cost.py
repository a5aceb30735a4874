"""An erasure costs what is erased: the rows that it reads do not grow with the sessions that share a text with it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from erasure_cases import AT, Case, by, reply

from mnemosyne import Erasure, FileStore, MemoryStore, PostgresStore, SessionStart, SqliteStore, Store
from mnemosyne.privacy.forget import MemoryLocations, forget
from mnemosyne.schema.record import ImportedTurn

pytestmark = pytest.mark.anyio
STORES = ("memory", "file", "sqlite", "postgresql")


class Counting:
    """Counts the rows that a store hands out."""

    rows = 0

    async def walk_rows(self, visit, **options):
        def count(row):
            self.rows += 1
            return visit(row)

        await super().walk_rows(count, **options)


class CountingMemory(Counting, MemoryStore):
    pass


class CountingFile(Counting, FileStore):
    pass


class CountingSqlite(Counting, SqliteStore):
    pass


class CountingPostgres(Counting, PostgresStore):
    pass


def open_counting(kind: str, folder: Path, url: str) -> Store:
    if kind == "memory":
        return CountingMemory()
    if kind == "postgresql":
        return CountingPostgres(url, tenant=str(folder))
    return CountingFile(folder / "files") if kind == "file" else CountingSqlite(folder / "store.db")


async def rows_read(store: Store, folder: Path, sessions: int, erasure: Erasure) -> int:
    """Return how many rows are read to erase something, when so many sessions share a prologue."""
    case = Case(chance=Random(1))
    prologue = [(case.text(), case.text()) for _ in range(12)]
    for number in range(sessions):
        own = [(case.text(), case.text()) for _ in range(3)]
        turns = tuple(
            ImportedTurn(turn_id=f"p{place:03}", messages=(by("lin" if number == 0 else "kai", text), reply(answer)))
            for place, (text, answer) in enumerate([*prologue, *own])
        )
        await store.create_session(
            SessionStart(session_id=f"s{number}", world_id="w", locale="en", state={}, turns=turns)
        )
    done = await forget(MemoryLocations(store=store, folders=(folder,)), erasure)
    assert done.done, done.proof
    assert all(f"s{number}" not in place for number in range(1, sessions) for place in done.proof.places)
    await store.close()
    return store.rows


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize(
    "erasure", [Erasure(at=AT, session_id="s0"), Erasure(at=AT, user_id="lin")], ids=["session", "user"]
)
async def test_rows_read_do_not_grow_with_sessions_that_share_a_text(kind, erasure, tmp_path, postgres_url):
    few, many = tmp_path / "few", tmp_path / "many"
    before = await rows_read(open_counting(kind, few, postgres_url), few, 2, erasure)
    after = await rows_read(open_counting(kind, many, postgres_url), many, 12, erasure)
    assert after <= 1.2 * before + 4, (before, after)

"""Memories that an older release wrote have no mark: they are known by their bodies, and marked by the next turn that read them."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import psycopg
import pytest

from mnemosyne import EvidenceFilter, EvidenceType, locate_store, open_store
from mnemosyne.testing.stores.samples import AT, MEMORY_SOURCE, SESSION, evidence, gold_commit, prepared_turn, start

pytestmark = pytest.mark.anyio

PAGES = EvidenceFilter(types=frozenset({EvidenceType.RAG_DOC}), without_memories=True, limit=2, newest=True)
NUMBER = 600
"""More memories than one page of rows."""


class Database:
    """A store at an address, and its rows by another connection."""

    def __init__(self, address) -> None:
        self._location = locate_store(address)
        self.store = open_store(address)

    def run(self, sql):
        postgres = self._location.postgres
        if postgres is None:
            with closing(sqlite3.connect(self._location.database, isolation_level=None)) as connection:
                return connection.execute(sql).fetchall()
        with psycopg.connect(postgres.conninfo, autocommit=True) as connection:
            connection.execute(f"SET search_path = {postgres.schema}")
            found = connection.execute(sql)
            return found.fetchall() if found.description else []

    def marks(self):
        return dict(self.run("SELECT evidence_id, is_memory FROM evidences"))


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request, tmp_path):
    return f"sqlite:///{tmp_path}/s.sqlite" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
async def database(address):
    """A store whose rows have no marks: a page, memories, a page."""
    made = Database(address)
    store = made.store
    await store.create_session(start())
    await store.put_evidence(SESSION, evidence("first"))
    head = await store.head(SESSION)
    recalled = tuple(evidence(f"m{number}", source=MEMORY_SOURCE) for number in range(NUMBER))
    await store.save_prepared(prepared_turn(head, "t0", "hello"), expected_version=head.version, evidences=recalled)
    await store.put_evidence(SESSION, evidence("last"))
    made.run("UPDATE evidences SET is_memory = NULL")
    yield made
    await store.close()


async def read_pages(store):
    found = await store.turn_inputs(SESSION, message_limit=1, evidences=(PAGES,))
    return [each.evidence_id for each in found.evidences[0]]


async def save(store, turn_id):
    head = await store.head(SESSION)
    await store.save_prepared(prepared_turn(head, turn_id, "on"), expected_version=head.version)


async def test_a_turn_marks_the_memories_that_it_met(database):
    assert await read_pages(database.store) == ["first", "last"]
    assert set(database.marks().values()) == {None}, "reading writes nothing"
    await save(database.store, "t1")
    marks = database.marks()
    assert (marks.pop("first"), marks.pop("last")) == (None, None)
    assert list(marks.values()) == [1] * NUMBER
    assert await read_pages(database.store) == ["first", "last"]


async def test_what_another_process_has_written_since_is_not_marked(database, address):
    assert await read_pages(database.store) == ["first", "last"]
    other = open_store(address)
    await other.put_evidence(SESSION, evidence("m7", "a page now"))
    await other.close()
    await save(database.store, "t1")
    assert set(database.marks().values()) == {None}
    assert await read_pages(database.store) == ["m7", "last"]
    await save(database.store, "t2")
    assert [database.marks()[name] for name in ("m7", "m8", "last")] == [None, 1, None]


async def test_an_archived_session_keeps_its_marks(database):
    store = database.store
    assert await read_pages(store) == ["first", "last"]
    await save(store, "t1")
    head = await store.head(SESSION)
    await store.commit_turn(SESSION, gold_commit("t1", 2), expected_version=head.version)
    before = database.marks()
    assert await store.archive(SESSION, at=AT)
    assert database.marks() == {}
    assert await read_pages(store) == ["first", "last"]
    assert database.marks() == before

"""Vectors and index rows in PostgreSQL that belong to nothing any more: found, counted and removed; all others stay."""

from __future__ import annotations

from dataclasses import replace

import psycopg
import pytest
from anyio import to_thread
from test_shared_vectors import AT, SCOPE, Host, begin, run, spoken

from mnemosyne import Author, AuthorKind, Erasure, Message, PostgresStore, Role, SessionStart
from mnemosyne.core.errors import LeaseLostError
from mnemosyne.protocols import SharedScope
from mnemosyne.retrieval.engines.shared.scopes import LEAST_ROWS
from mnemosyne.schema.memory import session_scope, world_scope
from mnemosyne.schema.record import ImportedTurn
from mnemosyne.stores.locate import postgres_address
from mnemosyne.testing.stores.samples import lore

pytestmark = pytest.mark.anyio

OTHER = session_scope("other")
SECRET = "The zyzzyva is under the old stone bridge by the river."
COUNTS = (
    "SELECT (SELECT count(*) FROM vectors WHERE scope = %s), (SELECT count(*) FROM index_segments WHERE scope = %s)"
)


@pytest.fixture
async def store(postgres_url):
    opened = PostgresStore(postgres_url)
    yield opened
    await opened.close()


async def fill(store: PostgresStore, folder) -> Host:
    """Make two indexed sessions with as many turns; in one of them `eve` has spoken, and was quoted."""
    told = tuple(map(spoken, range(LEAST_ROWS // 2 + 20)))
    of_eve = ImportedTurn(
        turn_id="x",
        messages=(
            Message(role=Role.USER, content=SECRET, message_id="secret", author=Author(kind=AuthorKind.USER, id="eve")),
            Message(role=Role.ASSISTANT, content=f"You said: {SECRET} Good.", message_id="quoted"),
        ),
    )
    for name, turns in (("s", (*told[:20], of_eve, *told[20:])), ("other", told)):
        await store.create_session(SessionStart(session_id=name, world_id="w", locale="en", state={}, turns=turns))
    one = Host(store, folder / "index")
    for scope in (SCOPE, OTHER):
        await one.indexer.index_new(scope)
    return one


async def erase_as_an_older_release(store: PostgresStore, url: str, erasure: Erasure) -> None:
    """Erase, and leave in the tables of vectors and index rows what they had: an older release does not know them."""
    for table in ("vectors", "index_segments"):
        await run(url, f"CREATE TABLE kept_{table} AS SELECT * FROM {table}")
    await store.erase(erasure)
    for table in ("vectors", "index_segments"):
        await run(url, f"DELETE FROM {table}")
        await run(url, f"INSERT INTO {table} SELECT * FROM kept_{table}")
        await run(url, f"DROP TABLE kept_{table}")


async def counts(url: str, scope: str) -> tuple[int, int]:
    return (await run(url, COUNTS, scope, scope))[0]


async def test_what_belongs_to_something_stays(store, postgres_url, tmp_path):
    await fill(store, tmp_path)
    before = [await counts(postgres_url, scope) for scope in (SCOPE, OTHER)]
    assert before[0][1]
    assert await store.shared_scopes() == (OTHER, SCOPE)
    assert await store.shared_scopes(after=OTHER, limit=1) == (SCOPE,)
    for scope, (vectors, segments) in zip((SCOPE, OTHER), before, strict=True):
        found = await store.inspect_shared(scope, encoder="letters")
        assert found == SharedScope(scope=scope, vectors={"letters": vectors}, segments=segments)
        assert await store.tidy_shared(scope) == SharedScope(scope=scope)
    assert [await counts(postgres_url, scope) for scope in (SCOPE, OTHER)] == before


async def test_entries_without_a_vector_of_an_embedder_are_counted(store, tmp_path):
    await fill(store, tmp_path)
    await store.replace_world("w", "1", [replace(lore("l1"), scope=world_scope("w"))])
    spoken_now = LEAST_ROWS + 40
    assert (await store.inspect_shared(OTHER, encoder="another")).missing == spoken_now
    assert (await store.inspect_shared(world_scope("w"), encoder="letters")).missing == 1
    await store.append_turns("other", (spoken(900),))
    assert (await store.inspect_shared(OTHER, encoder="letters")).missing == 2


async def test_a_session_that_an_older_release_erased(store, postgres_url, tmp_path):
    await fill(store, tmp_path)
    vectors, segments = await counts(postgres_url, SCOPE)
    untouched = await counts(postgres_url, OTHER)
    await erase_as_an_older_release(store, postgres_url, Erasure(at=AT, session_id="s"))
    assert await counts(postgres_url, SCOPE) == (vectors, segments)
    found = await store.inspect_shared(SCOPE)
    assert (found.orphaned_vectors, found.orphaned_segments) == (vectors, segments)
    gone = await store.tidy_shared(SCOPE)
    assert (gone.orphaned_vectors, gone.orphaned_segments) == (vectors, segments)
    assert await store.shared_scopes() == (OTHER,)
    assert await counts(postgres_url, OTHER) == untouched


async def test_a_user_whom_an_older_release_erased(store, postgres_url, tmp_path):
    one = await fill(store, tmp_path)
    vectors, segments = await counts(postgres_url, SCOPE)
    await erase_as_an_older_release(store, postgres_url, Erasure(at=AT, user_id="eve"))
    gone = await store.tidy_shared(SCOPE)
    # What eve said is gone, and the reply has another text now.
    assert (gone.orphaned_vectors, gone.orphaned_segments) == (2, segments)
    assert (await counts(postgres_url, SCOPE))[0] == vectors - 2
    left = await run(postgres_url, "SELECT entry_id FROM vectors WHERE entry_id IN ('secret', 'quoted')")
    assert left == []
    assert await run(postgres_url, "SELECT scope FROM index_segments WHERE body IS NULL") == [(SCOPE,)]
    # Every other text keeps its vector, and the host that held the chain adds nothing of it.
    other = Host(store, tmp_path / "other")
    await other.indexer.index_new(SCOPE)
    assert [text for text in other.embedder.embedded if "zyzzyva" in text] == []
    assert len(other.embedder.embedded) == 1
    await one.index.refresh(SCOPE)
    await one.indexer.index_new(SCOPE)
    assert not (await one.find("zyzzyva"))[0]
    assert await store.tidy_shared(SCOPE) == SharedScope(scope=SCOPE)


async def test_words_that_were_erased_before_their_text_was_embedded_again(store, postgres_url, tmp_path):
    """Of the present entry, vector and rows fit; older rows of the same chain have the words that were erased."""
    await fill(store, tmp_path)
    await erase_as_an_older_release(store, postgres_url, Erasure(at=AT, user_id="eve"))
    late = Host(store, tmp_path / "late")
    await late.indexer.index_new(SCOPE)
    assert await run(postgres_url, "SELECT 1 FROM index_segments WHERE position('zyzzyva'::bytea IN body) > 0")
    # As if nobody had spoken but only been quoted.
    await run(postgres_url, "UPDATE messages SET recalled = 1 WHERE message_id = 'secret'")
    await run(postgres_url, "DELETE FROM vectors WHERE entry_id = 'secret'")
    gone = await store.tidy_shared(SCOPE)
    assert gone.orphaned_vectors == 0
    assert gone.orphaned_segments
    assert not await run(postgres_url, "SELECT 1 FROM index_segments WHERE body IS NOT NULL AND scope = %s", SCOPE)


async def test_a_session_that_was_begun_again_under_its_name(store, postgres_url, tmp_path):
    await fill(store, tmp_path)
    _, segments = await counts(postgres_url, SCOPE)
    await erase_as_an_older_release(store, postgres_url, Erasure(at=AT, session_id="s"))
    # The same ids with the same texts: a vector of such a text is still one of it, the rows are those of another session.
    await begin(store, LEAST_ROWS // 2 + 20)
    gone = await store.tidy_shared(SCOPE)
    assert (gone.orphaned_vectors, gone.orphaned_segments) == (2, segments)
    fresh = Host(store, tmp_path / "fresh")
    await fresh.indexer.index_new(SCOPE)
    assert not fresh.embedder.embedded


async def test_an_archived_session_stays_archived(store, tmp_path):
    await fill(store, tmp_path)
    await store.archive("s", at=AT)
    assert await store.inspect_shared(SCOPE, encoder="letters") == SharedScope(scope=SCOPE)
    assert await store.tidy_shared(SCOPE) == SharedScope(scope=SCOPE)
    assert await store.archived_ids() == {"s"}


async def test_lore_that_was_removed_and_a_world_that_is_gone(store, postgres_url, tmp_path):
    scope = world_scope("w")
    one = Host(store, tmp_path / "index")
    entries = [replace(lore(f"l{number}"), scope=scope, text=f"Lore number {number}.") for number in range(3)]
    await store.replace_world("w", "1", entries)
    await one.indexer.index_new(scope)
    await store.replace_world("w", "2", entries[1:])
    assert (await store.tidy_shared(scope)).orphaned_vectors == 1
    assert (await counts(postgres_url, scope))[0] == 2
    for table in ("entries", "worlds"):
        await run(postgres_url, f"DELETE FROM {table}")
    assert (await store.tidy_shared(scope)).orphaned_vectors == 2


async def test_scopes_of_other_kinds_are_left_alone(store, postgres_url, tmp_path):
    await fill(store, tmp_path)
    await run(postgres_url, "UPDATE vectors SET scope = 'plugin:x' WHERE scope = %s", OTHER)
    found = await store.inspect_shared("plugin:x")
    assert found.vectors["letters"]
    assert found.orphaned_vectors == 0
    assert await store.tidy_shared("plugin:x") == SharedScope(scope="plugin:x")


@pytest.mark.parametrize("lock", ["FOR UPDATE", "FOR SHARE"])
async def test_a_session_that_is_being_written_is_left_for_the_next_look(store, postgres_url, tmp_path, lock):
    await fill(store, tmp_path)
    await erase_as_an_older_release(store, postgres_url, Erasure(at=AT, user_id="eve"))
    before = await counts(postgres_url, SCOPE)

    def connect() -> psycopg.Connection:
        address = postgres_address(postgres_url)
        connection = psycopg.connect(address.conninfo)
        connection.execute(f"SET search_path = {address.schema}")
        connection.execute(f"SELECT 1 FROM sessions WHERE session_id = 's' {lock}")
        return connection

    # As a turn, or a host that stores vectors, holds it.
    writer = await to_thread.run_sync(connect)
    assert await store.tidy_shared(SCOPE) == SharedScope(scope=SCOPE)
    assert await counts(postgres_url, SCOPE) == before
    await to_thread.run_sync(writer.rollback)
    await to_thread.run_sync(writer.close)
    assert (await store.tidy_shared(SCOPE)).orphaned_vectors == 2


async def test_who_has_lost_the_lease_removes_nothing(store, postgres_url, tmp_path):
    await fill(store, tmp_path)
    await erase_as_an_older_release(store, postgres_url, Erasure(at=AT, session_id="s"))
    before = await counts(postgres_url, SCOPE)
    lost = await store.acquire_lease("work", "one", 60)
    await run(postgres_url, "UPDATE leases SET until_us = 1")
    assert await store.acquire_lease("work", "other", 60)
    with pytest.raises(LeaseLostError):
        await store.tidy_shared(SCOPE, lease=lost)
    assert await counts(postgres_url, SCOPE) == before


async def test_damaged_index_rows_are_named_and_left_to_who_opens_them(store, postgres_url, tmp_path):
    await fill(store, tmp_path)
    await run(postgres_url, "UPDATE index_segments SET body = set_byte(body, 900, 255 - get_byte(body, 900))")
    found = await store.inspect_shared(SCOPE)
    assert found.is_damaged
    assert await store.tidy_shared(SCOPE) == SharedScope(scope=SCOPE)

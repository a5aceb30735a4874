"""After an erasure not a byte of it is left in the files of the SQLite store, while it is open."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from mnemosyne import Author, AuthorKind, Erasure, SqliteStore
from mnemosyne.stores.sqlite.file import SqliteOptions, open_database, rewrite_file
from mnemosyne.testing.stores.samples import (
    AT,
    SESSION,
    evidence,
    gold_commit,
    imported_turn,
    memory,
    prepared_turn,
    start,
    user_message,
)

pytestmark = pytest.mark.anyio


def left_in(folder: Path, needles: list[str]) -> list[str]:
    """Return those of the texts that stand in any file of a folder, as UTF-8 or as JSON writes it in ASCII."""
    data = b"\n".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    forms = {text: {text.encode(), text.encode("ascii", "backslashreplace")} for text in needles}
    return [text for text, written in forms.items() if any(form in data for form in written)]


async def fill(store: SqliteStore, session_id: str, count: int, chance: random.Random) -> list[str]:
    """Write turns and evidences under names and with texts of every length, and return names that stand in them."""
    names = [f"quicksilver-{session_id}-{number:04}-汞" for number in range(count)]
    chance.shuffle(names)
    await store.create_session(start(session_id=session_id))
    for at in range(0, count, 20):
        some = names[at : at + 20]
        await store.append_turns(
            session_id, [imported_turn(name, f"{name} " * chance.choice((1, 2, 5, 40, 300))) for name in some]
        )
        for name in some[::4]:
            await store.put_evidence(session_id, evidence(f"ev-{name}", name * chance.choice((1, 3, 30, 400))))
            await store.put_evidence(session_id, evidence(f"ev-{name}", name * chance.choice((1, 5, 50))))
    return names


@pytest.mark.parametrize("seed", [1, 2])
async def test_of_a_session_that_was_erased_no_byte_is_left(tmp_path, seed):
    chance = random.Random(seed)
    store = SqliteStore(tmp_path / "store.db", synchronous="NORMAL")
    kept = await fill(store, "kept", 120, chance)
    gone = await fill(store, "gone", 240, chance)
    assert left_in(tmp_path, gone) == gone
    await store.erase(Erasure(session_id="gone", at=AT, reason="asked"))
    assert left_in(tmp_path, gone) == []
    assert left_in(tmp_path, kept) == kept
    assert len((await store.window("kept", message_limit=999)).messages) == 240
    await store.close()
    assert left_in(tmp_path, gone) == []


async def test_of_a_users_words_no_byte_is_left(tmp_path):
    store = SqliteStore(tmp_path / "store.db")
    await store.create_session(start(imported_turn("p001")))
    secret = "The quicksilver ledger lies behind the brewery, 酒厂后面的账本。"
    head = await store.head(SESSION)
    spoken = user_message(secret, author=Author(kind=AuthorKind.USER, id="Ottoline"))
    record = prepared_turn(
        head, "t1", messages=(spoken,), prompt={"text": f"<user>{secret}</user>"}, receipt={"said": secret}
    )
    saved = await store.save_prepared(record, expected_version=head.version)
    await store.commit_turn(
        SESSION, gold_commit("t1", 1, entries=(memory("e1", text=secret),)), expected_version=saved.version
    )
    assert left_in(tmp_path, [secret, "Ottoline"]) == [secret, "Ottoline"]
    await store.erase(Erasure(user_id="Ottoline", at=AT, reason="asked"))
    assert left_in(tmp_path, [secret, "quicksilver ledger", "账本", "Ottoline"]) == []
    assert (await store.head(SESSION)).depth == 2
    await store.close()


async def test_what_another_reader_keeps_open_is_gone_with_the_next_try(tmp_path):
    store = SqliteStore(tmp_path / "store.db", busy_seconds=0.1)
    gone = await fill(store, "gone", 40, random.Random(3))
    reader = sqlite3.connect(store.path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM messages").fetchone()
    outcome = await store.erase(Erasure(session_id="gone", at=AT, reason="asked"))
    assert outcome.sessions == ("gone",)
    assert await store.sessions() == ()
    assert left_in(tmp_path, gone) != []
    reader.execute("ROLLBACK")
    await store.erase(Erasure(session_id="gone", at=AT, reason="asked again"))
    assert left_in(tmp_path, gone) == []
    reader.close()
    await store.close()


async def test_or_when_the_store_is_closed(tmp_path):
    store = SqliteStore(tmp_path / "store.db", busy_seconds=0.1)
    gone = await fill(store, "gone", 40, random.Random(4))
    reader = sqlite3.connect(store.path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM messages").fetchone()
    await store.erase(Erasure(session_id="gone", at=AT, reason="asked"))
    reader.execute("ROLLBACK")
    await store.close()
    assert left_in(tmp_path, gone) == []
    reader.close()


@pytest.mark.parametrize("seed", range(2))
def test_copies_that_divided_pages_keep_are_gone(tmp_path, seed):
    """What `secure_delete` alone misses: of rows of many lengths, written and rewritten, copies stay where a page was."""
    chance = random.Random(seed)
    connection = open_database(SqliteOptions(path=tmp_path / "store.db", synchronous="NORMAL"))
    put = """INSERT INTO evidences (session, evidence_id, ord, type, source_kind, origin, body)
        VALUES (?, ?, ?, 't', 's', ?, ?)"""
    names: list[tuple[int, str]] = []
    connection.execute("BEGIN")
    for number in range(3000):
        name = f"quicksilver{number:05}"
        session = chance.randint(1, 50)
        body = (name * chance.choice((1, 2, 5, 40, 400))).encode()
        connection.execute(put, (session, name, number, name, body))
        names.append((session, name))
        again = chance.choice(names)
        connection.execute(
            "UPDATE evidences SET body = ? WHERE session = ? AND evidence_id = ?",
            ((again[1] * chance.choice((1, 3, 30))).encode(), *again),
        )
    connection.execute("COMMIT")
    gone = chance.sample(names, 1000)
    connection.execute("BEGIN")
    connection.executemany("DELETE FROM evidences WHERE session = ? AND evidence_id = ?", gone)
    connection.execute("COMMIT")
    assert rewrite_file(connection)
    assert left_in(tmp_path, [name for _, name in gone]) == []
    connection.close()

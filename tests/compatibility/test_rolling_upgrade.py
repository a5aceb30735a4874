"""Two releases over one PostgreSQL: the earlier one goes on over the tables of this one, and each reads what the other writes.

The earlier release is the main of November 2026, taken from the repository's history; a clone without it still checks the
contract: every statement that it sent, and every column that it wrote, fit the tables as they are now.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import anyio
import numpy as np
import psycopg
import pytest

from jacquard.config.service import ServiceSettings
from jacquard.service.upkeep.housekeeper import Housekeeper
from mnemosyne import Chain, PostgresStore, postgres_address, session_scope
from mnemosyne.protocols import EmbeddedText, SegmentRows
from mnemosyne.retrieval.engines.rows import row_batch, text_hash
from mnemosyne.retrieval.engines.shared.segments import encode_segment
from mnemosyne.stores.maintenance.revision import migrate_store
from mnemosyne.stores.sql.schema import ARCHIVES_NEED, REVISION

ROOT = Path(__file__).parents[2]
EARLIER = "3e8afec4"
PACK = ROOT / "tests" / "compatibility" / "release_2026_11" / "packs" / "en"
SENT = json.loads(Path(__file__).with_name("statements_2026_11.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
    """The folder with the code of the earlier release."""
    made = subprocess.run(
        ["git", "-C", str(ROOT), "archive", EARLIER, "filament", "mnemosyne", "jacquard", "templates"],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"this clone has no commit {EARLIER}; fetch the whole history to run the earlier release")
    folder = tmp_path_factory.mktemp("earlier")
    with tarfile.open(fileobj=BytesIO(made.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def start(code: Path, *args: object) -> subprocess.Popen[str]:
    command = [sys.executable, str(Path(__file__).with_name("release_player.py")), *map(str, args)]
    environment = {**os.environ, "PYTHONPATH": str(code)}
    return subprocess.Popen(
        command,
        cwd=code,
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def play_at_once(url: str, players: dict[str, Path], turns: int, sessions: list[str]) -> set[tuple[str, str]]:
    """Let each play its turns, all at the same time; return the turns that were acknowledged, each with its session."""
    running = [start(code, url, PACK, name, turns, *sessions) for name, code in players.items()]
    for process in running:
        assert process.stdout.readline() == "ready\n", process.communicate()[1]
    found: set[tuple[str, str]] = set()
    for process in running:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in running:
        out, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors
        found |= {tuple(line.split()[1:]) for line in out.splitlines() if line.startswith("played")}
    return found


async def answered(url: str, sessions: list[str]) -> set[tuple[str, str]]:
    """Return the turns with a reply, each with its session; the path of each session is whole."""
    store, found = PostgresStore(url), set()
    for session_id in sessions:
        turns = await store.turns(session_id, limit=1000)
        assert [turn.depth for turn in turns] == [*range(1, len(turns) + 1)]
        found |= {(session_id, turn.turn_id) for turn in turns if len(turn.messages) == 2}
    await store.close()
    return found


def test_both_releases_play_in_the_same_sessions_and_nothing_is_lost(earlier, postgres_url):
    sessions = ["a", "b"]
    assert len(play_at_once(postgres_url, {"old": earlier}, 1, sessions)) == 2
    assert migrate_store(postgres_url).after == REVISION
    said = play_at_once(postgres_url, {"older": earlier, "newer": ROOT}, 4, sessions)
    assert len(said) == 16
    assert said <= anyio.run(answered, postgres_url, sessions)
    # The earlier one goes on with what the newer one wrote last, in a new process too.
    last = play_at_once(postgres_url, {"last": earlier}, 1, sessions)
    assert last <= anyio.run(answered, postgres_url, sessions)


async def archive_one(url: str) -> None:
    from datetime import UTC, datetime

    store = PostgresStore(url)
    assert await store.archive("a", at=datetime.now(UTC))
    await store.close()


def test_the_earlier_release_is_refused_once_a_session_is_archived(earlier, postgres_url):
    play_at_once(postgres_url, {"old": earlier}, 1, ["a"])
    anyio.run(archive_one, postgres_url)
    process = start(earlier, postgres_url, PACK, "late", 1, "a")
    _, errors = process.communicate("go\n", timeout=120)
    assert process.returncode
    assert f"written by a newer release (store version {ARCHIVES_NEED}, this one reads up to 3); update" in errors
    assert len(play_at_once(postgres_url, {"new": ROOT}, 1, ["a"])) == 1


ERASE = """
import sys
from datetime import UTC, datetime
import anyio
from mnemosyne import Erasure, PostgresStore

async def erase():
    store = PostgresStore(sys.argv[1])
    outcome = await store.erase(Erasure(at=datetime.now(UTC), session_id=sys.argv[2]))
    assert outcome.counts["messages"]
    await store.close()

anyio.run(erase)
"""


async def share_index(url: str, sessions: list[str]) -> None:
    """Keep vectors and index rows of all messages, as hosts of this release do."""
    store = PostgresStore(url)
    for name in sessions:
        scope = session_scope(name)
        entries = await store.entries_after(scope, Chain.HISTORY, 0, 100)
        vectors = np.tile(np.asarray([0.6, 0.8], dtype=np.float32), (len(entries), 1))
        texts = [
            EmbeddedText(entry_id=each.entry.entry_id, text_hash=text_hash(each.entry), vector=vector)
            for each, vector in zip(entries, vectors, strict=True)
        ]
        await store.vectors.put(scope, "m", texts)
        base = (await store.segments.load(scope)).base
        body = encode_segment(row_batch(entries, vectors, None, "m"))
        await store.segments.append(scope, SegmentRows(base=base, marks={"history": entries[-1].sequence}, body=body))
    await store.close()


async def shared_scopes(url: str) -> tuple[str, ...]:
    store = PostgresStore(url)
    found = await store.shared_scopes()
    await store.close()
    return found


def test_housekeeping_removes_what_an_erasure_of_the_earlier_release_leaves(earlier, postgres_url):
    play_at_once(postgres_url, {"new": ROOT}, 1, ["a", "b"])
    anyio.run(share_index, postgres_url, ["a", "b"])
    subprocess.run(
        [sys.executable, "-c", ERASE, postgres_url, "a"],
        cwd=earlier,
        env={**os.environ, "PYTHONPATH": str(earlier)},
        check=True,
    )
    assert anyio.run(shared_scopes, postgres_url) == (session_scope("a"), session_scope("b"))
    done = anyio.run(Housekeeper(ServiceSettings(store=postgres_url)).run_once)
    assert (done.counts["vectors"] > 0, done.counts["index segments"], done.faults) == (True, 1, ())
    assert anyio.run(shared_scopes, postgres_url) == (session_scope("b"),)


def test_every_statement_of_the_earlier_release_fits_the_tables(postgres_url):
    migrate = PostgresStore(postgres_url)
    anyio.run(migrate.sessions)
    anyio.run(migrate.close)
    address = postgres_address(postgres_url)
    with psycopg.connect(address.conninfo, autocommit=True) as connection:
        connection.execute(f"SET search_path = {address.schema}")
        for place, sql in enumerate(SENT["statements"]):
            with suppress(psycopg.errors.IndeterminateDatatype):
                connection.execute(f"PREPARE s{place} AS {sql}")
        for table, columns in SENT["columns"].items():
            found = connection.execute(
                "SELECT column_name, is_nullable, column_default FROM information_schema.columns "
                "WHERE table_schema = %s AND table_name = %s",
                (address.schema, table),
            ).fetchall()
            assert {name for name, _, _ in found} >= set(columns), table
            for name, nullable, default in found:
                assert name in columns or nullable == "YES" or default is not None, f"{table}.{name}"

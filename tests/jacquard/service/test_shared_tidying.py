"""Housekeeping removes vectors and index rows that an erasure of an older release has left, by the process that has the lease."""

from __future__ import annotations

import anyio
import numpy as np
import psycopg
import pytest

from jacquard.config.service import ServiceSettings
from jacquard.config.tenant_sections import HousekeepingSettings
from jacquard.service.upkeep.housekeeper import LEASE, Housekeeper
from mnemosyne import Chain, Erasure, PostgresStore, SystemClock
from mnemosyne.protocols import EmbeddedText
from mnemosyne.retrieval.engines.rows import text_hash
from mnemosyne.schema.memory import session_scope
from mnemosyne.stores.locate import postgres_address
from mnemosyne.testing.stores.samples import imported_turn, start

pytestmark = pytest.mark.anyio

SESSIONS = ("a", "b", "c")


async def leave_vectors(url: str, tenant: str) -> None:
    """Leave what an older release does: `a` and `b` are erased, their vectors are there; `c` has its own."""
    store = PostgresStore(url, tenant=tenant)
    for name in SESSIONS:
        await store.create_session(start(imported_turn("p1"), session_id=name))
        page = await store.entries_after(session_scope(name), Chain.HISTORY, 0, 100)
        vector = np.asarray([0.6, 0.8], dtype=np.float32)
        texts = [
            EmbeddedText(entry_id=each.entry.entry_id, text_hash=text_hash(each.entry), vector=vector) for each in page
        ]
        await store.vectors.put(session_scope(name), "m", texts)
    await run(url, "CREATE TABLE IF NOT EXISTS kept AS SELECT * FROM vectors WHERE false")
    await run(url, "INSERT INTO kept SELECT * FROM vectors WHERE tenant = %s AND scope <> 'session:c'", tenant)
    for name in ("a", "b"):
        await store.erase(Erasure(at=SystemClock().now(), session_id=name))
    await run(url, "INSERT INTO vectors SELECT * FROM kept")
    await run(url, "DROP TABLE kept")
    await store.close()


async def run(url: str, statement: str, *values: object) -> list:
    def work() -> list:
        with psycopg.connect(postgres_address(url).conninfo, autocommit=True) as connection:
            connection.execute(f"SET search_path = {postgres_address(url).schema}")
            done = connection.execute(statement, values)
            return done.fetchall() if done.description else []

    return await anyio.to_thread.run_sync(work)


async def left(url: str) -> list[tuple[str, str]]:
    return await run(url, "SELECT DISTINCT tenant, scope FROM vectors ORDER BY tenant, scope")


def keeper(url: str, **fields: int) -> Housekeeper:
    return Housekeeper(ServiceSettings(store=url, housekeeping=HousekeepingSettings(**fields)))


async def test_a_pass_counts_what_it_removes_in_every_tenant(postgres_url):
    for tenant in ("default", "north"):
        await leave_vectors(postgres_url, tenant)
    done = await keeper(postgres_url).run_once()
    assert (done.counts["vectors"], done.counts["index segments"], done.faults) == (8, 0, ())
    assert await left(postgres_url) == [("default", "session:c"), ("north", "session:c")]
    again = await keeper(postgres_url).run_once()
    assert again.counts["vectors"] == 0


async def test_a_pass_goes_on_behind_the_one_before(postgres_url):
    await leave_vectors(postgres_url, "default")
    one = keeper(postgres_url, sessions_a_pass=1)
    counts = [(await one.run_once()).counts["vectors"] for _ in range(5)]
    # The third session has its own; then it begins again.
    assert counts == [2, 2, 0, 0, 0]
    assert await left(postgres_url) == [("default", "session:c")]


async def test_a_deep_pass_looks_at_all_scopes(postgres_url):
    await leave_vectors(postgres_url, "default")
    done = await keeper(postgres_url, sessions_a_pass=1).run_once(deep=True)
    assert done.counts["vectors"] == 4


async def test_only_the_holder_of_the_lease_removes_anything(postgres_url):
    await leave_vectors(postgres_url, "default")
    store = PostgresStore(postgres_url)
    lease = await store.acquire_lease(LEASE, "another", 60)
    done = await keeper(postgres_url).run_once()
    assert (done.holder, done.counts.get("vectors", 0)) == ("another", 0)
    assert len(await left(postgres_url)) == 3
    await store.release_lease(lease)
    await store.close()
    assert (await keeper(postgres_url).run_once()).counts["vectors"] == 4

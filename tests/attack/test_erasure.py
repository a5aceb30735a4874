"""After an erasure, a search that uses nothing of ours finds no run of 24 characters of the erased texts in the store.

Random sessions (`erasure_cases`) in each of the four stores; a user, a session or an item of evidence is erased; files, cells
and objects are searched (`raw_search`). What may stay is only what other sessions hold in their own right, and those are
neither changed nor named by the proof. Long form: `python -m tests.attack erasure`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from random import Random

import anyio
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "mnemosyne"))

from erasure_cases import AT, USERS, Case, fill
from long_form import LongForm
from postgres_server import PostgresServer, running_server
from raw_search import bytes_of_folder, bytes_of_object, cells_of_postgres, empty_postgres, find_runs, runs_of

from mnemosyne import Erasure, MemoryStore, Store, open_store
from mnemosyne.evidence import FolderVault
from mnemosyne.privacy.forget import ErasureReport, MemoryLocations, forget, plan_erasure
from mnemosyne.protocols import StoreUpkeep
from mnemosyne.stores.locate import locate_store

SHORT = 24
SERVER = "TEST_POSTGRES_ADDRESS"
GUARDIANS: list[subprocess.Popen[str]] = []
STORES = ("memory", "file", "sqlite", "postgresql")


def check(number: int) -> None:
    """Fill a store, erase, and search."""
    with tempfile.TemporaryDirectory(prefix="erasure-") as folder:
        anyio.run(_check, number, Path(folder))


async def _check(number: int, folder: Path) -> None:
    kind, case = STORES[number % len(STORES)], Case(chance=Random(number))
    store, vault = open_kind(kind, folder), FolderVault(folder / "originals")
    try:
        await fill(case, store, vault)
        erasure = choose(case)
        place = MemoryLocations(store=store, vault=vault, folders=(folder,))
        plan = await plan_erasure(place, erasure)
        others = [name for name in case.owners if name not in (*plan.whole, *plan.touched)]
        for name in case.owners:
            # What a store keeps in memory of what it read has to be forgotten too.
            await store.window(name, message_limit=1_000)
        before = [await store.get_session(name) for name in others]
        if isinstance(store, StoreUpkeep):
            for name in case.owners:
                if case.chance.random() < 0.5:
                    await store.archive(name, at=AT)
        done = await forget(place, erasure)
        assert done.done, (done.proof.places, done.proof.found_files, done.faults)
        assert (done.plan.whole, done.plan.touched) == (plan.whole, plan.touched)
        assert [await store.get_session(name) for name in others] == before
        data = [*dump(kind, folder, store)]
        left = find_runs(data, must_be_gone(case, erasure, done))
        assert left == [], left[:5]
        await _check_words(case, store, erasure, done)
    finally:
        await store.close()
        if kind == "postgresql":
            empty_postgres(*postgres())


def choose(case: Case) -> Erasure:
    """Return a random erasure."""
    kind, session_id = case.chance.randrange(3), case.chance.choice([*case.owners])
    if kind == 0:
        return Erasure(at=AT, user_id=case.chance.choice(USERS), reason="asked to")
    if kind == 1:
        return Erasure(at=AT, session_id=session_id, reason="asked to")
    items = sorted({each.evidence_id for each in case.said if each.session_id == session_id and each.evidence_id})
    return Erasure(at=AT, session_id=session_id, evidence_ids=(case.chance.choice(items),))


def must_be_gone(case: Case, erasure: Erasure, done: ErasureReport) -> set[str]:
    """Return the runs that may not be found: of what was erased, without what is held by others in their own right."""
    whole, touched = done.plan.whole, done.plan.touched
    if erasure.user_id is not None:
        cut = [
            each.text for each in case.said if each.user == erasure.user_id and each.session_id in (*whole, *touched)
        ]
    elif erasure.evidence_ids:
        cut = contents_of(case, erasure)
    else:
        cut = []
    untouched = runs_of(each.text for each in case.said if each.session_id not in (*whole, *touched))
    gone = runs_of(cut) if touched else set()
    live = runs_of(each.text for each in case.said if each.session_id not in whole)
    return (gone - untouched) | (runs_of(each.text for each in case.said if each.session_id in whole) - live)


def contents_of(case: Case, erasure: Erasure) -> list[str]:
    """Return the text of the erased evidence, as it was stored; its original is deleted with it."""
    first = [
        each.text
        for each in case.said
        if each.session_id == erasure.session_id and each.evidence_id in erasure.evidence_ids
    ]
    return first[:1]


def open_kind(kind: str, folder: Path) -> Store:
    """Return an empty store."""
    if kind == "memory":
        return MemoryStore()
    if kind == "postgresql":
        return open_store(running_server_of_this_process().url("attack on erasure"))
    return open_store(f"file:///{folder / 'files'}" if kind == "file" else str(folder / "sqlite"))


def dump(kind: str, folder: Path, store: Store) -> Iterable[bytes]:
    """Yield everything that a store keeps."""
    yield from bytes_of_folder(folder)
    yield from bytes_of_object(store)
    if kind == "postgresql":
        yield from cells_of_postgres(*postgres())


def postgres() -> tuple[str, str]:
    """Return address and schema of the tables."""
    server = running_server_of_this_process()
    located = locate_store(server.url("attack on erasure"), look=False).postgres
    assert located is not None
    return server.uri, located.schema


@lru_cache(maxsize=1)
def running_server_of_this_process() -> PostgresServer:
    """Return the server of the test process; a process of the long form starts one that ends with it."""
    if SERVER not in os.environ:
        guardian = subprocess.Popen(
            [sys.executable, str(Path(__file__).parents[1] / "mnemosyne" / "postgres_server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert guardian.stdout is not None
        os.environ[SERVER] = guardian.stdout.readline().strip()
        GUARDIANS.append(guardian)
    return running_server()


async def _check_words(case: Case, store: Store, erasure: Erasure, done: ErasureReport) -> None:
    """Check that no words taken from the erased user's messages are left in plans, receipts and selections."""
    for session_id, turn_id in sorted(case.spoken.get(erasure.user_id or "", ())):
        if session_id not in done.plan.touched:
            continue
        turn = await store.turn(session_id, turn_id)
        for plan in (turn.plan, (turn.receipt or {}).get("plan")):
            if plan is not None:
                assert (plan["search_intent"]["focus_keywords"], plan["entities"], plan["reasons"]) == ([], [], [])
        if turn.receipt is not None:
            assert turn.receipt["stream_b"]["queries"] == []
        for head in await store.branches(session_id):
            prefetch = (await store.window(session_id, message_limit=1, branch_id=head.branch_id)).prefetch
            if prefetch is not None and prefetch.turn_id == turn_id:
                assert (prefetch.keywords, prefetch.value["rationale"]) == ((), "")


def test_no_run_of_an_erased_text_is_left(postgres_server):
    for number in range(SHORT):
        check(number)


async def _leave(folder: Path, text: str) -> ErasureReport:
    store = open_store(f"file:///{folder / 'files'}")
    await fill(Case(chance=Random(7)), store, None)
    (folder / "note.txt").write_text(f"copied by hand: {text}", encoding="utf-8")
    done = await forget(MemoryLocations(store=store, folders=(folder,)), Erasure(at=AT, session_id="session-0"))
    await store.close()
    return done


@pytest.mark.anyio
async def test_a_run_of_24_characters_in_a_file_fails_the_proof(tmp_path):
    case = Case(chance=Random(7))
    await fill(case, MemoryStore(), None)
    others = runs_of(each.text for each in case.said if each.session_id != "session-0")
    own = sorted(runs_of(each.text for each in case.said if each.user and each.session_id == "session-0") - others)
    assert not (await _leave(tmp_path / "run", own[0])).proof.holds
    assert (await _leave(tmp_path / "part", own[0][:9])).proof.holds


FORM = LongForm(count=2_000, check=check, chunk=20)

"""Every store against a plain model of it: anything that may be done, in any order, by one and by many, with reopening."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import invariant, rule, run_state_machine_as_test
from postgres_server import own_tenant, running_server
from store_machine import StoreMachine, few

from mnemosyne import EvidenceFilter, FileStore, MemoryStore, PostgresStore, SqliteStore, Store
from mnemosyne.testing.stores.samples import SCOPE, SESSION, WORLD_SCOPE, lore

STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda folder: MemoryStore(),
    "file": lambda folder: FileStore(folder, synchronous="NORMAL", compact_bytes=20_000),
    "sqlite": lambda folder: SqliteStore(folder / "store.db", synchronous="NORMAL"),
    "postgresql": lambda folder: PostgresStore(running_server().url("machine"), tenant=own_tenant(folder)),
}


class TwoStoresMachine(StoreMachine):
    """Two stores on one database that write in turns, as two processes do. Both keep what a third one, just opened, reads."""

    def __init__(self, open_store: Callable[[Path], Store], *, reopens: bool) -> None:
        super().__init__(open_store, reopens=False)
        self._other, self._versions, self._checks = open_store(self._folder), 0, 0
        self.replace_world(0)

    @rule(which=few)
    def replace_world(self, which: int) -> None:
        """Write the world's lore, most of it as it was."""
        self._versions += 1
        told = [lore(f"l{n}", f"told {n} {which == n}", viewers=("gm",) if which == n else ()) for n in range(which, 5)]
        self.run(self.store.replace_world("w1", f"d{self._versions}", told))

    @invariant()
    def keeps_what_is_stored(self) -> None:
        fresh = self._open(self._folder)
        names = [*self.tree.branches, None]
        given = {
            "message_limit": self.step % 7,
            "branch_id": names[self.step % len(names)],
            "evidences": (EvidenceFilter(limit=3, newest=True),),
        }
        said = [f"{turn_id}.{end}" for turn_id in self.tree.texts for end in ("u", "a")]
        wanted = {SCOPE: [*self.entries, *said], WORLD_SCOPE: [f"l{n}" for n in range(5)]}
        inputs = self.run(fresh.turn_inputs(SESSION, **given))
        stored = {scope: self.run(fresh.entries(scope, ids)) for scope, ids in wanted.items()}
        self.run(fresh.close())
        self._checks += 1
        for store in (self.store, self._other)[self._checks % 2 :]:
            found = self.run(store.turn_inputs(SESSION, **given))
            assert found == inputs
            for scope, entries in stored.items():
                by_id = {each.entry_id: each for each in entries}
                kept = found.kept_entries.get(scope, {})
                assert {**kept} == {name: by_id[name] for name in kept}
                assert self.run(store.entries(scope, wanted[scope])) == entries
        if self._checks % 3 == 0:
            self.store, self._other = self._other, self.store

    def teardown(self) -> None:
        self.run(self._other.close())
        super().teardown()


def check(name: str, examples: int, steps: int, machine: type[StoreMachine] = StoreMachine) -> None:
    run_state_machine_as_test(
        lambda: machine(STORES[name], reopens=name != "memory"),
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


@pytest.fixture(params=STORES)
def name(request: pytest.FixtureRequest) -> str:
    """Each kind of store; a server is started for the one that needs it."""
    if request.param == "postgresql":
        request.getfixturevalue("postgres_server")
    return str(request.param)


def test_a_store_does_what_the_model_says(name: str) -> None:
    check(name, 12 if name == "memory" else 6, 20)


def test_two_stores_keep_what_a_third_one_reads(name: str) -> None:
    if name != "memory":  # a second store in memory is another database
        check(name, 20 if name == "sqlite" else 5, 20, TwoStoresMachine)


@pytest.mark.full
def test_a_store_does_what_the_model_says_for_long(name: str, request: pytest.FixtureRequest) -> None:
    if "full" not in (request.config.getoption("markexpr") or ""):
        pytest.skip("the long form: run it with -m full")
    check(name, 150, 60)

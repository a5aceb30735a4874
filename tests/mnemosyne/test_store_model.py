"""Every store against a plain model of it: anything that may be done, in any order, by one and by many, with reopening."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from postgres_server import own_tenant, running_server
from store_machine import StoreMachine

from mnemosyne import FileStore, MemoryStore, PostgresStore, SqliteStore, Store

STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda folder: MemoryStore(),
    "file": lambda folder: FileStore(folder, synchronous="NORMAL", compact_bytes=20_000),
    "sqlite": lambda folder: SqliteStore(folder / "store.db", synchronous="NORMAL"),
    "postgresql": lambda folder: PostgresStore(running_server().url("machine"), tenant=own_tenant(folder)),
}


def check(name: str, examples: int, steps: int) -> None:
    run_state_machine_as_test(
        lambda: StoreMachine(STORES[name], reopens=name != "memory"),
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


@pytest.mark.full
def test_a_store_does_what_the_model_says_for_long(name: str, request: pytest.FixtureRequest) -> None:
    if "full" not in (request.config.getoption("markexpr") or ""):
        pytest.skip("the long form: run it with -m full")
    check(name, 150, 60)

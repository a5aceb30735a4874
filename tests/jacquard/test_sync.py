"""The synchronous face has every method of the engine, with its signature, and needs no event loop."""

from __future__ import annotations

import inspect
from concurrent.futures import ThreadPoolExecutor

import pytest

from jacquard import ContextEngine, Runtime
from jacquard.sync import SyncEngine, SyncRuntime, create_context_engine, open_engine, open_runtime
from mnemosyne import MemoryStore, SessionNotFoundError

NOT_CALLED = {"close", "__aenter__", "__aexit__"}


@pytest.mark.parametrize(("blocking", "kind"), [(SyncEngine, ContextEngine), (SyncRuntime, Runtime)])
def test_every_method_is_there_with_its_signature(blocking, kind):
    for name, method in inspect.getmembers(kind, inspect.iscoroutinefunction):
        if not name.startswith("_") and name not in NOT_CALLED:
            assert inspect.signature(getattr(blocking, name)) == inspect.signature(method), name


def test_a_turn_without_an_event_loop():
    store = MemoryStore()
    with create_context_engine(store) as engine:
        turn = engine.prepare_turn("s", "Hello.")
        assert engine.commit_assistant_message("s", "Hi.").turn_id == turn.turn_id
        assert engine.swipe("s").branch_id == "swipe-1"
        assert engine.run(store.sessions) == ("s",)
        with pytest.raises(SessionNotFoundError):
            engine.tasks("nobody")
    engine.close()


def test_several_threads_call_one_engine():
    def play(number):
        name = f"s{number}"
        for text in ("One?", "Two?"):
            engine.prepare_turn(name, text)
            engine.commit_assistant_message(name, f"{number}")
        return len(engine.run(engine.engine.branches, name))

    with create_context_engine(MemoryStore()) as engine, ThreadPoolExecutor(8) as threads:
        assert list(threads.map(play, range(8))) == [1] * 8


def test_a_runtime_without_an_event_loop(tmp_path):
    with open_runtime(tmp_path / "store", world="examples/whispering_forest/en", embedder="none") as runtime:
        head = runtime.ensure_session("s", index=False)
        turn = runtime.engine.prepare_turn("s", "Hello.")
        assert runtime.engine.commit_assistant_message("s", "Hi.").turn_id == turn.turn_id
        assert runtime.world_of("s").world_id == head.world_id
        with pytest.raises(SessionNotFoundError):
            runtime.world_of("nobody")
    with open_runtime(tmp_path / "store", embedder="none") as runtime:
        assert runtime.run(runtime.runtime.store.head, "s").depth == 41


def test_a_store_is_opened_and_closed_with_the_engine(tmp_path):
    for text in ("Hello.", "Hello again."):
        with open_engine(str(tmp_path / "store"), world="examples/whispering_forest/en", embedder="none") as (
            engine,
            runtime,
        ):
            engine.run(runtime.ensure_session, "s", index=False)
            engine.prepare_turn("s", text)
            engine.commit_assistant_message("s", "<content>Hi.</content>")
    with open_engine(str(tmp_path / "store"), embedder="none") as (engine, runtime):
        assert engine.run(runtime.store.head, "s").depth == 42

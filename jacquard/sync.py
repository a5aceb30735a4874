"""The engine for hosts without an event loop: the same methods, each of which returns when its work is done.

    from jacquard.sync import create_context_engine

    with create_context_engine(MemoryStore()) as engine:
        turn = engine.prepare_turn("s1", "Hello.")

The engine runs on an event loop in a thread of its own, so several threads may call it at once. It cannot be used on the
thread of an event loop, which it would block.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from jacquard.turns.engine import ContextEngine
from jacquard.wiring import factory
from jacquard.wiring.runtime import Runtime, open_runtime

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(method: Callable[Concatenate[ContextEngine, P], Awaitable[T]]) -> Callable[Concatenate[SyncEngine, P], T]:
    """Return a method that runs the engine's method of that name and waits for it."""

    @wraps(method)
    def call(self: SyncEngine, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run(method, self.engine, *args, **kwargs)

    return call


class SyncEngine:
    """A `ContextEngine` whose methods block. Use it in `with`, or call `close` at the end.

    `engine` is the engine itself; `run` calls any coroutine function on its event loop, such as those of the store.
    """

    def __init__(self, engine: ContextEngine, portal: BlockingPortal | None = None) -> None:
        self.engine = engine
        self._stack = ExitStack()
        self._portal = portal or self._stack.enter_context(start_blocking_portal())
        if portal is None:
            self._stack.enter_context(self._portal.wrap_async_context_manager(engine))

    def run(self, work: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        """Call a coroutine function on the engine's event loop and return its result; its errors are raised as they are."""
        return self._portal.call(partial(work, *args, **kwargs))

    def close(self) -> None:
        """Cancel late work and end the event loop; a second call does nothing."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    abort_assistant_message = _blocking(ContextEngine.abort_assistant_message)
    adopt_messages = _blocking(ContextEngine.adopt_messages)
    assemble = _blocking(ContextEngine.assemble)
    branches = _blocking(ContextEngine.branches)
    commit_assistant_chunk = _blocking(ContextEngine.commit_assistant_chunk)
    commit_assistant_message = _blocking(ContextEngine.commit_assistant_message)
    consolidate = _blocking(ContextEngine.consolidate)
    edit_message = _blocking(ContextEngine.edit_message)
    estimate_messages = _blocking(ContextEngine.estimate_messages)
    finalize_assistant_message = _blocking(ContextEngine.finalize_assistant_message)
    fork = _blocking(ContextEngine.fork)
    prepare_turn = _blocking(ContextEngine.prepare_turn)
    record_model_usage = _blocking(ContextEngine.record_model_usage)
    record_tool_call = _blocking(ContextEngine.record_tool_call)
    remember = _blocking(ContextEngine.remember)
    repair_state = _blocking(ContextEngine.repair_state)
    retry = _blocking(ContextEngine.retry)
    rollback = _blocking(ContextEngine.rollback)
    settle = _blocking(ContextEngine.settle)
    start_session = _blocking(ContextEngine.start_session)
    summarize = _blocking(ContextEngine.summarize)
    swipe = _blocking(ContextEngine.swipe)
    switch = _blocking(ContextEngine.switch)
    tasks = _blocking(ContextEngine.tasks)
    upsert_tasks = _blocking(ContextEngine.upsert_tasks)
    user_facts = _blocking(ContextEngine.user_facts)


def create_context_engine(*args: Any, **parts: Any) -> SyncEngine:
    """Return an open engine with the shipped parts; the arguments are those of `jacquard.create_context_engine`."""
    return SyncEngine(factory.create_context_engine(*args, **parts))


@contextmanager
def open_engine(*args: Any, **options: Any) -> Iterator[tuple[SyncEngine, Runtime]]:
    """Open a store with its index, and an engine on it; the arguments are those of `jacquard.open_runtime`.

    Gives the engine, and the runtime whose coroutine functions `SyncEngine.run` calls.
    """
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(open_runtime(*args, **options)) as runtime,
    ):
        yield SyncEngine(runtime.engine, portal), runtime

"""Provides engine and runtime for hosts without an event loop: their methods block until the work is done.

    from jacquard.sync import create_context_engine, open_runtime

    with create_context_engine(MemoryStore()) as engine:
        turn = engine.prepare_turn("s1", "Hello.")

    with open_runtime("saves", world="worlds/mine") as runtime:
        runtime.ensure_session("s1")
        turn = runtime.engine.prepare_turn("s1", "Hello.")

The functions have the same arguments as the functions of the same names in `jacquard`. The engine runs on its own event
loop in a thread, so several threads may call the engine at the same time. Do not call it on the thread of another event
loop, because the call would block this loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack, contextmanager
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from jacquard.turns.engine import ContextEngine
from jacquard.wiring import factory, runtime
from jacquard.wiring.runtime import Runtime

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(method: Callable[Concatenate[Any, P], Awaitable[T]]) -> Callable[Concatenate[Any, P], T]:
    """Return a method that runs the engine's or runtime's method of the same name and waits for it."""

    @wraps(method)
    def call(self: SyncEngine | SyncRuntime, /, *args: P.args, **kwargs: P.kwargs) -> T:
        inner = self.engine if isinstance(self, SyncEngine) else self.runtime
        return self.run(method, inner, *args, **kwargs)

    return call


class SyncEngine:
    """A `ContextEngine` whose methods block. Use it in `with`, or call `close` at the end.

    `engine` is the asynchronous engine. `run` calls any coroutine function, such as a method of the store, on the event
    loop of the engine.
    """

    def __init__(self, engine: ContextEngine, portal: BlockingPortal | None = None) -> None:
        self.engine = engine
        self._stack = ExitStack()
        self._portal = portal or self._stack.enter_context(start_blocking_portal())
        if portal is None:
            self._stack.enter_context(self._portal.wrap_async_context_manager(engine))

    def run(self, work: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        """Run `work(*args, **kwargs)` on the engine's event loop and return its result. Errors of `work` are raised
        unchanged.
        """
        return self._portal.call(partial(work, *args, **kwargs))

    def close(self) -> None:
        """Cancel the engine's background work and end its event loop. A second call does nothing."""
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
    continue_session = _blocking(ContextEngine.continue_session)
    edit_message = _blocking(ContextEngine.edit_message)
    estimate_messages = _blocking(ContextEngine.estimate_messages)
    finalize_assistant_message = _blocking(ContextEngine.finalize_assistant_message)
    fork = _blocking(ContextEngine.fork)
    prepare_turn = _blocking(ContextEngine.prepare_turn)
    record_model_usage = _blocking(ContextEngine.record_model_usage)
    record_tool_call = _blocking(ContextEngine.record_tool_call)
    remember = _blocking(ContextEngine.remember)
    repair_state = _blocking(ContextEngine.repair_state)
    retell = _blocking(ContextEngine.retell)
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


class SyncRuntime:
    """A `Runtime` whose methods block.

    `engine` is the blocking engine of the runtime, and `runtime` is the asynchronous runtime.
    """

    def __init__(self, runtime: Runtime, portal: BlockingPortal) -> None:
        self.runtime = runtime
        self.engine = SyncEngine(runtime.engine, portal)

    def run(self, work: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        """Run `work(*args, **kwargs)` on the event loop of the runtime and return its result. Errors of `work` are
        raised unchanged.
        """
        return self.engine.run(work, *args, **kwargs)

    action = _blocking(Runtime.action)
    archive_session = _blocking(Runtime.archive_session)
    archived_sessions = _blocking(Runtime.archived_sessions)
    ensure_session = _blocking(Runtime.ensure_session)
    forget = _blocking(Runtime.forget)
    import_session = _blocking(Runtime.import_session)
    import_world = _blocking(Runtime.import_world)
    open_archived = _blocking(Runtime.open_archived)
    plan_erasure = _blocking(Runtime.plan_erasure)
    reload_world = _blocking(Runtime.reload_world)
    sweep = _blocking(Runtime.sweep)
    sync = _blocking(Runtime.sync)
    warm = _blocking(Runtime.warm)
    world_of = _blocking(Runtime.world_of)


def _wrap_create(create: Callable[P, ContextEngine]) -> Callable[P, SyncEngine]:
    @wraps(create)
    def create_blocking(*args: P.args, **kwargs: P.kwargs) -> SyncEngine:
        return SyncEngine(create(*args, **kwargs))

    return create_blocking


def _wrap_open_runtime(
    open_async: Callable[P, AbstractAsyncContextManager[Runtime]],
) -> Callable[P, AbstractContextManager[SyncRuntime]]:
    @wraps(open_async)
    @contextmanager
    def open_blocking(*args: P.args, **kwargs: P.kwargs) -> Iterator[SyncRuntime]:
        with (
            start_blocking_portal() as portal,
            portal.wrap_async_context_manager(open_async(*args, **kwargs)) as opened,
        ):
            yield SyncRuntime(opened, portal)

    return open_blocking


def _wrap_open_engine(
    open_blocking: Callable[P, AbstractContextManager[SyncRuntime]],
) -> Callable[P, AbstractContextManager[tuple[SyncEngine, Runtime]]]:
    @wraps(open_blocking)
    @contextmanager
    def open_both(*args: P.args, **kwargs: P.kwargs) -> Iterator[tuple[SyncEngine, Runtime]]:
        with open_blocking(*args, **kwargs) as opened:
            yield opened.engine, opened.runtime

    return open_both


create_context_engine = _wrap_create(factory.create_context_engine)
open_runtime = _wrap_open_runtime(runtime.open_runtime)
open_engine = _wrap_open_engine(open_runtime)
"""Opens a runtime like `open_runtime`, and yields (engine, runtime): the blocking engine, and the asynchronous runtime.
Call coroutine functions of the runtime with `engine.run`.
"""

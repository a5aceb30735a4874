"""Runs work in worker threads, so that it does not block the event loop.

A switch to a worker thread and back costs 0.05 to 0.15 ms, because the other core has no data of the turn in its caches.
So a turn does not switch for each of its steps. `in_worker` runs a whole async function in one worker thread. Inside this
function, `run_off_loop` and the stores in this process work without a further switch. A call that must wait (for a model, a
server, or code of a host) goes back to the event loop by `on_loop`, and occupies no thread meanwhile.

Code inside `in_worker` must not use the event loop in any other way: no task groups, cancel scopes, locks or sleep.
"""

from __future__ import annotations

import asyncio
import os
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from functools import partial
from typing import Any, TypeVar, cast

import anyio.lowlevel
from anyio import to_thread

SMALL_CHARS = 12_000
"""Largest size of a calculation that runs on the event loop, in characters. For this size, most steps of a turn take about
one millisecond. A step on the state takes a quarter of a millisecond, and splitting a text into words takes up to three.
"""

_NODE_CHARS = 8
_SCALARS = frozenset({int, float, bool, type(None)})
_MOST_THREADS = 32
_MISSING = object()
_OWN_PACKAGES = ("mnemosyne", "jacquard")
T = TypeVar("T")

_loop: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("mnemosyne_loop_of_step", default=None)
"""The event loop of the step that runs in this thread. None: the caller is not inside `in_worker`."""

_threads: ThreadPoolExecutor
_Call = Callable[[], Awaitable[Any]]


def _open_threads() -> None:
    global _threads
    _threads = ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="mnemosyne-step")


_open_threads()
if hasattr(os, "register_at_fork"):
    # A process that is forked has none of the threads, and would wait for them.
    os.register_at_fork(after_in_child=_open_threads)


def is_in_worker() -> bool:
    """Return whether the caller runs inside `in_worker`, so that it may block its thread."""
    return _loop.get() is not None


async def in_worker(step: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
    """Return the result of the async function `step(*args)`, which runs in a worker thread.

    A call inside another `in_worker` runs in the same thread. If the caller is cancelled, `step` continues to its end,
    or to its next `on_loop`, which then raises the cancellation in `step`.
    """
    if is_in_worker():
        return await step(*args)
    await anyio.lowlevel.checkpoint_if_cancelled()
    context = copy_context()
    context.run(_loop.set, asyncio.get_running_loop())
    coroutine = step(*args)
    resume: Callable[[], Any] = partial(coroutine.send, None)
    while True:
        reached, cancelled = await _run_to_end(partial(context.run, _resume, resume))
        if isinstance(reached, _StepEnd):
            if cancelled is not None:
                raise cancelled
            return cast("T", reached.result())
        try:
            if cancelled is not None:
                raise cancelled
            with _variables_of(context):
                resume = partial(coroutine.send, await reached())
        except BaseException as error:
            resume = partial(coroutine.throw, error)


async def on_loop(call: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Return the result of the async function `call(*args)`, which runs on the event loop, also inside `in_worker`."""
    if not is_in_worker():
        return await call(*args)
    return cast("T", await _ask(partial(call, *args)))


def start_on_loop(call: Callable[..., object], *args: Any) -> None:
    """Call `call(*args)` on the event loop, without waiting for it if the caller is inside `in_worker`."""
    loop = _loop.get()
    if loop is None:
        call(*args)
    else:
        # In a task, because outside of one anyio does not know the loop.
        loop.call_soon_threadsafe(lambda: loop.create_task(_call(call, *args)))


async def run_off_loop(work: Callable[..., T], *args: Any) -> T:
    """Return `work(*args)`, which runs in a worker thread: inside `in_worker` in the caller's thread, else in another one."""
    return work(*args) if is_in_worker() else await to_thread.run_sync(work, *args)


def is_built_in(part: object) -> bool:
    """Return whether `part` of an engine belongs to our packages, so that it may run inside `in_worker`."""
    return type(part).__module__.partition(".")[0] in _OWN_PACKAGES


async def calculate(work: Callable[..., T], *args: Any, size: int) -> T:
    """Return `work(*args)`. It runs in a worker thread if `size` (see `size_of`) is above SMALL_CHARS."""
    return work(*args) if size <= SMALL_CHARS else await run_off_loop(work, *args)


def size_of(*values: Any) -> int:
    """Return the size of texts and JSON trees: their characters, plus 8 for each value in a tree.

    Counting stops soon after SMALL_CHARS is exceeded.
    """
    size = 0
    stack = list(values)
    while stack and size <= SMALL_CHARS:
        value = stack.pop()
        if isinstance(value, str):
            size += len(value)
            continue
        kind = type(value)
        is_mapping = kind is dict or (kind is not list and isinstance(value, Mapping))
        if not is_mapping and not isinstance(value, list | tuple):
            continue
        size += _NODE_CHARS * len(value)
        if size <= SMALL_CHARS:
            for each in value.values() if is_mapping else value:
                if type(each) is str:
                    size += len(each)
                elif type(each) not in _SCALARS:
                    stack.append(each)
    return size


async def _call(call: Callable[..., object], *args: Any) -> None:
    call(*args)


class _StepEnd:
    """End of a step, with the step's result or error."""

    def __init__(self, value: Any = None, error: BaseException | None = None) -> None:
        self._value, self._error = value, error

    def result(self) -> Any:
        """Return the result. Raises the error if there is one."""
        if self._error is not None:
            raise self._error
        return self._value


@types.coroutine
def _ask(call: _Call) -> Generator[_Call, Any, Any]:
    """Suspend the step until the event loop has awaited `call()`, and return the result."""
    return (yield call)


def _resume(resume: Callable[[], _Call]) -> _Call | _StepEnd:
    """Continue a step in this thread. Return what it asks of the event loop, or its end."""
    try:
        return resume()
    except StopIteration as end:
        return _StepEnd(end.value)
    except BaseException as error:
        return _StepEnd(error=error)


async def _run_to_end(work: Callable[[], T]) -> tuple[T, BaseException | None]:
    """Run `work`, which never raises, in a thread. Return (result, cancellation).

    A caller that is cancelled waits too, because the step in the thread cannot be stopped there. `cancellation` is the
    error that the caller must raise afterwards (None: nothing cancels the caller).
    """
    future, cancelled = asyncio.wrap_future(_threads.submit(work)), None
    with anyio.CancelScope(shield=True):
        while not future.done():
            try:
                await asyncio.shield(future)
            except asyncio.CancelledError as error:
                # By asyncio itself, which does not know the scope.
                cancelled = error
    return future.result(), cancelled


@contextmanager
def _variables_of(context: Context) -> Iterator[None]:
    """Use the context variables of a step (such as the current span) for what it asks of the event loop."""
    changed = [(name, value) for name, value in context.items() if name.get(_MISSING) is not value]
    tokens = [(name, name.set(value)) for name, value in changed if name is not _loop]
    try:
        yield
    finally:
        for name, token in reversed(tokens):
            name.reset(token)

"""`in_worker` runs a step in one thread, lets it wait on the event loop, and leaves nothing half done."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from contextvars import ContextVar

import anyio
import pytest

from mnemosyne.core.off_loop import calculate, in_worker, is_in_worker, on_loop, run_off_loop, start_on_loop

pytestmark = pytest.mark.anyio

LEVEL: ContextVar[int] = ContextVar("level", default=0)


async def wait_and_tell():
    await anyio.sleep(0.001)
    return threading.get_ident(), LEVEL.get(), is_in_worker()


async def test_a_step_runs_in_one_thread_and_waits_on_the_loop():
    loop = threading.get_ident()

    async def inner():
        return threading.get_ident()

    async def step():
        here = [threading.get_ident(), await in_worker(inner), await run_off_loop(threading.get_ident)]
        here.append(await calculate(threading.get_ident, size=10**9))
        token = LEVEL.set(5)
        waited = await on_loop(wait_and_tell)
        LEVEL.reset(token)
        return here, waited, await on_loop(wait_and_tell)

    here, inside, after = await in_worker(step)
    assert len(set(here)) == 1
    assert loop not in here
    assert (inside, after) == ((loop, 5, False), (loop, 0, False))
    assert LEVEL.get() == 0


async def test_outside_of_a_step_everything_waits_as_usual():
    called = []
    start_on_loop(called.append, "now")
    assert called == ["now"]
    assert await on_loop(wait_and_tell) == (threading.get_ident(), 0, False)
    assert await run_off_loop(threading.get_ident) != threading.get_ident()


async def test_what_a_step_starts_on_the_loop_runs_there():
    started = asyncio.get_running_loop().create_future()

    async def step():
        start_on_loop(lambda: started.set_result(threading.get_ident()))

    await in_worker(step)
    assert await started == threading.get_ident()


def test_a_step_starts_a_task_in_a_loop_that_anyio_did_not_start():
    told = []

    async def work(text):
        told.append(text)

    async def main():
        async with anyio.create_task_group() as group:

            async def step():
                start_on_loop(group.start_soon, work, "started")

            await in_worker(step)
            await asyncio.sleep(0.01)

    asyncio.run(main())
    assert told == ["started"]


async def test_an_error_of_a_step_and_of_what_it_waits_for_reaches_the_caller():
    async def refuse():
        raise ValueError("no")

    async def step():
        try:
            await on_loop(refuse)
        except ValueError as error:
            raise KeyError("a step") from error

    with pytest.raises(KeyError) as caught:
        await in_worker(step)
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("by", ["scope", "task"])
async def test_a_cancelled_caller_cancels_what_the_step_waits_for_and_lets_it_clean_up(by):
    told = []

    async def step():
        try:
            await on_loop(anyio.sleep_forever)
        finally:
            told.append(await run_off_loop(is_in_worker))

    if by == "scope":
        with anyio.move_on_after(0.05) as scope:
            await in_worker(step)
        assert scope.cancelled_caught
    else:
        task = asyncio.ensure_future(in_worker(step))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert told == [True]


@pytest.mark.parametrize("by", ["scope", "task"])
async def test_a_cancelled_caller_is_released_when_the_work_in_the_thread_is_over(by):
    told, begun, cancelled = [], anyio.Event(), threading.Event()

    async def step():
        start_on_loop(begun.set)
        cancelled.wait(20)
        told.append("written")

    async def cancel_once_begun(cancel):
        await begun.wait()
        cancel()
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.01)
        assert told == []
        cancelled.set()

    if by == "scope":
        async with anyio.create_task_group() as group:
            group.start_soon(in_worker, step)
            await cancel_once_begun(group.cancel_scope.cancel)
    else:
        task = asyncio.ensure_future(in_worker(step))
        await cancel_once_begun(task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task
    assert told == ["written"]


async def test_a_caller_who_is_cancelled_before_does_nothing():
    told = []

    async def step():
        told.append("begun")

    with anyio.CancelScope() as scope:
        scope.cancel()
        await in_worker(step)
    assert told == []


async def test_steps_that_wait_hold_no_thread():
    """More steps wait at once than there are threads."""
    ready, waiting = anyio.Event(), 0

    async def wait():
        nonlocal waiting
        waiting += 1
        if waiting == 100:
            ready.set()
        await ready.wait()

    async def step():
        await on_loop(wait)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for _ in range(100):
                group.start_soon(in_worker, step)


FORKING = """
import asyncio, os
from mnemosyne.core.off_loop import in_worker

async def step():
    return "done"

asyncio.run(in_worker(step))
child = os.fork()
if not child:
    os._exit(asyncio.run(in_worker(step)) != "done")
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_process_that_is_forked_after_a_step_has_threads_of_its_own():
    assert subprocess.run([sys.executable, "-c", FORKING], timeout=60, check=False).returncode == 0

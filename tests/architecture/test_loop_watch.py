"""The watch of the event loop finds what holds it, and tells ours from the test's."""

from __future__ import annotations

import asyncio
import inspect
import sys
from pathlib import Path
from types import FrameType

import pytest
from loop_watch import LoopWatch, find_holder

ROOT = Path(__file__).parents[2]


def stack(*calls: tuple[str, str, bool]) -> list[FrameType]:
    """Return the frames of functions of files that call each other, the innermost first: (file, name, is it async)."""
    found: list[FrameType] = []
    inner = None
    for file, name, is_async in reversed(calls):
        source = f"{'async ' if is_async else ''}def {name}():\n    return call()\n"
        names = {"call": _keep_frames(found) if inner is None else _runner_of(inner), "__name__": Path(file).stem}
        exec(compile(source, file, "exec"), names)
        inner = names[name]
    _runner_of(inner)()
    return [each for each in found if each.f_code.co_filename != __file__]


def _keep_frames(found):
    def keep():
        frame = inspect.currentframe()
        while frame is not None and frame.f_code is not stack.__code__:
            found.append(frame)
            frame = frame.f_back

    return keep


def _runner_of(function):
    def run():
        made = function()
        if inspect.iscoroutine(made):
            with pytest.raises(StopIteration):
                made.send(None)

    return run


OURS, TEST, OTHER = f"{ROOT}/jacquard/engine.py", f"{ROOT}/tests/test_x.py", f"{sys.prefix}/lib/json.py"


@pytest.mark.parametrize(
    ("calls", "holder"),
    [
        ([(TEST, "test", True), (OURS, "prepare", True), (OURS, "plan", False)], "engine.prepare"),
        ([(OURS, "task", True), (OURS, "inner", True), (OTHER, "loads", False)], "engine.inner"),
        ([(OURS, "callback", False)], "engine.callback"),
        ([(TEST, "test", True), (OURS, "parse", False)], None),
        ([(TEST, "test", True), (OURS, "prepare", True), (TEST, "fake", False)], None),
        ([(TEST, "test", True), (OURS, "prepare", True), (TEST, "fake", False), (OURS, "parse", False)], None),
        ([(TEST, "test", True), (OTHER, "loads", False)], None),
        ([(OURS, "task", True), ("<frozen importlib._bootstrap>", "load", False), (OURS, "module", False)], None),
        ([(OURS, "task", True), (f"{ROOT}/mnemosyne/testing/store.py", "check", False)], None),
    ],
)
def test_time_is_charged_to_our_coroutine_nearest_the_work(calls, holder):
    assert find_holder(stack(*calls)) == holder


def spend(seconds):
    """Spend processor time as a coroutine of ours would."""
    loop = "    until = thread_time() + seconds\n    while thread_time() < until: pass\n"
    source = f"from time import thread_time\nasync def work(seconds):\n{loop}"
    names = {"__name__": "jacquard.work"}
    exec(compile(source, OURS, "exec"), names)
    return names["work"](seconds)


def finish(coroutine):
    with pytest.raises(StopIteration):
        coroutine.send(None)


def test_work_that_holds_the_loop_is_found_with_its_function_and_its_stack():
    with LoopWatch().on() as watch:
        watch.run_turn(finish, spend(0.4))
        assert [each.function for each in watch.held] == ["jacquard.work.work"]
        assert OURS in str(watch.held[0])


def test_many_short_turns_hold_nothing():
    with LoopWatch().on() as watch:
        for _ in range(20):
            watch.run_turn(finish, spend(0.01))
        assert watch.held == []


@pytest.mark.anyio
async def test_a_loop_that_was_held_once_is_a_stall_of_the_machine(request):
    session = request.session
    session.stalls = getattr(session, "stalls", 0) + 1
    await asyncio.create_task(spend(0.4 if session.stalls == 1 else 0.001))
    assert session.stalls <= 2

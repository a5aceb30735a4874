"""Finds work of ours that holds the event loop: `WatchedLoop` times each of its turns, `LoopWatch` says who spent the time.

A turn is one callback of the loop: one step of a task. What counts is the processor time of the loop's thread, so a busy
machine makes no difference; the time of imports and of the garbage collector is left out. While a turn lasts, its stack is
sampled: a second thread looks at the clock of the loop's thread and sends it a signal, so that the sample is taken in between
two instructions of that thread. Each sample is charged with the processor time since the one before it:

- to us, if the innermost frame of a test is not below an async function of ours (a coroutine of ours works for itself);
- to the test, if the test called our function itself, or if ours called a part of the test.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from types import FrameType
from typing import Any

MOST_SECONDS = 0.05
"""The most processor time that we may spend in one turn."""
SAMPLE_SECONDS = 0.005
HELD = "held the event loop for"
"""Is in the sentence of each turn that held the loop."""
_LOOK_SECONDS = 0.01
_ROOT = Path(__file__).parents[1]
_OURS = tuple(f"{_ROOT / name}/" for name in ("jacquard", "mnemosyne", "filament"))
_TESTS = (f"{_ROOT / 'tests'}/", f"{_ROOT / 'evals'}/", f"{_ROOT / 'benchmarks'}/")
_CONTRACTS = "/testing/"
_ASYNC = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
IS_POSSIBLE = hasattr(time, "pthread_getcpuclockid") and hasattr(signal, "SIGPROF")
"""Whether this system tells the processor time of another thread, and interrupts one: Linux does, macOS and Windows do not."""

_SIGNAL = getattr(signal, "SIGPROF", signal.SIGINT)
Place = tuple[str, int, str]
"""File, line and function of a frame."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldLoop:
    """One turn in which we spent too much: our function nearest the loop, the milliseconds, and the stack of the longest sample."""

    function: str
    milliseconds: float
    stack: str

    def __str__(self) -> str:
        return f"{self.function} {HELD} {self.milliseconds:.0f} ms of processor time\n{self.stack}"


class LoopWatch:
    """Watches the loops of the main thread while it is `on`; `held` is what was found."""

    def __init__(self) -> None:
        self.held: list[HeldLoop] = []
        self._thread = threading.main_thread().ident or 0
        self._clock = time.pthread_getcpuclockid(self._thread)
        self._awake, self._is_on, self._depth = threading.Event(), False, 0
        self._began = self._last = self._collected = self._collecting = 0.0
        self._is_collecting = False
        self._charged: dict[str, tuple[float, float, list[Place]]] = {}
        self._usual = min(_seconds_of_known_work() for _ in range(5))
        threading.Thread(target=self._look, daemon=True, name="loop-watch").start()

    @contextmanager
    def on(self) -> Iterator[LoopWatch]:
        """Watch while the block runs, from the main thread."""
        self.held.clear()
        self._is_collecting = False
        before = signal.signal(_SIGNAL, self._sample)
        gc.callbacks.append(self._collect)
        self._is_on = True
        self._awake.set()
        try:
            yield self
        finally:
            self._awake.clear()
            self._is_on = False
            gc.callbacks.remove(self._collect)
            # A signal that was sent already must not end the process.
            signal.signal(_SIGNAL, signal.SIG_IGN if before is signal.SIG_DFL else before)

    def run_turn(self, callback: Callable[..., object], *args: object) -> None:
        """Run one callback of a loop, and record it where it is ours that took long."""
        if not self._is_on or self._depth or threading.get_ident() != self._thread:
            callback(*args)
            return
        self._charged.clear()
        self._collected, self._began = 0.0, time.thread_time()
        self._last, self._depth = self._began, 1
        try:
            callback(*args)
        finally:
            self._depth = 0
            if self._charged:
                self._judge()

    def _judge(self) -> None:
        ours = sum(spent for spent, _, _ in self._charged.values())
        if ours <= MOST_SECONDS:
            return
        # Where the processor does less in the same time than it did before, a turn may take accordingly longer.
        slower = max(1.0, min(_seconds_of_known_work() for _ in range(3)) / self._usual)
        if ours > slower * MOST_SECONDS:
            function, (_, _, stack) = max(self._charged.items(), key=lambda item: item[1][0])
            self.held.append(HeldLoop(function=function, milliseconds=1000 * ours, stack=_show(stack)))

    def _look(self) -> None:
        while True:
            self._awake.wait()
            time.sleep(_LOOK_SECONDS)
            if self._is_on and self._depth and time.clock_gettime(self._clock) - self._last >= SAMPLE_SECONDS:
                signal.pthread_kill(self._thread, _SIGNAL)

    def _sample(self, _number: int, frame: FrameType | None) -> None:
        # The collector runs callbacks of weak references, in which a signal may arrive.
        if not self._depth or self._is_collecting:
            return
        spent = time.thread_time() - self._last - self._collected
        frames = list(_frames_of_turn(frame))
        if (function := find_holder(frames)) is not None:
            total, longest, stack = self._charged.get(function, (0.0, 0.0, []))
            if spent > longest:
                longest, stack = spent, _places_of(frames)
            self._charged[function] = (total + spent, longest, stack)
        self._last, self._collected = time.thread_time(), 0.0

    def _collect(self, phase: str, _facts: dict[str, Any]) -> None:
        if threading.get_ident() != self._thread:
            return
        self._is_collecting = phase == "start"
        if self._is_collecting:
            self._collecting = time.thread_time()
        else:
            self._collected += time.thread_time() - self._collecting


def find_holder(frames: list[FrameType]) -> str | None:
    """Return our function that the time of a stack (innermost first) is charged to; None where it is a test's or an import's."""
    if any(each.f_code.co_filename.startswith("<frozen importlib") for each in frames):
        return None
    mine = list(takewhile(lambda each: not _is_of_tests(each), frames))
    below_test = len(mine) < len(frames)
    ours = [each for each in mine if _is_ours(each)]
    if not ours or (below_test and not ours[-1].f_code.co_flags & _ASYNC):
        return None
    nearest = next((each for each in ours if each.f_code.co_flags & _ASYNC), ours[-1])
    return f"{nearest.f_globals.get('__name__')}.{nearest.f_code.co_qualname}"


def _frames_of_turn(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None and frame.f_code is not LoopWatch.run_turn.__code__:
        yield frame
        frame = frame.f_back


def _is_of_tests(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return name.startswith(_TESTS) or (name.startswith(_OURS) and _CONTRACTS in name)


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_OURS)


def _places_of(frames: list[FrameType]) -> list[Place]:
    return [(each.f_code.co_filename, each.f_lineno, each.f_code.co_name) for each in frames[::-1]]


def _show(stack: list[Place]) -> str:
    return "".join(traceback.format_list([traceback.FrameSummary(*place) for place in stack]))


def _seconds_of_known_work() -> float:
    began = time.thread_time()
    sum(number * number % 7 for number in range(10_000))
    return time.thread_time() - began


class WatchedLoop(asyncio.SelectorEventLoop):
    """The event loop of asyncio, except that a watch runs its callbacks."""

    watch: LoopWatch | None = None

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:
        return super().call_soon(*self._watched(callback, args), context=context)

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:
        return super().call_soon_threadsafe(*self._watched(callback, args), context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        return super().call_at(when, *self._watched(callback, args), context=context)

    def _watched(self, callback: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (callback, *args) if self.watch is None else (self.watch.run_turn, callback, *args)

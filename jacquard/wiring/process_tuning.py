"""Settings of the whole process while an engine works: the garbage collector's, the interpreter's switch interval, and the C
library's heaps.

They keep a turn from waiting for a collection, or for other threads to give up the interpreter, and memory from growing.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading

SWITCH_SECONDS = 0.0002
YOUNG_OBJECTS = 5_000
"""How many new objects start a collection of the youngest generation; Python's default is 700, a turn makes some thousands."""
FULL_COLLECTION_EACH = 15
"""How many collections of the middle generation lie between two full collections; Python's default is 10."""

HEAPS_A_CORE = 2
"""Of how many heaps the C library takes memory, by core; glibc's default is 8."""
_M_ARENA_MAX = -8
"""The number of that setting in glibc's `malloc.h`."""
TRIM_SECONDS = 60.0
"""How long lies between two returns of free memory to the system."""


class ProcessTuning:
    """Keeps existing objects out of later garbage collections, makes all collections rarer, lets threads switch
    more often, limits the heaps, and returns what is free in them each minute, until released.

    Model libraries create some 400,000 objects that live as long as the process. A full collection visits them all and
    stops every thread for 0.2 to 0.4 seconds, in the middle of a turn. Excluded objects are still freed when nothing
    refers to them; only reference cycles among them that become garbage later stay until the release. Newer objects
    take a full collection some 10 ms, ten times less often. A calculating thread holds the interpreter for 5 ms by
    default before another one gets it, so three such threads keep the event loop waiting for 15 ms. Each of glibc's heaps keeps
    what was free in it once, and an index has dozens of threads; a process that has its environment name a number of heaps
    (`MALLOC_ARENA_MAX`) keeps that. What is free between things in use is not returned by itself: after 40,000 turns of
    200 sessions it was 94 of 840 MB. Nor is what Arrow took for tables that are gone, with which LanceDB reads and writes.

    Where several objects tuned the process, the last release restores it.
    """

    _lock = threading.Lock()
    _holders = 0
    _before: tuple[float, tuple[int, int, int]] = (0.0, (0, 0, 0))
    _released = threading.Event()

    def __init__(self) -> None:
        self._is_tuned = False

    def tune(self) -> None:
        """Collect garbage once and exclude what remains; takes as long as a full collection."""
        gc.collect()
        gc.freeze()
        kind = type(self)
        with kind._lock:
            if not self._is_tuned:
                self._is_tuned = True
                kind._holders += 1
                if kind._holders == 1:
                    kind._before = seconds, (young, middle, old) = sys.getswitchinterval(), gc.get_threshold()
                    sys.setswitchinterval(min(seconds, SWITCH_SECONDS))
                    gc.set_threshold(max(young, YOUNG_OBJECTS), middle, max(old, FULL_COLLECTION_EACH))
                    _limit_heaps(HEAPS_A_CORE * (os.cpu_count() or 1))
                    kind._released = threading.Event()
                    _start_trimming(kind._released)

    def release(self) -> None:
        """Restore the process, if this is the last object that tuned it."""
        kind = type(self)
        with kind._lock:
            if self._is_tuned:
                self._is_tuned = False
                kind._holders -= 1
                if kind._holders == 0:
                    gc.unfreeze()
                    sys.setswitchinterval(kind._before[0])
                    gc.set_threshold(*kind._before[1])
                    _limit_heaps(0)
                    kind._released.set()


def return_free_memory() -> None:
    """Return what is free in the heaps of the C library (glibc) and of Arrow, if it is loaded, to the system. Blocks, some 100 ms
    for 600 MB.
    """
    # What is just being imported has no pool yet.
    pool = getattr(sys.modules.get("pyarrow"), "default_memory_pool", None)
    if pool is not None:
        pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def _start_trimming(released: threading.Event) -> None:
    """Return free memory each minute, on a thread of its own."""

    def repeat() -> None:
        while not released.wait(TRIM_SECONDS):
            return_free_memory()

    threading.Thread(target=repeat, name="jacquard-trim", daemon=True).start()


def _limit_heaps(most: int) -> None:
    """Let the C library take memory of at most so many heaps (0: of as many as it likes), where it has that setting."""
    if sys.platform == "linux" and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_M_ARENA_MAX, most)

"""Tunes the whole process while an engine works: the garbage collector, the switch interval of threads, and the heaps
of the C library.

Without this tuning, a turn would wait for garbage collections and for threads that hold the interpreter, and memory
would grow.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading

SWITCH_SECONDS = 0.0002
YOUNG_OBJECTS = 5_000
"""Number of new objects after which the youngest generation is collected. Python's default is 700, and a turn makes
some thousands.
"""
FULL_COLLECTION_EACH = 15
"""Number of collections of the middle generation between two full collections. Python's default is 10."""

HEAPS_A_CORE = 2
"""Maximum number of heaps of the C library per core. The default of glibc is 8."""
_M_ARENA_MAX = -8
"""Number of the setting for the most heaps in glibc's `malloc.h`."""
TRIM_SECONDS = 60.0
"""Seconds after which free memory is returned to the system again."""


class ProcessTuning:
    """Tunes the process until the tuning is released. If several objects tuned the process, the last release restores
    it.

    - Existing objects are excluded from garbage collection. Model libraries create some 400,000 objects that live as
      long as the process. A full collection visits them all and stops every thread for 0.2 to 0.4 seconds, in the
      middle of a turn. Excluded objects are still freed when nothing refers to them; only reference cycles among them
      stay until the release.
    - Collections are rarer. A full collection of newer objects takes some 10 ms, ten times less often.
    - Threads switch more often. By default a calculating thread holds the interpreter for 5 ms, so three of them keep
      the event loop waiting for 15 ms.
    - The number of heaps is limited, unless the environment sets it (`MALLOC_ARENA_MAX`). Each heap of glibc keeps its
      free memory, and an index has dozens of threads.
    - Each minute, free memory of the heaps and of Arrow's pool (used by LanceDB) is returned to the system. After
      40,000 turns of 200 sessions this was 94 of 840 MB.
    """

    _lock = threading.Lock()
    _holders = 0
    _before: tuple[float, tuple[int, int, int]] = (0.0, (0, 0, 0))
    _released = threading.Event()

    def __init__(self) -> None:
        self._is_tuned = False

    def tune(self) -> None:
        """Tune the process. Garbage is collected once at the beginning, so the call takes as long as a full collection."""
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
    """Return free memory of the C library's heaps (glibc), and of Arrow if Arrow is loaded, to the system.

    The call blocks for some 100 ms if 600 MB are free.
    """
    # A module that is just being imported has no pool yet.
    pool = getattr(sys.modules.get("pyarrow"), "default_memory_pool", None)
    if pool is not None:
        pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def _start_trimming(released: threading.Event) -> None:
    """Return free memory each minute, on its own thread."""

    def repeat() -> None:
        while not released.wait(TRIM_SECONDS):
            return_free_memory()

    threading.Thread(target=repeat, name="jacquard-trim", daemon=True).start()


def _limit_heaps(most: int) -> None:
    """Limit the number of heaps of the C library (0: unlimited), if it has that setting."""
    if sys.platform == "linux" and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_M_ARENA_MAX, most)

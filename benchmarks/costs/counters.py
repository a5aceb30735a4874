"""Counts what the Python of this process does, on all of its threads: calls, statements, hops between threads, bytes, memory.

Threads are counted that begin after `Counters.install`. The counts are of CPython's own events (`sys.setprofile`), so they
depend on the code and on the release of Python, and not on the machine or its load.
"""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

COUNTS = (
    "python calls",
    "thread hops",
    "sql statements",
    "sql transactions",
    "values decoded",
    "values encoded",
    "templates rendered",
    "regex scans",
    "token estimates",
    "bytes read",
    "bytes written",
    "bytes allocated",
)
"""The names of the counts, in the order in which they are shown. `bytes allocated` is how far the memory of Python objects rose
above what it was, at its highest.
"""

EXACT = ("thread hops", "sql statements", "sql transactions", "templates rendered")
"""The counts that are the same in every run."""

OF_FILES = ("bytes read", "bytes written")
"""The counts that depend on what lies in the files by chance."""

_STATEMENTS = frozenset({"Connection.execute", "Connection.executemany", "Cursor.execute", "Cursor.executemany"})
_SCANS = frozenset(
    f"Pattern.{name}"
    for name in ("search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split", "scanner")
)
_TRANSACTION = "run_transaction"
_FIRST_INSTRUCTIONS = 8
"""A coroutine that goes on is behind these instructions of its code."""
_TEMPLATE = "root"
"""Jinja's name for the function of a template's body."""
_ESTIMATES = frozenset({"estimate", "estimate_messages", "estimate_message"})


class Counters:
    """Counts between `start` and `stop`. Install it before the threads are made that it is to count."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._functions: Counter[str] = Counter()
        self._is_counting = False
        self._io: tuple[int, int] = (0, 0)
        self._held = 0

    def install(self) -> None:
        """Count on this thread and on threads that begin later."""
        tracemalloc.start()
        threading.setprofile(self._see)
        sys.setprofile(self._see)

    def uninstall(self) -> None:
        """Count no more."""
        sys.setprofile(None)
        threading.setprofile(None)
        tracemalloc.stop()

    def start(self) -> None:
        """Begin a count from nothing. Garbage is collected before and not meanwhile, so that the peak is the same in every run."""
        self._counts.clear()
        self._io = _bytes_of_this_process()
        gc.collect()
        gc.disable()
        tracemalloc.reset_peak()
        self._held = tracemalloc.get_traced_memory()[0]
        self._is_counting = True

    def stop(self) -> Mapping[str, int]:
        """End the count; return it by name, all of `COUNTS`."""
        self._is_counting = False
        read, written = _bytes_of_this_process()
        self._counts["bytes read"], self._counts["bytes written"] = read - self._io[0], written - self._io[1]
        self._counts["bytes allocated"] = tracemalloc.get_traced_memory()[1] - self._held
        gc.enable()
        return {name: self._counts[name] for name in COUNTS}

    def forget_functions(self) -> None:
        """Count the calls of functions from nothing."""
        self._functions.clear()

    @property
    def functions(self) -> Mapping[str, int]:
        """The calls of each function in all counts so far, as `module:name`, most called first."""
        return dict(self._functions.most_common())

    def _see(self, frame: FrameType, event: str, arg: Any) -> None:
        if not self._is_counting:
            return
        if event == "call":
            self._see_call(frame)
        elif event == "c_call":
            self._see_builtin(getattr(arg, "__qualname__", ""))

    def _see_call(self, frame: FrameType) -> None:
        code, counts = frame.f_code, self._counts
        counts["python calls"] += 1
        module = frame.f_globals.get("__name__", "")
        self._functions[f"{module}:{code.co_qualname}"] += 1
        name = code.co_name
        if name.lstrip("_") == _TRANSACTION:
            counts["sql transactions"] += 1
        elif name in _ESTIMATES and module.startswith("mnemosyne."):
            counts["token estimates"] += 1
        elif name == _TEMPLATE and "environment" in frame.f_globals:
            counts["templates rendered"] += frame.f_lasti < _FIRST_INSTRUCTIONS
        elif name == "submit" and module == "concurrent.futures.thread":
            counts["thread hops"] += 1
        elif name == "run_sync" and module == "anyio.to_thread":
            # A coroutine is entered whenever it goes on; the place in its code tells the first time.
            counts["thread hops"] += frame.f_lasti < _FIRST_INSTRUCTIONS

    def _see_builtin(self, name: str) -> None:
        if name in _STATEMENTS:
            self._counts["sql statements"] += 1
        elif name in _SCANS:
            self._counts["regex scans"] += 1
        elif name.endswith("Decoder.decode"):
            self._counts["values decoded"] += 1
        elif name.endswith("Encoder.encode"):
            self._counts["values encoded"] += 1


def _bytes_of_this_process() -> tuple[int, int]:
    """Return what this process has read and written so far in bytes, files and sockets alike; zeros where nothing says so."""
    try:
        text = Path("/proc/self/io").read_text(encoding="ascii")
    except OSError:
        return 0, 0
    values = dict(line.split(": ") for line in text.splitlines())
    return int(values["rchar"]), int(values["wchar"])

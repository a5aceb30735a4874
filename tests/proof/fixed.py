"""A process in which time, random ids and random words are the same each time; import it before anything of ours.

The clock stands still until `step` is called, durations are 0, and each function that asks for random ids has a row of its own.
"""

from __future__ import annotations

import ctypes
import gc
import inspect
import os
import secrets
import time
import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

START = datetime(2026, 3, 1, 20, 0, tzinfo=UTC)
_STATE = {"now": START}
_ASKED: Counter[str] = Counter()


def step(minutes: float = 1) -> None:
    """Let time pass."""
    _STATE["now"] += timedelta(minutes=minutes)


def reset() -> None:
    """Begin again: the first time, the first ids."""
    _STATE["now"] = START
    _ASKED.clear()


def pin() -> None:
    """Put the fixed clock and ids in the place of the process's own."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    # The class of the standard library is written in C and cannot be assigned to; each reader of `datetime.now` has it.
    methods: dict[str, Any] = gc.get_referents(datetime.__dict__)[0]
    methods["now"] = classmethod(lambda kind, tz=None: _STATE["now"] if tz else _STATE["now"].replace(tzinfo=None))
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(datetime))
    time.perf_counter = lambda: 0.0
    uuid.uuid4 = lambda: uuid.UUID(hex=_next(32), version=4)
    secrets.token_hex = lambda size=32: _next(2 * size)
    secrets.token_urlsafe = lambda size=32: _next(size * 4 // 3 + 1)


def _next(size: int) -> str:
    """Return the next id of the function that asks, so that another caller more does not move those of all others."""
    caller = inspect.stack(0)[2].function
    _ASKED[caller] += 1
    name = f"{_ASKED[caller]:x}{caller.encode().hex()}"
    return name.ljust(size, "0")[:size]

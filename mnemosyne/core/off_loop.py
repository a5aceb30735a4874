"""Runs large calculations in a worker thread, so that they do not block the event loop.

A switch to a worker thread and back costs about 0.1 ms, as much as planning most turns or judging most replies. So
small calculations run on the event loop. Only those that could delay other sessions go to a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from anyio import to_thread

SMALL_CHARS = 12_000
"""Largest size of a calculation that runs on the event loop, in characters. For this size, most steps of a turn take about
one millisecond; a step on the state takes a quarter of one, and splitting a text into words takes up to three.
"""

_NODE_CHARS = 8
_SCALARS = frozenset({int, float, bool, type(None)})
T = TypeVar("T")


async def calculate(work: Callable[..., T], *args: Any, size: int) -> T:
    """Return `work(*args)`. It runs in a worker thread if `size` (see `size_of`) is above SMALL_CHARS."""
    return work(*args) if size <= SMALL_CHARS else await to_thread.run_sync(work, *args)


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

"""How the processor time of work grows with the size of its input: the exponent of a power of the size, by least squares.

Linear work has 1, quadratic work 2. `grows_at_most` measures only as much as it needs to be sure that an exponent is not above the
bound: a time is the least of five, since other work of the machine can only add to it, and a large size is measured again only as
long as the exponent is above the bound.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import thread_time

MOST = 1.3
"""The greatest exponent, fitted to the times of at least three sizes."""
TIMES = 5
MEASURABLE_SECONDS = 0.001
"""Below this a time is mostly that of what is done for any text."""

Seconds = Callable[[int], float]
"""Does the work for a size and returns its processor time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Growth:
    """The least times of the sizes that were measured, in order, and the exponent that fits those that can be measured."""

    sizes: Sequence[int]
    seconds: Sequence[float]

    @property
    def exponent(self) -> float:
        """The slope of the logarithm of the time over that of the size; 0 where fewer than three times can be measured."""
        points = [
            (math.log(size), math.log(spent))
            for size, spent in zip(self.sizes, self.seconds, strict=True)
            if spent >= MEASURABLE_SECONDS
        ]
        if len(points) < 3:
            return 0.0
        middle = sum(x for x, _ in points) / len(points)
        height = sum(y for _, y in points) / len(points)
        spread = sum((x - middle) ** 2 for x, _ in points)
        return sum((x - middle) * (y - height) for x, y in points) / spread

    def __str__(self) -> str:
        times = ", ".join(
            f"{size:,}: {1000 * spent:.1f} ms" for size, spent in zip(self.sizes, self.seconds, strict=True)
        )
        return f"exponent {self.exponent:.2f} ({times})"


@contextmanager
def no_collections() -> Iterator[None]:
    """Let the garbage collector wait: it reads all that lives, which has nothing to do with the work."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def sizes_up_to(limit: int, count: int = 5) -> tuple[int, ...]:
    """Return sizes that double up to a limit."""
    return tuple(max(1, limit >> step) for step in reversed(range(count)))


def measure(seconds: Seconds, sizes: Sequence[int], *, most: float = MOST, enough_seconds: float = 2.0) -> Growth:
    """Return the growth over the sizes, the smallest first.

    Every time is the least of up to five. A size whose work takes long is measured again only while the exponent is above `most`,
    and no larger one is measured once that is certain: after `enough_seconds` for one size.
    """
    done: list[float] = []
    with no_collections():
        for size in sizes:
            spent = [seconds(size)]
            while len(spent) < TIMES and (
                min(spent) < 10 * MEASURABLE_SECONDS or _exceeds(sizes, [*done, min(spent)], most)
            ):
                spent.append(seconds(size))
            done.append(min(spent))
            if done[-1] > enough_seconds:
                break
    return Growth(sizes=tuple(sizes[: len(done)]), seconds=tuple(done))


def _exceeds(sizes: Sequence[int], seconds: Sequence[float], most: float) -> bool:
    return Growth(sizes=sizes[: len(seconds)], seconds=seconds).exponent > most


def seconds_of(work: Callable[[str], object], make: Callable[[int], str], prepare: Callable[[], object]) -> Seconds:
    """Return what `measure` needs of work on a text; `prepare` runs before each measurement and does not count."""

    def seconds(size: int) -> float:
        text = make(size)
        prepare()
        started = thread_time()
        work(text)
        return thread_time() - started

    return seconds

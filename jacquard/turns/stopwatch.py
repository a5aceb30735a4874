"""Times the steps of one turn for its receipt; the figures never enter a prompt."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter


class Stopwatch:
    """Laps follow one another; marks count from the start and may overlap."""

    def __init__(self) -> None:
        self._start = self._last = perf_counter()
        self._steps: dict[str, float] = {}

    def lap(self, name: str) -> None:
        """Book the time since the last lap under `name`."""
        now = perf_counter()
        self._steps[name] = self._steps.get(name, 0.0) + (now - self._last) * 1000
        self._last = now

    def mark(self, name: str) -> None:
        """Book the time since the last lap under `name` without ending the lap."""
        self._steps[name] = (perf_counter() - self._last) * 1000

    def note(self, steps_ms: Mapping[str, float]) -> None:
        """Take over times that were measured elsewhere."""
        self._steps.update(steps_ms)

    def timings_ms(self) -> dict[str, float]:
        """Return milliseconds by step, with `total`."""
        total = (perf_counter() - self._start) * 1000
        return {name: round(value, 3) for name, value in {**self._steps, "total": total}.items()}

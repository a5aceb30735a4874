"""Keeps figures of the last hours in memory: requests, turns, times of their steps, paths and degradations, by tenant.

Nothing is stored, and the size is bounded. Each process of a service has its own history.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from math import ceil, log

from jacquard.remote.bodies import MetricsAnswer, MetricsPoint, StepTimes
from mnemosyne.schema.event import Event, EventType

MOST_MINUTES = 1_440
MOST_POINTS = 60
_GROWTH = 1.2
"""Ratio of the bounds of neighbouring time ranges; a percentile is at most this much too high."""
_MOST_NAMES = 100
"""Maximum number of different names that one minute counts of a kind."""


class _Minute:
    """Figures of one minute. Times are counted in ranges that grow by _GROWTH."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.counts: Counter[str] = Counter()
        self.paths: Counter[str] = Counter()
        self.degradations: Counter[str] = Counter()
        self.steps: dict[str, Counter[int]] = {}

    def count_step(self, name: str, milliseconds: float) -> None:
        """Count the time of one step of a turn."""
        if name in self.steps or len(self.steps) < _MOST_NAMES:
            place = max(0, ceil(log(max(milliseconds, 0.001) / 0.1, _GROWTH)))
            self.steps.setdefault(name, Counter())[place] += 1


class TenantHistory:
    """Figures of the requests and turns of one tenant in the last hours."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._minutes: deque[_Minute] = deque(maxlen=MOST_MINUTES)

    def count_request(self, status: int) -> None:
        """Count an answered request."""
        counts = self._now().counts
        counts["requests"] += 1
        counts["refused"] += status >= 400

    def count_event(self, event: Event) -> None:
        """Count an event of the tenant's engine."""
        facts = event.payload
        if event.event_type is EventType.DEGRADED:
            _count(self._now().degradations, str(facts.get("reason")))
        elif event.event_type is EventType.ASSEMBLED:
            now = self._now()
            now.counts["turns"] += 1
            now.counts["tokens"] += facts["tokens"]
            now.counts["shared"] += facts["shared_prefix_tokens"]
            _count(now.paths, str(facts["stream_b"]))
            for step, milliseconds in facts.get("timings_ms", {}).items():
                now.count_step(str(step), milliseconds)

    def summarize(self, minutes: int, processes: int) -> MetricsAnswer:
        """Return the figures of the last `minutes` minutes, in at most MOST_POINTS points, oldest first."""
        width = ceil(minutes / MOST_POINTS)
        last = int(self._clock() // 60)
        first = last - minutes + 1
        known = [each for each in self._minutes if each.number >= first]
        parts: dict[int, list[_Minute]] = {}
        for each in known:
            parts.setdefault((each.number - first) // width, []).append(each)
        return MetricsAnswer(
            minutes=minutes,
            point_minutes=width,
            processes=processes,
            total=_point(first, known),
            points=tuple(_point(first + at * width, parts.get(at, ())) for at in range(ceil(minutes / width))),
        )

    def _now(self) -> _Minute:
        number = int(self._clock() // 60)
        if not self._minutes or self._minutes[-1].number < number:
            self._minutes.append(_Minute(number))
        return self._minutes[-1]


class ServiceHistory:
    """Histories of the tenants that were used last, at most `most_tenants` of them."""

    def __init__(self, most_tenants: int) -> None:
        self._most = most_tenants
        self._tenants: OrderedDict[str, TenantHistory] = OrderedDict()

    def of(self, tenant: str) -> TenantHistory:
        """Return the history of a tenant."""
        found = self._tenants.get(tenant)
        if found is None:
            found = self._tenants[tenant] = TenantHistory()
            while len(self._tenants) > self._most:
                self._tenants.popitem(last=False)
        self._tenants.move_to_end(tenant)
        return found


def _count(counts: Counter[str], name: str) -> None:
    if name in counts or len(counts) < _MOST_NAMES:
        counts[name] += 1


def _point(number: int, minutes: Iterable[_Minute]) -> MetricsPoint:
    counts: Counter[str] = Counter()
    paths: Counter[str] = Counter()
    degradations: Counter[str] = Counter()
    steps: dict[str, Counter[int]] = {}
    for each in minutes:
        counts.update(each.counts)
        paths.update(each.paths)
        degradations.update(each.degradations)
        for name, places in each.steps.items():
            steps.setdefault(name, Counter()).update(places)
    return MetricsPoint(
        at=datetime.fromtimestamp(number * 60, UTC),
        requests=counts["requests"],
        refused=counts["refused"],
        turns=counts["turns"],
        tokens=counts["tokens"],
        shared_tokens=counts["shared"],
        paths=dict(sorted(paths.items())),
        degradations=dict(sorted(degradations.items())),
        steps={name: _times(places) for name, places in sorted(steps.items())},
    )


def _times(places: Mapping[int, int]) -> StepTimes:
    ordered, total = sorted(places.items()), sum(places.values())

    def at_least(share: float) -> float:
        seen = 0
        for place, count in ordered:
            seen += count
            if seen >= share * total:
                return round(0.1 * _GROWTH**place, 1)
        return 0.0

    return StepTimes(count=total, p50_ms=at_least(0.5), p95_ms=at_least(0.95))

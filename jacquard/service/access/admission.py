"""Admission: how many requests are worked on, how many wait, how many a tenant may make; what is above is refused at once.

Sessions take turns where requests wait, so one that sends many holds up no other. Requests that took long the last time have a
few of the places, so that long ones do not take all.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic
from typing import NamedTuple

import anyio

from jacquard.config.service import ServiceLimits

_MINUTE_SECONDS = 60.0
_MOST_REMEMBERED = 4_096


class TooManyRequestsError(Exception):
    """A request is refused because there are too many; `seconds` says when to come again, `reason` why, in words."""

    def __init__(self, reason: str, seconds: int) -> None:
        self.reason, self.seconds = reason, seconds
        super().__init__(reason)


class Asked(NamedTuple):
    """Who asks for what: requests of one session and kind are expected to take about as long as the last one did."""

    tenant: str
    session_id: str = ""
    kind: str = ""


class FairQueue:
    """Requests that wait: sessions take turns, those of one session keep their order."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[tuple[str, str], deque[anyio.Event]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def push(self, asked: Asked) -> anyio.Event:
        """Let a request wait; the event is set when its turn has come."""
        turn = anyio.Event()
        self._waiting.setdefault(asked[:2], deque()).append(turn)
        self._count += 1
        return turn

    def pop(self) -> anyio.Event:
        """Take out the request whose turn it is; there has to be one."""
        who, turns = self._waiting.popitem(last=False)
        turn = turns.popleft()
        if turns:
            self._waiting[who] = turns
        self._count -= 1
        return turn

    def remove(self, asked: Asked, turn: anyio.Event) -> None:
        """Take out a request that waits no longer."""
        turns = self._waiting[asked[:2]]
        turns.remove(turn)
        if not turns:
            del self._waiting[asked[:2]]
        self._count -= 1


class Admission:
    """Lets requests of one process in, within the limits."""

    def __init__(self, limits: ServiceLimits) -> None:
        self.limits = limits
        self._running = self._long = 0
        self._waiting = {False: FairQueue(), True: FairQueue()}
        self._seconds: OrderedDict[Asked, float] = OrderedDict()
        self._by_tenant: dict[str, int] = {}
        self._recent: dict[str, deque[float]] = {}

    @property
    def running(self) -> int:
        """How many requests are worked on."""
        return self._running

    @property
    def long_running(self) -> int:
        """How many of them were expected to take long."""
        return self._long

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return sum(map(len, self._waiting.values()))

    @asynccontextmanager
    async def admit(self, asked: Asked) -> AsyncIterator[Callable[[], None]]:
        """Hold a place for one request; TooManyRequestsError where there is none in time.

        What is given gives the place back before the end, for a request that waits for another server; it counts among those of
        its tenant until its end.
        """
        tenant = asked.tenant
        self._check_tenant(tenant)
        self._by_tenant[tenant] = self._by_tenant.get(tenant, 0) + 1
        try:
            is_long = self._seconds.get(asked, 0.0) >= self.limits.long_seconds
            await self._enter(asked, is_long)
            began, has_left = monotonic(), False

            def leave() -> None:
                nonlocal has_left
                if not has_left:
                    has_left = True
                    self._remember(asked, monotonic() - began)
                    self._leave(is_long)

            try:
                yield leave
            finally:
                leave()
        finally:
            left = self._by_tenant[tenant] - 1
            if left:
                self._by_tenant[tenant] = left
            else:
                del self._by_tenant[tenant]

    def _check_tenant(self, tenant: str) -> None:
        limits, now = self.limits, monotonic()
        if limits.tenant_at_once and self._by_tenant.get(tenant, 0) >= limits.tenant_at_once:
            raise TooManyRequestsError(f"This tenant has {limits.tenant_at_once} requests under way already.", 1)
        if not limits.tenant_a_minute:
            return
        recent = self._recent.setdefault(tenant, deque())
        while recent and now - recent[0] >= _MINUTE_SECONDS:
            recent.popleft()
        if len(recent) >= limits.tenant_a_minute:
            seconds = max(1, round(_MINUTE_SECONDS - (now - recent[0])))
            raise TooManyRequestsError(f"This tenant has made {limits.tenant_a_minute} requests in a minute.", seconds)
        recent.append(now)

    async def _enter(self, asked: Asked, is_long: bool) -> None:
        queue = self._waiting[is_long]
        if not queue and self._has_place(is_long):
            self._take(is_long)
            return
        if self.waiting >= self.limits.waiting:
            raise TooManyRequestsError("The service has more requests than it can work on.", 1)
        turn = queue.push(asked)
        try:
            with anyio.move_on_after(self.limits.waiting_seconds):
                await turn.wait()
        except BaseException:
            if turn.is_set():
                self._leave(is_long)
            raise
        finally:
            if not turn.is_set():
                queue.remove(asked, turn)
        if not turn.is_set():
            raise TooManyRequestsError("The service is busy; the request waited as long as it may.", 1)

    def _has_place(self, is_long: bool) -> bool:
        return self._running < self.limits.at_once and (not is_long or self._long < self.limits.long_at_once)

    def _take(self, is_long: bool) -> None:
        self._running += 1
        self._long += is_long

    def _leave(self, is_long: bool) -> None:
        """Give a place back, and to those that wait what places there are."""
        self._running -= 1
        self._long -= is_long
        while (next_is_long := self._choose()) is not None:
            self._take(next_is_long)
            self._waiting[next_is_long].pop().set()

    def _choose(self) -> bool | None:
        """Return whether a long request is next, None where none may enter. Short ones go first while a long one is worked on."""
        for is_long in (True, False) if not self._long else (False, True):
            if self._waiting[is_long] and self._has_place(is_long):
                return is_long
        return None

    def _remember(self, asked: Asked, seconds: float) -> None:
        self._seconds[asked] = seconds
        self._seconds.move_to_end(asked)
        if len(self._seconds) > _MOST_REMEMBERED:
            self._seconds.popitem(last=False)

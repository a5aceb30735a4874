"""Admission: how many requests are worked on, how many wait, how many a tenant may make; what is above is refused at once."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic

import anyio

from jacquard.config.service import ServiceLimits

_MINUTE_SECONDS = 60.0


class TooManyRequestsError(Exception):
    """A request is refused because there are too many; `seconds` says when to come again, `reason` why, in words."""

    def __init__(self, reason: str, seconds: int) -> None:
        self.reason, self.seconds = reason, seconds
        super().__init__(reason)


class Admission:
    """Lets requests of one process in, one after the other, within the limits."""

    def __init__(self, limits: ServiceLimits) -> None:
        self._limits = limits
        self._running = 0
        self._waiting: deque[anyio.Event] = deque()
        self._by_tenant: dict[str, int] = {}
        self._recent: dict[str, deque[float]] = {}

    @property
    def running(self) -> int:
        """How many requests are worked on."""
        return self._running

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._waiting)

    @asynccontextmanager
    async def admit(self, tenant: str) -> AsyncIterator[Callable[[], None]]:
        """Hold a place for one request; TooManyRequestsError where there is none in time.

        What is given gives the place back before the end, for a request that waits for another server; it counts among those of
        its tenant until its end.
        """
        self._check_tenant(tenant)
        self._by_tenant[tenant] = self._by_tenant.get(tenant, 0) + 1
        try:
            await self._enter()
            has_left = False

            def leave() -> None:
                nonlocal has_left
                if not has_left:
                    has_left = True
                    self._leave()

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
        limits, now = self._limits, monotonic()
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

    async def _enter(self) -> None:
        if self._running < self._limits.at_once and not self._waiting:
            self._running += 1
            return
        if len(self._waiting) >= self._limits.waiting:
            raise TooManyRequestsError("The service has more requests than it can work on.", 1)
        turn = anyio.Event()
        self._waiting.append(turn)
        try:
            with anyio.move_on_after(self._limits.waiting_seconds):
                await turn.wait()
        finally:
            if not turn.is_set():
                self._waiting.remove(turn)
        if not turn.is_set():
            raise TooManyRequestsError("The service is busy; the request waited as long as it may.", 1)

    def _leave(self) -> None:
        """Give the place to the request that has waited longest."""
        if self._waiting:
            self._waiting.popleft().set()
        else:
            self._running -= 1

"""Limits how many requests run and wait at the same time, in total and for each tenant. Other requests are refused at
once.

Waiting requests are served by turns: one tenant after the other, and one session of a tenant after the other. Therefore
a sender of many requests does not delay other senders. A place is the right of one request to be processed. Requests
that took long the last time may use only some of the places. A request has a place only while it is processed. It has no
place while the client sends its body or reads its answer.
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
    """Raised if a request is refused because there are too many. `reason` is a sentence; the client may retry after
    `seconds`.
    """

    def __init__(self, reason: str, seconds: int) -> None:
        self.reason, self.seconds = reason, seconds
        super().__init__(reason)


class AdmissionRequest(NamedTuple):
    """Request that asks for a place. The request is expected to take as long as the last request with the same tenant,
    session and kind.
    """

    tenant: str
    session_id: str = ""
    kind: str = ""


class Shares:
    """Counts the units of a limited resource that each tenant holds.

    If `is_fair` is true, a tenant that already holds units gets more only if, after that, at least as many units are
    free as the tenant held before. Therefore other tenants always find free units.
    """

    def __init__(self, limit: int, *, is_fair: bool) -> None:
        self.limit, self.total = limit, 0
        self._is_fair, self._by_tenant = is_fair, dict[str, int]()

    def held_by(self, tenant: str) -> int:
        """Return how many units a tenant holds."""
        return self._by_tenant.get(tenant, 0)

    def take(self, tenant: str, units: int = 1) -> bool:
        """Give `units` to a tenant if the limit and its share allow this. Return whether the tenant got them."""
        held = self.held_by(tenant)
        if self.total + units > self.limit or (self._is_fair and held and self.total + units + held > self.limit):
            return False
        self._by_tenant[tenant], self.total = held + units, self.total + units
        return True

    def give_back(self, tenant: str, units: int = 1) -> None:
        """Take `units` back from a tenant."""
        self.total -= units
        self._by_tenant[tenant] -= units
        if not self._by_tenant[tenant]:
            del self._by_tenant[tenant]


class FairQueue:
    """Waiting requests, served by turns: one tenant after the other, and one session of a tenant after the other.

    Requests of one session keep their order.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, OrderedDict[str, deque[anyio.Event]]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def push(self, asked: AdmissionRequest) -> anyio.Event:
        """Add a request. Return the event of the request, which the caller of `pop` sets when the request may enter."""
        turn = anyio.Event()
        sessions = self._waiting.setdefault(asked.tenant, OrderedDict())
        sessions.setdefault(asked.session_id, deque()).append(turn)
        return turn

    def pop(self) -> anyio.Event:
        """Remove the next request and return its event. The queue must not be empty."""
        tenant, sessions = self._waiting.popitem(last=False)
        session_id, turns = sessions.popitem(last=False)
        turn = turns.popleft()
        if turns:
            sessions[session_id] = turns
        if sessions:
            self._waiting[tenant] = sessions
        return turn

    def remove(self, asked: AdmissionRequest, turn: anyio.Event) -> None:
        """Remove a request that stopped waiting before its turn came."""
        sessions = self._waiting[asked.tenant]
        sessions[asked.session_id].remove(turn)
        if not sessions[asked.session_id]:
            del sessions[asked.session_id]
        if not sessions:
            del self._waiting[asked.tenant]


class Admission:
    """Admits the requests of one process within `limits`. If `is_fair` is true, no tenant can use up the places of all
    others.
    """

    def __init__(self, limits: ServiceLimits, *, is_fair: bool = False) -> None:
        self.limits = limits
        self._running = self._long = 0
        self._waiting = {False: FairQueue(), True: FairQueue()}
        self._seconds: OrderedDict[AdmissionRequest, float] = OrderedDict()
        self._queued = Shares(limits.waiting, is_fair=is_fair)
        # Including requests that released their place, until their answer is read.
        self._under_way = Shares(limits.at_once + limits.waiting + limits.streams, is_fair=is_fair)
        self._recent: dict[str, deque[float]] = {}

    @property
    def running(self) -> int:
        """Number of running requests."""
        return self._running

    @property
    def long_running(self) -> int:
        """Number of running requests that were expected to take long."""
        return self._long

    @property
    def waiting(self) -> int:
        """Number of waiting requests."""
        return self._queued.total

    @asynccontextmanager
    async def admit(self, asked: AdmissionRequest) -> AsyncIterator[Callable[[], None]]:
        """Hold a place for one request during the block. Raises TooManyRequestsError if the tenant has reached a limit,
        or no place becomes free in time.

        The yielded function gives up the place early, for a request that waits for another server or for its client. Until
        the block ends, the request still counts among the requests of its tenant.
        """
        tenant = asked.tenant
        self._check_tenant(tenant)
        if not self._under_way.take(tenant):
            raise TooManyRequestsError("Too many answers are not read to their end yet.", 1)
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
            self._under_way.give_back(tenant)

    def _check_tenant(self, tenant: str) -> None:
        limits, now = self.limits, monotonic()
        if limits.tenant_at_once and self._under_way.held_by(tenant) >= limits.tenant_at_once:
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

    async def _enter(self, asked: AdmissionRequest, is_long: bool) -> None:
        queue = self._waiting[is_long]
        if not queue and self._has_place(is_long):
            self._take(is_long)
            return
        if not self._queued.take(asked.tenant):
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
            self._queued.give_back(asked.tenant)
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
        """Release a place, and give free places to waiting requests."""
        self._running -= 1
        self._long -= is_long
        while (next_is_long := self._choose()) is not None:
            self._take(next_is_long)
            self._waiting[next_is_long].pop().set()

    def _choose(self) -> bool | None:
        """Return whether a long request is next, None if none may enter; short ones come first while a long one is running."""
        for is_long in (True, False) if not self._long else (False, True):
            if self._waiting[is_long] and self._has_place(is_long):
                return is_long
        return None

    def _remember(self, asked: AdmissionRequest, seconds: float) -> None:
        self._seconds[asked] = seconds
        self._seconds.move_to_end(asked)
        if len(self._seconds) > _MOST_REMEMBERED:
            self._seconds.popitem(last=False)

"""The circuit breaker (spec B5): a selector that keeps failing is not called for a while.

It knows the time only by the clock that it is given, and must not import anything that waits.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from enum import StrEnum

from jacquard.core.errors import SelectorError
from jacquard.core.protocols import Selection, SelectionRequest, Selector

_log = logging.getLogger(__name__)


class BreakerChange(StrEnum):
    """What a breaker did; it stands in the log record of it as `breaker`, with the clock's seconds as `breaker_at`."""

    OPENED = "opened"
    TRIAL = "trial"
    REOPENED = "reopened"
    CLOSED = "closed"
    CLOSED_LATE = "closed_late"


_SENTENCES = {
    BreakerChange.OPENED: "opened after %d failures in a row; no call is made for %g s",
    BreakerChange.TRIAL: "lets one call through as a trial (%d failures, %g s are over)",
    BreakerChange.REOPENED: "opened again: the trial failed (%d failures in a row); no call is made for %g s",
    BreakerChange.CLOSED: "closed: the trial worked after %d failures and at least %g s",
    BreakerChange.CLOSED_LATE: "closed before its time: an answer came late after all (%d failures, limit %g s)",
}


class CircuitBreaker:
    """Counts failures in a row.

    Closed: every call is admitted. After `failure_limit` failures in a row it opens: none is, for `reset_seconds`. Then
    it is half open: one call is admitted as a trial; its success closes the breaker, its failure opens it again. Calls that
    were admitted before it opened do not keep it open longer when they fail, and close it when they work after all. Each
    change is logged. `clock` returns monotonic seconds.
    """

    def __init__(
        self, failure_limit: int = 3, reset_seconds: float = 30.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if failure_limit < 1:
            raise ValueError("failure_limit must be at least 1")
        self._failure_limit, self._reset_seconds, self._clock = failure_limit, reset_seconds, clock
        self._failures = 0
        self._opened_at: float | None = None
        self._on_trial = False

    @property
    def failures(self) -> int:
        """Failures in a row so far."""
        return self._failures

    def remaining_seconds(self) -> float:
        """Return how long it stays open, 0 when it is closed or half open."""
        if self._opened_at is None:
            return 0.0
        return max(0.0, self._opened_at + self._reset_seconds - self._clock())

    def admit(self) -> bool:
        """Say whether a call may be made now; every admitted call must end in `succeed`, `fail` or `abandon`."""
        if self._opened_at is None:
            return True
        now = self._clock()
        if self._on_trial or now < self._opened_at + self._reset_seconds:
            return False
        self._on_trial = True
        self._say(BreakerChange.TRIAL, now)
        return True

    def succeed(self) -> None:
        """Book a call that worked."""
        if self._opened_at is not None:
            self._say(BreakerChange.CLOSED if self._on_trial else BreakerChange.CLOSED_LATE, self._clock())
        self._failures, self._opened_at, self._on_trial = 0, None, False

    def fail(self) -> None:
        """Book a call that did not."""
        self._failures += 1
        if self._opened_at is None:
            if self._failures >= self._failure_limit:
                self._opened_at = self._clock()
                self._say(BreakerChange.OPENED, self._opened_at)
        elif self._on_trial:
            self._opened_at, self._on_trial = self._clock(), False
            self._say(BreakerChange.REOPENED, self._opened_at)

    def miss(self) -> None:
        """Book a call that is still under way after the turn gave up waiting: a failure for as long as no answer comes."""
        self.fail()

    def abandon(self) -> None:
        """Book a call that was given up before anyone knew: it counts as nothing."""
        self._on_trial = False

    def _say(self, change: BreakerChange, at: float) -> None:
        level = logging.INFO if change in (BreakerChange.TRIAL, BreakerChange.CLOSED) else logging.WARNING
        sentence = f"the circuit breaker {_SENTENCES[change]}"
        _log.log(
            level, sentence, self._failures, self._reset_seconds, extra={"breaker": change.value, "breaker_at": at}
        )


class BreakingSelector:
    """A selector behind a circuit breaker: while that is open it raises SelectorError `circuit_open` at once.

    A turn that cannot wait any longer counts as a failure right then, not when the call itself ends: three turns on a server
    that hangs open the breaker. An answer that comes late after all closes it again, for a slow model still serves the next
    turn; the failure of a call that was missed counts once.
    """

    def __init__(self, selector: Selector, breaker: CircuitBreaker) -> None:
        self.name = selector.name
        self._selector = selector
        self._breaker = breaker

    async def select(self, request: SelectionRequest) -> Selection:
        """Return the selector's choice; its errors pass through and are counted."""
        if not request.candidates:
            return Selection(entry_ids=())
        breaker = self._breaker
        if not breaker.admit():
            wait = breaker.remaining_seconds()
            when = f"it is tried again in {wait:.0f} s" if wait else "a trial call is under way"
            raise SelectorError("circuit_open", f"{self.name} failed {breaker.failures} times in a row; {when}")
        missed = False

        def note_miss() -> None:
            nonlocal missed
            if under_way:
                missed = True
                breaker.miss()

        under_way = True
        if request.patience is not None:
            request.patience.on_end(note_miss)
        try:
            selection = await self._selector.select(request)
        except Exception:
            if not missed:
                breaker.fail()
            raise
        except BaseException:
            if not missed:
                breaker.abandon()
            raise
        finally:
            under_way = False
        breaker.succeed()
        return selection

"""Provides a circuit breaker for selectors: a selector that keeps failing is not called for some time.

The breaker reads the time only from the function `clock`. This module must not import anything that waits.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from enum import StrEnum

from jacquard.core.errors import SelectorError
from jacquard.core.protocols import Selection, SelectionContext, SelectionRequest, Selector
from mnemosyne.core.masking.call_logs import open_log

_log = open_log(__name__)


class BreakerChange(StrEnum):
    """Change of a breaker. The log record of a change has the fields `breaker` (the change) and `breaker_at` (seconds
    of the breaker's clock).
    """

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
    """Admits calls or refuses them, by the number of consecutive failures.

    - Closed: every call is admitted. After `failure_limit` consecutive failures the breaker opens.
    - Open: no call is admitted for `reset_seconds`. Then the breaker is half open.
    - Half open: one call is admitted as a trial. If the trial succeeds, the breaker closes; if it fails, the breaker opens again.

    A call that was admitted before the breaker opened may end after that. If this call fails, the breaker does not stay
    open longer; if it succeeds, the breaker closes. Each change is logged. `clock` returns monotonic seconds. Raises
    ValueError if `failure_limit` is below 1.
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
        """Number of consecutive failures."""
        return self._failures

    def remaining_seconds(self) -> float:
        """Return the seconds until the breaker is half open; 0 if it is closed or half open."""
        if self._opened_at is None:
            return 0.0
        return max(0.0, self._opened_at + self._reset_seconds - self._clock())

    def admit(self) -> bool:
        """Return whether a call may be made now. Every admitted call must end with `succeed`, `fail` or `abandon`."""
        if self._opened_at is None:
            return True
        now = self._clock()
        if self._on_trial or now < self._opened_at + self._reset_seconds:
            return False
        self._on_trial = True
        self._log_change(BreakerChange.TRIAL, now)
        return True

    def succeed(self) -> None:
        """Record that an admitted call succeeded, and close the breaker."""
        if self._opened_at is not None:
            self._log_change(BreakerChange.CLOSED if self._on_trial else BreakerChange.CLOSED_LATE, self._clock())
        self._failures, self._opened_at, self._on_trial = 0, None, False

    def fail(self) -> None:
        """Record that an admitted call failed. Open the breaker if the limit of failures is reached or if the call was
        the trial.
        """
        self._failures += 1
        if self._opened_at is None:
            if self._failures >= self._failure_limit:
                self._opened_at = self._clock()
                self._log_change(BreakerChange.OPENED, self._opened_at)
        elif self._on_trial:
            self._opened_at, self._on_trial = self._clock(), False
            self._log_change(BreakerChange.REOPENED, self._opened_at)

    def miss(self) -> None:
        """Record that a turn stopped waiting for an admitted call. The call counts as failed at once; if its answer
        still arrives, call `succeed`.
        """
        self.fail()

    def abandon(self) -> None:
        """Record that a call was cancelled before it had a result. The call is not counted."""
        self._on_trial = False

    def _log_change(self, change: BreakerChange, at: float) -> None:
        level = logging.INFO if change in (BreakerChange.TRIAL, BreakerChange.CLOSED) else logging.WARNING
        sentence = f"the circuit breaker {_SENTENCES[change]}"
        _log.log(
            level, sentence, self._failures, self._reset_seconds, extra={"breaker": change.value, "breaker_at": at}
        )


class BreakingSelector:
    """Calls a selector through a circuit breaker. While the breaker is open, each call raises SelectorError
    `circuit_open` at once.

    A turn that stops waiting for the selector counts as a failure at once, before the call ends. Turns that wait for a
    hanging server therefore open the breaker. A late answer closes the breaker again, because a slow model can still
    serve the next turn. If a turn stopped waiting for a call and the call then fails, this is one failure and not two.
    """

    def __init__(self, selector: Selector, breaker: CircuitBreaker) -> None:
        self.name = selector.name
        self._selector = selector
        self._breaker = breaker
        self._last_failure = ""

    async def select(self, request: SelectionRequest, context: SelectionContext | None = None) -> Selection:
        """Return the selection that the selector makes for `request`. Errors of the selector are counted and raised
        again.

        Raises SelectorError with the code `circuit_open` while the breaker is open. `context` is passed on to the
        selector.
        """
        if not request.candidates:
            return Selection(entry_ids=())
        breaker = self._breaker
        if not breaker.admit():
            wait = breaker.remaining_seconds()
            when = f"it is tried again in {wait:.0f} s" if wait else "a trial call is under way"
            failed = f"{self.name} failed {breaker.failures} times in a row"
            raise SelectorError("circuit_open", f"{failed}{self._last_failure}; {when}")
        missed = False

        def note_miss() -> None:
            nonlocal missed
            if under_way:
                missed = True
                breaker.miss()

        under_way = True
        if context is not None:
            context.cancellation.on_end(note_miss)
        try:
            selection = await self._selector.select(request, context)
        except Exception as error:
            self._last_failure = f", the last time by {getattr(error, 'detail', error)}"
            if not missed:
                breaker.fail()
            raise
        except BaseException:
            # A cancelled call shows nothing about the model: it counts neither as a failure nor as a success.
            if not missed:
                breaker.abandon()
            raise
        finally:
            under_way = False
        breaker.succeed()
        return selection

"""The circuit breaker, on a clock that a test turns by hand."""

from __future__ import annotations

import anyio
import pytest
from curation_parts import asked, candidate

from jacquard import (
    Selection,
    SelectionContext,
    SelectionRequest,
    SelectorError,
)
from jacquard.pipeline.curation.breaker import BreakingSelector, CircuitBreaker

pytestmark = pytest.mark.anyio


class HandClock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


class ScriptedSelector:
    """Works or fails as told; counts how often it was asked."""

    name = "scripted"

    def __init__(self) -> None:
        self.works = False
        self.asked = 0
        self.hold: anyio.Event | None = None

    async def select(self, request: SelectionRequest, context: SelectionContext | None = None) -> Selection:
        self.asked += 1
        if self.hold is not None:
            await self.hold.wait()
        if not self.works:
            raise SelectorError("timeout", "no answer")
        return Selection(entry_ids=(request.candidates[0].entry_id,))


async def codes(selector: BreakingSelector, times: int) -> list[str]:
    found = []
    for _ in range(times):
        try:
            await selector.select(asked(candidate("a")))
            found.append("ok")
        except SelectorError as error:
            found.append(error.code)
    return found


async def test_three_failures_in_a_row_open_it_and_a_trial_after_the_pause_closes_it() -> None:
    clock, inner = HandClock(), ScriptedSelector()
    selector = BreakingSelector(inner, CircuitBreaker(failure_limit=3, reset_seconds=30, clock=clock))
    assert await codes(selector, 5) == ["timeout", "timeout", "timeout", "circuit_open", "circuit_open"]
    assert inner.asked == 3
    clock.seconds += 29.9
    assert await codes(selector, 1) == ["circuit_open"]
    clock.seconds += 0.2
    assert await codes(selector, 2) == ["timeout", "circuit_open"]
    clock.seconds += 30
    inner.works = True
    assert await codes(selector, 2) == ["ok", "ok"]
    inner.works = False
    assert await codes(selector, 4) == ["timeout", "timeout", "timeout", "circuit_open"]


async def test_a_success_between_failures_starts_the_count_again() -> None:
    inner = ScriptedSelector()
    selector = BreakingSelector(inner, CircuitBreaker(failure_limit=2, clock=HandClock()))
    for works in (False, True, False, True):
        inner.works = works
        assert "circuit_open" not in await codes(selector, 1)


async def test_half_open_admits_one_call_and_one_that_is_given_up_counts_as_nothing() -> None:
    clock, inner = HandClock(), ScriptedSelector()
    selector = BreakingSelector(inner, CircuitBreaker(failure_limit=1, reset_seconds=30, clock=clock))
    assert await codes(selector, 1) == ["timeout"]
    clock.seconds += 31
    inner.hold = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(selector.select, asked(candidate("a")))
        await anyio.wait_all_tasks_blocked()
        assert await codes(selector, 1) == ["circuit_open"]
        tasks.cancel_scope.cancel()
    inner.hold, inner.works = None, True
    assert await codes(selector, 1) == ["ok"]


async def test_an_empty_pool_is_no_call() -> None:
    inner = ScriptedSelector()
    breaker = CircuitBreaker(failure_limit=1, clock=HandClock())
    assert (await BreakingSelector(inner, breaker).select(asked())).entry_ids == ()
    assert inner.asked == 0


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="failure_limit"):
        CircuitBreaker(failure_limit=0)


async def test_calls_from_before_it_opened_neither_keep_it_open_nor_hide_that_they_work() -> None:
    clock = HandClock()
    breaker = CircuitBreaker(failure_limit=2, reset_seconds=30, clock=clock)
    for _ in range(4):
        assert breaker.admit()
    breaker.fail()
    breaker.fail()
    clock.seconds += 20
    breaker.fail()
    assert breaker.remaining_seconds() == 10
    breaker.succeed()
    assert breaker.admit()


async def test_every_change_is_logged_with_the_time_of_its_clock(caplog: pytest.LogCaptureFixture) -> None:
    clock = HandClock()
    breaker = CircuitBreaker(failure_limit=1, reset_seconds=30, clock=clock)
    with caplog.at_level("INFO", logger="jacquard.pipeline.curation.breaker"):
        breaker.fail()
        clock.seconds += 30
        assert breaker.admit()
        breaker.fail()
        clock.seconds += 31
        assert breaker.admit()
        breaker.succeed()
        breaker.fail()
        breaker.succeed()
    told = [(record.__dict__["breaker"], record.__dict__["breaker_at"]) for record in caplog.records]
    assert told == [
        ("opened", 100.0),
        ("trial", 130.0),
        ("reopened", 130.0),
        ("trial", 161.0),
        ("closed", 161.0),
        ("opened", 161.0),
        ("closed_late", 161.0),
    ]
    assert "opened after 1 failures in a row; no call is made for 30 s" in caplog.text

"""Places for requests: sessions take turns, long requests leave room for short ones, and no place is lost."""

from __future__ import annotations

import anyio
import pytest

from jacquard.config.service import ServiceLimits
from jacquard.service.access.admission import Admission, AdmissionRequest, TooManyRequestsError

pytestmark = pytest.mark.anyio


class Crowd:
    """Requests that hold their places until they are told to end; `entered` has their names in order."""

    def __init__(self, admission, tasks):
        self.admission, self.tasks = admission, tasks
        self.entered, self.ends = [], {}

    async def come(self, name, asked):
        self.ends[name] = anyio.Event()
        self.tasks.start_soon(self._stay, name, asked)
        await anyio.wait_all_tasks_blocked()

    async def end(self, *names):
        for name in names:
            self.ends[name].set()
            await anyio.wait_all_tasks_blocked()

    async def _stay(self, name, asked):
        async with self.admission.admit(asked):
            self.entered.append(name)
            await self.ends[name].wait()


def limits(**given):
    return ServiceLimits(waiting_seconds=600.0, **given)


async def test_sessions_take_turns():
    async with anyio.create_task_group() as tasks:
        crowd = Crowd(Admission(limits(at_once=1)), tasks)
        for name, session in (("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("c1", "c"), ("b2", "b")):
            await crowd.come(name, AdmissionRequest("t", session))
        await crowd.end("a1", "a2", "b1", "c1", "a3", "b2")
    assert crowd.entered == ["a1", "a2", "b1", "c1", "a3", "b2"]
    assert (crowd.admission.running, crowd.admission.waiting) == (0, 0)


async def test_long_requests_leave_places_to_short_ones():
    admission = Admission(limits(at_once=3, long_at_once=1, long_seconds=0.01))
    long = [AdmissionRequest("t", f"long{number}", "import") for number in range(3)]
    for each in long:
        async with admission.admit(each):
            # Longer than `long_seconds`: it is long the next time.
            await anyio.sleep(0.02)
    async with anyio.create_task_group() as tasks:
        crowd = Crowd(admission, tasks)
        for number, each in enumerate(long):
            await crowd.come(f"long{number}", each)
        assert (crowd.entered, admission.long_running) == (["long0"], 1)
        await crowd.come("short0", AdmissionRequest("t", "s0", "turns"))
        await crowd.come("short1", AdmissionRequest("t", "s1", "turns"))
        await crowd.come("short2", AdmissionRequest("t", "s2", "turns"))
        assert crowd.entered == ["long0", "short0", "short1"]
        await crowd.end("short0")
        # While a long one is worked on short ones go first; else the long one that waits longest.
        assert crowd.entered[3:] == ["short2"]
        await crowd.end("long0")
        assert crowd.entered[4:] == ["long1"]
        await crowd.end("short1", "short2", "long1", "long2")
    assert (admission.running, admission.long_running, admission.waiting) == (0, 0, 0)


async def test_a_request_that_is_cancelled_while_it_waits_loses_no_place():
    admission = Admission(limits(at_once=1))
    async with anyio.create_task_group() as tasks:
        crowd = Crowd(admission, tasks)
        await crowd.come("one", AdmissionRequest("t", "one"))
        with anyio.move_on_after(0.01):
            async with admission.admit(AdmissionRequest("t", "two")):
                pytest.fail("there was no place")
        assert admission.waiting == 0
        await crowd.end("one")
    async with admission.admit(AdmissionRequest("t", "three")):
        assert admission.running == 1


async def test_a_request_whose_turn_comes_as_it_is_cancelled_gives_its_place_back():
    admission = Admission(limits(at_once=1))
    async with anyio.create_task_group() as tasks:
        crowd = Crowd(admission, tasks)
        await crowd.come("one", AdmissionRequest("t", "one"))
        async with anyio.create_task_group() as others:

            async def wait():
                async with admission.admit(AdmissionRequest("t", "two")):
                    pytest.fail("it was cancelled")

            others.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            crowd.ends["one"].set()
            others.cancel_scope.cancel()
    assert (admission.running, admission.waiting) == (0, 0)


async def test_more_than_may_wait_are_refused():
    admission = Admission(limits(at_once=1, waiting=1))
    async with anyio.create_task_group() as tasks:
        crowd = Crowd(admission, tasks)
        await crowd.come("one", AdmissionRequest("t", "one"))
        await crowd.come("two", AdmissionRequest("t", "two"))
        with pytest.raises(TooManyRequestsError, match="more requests than"):
            async with admission.admit(AdmissionRequest("t", "three")):
                pytest.fail("there was no place")
        await crowd.end("one", "two")

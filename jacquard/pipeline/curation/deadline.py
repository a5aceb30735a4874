"""Limits the time that a turn waits for Stream B (recall and selection of memories).

No other module of Stream B has a time limit. The work runs in the task group of the engine, so that the work can
continue after its turn has gone on. All work ends when the engine closes. `docs/decisions/0003-deadline.md` lists the
result of each limit. This module must not import a store, a model or a concrete selector.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup

from jacquard.config.sections import CurationConfig
from jacquard.core.model_calls import CallBook
from jacquard.core.protocols import SelectionContext
from jacquard.core.receipt import CurationPath
from jacquard.pipeline.curation.prefetch import is_keepable
from jacquard.pipeline.curation.stream import Curation, CurationRequest, CurationStream
from mnemosyne.core.masking.call_logs import open_log
from mnemosyne.schema.query import Recall
from mnemosyne.values import dataclass

_log = open_log(__name__)
Keep = Callable[[Curation], Awaitable[None]]
Ended = Callable[[], Awaitable[None]]
Near = Callable[[Curation], Awaitable[None]]
T = TypeVar("T")


@dataclass(slots=True)
class _Attempt:
    """One run of Stream B; `answered` is set once the turn continued without it, `missed` is the turn's result after the
    deadline.
    """

    scope: anyio.CancelScope
    recalled: anyio.Event = field(default_factory=anyio.Event)
    done: anyio.Event = field(default_factory=anyio.Event)
    recall: Recall | None = None
    result: Curation | None = None
    missed: Curation | None = None
    answered: bool = False
    context: SelectionContext = field(default_factory=SelectionContext)
    ended: anyio.Event = field(default_factory=anyio.Event)

    def on_recall(self, recall: Recall) -> None:
        """Record the recall while the selection continues."""
        self.recall = recall
        self.recalled.set()


NEAR_SECONDS = 0.1
"""Number of seconds before the deadline at which the result without the selector is prepared; at most a quarter of the
deadline.
"""


class TooLateError(Exception):
    """The awaited work did not finish in time and has been cancelled."""


async def within(limit_ms: int, work: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Return the result of `work(*args)`.

    Raises TooLateError if `work` takes more than `limit_ms` milliseconds; the work is then cancelled.
    """
    with anyio.move_on_after(limit_ms / 1000):
        return await work(*args)
    raise TooLateError


class CurationDeadline:
    """Runs Stream B for turns and returns a result in time.

    `task_group` must be open as long as turns are prepared. If it is cancelled, all background work ends.
    """

    def __init__(self, task_group: TaskGroup) -> None:
        self._tasks = task_group
        self._under_way: list[_Attempt] = []

    async def wait_until_idle(self) -> None:
        """Wait until no work is running, neither for a turn nor in the background."""
        while self._under_way:
            await self._under_way[0].ended.wait()

    async def run(
        self,
        stream: CurationStream,
        request: CurationRequest,
        limits: CurationConfig,
        on_late: Keep,
        on_end: Ended | None = None,
        on_near: Near | None = None,
        calls: CallBook | None = None,
    ) -> Curation:
        """Return the result of Stream B for a turn within `limits.deadline_ms`. Failures are reported in the result and
        never raised.

        - If the stream ends in time, its own result is returned.
        - If `selector_timeout_ms` has passed and recall is done, the fallback chooses (path fallback, code `selector_timeout`).
        - If the deadline has passed and recall is done, the fallback chooses (path fallback, code `deadline`).
        - If the deadline has passed and recall is still running, nothing is chosen (path timeout, code `deadline`).
        - After an unexpected error the fallback chooses if recall is done, else nothing is chosen (code `internal`).

        Work that still runs when the result is returned continues in the background, until at most
        `limits.background_seconds` after the deadline. Cancelling this call cancels the work.

        Args:
            stream: recalls and selects.
            request: input of the stream.
            limits: the time limits.
            on_late: called with a selection that the selector makes in the background; other late results are dropped.
            on_end: called once when work in the background ends, in any way.
            on_near: called shortly before the deadline with the result that is returned if nothing more arrives. The
                function is not called if `selector_timeout_ms` ends the wait sooner.
            calls: book in which the model calls are recorded (None: they are not recorded).
        """
        deadline_seconds = limits.deadline_ms / 1000
        lifetime = deadline_seconds + limits.background_seconds
        context = SelectionContext(calls=calls or CallBook())
        attempt = _Attempt(scope=anyio.CancelScope(deadline=anyio.current_time() + lifetime), context=context)
        self._under_way.append(attempt)
        self._tasks.start_soon(self._watch_attempt, stream, request, attempt, on_late, on_end)
        try:
            with anyio.move_on_after(deadline_seconds):
                await self._wait(stream, request, attempt, limits, on_near)
            attempt.answered = True
            if not attempt.done.is_set():
                # A selector that the turn could not wait for counts as failed at once, not when its call ends.
                attempt.context.cancellation.end()
            return await self._answer(stream, request, limits, attempt)
        except anyio.get_cancelled_exc_class():
            attempt.scope.cancel()
            raise

    async def _wait(
        self,
        stream: CurationStream,
        request: CurationRequest,
        attempt: _Attempt,
        limits: CurationConfig,
        on_near: Near | None,
    ) -> None:
        """Wait for the result; after the selector's time limit, accept the recall without it."""
        within, deadline = _selector_timeout_ms(limits), limits.deadline_ms / 1000
        if within is not None:
            with anyio.move_on_after(within / 1000):
                await attempt.done.wait()
                return
            await attempt.recalled.wait()
            return
        with anyio.move_on_after(deadline - min(NEAR_SECONDS, deadline / 4)):
            await attempt.done.wait()
            return
        # The deadline must not wait for this choice, so it is made before.
        attempt.missed = await _miss_deadline(stream, request, limits, attempt.recall)
        if on_near is not None:
            await on_near(attempt.missed)
        await attempt.done.wait()

    async def _answer(
        self, stream: CurationStream, request: CurationRequest, limits: CurationConfig, attempt: _Attempt
    ) -> Curation:
        if attempt.result is not None:
            return attempt.result
        if attempt.done.is_set():
            return Curation.skipped("closed", "Stream B was ended before it could choose: the engine was closed.")
        within = _selector_timeout_ms(limits)
        if within is not None and attempt.recall is not None and attempt.recall.candidates:
            reason = f"the selector had not answered after {within} ms"
            return await _fall_back(stream, request, attempt.recall, "selector_timeout", reason)
        if attempt.missed is not None and (attempt.recall is None or attempt.missed.recall is attempt.recall):
            return attempt.missed
        return await _miss_deadline(stream, request, limits, attempt.recall)

    async def _watch_attempt(
        self,
        stream: CurationStream,
        request: CurationRequest,
        attempt: _Attempt,
        on_late: Keep,
        on_end: Ended | None,
    ) -> None:
        try:
            await _work(stream, request, attempt)
            if attempt.answered and attempt.result is not None and is_keepable(attempt.result):
                await _keep(attempt.result, on_late)
            if attempt.answered and on_end is not None:
                await on_end()
        finally:
            self._under_way.remove(attempt)
            attempt.ended.set()


async def _miss_deadline(
    stream: CurationStream, request: CurationRequest, limits: CurationConfig, recall: Recall | None
) -> Curation:
    """Return the result of a turn whose deadline passes: the fallback's choice from the recall, else nothing."""
    if recall is not None and recall.candidates:
        reason = f"the selector had not answered after {limits.deadline_ms} ms"
        return await _fall_back(stream, request, recall, "deadline", reason)
    return Curation(
        path=CurationPath.TIMEOUT,
        code="deadline",
        reason=f"Recall was not ready after {limits.deadline_ms} ms; the prompt has no recalled memories.",
    )


async def _work(stream: CurationStream, request: CurationRequest, attempt: _Attempt) -> None:
    """Run the stream within its lifetime; its waiters are woken at the end, however it ends."""
    try:
        with attempt.scope:
            attempt.result = await _curate(stream, request, attempt)
    finally:
        attempt.recalled.set()
        attempt.done.set()


async def _keep(late: Curation, on_late: Keep) -> None:
    try:
        await on_late(late)
    except Exception:
        _log.exception("a late result of Stream B could not be kept")


def _selector_timeout_ms(limits: CurationConfig) -> int | None:
    """Return the limit; None if it is not below the deadline and so has no effect."""
    within = limits.selector_timeout_ms
    return within if within is not None and within < limits.deadline_ms else None


async def _curate(stream: CurationStream, request: CurationRequest, attempt: _Attempt) -> Curation:
    try:
        return await stream.curate(request, attempt.on_recall, attempt.context)
    except Exception as error:
        _log.exception("Stream B broke off")
        broke = f"Stream B broke off ({type(error).__name__}: {error})"
        if attempt.recall is None or not attempt.recall.candidates:
            return Curation.skipped("internal", f"{broke}.")
        return await _fall_back(stream, request, attempt.recall, "internal", broke)


async def _fall_back(
    stream: CurationStream, request: CurationRequest, recall: Recall, code: str, reason: str
) -> Curation:
    try:
        return await stream.fall_back(request, recall, code, reason)
    except Exception as error:
        _log.exception("the fallback broke off")
        return Curation.skipped("internal", f"The fallback broke off ({type(error).__name__}: {error}).", recall)

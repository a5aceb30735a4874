"""Makes rolling summaries when they are due, and stores them. A turn waits for a summary for a bounded time.

A summary is due when messages are neither in the summary nor in the history of the prompt. One job at a time makes the
summary of a branch. A turn waits for this job at most `summary.timeout_ms`. If the job takes longer, the following
turns use its result. Meanwhile the history shows all older messages that fit the budget, and the receipt states this.

A summary belongs to the turn that was the newest of its branch when the summary was made. Therefore a branch that is
forked before this turn does not have this summary, but has the summary of an earlier turn, if there is one. The
messages themselves are never changed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import field, replace

import anyio
from anyio.abc import TaskGroup

from jacquard.adapters.observe.bus import EventEmitter
from jacquard.config.sections import RuntimeConfig
from jacquard.core.degradations import DegradationCode
from jacquard.core.errors import SummarizerError
from jacquard.core.protocols import Summarizer
from jacquard.memory.summarize.batches import BatchSummarizer, RollingSummary
from jacquard.memory.summarize.extract import ExtractSummarizer
from jacquard.memory.summarize.span import (
    CUT,
    Coverage,
    coverage_of_summary,
    describe_unshown,
    find_due_depth,
    history_of,
    read_own_coverage,
    read_thinned,
)
from jacquard.pipeline.record.events import emit_usage
from jacquard.pipeline.skeleton.history import WindowLimits, count_loaded_messages, find_other_tokens, history_limits
from jacquard.pipeline.turn import ShownHistory
from jacquard.pipeline.worlds import WorldSource
from mnemosyne.chains.audience import may_read, read_audience
from mnemosyne.core.errors import ContextEngineError
from mnemosyne.core.masking.call_logs import open_log
from mnemosyne.core.off_loop import calculate, on_loop
from mnemosyne.core.tokens import KEPT_CHARS
from mnemosyne.protocols import Clock, Store, TokenEstimator
from mnemosyne.schema.document import Summary
from mnemosyne.schema.event import EventType
from mnemosyne.schema.record import SessionWindow
from mnemosyne.schema.session import WindowMessage
from mnemosyne.values import dataclass

_ALL = 1_000_000_000
_log = open_log(__name__)

Shown = tuple[SessionWindow, ShownHistory, tuple[str, ...]]
"""Window with its summary, the history to show, and degradation codes."""

Hold = Callable[[str], AbstractAsyncContextManager[None]]


@dataclass(slots=True)
class _Job:
    done: anyio.Event = field(default_factory=anyio.Event)
    ended: anyio.Event = field(default_factory=anyio.Event)
    result: RollingSummary | None = None
    is_written: bool = False


class SummaryRoller:
    """Makes and stores the rolling summaries of all sessions.

    `hold(session_id)` locks a session for a write in the background. `tasks` is a task group that lives longer than a
    turn. `failures` maps the id of a session to the reason why its last summary failed.
    """

    def __init__(
        self,
        store: Store,
        worlds: WorldSource,
        estimator: TokenEstimator,
        clock: Clock,
        summarizer: Summarizer | None,
        tasks: TaskGroup,
        hold: Hold,
        emitter: EventEmitter,
        failures: dict[str, str],
    ) -> None:
        self._store, self._count, self._worlds, self._clock = store, estimator.estimate, worlds, clock
        self._is_local = summarizer is None
        self._batches = BatchSummarizer(
            store,
            worlds,
            estimator.estimate,
            clock,
            summarizer or ExtractSummarizer(estimator.estimate),
            is_local=self._is_local,
        )
        self._tasks, self._hold, self._emitter = tasks, hold, emitter
        self._jobs: dict[tuple[str, str], _Job] = {}
        self._searches: list[anyio.Event] = []
        self._failures = failures

    async def wait_until_idle(self) -> None:
        """Wait until no summary is being made."""
        while self._searches or self._jobs:
            await (self._searches[0] if self._searches else next(iter(self._jobs.values())).ended).wait()

    async def prepare_summary(
        self, window: SessionWindow, config: RuntimeConfig, limits: WindowLimits, widest: WindowLimits
    ) -> Shown | tuple[SessionWindow, WindowLimits, tuple[str, ...]]:
        """Make a summary if messages are neither in the present summary nor in the history. Return (window, history,
        codes): the window with its summary, the history to show, and degradation codes.

        `limits` are the limits of the history, and `widest` those of a turn whose summary is late or failed. If a model
        made the summary, or if there is none in time, the second item is not the history but its limits. The caller,
        who holds the lock of the session, must then read the window again with as many messages as these limits need,
        and call `show` with them.
        """
        if not config.summary.enabled or not _is_readable(window, config.viewer):
            return await self.show(window, config, limits)
        coverage = await self._load_coverage(window)
        shown, upto = await self._check_history(window, coverage, limits, config)
        if upto is None:
            return window, _describe_history(window, coverage, shown), _find_codes(window)
        result = await on_loop(self._make, window, coverage, upto, config)
        if result is not None and result.summary is not None:
            if not self._is_local:
                # A model call also writes its usage and evidence into the session.
                return window, limits, ()
            return await self.show(replace(window, summary=result.path_summary or window.summary), config, limits)
        failure = self._failures.get(window.head.session_id) if result is None else result.failure
        code = DegradationCode.SUMMARIZE_LATE if failure is None else f"{DegradationCode.SUMMARIZE_FAILED}: {failure}"
        return window, widest, (code,)

    async def _make(
        self, window: SessionWindow, coverage: Coverage, upto: int, config: RuntimeConfig
    ) -> RollingSummary | None:
        """Make the next summary. If it is made in time, write it and return it. Return None otherwise."""
        job = self._start_job(window, coverage, upto, config)
        result = await self._await_job(job, window.head.session_id, config)
        if result is not None:
            await self._write(job)
        return result

    async def show(self, window: SessionWindow, config: RuntimeConfig, limits: WindowLimits) -> Shown:
        """Return (window, history, codes): the window, the history of messages that the summary of the window does not
        cover, and degradation codes.

        The summary is removed from the window if the viewer must not know it.
        """
        coverage = Coverage()
        if config.summary.enabled and _is_readable(window, config.viewer):
            coverage = await self._load_coverage(window)
        else:
            window = replace(window, summary=None)
        history = await self._load_history(window, coverage, limits)
        return window, _describe_history(window, coverage, history), _find_codes(window)

    async def _load_history(
        self, window: SessionWindow, coverage: Coverage, limits: WindowLimits
    ) -> tuple[WindowMessage, ...]:
        return await calculate(history_of, window, coverage, limits, self._count, size=_count_unread_chars(window))

    async def _check_history(
        self, window: SessionWindow, coverage: Coverage, limits: WindowLimits, config: RuntimeConfig
    ) -> tuple[tuple[WindowMessage, ...], int | None]:
        """Return the history to show, and the depth up to which a summary must reach (None: it already does)."""
        shown = await self._load_history(window, coverage, limits)
        size = _count_unread_chars(window)
        return shown, await calculate(find_due_depth, window, coverage, shown, config.summary, self._count, size=size)

    def begin_next_summary(self, session_id: str, turn_id: str, config: RuntimeConfig) -> None:
        """Start to make the summary that the next turn will need, in the background. Call this after a committed turn.
        Without a model for summaries, nothing is started.
        """
        if not self._is_local and config.summary.enabled:
            finished = anyio.Event()
            self._searches.append(finished)
            self._tasks.start_soon(self._run_next_summary, session_id, turn_id, config, finished)

    async def _run_next_summary(
        self,
        session_id: str,
        turn_id: str,
        config: RuntimeConfig,
        finished: anyio.Event,
    ) -> None:
        try:
            branch_id = (await self._store.turn(session_id, turn_id)).branch_id
            limit = count_loaded_messages(config)
            window = await self._store.window(session_id, message_limit=limit, branch_id=branch_id)
            limits = history_limits(config, find_other_tokens(window))
            coverage = await self._load_coverage(window)
            _, upto = await self._check_history(window, coverage, limits, config)
            if upto is not None:
                self._start_job(window, coverage, upto, config)
        except ContextEngineError:
            _log.exception("the next summary of session %s could not be begun", session_id)
        finally:
            self._searches.remove(finished)
            finished.set()

    async def roll(self, session_id: str, config: RuntimeConfig, branch_id: str | None = None) -> Summary | None:
        """Summarize a branch now, except for its last `preserve_recent_messages`, even if no summary is due (for
        imported sessions).

        Return the new summary, or None if there is nothing new to summarize. Raises SummarizerError if no summary can
        be made. Raises SessionNotFoundError if the session does not exist. `branch_id` is the branch (None: the active
        branch).
        """
        least = max(1, config.summary.preserve_recent_messages)
        window = await self._store.window(session_id, message_limit=least, branch_id=branch_id)
        coverage = await self._load_coverage(window)
        upto = window.messages[0].depth - 1 if window.messages else 0
        if upto <= coverage.depth:
            return None
        made = await self._batches.summarize(window, coverage, upto, config)
        await self._keep(made)
        if made.summary is None:
            raise SummarizerError(made.failure)
        return made.summary

    async def tell_whole(self, window: SessionWindow, config: RuntimeConfig) -> Summary | None:
        """Return a summary of a branch up to its newest turn, made without a model from the present summary and the
        turns since.

        The result is not stored. Return None if the branch has no text.
        """
        batches = BatchSummarizer(
            self._store,
            self._worlds,
            self._count,
            self._clock,
            ExtractSummarizer(self._count),
            is_local=True,
        )
        made = await batches.summarize(window, await self._load_coverage(window), window.head.depth, config)
        return made.summary or (None if window.summary is None else window.summary.summary)

    async def _load_coverage(self, window: SessionWindow) -> Coverage:
        own = read_own_coverage(window.summary)
        if own is not None or window.summary is None:
            return own or Coverage()
        head = window.head
        path = await self._store.turns(head.session_id, limit=_ALL, branch_id=head.branch_id)
        return coverage_of_summary(window.summary.summary, path)

    def _start_job(self, window: SessionWindow, coverage: Coverage, upto: int, config: RuntimeConfig) -> _Job:
        """Return the branch's job: the running one, or a new one."""
        key = (window.head.session_id, window.head.branch_id)
        job = self._jobs.get(key)
        if job is None:
            job = self._jobs[key] = _Job()
            self._tasks.start_soon(self._run_job, key, job, window, coverage, upto, config)
        return job

    async def _await_job(self, job: _Job, session_id: str, config: RuntimeConfig) -> RollingSummary | None:
        """Return the job's result if it comes in time; after a failed job, only an existing result."""
        if self._is_local:
            await job.done.wait()
            return job.result
        wait_seconds = 0.0 if session_id in self._failures else config.summary.timeout_ms / 1000
        with anyio.move_on_after(wait_seconds):
            await job.done.wait()
        return job.result

    async def _run_job(
        self,
        key: tuple[str, str],
        job: _Job,
        window: SessionWindow,
        coverage: Coverage,
        upto: int,
        config: RuntimeConfig,
    ) -> None:
        try:
            try:
                # `done` is set before the summary is written. A turn that waits for it holds the session and writes it itself,
                # so waiting for the session
                # here first would be a deadlock.
                job.result = await self._batches.summarize(window, coverage, upto, config)
            finally:
                job.done.set()
            if not self._is_local:
                async with self._hold(key[0]):
                    await self._write(job)
        except Exception:
            _log.exception("the summary of session %s could not be kept", key[0])
        finally:
            self._jobs.pop(key, None)
            job.ended.set()

    async def _write(self, job: _Job) -> None:
        if job.is_written or job.result is None:
            return
        await self._keep(job.result)
        job.is_written = True

    async def _keep(self, made: RollingSummary) -> None:
        """Write a summary with its evidence and cost. The summary is written last, because readers of it expect the
        evidence and cost.
        """
        session_id, turn_id = made.head.session_id, made.head.turn_id
        for evidence in made.evidences:
            await self._store.put_evidence(session_id, evidence)
        if made.usages:
            await self._store.append_model_usage(session_id, made.usages)
            for usage in made.usages:
                await emit_usage(self._emitter, session_id, turn_id, usage)
        if made.summary is None:
            self._failures[session_id] = made.failure
            await self._emitter.emit(
                EventType.DEGRADED,
                session_id,
                turn_id,
                reason=DegradationCode.SUMMARIZE_FAILED.value,
                detail=made.failure,
            )
            return
        self._failures.pop(session_id, None)
        if made.path_summary is not None:
            await self._store.save_summary(session_id, made.path_summary)
        covered = made.summary.message_index_range
        await self._emitter.emit(
            EventType.SUMMARY_GENERATED,
            session_id,
            turn_id,
            messages=0 if covered is None else covered.to_index,
            tokens=self._count(made.summary.content),
            calls=len(made.usages),
            summarizer=self._batches.name,
        )


def describe_missing_summary(code: str, shown: ShownHistory) -> str:
    """Return the degradation `code` of a missing summary with a sentence on the turns that the history shows instead."""
    name, _, reason = code.partition(": ")
    if not shown.messages:
        return code
    reason = reason or "The summary was not ready in time."
    end = "" if reason.endswith((".", "!", "?")) else "."
    first, last = shown.messages[0].depth, shown.messages[-1].depth
    return f"{name}: {reason}{end} Instead, turns {first} to {last} are shown in full."


def _is_readable(window: SessionWindow, viewer: str | None) -> bool:
    """Return whether a viewer may know the whole summary of a window."""
    return window.summary is None or may_read(read_audience(window.summary.summary.extra), viewer)


def _describe_history(window: SessionWindow, coverage: Coverage, messages: tuple[WindowMessage, ...]) -> ShownHistory:
    return ShownHistory(messages=messages, left_out=describe_unshown(window, coverage, messages))


def _find_codes(window: SessionWindow) -> tuple[str, ...]:
    return (DegradationCode.SUMMARY_CUT,) if read_thinned(window.summary, CUT) else ()


def _count_unread_chars(window: SessionWindow) -> int:
    """Return how many characters of a window must be read to count its tokens; counts of shorter texts are cached."""
    lengths = [len(placed.message.content) for placed in window.messages]
    return sum([length for length in lengths if length > KEPT_CHARS])

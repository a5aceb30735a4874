"""Runs both streams of a turn at the same time.

Stream A renders the skeleton (state and history), while Stream B recalls and selects memories before its deadline.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from jacquard.adapters.observe.spans import Fact, Tracing
from jacquard.core.errors import JacquardError
from jacquard.pipeline.curation.stream import Curation
from jacquard.pipeline.record.prepared_turn import PreparedTurn
from jacquard.pipeline.skeleton.automation import Skeleton
from jacquard.pipeline.skeleton.stream import SkeletonStream
from jacquard.pipeline.turn import Turn
from jacquard.turns.curate import TurnCurator
from jacquard.turns.turn_log import TurnLog
from mnemosyne.core.errors import ContextEngineError

ComposeAhead = Callable[[Skeleton, Curation], Awaitable[PreparedTurn | None]]
"""Makes the prompt that is used if Stream B misses its deadline. The arguments are the skeleton, and the result of
Stream B in this case. The result is None if the prompt cannot be made ahead.
"""


class StreamRunner:
    """Runs Stream A (`skeletons`) and Stream B (`curator`) at the same time."""

    def __init__(self, skeletons: SkeletonStream, curator: TurnCurator, tracing: Tracing) -> None:
        self._skeletons, self._curator, self._tracing = skeletons, curator, tracing

    async def run(
        self, turn: Turn, state_tokens: int, log: TurnLog, compose_ahead: ComposeAhead
    ) -> tuple[Skeleton, Curation, PreparedTurn | None]:
        """Run both streams and return (skeleton, curation, prompt).

        `prompt` is None, unless Stream B missed its deadline and `compose_ahead` had made the prompt for this case.
        `state_tokens` is the maximum number of tokens of the state. Failures of recall and selection do not raise an
        error. Raises TemplateError from Stream A, and StoreError from either stream; the other stream is then
        cancelled.
        """
        curation = Curation.skipped("not_started", "Stream B has not started.")
        waiting = _CurationWait()
        # Raised outside of the task group, which would wrap it in an exception group.
        fault: ContextEngineError | None = None

        async def curate() -> None:
            nonlocal curation, fault
            ended = None
            try:
                with self._tracing.span("jacquard.stream_b") as span:
                    curation = ended = await self._curator.curate(turn, log, waiting.expect)
                    span.put(stream_facts(curation))
                log.stopwatch.mark("stream_b")
            except ContextEngineError as error:
                fault = error
                streams.cancel_scope.cancel()
            finally:
                waiting.end(ended)

        skeleton, prompt = None, None
        async with anyio.create_task_group() as streams:
            streams.start_soon(curate)
            try:
                with self._tracing.span("jacquard.stream_a") as span:
                    skeleton = await self._skeletons.render(turn, state_tokens)
                    span.put({"jacquard.stream_a.blocks": len(skeleton.blocks)})
                log.stopwatch.mark("stream_a")
                await waiting.over.wait()
                if waiting.missed is not None:
                    prompt = await compose_ahead(skeleton, waiting.missed)
            except ContextEngineError as error:
                fault = error
                streams.cancel_scope.cancel()
        if skeleton is None or fault is not None:
            raise fault or JacquardError("Stream A gave nothing.")
        log.stopwatch.lap("streams")
        log.stopwatch.note(curation.timings_ms)
        return skeleton, curation, prompt if waiting.missed is not None else None


class _CurationWait:
    """Wait for Stream B: `over` once it has ended or its deadline is near; `missed` is its result if it misses the deadline."""

    def __init__(self) -> None:
        self.over = anyio.Event()
        self.missed: Curation | None = None

    async def expect(self, missed: Curation) -> None:
        """Record that the deadline is near."""
        self.missed = missed
        self.over.set()

    def end(self, curation: Curation | None) -> None:
        """Record how Stream B ended (None: with a fault); the expected result is kept only if it is the actual one."""
        if self.missed != curation:
            self.missed = None
        self.over.set()


def stream_facts(curation: Curation) -> dict[str, Fact]:
    """Return the attributes of the tracing span of Stream B: path, code, number of candidates, and number of chosen
    candidates. They contain no texts.
    """
    return {
        "jacquard.stream_b.path": curation.path.value,
        "jacquard.stream_b.code": curation.code,
        "jacquard.stream_b.candidates": len(curation.candidates),
        "jacquard.stream_b.chosen": len(curation.chosen),
    }

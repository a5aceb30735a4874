"""Stream B against the clock: no figure here is compared with a clock of the machine.

That an answer is on time is shown by what is still under way when it comes: servers and parts that never answer at all,
or only when the test lets them.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace

import anyio
import pytest
from anyio import to_thread
from curation_parts import ListRetriever, head, turn
from deadline_parts import deadline_by_hand
from servers.openai_server import OpenAiServer

from jacquard import CurationConfig, Selection, SelectionContext, SelectionRequest
from jacquard.adapters.models.litellm_adapter import LiteLlmModel
from jacquard.core.receipt import CurationPath
from jacquard.pipeline.curation.deadline import CurationDeadline
from jacquard.pipeline.curation.prefetch import build_prefetch, build_prefetched_curation, scene_matches
from jacquard.pipeline.curation.selectors.flash import FlashSelector
from jacquard.pipeline.curation.selectors.heuristic import HeuristicSelector
from jacquard.pipeline.curation.stream import Curation, CurationStream, build_stream_report
from mnemosyne import (
    Recall,
    RetrievalQuery,
)

pytestmark = pytest.mark.anyio

SHORT = CurationConfig(deadline_ms=50, background_seconds=600)
LONG = CurationConfig(deadline_ms=600_000, background_seconds=600)


class Gate:
    """Waits until it is let go; counts who came, who went on and who was cancelled."""

    def __init__(self) -> None:
        self.open = anyio.Event()
        self.came, self.passed, self.cancelled = anyio.Event(), 0, 0

    async def wait(self) -> None:
        self.came.set()
        try:
            await self.open.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled += 1
            raise
        self.passed += 1


class GatedSelector:
    """Chooses the first `count` candidates once its gate is open."""

    name = "gated"

    def __init__(self, gate: Gate, count: int = 2, error: Exception | None = None) -> None:
        self.gate, self.count, self.error = gate, count, error

    async def select(self, request: SelectionRequest, context: SelectionContext | None = None) -> Selection:
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return Selection(entry_ids=tuple(c.entry_id for c in request.candidates[: self.count]), model="gated")


class GatedRetriever:
    """Recalls like ListRetriever once its gate is open."""

    def __init__(self, gate: Gate, error: Exception | None = None) -> None:
        self.gate, self.error = gate, error

    async def recall(self, query: RetrievalQuery) -> Recall:
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return await ListRetriever().recall(query)


class Shelf:
    """Where late results are put."""

    def __init__(self, error: Exception | None = None) -> None:
        self.kept: list[Curation] = []
        self.error = error

    async def keep(self, late: Curation) -> None:
        if self.error is not None:
            raise self.error
        self.kept.append(late)


@pytest.fixture
async def race() -> AsyncIterator[CurationDeadline]:
    async with anyio.create_task_group() as tasks:
        yield CurationDeadline(tasks)
        tasks.cancel_scope.cancel()


def gated(gate: Gate, count: int = 2, error: Exception | None = None) -> CurationStream:
    return CurationStream(ListRetriever(), GatedSelector(gate, count, error), HeuristicSelector())


async def test_a_stream_in_time_gives_its_own_result_and_keeps_nothing(race: CurationDeadline) -> None:
    gate, shelf = Gate(), Shelf()
    gate.open.set()
    curation = await race.run(gated(gate), turn(), LONG, shelf.keep)
    assert curation.path is CurationPath.SELECTED
    await race.wait_until_idle()
    assert shelf.kept == []


async def test_at_the_deadline_the_heuristic_chooses_from_what_was_recalled(race: CurationDeadline) -> None:
    gate, shelf = Gate(), Shelf()
    curation = await race.run(gated(gate), turn(), replace(SHORT, deadline_ms=500), shelf.keep)
    assert (gate.passed, gate.cancelled) == (0, 0)
    report = build_stream_report(curation)
    assert (report.path, report.code, len(report.selected)) == (CurationPath.FALLBACK, "deadline", 5)
    assert [candidate.code for candidate in report.candidates] == ["selected"] * 5
    assert "500 ms" in report.reason
    assert "5 of 5" in report.reason


async def test_a_recall_that_hangs_is_left_alone_too(race: CurationDeadline) -> None:
    gate = Gate()
    stream = CurationStream(GatedRetriever(gate), None, HeuristicSelector())
    curation = await race.run(stream, turn(), SHORT, Shelf().keep)
    assert (curation.path, curation.candidates) == (CurationPath.TIMEOUT, ())
    assert "Recall was not ready after" in curation.reason


async def test_what_comes_late_is_kept(race: CurationDeadline) -> None:
    gate, shelf = Gate(), Shelf()
    await race.run(gated(gate), turn(), SHORT, shelf.keep)
    gate.open.set()
    await race.wait_until_idle()
    (late,) = shelf.kept
    assert late.path is CurationPath.SELECTED
    assert len(late.selection.entry_ids) == 2


@pytest.mark.parametrize(("count", "error"), [(0, None), (2, ValueError("broke"))])
async def test_an_empty_or_failed_answer_is_never_kept(
    race: CurationDeadline, count: int, error: Exception | None
) -> None:
    gate, shelf = Gate(), Shelf()
    await race.run(gated(gate, count, error), turn(), SHORT, shelf.keep)
    gate.open.set()
    await race.wait_until_idle()
    assert shelf.kept == []


async def test_a_late_choice_of_the_heuristic_is_not_kept(race: CurationDeadline) -> None:
    gate, shelf = Gate(), Shelf()
    stream = CurationStream(GatedRetriever(gate), None, HeuristicSelector())
    await race.run(stream, turn(), SHORT, shelf.keep)
    gate.open.set()
    await race.wait_until_idle()
    assert shelf.kept == []


async def test_background_work_ends_with_its_time(race: CurationDeadline) -> None:
    gate, shelf = Gate(), Shelf()
    await race.run(gated(gate), turn(), replace(SHORT, background_seconds=0.05), shelf.keep)
    await race.wait_until_idle()
    assert (gate.passed, gate.cancelled, shelf.kept) == (0, 1, [])


async def test_the_heuristic_answers_when_the_selector_s_time_is_over(race: CurationDeadline) -> None:
    gate, shelf = Gate(), Shelf()
    curation = await race.run(gated(gate), turn(), replace(LONG, selector_timeout_ms=20), shelf.keep)
    assert (curation.path, curation.code) == (CurationPath.FALLBACK, "selector_timeout")
    assert 1 <= len(curation.selection.entry_ids) <= 6
    assert gate.passed == 0
    gate.open.set()
    await race.wait_until_idle()
    assert [late.path for late in shelf.kept] == [CurationPath.SELECTED]


async def test_the_selector_s_time_waits_for_recall_but_not_past_the_deadline(race: CurationDeadline) -> None:
    recall_gate, select_gate = Gate(), Gate()
    stream = CurationStream(GatedRetriever(recall_gate), GatedSelector(select_gate), HeuristicSelector())
    found: list[Curation] = []

    async def ask() -> None:
        found.append(await race.run(stream, turn(), replace(LONG, selector_timeout_ms=1), Shelf().keep))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await recall_gate.came.wait()
        await anyio.sleep(0.02)
        assert found == []
        recall_gate.open.set()
    assert found[0].code == "selector_timeout"
    late = await race.run(stream, turn(), replace(SHORT, selector_timeout_ms=20), Shelf().keep)
    assert late.code == "selector_timeout"
    never = CurationStream(GatedRetriever(Gate()), GatedSelector(Gate()), HeuristicSelector())
    nothing = await race.run(never, turn(), replace(SHORT, selector_timeout_ms=20), Shelf().keep)
    assert nothing.code == "deadline"


async def test_a_selector_s_time_beyond_the_deadline_says_nothing(race: CurationDeadline) -> None:
    curation = await race.run(gated(Gate()), turn(), replace(SHORT, selector_timeout_ms=60_000), Shelf().keep)
    assert curation.code == "deadline"


async def test_a_broken_retriever_is_a_sentence_in_the_receipt(
    race: CurationDeadline, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate()
    gate.open.set()
    stream = CurationStream(GatedRetriever(gate, OSError("disk on fire")), None, HeuristicSelector())
    with caplog.at_level(logging.ERROR):
        curation = await race.run(stream, turn(), LONG, Shelf().keep)
    assert (curation.path, curation.code, curation.selection.entry_ids) == (CurationPath.SKIPPED, "internal", ())
    assert "OSError: disk on fire" in curation.reason
    assert "Stream B broke off" in caplog.text


async def test_a_shelf_that_breaks_hurts_nobody(race: CurationDeadline, caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate()
    await race.run(gated(gate), turn(), SHORT, Shelf(OSError("full")).keep)
    gate.open.set()
    await race.wait_until_idle()
    assert "could not be kept" in caplog.text


async def test_cancelling_the_turn_cancels_the_work(race: CurationDeadline) -> None:
    gate, shelf = Gate(), Shelf()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(race.run, gated(gate), turn(), LONG, shelf.keep)
        await gate.came.wait()
        tasks.cancel_scope.cancel()
    await race.wait_until_idle()
    assert (gate.passed, gate.cancelled, shelf.kept) == (0, 1, [])


async def test_closing_the_engine_ends_all_work_and_whoever_still_waits_is_told() -> None:
    waiting, behind = Gate(), Gate()
    found: list[Curation] = []

    async def ask(race: CurationDeadline) -> None:
        found.append(await race.run(gated(waiting), turn(), LONG, Shelf().keep))

    async with anyio.create_task_group() as turns, anyio.create_task_group() as engine:
        race = CurationDeadline(engine)
        await race.run(gated(behind), turn(), SHORT, Shelf().keep)
        turns.start_soon(ask, race)
        await waiting.came.wait()
        engine.cancel_scope.cancel()
    assert [curation.code for curation in found] == ["closed"]
    assert (waiting.cancelled, behind.cancelled) == (1, 1)


@pytest.fixture
def server() -> Iterator[OpenAiServer]:
    with OpenAiServer() as running:
        yield running


async def test_a_turn_is_told_beforehand_what_a_missed_deadline_will_say(race: CurationDeadline) -> None:
    gate, told = Gate(), list[Curation]()
    with deadline_by_hand(LONG) as deadline:

        async def near(missed: Curation) -> None:
            told.append(missed)
            deadline.end()

        async with anyio.create_task_group() as tasks:

            async def come_near() -> None:
                await gate.came.wait()
                deadline.comes_near()

            tasks.start_soon(come_near)
            curation = await race.run(gated(gate), turn(), LONG, Shelf().keep, on_near=near)
    assert told == [curation]
    assert (curation.code, len(curation.candidates), len(curation.chosen)) == ("deadline", 5, 5)


@pytest.fixture
async def flash(server: OpenAiServer) -> AsyncIterator[CurationStream]:
    model = LiteLlmModel("openai/small", api_base=server.api_base)
    await model.warm()
    yield CurationStream(ListRetriever(), FlashSelector(model, timeout_seconds=600), HeuristicSelector())
    await model.close()


async def test_a_server_that_hangs_for_ever_costs_the_deadline_and_no_more(
    race: CurationDeadline, server: OpenAiServer, flash: CurationStream
) -> None:
    server.set_script("hang")
    with deadline_by_hand(LONG) as deadline:
        curation = await deadline.missed(server, lambda: race.run(flash, turn(), LONG, Shelf().keep))
    assert (curation.path, curation.code) == (CurationPath.FALLBACK, "deadline")
    assert len(server.requests) == 1


async def test_a_slow_server_s_answer_serves_the_next_turn_of_the_same_scene_and_no_other(
    race: CurationDeadline, server: OpenAiServer, flash: CurationStream
) -> None:
    server.set_script("slow:1")
    shelf, request = Shelf(), turn()
    with deadline_by_hand(LONG) as deadline:
        now = await deadline.missed(server, lambda: race.run(flash, request, LONG, shelf.keep))
    assert now.code == "deadline"
    await race.wait_until_idle()
    (late,) = shelf.kept
    kept = build_prefetch(late, request.plan, "t10", "main", 10, request.user_message)

    fits: Callable[..., tuple[bool, str]] = scene_matches
    assert fits(kept, request.plan, head("main", 10), "钥匙在哪里?", shown=frozenset())[0]
    elsewhere = replace(request.plan, active_quest_id="q_other")
    assert not fits(kept, elsewhere, head("main", 10), "钥匙在哪里?", shown=frozenset())[0]
    used = build_prefetched_curation(kept, "Both turns are about 钥匙.", shown=frozenset())
    assert used.path is CurationPath.PREFETCHED
    assert used.selection.entry_ids == late.selection.entry_ids
    assert used.model == "openai/small"
    assert {candidate.code for candidate in build_stream_report(used).candidates} == {"selected"}


async def test_many_turns_at_once_each_get_their_own_answer(race: CurationDeadline, server: OpenAiServer) -> None:
    server.set_script("match:钥匙")
    model = LiteLlmModel("openai/small", api_base=server.api_base)
    stream = CurationStream(ListRetriever(), FlashSelector(model, timeout_seconds=60), HeuristicSelector())
    paths: list[CurationPath] = []

    async def one() -> None:
        paths.append((await race.run(stream, turn(), LONG, Shelf().keep)).path)

    async with anyio.create_task_group() as tasks:
        for _ in range(16):
            tasks.start_soon(one)
    assert paths == [CurationPath.SELECTED] * 16
    await to_thread.run_sync(server.wait_for_requests, 16)
    await model.close()

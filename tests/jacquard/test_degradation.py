"""The degradation table, line by line, and what else may be missing; with the errors."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import anyio
import pytest
from deadline_parts import deadline_by_hand, run_other_tasks
from engine_parts import PLANNED, WORLD, ScriptedModel, small_engine

import jacquard.core.errors
import mnemosyne.core.errors
from jacquard import (
    NO_RULES,
    BudgetConfig,
    BudgetExceededError,
    CurationConfig,
    GreedyPriorityPruner,
    HistoryConfig,
    ModelError,
    RuntimeConfig,
    SummarizerError,
    SummaryConfig,
    SummaryText,
)
from jacquard.adapters.observe.spans import NoTracing
from jacquard.core.sentences import translate
from mnemosyne import (
    CalibratedEstimator,
    ContextEngineError,
    Evidence,
    EvidenceSource,
    EvidenceType,
    IngestOptions,
    MemoryStore,
    RedactionError,
    Sha256Hasher,
    SourceKind,
    StoreUnavailableError,
    ToolCall,
    VersionConflictError,
)
from mnemosyne.core.errors import EmbedderUnavailableError, IndexUnavailableError, StoreBusyError
from mnemosyne.evidence import RedactingIngestor
from mnemosyne.privacy.redact import RegexRedactor
from mnemosyne.retrieval.engines.tables.memory import MemoryIndex
from mnemosyne.retrieval.engines.tiered_index import TieredIndex

pytestmark = pytest.mark.anyio
CALL = ToolCall(tool_call_id="c1", tool="lookup", args_digest={"order": "17"})


class Through:
    """Passes every call on to what it wraps."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)


class BrokenRedactor:
    async def redact(self, text, rules=None):
        raise RedactionError("the detector is down")


class SystemClock:
    def now(self):
        from datetime import UTC, datetime

        return datetime.now(UTC)


TABLE = {
    "EvidenceIngestor: redaction fails": "test_ingestor_redaction_fails",
    "EvidenceIngestor: no hash for dedup": "test_ingestor_identity_cannot_be_hashed",
    "BlockDeriver: one item of evidence fails": "test_deriver_one_evidence_fails",
    "Pruner: must blocks over budget": "test_pruner_must_blocks_over_budget",
    "Renderer: selector cannot be resolved": "test_renderer_selector_fails",
    "Renderer: evidence is gone": "test_renderer_evidence_is_gone",
    "Renderer: a text is long": "test_renderer_a_text_is_long",
    "Summarizer: the model fails": "test_summarizer_fails",
    "ContextEngine: version conflict": "test_engine_version_conflict_is_tried_once_more",
    "the index is damaged or behind": "test_the_index_is_down",
    "recall fails": "test_recall_breaks_off",
    "the embedder is missing or not loaded yet": "test_the_embedder_is_missing",
    "the selector's circuit is open": "test_the_selectors_circuit_is_open_after_three_turns_on_a_server_that_hangs",
    "the store is slow": "test_the_store_is_slow_for_one_session",
    "the store stays busy": "test_the_store_stays_busy",
    "the planner's model fails": "test_the_planners_model_fails",
}
"""Each line of the table (the first eight are the seed's), and the test that holds it."""
PATIENT = RuntimeConfig(curation=CurationConfig(deadline_ms=60_000))
DOCS = Path(__file__).parents[2] / "docs" / "en" / "observability.md"


@pytest.mark.parametrize("line", TABLE)
def test_every_line_of_the_table_has_its_test_and_is_told_to_hosts(line):
    assert callable(globals()[TABLE[line]])
    assert f"| {line} |" in DOCS.read_text(encoding="utf-8")


def codes(turn):
    return {degradation.code for degradation in turn.report.degradations}


def evidence(name, content, **metadata):
    return Evidence(
        evidence_id=name,
        type=EvidenceType.TOOL_RESULT,
        source=EvidenceSource(kind=SourceKind.TOOL, name="lookup", uri=f"tool://{name}"),
        content=content,
        metadata=metadata,
        created_at=SystemClock().now(),
    )


@pytest.mark.parametrize("pass_through", [False, True])
async def test_ingestor_redaction_fails(pass_through):
    store = MemoryStore()
    ingestor = RedactingIngestor(store, BrokenRedactor(), SystemClock())
    async with small_engine(store=store, ingestor=ingestor) as (engine, _, told):
        await engine.prepare_turn("s", "hello")
        options = IngestOptions(pass_through=pass_through)
        await engine.record_tool_call("s", CALL, result="the code is 4711-secret", options=options)
        (kept,) = [each for each in await store.list_evidences("s") if each.type is EvidenceType.TOOL_RESULT]
    assert told.reasons()[-1] == "redaction_failed"
    assert ("4711" in kept.content) is pass_through
    assert bool(kept.metadata.get("has_sensitive")) is pass_through


async def test_ingestor_identity_cannot_be_hashed():
    store = MemoryStore()
    ingestor = RedactingIngestor(store, RegexRedactor(), SystemClock())
    async with small_engine(store=store, ingestor=ingestor) as (engine, _, told):
        await engine.prepare_turn("s", "hello")
        odd = IngestOptions(args={"when": object()})
        await engine.record_tool_call("s", CALL, result="two hours on foot", options=odd)
        assert any(each.content == "two hours on foot" for each in await store.list_evidences("s"))
    assert told.reasons()[-1] == "dedup_skipped"


class FailingHasher(Sha256Hasher):
    """Hashes until it is broken."""

    answer: object = ""

    def digest(self, content):
        if not self.answer:
            return f"own {super().digest(content)}"
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize("answer", [ValueError("no hash"), b"bytes"])
async def test_a_hasher_that_fails_loses_neither_results_nor_turns(answer):
    hasher = FailingHasher()
    async with small_engine(hasher=hasher) as (engine, store, told):
        await engine.prepare_turn("s", "hello")
        await engine.record_tool_call("s", CALL, result="two hours on foot")
        hasher.answer = answer
        for name in ("again", "more"):
            call = replace(CALL, tool_call_id=name)
            await engine.record_tool_call("s", call, result="two hours on foot")
        assert told.reasons()[-2:] == ["dedup_skipped"] * 2
        results = [each for each in await store.list_evidences("s") if each.type is EvidenceType.TOOL_RESULT]
        assert [each.content for each in results] == ["two hours on foot"] * 3
        turn = await engine.prepare_turn("s", "How far is it?")
        assert "two hours on foot" in turn.text
        assert not codes(turn) & {"source_changed", "content_not_stored"}
        options = IngestOptions(selectors=("chars:0-6",))
        await engine.record_tool_call("s", replace(CALL, tool_call_id="part"), result="a mile by boat", options=options)
        assert told.reasons()[-1] == "dedup_skipped"


class PoisonedEstimator(CalibratedEstimator):
    def estimate(self, text):
        if text == "poison":
            raise ValueError("cannot be counted")
        return super().estimate(text)


async def test_deriver_one_evidence_fails():
    async with small_engine(token_estimator=PoisonedEstimator()) as (engine, store, told):
        await engine.start_session("s", WORLD)
        await store.put_evidence("s", evidence("bad", "poison"))
        await store.put_evidence("s", evidence("good", "the ferry leaves at noon"))
        turn = await engine.prepare_turn("s", "when does the ferry leave?")
    assert "the ferry leaves at noon" in turn.text
    assert "poison" not in turn.text
    (error,) = told.of("Error")
    assert error.payload["reason"] == "derive_failed"
    assert "bad" in turn.report.errors[0]


async def test_pruner_must_blocks_over_budget():
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=60, reserved_reply_tokens=10))
    async with small_engine(config=config) as (engine, store, told):
        with pytest.raises(BudgetExceededError):
            await engine.prepare_turn("s", "hello")
        assert (await store.window("s", message_limit=2)).pending is None
    assert told.reasons("Error") == ["must_exceeded_budget"]


async def test_renderer_selector_fails():
    async with small_engine() as (engine, store, told):
        await engine.start_session("s", WORLD)
        shown = [{"selector": "lines:90-99"}, {"selector": "lines:1-1"}]
        await store.put_evidence("s", evidence("e1", "the first line\nthe second", shown_refs=shown))
        turn = await engine.prepare_turn("s", "what does it say?")
    assert "selector_resolve_failed" in codes(turn)
    assert "selector_resolve_failed" in told.reasons()
    assert "the first line" in turn.text


class ForgetfulStore(Through):
    """Forgets an entry once the model has been asked about it."""

    def __init__(self, inner, model):
        super().__init__(inner)
        self._model = model

    async def entries(self, scope, entry_ids):
        return () if self._model.requests else await self._inner.entries(scope, entry_ids)


async def test_renderer_evidence_is_gone():
    model = ScriptedModel('["lore_elder"]')
    store = ForgetfulStore(MemoryStore(), model)
    async with small_engine(store=store, model=model, config=PATIENT) as (engine, _, told):
        turn = await engine.prepare_turn("s", "村长的钥匙在哪里?")
    assert turn.report.stream_b.selected == ("lore_elder",)
    assert "evidence_not_found" in codes(turn)
    assert "evidence_not_found" in told.reasons()
    assert "村长的钥匙在哪里?" in turn.messages[-1].content


async def test_renderer_a_text_is_long():
    async with small_engine(config=PATIENT) as (engine, store, told):
        await engine.prepare_turn("s", "hello there")
        await engine.commit_assistant_message("s", "well met")
        await store.put_evidence("s", evidence("long", "The cart left the mill at dawn. " * 3000))
        turn = await engine.prepare_turn("s", "and now?")
    assert "The cart left the mill at dawn. […]</result>" in turn.text
    assert "well met" in turn.text
    assert "text_cut" in codes(turn)
    assert "text_cut" in told.reasons()


class BrokenSummarizer:
    name = "broken"
    is_mended = False

    async def summarize(self, request):
        if self.is_mended:
            return SummaryText(content="All of it.")
        raise SummarizerError("the model is down")


async def test_summarizer_fails():
    config = RuntimeConfig(
        summary=SummaryConfig(trigger_message_count=4, preserve_recent_messages=2),
        history=HistoryConfig(max_messages=6),
        curation=CurationConfig(enabled=False),
    )
    async with small_engine(config=config, summarizer=BrokenSummarizer()) as (engine, store, told):
        for number in range(4):
            await engine.prepare_turn("s", f"question {number}")
            await engine.commit_assistant_message("s", f"answer {number}")
        turn = await engine.prepare_turn("s", "and now?")
        assert (await store.window("s", message_limit=2)).summary is None
    assert "summarize_failed" in codes(turn)
    assert "summarize_failed" in told.reasons()
    assert all(f"question {number}" in turn.text for number in range(4))


def question(number):
    return f"question {number} " + "about the long road to the old tower " * 6


async def talk(engine, number):
    """Play a turn without a summary; return it, and the numbers of the questions that its prompt shows."""
    turn = await engine.prepare_turn("s", question(number))
    await engine.commit_assistant_message("s", f"answer {number} " + "the tower is far away " * 8)
    return turn, [each for each in range(number + 1) if question(each).strip() in turn.text]


async def test_without_a_summary_all_messages_that_fit_the_budget_are_shown():
    config = RuntimeConfig(
        summary=SummaryConfig(trigger_message_count=4, preserve_recent_messages=2),
        history=HistoryConfig(max_messages=6),
    )
    async with small_engine(config=config, summarizer=BrokenSummarizer()) as (engine, _, _):
        for number in range(20):
            turn, shown = await talk(engine, number)
    assert shown == list(range(20))
    (told,) = [each.detail for each in turn.report.degradations if each.code == "summarize_failed"]
    assert told.endswith("Instead, turns 1 to 19 are shown in full.")


async def test_without_a_summary_the_budget_is_filled_and_the_start_of_the_prompt_rarely_changes():
    config = RuntimeConfig(
        budget=BudgetConfig(max_input_tokens=3000, reserved_reply_tokens=500),
        summary=SummaryConfig(trigger_message_count=4, preserve_recent_messages=2),
        history=HistoryConfig(max_messages=6),
        curation=CurationConfig(enabled=False),
    )
    starts = []
    async with small_engine(config=config, summarizer=BrokenSummarizer(), world=None) as (engine, _, _):
        for number in range(40):
            turn, shown = await talk(engine, number)
            starts.append(shown[0])
            assert shown == list(range(shown[0], number + 1))
            budget = turn.report.budget
            assert budget.used_tokens <= budget.limit_tokens
            if shown[0]:
                assert budget.used_tokens > 0.7 * budget.limit_tokens
                (gone,) = [each for each in turn.report.left_out if each.code == "unshown"]
                assert (gone.first, gone.last) == ("1", str(shown[0]))
    assert starts == sorted(starts)
    assert 2 <= len(set(starts)) <= 6


async def test_after_a_failure_the_next_summary_serves_again():
    summarizer = BrokenSummarizer()
    config = RuntimeConfig(
        summary=SummaryConfig(trigger_message_count=4, preserve_recent_messages=2, timeout_ms=60_000),
        history=HistoryConfig(max_messages=6),
        curation=CurationConfig(enabled=False),
    )
    async with small_engine(config=config, summarizer=summarizer) as (engine, _, _):
        for number in range(12):
            _, shown = await talk(engine, number)
        assert shown[0] == 0
        summarizer.is_mended = True
        for number in range(12, 15):
            turn, shown = await talk(engine, number)
            assert await engine.settle(60)
    assert "summarize_failed" not in codes(turn)
    assert turn.package.working_summary == "All of it."
    assert 2 <= len(shown) <= 4


def test_the_turns_shown_without_a_summary_are_told_in_chinese():
    told = "The summary was not ready in time. Instead, turns 3 to 9 are shown in full."
    assert translate(told, "zh") == "摘要没有按时完成。第 3 到 9 回合改为全文显示。"


class ContestedStore(Through):
    """Another writer comes first, the first `times` times."""

    def __init__(self, inner, times):
        super().__init__(inner)
        self.times, self.calls = times, 0

    async def _contested(self, session_id, expected):
        self.calls += 1
        if self.calls <= self.times:
            raise VersionConflictError(session_id, expected, expected + 1)

    async def save_prepared(self, record, *, expected_version, **held):
        await self._contested(record.session_id, expected_version)
        return await self._inner.save_prepared(record, expected_version=expected_version, **held)

    async def commit_turn(self, session_id, commit, *, expected_version):
        await self._contested(session_id, expected_version)
        return await self._inner.commit_turn(session_id, commit, expected_version=expected_version)


async def test_engine_version_conflict_is_tried_once_more():
    store = ContestedStore(MemoryStore(), times=1)
    async with small_engine(store=store) as (engine, _, told):
        turn = await engine.prepare_turn("s", "hello")
        assert "version_conflict" in codes(turn)
        store.calls = 0
        assert (await engine.commit_assistant_message("s", "hi")).content == "hi"
        assert told.reasons("Error") == ["version_conflict", "version_conflict"]
        store.times, store.calls = 2, 0
        with pytest.raises(VersionConflictError):
            await engine.prepare_turn("s", "again")


async def test_the_index_is_down(tmp_path):
    folder = tmp_path / "index"
    folder.write_text("not a folder", encoding="utf-8")
    index = TieredIndex(folder)
    async with small_engine(index=index, config=PATIENT) as (engine, _, told):
        turn = await engine.prepare_turn("s", "村长的钥匙在哪里?")
        assert (await engine.commit_assistant_message("s", "好。")).content == "好。"
    await index.close()
    assert "index_damaged" in codes(turn)
    assert "index_damaged" in told.reasons()
    assert "lore_elder" in turn.report.stream_b.selected, "what is left is searched"


class BrokenIndex(MemoryIndex):
    """Breaks the rules of an index: it raises."""

    async def search_text(self, text, where, limit):
        raise IndexUnavailableError("folder", where.scope, "it is gone")

    async def add(self, scope, entries, vectors, *, keys=None, model=""):
        raise IndexUnavailableError("folder", scope, "it is gone")


async def test_recall_breaks_off():
    async with small_engine(index=BrokenIndex(), config=PATIENT) as (engine, _, told):
        turn = await engine.prepare_turn("s", "村长的钥匙在哪里?")
        assert (await engine.commit_assistant_message("s", "好。")).content == "好。"
    assert "<status>" in turn.text
    assert "recall_failed" in codes(turn)
    assert "recall_failed" in told.reasons()
    assert (turn.report.stream_b.path.value, turn.report.stream_b.code) == ("skipped", "internal")


class MissingEmbedder:
    name = "missing"

    async def warm(self):
        raise EmbedderUnavailableError("no such model")

    async def fitness(self, text):
        return 1.0

    async def embed(self, texts, purpose):
        raise EmbedderUnavailableError("no such model")


@pytest.mark.parametrize(("embedder", "code"), [(None, "no_embedder"), (MissingEmbedder(), "embedder_unavailable")])
async def test_the_embedder_is_missing(embedder, code):
    async with small_engine(embedder=embedder, config=PATIENT) as (engine, _, told):
        turn = await engine.prepare_turn("s", "村长的钥匙在哪里?")
    assert code in codes(turn)
    assert code in told.reasons()
    assert "lore_elder" in turn.report.stream_b.selected


async def test_the_selectors_circuit_is_open_after_three_turns_on_a_server_that_hangs():
    model = ScriptedModel("hang")
    real, paths = model.generate, []
    with deadline_by_hand(PATIENT.curation) as deadline:

        async def never(request):
            deadline.end()
            return await real(request)

        model.generate = never
        async with small_engine(model=model, config=PATIENT) as (engine, _, _):
            for number in range(4):
                turn = await engine.prepare_turn("s", f"村长的钥匙在哪里? ({number})", turn_id=f"t{number}")
                paths.append((turn.report.stream_b.path.value, turn.report.stream_b.code))
    assert paths == [("fallback", "deadline")] * 3 + [("fallback", "circuit_open")]


class WatchedPruner(GreedyPriorityPruner):
    """Counts the prompts that are decided, and calls `on_prompt` in the event loop while it decides one."""

    def __init__(self, on_prompt=lambda: None):
        self.on_prompt, self.prompts = on_prompt, 0
        self.loop = asyncio.get_running_loop()

    def prune(self, blocks, budget, rules=NO_RULES):
        self.prompts += 1
        self.loop.call_soon_threadsafe(self.on_prompt)
        return super().prune(blocks, budget, rules)


async def prompt_near_the_deadline(*, comes_near: bool, answers: bool):
    """Play a turn whose model answers, or not, once its deadline came near; return it and how many prompts were decided."""
    model = ScriptedModel('["lore_elder"]' if answers else "hang")
    real, once = model.generate, anyio.Event()

    with deadline_by_hand(PATIENT.curation) as deadline:

        def decided():
            if answers:
                once.set()
            elif comes_near:
                deadline.end()

        async def asked(request):
            if not comes_near:
                deadline.end()
            else:
                deadline.comes_near()
                if answers:
                    await once.wait()
            return await real(request)

        model.generate = asked
        pruner = WatchedPruner(decided)
        async with small_engine(model=model, config=PATIENT, pruner=pruner) as (engine, _, _):
            return await engine.prepare_turn("s", "村长的钥匙在哪里?"), pruner.prompts


async def test_the_prompt_of_a_missed_deadline_is_made_while_that_comes_near():
    ahead, times = await prompt_near_the_deadline(comes_near=True, answers=False)
    after, _ = await prompt_near_the_deadline(comes_near=False, answers=False)
    assert (times, ahead.report.stream_b.code) == (1, "deadline")
    assert ahead.report.timings_ms["total"] > ahead.report.timings_ms["weave"] > 0
    one, other = ((turn.messages, turn.evidences, replace(turn.report, timings_ms={})) for turn in (ahead, after))
    assert one == other


async def test_an_answer_after_the_deadline_came_near_is_used_all_the_same():
    turn, times = await prompt_near_the_deadline(comes_near=True, answers=True)
    assert (times, turn.report.stream_b.code, turn.report.stream_b.selected) == (2, "selected", ("lore_elder",))
    assert "probabilistic" in turn.text


class StreamBWatch(NoTracing):
    """Tells when Stream B of a turn has ended."""

    def __init__(self):
        self.ended = anyio.Event()

    @contextmanager
    def span(self, name, facts=MappingProxyType({})):
        with super().span(name, facts) as span:
            yield span
        if name == "jacquard.stream_b":
            self.ended.set()


class DeriverThatAnswersLast:
    """Lets Stream A have its evidence once Stream B has ended."""

    def __init__(self, watch):
        self._watch = watch

    async def derive(self, session_doc, evidences, options=None):
        await self._watch.ended.wait()
        return ()


async def test_no_prompt_is_made_ahead_of_an_answer_that_is_there():
    """Stream A comes last here: by then the deadline came near, and the answer came after all."""
    model, watch, pruner = ScriptedModel('["lore_elder"]'), StreamBWatch(), WatchedPruner()
    real = model.generate
    with deadline_by_hand(PATIENT.curation) as deadline:

        async def asked(request):
            deadline.comes_near()
            await run_other_tasks()
            return await real(request)

        model.generate = asked
        parts = {"deriver": DeriverThatAnswersLast(watch), "tracing": watch, "pruner": pruner}
        async with small_engine(model=model, config=PATIENT, **parts) as (engine, _, _):
            turn = await engine.prepare_turn("s", "村长的钥匙在哪里?")
    assert (pruner.prompts, turn.report.stream_b.code) == (1, "selected")


async def test_a_slow_answer_that_still_comes_keeps_the_circuit_closed():
    model = ScriptedModel('["lore_elder"]')
    real = model.generate

    with deadline_by_hand(PATIENT.curation) as deadline:

        async def slowly(request):
            deadline.end()
            await run_other_tasks()
            return await real(request)

        model.generate = slowly
        async with small_engine(model=model, config=PATIENT) as (engine, store, _):
            for number in range(5):
                turn = await engine.prepare_turn("s", f"村长的钥匙在哪里? ({number})", turn_id=f"t{number}")
                assert turn.report.stream_b.code == "deadline"
                assert await engine.settle(60)
                await store.save_prefetch("s", None)


class SlowStore(Through):
    def __init__(self, inner, slow):
        super().__init__(inner)
        self.slow, self.waiting, self.most = slow, 0, 0

    async def window(self, session_id, **more):
        if session_id == self.slow:
            self.waiting += 1
            self.most = max(self.most, self.waiting)
            await anyio.sleep(0.3)
            self.waiting -= 1
        return await self._inner.window(session_id, **more)


async def test_the_store_is_slow_for_one_session():
    store = SlowStore(MemoryStore(), "slow")
    ended = []
    async with small_engine(store=store) as (engine, _, _):

        async def play(session_id, number):
            await engine.prepare_turn(session_id, "hello", turn_id=f"t{number}")
            ended.append(session_id)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(play, "slow", 1)
                group.start_soon(play, "slow", 2)
                await anyio.sleep(0.05)
                group.start_soon(play, "quick", 3)
    assert ended[0] == "quick"
    assert store.most == 1


class BusyStore(Through):
    async def save_prepared(self, record, **held):
        raise StoreBusyError("store.db", 5.0)


async def test_the_store_stays_busy():
    async with small_engine(store=BusyStore(MemoryStore())) as (engine, _, told):
        with pytest.raises(StoreBusyError):
            await engine.prepare_turn("s", "hello")
    assert told.reasons("Error") == ["store_busy"]


async def test_the_planners_model_fails():
    model = ScriptedModel(ModelError("connection", "nobody there"))
    config = RuntimeConfig(curation=CurationConfig(enabled=False))
    async with small_engine(model=model, config=config) as (engine, _, told):
        turn = await engine.prepare_turn("s", "hm, and then?")
    assert "planner_tier1" in codes(turn)
    assert "planner_tier1" in told.reasons()
    assert turn.plan.tier == 0


async def test_a_listener_that_fails_harms_nobody():
    async with small_engine(model=ScriptedModel(PLANNED)) as (engine, _, told):

        def fail(event):
            raise RuntimeError("no")

        told.bus.on_all(fail)
        assert (await engine.prepare_turn("s", "hello")).messages
        assert told.of("Persisted")


NAMES = (
    "SessionNotFoundError VersionConflictError BudgetExceededError SelectorResolveError EvidenceNotFoundError "
    "SchemaValidationError MigrationError RedactionError SummarizerError"
)


@pytest.mark.parametrize("name", NAMES.split())
def test_every_error_of_the_table_has_the_one_root(name):
    kind = getattr(mnemosyne.core.errors, name, None) or getattr(jacquard.core.errors, name)
    assert issubclass(kind, ContextEngineError)


def test_settings_can_be_replaced_whole():
    assert replace(RuntimeConfig(), viewer="gm").viewer == "gm"


class StoreThatLosesItsEntries(Through):
    """Cannot be read once the model has been asked to choose."""

    def __init__(self, inner, model):
        super().__init__(inner)
        self._model = model

    async def entries(self, scope, entry_ids):
        if self._model.requests:
            raise StoreUnavailableError("store.db", "reading the disk failed")
        return await self._inner.entries(scope, entry_ids)


async def test_a_store_that_fails_while_stream_b_reads_raises_its_own_error():
    model = ScriptedModel('["lore_elder"]')
    store = StoreThatLosesItsEntries(MemoryStore(), model)
    async with small_engine(model=model, config=PATIENT, store=store) as (engine, _, _):
        with pytest.raises(StoreUnavailableError, match="reading the disk failed"):
            await engine.prepare_turn("s", "村长的钥匙在哪里?", turn_id="t1")
        assert (await store.window("s", message_limit=5)).pending is None

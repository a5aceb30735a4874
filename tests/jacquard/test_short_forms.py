"""Parts with the shorter form of the SDK's design (002, sections 6, 9 and 19.2) work in an engine, with a warning."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from jacquard import (
    NO_RULES,
    AssembledInput,
    ConfigError,
    DefaultContextEngine,
    HistoryConfig,
    MessagePart,
    PrepareResult,
    PruneBudget,
    PruneDecision,
    PruneResult,
    PruneRules,
    RuntimeConfig,
    SummarizeConfig,
)
from mnemosyne import (
    BlockType,
    ContextBlock,
    Event,
    Evidence,
    EvidenceFilter,
    EvidenceSource,
    EvidenceType,
    MemoryStore,
    Message,
    MessageIndexRange,
    MigrationError,
    Migrator,
    Priority,
    RedactResult,
    Ref,
    RenderedBlock,
    Role,
    SchemaValidationError,
    Session,
    SessionDocument,
    SourceKind,
    Summary,
    ToolCall,
    VersionConflictError,
    document_to_json,
    open_store,
)
from mnemosyne.core.errors import TurnNotFoundError

pytestmark = pytest.mark.anyio
SHORT = RuntimeConfig(
    summary=SummarizeConfig(trigger_message_count=4, preserve_recent_messages=2, timeout_ms=3000),
    history=HistoryConfig(max_messages=4),
)


HELLO = Message(role=Role.USER, content="hi")


class Used:
    """Base of the parts: counts how often each was called."""

    def __init__(self) -> None:
        self.calls = 0


class Tokens(Used):
    def estimate_text(self, text: str, model_hint: str | None = None) -> int:
        self.calls += 1
        return max(1, len(text) // 3)

    def estimate_message(self, role: Any, content: str, model_hint: str | None = None) -> int:
        return 4 + self.estimate_text(content)

    def estimate_messages(self, messages: list[Message], model_hint: str | None = None) -> int:
        return sum(self.estimate_message(each.role, each.content) for each in messages)


class Clock(Used):
    def now_iso(self) -> str:
        self.calls += 1
        return datetime.now(UTC).isoformat()


class Ids(Used):
    def generate(self) -> str:
        self.calls += 1
        return f"id-{uuid.uuid4()}"


class Hasher(Used):
    def digest(self, content: str) -> str:
        self.calls += 1
        return hashlib.blake2b(content.encode()).hexdigest()


class Redactor(Used):
    async def redact(self, text: str, rules: Any = None) -> RedactResult:
        self.calls += 1
        return RedactResult(redacted_text=text, applied_rules=(), has_sensitive=False)


class Deriver(Used):
    async def derive(self, session_doc: Any, evidences: list[Evidence], options: Any = None) -> list[ContextBlock]:
        self.calls += 1
        return [
            ContextBlock(
                block_id=f"mine-{each.evidence_id}",
                block_type=BlockType.EVIDENCE,
                priority=Priority.HIGH,
                refs=(Ref(evidence_id=each.evidence_id),),
            )
            for each in evidences
        ]


class Renderer(Used):
    async def render_block(self, block: ContextBlock, resolver: Any, hints: Any = None) -> RenderedBlock:
        self.calls += 1
        texts = [await resolver.resolve(ref.evidence_id, ref.selector) for ref in block.refs]
        return RenderedBlock(
            block_id=block.block_id,
            block_type=block.block_type,
            priority=block.priority,
            rendered_content=f"RENDERED {block.content} {texts}",
            token_estimate=9,
        )


class Resolver(Used):
    async def resolve(self, evidence_id: str, selector: str | None = None) -> str:
        self.calls += 1
        return "RESOLVED"


def decide(block: ContextBlock, action: str) -> Any:
    make: Any = PruneDecision  # by the names of the design, which type checkers do not know
    return make(block_id=block.block_id, action=action, reason="mine", token_estimate=block.token_estimate)


class Pruner(Used):
    def prune(self, blocks: list[ContextBlock], budget: Any, rules: Any = None) -> PruneResult:
        self.calls += 1
        assert budget.max_tokens > 0
        assert budget.tier_budgets == {}
        assert (rules or NO_RULES).must_keep_priorities == [Priority.MUST]
        assert all(isinstance(ref.evidence_id, str) for each in blocks for ref in each.refs)
        kept = [each for each in blocks if each.priority is Priority.MUST or each.block_type is not BlockType.EVIDENCE]
        dropped = [each for each in blocks if each not in kept]
        return PruneResult(
            kept=kept,
            dropped=dropped,
            decisions=[decide(each, "kept" if each in kept else "dropped") for each in blocks],
        )


class Assembler(Used):
    def assemble(self, messages: list[Message], rendered_blocks: list[RenderedBlock], model_hint: Any = None) -> Any:
        self.calls += 1
        system = MessagePart(
            role=Role.SYSTEM, content="MINE " + " ".join(each.rendered_content for each in rendered_blocks)
        )
        parts: Any = [system, *(MessagePart(role=each.role, content=each.content) for each in messages)]
        return AssembledInput(parts=parts, total_tokens=1)


class Summarizer(Used):
    async def should_summarize(self, session: Any, config: SummarizeConfig) -> bool:
        return len(session.messages) > 0 and config.trigger_message_count == 4

    async def summarize(self, messages: list[Message], existing_summary: Any = None, config: Any = None) -> Summary:
        self.calls += 1
        assert {each.role for each in messages} == {Role.USER, Role.ASSISTANT}
        return Summary(
            content="SUMMARIZED",
            updated_at=datetime.now(UTC),
            message_index_range=MessageIndexRange(from_index=1, to_index=2),
        )


class Bus(Used):
    def __init__(self) -> None:
        super().__init__()
        self.times: list[str] = []

    async def emit(self, event: Any) -> None:
        self.calls += 1
        self.times.append(event.ts)

    def on(self, event_type: str, handler: Any) -> None: ...

    def off(self, event_type: str, handler: Any) -> None: ...

    def on_all(self, handler: Any) -> None: ...


class Ingestor(Used):
    async def ingest(
        self,
        content: str,
        source: Any,
        evidence_type: Any,
        links: Any = None,
        metadata: Any = None,
        options: Any = None,
    ) -> Evidence:
        self.calls += 1
        return Evidence(evidence_id="mine", type=evidence_type, source=source, content=content)


async def play(**parts: Any) -> PrepareResult:
    store = MemoryStore()
    async with DefaultContextEngine(store, policies=SHORT, **parts) as engine:
        for number in range(6):
            await engine.prepare_turn("s", Message(role=Role.USER, content=f"question {number} about rome"))
            assert (await engine.commit_assistant_message("s", f"answer {number} about rome")).success
            await engine.settle(5)
        await engine.record_tool_call("s", ToolCall(tool_call_id="c1", tool="getOrder"), result="order A1 is late")
        turn: PrepareResult = await engine.prepare_turn("s", "where is order A1?")
        assert [each.evidence_id for each in await store.list_evidences("s", filter=None)]
        return turn


@pytest.mark.parametrize(
    ("name", "part", "warns", "shows"),
    [
        ("token_estimator", Tokens, "TokenEstimator", ""),
        ("clock", Clock, "Clock", ""),
        ("id_generator", Ids, "", ""),
        ("hasher", Hasher, "", ""),
        ("redactor", Redactor, "", ""),
        ("deriver", Deriver, "", "order A1 is late"),
        ("renderer", Renderer, "", "RENDERED  ['order A1 is late']"),
        ("resolver", Resolver, "EvidenceResolver", "RESOLVED"),
        ("pruner", Pruner, "", ""),
        ("assembler", Assembler, "Assembler", "MINE"),
        ("summarizer", Summarizer, "Summarizer", "SUMMARIZED"),
        ("event_bus", Bus, "EventBus", ""),
        ("ingestor", Ingestor, "EvidenceIngestor", "order A1 is late"),
    ],
)
async def test_a_part_of_the_shorter_form_is_used(name: str, part: type[Used], warns: str, shows: str):
    mine = part()
    if warns:
        with pytest.warns(UserWarning, match=warns):
            turn = await play(**{name: mine})
    else:
        turn = await play(**{name: mine})
    assert mine.calls or name == "id_generator"  # ids of evidence that is searched for duplicates follow from its text
    assert turn.report.errors == []
    assert shows in "\n".join(each.content for each in turn.messages)
    assert not {each.code for each in turn.report.degradations} - {"no_embedder"}
    assert turn.session_version == turn.version
    assert (turn.report.token_used, turn.report.token_budget) == (
        turn.report.budget.used_tokens,
        turn.report.budget.limit_tokens,
    )
    assert all(isinstance(each, PruneDecision) for each in turn.report.prune_decisions)
    if name == "pruner":
        assert {each.action for each in turn.report.prune_decisions if each.reason == "mine"} == {"kept", "dropped"}
        assert "order A1 is late" not in turn.text


class Documents:
    """Store with the twelve methods of the design, on dictionaries."""

    def __init__(self) -> None:
        self.documents: dict[str, Any] = {}
        self.versions: dict[str, int] = {}
        self.evidences: dict[str, dict[str, Evidence]] = {}
        self.blocks: dict[str, dict[str, ContextBlock]] = {}

    async def get_session(self, session_id: str) -> Any:
        return self.documents.get(session_id)

    async def put_session(self, session_id: str, doc: Any, expected_version: int | None = None) -> Any:
        version = self.versions.get(session_id, 0)
        if expected_version is not None and expected_version != version:
            raise VersionConflictError(session_id, expected_version, version)
        self.documents[session_id], self.versions[session_id] = doc, version + 1
        return Assigned(version + 1)

    async def append_messages(self, session_id: str, messages: Any) -> Any: ...

    async def patch_session(self, session_id: str, patch: Any, expected_version: int | None = None) -> Any: ...

    async def put_evidence(self, session_id: str, evidence: Evidence) -> str:
        self.evidences.setdefault(session_id, {})[evidence.evidence_id] = evidence
        return evidence.evidence_id

    async def get_evidence(self, session_id: str, evidence_id: str) -> Evidence | None:
        return self.evidences.get(session_id, {}).get(evidence_id)

    async def list_evidences(self, session_id: str, filter: Any = None) -> list[Evidence]:
        return list(self.evidences.get(session_id, {}).values())

    async def put_context_blocks(self, session_id: str, blocks: Any) -> Any:
        self.blocks.setdefault(session_id, {}).update({each.block_id: each for each in blocks})
        return Assigned(self.versions.get(session_id, 0))

    async def list_context_blocks(self, session_id: str, filter: Any = None) -> list[ContextBlock]:
        return list(self.blocks.get(session_id, {}).values())

    async def append_tool_calls(self, session_id: str, tool_calls: Any, expected_version: Any = None) -> Any: ...

    async def append_model_usage(self, session_id: str, usages: Any, expected_version: Any = None) -> Any: ...

    async def upsert_tasks(self, session_id: str, tasks: Any, expected_version: Any = None) -> Any: ...


@dataclass
class Assigned:
    version: int
    success: bool = True
    error: str | None = None


async def test_a_store_of_documents_keeps_a_session_over_two_engines():
    store = Documents()
    for engine_number in range(2):
        with pytest.warns(UserWarning, match=r"Documents has only the methods of documents.*mnemosyne.Store"):
            engine = DefaultContextEngine(store)
        async with engine:
            for number in range(3):
                turn = await engine.prepare_turn("s", f"question {engine_number}.{number} about the lighthouse")
                await engine.commit_assistant_message("s", f"answer {engine_number}.{number}")
            await engine.record_tool_call(
                "s", ToolCall(tool_call_id=f"c{engine_number}", tool="t"), result="the lamp is lit"
            )
    assert "question 0.0 about the lighthouse" in turn.text  # the second engine knows what the first stored
    assert [each.content for each in store.documents["s"].session.messages][:2] == [
        "question 0.0 about the lighthouse",
        "answer 0.0",
    ]
    assert len(store.documents["s"].session.messages) == 12
    assert [each.content for each in store.documents["s"].evidences.values()]


class WholeDocuments(Documents):
    """Keeps evidence and blocks in the document, so that each write raises its version."""

    async def put_evidence(self, session_id: str, evidence: Evidence) -> str:
        doc = await self.get_session(session_id)
        await self.put_session(session_id, replace(doc, evidences={**doc.evidences, evidence.evidence_id: evidence}))
        return evidence.evidence_id

    async def get_evidence(self, session_id: str, evidence_id: str) -> Evidence | None:
        doc = await self.get_session(session_id)
        return doc.evidences.get(evidence_id) if doc else None

    async def list_evidences(self, session_id: str, filter: Any = None) -> list[Evidence]:
        doc = await self.get_session(session_id)
        return list(doc.evidences.values()) if doc else []

    async def put_context_blocks(self, session_id: str, blocks: Any) -> Any:
        doc = await self.get_session(session_id)
        return await self.put_session(session_id, replace(doc, context_blocks=(*doc.context_blocks, *blocks)))

    async def list_context_blocks(self, session_id: str, filter: Any = None) -> list[ContextBlock]:
        doc = await self.get_session(session_id)
        return list(doc.context_blocks) if doc else []


@pytest.mark.filterwarnings("ignore:WholeDocuments has only")
async def test_a_store_that_keeps_evidence_in_its_documents_records_tool_calls():
    store = WholeDocuments()
    for number in range(2):
        async with DefaultContextEngine(store) as engine:
            await engine.prepare_turn("s", f"question {number}")
            await engine.commit_assistant_message("s", f"answer {number}")
            await engine.record_tool_call("s", ToolCall(tool_call_id=f"c{number}", tool="t"), result=f"lamp {number}")
            turn = await engine.prepare_turn("s", "and now?")
            await engine.commit_assistant_message("s", "well")
    kept = store.documents["s"]
    assert sorted(each.content for each in kept.evidences.values()) == ["lamp 0", "lamp 1"]
    assert [len(each.result_evidence_ids) for each in kept.session.tool_state.tool_calls] == [1, 1]
    assert "lamp 0" in turn.text


def test_values_are_made_by_the_names_of_the_design():
    make: Any = {"budget": PruneBudget, "rules": PruneRules, "event": Event}
    assert make["budget"](max_tokens=9, tier_budgets={Priority.LOW: 3}) == PruneBudget(
        max_tokens=9, tier_tokens={Priority.LOW: 3}
    )
    assert make["rules"](must_keep_priorities=[Priority.LOW]).must_keep_priorities == [Priority.LOW]
    event = make["event"](event_type="Persisted", session_id="s", ts="2026-01-31T12:00:00+00:00")
    assert (event.at, event.ts) == (datetime(2026, 1, 31, 12, tzinfo=UTC), "2026-01-31T12:00:00+00:00")
    with pytest.raises(TypeError, match="tier_tokens and tier_budgets, which are the same"):
        make["budget"](max_tokens=9, tier_tokens={}, tier_budgets={})


async def test_a_store_of_documents_that_another_process_wrote_refuses_a_turn():
    store = Documents()
    with pytest.warns(UserWarning, match="Documents"):
        engine = DefaultContextEngine(store)
    async with engine:
        await engine.prepare_turn("s", "hello")
        await engine.commit_assistant_message("s", "hello")
        await engine.prepare_turn("s", "hello again")
        store.versions["s"] += 1
        with pytest.raises(TurnNotFoundError):
            await engine.commit_assistant_message("s", "hello")
        turn = await engine.prepare_turn("s", "once more")
        await engine.commit_assistant_message("s", "hello")
    said = [each.content for each in store.documents["s"].session.messages]
    assert said == ["hello", "hello", "once more", "hello"]
    assert turn.depth == 2


async def test_documents_of_the_present_version_migrate_unchanged():
    store = MemoryStore()
    await store.put_session("s", doc=SessionDocument(session=Session(session_id="s", messages=(HELLO,))))
    document = await store.get_session("s")
    assert document is not None
    migrator = Migrator()
    result = migrator.migrate(document_to_json(document), migrator.current_version())
    assert result.doc.session.messages[0].content == "hi"
    assert result.changes == ()
    with pytest.raises(MigrationError, match=r"version 0\.9"):
        migrator.migrate({}, "0.9")


async def test_a_document_with_a_value_that_no_field_has_is_refused():
    wrong = SessionDocument(session=Session(session_id="s", messages=(Message(role="usr", content="hi"),)))  # type: ignore[arg-type]
    with pytest.raises(
        SchemaValidationError, match=r"messages\[0\].role: 'usr' is none of system, user, assistant, tool"
    ):
        await MemoryStore().put_session("s", wrong)


@pytest.mark.parametrize("address", ["memory:", "file:{}/f", "sqlite:///{}/s.db"])
async def test_filters_take_lists_and_texts(tmp_path: Any, address: str):
    store = open_store(address.format(tmp_path))
    await store.put_session("s", doc=SessionDocument(session=Session(session_id="s", messages=(HELLO,))))
    before = datetime.now(UTC).isoformat()
    for name, kind in (("page", EvidenceType.RAG_DOC), ("order", EvidenceType.TOOL_RESULT)):
        source = EvidenceSource(kind=SourceKind.TOOL)
        await store.put_evidence("s", Evidence(evidence_id=name, type=kind, source=source, content=name))
    after = datetime.now(UTC).isoformat()
    for where, found in (
        (EvidenceFilter(types=[EvidenceType.RAG_DOC]), ["page"]),  # type: ignore[arg-type]
        (EvidenceFilter(since=before), ["page", "order"]),  # type: ignore[arg-type]
        (EvidenceFilter(since=after), []),  # type: ignore[arg-type]
        (EvidenceFilter(until=before), []),  # type: ignore[arg-type]
    ):
        assert [each.evidence_id for each in await store.list_evidences("s", filter=where)] == found
    await store.close()


async def test_a_document_of_a_program_may_have_times_as_texts_and_its_values_are_checked():
    def session_of(**message: Any) -> Any:
        said: Any = {"role": Role.USER, "content": "hello"} | message
        return SessionDocument(schema_version="1.0", session=Session(session_id="s", messages=(Message(**said), HELLO)))

    store = MemoryStore()
    await store.put_session("s", session_of(at="2026-01-31T12:00:00Z"))
    document = await store.get_session("s")
    assert document is not None
    assert [each.at for each in document.session.messages] == [datetime(2026, 1, 31, 12, tzinfo=UTC), None]
    with pytest.raises(SchemaValidationError, match=r"session.messages\[0\].content: is a number, not text"):
        await store.put_session("s", session_of(content=3))
    with pytest.raises(ValueError, match="'yesterday' is not an ISO 8601 time; write one, as"):
        await store.put_session("s", session_of(at="yesterday"))


async def test_a_part_without_a_method_of_its_protocol_is_refused_when_the_engine_is_made():
    bare: Any = object()
    with pytest.raises(ConfigError) as refused:
        DefaultContextEngine(bare, bare, clock=bare, renderer=bare, hasher=bare)
    assert str(refused.value).splitlines() == [
        "store is object, which has no `put_session`; give an object that has it.",
        "token_estimator is object, which has no `estimate` or `estimate_text`; give an object that has it.",
        "clock is object, which has no `now` or `now_iso`; give an object that has it.",
        "hasher is object, which has no `digest`; give an object that has it.",
        "renderer is object, which has no `render_block`; give an object that has it.",
    ]
    of_class: Any = Renderer
    nothing: Any = None
    with pytest.raises(ConfigError, match=r"renderer is the class Renderer; give an object of it, as Renderer\(\)"):
        DefaultContextEngine(MemoryStore(), renderer=of_class)
    with pytest.raises(ConfigError, match="store is NoneType"):
        DefaultContextEngine(nothing)

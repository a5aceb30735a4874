"""A session document has what its turns did, whichever store holds it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from engine_parts import WORLD

from jacquard import (
    ContextEngine,
    EvidenceConfig,
    HistoryConfig,
    PreparedTurn,
    RuntimeConfig,
    SummaryConfig,
    create_context_engine,
)
from jacquard.core.degradations import describe_degradation
from jacquard.core.sentences import translate
from jacquard.pipeline.evidence.rendering import describe_ingestions
from mnemosyne import (
    BlockFilter,
    BlockType,
    EvidenceSource,
    EvidenceType,
    IngestOptions,
    Message,
    Role,
    Sha256Hasher,
    SourceKind,
    Store,
    Task,
    ToolCall,
    document_from_json,
    document_to_json,
    open_store,
)
from mnemosyne.evidence import RedactingIngestor
from mnemosyne.stores.document_store import DocumentStore
from mnemosyne.testing.ingestor import BrokenRedactor, ManualClock

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "file", "sqlite", "documents"])
async def store(request: pytest.FixtureRequest, tmp_path) -> AsyncIterator[Any]:
    """Each store, and a store of a host that has only the methods of documents."""
    addresses = {"file": f"file:{tmp_path / 'files'}", "sqlite": f"sqlite:///{tmp_path / 'store.db'}"}
    held = open_store(addresses.get(request.param, "memory:"))
    yield DocumentStore(held) if request.param == "documents" else held
    await held.close()


async def messages_of(store: Store) -> list[Message]:
    document = await store.get_session("s")
    return [] if document is None else list(document.session.messages)


async def test_a_waiting_message_has_its_time_in_the_document(store):
    clock = ManualClock()
    async with create_context_engine(store, clock=clock) as engine:
        for number in range(2):
            asked = clock.now()
            await engine.prepare_turn("s", f"question {number}")
            clock.at += timedelta(seconds=60)
            waiting = (await messages_of(store))[-1]
            assert (waiting.content, waiting.at) == (f"question {number}", asked)
            await engine.commit_assistant_message("s", f"answer {number}")
            *_, question, answer = await messages_of(store)
            assert question == waiting
            assert answer.at == asked + timedelta(seconds=60)


async def test_a_message_keeps_the_time_that_its_host_gave_and_the_first_of_a_repeated_call(store):
    clock = ManualClock()
    given = clock.now() - timedelta(days=3)
    async with create_context_engine(store, clock=clock) as engine:
        await engine.prepare_turn("s", Message(role=Role.USER, content="earlier", at=given))
        assert (await messages_of(store))[-1].at == given
        await engine.commit_assistant_message("s", "yes")
        asked = clock.now()
        first = await engine.prepare_turn("s", "now")
        clock.at += timedelta(seconds=60)
        assert replace(await engine.prepare_turn("s", "now"), version=first.version) == first
        clock.at += timedelta(seconds=60)
        await engine.prepare_turn("s", "something else")
        said = [(each.content, each.at) for each in await messages_of(store)]
    assert said[-2:] == [("now", asked), ("something else", asked + timedelta(seconds=120))]


class FailingHasher(Sha256Hasher):
    """A hasher that can be broken."""

    is_broken = False

    def digest(self, content: str) -> str:
        if self.is_broken:
            raise ValueError("no hash")
        return super().digest(content)


def told_of(turn: PreparedTurn, code: str) -> list[str]:
    return [each.detail for each in turn.report.degradations if each.code == code]


async def test_the_prompt_that_uses_evidence_reports_what_its_ingestion_left_out(store):
    hasher = FailingHasher()
    async with create_context_engine(store, hasher=hasher) as engine:
        await engine.prepare_turn("s", "How far is the mill?")
        hasher.is_broken = True
        await engine.record_tool_call(
            "s", ToolCall(tool_call_id="c1", tool="map"), result="The mill is two hours away."
        )
        hasher.is_broken = False
        document = await store.get_session("s")
        (kept,) = [each for each in document.evidences.values() if each.type is EvidenceType.TOOL_RESULT]
        assert kept.extra["degradations"] in (["dedup_skipped"], ("dedup_skipped",))
        turn = await engine.prepare_turn("s", "And how far is the mill from here?")
        assert "two hours" in turn.text
        (detail,) = told_of(turn, "dedup_skipped")
        assert detail.startswith(f"When evidence {kept.evidence_id} was stored: A text could not be compared")
        # The receipt is stored with its turn.
        record = await store.turn("s", turn.turn_id)
        assert [each["code"] for each in record.receipt["degradations"]].count("dedup_skipped") == 1


@pytest.mark.parametrize("pass_through", [False, True])
async def test_the_next_prompt_reports_a_text_that_could_not_be_searched_shown_or_withheld(store, pass_through):
    ingestor = RedactingIngestor(store, BrokenRedactor(), ManualClock())
    async with create_context_engine(store, ingestor=ingestor) as engine:
        await engine.prepare_turn("s", "What is the code?")
        options = IngestOptions(pass_through=pass_through)
        call = ToolCall(tool_call_id="c1", tool="safe")
        await engine.record_tool_call("s", call, result="The code is 4711.", options=options)
        turn = await engine.prepare_turn("s", "Open the safe.")
        assert ("4711" in turn.text) is pass_through
        assert len(told_of(turn, "redaction_failed")) == 1


async def test_a_prompt_without_the_evidence_does_not_report_its_ingestion(store):
    hasher = FailingHasher()
    config = RuntimeConfig(evidence=EvidenceConfig(relevance_floor=0.9))
    async with create_context_engine(store, config=config, hasher=hasher) as engine:
        await engine.prepare_turn("s", "How far is the mill?")
        hasher.is_broken = True
        await engine.record_tool_call(
            "s", ToolCall(tool_call_id="c1", tool="map"), result="The mill is two hours away."
        )
        hasher.is_broken = False
        await engine.commit_assistant_message("s", "Two hours.")
        turn = await engine.prepare_turn("s", "Sing me a song about the sea, please.")
        assert "two hours away" not in turn.text
        assert not told_of(turn, "dedup_skipped")


async def test_a_passage_of_a_document_reports_the_ingestion_of_its_document(store):
    async with create_context_engine(store, config=RuntimeConfig(profile="assistant")) as engine:
        await engine.prepare_turn("s", "Hello")
        await engine.commit_assistant_message("s", "Hello.")
        source = EvidenceSource(kind=SourceKind.RAG, name="manual")
        done = await engine.ingestor_of("s").ingest(
            "The pump is primed by opening the red valve for ten seconds.",
            source,
            EvidenceType.RAG_DOC,
            options=IngestOptions(as_document=True, redact=False),
        )
        assert done.degradations == ("redaction_off",)
        turn = await engine.prepare_turn("s", "How is the pump primed with the red valve?")
        assert "ten seconds" in turn.text
        (detail,) = told_of(turn, "redaction_off")
        assert str(done.evidence_id) in detail


SMALL_WINDOW = RuntimeConfig(
    history=HistoryConfig(max_messages=4),
    summary=SummaryConfig(trigger_message_count=4, preserve_recent_messages=2),
)


async def play_with_everything(engine: ContextEngine) -> PreparedTurn:
    """Play turns whose last prompt has a state, a summary, messages, a memory, a tool result and a task."""
    for number, text in enumerate(("The golden key is under the mill stone.", "I rest.", "I wait.", "I sing.")):
        await engine.prepare_turn("s", text)
        await engine.commit_assistant_message("s", f"<content>So it is, {number}.</content>")
    await engine.upsert_tasks("s", [Task(task_id="t1", name="find the key")])
    await engine.record_tool_call("s", ToolCall(tool_call_id="c1", tool="map"), result="The mill is two hours away.")
    return await engine.prepare_turn("s", "Where is the golden key, under which stone?")


async def test_the_blocks_stored_with_a_turn_are_of_every_type(store):
    config = replace(SMALL_WINDOW, summary=SummaryConfig(enabled=False))
    async with create_context_engine(store, world=WORLD, config=config) as engine:
        turn = await play_with_everything(engine)
        document = await store.get_session("s")
    stored = {block.block_id: block for block in document.context_blocks}
    assert {block.block_type for block in stored.values()} == set(BlockType)
    assert set(turn.report.new_block_ids) <= set(stored)
    # Each block of the prompt is stored, or is one of the messages that a block stands for.
    said = [each for each in turn.context_blocks if each.block_type is BlockType.CONVERSATION]
    others = {each.block_id for each in turn.context_blocks} - {each.block_id for each in said}
    assert others <= set(stored)
    shown = stored["shown:messages"]
    assert sum(each.token_estimate for each in said) == shown.token_estimate
    ids = [each.message_id for each in document.session.messages]
    first, last = (ids.index(shown.extra["messages"][end]) for end in ("first", "last"))
    assert last == len(ids) - 1  # the message that waits for its reply
    assert last - first + 1 == shown.extra["messages"]["count"] == len(said)
    assert [name for name, each in stored.items() if name.startswith("flesh:") and each.block_type is BlockType.MEMORY]


async def test_no_message_is_stored_again_in_a_block(store):
    config = replace(SMALL_WINDOW, summary=SummaryConfig(enabled=False))
    async with create_context_engine(store, world=WORLD, config=config) as engine:
        await play_with_everything(engine)
        document = await store.get_session("s")
    texts = "\n".join(block.content for block in document.context_blocks)
    assert not [each.content for each in document.session.messages if each.content in texts]


async def test_blocks_of_a_turn_come_back_with_their_document_and_are_in_no_later_prompt(store):
    async with create_context_engine(store, world=WORLD, config=SMALL_WINDOW) as engine:
        await play_with_everything(engine)
        document = await store.get_session("s")
        assert document_from_json(document_to_json(document)) == replace(document, version=None)
        await store.put_session("s", document, expected_version=document.version)
        again = await store.get_session("s")
        assert again.context_blocks == document.context_blocks
        turn = await engine.prepare_turn("s", "And then?")
        assert not [each for each in turn.context_blocks if each.block_id.startswith("shown:")]


async def test_a_first_prompt_stores_a_block_for_its_one_message(store):
    async with create_context_engine(store) as engine:
        await engine.prepare_turn("s", "hello")
        (block,) = await store.list_context_blocks("s", BlockFilter(block_types=frozenset({BlockType.CONVERSATION})))
    assert (block.block_id, block.content, block.extra["messages"]["count"]) == ("shown:messages", "", 1)


def test_what_ingestion_left_out_is_told_in_chinese():
    (told,) = describe_ingestions([("e1", ("dedup_skipped",)), ("e2", ("dedup_skipped",))])
    detail = describe_degradation(told).detail
    assert translate(detail, "zh").startswith("存储证据 e1, e2 时：一段文字没能与其他文字比对")

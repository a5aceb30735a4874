from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from mnemosyne import (
    Chain,
    ConflictPolicy,
    EvidenceFilter,
    EvidenceSource,
    EvidenceType,
    IngestOptions,
    MemoryEntry,
    MemoryStore,
    Priority,
    Ref,
    SessionStart,
    SourceKind,
    resolve_conflicts,
)
from mnemosyne.evidence import RedactingIngestor
from mnemosyne.evidence.blocks.derive import derive_evidence_blocks, refs_of
from mnemosyne.evidence.blocks.resolve import RefFault, RefResolver
from mnemosyne.evidence.sweep import find_expired_evidences
from mnemosyne.privacy.redact import RegexRedactor
from mnemosyne.schema.memory import world_scope

pytestmark = pytest.mark.anyio
AT = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
ORDER = '{"id": "A1", "status": "shipped", "note": "left the harbour"}'


@dataclass
class Wheel:
    at: datetime = AT

    def now(self):
        return self.at


class ParserState:
    def __init__(self, store):
        self.store, self.clock = store, Wheel()
        self.resolver = RefResolver(store, self.clock)

    async def take(self, content, kind=SourceKind.TOOL, uri="", metadata=None, **options):
        ingestor = RedactingIngestor(self.store, RegexRedactor(), self.clock)
        source = EvidenceSource(kind=kind, name="getOrder", uri=uri)
        done = await ingestor.ingest(
            "s1", content, source, EvidenceType.TOOL_RESULT, metadata=metadata, options=IngestOptions(**options)
        )
        return done.evidence

    def blocks(self, evidences, settlement=None):
        return derive_evidence_blocks(evidences, now=self.clock.now(), count=len, settlement=settlement)


@pytest.fixture
async def desk():
    store = MemoryStore()
    await store.create_session(SessionStart(session_id="s1", world_id="w1", locale="en", state={}))
    yield ParserState(store)
    await store.close()


async def test_a_block_points_and_is_resolved_by_its_selector(desk):
    evidence = await desk.take(ORDER, selectors=("json:$.status", "json:$.note"))
    (block,) = desk.blocks([evidence])
    assert (block.content, block.priority, block.token_estimate) == (
        "",
        Priority.HIGH,
        len("shipped\nleft the harbour"),
    )
    resolved = await desk.resolver.resolve_block("s1", block)
    assert resolved.text == "shipped\nleft the harbour"
    assert resolved.details == ()


async def test_a_changed_source_is_noticed_and_told(desk):
    evidence = await desk.take(ORDER, selectors=("json:$.status",))
    (block,) = desk.blocks([evidence])
    await desk.store.put_evidence("s1", replace(evidence, content=ORDER.replace("shipped", "lost")))
    resolved = await desk.resolver.resolve_block("s1", block)
    assert resolved.text == "lost"
    assert resolved.refs[0].fault is RefFault.SOURCE_CHANGED
    assert resolved.details[0].startswith("source_changed: json:$.status of evidence")
    await desk.store.put_evidence("s1", replace(evidence, content=ORDER.replace("harbour", "quay")))
    assert (await desk.resolver.resolve_block("s1", block)).details == ()


async def test_a_selector_that_fails_falls_back_on_the_block(desk):
    evidence = await desk.take("not json any more")
    ref = Ref(evidence_id=evidence.evidence_id, selector="json:$.status")
    (block,) = desk.blocks([evidence])
    resolved = await desk.resolver.resolve_block("s1", replace(block, refs=(ref,), content="was shipped"))
    assert (resolved.text, resolved.refs[0].fault) == ("was shipped", RefFault.SELECTOR_RESOLVE_FAILED)


async def test_evidence_that_is_not_there(desk):
    missing = await desk.resolver.resolve("s1", Ref(evidence_id="gone"))
    assert (missing.text, missing.fault) == ("", RefFault.EVIDENCE_NOT_FOUND)


async def test_expired_evidence_is_not_used(desk):
    evidence = await desk.take("sunny", ttl_seconds=60)
    other = await desk.take("cold")
    (ref,) = refs_of(evidence)
    assert (await desk.resolver.resolve("s1", ref)).text == "sunny"
    desk.clock.at += timedelta(seconds=60)
    assert (await desk.resolver.resolve("s1", ref)).fault is RefFault.EVIDENCE_EXPIRED
    assert [block.refs[0].evidence_id for block in desk.blocks([evidence, other])] == [other.evidence_id]
    assert await find_expired_evidences(desk.store, desk.clock) == {"s1": (evidence.evidence_id,)}


async def test_a_pointer_is_followed_and_its_change_is_noticed(desk):
    bell = MemoryEntry(
        entry_id="bell", scope=world_scope("w1"), chain=Chain.LORE, kind="encyclopedia", text="It rings at dawn."
    )
    await desk.store.replace_world("w1", "1", [bell])
    uri = "mnemosyne://world:w1/lore/bell"
    evidence = await desk.take("It rings at dawn.", SourceKind.RAG, uri=uri, store_content=False)
    (ref,) = refs_of(evidence)
    assert (await desk.resolver.resolve("s1", ref)).text == "It rings at dawn."
    await desk.store.replace_world("w1", "2", [replace(bell, text="It is cracked.")])
    changed = await desk.resolver.resolve("s1", ref)
    assert (changed.text, changed.fault) == ("It is cracked.", RefFault.SOURCE_CHANGED)


async def test_a_pointer_elsewhere_needs_a_fetcher(desk):
    page = await desk.take("old words", SourceKind.RAG, uri="https://wiki.example/a", store_content=False)
    (ref,) = refs_of(page)
    assert (await desk.resolver.resolve("s1", ref)).fault is RefFault.CONTENT_NOT_STORED

    async def fetch(uri):
        assert uri == "https://wiki.example/a"
        return "old words"

    resolver = RefResolver(desk.store, desk.clock, fetchers={"https": fetch})
    assert (await resolver.resolve("s1", ref)).text == "old words"

    async def broken(uri):
        raise OSError("no route")

    resolver = RefResolver(desk.store, desk.clock, fetchers={"https": broken})
    assert (await resolver.resolve("s1", ref)).fault is RefFault.CONTENT_NOT_STORED


async def test_priority_follows_confidence_and_place(desk):
    sure = [await desk.take(f"sure {place}", confidence=0.9) for place in range(3)]
    doubtful = await desk.take("doubtful", confidence=0.1)
    priorities = [block.priority for block in desk.blocks([*sure, doubtful])]
    assert priorities == [Priority.MEDIUM, Priority.HIGH, Priority.HIGH, Priority.LOW]


async def test_what_was_overruled_has_no_block(desk):
    tool = await desk.take(ORDER)
    page = await desk.take('{"id": "A1", "status": "pending"}', SourceKind.RAG)
    settled = resolve_conflicts([page, tool], ConflictPolicy.PREFER_TOOL_OVER_RAG)
    assert [block.refs[0].evidence_id for block in desk.blocks([page, tool], settled)] == [tool.evidence_id]


async def test_the_newest_come_without_reading_all(desk):
    for place in range(9):
        await desk.take(f"result {place}")
    newest = await desk.store.list_evidences("s1", EvidenceFilter(limit=3, newest=True))
    assert [each.content for each in newest] == ["result 6", "result 7", "result 8"]

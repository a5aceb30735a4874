from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne import EvidenceSource, EvidenceType, IngestOptions, MemoryStore, SessionStart, SourceKind, extract
from mnemosyne.evidence import RedactingIngestor
from mnemosyne.evidence.documents import MOST_WEIGHT, document_entries, has_expired, index_documents, split_document
from mnemosyne.evidence.sweep import sweep_expired
from mnemosyne.privacy.redact import RegexRedactor
from mnemosyne.schema.memory import session_scope

pytestmark = pytest.mark.anyio
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
HANDBOOK = (
    "# Refunds\n\n"
    + "A refund is paid within a fortnight. " * 20
    + "\n\n# Ferries\n\n"
    + "The ferry leaves at dawn. " * 60
)


class FixedClock:
    now_is = NOW

    def now(self):
        return self.now_is


def page(uri="file:handbook.md"):
    return EvidenceSource(kind=SourceKind.RAG, name="handbook.md", uri=uri)


@pytest.fixture
async def store():
    store = MemoryStore()
    await store.create_session(SessionStart(session_id="s", world_id="bare", locale="en", state={}))
    yield store
    await store.close()


async def put(store, text, clock=None, **options):
    ingestor = RedactingIngestor(store, RegexRedactor(), clock or FixedClock())
    done = await ingestor.ingest(
        "s", text, page(), EvidenceType.RAG_DOC, options=IngestOptions(as_document=True, **options)
    )
    return done.evidence


async def passages(store, evidence):
    ids = [each.entry_id for each in document_entries("s", evidence)]
    return await store.entries(session_scope("s"), ids)


@given(st.text(alphabet="ab .\n#字。 ", max_size=4_000))
def test_passages_hold_every_word_once_and_are_small_enough(text):
    spans = split_document(text)
    assert all(begin < end for begin, end in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    kept = "".join(text[begin:end] for begin, end in spans)
    assert "".join(kept.split()) == "".join(text.split())
    # A small rest is joined with the passage before it.
    assert all(sum(3 if char >= "\u2e80" else 1 for char in text[a:b]) <= 1.25 * MOST_WEIGHT for a, b in spans)


async def test_an_entry_is_what_its_selector_points_at(store):
    evidence = await put(store, HANDBOOK)
    found = await passages(store, evidence)
    assert len(found) >= 3
    for each in found:
        assert each.metadata["document_id"] == evidence.evidence_id
        assert extract(evidence.content, each.metadata["section_id"]).text == each.text
    assert found[0].title == "handbook.md: Refunds"
    assert found[-1].title == "handbook.md: Ferries"


async def test_a_changed_document_takes_the_place_of_the_former_one(store):
    old = await put(store, HANDBOOK)
    assert (await put(store, HANDBOOK)).evidence_id == old.evidence_id
    new = await put(store, "The ferry leaves at noon.")
    assert await passages(store, old) == ()
    assert [each.text for each in await passages(store, new)] == ["The ferry leaves at noon."]


async def test_what_redaction_removes_is_in_no_passage(store):
    found = await passages(store, await put(store, "Ask Ada. Phone: 415-555-2671"))
    assert [each.text for each in found] == ["Ask Ada. Phone: [redacted:phone]"]


async def test_an_expired_document_is_not_recalled_and_a_sweep_removes_its_passages(store):
    clock = FixedClock()
    evidence = await put(store, HANDBOOK, clock, ttl_seconds=60.0)
    (first, *_) = await passages(store, evidence)
    assert not has_expired(first, NOW)
    assert has_expired(first, NOW + timedelta(seconds=61))
    clock.now_is = NOW + timedelta(seconds=61)
    assert await sweep_expired(store, clock) == {"s": 1}
    assert await passages(store, evidence) == ()
    assert await store.find_text(["The ferry leaves at dawn."]) == ()


async def test_documents_that_a_host_put_into_the_store_are_indexed_when_asked(store):
    evidence = await put(store, HANDBOOK)
    other = MemoryStore()
    try:
        await other.create_session(SessionStart(session_id="s", world_id="bare", locale="en", state={}))
        await other.put_evidence("s", evidence)
        assert await index_documents(other, "s") == len(document_entries("s", evidence))
        assert await index_documents(other, "s") == 0
    finally:
        await other.close()

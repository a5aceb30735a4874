import hashlib
import json
import stat
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne import (
    EvidenceLinks,
    EvidenceNotFoundError,
    EvidenceSource,
    EvidenceType,
    IngestOptions,
    MemoryStore,
    RedactionError,
    RedactionRules,
    SessionNotFoundError,
    SessionStart,
    SourceKind,
)
from mnemosyne.evidence import FolderVault, IngestRules, RedactingIngestor, confidence_of, trust_of, without_shown
from mnemosyne.privacy.redact import RegexRedactor
from mnemosyne.schema.ingest import ShownText
from mnemosyne.schema.memory import Trust
from mnemosyne.testing.ingestor import IngestorContract

pytestmark = pytest.mark.anyio
AT = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
TOOL = EvidenceSource(kind=SourceKind.TOOL, name="getOrder")
WIKI = EvidenceSource(kind=SourceKind.RAG, name="wiki", uri="https://wiki.example/renewal")
RESULT, DOC = EvidenceType.TOOL_RESULT, EvidenceType.RAG_DOC
SECRET = "13800138000"
TOLD = "The amber bell under the chapel rings by itself when a dragon crosses the northern pass."
TOLD_ZH = "礼拜堂下的琥珀钟在巨龙越过北方山口时会自己响起，守钟人老周从不告诉外人。"


@dataclass
class Wheel:
    """A clock that is turned by hand."""

    at: datetime = AT

    def now(self):
        return self.at


@dataclass
class ParserState:
    store: MemoryStore
    clock: Wheel = field(default_factory=Wheel)
    redactor: object = field(default_factory=RegexRedactor)
    vault: FolderVault | None = None
    rules: IngestRules = field(default_factory=IngestRules)

    async def ingest(self, content, source=TOOL, kind=RESULT, *, links=None, metadata=None, **options):
        ingestor = RedactingIngestor(self.store, self.redactor, self.clock, vault=self.vault, rules=self.rules)
        return await ingestor.ingest(
            "s1", content, source, kind, links=links, metadata=metadata, options=IngestOptions(**options)
        )


class TestContract(IngestorContract):
    def make_ingestor(self, store, redactor, clock):
        return RedactingIngestor(store, redactor, clock)


@pytest.fixture
async def desk():
    store = MemoryStore()
    await store.create_session(SessionStart(session_id="s1", world_id="w1", locale="en", state={}))
    yield ParserState(store)
    await store.close()


async def test_what_is_taken_in_is_kept(desk):
    done = await desk.ingest(
        '{"status": "shipped"}', links=EvidenceLinks(tool_call_id="c1"), metadata={"tags": ["order"]}
    )
    kept = await desk.store.get_evidence("s1", done.evidence_id)
    assert kept == done.evidence
    assert (done.is_new, kept.content, kept.links.tool_call_id) == (True, '{"status": "shipped"}', "c1")
    assert (kept.trust, kept.confidence, kept.created_at) == (Trust.TOOL, 0.9, AT)


async def test_the_same_text_of_the_same_source_is_one_evidence(desk):
    first = await desk.ingest("renew at /v2/renew", WIKI, DOC)
    again = await desk.ingest("renew at /v2/renew", WIKI, DOC)
    other = await desk.ingest("renew at /v3/renew", WIKI, DOC)
    assert (again.evidence_id, again.is_new) == (first.evidence_id, False)
    assert other.supersedes == first.evidence_id
    assert len(await desk.store.list_evidences("s1")) == 2


async def test_memories_do_not_hide_what_a_new_text_contradicts(desk):
    first = await desk.ingest("renew at /v2/renew", WIKI, DOC)
    memory = replace(first.evidence, source=replace(WIKI, uri="mnemosyne://session:s1/history/m"))
    for number in range(300):
        await desk.store.put_evidence("s1", replace(memory, evidence_id=f"m{number}"))
    assert (await desk.ingest("renew at /v3/renew", WIKI, DOC)).supersedes == first.evidence_id


async def test_the_same_words_of_another_mouth_are_another_evidence(desk):
    said = await desk.ingest("yes", EvidenceSource(kind=SourceKind.USER), EvidenceType.USER_INPUT)
    meant = await desk.ingest("yes", EvidenceSource(kind=SourceKind.LLM), EvidenceType.LLM_OUTPUT)
    assert said.evidence_id != meant.evidence_id
    assert (said.evidence.trust, meant.evidence.trust) == (Trust.USER, Trust.MODEL)


async def test_a_call_is_known_by_its_arguments(desk):
    first = await desk.ingest("42", args={"a": 1, "b": 2})
    again = await desk.ingest("42", args={"b": 2, "a": 1})
    other_args = await desk.ingest("42", args={"a": 2})
    changed = await desk.ingest("43", args={"a": 1, "b": 2})
    assert again.evidence_id == first.evidence_id
    assert other_args.evidence_id != first.evidence_id
    assert changed.supersedes == first.evidence_id


async def test_no_hash_gives_away_what_was_taken_out(desk):
    done = await desk.ingest(f"call {SECRET}", args={"phone": SECRET})
    raw = (
        f"call {SECRET}",
        SECRET,
        json.dumps({"phone": SECRET}),
        json.dumps({"phone": SECRET}, separators=(",", ":")),
    )
    told = str(done.evidence)
    assert not [text for text in raw if hashlib.sha256(text.encode()).hexdigest() in told]
    assert "#args=" in done.evidence.source.uri


async def test_arguments_that_cannot_be_written_down_only_cost_the_dedup(desk):
    done = await desk.ingest("42", args={"handle": object()})
    assert done.is_new
    assert done.degradations == ("dedup_skipped",)


async def test_a_key_names_its_evidence(desk):
    first = await desk.ingest("one", idempotency_key="call-7")
    again = await desk.ingest("two", idempotency_key="call-7")
    assert (again.evidence_id, again.evidence.content) == (first.evidence_id, "one")


async def test_nothing_sensitive_is_stored_anywhere(desk):
    source = EvidenceSource(kind=SourceKind.TOOL, name=f"who is {SECRET}", uri=f"https://crm.example/?phone={SECRET}")
    done = await desk.ingest(
        f"电话 {SECRET}，邮箱 li@example.cn", source, metadata={"caller": {"mobile": SECRET}, "password": "pw"}
    )
    assert done.evidence.content == "电话 [redacted:phone]，邮箱 [redacted:email]"
    assert await desk.store.find_text([SECRET, "li@example.cn"]) == ()
    assert done.evidence.metadata["password"] == "[redacted:secret]"
    assert set(done.redaction.rules_applied) == {"phone", "email", "secret"}
    assert done.redaction.fields_redacted == 5


class Broken:
    async def redact(self, text, rules=None):
        raise RedactionError("the service is down")


async def test_a_redactor_that_fails_withholds_the_text(desk):
    desk.redactor = Broken()
    done = await desk.ingest(f"call {SECRET}", WIKI, DOC, metadata={"note": SECRET})
    assert done.degradations == ("redaction_failed",)
    assert done.evidence.content == ""
    assert done.evidence.metadata["withheld"] == "redaction_failed"
    assert await desk.store.find_text([SECRET]) == ()


async def test_passing_through_must_be_asked_for(desk):
    desk.redactor = Broken()
    done = await desk.ingest(f"call {SECRET}", pass_through=True)
    assert done.evidence.content == f"call {SECRET}"
    assert done.evidence.metadata["has_sensitive"] is True
    assert done.degradations == ("redaction_failed",)


async def test_rules_of_one_call(desk):
    rules = RedactionRules(field_paths=("$.user.name",), dictionaries=())
    done = await desk.ingest('{"user": {"name": "Ann"}}', redaction_rules=rules)
    assert "Ann" not in done.evidence.content


async def test_an_original_is_kept_apart_only_when_asked(desk, tmp_path):
    desk.vault = FolderVault(tmp_path / "originals")
    plain = await desk.ingest(f"one {SECRET}")
    kept = await desk.ingest(f"two {SECRET}", keep_original=True)
    clean = await desk.ingest("nothing to hide", keep_original=True)
    assert await desk.vault.get("s1", plain.evidence_id) is None
    assert await desk.vault.get("s1", kept.evidence_id) == f"two {SECRET}"
    assert await desk.vault.get("s1", clean.evidence_id) is None
    files = list((tmp_path / "originals").rglob("*.json"))
    assert len(files) == 1
    assert stat.S_IMODE(files[0].stat().st_mode) == 0o600
    assert stat.S_IMODE(files[0].parent.stat().st_mode) == 0o700
    assert await desk.store.find_text([SECRET]) == ()
    assert await desk.vault.drop(session_ids=["s1"], evidence_ids=[kept.evidence_id]) == 1
    assert list((tmp_path / "originals").rglob("*.json")) == []


async def test_a_pointer_alone(desk):
    done = await desk.ingest("renew at /v2/renew", WIKI, DOC, store_content=False)
    again = await desk.ingest("renew at /v2/renew", WIKI, DOC, store_content=False)
    kept = await desk.store.get_evidence("s1", done.evidence_id)
    assert (kept.content, kept.source.uri, len(kept.content_hash)) == ("", WIKI.uri, 64)
    assert again.evidence_id == done.evidence_id


async def test_what_has_expired_counts_for_nothing(desk):
    first = await desk.ingest("sunny", ttl_seconds=60)
    desk.clock.at += timedelta(seconds=30)
    again = await desk.ingest("sunny", ttl_seconds=60)
    assert (again.is_new, again.evidence.expires_at) == (False, AT + timedelta(seconds=60))
    desk.clock.at += timedelta(seconds=31)
    fresh = await desk.ingest("sunny", ttl_seconds=60)
    assert fresh.is_new
    assert fresh.evidence.expires_at == desk.clock.at + timedelta(seconds=60)
    assert first.evidence_id == fresh.evidence_id


async def test_a_type_may_have_a_time_to_live(desk):
    desk.rules = IngestRules(ttl_seconds={RESULT: 10})
    assert (await desk.ingest("a")).evidence.expires_at == AT + timedelta(seconds=10)
    assert (await desk.ingest("a", WIKI, DOC)).evidence.expires_at is None


async def test_trust_does_not_rise(desk):
    page = await desk.ingest("<p>they say</p>", WIKI, DOC)
    source = EvidenceSource(kind=SourceKind.SYSTEM, name="digest")
    summary = await desk.ingest("they say", source, EvidenceType.OTHER, derived_from=(page.evidence_id,))
    assert (page.evidence.trust, summary.evidence.trust) == (Trust.WEB, Trust.WEB)
    with pytest.raises(EvidenceNotFoundError):
        await desk.ingest("x", derived_from=("no such",))


@pytest.mark.parametrize(
    ("source", "kind", "trust"),
    [
        (EvidenceSource(kind=SourceKind.TOOL, uri="HTTPS://a.example"), RESULT, Trust.WEB),
        (EvidenceSource(kind=SourceKind.TOOL), RESULT, Trust.TOOL),
        (EvidenceSource(kind=SourceKind.SKILL), EvidenceType.SKILL_OUTPUT, Trust.TOOL),
        (EvidenceSource(kind=SourceKind.SYSTEM), EvidenceType.OTHER, Trust.AUTHORED),
        (EvidenceSource(kind=SourceKind.SYSTEM), EvidenceType.LLM_OUTPUT, Trust.MODEL),
        (EvidenceSource(kind=SourceKind.RAG, uri="mnemosyne://world:w/lore/a"), DOC, Trust.AUTHORED),
        (EvidenceSource(kind=SourceKind.RAG, uri="file:///notes.md"), DOC, Trust.TOOL),
        (EvidenceSource(kind=SourceKind.USER), EvidenceType.USER_INPUT, Trust.USER),
    ],
)
def test_trust_by_source(source, kind, trust):
    assert trust_of(source, kind) is trust


@pytest.mark.parametrize(
    ("kind", "trust", "metadata", "confidence"),
    [
        (SourceKind.RAG, Trust.TOOL, {"score": 0.83}, 0.83),
        (SourceKind.RAG, Trust.TOOL, {"score": 14.2}, 0.6),
        (SourceKind.RAG, Trust.TOOL, {"distance": 1.0}, 0.5),
        (SourceKind.RAG, Trust.TOOL, {"rank": 1}, 0.9),
        (SourceKind.RAG, Trust.TOOL, {"rank": 40}, 0.3),
        (SourceKind.RAG, Trust.WEB, {"score": 0.95}, 0.7),
        (SourceKind.TOOL, Trust.TOOL, {"status": "timeout"}, 0.2),
        (SourceKind.SYSTEM, Trust.AUTHORED, {}, 1.0),
        (SourceKind.LLM, Trust.MODEL, {"score": True}, 0.5),
    ],
)
def test_confidence_by_rule(kind, trust, metadata, confidence):
    assert confidence_of(EvidenceSource(kind=kind), trust, metadata) == confidence


async def test_a_given_confidence_counts_and_must_be_one(desk):
    assert (await desk.ingest("a", confidence=0.25)).evidence.confidence == 0.25
    with pytest.raises(ValueError, match=r"0\.\.1"):
        await desk.ingest("b", confidence=1.5)


@pytest.mark.parametrize("told", [TOLD, TOLD_ZH])
async def test_an_echo_of_the_prompt_is_no_evidence(desk, told):
    shown = (ShownText(source_id="lore_bell", text=told),)
    escaped = told.replace("'", "&apos;").replace(",", " &#44;") if "," in told else f"  {told}\n"
    for echo in (told, f"\n{told}\n", f"<memory>{told}</memory>", escaped):
        done = await desk.ingest(echo, shown=shown)
        assert done.evidence is None, echo
        assert done.recalled == ("lore_bell",)
    assert await desk.store.list_evidences("s1") == ()


async def test_of_a_mixed_text_the_news_stay(desk):
    news = "The innkeeper adds that the bell rang twice last night, and nobody had touched it."
    done = await desk.ingest(f"{news} {TOLD}", shown=(ShownText(source_id="lore_bell", text=TOLD),))
    assert done.evidence.content == f"{news} [recalled:lore_bell]"
    assert done.evidence.metadata["recalled"] == ["lore_bell"]


async def test_json_stays_json():
    content = '{"found": ["' + TOLD + '"], "new": "A fresh trail of ash leads from the pass to the old mill."}'
    fresh = without_shown(content, (ShownText(source_id="lore_bell", text=TOLD),))
    assert fresh.text.startswith('{"found": ["[recalled:lore_bell]"], "new": "A fresh trail')


def test_common_words_are_no_echo():
    shown = (
        ShownText(source_id="h1", text="The hero walks to the old mill and waits."),
        ShownText(source_id="h2", text="yes"),
    )
    for text in ("yes", "The hero walks to the village.", "老周", '{"health": 85}'):
        assert without_shown(text, shown).text == text


@given(st.text(max_size=300), st.lists(st.text(max_size=120), max_size=4))
def test_what_is_left_is_whole_where_nothing_was_shown(content, told):
    shown = tuple(ShownText(source_id=f"s{place}", text=text) for place, text in enumerate(told))
    fresh = without_shown(content, shown)
    if not fresh.sources:
        assert fresh.text == content
    else:
        assert set(fresh.sources) <= {each.source_id for each in shown}
        assert without_shown(fresh.text, shown).text == fresh.text


async def test_a_session_must_be_there(desk):
    ingestor = RedactingIngestor(desk.store, RegexRedactor(), desk.clock)
    with pytest.raises(SessionNotFoundError):
        await ingestor.ingest("nobody", "a", TOOL, RESULT)


async def test_selectors_are_kept_with_their_hash(desk):
    done = await desk.ingest('{"status": "shipped", "by": "sea"}', selectors=("json:$.status", "json:$.nope"))
    (ref,) = done.evidence.metadata["shown_refs"]
    assert ref["selector"] == "json:$.status"
    assert len(ref["hash"]) == 64
    assert done.degradations == ("selector_failed",)

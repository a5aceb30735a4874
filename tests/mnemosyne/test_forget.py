"""An erasure is proved by the bytes on the disk: every file of the store's folder is searched."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mnemosyne import (
    Actor,
    Author,
    AuthorKind,
    CalibratedEstimator,
    Chain,
    Erasure,
    Evidence,
    EvidenceSource,
    EvidenceType,
    IngestOptions,
    MemoryEntry,
    Message,
    Meta,
    RetrievalQuery,
    Role,
    Session,
    SessionDocument,
    SessionStart,
    SourceKind,
    open_store,
)
from mnemosyne.evidence import FolderVault, RedactingIngestor
from mnemosyne.privacy.forget import MemoryLocations, forget, forms_on_disk, plan_erasure, prove
from mnemosyne.privacy.redact import RegexRedactor
from mnemosyne.privacy.runs import is_distinctive
from mnemosyne.retrieval.engines.tiered_index import TieredIndex
from mnemosyne.retrieval.recall.hybrid import HybridRetriever
from mnemosyne.schema.memory import Trust, session_scope
from mnemosyne.schema.record import ImportedTurn, Prefetch, TurnCommit, TurnRecord
from mnemosyne.schema.session import BranchSpan, TurnKind, TurnStatus

pytestmark = pytest.mark.anyio
AT = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
SECRET = 'My sister Ottoline keeps the "quicksilver" ledger behind the brewery <wall> & nobody at Harrowgate knows.'
SECRET_ZH = "我姐姐把水银账册藏在酿酒坊的夹墙后面，哈罗盖特没有人知道这件事。"
OTHER = "The ferryman takes three coins for the crossing, and four when the river is high."
OTHER_ZH = "摆渡人过一次河收三枚铜钱，涨水的时候收四枚。"
PHONE = "13800138000"


class Clock:
    def now(self):
        return AT


@dataclass
class Memory:
    """A store with its index and its vault in one folder."""

    folder: object
    store: object
    index: TieredIndex
    retriever: HybridRetriever
    vault: FolderVault
    rows_alone: bool = False

    @property
    def place(self):
        async def rebuild(scope):
            return await self.retriever.rebuild(scope, force=True)

        return MemoryLocations(
            store=self.store, index=self.index, rebuild=rebuild, vault=self.vault, folders=(self.folder,)
        )

    async def found(self, text, session_id="s1"):
        query = RetrievalQuery(
            text=text, world_id="w1", session_id=session_id, lineage=(BranchSpan(branch_id="main", upto_depth=99),)
        )
        recall = await self.retriever.recall(query)
        return [candidate.preview for candidate in recall.candidates if text[:12] in candidate.preview]

    def files_with(self, *texts):
        """Return the files that hold a text in any form; SQLite's log is a file like any other."""
        forms = [form for text in texts for form in forms_on_disk(text)]
        return sorted(
            str(file.relative_to(self.folder))
            for file in self.folder.rglob("*")
            if file.is_file() and any(form in file.read_bytes() for form in forms)
        )

    def index_has(self, word):
        """Return whether a file of the index has a word."""
        files = [file for file in (self.folder / "index").rglob("*") if file.is_file()]
        return any(word.encode() in file.read_bytes() for file in files)


@pytest.fixture(params=["sqlite", "file", "postgresql"])
async def memory(request, tmp_path):
    """A memory in one folder; that of PostgreSQL but for the rows, which are searched by query."""
    folder = tmp_path / "place"
    addresses = {"sqlite": str(folder), "file": f"file:///{folder / 'files'}"}
    store = open_store(addresses.get(request.param) or request.getfixturevalue("postgres_url"))
    index = TieredIndex(folder / "index", held_rows=1)
    retriever = HybridRetriever(store, index, None, CalibratedEstimator())
    yield Memory(folder, store, index, retriever, FolderVault(folder / "originals"), request.param == "postgresql")
    await retriever.close()
    await store.close()


def by(user_id, text):
    return Message(role=Role.USER, content=text, author=Author(kind=AuthorKind.USER, id=user_id), at=AT)


def replies(text):
    return Message(role=Role.ASSISTANT, content=text, at=AT)


async def lived(memory, session_id="s1", owner="kai"):
    """Two people talk; what one said is told again, cited, summed up, prepared, fetched early, indexed."""
    store = memory.store
    turns = (
        ImportedTurn(turn_id="p001", messages=(by("lin", SECRET), replies("I see."))),
        ImportedTurn(turn_id="p002", messages=(by("kai", OTHER), replies("Three, then."))),
        ImportedTurn(turn_id="p003", messages=(by("lin", SECRET_ZH), replies("原来如此。"))),
        ImportedTurn(turn_id="p004", messages=(by("kai", OTHER_ZH), replies("知道了。"))),
    )
    summary = MemoryEntry(
        entry_id=f"{session_id}.p001.summary",
        scope=session_scope(session_id),
        chain=Chain.NARRATIVE,
        kind="turn_summary",
        text=f"Lin said: {SECRET}",
        turn_id="p001",
        branch_id="main",
        depth=1,
    )
    await store.create_session(
        SessionStart(session_id=session_id, world_id="w1", locale="en", state={}, turns=turns, entries=(summary,))
    )
    await store.patch_session(session_id, {"meta": {"actor": {"user_id": owner}}})
    head = await store.head(session_id)
    record = TurnRecord(
        turn_id=f"{session_id}-t1",
        session_id=session_id,
        branch_id="main",
        depth=5,
        parent_id="p004",
        kind=TurnKind.NARRATIVE,
        status=TurnStatus.PREPARED,
        messages=(by("kai", "What did she say?"),),
        receipt={"candidates": [{"preview": SECRET[:60]}]},
        prompt={"text": f"<memory>{SECRET.replace('&', '&amp;').replace('<', '&lt;')}</memory>{SECRET_ZH}"},
    )
    head = await store.save_prepared(record, expected_version=head.version)
    commit = TurnCommit(turn_id=record.turn_id, messages=(replies(f"She said: {SECRET}"),))
    await store.commit_turn(session_id, commit, expected_version=head.version)
    prefetch = Prefetch(
        turn_id=record.turn_id, branch_id="main", depth=5, focus_quest_id=None, keywords=(), value={"text": SECRET}
    )
    await store.save_prefetch(session_id, prefetch)
    await memory.retriever.sync(session_scope(session_id))


async def ingest(memory, text, session_id="s1", kind=SourceKind.TOOL):
    ingestor = RedactingIngestor(memory.store, RegexRedactor(), Clock(), vault=memory.vault)
    return await ingestor.ingest(
        session_id,
        text,
        EvidenceSource(kind=kind, name="scribe"),
        EvidenceType.TOOL_RESULT,
        options=IngestOptions(keep_original=True),
    )


async def test_the_search_of_files_finds_what_is_there(memory):
    await lived(memory)
    assert await memory.found(SECRET)
    assert await memory.found(SECRET_ZH)
    assert memory.rows_alone or any("index" not in name for name in memory.files_with(SECRET))
    # The index has single words.
    assert memory.index_has("ottolin")
    assert memory.index_has("水银")
    proof = await prove(memory.place, [SECRET, SECRET_ZH])
    assert not proof.holds
    assert proof.places


async def test_a_user_is_forgotten_to_the_last_byte(memory):
    await lived(memory)
    await lived(memory, "s2", owner="lin")
    done = await forget(memory.place, Erasure(at=AT, user_id="lin", reason="asked to"))
    assert done.done, done.proof
    assert (done.plan.whole, done.plan.touched) == (("s2",), ("s1",))
    assert (done.proof.places, done.proof.found_files) == ((), ())
    assert done.proof.files > 0
    assert memory.files_with(SECRET, SECRET_ZH) == []
    assert not memory.index_has("ottolin")
    assert not memory.index_has("水银")
    assert await memory.found(SECRET) == []
    assert await memory.found(SECRET_ZH) == []
    assert await memory.found(OTHER)
    assert await memory.found(OTHER_ZH)
    assert memory.index_has("摆渡")
    (audit,) = await memory.store.audits()
    assert (audit.kind, audit.reason) == ("user", "asked to")


async def test_a_number_of_a_forgotten_user_is_in_no_original(memory):
    said = "Should you ever need me while I am away, my phone is 13800138000 and my card 4945 8073 0215 7365."
    turns = (
        ImportedTurn(turn_id="p001", messages=(by("lin", said), replies("I see."))),
        ImportedTurn(turn_id="p002", messages=(by("kai", "Call me on 13900139000, whenever you like to."),)),
    )
    await memory.store.create_session(SessionStart(session_id="s1", world_id="w1", locale="en", state={}, turns=turns))
    await ingest(memory, '{"phones": ["13800138000", "13900139000"], "card": "4945 8073 0215 7365"}')
    assert memory.files_with("13800138000") != []
    done = await forget(memory.place, Erasure(at=AT, user_id="lin"))
    assert done.done, done.proof
    held = [name for name in memory.files_with("13800138000", "4945 8073 0215 7365") if "originals" in name]
    assert held == []
    assert [name for name in memory.files_with("13900139000") if "originals" in name]


async def test_the_record_of_an_erasure_says_why_and_nothing_of_what_is_gone(memory):
    await lived(memory)
    reason = f"lin asked to: {SECRET} And kai agrees."
    assert (await forget(memory.place, Erasure(at=AT, user_id="lin", reason=reason))).done
    await forget(memory.place, Erasure(at=AT, session_id="s1", reason="s1 is over"))
    assert [each.reason for each in await memory.store.audits()] == [
        "[erased] asked to: [erased] And kai agrees.",
        "[erased] is over",
    ]


async def test_a_session_is_forgotten_to_the_last_byte(memory):
    await lived(memory)
    await memory.store.create_session(SessionStart(session_id="s2", world_id="w1", locale="en", state={}))
    told = await ingest(memory, f"The scribe at {PHONE} wrote down what the ferryman told of the flood.")
    assert await memory.vault.get("s1", told.evidence_id)
    done = await forget(memory.place, Erasure(at=AT, session_id="s1"))
    assert done.done, done.proof
    assert (done.outcome.sessions, done.originals) == (("s1",), 1)
    assert await memory.store.sessions() == ("s2",)
    assert memory.files_with(SECRET, SECRET_ZH, OTHER, OTHER_ZH, PHONE) == []
    again = await forget(memory.place, Erasure(at=AT, session_id="s1"))
    assert again.done
    assert again.outcome.counts == {}


async def test_evidence_is_forgotten_to_the_last_byte(memory):
    await lived(memory)
    text = "The harbour master notes that the Gannet left at dawn with nine barrels of lamp oil."
    told = await ingest(memory, f"{text} Ask {PHONE}.")
    await memory.store.append_messages("s1", [by("kai", "And?"), replies(f"The note says: {text}")])
    await memory.retriever.sync(session_scope("s1"))
    assert memory.files_with(text)
    erasure = Erasure(at=AT, session_id="s1", evidence_ids=(told.evidence_id,))
    plan = await plan_erasure(memory.place, erasure)
    assert (plan.evidences, plan.originals, plan.touched) == (1, 1, ("s1",))
    assert any(told.evidence_id in place for place in plan.places)
    done = await forget(memory.place, erasure)
    assert done.done, done.proof
    assert done.originals == 1
    assert memory.files_with(text, PHONE) == []
    assert await memory.found(SECRET)


async def test_a_plan_changes_nothing(memory):
    await lived(memory)
    before = await memory.store.get_session("s1"), memory.files_with(SECRET)
    plan = await plan_erasure(memory.place, Erasure(at=AT, user_id="lin"))
    assert (plan.kind, plan.messages, plan.touched, plan.whole) == ("user", 2, ("s1",), ())
    assert set(plan.texts) == {SECRET, SECRET_ZH}
    assert (await memory.store.get_session("s1"), memory.files_with(SECRET)) == before
    assert await memory.store.audits() == ()


async def test_words_of_others_are_counted_not_taken_for_leftovers(memory):
    await lived(memory)
    await lived(memory, "s2")
    done = await forget(memory.place, Erasure(at=AT, session_id="s1"))
    assert done.proof.holds, done.proof
    assert memory.rows_alone or done.proof.elsewhere > 0
    assert await memory.found(SECRET, "s2")


async def test_what_is_left_is_told(memory):
    await lived(memory)
    await memory.retriever.close()
    (memory.folder / "note.txt").write_text(f"copied by hand: {SECRET}", encoding="utf-8")
    done = await forget(memory.place, Erasure(at=AT, session_id="s1"))
    assert not done.done
    assert [name.rpartition("/")[2] for name in done.proof.found_files] == ["note.txt"]


async def test_nobody_is_no_error(memory):
    await lived(memory)
    for erasure in (
        Erasure(at=AT, user_id="nobody"),
        Erasure(at=AT, session_id="nowhere"),
        Erasure(at=AT, session_id="s1", evidence_ids=("none",)),
    ):
        done = await forget(memory.place, erasure)
        assert done.done
        assert done.outcome.counts == {}
    assert len(await memory.store.audits()) == 3


async def test_a_session_without_messages_may_go_too(memory):
    document = SessionDocument(session=Session(session_id="bare"), meta=Meta(actor=Actor(user_id="lin")))
    await memory.store.put_session("bare", document)
    done = await forget(memory.place, Erasure(at=AT, user_id="lin"))
    assert (done.outcome.sessions, done.done) == (("bare",), True)


async def test_a_copy_of_short_words_goes_too(memory):
    await memory.store.create_session(
        SessionStart(
            session_id="s1",
            world_id="w1",
            locale="en",
            state={},
            turns=(ImportedTurn(turn_id="p001", messages=(by("lin", "It is 4711."), replies("Noted."))),),
        )
    )
    copy = Evidence(
        evidence_id="p001.u",
        type=EvidenceType.RAG_DOC,
        source=EvidenceSource(kind=SourceKind.RAG, name="history", uri="mnemosyne://session:s1/history/p001.u"),
        content="It is 4711.",
        trust=Trust.USER,
    )
    own = replace(copy, evidence_id="e2", content="It is 4711.", trust=Trust.TOOL)
    await memory.store.put_evidence("s1", copy)
    await memory.store.put_evidence("s1", own)
    await forget(memory.place, Erasure(at=AT, user_id="lin"))
    left = {each.evidence_id: each.content for each in await memory.store.list_evidences("s1")}
    assert left == {"p001.u": "[erased]", "e2": "It is 4711."}


WORDS = [
    "Ottoline",
    "ledger",
    "brewery",
    "quicksilver",
    "Harrowgate",
    "ferry",
    "copper",
    "lantern",
    "seven",
    "&",
    "<gate>",
    '"door"',
]
WORDS_ZH = ["水银", "账册", "酿酒坊", "夹墙", "摆渡人", "铜钱", "灯笼", "第七", "城门", "姐姐", "河边", "夜里"]
SAYINGS = st.one_of(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join),
    st.lists(st.sampled_from(WORDS_ZH), min_size=1, max_size=12).map("".join),
    st.text(max_size=30).filter(lambda text: "\0" not in text and text.strip()),
)


@pytest.mark.parametrize("kind", ["sqlite", "file"])
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(talk=st.lists(st.tuples(st.sampled_from(["lin", "kai"]), SAYINGS), min_size=1, max_size=8))
async def test_whatever_was_said_is_proved_gone(kind, talk, tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    store = open_store(str(folder) if kind == "sqlite" else f"file:///{folder}")
    turns = tuple(
        ImportedTurn(turn_id=f"p{place:03}", messages=(by(who, text), replies(f"{who} said: {text}")))
        for place, (who, text) in enumerate(talk)
    )
    await store.create_session(SessionStart(session_id="s1", world_id="w1", locale="en", state={}, turns=turns))
    done = await forget(MemoryLocations(store=store, folders=(folder,)), Erasure(at=AT, user_id="lin"))
    kept = await store.get_session("s1")
    await store.close()
    assert done.proof.holds, done.proof
    lin, kai = ({text for name, text in talk if name == who} for who in ("lin", "kai"))
    said = [message.content for message in kept.session.messages if message.role is Role.USER]
    assert len(said) == len(talk)
    assert not {text for text in said if text in lin - kai}
    telling = {text.strip() for text in lin if is_distinctive(text) and not any(text.strip() in other for other in kai)}
    whole = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
    assert not {text for text in telling if text.encode("utf-8", "surrogatepass") in whole}

"""The contract suite of `mnemosyne.protocols.EvidenceIngestor`: subclass `IngestorContract`, define the ingestor, run
pytest.

    from mnemosyne.testing.ingestor import IngestorContract

    class TestMyIngestor(IngestorContract):
        def make_ingestor(self, store: Store, redactor: Redactor, clock: Clock) -> EvidenceIngestor:
            return MyIngestor(store, redactor, clock)

`test_rule_<n>_...` tests rule n of the protocol. Each test has a fresh store in memory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from mnemosyne.core.errors import RedactionError, SessionNotFoundError
from mnemosyne.privacy.redact import RegexRedactor
from mnemosyne.protocols import Clock, EvidenceIngestor, Redactor, Store
from mnemosyne.schema.evidence import EvidenceSource, EvidenceType, SourceKind
from mnemosyne.schema.ingest import IngestOptions, IngestResult, ShownText
from mnemosyne.schema.record import SessionStart
from mnemosyne.schema.redaction import RedactionRules, RedactResult
from mnemosyne.stores.sqlite.memory import MemoryStore
from mnemosyne.values import dataclass

SESSION = "s1"
SECRETS = ("13800138000", "li@example.cn", "11010519491231002X")
TOLD = "The amber bell under the chapel rings by itself when a dragon crosses the northern pass."
TOLD_ZH = "礼拜堂下的琥珀钟在巨龙越过北方山口时会自己响起，守钟人老周从不告诉外人。"
_TOOL = EvidenceSource(kind=SourceKind.TOOL, name="lookup")
_PAGE = EvidenceSource(kind=SourceKind.RAG, name="wiki", uri="https://wiki.example/a")


@dataclass(kw_only=True, slots=True)
class ManualClock:
    """A clock whose time the test sets."""

    at: datetime = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)

    def now(self) -> datetime:
        """Return the time that was set."""
        return self.at


class BrokenRedactor:
    """A redactor that fails on every text."""

    async def redact(self, text: str, rules: RedactionRules | None = None) -> RedactResult:
        """Raise RedactionError."""
        raise RedactionError("the service is down")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Setup:
    store: Store
    ingestor: EvidenceIngestor
    clock: ManualClock

    async def take(
        self, text: str, source: EvidenceSource = _TOOL, options: IngestOptions | None = None
    ) -> IngestResult:
        kind = EvidenceType.RAG_DOC if source.kind is SourceKind.RAG else EvidenceType.TOOL_RESULT
        return await self.ingestor.ingest(SESSION, text, source, kind, options=options)


class IngestorContract:
    """Tests for every EvidenceIngestor. The docstring of the module shows how to use them."""

    pytestmark = pytest.mark.anyio

    def make_ingestor(self, store: Store, redactor: Redactor, clock: Clock) -> EvidenceIngestor:
        """Return a fresh ingestor that uses `store`, `redactor` and `clock`."""
        raise NotImplementedError("say which ingestor is tested")

    @asynccontextmanager
    async def _open_setup(self, redactor: Redactor | None = None) -> AsyncIterator[_Setup]:
        store, clock = MemoryStore(), ManualClock()
        await store.create_session(SessionStart(session_id=SESSION, world_id="", locale="en", state={}))
        try:
            made = self.make_ingestor(store, redactor or RegexRedactor(), clock)
            yield _Setup(store=store, ingestor=made, clock=clock)
        finally:
            await store.close()

    async def test_rule_1_what_is_found_is_never_stored(self) -> None:
        """Text that redaction finds is neither stored nor returned, and the rules that found it are named."""
        async with self._open_setup() as setup:
            done = await setup.take("电话 13800138000，邮箱 li@example.cn，身份证 11010519491231002X")
            assert done.evidence is not None
            assert done.redaction is not None
            assert not [secret for secret in SECRETS if secret in done.evidence.content]
            assert await setup.store.find_text(SECRETS) == ()

    async def test_rule_1_a_redactor_that_fails_withholds(self) -> None:
        """If the redactor fails, the text is stored nowhere and the failure is reported, unless the call allows the
        text to pass.
        """
        async with self._open_setup(BrokenRedactor()) as setup:
            done = await setup.take(f"call {SECRETS[0]}", _PAGE)
            assert "redaction_failed" in done.degradations
            assert done.evidence is None or done.evidence.content == ""
            assert await setup.store.find_text(SECRETS) == ()
            passed = await setup.take(f"call {SECRETS[0]}", options=IngestOptions(pass_through=True))
            assert passed.evidence is not None
            assert passed.evidence.content == f"call {SECRETS[0]}"
            assert "redaction_failed" in passed.degradations

    async def test_rule_2_the_same_text_of_the_same_source_is_one(self) -> None:
        """Two texts are one evidence item if content and uri, or content and arguments of the call, are the same."""
        async with self._open_setup() as setup:
            first, again = await setup.take("renewal costs 3", _PAGE), await setup.take("renewal costs 3", _PAGE)
            assert (first.is_new, again.is_new, again.evidence_id) == (True, False, first.evidence_id)
            other = await setup.take("renewal costs 4", _PAGE)
            call = await setup.take("renewal costs 3", options=IngestOptions(args={"a": 1, "b": 2}))
            same = await setup.take("renewal costs 3", options=IngestOptions(args={"b": 2, "a": 1}))
            assert same.evidence_id == call.evidence_id
            assert len({first.evidence_id, other.evidence_id, call.evidence_id}) == 3
            assert len(await setup.store.list_evidences(SESSION)) == 3

    async def test_rule_3_an_echo_is_no_evidence(self) -> None:
        """A text that only repeats the prompt is not stored, in English and in Chinese. Of a mixed text, the new parts stay."""
        async with self._open_setup() as setup:
            for told in (TOLD, TOLD_ZH):
                shown = IngestOptions(shown=(ShownText(source_id="lore", text=told),))
                echo = await setup.take(f"\n{told} ", options=shown)
                assert (echo.evidence, echo.recalled) == (None, ("lore",))
                assert await setup.store.list_evidences(SESSION) == ()
            news = "The innkeeper adds that nobody had touched the rope, and that it was wet."
            mixed = await setup.take(
                f"{TOLD} {news}", options=IngestOptions(shown=(ShownText(source_id="lore", text=TOLD),))
            )
            assert mixed.evidence is not None
            assert news in mixed.evidence.content
            assert TOLD not in mixed.evidence.content

    async def test_rule_4_what_has_expired_is_no_duplicate(self) -> None:
        """A text whose evidence item has expired is ingested again, with a new time."""
        async with self._open_setup() as setup:
            minute = IngestOptions(ttl_seconds=60)
            first = await setup.take("sunny", options=minute)
            setup.clock.at += timedelta(seconds=59)
            assert not (await setup.take("sunny", options=minute)).is_new
            setup.clock.at += timedelta(seconds=1)
            again = await setup.take("sunny", options=minute)
            assert again.is_new
            assert first.evidence is not None
            assert again.evidence is not None
            assert again.evidence.expires_at == setup.clock.at + timedelta(seconds=60)

    async def test_rule_1_a_users_own_words_stay_without_their_secrets(self) -> None:
        """In a user's own words, personal data stays and secrets go. Words that cannot be searched are refused."""
        own = IngestOptions(own_words=True)
        async with self._open_setup() as setup:
            done = await setup.take("My name is Ana Silva, 13800138000; password: hunter2!x", options=own)
            assert done.evidence is not None
            assert done.evidence.content == "My name is Ana Silva, 13800138000; password: [redacted:secret]"
            assert done.redaction is not None
            assert done.redaction.rules_applied == ("secret",)
        async with self._open_setup(BrokenRedactor()) as setup:
            with pytest.raises(RedactionError):
                await setup.take("My name is Ana Silva", options=own)
            assert await setup.store.list_evidences(SESSION) == ()

    async def test_rule_5_a_dry_run_stores_nothing(self) -> None:
        """A dry run returns the evidence item that would be stored."""
        async with self._open_setup() as setup:
            told = "call 13800138000"
            shown = await setup.take(told, options=IngestOptions(dry_run=True, as_document=True))
            assert await setup.store.list_evidences(SESSION) == ()
            done = await setup.take(told, options=IngestOptions(as_document=True))
            assert done.evidence is not None
            assert shown.evidence is not None
            assert (shown.evidence.content, shown.is_new) == (done.evidence.content, True)

    async def test_a_session_must_be_there(self) -> None:
        """A text for an unknown session is refused."""
        async with self._open_setup() as setup:
            with pytest.raises(SessionNotFoundError):
                await setup.ingestor.ingest("nobody", "a", _TOOL, EvidenceType.TOOL_RESULT)

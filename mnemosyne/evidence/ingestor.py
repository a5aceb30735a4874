"""Ingests a text from outside as evidence: redacts it, recognises duplicates, labels its trust, sets an expiry, and stores it.

All text from outside passes through this module, so that nothing sensitive is stored. A vault keeps the original texts, from
before the redaction, for hosts that must keep them. The module must not import a concrete store, redactor, vault or clock.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import field, replace
from typing import Any
from uuid import UUID, uuid5

from anyio import to_thread

from mnemosyne.core.errors import (
    CodecError,
    EvidenceNotFoundError,
    RedactionError,
    SelectorResolveError,
    TurnNotFoundError,
)
from mnemosyne.core.off_loop import calculate, size_of
from mnemosyne.evidence.documents import IS_DOCUMENT, is_document, remove_passages, write_passages
from mnemosyne.evidence.echoes import without_shown
from mnemosyne.evidence.redactions import degradations_field, redaction_field
from mnemosyne.evidence.rules import (
    OWN_SCHEME,
    IngestRules,
    check_confidence,
    confidence_of,
    expiry_time,
    identity_uri,
    is_expired,
    is_memory,
    lowest_trust,
    trust_of_call,
)
from mnemosyne.evidence.selectors import make_ref
from mnemosyne.host_parts import HashText, UuidV4Generator, digests_of, hash_with_sha256
from mnemosyne.privacy.redact import own_word_rules, redact_tree, to_redaction_error
from mnemosyne.protocols import Clock, EvidenceIngestor, OriginalVault, Redactor, Store, TextSelector
from mnemosyne.schema.evidence import Evidence, EvidenceLinks, EvidenceSource, EvidenceType, readers_of
from mnemosyne.schema.ingest import IngestOptions, IngestResult
from mnemosyne.schema.memory import EMPTY, VIEWERS, Trust, read_audience
from mnemosyne.schema.query import EvidenceFilter
from mnemosyne.schema.redaction import RedactionRecord, RedactionRules
from mnemosyne.values import dataclass

WITHHELD = "withheld"
HAS_SENSITIVE = "has_sensitive"
SHOWN_REFS = "shown_refs"
RECALLED = "recalled"
SUPERSEDES = "supersedes"
_LOOKED_THROUGH = 256
_IDS = UUID("6f0d1f4c-6a3e-5f59-9c5e-1f7a0c4b8e21")


Place = Callable[[EvidenceLinks, Mapping[str, Any]], Awaitable[tuple[EvidenceLinks, Mapping[str, Any]]]]


class SessionIngestor:
    """Ingests texts into one session.

    If the links of a text name a turn, `place` is called. It adds facts about that turn to the links and the metadata.
    """

    def __init__(self, ingestor: EvidenceIngestor, session_id: str, place: Place | None = None) -> None:
        self._ingestor, self._session_id, self._place = ingestor, session_id, place

    async def ingest(
        self,
        content: str,
        source: EvidenceSource,
        evidence_type: EvidenceType,
        links: EvidenceLinks | None = None,
        metadata: Mapping[str, Any] | None = None,
        options: IngestOptions | None = None,
    ) -> IngestResult:
        """Store `content` as evidence of the session. `EvidenceIngestor.ingest` describes arguments, result and errors."""
        if self._place is not None and links is not None and links.turn_id:
            links, metadata = await self._place(links, metadata or EMPTY)
        return await self._ingestor.ingest(
            self._session_id, content, source, evidence_type, links=links, metadata=metadata, options=options
        )


class RedactingIngestor:
    """The built-in `EvidenceIngestor`.

    Args:
        redactor: Redacts every text.
        settings: Options for all texts. They are combined with the options of each call. If redaction is off in `settings`,
            nothing is redacted.
        vault: Stores original texts for calls that ask for this. If None, no originals are stored.
        rules: Time for which evidence of each type is used.
        new_id: Makes the ids of evidence for which no duplicates are searched.
        hash_text: Hashes texts to recognise duplicates. Records with the default hash are recognised, too. A text that
            this function cannot hash is stored without a search for duplicates (`dedup_skipped`).
        text_selector: Applies selectors.
    """

    def __init__(
        self,
        store: Store,
        redactor: Redactor,
        clock: Clock,
        *,
        settings: IngestOptions | None = None,
        vault: OriginalVault | None = None,
        rules: IngestRules | None = None,
        new_id: Callable[[], str] | None = None,
        hash_text: HashText = hash_with_sha256,
        text_selector: TextSelector | None = None,
    ) -> None:
        self._store, self._redactor, self._clock = store, redactor, clock
        self._settings = settings or IngestOptions()
        self._vault, self._rules = vault, rules or IngestRules()
        self._new_id, self._hash_text = new_id or UuidV4Generator().generate, hash_text
        self._selector = text_selector

    async def ingest(
        self,
        session_id: str,
        content: str,
        source: EvidenceSource,
        evidence_type: EvidenceType,
        *,
        links: EvidenceLinks | None = None,
        metadata: Mapping[str, Any] | None = None,
        options: IngestOptions | None = None,
    ) -> IngestResult:
        """Store `content` as evidence, or return the evidence item that has this text already.

        `EvidenceIngestor.ingest` describes arguments, result and errors.
        """
        chosen = self._with_settings(options or IngestOptions())
        fresh = await to_thread.run_sync(without_shown, content, chosen.shown)
        if fresh.sources and not fresh.text:
            return IngestResult(evidence=None, recalled=fresh.sources)
        news = _UnredactedText(
            content=fresh.text if fresh.sources else content, source=source, metadata=dict(metadata or {})
        )
        if fresh.sources:
            news.metadata[RECALLED] = list(fresh.sources)
        if chosen.as_document:
            news.metadata[IS_DOCUMENT] = True
        cleaned = await self._redact(news, chosen)
        uri = await calculate(self._identify_source, cleaned, size=size_of(cleaned.args))
        source = replace(cleaned.source, uri=uri)
        digests = digests_of(cleaned.content, self._hash_text) if cleaned.content else ("",)
        if not digests:
            cleaned.degradations.append("dedup_skipped")
            chosen, digests = replace(chosen, dedup=False), (hash_with_sha256(cleaned.content),)
        place = await self._place_of(session_id, links or EvidenceLinks(), cleaned.metadata)
        evidence_id = self._evidence_id(session_id, source, evidence_type, digests[0], chosen, place)
        known = await self._find_known(session_id, evidence_id, source, evidence_type, digests, chosen, place)
        record = _build_record(evidence_id if known is None else known.evidence_id, cleaned)
        if known is not None:
            if not chosen.dry_run:
                known = await self._lower_trust(session_id, known, cleaned, source, evidence_type, chosen)
            if is_document(known) and not chosen.dry_run:
                await write_passages(self._store, session_id, known)
            return IngestResult(
                evidence=known, redaction=record, recalled=fresh.sources, degradations=tuple(cleaned.degradations)
            )
        supersedes = None
        if chosen.dedup:
            supersedes = await self._find_contradicted(session_id, source, evidence_type, digests, place)
        if supersedes is not None:
            cleaned.metadata[SUPERSEDES] = supersedes
        evidence = await self._build_evidence(
            session_id, evidence_id, cleaned, source, evidence_type, chosen, digests[0]
        )
        evidence = replace(evidence, links=place.links)
        if not chosen.dry_run:
            await self._keep_original(session_id, evidence_id, news.content, cleaned, chosen)
        evidence = replace(evidence, extra={**evidence.extra, **degradations_field(cleaned.degradations)})
        if not chosen.dry_run:
            await self._write(session_id, evidence, supersedes)
        return IngestResult(
            evidence=evidence,
            is_new=True,
            redaction=record,
            recalled=fresh.sources,
            supersedes=supersedes,
            degradations=tuple(cleaned.degradations),
        )

    def _with_settings(self, chosen: IngestOptions) -> IngestOptions:
        return replace(
            chosen,
            redact=chosen.redact and self._settings.redact,
            pass_through=chosen.pass_through or self._settings.pass_through,
            keep_original=chosen.keep_original or self._settings.keep_original,
            store_content=chosen.own_words or (chosen.store_content and self._settings.store_content),
        )

    async def _keep_original(
        self, session_id: str, evidence_id: str, original: str, cleaned: _RedactedText, chosen: IngestOptions
    ) -> None:
        if chosen.keep_original and cleaned.rules and self._vault is not None:
            try:
                await self._vault.put(session_id, evidence_id, original)
            except OSError:
                cleaned.degradations.append("original_failed")

    async def _write(self, session_id: str, evidence: Evidence, supersedes: str | None) -> None:
        await self._store.put_evidence(session_id, evidence)
        if is_document(evidence):
            await write_passages(self._store, session_id, evidence)
            older = None if supersedes is None else await self._store.get_evidence(session_id, supersedes)
            is_same_place = older is not None and (older.links.turn_id or "") == (evidence.links.turn_id or "")
            if older is not None and is_document(older) and is_same_place:
                await remove_passages(self._store, session_id, older)

    async def _redact(self, news: _UnredactedText, chosen: IngestOptions) -> _RedactedText:
        """Return the storable form of a text; if the redactor fails, only the kind of source is kept."""
        cleaned = _RedactedText(content=news.content, source=news.source, metadata=news.metadata, args=chosen.args)
        if not chosen.redact:
            cleaned.degradations.append("redaction_off")
            return cleaned
        rules = own_word_rules(self._redactor) if chosen.own_words else chosen.redaction_rules
        viewers = {key: value for key, value in news.metadata.items() if key == VIEWERS}
        try:
            result = await self._redactor.redact(news.content, rules)
            metadata, in_metadata = await redact_tree(self._redactor, news.metadata, rules)
            args, _ = await redact_tree(self._redactor, chosen.args, rules)
            source, in_source = await self._redact_source(news.source, rules)
        except Exception as error:
            if chosen.own_words and not chosen.pass_through:
                raise to_redaction_error(error) from error
            # If a redactor raises anything, the text was not searched to its end and must be withheld.
            return self._withhold(cleaned, chosen, error)
        applied = (*result.applied_rules, *in_metadata, *in_source)
        return _RedactedText(
            content=result.redacted_text,
            source=source,
            # A viewer may have a name that would be masked.
            metadata={**metadata, **viewers},
            args=args,
            rules=tuple(dict.fromkeys(applied)),
            fields=int(result.has_sensitive) + len(in_metadata) + len(in_source),
        )

    async def _redact_source(
        self, source: EvidenceSource, rules: RedactionRules | None
    ) -> tuple[EvidenceSource, tuple[str, ...]]:
        name = await self._redactor.redact(source.name, rules)
        extra, applied = await redact_tree(self._redactor, dict(source.extra), rules)
        uri, in_uri = source.uri, tuple[str, ...]()
        if not uri.startswith(OWN_SCHEME):
            found = await self._redactor.redact(uri, rules)
            uri, in_uri = found.redacted_text, found.applied_rules[:1]
        return replace(source, name=name.redacted_text, uri=uri, extra=extra), (
            *name.applied_rules[:1],
            *in_uri,
            *applied,
        )

    def _withhold(self, cleaned: _RedactedText, chosen: IngestOptions, error: Exception) -> _RedactedText:
        cleaned.degradations.append("redaction_failed")
        if chosen.pass_through:
            cleaned.metadata[HAS_SENSITIVE] = True
            return cleaned
        why = str(error) if isinstance(error, RedactionError) else type(error).__name__
        source = EvidenceSource(kind=cleaned.source.kind)
        viewers = {key: value for key, value in cleaned.metadata.items() if key == VIEWERS}
        withheld_note = {WITHHELD: "redaction_failed", "why": why, **viewers}
        return replace(cleaned, content="", source=source, metadata=withheld_note, args=None)

    def _identify_source(self, cleaned: _RedactedText) -> str:
        """Return the uri that identifies the source; arguments without a JSON form identify none."""
        try:
            return identity_uri(cleaned.source, cleaned.args)
        except CodecError:
            cleaned.degradations.append("dedup_skipped")
            return cleaned.source.uri

    async def _place_of(self, session_id: str, links: EvidenceLinks, metadata: Mapping[str, Any]) -> _Place:
        """Return the place where a text was found. The result of a call outside of every turn belongs to the
        session.
        """
        if links.turn_id is None and links.tool_call_id is not None:
            links = replace(links, turn_id="")
        readers = read_audience(metadata) or (() if links.viewer is None else (links.viewer,))
        branch_id = None
        if links.turn_id:
            with suppress(TurnNotFoundError):
                branch_id = (await self._store.turn(session_id, links.turn_id)).branch_id
        return _Place(links=links, readers=readers, branch_id=branch_id)

    def _evidence_id(
        self,
        session_id: str,
        source: EvidenceSource,
        kind: EvidenceType,
        digest: str,
        chosen: IngestOptions,
        place: _Place,
    ) -> str:
        """Return the evidence id: derived from the key, or from uri, hash and place, so that two concurrent processes write
        one item.
        """
        if chosen.idempotency_key is not None:
            return str(uuid5(_IDS, "\0".join(("key", session_id, chosen.idempotency_key))))
        if not chosen.dedup or not (digest or source.uri):
            return self._new_id()
        where = source.uri or source.name
        named = (session_id, kind.value, source.kind.value, where, digest, *place.names)
        return str(uuid5(_IDS, "\0".join(named)))

    async def _find_known(
        self,
        session_id: str,
        evidence_id: str,
        source: EvidenceSource,
        kind: EvidenceType,
        digests: tuple[str, ...],
        chosen: IngestOptions,
        place: _Place,
    ) -> Evidence | None:
        """Return the stored evidence item with the same text and source that is known at this place, if it has not expired."""
        now = self._clock.now()
        known = await self._store.get_evidence(session_id, evidence_id)
        if known is not None and not is_expired(known, now):
            return known
        for digest in digests if chosen.dedup and digests[0] else ():
            same = await self._store.find_evidence(session_id, uri=source.uri, content_hash=digest)
            if same is None or not _is_alike(same, source, kind) or is_expired(same, now):
                continue
            if await self._is_known_at(session_id, place, same):
                return same
        return None

    async def _is_known_at(self, session_id: str, place: _Place, known: Evidence) -> bool:
        """Return whether everyone who may know the finds of a place also knows an evidence item there."""
        if not place.is_covered_by(readers_of(known)):
            return False
        if not known.links.turn_id or known.links.turn_id == place.links.turn_id:
            return True
        where = EvidenceFilter(evidence_ids=frozenset({known.evidence_id}), branch_id=place.branch_id)
        return place.branch_id is not None and bool(await self._store.list_evidences(session_id, where))

    async def _find_contradicted(
        self, session_id: str, source: EvidenceSource, kind: EvidenceType, digests: tuple[str, ...], place: _Place
    ) -> str | None:
        """Return the newest evidence item of the same source with another text that is known at a place, among the most recent
        ones.
        """
        if not source.uri or not digests[0]:
            return None
        where = EvidenceFilter(
            types=frozenset({kind}),
            without_memories=not is_memory(source.uri),
            limit=_LOOKED_THROUGH,
            newest=True,
            branch_id=place.branch_id,
        )
        older = [
            each
            for each in await self._store.list_evidences(session_id, where)
            if each.source.uri == source.uri
            and each.content_hash not in digests
            and place.is_covered_by(readers_of(each))
            and (place.branch_id is not None or place.is_that_of(each))
        ]
        return older[-1].evidence_id if older else None

    async def _build_evidence(
        self,
        session_id: str,
        evidence_id: str,
        cleaned: _RedactedText,
        source: EvidenceSource,
        kind: EvidenceType,
        chosen: IngestOptions,
        digest: str,
    ) -> Evidence:
        now = self._clock.now()
        trust = await self._trust_of(session_id, source, kind, chosen, cleaned.args)
        given = chosen.confidence
        seconds = chosen.ttl_seconds if chosen.ttl_seconds is not None else self._rules.ttl_seconds.get(kind)
        evidence = Evidence(
            evidence_id=evidence_id,
            type=kind,
            source=source,
            content=cleaned.content,
            confidence=confidence_of(source, trust, cleaned.metadata) if given is None else check_confidence(given),
            trust=trust,
            metadata=dict(cleaned.metadata),
            created_at=now,
            expires_at=expiry_time(now, seconds),
            content_hash=digest,
            extra=redaction_field(cleaned.rules, cleaned.fields),
        )
        refs = await to_thread.run_sync(self._build_refs, evidence, chosen, cleaned)
        if refs:
            evidence = replace(evidence, metadata={**evidence.metadata, SHOWN_REFS: refs})
        return evidence if chosen.store_content else replace(evidence, content="")

    def _build_refs(self, evidence: Evidence, chosen: IngestOptions, cleaned: _RedactedText) -> list[dict[str, Any]]:
        """Return refs to the parts to be shown in a prompt, each with the hash of its present text."""
        refs: list[dict[str, Any]] = []
        for selector in chosen.selectors:
            try:
                ref = make_ref(evidence, selector, hash_text=self._hash_text, text_selector=self._selector)
            except SelectorResolveError:
                if "selector_failed" not in cleaned.degradations:
                    cleaned.degradations.append("selector_failed")
                continue
            refs.append({"selector": ref.selector, "hash": ref.hash})
        return refs

    async def _lower_trust(
        self,
        session_id: str,
        known: Evidence,
        cleaned: _RedactedText,
        source: EvidenceSource,
        kind: EvidenceType,
        chosen: IngestOptions,
    ) -> Evidence:
        """Return an item that is stored already, with a lower trust label if its text came again from a less trusted
        source.
        """
        again = await self._trust_of(session_id, source, kind, chosen, cleaned.args)
        trust = lowest_trust((known.trust, again))
        if trust is known.trust:
            return known
        ceiling = confidence_of(source, trust, cleaned.metadata)
        confidence = known.confidence if known.confidence is None else min(known.confidence, ceiling)
        lowered = replace(known, trust=trust, confidence=confidence)
        await self._store.put_evidence(session_id, lowered)
        return lowered

    async def _trust_of(
        self,
        session_id: str,
        source: EvidenceSource,
        kind: EvidenceType,
        chosen: IngestOptions,
        args: Mapping[str, Any] | None,
    ) -> Trust:
        own = await calculate(trust_of_call, source, kind, args, size=size_of(args))
        labels = [chosen.trust or own]
        for evidence_id in chosen.derived_from:
            parent = await self._store.get_evidence(session_id, evidence_id)
            if parent is None:
                raise EvidenceNotFoundError(session_id, evidence_id)
            labels.append(parent.trust)
        return lowest_trust(labels)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """Place where a text was found."""

    links: EvidenceLinks
    readers: tuple[str, ...]
    """Viewers who may know it (empty: everyone)."""
    branch_id: str | None
    """Branch of its turn (None: no turn)."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return names that distinguish items with the same text, found by different turns for different viewers."""
        turn_id = self.links.turn_id or ""
        return (turn_id, *self.readers) if turn_id or self.readers else ()

    def is_covered_by(self, readers: tuple[str, ...]) -> bool:
        """Return whether everyone who may know the finds here is among `readers`."""
        return not readers or (bool(self.readers) and set(self.readers) <= set(readers))

    def is_that_of(self, evidence: Evidence) -> bool:
        """Return whether an evidence item was found in the same turn, or also in none."""
        return (evidence.links.turn_id or "") == (self.links.turn_id or "")


@dataclass(kw_only=True, slots=True)
class _UnredactedText:
    """A received text, without the parts that the prompt had shown."""

    content: str
    source: EvidenceSource
    metadata: dict[str, Any]


@dataclass(kw_only=True, slots=True)
class _RedactedText:
    """Storable form of a text."""

    content: str
    source: EvidenceSource
    metadata: dict[str, Any]
    args: Mapping[str, Any] | None = None
    rules: tuple[str, ...] = ()
    fields: int = 0
    degradations: list[str] = field(default_factory=list)


def _build_record(evidence_id: str, cleaned: _RedactedText) -> RedactionRecord | None:
    if not cleaned.rules:
        return None
    return RedactionRecord(evidence_id=evidence_id, rules_applied=cleaned.rules, fields_redacted=cleaned.fields)


def _is_alike(known: Evidence, source: EvidenceSource, kind: EvidenceType) -> bool:
    """Return whether two texts with the same uri and hash are one item: the same words by a user and by a model are
    two.
    """
    if known.type is not kind or known.source.kind is not source.kind:
        return False
    return bool(source.uri) or known.source.name == source.name

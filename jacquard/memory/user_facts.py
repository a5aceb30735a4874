"""Stores facts about users across their sessions. A stored fact is never overwritten; a later fact ends it.

The facts of a user are stored as evidence of a session that belongs to this user and contains nothing else. Therefore
every store can keep the facts, every copy and check covers them, and an erasure of the user removes them with the
user's other sessions. This module must not import a concrete store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

from jacquard.core.errors import ConfigError
from mnemosyne.chains.facts import fold_topic, settle_facts
from mnemosyne.chains.messages.message_parts import read_user
from mnemosyne.core.codec import format_time, parse_time
from mnemosyne.core.errors import CodecError, SessionNotFoundError, VersionConflictError
from mnemosyne.evidence.redactions import redaction_field, redaction_of
from mnemosyne.privacy.redact import redact_own_words
from mnemosyne.protocols import Clock, Redactor, Store
from mnemosyne.schema.document import Actor, Meta, Session, SessionDocument
from mnemosyne.schema.evidence import Evidence, EvidenceSource, EvidenceType, SourceKind
from mnemosyne.schema.memory import FactKind, UserFact, profile_session_id
from mnemosyne.schema.query import EvidenceFilter
from mnemosyne.schema.session import Message

FACTS_READ = 1_000
"""Maximum number of facts about a user that are read, newest first. This limit bounds the cost of a turn."""

_MOMENT = timedelta(microseconds=1)
_IDS = UUID("0d6d3f52-0b7a-5c9e-8a51-5f6a1d0f9c33")
_TOPIC, _FROM, _TO, _SOURCE = "topic", "valid_from", "valid_to", "source"


class UserFacts:
    """Stores and reads facts about users.

    `redactor` removes secrets from the texts before they are stored (None: they are stored unchanged). If
    `pass_through` is true, a text that the redactor cannot search is stored unchanged.
    """

    def __init__(
        self, store: Store, clock: Clock, redactor: Redactor | None = None, *, pass_through: bool = False
    ) -> None:
        self._store, self._clock, self._redactor, self._pass_through = store, clock, redactor, pass_through

    async def remember(self, user_id: str, facts: Sequence[UserFact], *, dry_run: bool = False) -> tuple[UserFact, ...]:
        """Store facts about a user. Return the facts in stored form, in the order of `facts`. If `dry_run` is true,
        nothing is stored.

        A fact that is stored already is returned and not stored again. If the same fact comes again with a `valid_to`,
        it ends the stored fact.

        Raises ConfigError if a text or the id is empty, or if times are impossible. Raises RedactionError if a text
        cannot be searched for secrets. If an error is raised, nothing was written.
        """
        if not user_id.strip():
            raise ConfigError(
                "remember: the user id is empty; give the id by which the user's sessions name their author."
            )
        cleaned = [await self._clean(fact) for fact in facts]
        if dry_run:
            return tuple(cleaned)
        session_id = profile_session_id(user_id)
        await ensure_profile_session(self._store, session_id, self._clock, Actor(user_id=user_id))
        stored = await self.facts(user_id)
        now = _later_than(stored, self._clock.now())
        same: dict[tuple[FactKind, str, str], dict[str, UserFact]] = {}
        for each in stored:
            same.setdefault(_meaning(each), {})[each.fact_id] = each
        done: list[UserFact] = []
        for fact in cleaned:
            alike = same.setdefault(_meaning(fact), {})
            known = _find_known(fact, alike.values())
            made = replace(fact, fact_id=_id_of(user_id, fact, now), recorded_at=now)
            if known is not None:
                made = known if fact.valid_to is None else replace(known, valid_to=fact.valid_to, superseded_by="")
            now += _MOMENT
            if made != known:
                await self._store.put_evidence(session_id, _to_evidence(made))
            alike[made.fact_id] = made
            done.append(made)
        # More facts than are read may have been given.
        settled = {fact.fact_id: fact for fact in await self.facts(user_id)}
        return tuple(settled.get(fact.fact_id, fact) for fact in done)

    async def facts(self, user_id: str) -> tuple[UserFact, ...]:
        """Return the newest facts about a user, oldest first, including facts that are no longer true. Return an empty
        tuple for an unknown user.
        """
        where = EvidenceFilter(types=frozenset({EvidenceType.OTHER}), limit=FACTS_READ, newest=True)
        try:
            found = await self._store.list_evidences(profile_session_id(user_id), where)
        except SessionNotFoundError:
            return ()
        return settle_facts(fact for each in found if (fact := _from_evidence(each)) is not None)

    async def _clean(self, fact: UserFact) -> UserFact:
        text = fact.text.strip()
        if not text:
            raise ConfigError("remember: a fact has no text; state in a sentence what is true about the user.")
        for name, at in ((_FROM, fact.valid_from), (_TO, fact.valid_to)):
            if at is not None and at.tzinfo is None:
                raise ConfigError(f"remember: {name} of {text!r} has no time zone; give an aware datetime.")
        if fact.valid_from is not None and fact.valid_to is not None and fact.valid_to <= fact.valid_from:
            raise ConfigError(f"remember: {text!r} ends before it begins; valid_to must be later than valid_from.")
        redacted: tuple[str, ...] = ()
        if self._redactor is not None:
            (result,) = await redact_own_words(self._redactor, [text], pass_through=self._pass_through)
            text, redacted = result.redacted_text, result.applied_rules
        return replace(
            fact, text=text, kind=FactKind(fact.kind), topic=fact.topic.strip(), superseded_by="", redacted=redacted
        )


async def ensure_profile_session(store: Store, session_id: str, clock: Clock, actor: Actor | None = None) -> None:
    """Create the session `session_id` without a conversation, unless it exists. `actor` is the user to whom the session
    belongs (None: nobody).
    """
    try:
        await store.head(session_id)
    except SessionNotFoundError:
        meta = Meta(created_at=clock.now(), actor=actor)
        document = SessionDocument(session=Session(session_id=session_id), meta=meta)
        try:
            await store.put_session(session_id, document, expected_version=0)
        except VersionConflictError:
            # Another process wrote it first.
            await store.head(session_id)


def _later_than(stored: Iterable[UserFact], now: datetime) -> datetime:
    """Return the present time, or a moment after the newest record, because the later of two facts counts."""
    return max([now, *(fact.recorded_at + _MOMENT for fact in stored if fact.recorded_at is not None)])


def find_user(message: Message, meta: Meta | None) -> str:
    """Return the id of the user of a turn: the author of `message` if the message names one, else the owner in `meta`
    of the session, else ''.
    """
    owner = meta.actor.user_id if meta is not None and meta.actor is not None else ""
    return read_user(message) or owner


def _meaning(fact: UserFact) -> tuple[FactKind, str, str]:
    return fact.kind, fact.text, fold_topic(fact.topic)


def _find_known(fact: UserFact, same: Iterable[UserFact]) -> UserFact | None:
    """Return the stored fact that equals this one: one that is still true, or one that began at the same time."""
    if fact.valid_from is not None:
        return next((each for each in same if each.valid_from == fact.valid_from), None)
    return next((each for each in same if each.valid_to is None), None)


def _id_of(user_id: str, fact: UserFact, now: datetime) -> str:
    begins = format_time(fact.valid_from or now)
    return str(uuid5(_IDS, "\0".join((user_id, fact.kind.value, fold_topic(fact.topic), begins, fact.text))))


def _to_evidence(fact: UserFact) -> Evidence:
    told: dict[str, Any] = {_TOPIC: fact.topic, _SOURCE: fact.source}
    # An end set by another fact is derived again when facts are read; only the host's own is stored.
    ends = None if fact.superseded_by else fact.valid_to
    told |= {name: format_time(at) for name, at in ((_FROM, fact.valid_from), (_TO, ends)) if at is not None}
    return Evidence(
        evidence_id=fact.fact_id,
        type=EvidenceType.OTHER,
        source=EvidenceSource(kind=SourceKind.USER, name=fact.kind.value),
        content=fact.text,
        trust=fact.trust,
        metadata={name: value for name, value in told.items() if value},
        created_at=fact.recorded_at,
        extra=redaction_field(fact.redacted, 1),
    )


def _from_evidence(evidence: Evidence) -> UserFact | None:
    """Return the fact of an evidence item; None if it is not a fact."""
    told: Mapping[str, Any] = evidence.metadata
    try:
        begins, ends = (None if told.get(name) is None else parse_time(str(told[name])) for name in (_FROM, _TO))
        kind = FactKind(evidence.source.name)
    except (CodecError, ValueError):
        return None
    redaction = redaction_of(evidence)
    return UserFact(
        text=evidence.content,
        kind=kind,
        topic=str(told.get(_TOPIC, "")),
        valid_from=begins,
        valid_to=ends,
        trust=evidence.trust,
        source=str(told.get(_SOURCE, "")),
        fact_id=evidence.evidence_id,
        recorded_at=evidence.created_at,
        redacted=() if redaction is None else redaction.rules_applied,
    )

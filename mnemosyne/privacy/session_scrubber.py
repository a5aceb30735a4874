"""Cleans the records of a session that stays after an erasure, and collects the preview of an erasure.

To scrub means to cut erased texts out of a record that stays. All stores use these rules; each store decides how its rows are
read and written. A source is a session, or one memory of a session, from which another session may have copies. The module must
not import a store.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from mnemosyne.chains.messages.message_parts import read_user
from mnemosyne.privacy.places import CONTENTS, WORD_KEYS
from mnemosyne.privacy.scrub import Scrubber, erase_message, subject_of, without_refs
from mnemosyne.schema.erasure import ERASED, Erasure, ErasurePreview
from mnemosyne.schema.evidence import ContextBlock, Evidence, EvidenceType, SourceKind
from mnemosyne.schema.memory import (
    CONTINUED_IN,
    PROPOSED,
    MemoryEntry,
    Trust,
    copied_from,
    document_of,
    is_profile_session,
)
from mnemosyne.schema.record import Prefetch
from mnemosyne.schema.session import Message
from mnemosyne.values import dataclass

PARTS: Mapping[str, tuple[type[Any], str]] = {
    each.name: (each.kind, each.counted)
    for each in map(CONTENTS.__getitem__, ("block", "task", "tool_call", "model_usage"))
    if each.kind is not None
}
"""Lists of a session document other than messages and evidence: their type, and the name under which changes are counted."""


Source = tuple[str, str]
"""(session id, memory id) from which another session may have copies. An empty memory id means all memories."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CopiedParts:
    """Copies from erased sources in a session: their number, the ids of the copied evidence, and the texts to erase."""

    number: int = 0
    evidence_ids: frozenset[str] = frozenset()
    texts: tuple[str, ...] = ()


NO_COPIES = CopiedParts()


def find_copies(parts: Iterable[Evidence | MemoryEntry], sources: Collection[Source]) -> CopiedParts:
    """Return the copies from `sources` among `parts` (evidence items and entries).

    The texts to erase do not include texts of the world's author.
    """
    copies = [each for each in parts if _is_copy(each.metadata, sources)]
    texts = (
        each.content if isinstance(each, Evidence) else each.text for each in copies if each.trust is not Trust.AUTHORED
    )
    return CopiedParts(
        number=len(copies),
        evidence_ids=frozenset(each.evidence_id for each in copies if isinstance(each, Evidence)),
        texts=_worth_naming(dict.fromkeys(texts)),
    )


def _is_copy(extra: Mapping[str, Any], sources: Collection[Source]) -> bool:
    named = ((str(each.get("session_id")), str(each.get("memory_id"))) for each in copied_from(extra))
    return any((session_id, "") in sources or (session_id, memory_id) in sources for session_id, memory_id in named)


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionScrubber:
    """Cleans one session that stays after an erasure. A method returns the given value itself if nothing in it changes."""

    derived: Scrubber
    """Cleans values that were made from the erased texts (receipts, prompts, summaries, …)."""
    others: Scrubber
    """Cleans the words of others and the story. There, a short text is not taken for an erased text."""
    turns: frozenset[str] = frozenset()
    """Turns in which the erased user spoke."""
    user_id: str | None = None
    evidence_ids: frozenset[str] = frozenset()
    sources: frozenset[Source] = frozenset()
    """Erased sources of which the session may have copies."""

    def clean(self, content: str, value: Any, turn_id: str = "") -> Any:
        """Return `value` after the erasure. `content` is its kind, a name in CONTENTS; `turn_id` is its turn, if it has one."""
        if content == "message":
            return self.message(value)
        if content == "draft":
            return self.messages(value)
        if content == "evidence":
            return self.evidence(value)
        rules = CONTENTS[content]
        scrubber = self.derived if rules.is_derived else self.others
        if rules.kind is None:
            return scrubber.tree(value, rules.word_keys, own=turn_id in self.turns)
        if isinstance(value, Prefetch):
            own = value.turn_id in self.turns
            clean = scrubber.value(value, own=own)
            selection = scrubber.tree(clean.value, WORD_KEYS, own=own)
            return clean if selection is clean.value else replace(clean, value=selection)
        return scrubber.value(value)

    def is_theirs(self, message: Message) -> bool:
        """Return whether the erased user is the author of `message`."""
        return self.user_id is not None and is_author(message, self.user_id)

    def message(self, message: Message) -> Message:
        """Return `message` after the erasure. A message of the erased user keeps only its id, its role and its time."""
        if self.is_theirs(message):
            return erase_message(message)
        kept = without_refs(message.refs, self.evidence_ids)
        clean = self.others.value(message)
        return clean if kept is message.refs else replace(clean, refs=kept)

    def messages(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return each of `messages` after the erasure."""
        clean = tuple(self.message(message) for message in messages)
        return messages if all(new is old for new, old in zip(clean, messages, strict=True)) else clean

    def evidence(self, evidence: Evidence) -> Evidence:
        """Return the evidence item `evidence`, which is not deleted, without erased texts."""
        of_users = evidence.type is EvidenceType.USER_INPUT or evidence.source.kind is SourceKind.USER
        # Evidence that comes from a user may repeat even the short texts of the erased user.
        of_users = of_users or evidence.trust is Trust.USER or PROPOSED in evidence.metadata
        return (self.derived if of_users and self.user_id is not None else self.others).value(evidence)

    def rests_on_erased(self, part: Any) -> bool:
        """Return whether `part` must be removed because it was made from erased data.

        These parts must be removed: a copy from an erased source, an entry of an erased document, and a context block whose
        evidence was all erased.
        """
        if isinstance(part, MemoryEntry | Evidence) and self.sources and _is_copy(part.metadata, self.sources):
            return True
        if isinstance(part, MemoryEntry):
            return document_of(part) in self.evidence_ids
        if not isinstance(part, ContextBlock):
            return False
        rests = bool(part.refs) and not without_refs(part.refs, self.evidence_ids)
        return rests or (bool(self.sources) and _is_copy(part.extra, self.sources))


def scrubber_of_user(
    user_id: str,
    texts: Iterable[str],
    turns: Iterable[str] = (),
    copies: CopiedParts = NO_COPIES,
    sources: Iterable[Source] = (),
) -> SessionScrubber:
    """Return the scrubber of a session for the erasure of a user.

    `texts` are the user's texts in the session, and `turns` the turns in which the user spoke. `sources` are the
    erased sessions, and `copies` are the parts that this session has copied from them.
    """
    texts = (*texts, *copies.texts)
    return SessionScrubber(
        derived=Scrubber(texts, (user_id,)),
        others=Scrubber(texts, thorough=False),
        turns=frozenset(turns),
        user_id=user_id,
        evidence_ids=copies.evidence_ids,
        sources=frozenset(sources),
    )


def scrubber_of_evidence(
    evidence_ids: frozenset[str], texts: Iterable[str], sources: Iterable[Source] = ()
) -> SessionScrubber:
    """Return the scrubber of a session for the erasure of evidence items with these `texts`."""
    texts = tuple(texts)
    return SessionScrubber(
        derived=Scrubber(texts, evidence_ids),
        others=Scrubber(texts, thorough=False),
        evidence_ids=evidence_ids,
        sources=frozenset(sources),
    )


def erased_sources(erasure: Erasure, sessions: Iterable[str] = ()) -> frozenset[Source]:
    """Return the sources that an erasure removes: the erased evidence of one session, or else all memories of `sessions`."""
    cited = {(str(erasure.session_id), each) for each in erasure.evidence_ids}
    return frozenset(cited or {(each, "") for each in sessions})


def heirs_named(evidences: Iterable[Evidence]) -> tuple[str, ...]:
    """Return the ids of the sessions that copied memories from a session. The metadata of its `evidences` names them."""
    named = (each.metadata.get(CONTINUED_IN) for each in evidences)
    return tuple(dict.fromkeys(each for each in named if isinstance(each, str) and each))


@dataclass(kw_only=True, slots=True)
class PreviewTally:
    """Collects the preview of an erasure. A store adds each session that the erasure may concern, then calls
    `preview`.

    Raises ValueError unless `erasure` names exactly one user, one session, or evidence of one session.
    """

    erasure: Erasure
    whole: list[str] = field(default_factory=list)
    touched: list[str] = field(default_factory=list)
    messages: int = 0
    evidences: int = 0
    texts: dict[str, None] = field(default_factory=dict)
    scrubbed: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        subject_of(self.erasure)

    def add(
        self, session_id: str, owner: str | None, messages: Sequence[Message], evidences: Sequence[Evidence]
    ) -> None:
        """Add a session with its owner, its messages on all branches (pending ones too) and its evidence."""
        erasure = self.erasure
        theirs = [each.content for each in messages if is_author(each, str(erasure.user_id))] if erasure.user_id else []
        if erasure.evidence_ids:
            mine, said = False, list[str]()
            cited = [each.content for each in evidences if each.evidence_id in erasure.evidence_ids]
        elif erasure.user_id is None or owner == erasure.user_id:
            mine, said = True, [each.content for each in messages]
            # Evidence that quotes a world's memory is not the session's own text.
            cited = [
                each.content
                for each in evidences
                if each.trust is not Trust.AUTHORED or each.source.kind is not SourceKind.RAG
            ]
        else:
            mine, said, cited = False, theirs, []
        if mine and is_profile_session(session_id):
            # The facts of a user's profile are also cut out of the sessions that stay.
            theirs += cited
        if not mine and not said and not cited:
            return
        (self.whole if mine else self.touched).append(session_id)
        self.messages, self.evidences = self.messages + len(said), self.evidences + len(cited)
        self.texts.update(dict.fromkeys((*said, *cited)))
        self.scrubbed.update(dict.fromkeys((*theirs, *(cited if not mine else ()))))

    def add_copies(self, session_id: str, copies: CopiedParts) -> None:
        """Add the copies that a session has from the sessions that were added before."""
        if not copies.number:
            return
        if session_id not in self.touched:
            self.touched.append(session_id)
        self.evidences += len(copies.evidence_ids)
        self.texts.update(dict.fromkeys(copies.texts))
        self.scrubbed.update(dict.fromkeys(copies.texts))

    def preview(self) -> ErasurePreview:
        """Return the preview of the sessions that were added."""
        return ErasurePreview(
            whole=tuple(self.whole),
            touched=tuple(self.touched),
            messages=self.messages,
            evidences=self.evidences,
            texts=_worth_naming(self.texts),
            scrubbed=_worth_naming(self.scrubbed) if self.touched else (),
        )


def _worth_naming(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(text for text in texts if text.strip() and text != ERASED)


def is_author(message: Message, user_id: str) -> bool:
    """Return whether the user `user_id` is the author of `message`."""
    return bool(user_id) and read_user(message) == user_id


def texts_written_by(
    user_id: str, messages: Iterable[tuple[str, Message]]
) -> tuple[tuple[str, ...], frozenset[str]] | None:
    """Return (texts, turns) for the user `user_id`: the texts of the user's messages, and the ids of their turns.

    `messages` are pairs of a turn id and a message. Each text is returned once, and blank or erased ones are left
    out. The result is None if no message is by the user.
    """
    theirs = [(turn_id, message.content) for turn_id, message in messages if is_author(message, user_id)]
    texts = tuple(text for text in dict.fromkeys(text for _, text in theirs) if text.strip() and text != ERASED)
    return (texts, frozenset(turn_id for turn_id, _ in theirs)) if theirs else None

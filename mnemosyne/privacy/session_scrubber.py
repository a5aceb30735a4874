"""What an erasure changes in the records of a session that stays: one set of rules for all stores.

Pure: it imports the schema and `scrub`, never a store. A store decides how its rows are read and written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mnemosyne.privacy.scrub import Scrubber, erase_message, without_refs
from mnemosyne.schema.document import ModelUsage, Task, ToolCall
from mnemosyne.schema.evidence import ContextBlock, Evidence, EvidenceType, SourceKind
from mnemosyne.schema.memory import Trust
from mnemosyne.schema.session import AuthorKind, Message

PARTS: Mapping[str, tuple[type[Any], str]] = {
    "block": (ContextBlock, "blocks"),
    "task": (Task, "tasks"),
    "tool_call": (ToolCall, "tool_calls"),
    "model_usage": (ModelUsage, "model_usage"),
}
"""The lists of a session document other than messages and evidence: type, and the name under which changes are counted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionScrubber:
    """How to clean one session that stays.

    `derived` cleans what was made from the erased texts (receipts, prompts, summaries, …), `others` what others said or
    what belongs to the story: there a short text is not evidence of the erased one. Each method returns the very value
    it was given where nothing changes.
    """

    derived: Scrubber
    others: Scrubber
    user_id: str | None = None
    evidence_ids: frozenset[str] = frozenset()

    def is_theirs(self, message: Message) -> bool:
        """Return whether the erased user is the author of a message."""
        return self.user_id is not None and is_author(message, self.user_id)

    def message(self, message: Message) -> Message:
        """Return a message after the erasure; one of the erased user keeps only its role, id and time."""
        if self.is_theirs(message):
            return erase_message(message)
        kept = without_refs(message.refs, self.evidence_ids)
        clean = self.others.value(message)
        return clean if kept is message.refs else replace(clean, refs=kept)

    def messages(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return messages after the erasure."""
        clean = tuple(self.message(message) for message in messages)
        return messages if all(new is old for new, old in zip(clean, messages, strict=True)) else clean

    def evidence(self, evidence: Evidence) -> Evidence:
        """Return an evidence item that stays after the erasure."""
        of_users = evidence.type is EvidenceType.USER_INPUT or evidence.source.kind is SourceKind.USER
        # What a turn recalled of a user's messages is a copy of them, however short they are.
        of_users = of_users or evidence.trust is Trust.USER
        return (self.derived if of_users and self.user_id is not None else self.others).value(evidence)

    def rests_on_erased(self, part: Any) -> bool:
        """Return whether a part is a block that rests on erased evidence alone, so that it goes as well."""
        return isinstance(part, ContextBlock) and bool(part.refs) and not without_refs(part.refs, self.evidence_ids)


def scrubber_of_user(user_id: str, texts: Iterable[str]) -> SessionScrubber:
    """Return what removes a user from a session in which the user wrote these texts."""
    texts = tuple(texts)
    return SessionScrubber(derived=Scrubber(texts, (user_id,)), others=Scrubber(texts, thorough=False), user_id=user_id)


def scrubber_of_evidence(evidence_ids: frozenset[str], texts: Iterable[str]) -> SessionScrubber:
    """Return what removes evidence items with these texts from a session."""
    texts = tuple(texts)
    return SessionScrubber(
        derived=Scrubber(texts, evidence_ids), others=Scrubber(texts, thorough=False), evidence_ids=evidence_ids
    )


def is_author(message: Message, user_id: str) -> bool:
    """Return whether a user is the author of a message."""
    author = message.author
    return author is not None and author.kind is AuthorKind.USER and author.id == user_id


def texts_written_by(user_id: str, messages: Iterable[Message]) -> tuple[str, ...] | None:
    """Return the texts that a user wrote, each once, without blank ones; None if no message is by the user."""
    theirs = [message.content for message in messages if is_author(message, user_id)]
    return tuple(text for text in dict.fromkeys(theirs) if text.strip()) if theirs else None

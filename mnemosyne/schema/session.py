"""Conversation values of session document 1.0.

They know nothing of storage, codecs or prompts. `at` is an aware datetime everywhere; only readers and writers use ISO
text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from mnemosyne.schema.memory import EMPTY


class Role(StrEnum):
    """Speaker of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class AuthorKind(StrEnum):
    """Kind of the party that wrote a message."""

    USER = "user"
    AGENT = "agent"
    TOOL = "tool"
    SYSTEM = "system"


@dataclass(frozen=True, kw_only=True, slots=True)
class Author:
    """The party that wrote a message; `id` is the name shown with the message."""

    kind: AuthorKind
    id: str
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ref:
    """A pointer to evidence, optionally narrowed by a selector."""

    evidence_id: str
    selector: str | None = None
    hash: str | None = None
    """SHA-256 (hex) of the selected text when the ref was made, so that a changed source is noticed."""
    remote: bool = False
    """Whether the evidence is stored elsewhere."""
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One message; `content` is never rewritten. `extra` holds the fields of its document beyond the schema."""

    role: Role
    content: str
    message_id: str = ""
    author: Author | None = None
    at: datetime | None = None
    refs: tuple[Ref, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


class TurnKind(StrEnum):
    """Way in which a turn was processed: its triage."""

    NARRATIVE = "narrative"
    NUMERICAL = "numerical"


class TurnStatus(StrEnum):
    """The state of a turn. Only committed turns are ancestors of others."""

    PREPARED = "prepared"
    COMMITTED = "committed"
    ABANDONED = "abandoned"


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchSpan:
    """Turns of one branch up to and including `upto_depth`."""

    branch_id: str
    upto_depth: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionHead:
    """Head of a session on one branch.

    A committed turn is an ancestor of the head exactly if, for one span of `lineage`, its branch is `branch_id` and its
    depth is at most `upto_depth`.
    """

    session_id: str
    world_id: str
    branch_id: str
    turn_id: str | None
    depth: int
    """Number of committed turns on the path (0: none yet)."""
    lineage: tuple[BranchSpan, ...]
    """All ancestors of the head, newest branch first."""
    version: int
    """Grows by one with every write to the session."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WindowMessage:
    """A message of the history window with its place in the turn tree."""

    message: Message
    turn_id: str
    branch_id: str
    depth: int


def count_inputs(messages: Sequence[Message]) -> int:
    """Return how many messages of a turn come before its replies: those up to the first message of the user, or, in a turn without
    one, the system messages that it begins with.
    """
    for place, message in enumerate(messages):
        if message.role is Role.USER:
            return place + 1
    return next((place for place, message in enumerate(messages) if message.role is not Role.SYSTEM), len(messages))

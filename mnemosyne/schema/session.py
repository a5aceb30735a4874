"""Defines the values of a conversation: messages with their authors and refs, and the places of turns in a session.

A session is a tree of turns with branches. `at` is always a datetime with a time zone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any

from mnemosyne.schema.memory import EMPTY
from mnemosyne.values import dataclass


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
    """The party that wrote a message. `id` is the name that is shown with the message."""

    kind: AuthorKind
    id: str
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ref:
    """A pointer to an evidence item, or to the part of it that `selector` names."""

    evidence_id: str
    selector: str | None = None
    hash: str | None = None
    """SHA-256 (hex) of the text at the time when the ref was made, by which a later change of the source is noticed."""
    remote: bool = False
    """Whether the evidence is stored outside of this store."""
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One message. `content` is never rewritten. `extra` has the JSON fields that the schema does not know."""

    role: Role
    content: str
    message_id: str = ""
    author: Author | None = None
    at: datetime | None = None
    refs: tuple[Ref, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


class TurnKind(StrEnum):
    """Way in which a turn is processed. A numerical turn only changes numbers and needs no model."""

    NARRATIVE = "narrative"
    NUMERICAL = "numerical"


class TurnStatus(StrEnum):
    """Status of a turn. Only committed turns can have turns after them."""

    PREPARED = "prepared"
    COMMITTED = "committed"
    ABANDONED = "abandoned"


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchSpan:
    """The turns of one branch up to and including the depth `upto_depth`."""

    branch_id: str
    upto_depth: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionHead:
    """Head of a branch: its newest committed turn, and the way to it.

    A committed turn is on the path to the head if `lineage` has a span with the turn's `branch_id`, and the turn's depth is
    at most the `upto_depth` of that span.
    """

    session_id: str
    world_id: str
    branch_id: str
    turn_id: str | None
    depth: int
    """Number of committed turns on the path to the head (0: none yet)."""
    lineage: tuple[BranchSpan, ...]
    """Spans with all committed turns on the path to the head, newest branch first."""
    version: int
    """Version of the session. Each write to the session increases it by one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WindowMessage:
    """A message of the history with its turn's place in the tree of turns."""

    message: Message
    turn_id: str
    branch_id: str
    depth: int


def count_inputs(messages: Sequence[Message]) -> int:
    """Return how many of a turn's messages are its input.

    The input ends with the first message of the user. In a turn without such a message, the input is the system messages at its
    beginning.
    """
    for place, message in enumerate(messages):
        if message.role is Role.USER:
            return place + 1
    return next((place for place, message in enumerate(messages) if message.role is not Role.SYSTEM), len(messages))


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionOutline:
    """Facts of a session for a list of all sessions, read without opening archived sessions."""

    session_id: str
    user_id: str | None = None
    """User to whom the session belongs (None: nobody, or unknown)."""
    at: datetime | None = None
    """Time of the newest turn of the active branch, or else of the creation (None: unknown)."""
    is_archived: bool = False

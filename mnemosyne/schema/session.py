"""Conversation values of session document 1.0.

Values only: they know nothing of storage, codecs or prompts. `at` is an aware datetime everywhere; only readers and
writers use ISO text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from mnemosyne.schema.memory import EMPTY


class Role(StrEnum):
    """Who speaks in a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class AuthorKind(StrEnum):
    """What kind of party wrote a message."""

    USER = "user"
    AGENT = "agent"
    TOOL = "tool"
    SYSTEM = "system"


@dataclass(frozen=True, kw_only=True, slots=True)
class Author:
    """The party that wrote a message; `id` is the name shown beside the message."""

    kind: AuthorKind
    id: str
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ref:
    """A pointer to evidence, optionally narrowed by a selector.

    `hash` is the SHA-256 (hex) of what the selector selected when the ref was made, so that a changed source is
    noticed. A `remote` ref points to evidence that is stored elsewhere.
    """

    evidence_id: str
    selector: str | None = None
    hash: str | None = None
    remote: bool = False
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
    """How a turn was processed: its triage."""

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
    """The head of a session on one branch.

    `lineage` describes all ancestors of the head, newest branch first: a committed turn is an ancestor exactly if, for
    one span, its branch is `branch_id` and its depth is at most `upto_depth`. `depth` counts committed turns on the
    path (0 = none yet). `version` grows by one with every write to the session.
    """

    session_id: str
    world_id: str
    branch_id: str
    turn_id: str | None
    depth: int
    lineage: tuple[BranchSpan, ...]
    version: int


@dataclass(frozen=True, kw_only=True, slots=True)
class WindowMessage:
    """A message of the history window with its place in the turn tree."""

    message: Message
    turn_id: str
    branch_id: str
    depth: int

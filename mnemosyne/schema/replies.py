"""Replies that arrive in chunks and are not complete yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplyChunk:
    """One chunk of a reply."""

    turn_id: str | None
    """Turn that is answered; None: as for `Store.unfinished_reply`."""
    message_id: str = ""
    """Distinguishes replies to one turn."""
    index: int
    """Place in the reply, from 0."""
    text: str
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkLimits:
    """Limits of the unfinished replies of a session."""

    chars: int
    """Maximum characters of a reply."""
    replies: int
    """Maximum number of replies; the one without new chunks for longest is dropped."""
    expired_before: datetime
    """Replies without new chunks since then are dropped."""


class ChunkOutcome(StrEnum):
    """Effect of a chunk."""

    ADDED = "added"
    REPEATED = "repeated"
    """The same text has this index already."""
    CONFLICTING = "conflicting"
    """Another text has this index, which stays."""
    TOO_LONG = "too_long"
    """The reply would be too long; the earlier chunks stay."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AddedChunk:
    """Result of adding a chunk."""

    turn_id: str
    outcome: ChunkOutcome
    chars: int
    """Characters of the reply with this chunk."""
    dropped: tuple[tuple[str, str], ...] = ()
    """Turn and message of each reply of the session that was dropped."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnfinishedReply:
    """Chunks of a reply so far, by index."""

    turn_id: str
    message_id: str
    changed_at: datetime
    """Time of the last chunk."""
    chunks: Mapping[int, str]

"""Defines the values for replies that arrive in chunks and are not complete yet."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

from mnemosyne.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplyChunk:
    """One chunk of a reply."""

    turn_id: str | None
    """Turn that the reply answers. None has the same meaning as in `Store.unfinished_reply`."""
    message_id: str = ""
    """Id of the reply, if there is more than one reply to the turn."""
    index: int
    """Place of the chunk in the reply, from 0."""
    text: str
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkLimits:
    """Limits for the unfinished replies of a session."""

    chars: int
    """Maximum characters of a reply."""
    replies: int
    """Maximum number of replies. If there are more, the reply that has had no new chunk for the longest time is dropped."""
    expired_before: datetime
    """Replies that have had no new chunk since this time are dropped."""


class ChunkOutcome(StrEnum):
    """Effect of adding a chunk."""

    ADDED = "added"
    REPEATED = "repeated"
    """The reply already has a chunk with this index and the same text."""
    CONFLICTING = "conflicting"
    """The reply already has a chunk with this index and another text, which stays."""
    TOO_LONG = "too_long"
    """The chunk was not added, because the reply would be too long. The earlier chunks stay."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AddedChunk:
    """Result of adding a chunk."""

    turn_id: str
    outcome: ChunkOutcome
    chars: int
    """Number of characters in the reply, with this chunk."""
    dropped: tuple[tuple[str, str], ...] = ()
    """(turn id, message id) of each other reply that was dropped."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnfinishedReply:
    """A reply that is not complete yet. `chunks` has the chunks that have arrived, by index."""

    turn_id: str
    message_id: str
    changed_at: datetime
    """Time of the last chunk."""
    chunks: Mapping[int, str]

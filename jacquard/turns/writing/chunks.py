"""Buffer for replies that come in chunks, in memory until they are complete. Pure; the time is passed in.

Keyed by session, turn and message. Chunks carry their index, so they may come in any order; a repeated chunk counts once; two
different chunks with one index are an error of the host and refused.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from jacquard.config.input_limits import check_reply_chars
from jacquard.config.sections import LimitsConfig
from jacquard.core.errors import ChunkConflictError, MissingChunksError

MAX_CHUNKS = 100_000
"""Maximum number of chunks of a reply, because empty chunks do not count as characters."""

MOST_HELD_CHARS = 16_000_000
"""Maximum size of all unfinished replies together, in characters."""

MOST_OF_A_SESSION = 8
"""Maximum number of unfinished replies of a session."""

_REPLY_CHARS, _CHUNK_CHARS = 2_000, 100
"""Memory cost of a reply and of a chunk besides its text, in characters."""

Key = tuple[str, str, str]


@dataclass(slots=True)
class _Reply:
    at: datetime
    parts: dict[int, str] = field(default_factory=dict)
    chars: int = 0

    @property
    def size(self) -> int:
        return self.chars + _REPLY_CHARS + _CHUNK_CHARS * len(self.parts)


class ChunkBuffer:
    """Unfinished replies.

    A reply without new chunks for `expire_seconds` is dropped when the buffer is next used. If a session or the buffer has too
    many, the one without new chunks for longest is dropped. `pop_expired` returns the keys of dropped replies, once.
    """

    def __init__(
        self, *, expire_seconds: float = 600.0, max_chars: int = 2_000_000, limits: LimitsConfig | None = None
    ) -> None:
        self._lifetime = timedelta(seconds=expire_seconds)
        self._max_chars = max_chars
        self._limits = limits or LimitsConfig()
        # Sorted by the last chunk, newest last.
        self._replies: OrderedDict[Key, _Reply] = OrderedDict()
        self._size = 0
        self._expired: list[Key] = []

    def add(self, key: Key, index: int, text: str, now: datetime) -> bool:
        """Add a chunk (`index` from 0); return whether it is new.

        Raises ChunkConflictError, and InputTooLargeError if the reply would exceed `limits.reply_chars`; the earlier chunks are
        kept.
        """
        self._sweep(now)
        if index < 0:
            raise ChunkConflictError(key[0], key[1], index, "its index is negative; count from 0")
        if index >= MAX_CHUNKS:
            raise ChunkConflictError(
                key[0], key[1], index, f"a reply has at most {MAX_CHUNKS:,} chunks; send longer ones"
            )
        reply = self._replies.get(key)
        if reply is not None and index in reply.parts:
            if reply.parts[index] != text:
                raise ChunkConflictError(key[0], key[1], index, "another text has this index already")
            reply.at = now
            self._replies.move_to_end(key)
            return False
        chars = len(text) + (reply.chars if reply else 0)
        if chars > self._max_chars and self._max_chars < self._limits.reply_chars:
            raise ChunkConflictError(key[0], key[1], index, f"the reply would pass {self._max_chars:,} characters")
        check_reply_chars(chars, self._limits)
        if reply is None:
            reply = self._replies[key] = _Reply(at=now)
            self._size += reply.size
            mine = [each for each in self._replies if each[0] == key[0]]
            for each in mine[:-MOST_OF_A_SESSION]:
                self._expire(each)
        reply.parts[index] = text
        reply.chars += len(text)
        reply.at = now
        self._size += len(text) + _CHUNK_CHARS
        self._replies.move_to_end(key)
        while self._size > MOST_HELD_CHARS and len(self._replies) > 1:
            self._expire(next(iter(self._replies)))
        return True

    def whole(self, key: Key, now: datetime) -> str | None:
        """Return the reply if it is complete from 0 on, None if there are no chunks; raises MissingChunksError with the gaps."""
        self._sweep(now)
        reply = self._replies.get(key)
        if reply is None:
            return None
        missing = tuple(index for index in range(max(reply.parts) + 1) if index not in reply.parts)
        if missing:
            raise MissingChunksError(key[0], key[1], missing)
        return "".join(reply.parts[index] for index in range(len(reply.parts)))

    def drop(self, key: Key) -> int:
        """Drop a reply; return how many chunks it had."""
        reply = self._replies.pop(key, None)
        if reply is None:
            return 0
        self._size -= reply.size
        return len(reply.parts)

    def has(self, key: Key) -> bool:
        """Return whether a reply is unfinished."""
        return key in self._replies

    def turns(self, session_id: str) -> tuple[tuple[str, str], ...]:
        """Return (turn, message) of the unfinished replies of a session."""
        return tuple((turn, message) for session, turn, message in self._replies if session == session_id)

    def pop_expired(self, now: datetime) -> tuple[Key, ...]:
        """Return the keys dropped since the last call."""
        self._sweep(now)
        keys, self._expired = tuple(self._expired), []
        return keys

    def _sweep(self, now: datetime) -> None:
        while self._replies and now - next(iter(self._replies.values())).at > self._lifetime:
            self._expire(next(iter(self._replies)))

    def _expire(self, key: Key) -> None:
        self.drop(key)
        self._expired.append(key)

"""Replies that come in chunks, kept in memory until they are whole. Pure; the time is passed in.

Keyed by session, turn and message. Chunks carry their index, so any order will do; the same chunk twice counts once; two
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
"""Empty chunks add nothing to a reply, so its characters alone would not bound their number."""

MOST_HELD_CHARS = 16_000_000
"""What replies under way may take together, in characters."""

MOST_OF_A_SESSION = 8
"""A session has at most so many replies under way."""

_REPLY_CHARS, _CHUNK_CHARS = 2_000, 100
"""Cost in memory of a reply and of a chunk, in characters, besides its text."""

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
    """Holds the replies under way.

    One that has grown no more for `expire_seconds` is forgotten when the buffer is next used; so is the one that has not grown for
    longest where a session, or the buffer, has too many. `pop_expired` hands out, once, the keys of those that were.
    """

    def __init__(
        self, *, expire_seconds: float = 600.0, max_chars: int = 2_000_000, limits: LimitsConfig | None = None
    ) -> None:
        self._lifetime = timedelta(seconds=expire_seconds)
        self._max_chars = max_chars
        self._limits = limits or LimitsConfig()
        # The one that grew last is the last.
        self._replies: OrderedDict[Key, _Reply] = OrderedDict()
        self._size = 0
        self._expired: list[Key] = []

    def add(self, key: Key, index: int, text: str, now: datetime) -> bool:
        """Take in a chunk (`index` from 0); return whether it was new.

        ChunkConflictError; InputTooLargeError where the reply would pass `limits.reply_chars`. What came before it is kept.
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
        """Return the reply as far as it is whole from 0 on, None if nothing of it came. MissingChunksError names gaps."""
        self._sweep(now)
        reply = self._replies.get(key)
        if reply is None:
            return None
        missing = tuple(index for index in range(max(reply.parts) + 1) if index not in reply.parts)
        if missing:
            raise MissingChunksError(key[0], key[1], missing)
        return "".join(reply.parts[index] for index in range(len(reply.parts)))

    def drop(self, key: Key) -> int:
        """Forget a reply; return how many chunks it had."""
        reply = self._replies.pop(key, None)
        if reply is None:
            return 0
        self._size -= reply.size
        return len(reply.parts)

    def has(self, key: Key) -> bool:
        """Return whether a reply is under way."""
        return key in self._replies

    def turns(self, session_id: str) -> tuple[tuple[str, str], ...]:
        """Return (turn, message) of the replies under way in a session."""
        return tuple((turn, message) for session, turn, message in self._replies if session == session_id)

    def pop_expired(self, now: datetime) -> tuple[Key, ...]:
        """Return the keys that were forgotten since this was asked last."""
        self._sweep(now)
        keys, self._expired = tuple(self._expired), []
        return keys

    def _sweep(self, now: datetime) -> None:
        while self._replies and now - next(iter(self._replies.values())).at > self._lifetime:
            self._expire(next(iter(self._replies)))

    def _expire(self, key: Key) -> None:
        self.drop(key)
        self._expired.append(key)

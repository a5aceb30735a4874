"""Caches values that were read from a database, so that the next turn need not read messages, records and evidence
again.

The value of a body is found by the body's place and all of its bytes. A list of evidence or a rebuilt state is found by
the version of its session. So a later write of another process is never overlooked, and a damaged body is never taken
for a sound one. Callers share the values, and must not change them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mnemosyne.schema.evidence import Evidence
from mnemosyne.schema.query import EvidenceFilter

MOST_BYTES = 8_000_000
"""Maximum size of the cached values of a store, as JSON: the records of some fifty turns."""

_LARGEST_SHARE = 4

MOST_BYTES_OF_SESSIONS = 24_000_000
"""Maximum memory for the cached evidence and states of a store, in bytes, as `_bytes_of` estimates it."""

_EVIDENCE_BYTES, _CONTENT_BYTES, _STATE_BYTES = 2_000, 2, 6
"""Bytes of a piece of evidence without its content, of a character of its content, and of a character of a state as
JSON.
"""

MOST_SESSIONS = 256
"""Maximum number of sessions with cached evidence and states."""

MOST_STATES = 32
"""Maximum number of cached states per session; each is the state after one former turn."""


class ReadBodies:
    """Cache of the values that were read last, up to `most_bytes` of JSON. Several threads may use it."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes, self._bytes = most_bytes, 0
        self._held: OrderedDict[str, tuple[bytes, int, Any]] = OrderedDict()
        self._lock = threading.Lock()
        self.sessions = SessionReads()

    def find(self, place: str, data: bytes) -> Any:
        """Return the cached value of a body, or None. `data` are the stored bytes."""
        with self._lock:
            held = self._held.get(place)
            if held is None or held[0] != data:
                return None
            self._held.move_to_end(place)
        return held[2]

    def keep(self, place: str, data: bytes, size: int, value: Any) -> None:
        """Cache the value of a body that has `size` bytes of JSON. A body of more than a quarter of the limit is not
        cached.
        """
        with self._lock:
            if size > self._most_bytes // _LARGEST_SHARE:
                return
            self._bytes += size - self._held.pop(place, (b"", 0, None))[1]
            self._held[place] = data, size, value
            while self._bytes > self._most_bytes:
                self._bytes -= self._held.popitem(last=False)[1][1]

    def close(self) -> None:
        """Forget all values, and cache nothing from now on."""
        with self._lock:
            self._most_bytes, self._bytes = -1, 0
            self._held.clear()
        self.sessions.close()


@dataclass(kw_only=True, slots=True)
class _ReadOfSession:
    version: int
    bytes: int = 0
    lists: dict[EvidenceFilter, tuple[Evidence, ...]] = field(default_factory=dict)
    states: dict[str, tuple[int, Mapping[str, Any]]] = field(default_factory=dict)


class SessionReads:
    """Cache of the newest evidence (by filter) and of states after former turns, for the sessions that were read last.

    Each session is cached at one version. When this store writes a turn, `follow` moves the cache of the session to the
    new version. After any other write the session is read again. Sessions are identified by their number, which is
    never used again. Several threads may use the cache.
    """

    def __init__(self, most_bytes: int = MOST_BYTES_OF_SESSIONS) -> None:
        self._most_bytes, self._bytes = most_bytes, 0
        self._held: OrderedDict[int, _ReadOfSession] = OrderedDict()
        self._lock = threading.Lock()

    def find_evidences(self, key: int, version: int, where: EvidenceFilter) -> tuple[Evidence, ...] | None:
        """Return the cached evidence list of a filter at this version of the session, or None."""
        with self._lock:
            held = self._find(key, version)
            return None if held is None else held.lists.get(where)

    def find_state(self, key: int, version: int, turn_id: str) -> Mapping[str, Any] | None:
        """Return the cached state after a committed turn, or None."""
        with self._lock:
            held = self._find(key, version)
            return None if held is None or turn_id not in held.states else held.states[turn_id][1]

    def keep_evidences(
        self,
        key: int,
        version: int,
        where: EvidenceFilter,
        found: tuple[Evidence, ...],
    ) -> None:
        """Cache an evidence list that was read. Only lists with the newest items of some types are cached."""
        kept = EvidenceFilter(
            types=where.types,
            limit=where.limit,
            newest=True,
            without_memories=where.without_memories,
            branch_id=where.branch_id,
            known_to=where.known_to,
        )
        if where != kept or where.limit is None:
            return
        with self._lock:
            held = self._enter(key, version)
            if held is not None:
                held.lists[where] = found
                self._bound(key, held)

    def keep_state(self, key: int, version: int, turn_id: str, state: Mapping[str, Any], chars: int) -> None:
        """Cache the state after a committed turn. `chars` is its length as JSON."""
        with self._lock:
            held = self._enter(key, version)
            if held is not None:
                held.states[turn_id] = chars, state
                while len(held.states) > MOST_STATES:
                    del held.states[next(iter(held.states))]
                self._bound(key, held)

    def _find(self, key: int, version: int) -> _ReadOfSession | None:
        held = self._held.get(key)
        if held is None or held.version != version:
            return None
        self._held.move_to_end(key)
        return held

    def _enter(self, key: int, version: int) -> _ReadOfSession | None:
        """Return the cache of a session at a version, new if need be, or None if a later version is cached."""
        held = self._held.get(key)
        if held is not None and held.version > version:
            return None
        if held is None or held.version < version:
            self._drop(key)
            held = self._held[key] = _ReadOfSession(version=version)
            if len(self._held) > MOST_SESSIONS:
                self._drop(next(iter(self._held)))
        return held

    def follow(
        self, key: int, before: int, after: int, written: Sequence[Evidence], replaced: Collection[str] = ()
    ) -> None:
        """Move the cache of a session from version `before` to `after`, because this store wrote a turn.

        `written` is the turn's evidence. Items whose ids are in `replaced` take the places of the former items. A turn
        changes no state of a former turn.
        """
        with self._lock:
            held = self._held.get(key)
            if held is None or held.version != before:
                return
            lists = {where: _with_written(where, found, written, replaced) for where, found in held.lists.items()}
            if after != before + 1 or None in lists.values():
                self._drop(key)
                return
            held.version, held.lists = after, {where: found for where, found in lists.items() if found is not None}
            if written:
                self._bound(key, held)

    def close(self) -> None:
        """Forget everything, and cache nothing from now on."""
        with self._lock:
            self._most_bytes, self._bytes = -1, 0
            self._held.clear()

    def _bound(self, key: int, held: _ReadOfSession) -> None:
        """Count the cached bytes of a session, and drop the excess."""
        size = _bytes_of(held)
        self._bytes += size - held.bytes
        held.bytes = size
        self._held.move_to_end(key)
        while self._held and self._bytes > self._most_bytes:
            self._drop(next(iter(self._held)))

    def _drop(self, key: int) -> None:
        held = self._held.pop(key, None)
        self._bytes -= 0 if held is None else held.bytes


def _bytes_of(held: _ReadOfSession) -> int:
    """Return about how many bytes of memory the evidence and the states of a session take."""
    items = [each for found in held.lists.values() for each in found]
    chars = sum(size for size, _ in held.states.values())
    contents = sum(len(each.content) for each in items)
    return len(items) * _EVIDENCE_BYTES + contents * _CONTENT_BYTES + chars * _STATE_BYTES


def _with_written(
    where: EvidenceFilter, found: tuple[Evidence, ...], written: Sequence[Evidence], replaced: Collection[str]
) -> tuple[Evidence, ...] | None:
    """Return a list of the newest items after a write, or None if only the database knows it now."""
    if not written:
        return found
    by_id = {each.evidence_id: each for each in found}
    if (where.since or where.until) and any(each.created_at is None for each in written):
        return None
    for each in written:
        if each.evidence_id in replaced and (each.evidence_id in by_id) is not where.admits(each):
            return None
        if where.admits(each):
            by_id[each.evidence_id] = each
    return tuple(by_id.values())[-(where.limit or 0) :] if where.limit else ()


class BodyCache:
    """Holds the current `ReadBodies` of a store, and replaces it when data was erased.

    A transaction uses the `ReadBodies` that was current when it began. So a transaction that began before an erasure
    leaves nothing in the new cache.
    """

    def __init__(self) -> None:
        self.current = ReadBodies()

    def clear(self) -> None:
        """Forget everything. Transactions that are still running can cache nothing more."""
        former, self.current = self.current, ReadBodies()
        former.close()

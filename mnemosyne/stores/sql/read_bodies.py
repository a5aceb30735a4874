"""What was read from a database before, so that a turn does not read the same messages, records and evidence again.

A body is known by its place and by all of its bytes, a list of evidence by the version of its session: what another process has
written since is never overlooked, and a damaged body is never taken for a sound one. Callers share the values and do not change
them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from mnemosyne.schema.evidence import Evidence
from mnemosyne.schema.query import EvidenceFilter

MOST_BYTES = 8_000_000
"""How much JSON the kept values of a store may have been: the records of some fifty turns."""

_LARGEST_SHARE = 4

MOST_EVIDENCE_CHARS = 8_000_000
"""How many characters of evidence the kept lists of a store may hold."""


class ReadBodies:
    """The values that were read last, up to `most_bytes` of JSON. It may be used from several threads."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes, self._bytes = most_bytes, 0
        self._held: OrderedDict[str, tuple[bytes, int, Any]] = OrderedDict()
        self._lock = threading.Lock()
        self.evidences = EvidenceLists()

    def find(self, place: str, data: bytes) -> Any:
        """Return the value of a body, or None."""
        with self._lock:
            held = self._held.get(place)
            if held is None or held[0] != data:
                return None
            self._held.move_to_end(place)
        return held[2]

    def keep(self, place: str, data: bytes, size: int, value: Any) -> None:
        """Keep the value of a body with `size` bytes of JSON; one that takes a large share of the room is not kept."""
        with self._lock:
            if size > self._most_bytes // _LARGEST_SHARE:
                return
            self._bytes += size - self._held.pop(place, (b"", 0, None))[1]
            self._held[place] = data, size, value
            while self._bytes > self._most_bytes:
                self._bytes -= self._held.popitem(last=False)[1][1]

    def close(self) -> None:
        """Forget everything, and keep nothing from now on."""
        with self._lock:
            self._most_bytes, self._bytes = -1, 0
            self._held.clear()
        self.evidences.close()


@dataclass(kw_only=True, slots=True)
class _ListsOfSession:
    version: int
    chars: int = 0
    lists: dict[EvidenceFilter, tuple[Evidence, ...]] = field(default_factory=dict)


class EvidenceLists:
    """The newest evidence of the sessions that were read last, by filter, each list as of one version of its session.

    A write of this store moves its session's lists on to the version that it made (`follow`); any other write leaves them behind,
    and they are read again. Sessions are known by their number, which is never used again. It may be used from several threads.
    """

    def __init__(self, most_chars: int = MOST_EVIDENCE_CHARS) -> None:
        self._most_chars, self._chars = most_chars, 0
        self._held: OrderedDict[int, _ListsOfSession] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, key: int, version: int, where: EvidenceFilter) -> tuple[Evidence, ...] | None:
        """Return a list as it is at a version of its session, or None."""
        with self._lock:
            held = self._held.get(key)
            if held is None or held.version != version:
                return None
            self._held.move_to_end(key)
            return held.lists.get(where)

    def keep(self, key: int, version: int, where: EvidenceFilter, found: tuple[Evidence, ...]) -> None:
        """Keep a list that was read; only those of the newest items of some types are kept."""
        if where != EvidenceFilter(types=where.types, limit=where.limit, newest=True) or where.limit is None:
            return
        with self._lock:
            held = self._held.get(key)
            if held is not None and held.version > version:
                return
            if held is None or held.version < version:
                self._drop(key)
                held = self._held[key] = _ListsOfSession(version=version)
            held.lists[where] = found
            self._bound(key, held)

    def follow(
        self, key: int, before: int, after: int, written: Sequence[Evidence], replaced: Collection[str] = ()
    ) -> None:
        """Move the lists of a session on by a write of this store: from version `before` to `after`, with the items that it wrote,
        those of the ids `replaced` in the places of others.
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
        """Forget everything, and keep nothing from now on."""
        with self._lock:
            self._most_chars, self._chars = -1, 0
            self._held.clear()

    def _bound(self, key: int, held: _ListsOfSession) -> None:
        """Count the characters of a session's lists, and forget what is too much."""
        chars = sum(len(each.content) for found in held.lists.values() for each in found)
        self._chars += chars - held.chars
        held.chars = chars
        self._held.move_to_end(key)
        while self._held and self._chars > self._most_chars:
            self._drop(next(iter(self._held)))

    def _drop(self, key: int) -> None:
        held = self._held.pop(key, None)
        self._chars -= 0 if held is None else held.chars


def _with_written(
    where: EvidenceFilter, found: tuple[Evidence, ...], written: Sequence[Evidence], replaced: Collection[str]
) -> tuple[Evidence, ...] | None:
    """Return a list of the newest items after a write; None where only the database can tell what it is now."""
    if not written:
        return found
    by_id = {each.evidence_id: each for each in found}
    for each in written:
        if each.evidence_id in replaced and (each.evidence_id in by_id) is not where.admits(each):
            return None
        if where.admits(each):
            by_id[each.evidence_id] = each
    return tuple(by_id.values())[-(where.limit or 0) :] if where.limit else ()


class BodyCache:
    """The `ReadBodies` of a store: each transaction uses those that were `current` when it began, so that one that began before
    an erasure leaves nothing behind it.
    """

    def __init__(self) -> None:
        self.current = ReadBodies()

    def clear(self) -> None:
        """Forget everything, and let what has begun keep nothing."""
        former, self.current = self.current, ReadBodies()
        former.close()

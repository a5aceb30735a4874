"""Caches values that were read from a database, so that the next turn need not decode them again.

A body is a stored JSON value. Its decoded value is found by the body's place and all of its bytes. A list of evidence or a
rebuilt state is found by the version of its session, and a memory entry by the mark of its scope (session or world). So a
later write of another process is never overlooked, and a damaged body is never mistaken for a sound one. Callers share the
values, and must not change them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from mnemosyne.schema.evidence import Evidence
from mnemosyne.schema.memory import MemoryEntry
from mnemosyne.schema.query import EvidenceFilter
from mnemosyne.schema.session import WindowMessage
from mnemosyne.values import dataclass

MOST_BYTES = 8_000_000
"""Maximum size of the cached values of a store, as JSON: the records of some fifty turns."""

_LARGEST_SHARE = 4

MOST_BYTES_OF_SCOPES = 40_000_000
"""Maximum memory for what is cached of the scopes of a store, in bytes, as `_bytes_of` estimates it. The memory entries
of one scope may take a quarter of it.
"""

MOST_SCOPES = 256
"""Maximum number of scopes (sessions and worlds) of which something is cached."""

MOST_STATES = 32
"""Maximum number of cached states per session; each is the state after one former turn."""

_EVIDENCE_BYTES, _ENTRY_BYTES, _MESSAGE_BYTES, _CONTENT_BYTES, _STATE_BYTES = 2_000, 1_500, 1_000, 2, 6
"""Bytes of a piece of evidence, a memory entry and a message without their content, of a character of content, and of a
character of a state as JSON.
"""


SessionVersion = tuple[int, int]
"""Number of a session, which is never used again, and its version."""


class ReadBodies:
    """Cache of the values that were read last, up to `most_bytes` of JSON. Several threads may use it."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes, self._bytes = most_bytes, 0
        self._held: OrderedDict[str, tuple[bytes, int, Any]] = OrderedDict()
        self._lock = threading.Lock()
        self.scopes = ScopeReads()

    def find(self, place: str, data: bytes) -> Any:
        """Return the cached value of the body at `place`, or None if it is not cached. `data` are the stored bytes."""
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
        self.scopes.close()


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadMessages:
    """Newest messages of the path to a head, oldest first."""

    branch_id: str
    depth: int
    """Depth of the head when the messages were read."""
    limit: int
    """Maximum number of messages that the reader asked for."""
    messages: tuple[WindowMessage, ...]

    def serves(self, branch_id: str, limit: int) -> bool:
        """Return whether these messages include the `limit` newest ones of the branch `branch_id`, up to `depth`."""
        return branch_id == self.branch_id and (limit <= self.limit or len(self.messages) < self.limit)


@dataclass(frozen=True, kw_only=True, slots=True)
class ScopeMark:
    """Proof that the memory entries of a scope (one session or one world) are the same as before."""

    session: SessionVersion | None
    """Number and version of the session (None: the scope is a world). An erasure, which deletes rows, changes the version."""
    newest: tuple[int | None, ...]
    """Highest row number of each chain. It changes with every write, because an entry that is written gets a new number.
    Empty if no entries were read.
    """

    @property
    def last(self) -> int:
        """Highest row number of all chains."""
        return max(number or 0 for number in self.newest)


@dataclass(kw_only=True, slots=True)
class ReadOfScope:
    """Cached values of a scope at the time of `mark`. Only a session has messages, evidence and states."""

    mark: ScopeMark
    entries: dict[str, MemoryEntry] = field(default_factory=dict)
    """Memory entries by id. An entry is removed when it is written again. All entries are removed when something is erased."""
    gated: tuple[MemoryEntry, ...] | None = None
    """All entries with viewers or conditions, or None if they were not read."""
    messages: ReadMessages | None = None
    lists: dict[EvidenceFilter, tuple[Evidence, ...]] = field(default_factory=dict)
    states: dict[str, tuple[int, Mapping[str, Any]]] = field(default_factory=dict)
    bytes: int = 0
    entry_bytes: int = 0


class ScopeReads:
    """Cache of the values that were read last from scopes (sessions and worlds).

    For a world, memory entries are cached. For a session, the newest messages of a branch, the newest evidence for each
    filter, and states after former turns are cached too.

    A session is cached at one version. When this store writes a turn, `follow` moves the cache to the new version. After
    any other write the session is read again. Several threads may use the cache.
    """

    def __init__(self, most_bytes: int = MOST_BYTES_OF_SCOPES) -> None:
        self._most_bytes, self._bytes = most_bytes, 0
        self._held: OrderedDict[str, ReadOfScope] = OrderedDict()
        self._lock = threading.Lock()

    def find(
        self, scope: str, mark: ScopeMark, read_changes: Callable[[int], Collection[tuple[str, int]]]
    ) -> ReadOfScope:
        """Return the cached values of `scope`. Their entries are valid at `mark`; there are none if none are cached.

        `read_changes` returns the pair (id, is gated) for each entry whose row number is above its argument. An entry is gated
        if it has viewers or conditions.
        """
        held = self._held.get(scope)
        former = None if held is None else held.mark
        if held is not None and former == mark:
            return held
        changes = None
        if former is not None and former.newest and former.session == mark.session and former.last < mark.last:
            changes = read_changes(former.last)
        with self._lock:
            held = self._enter(scope, mark.session)
            if held is None:
                return ReadOfScope(mark=mark)
            if changes is None or held.mark != former:
                self._forget(held, *held.entries)
                held.gated = None
            for entry_id, is_gated in changes or ():
                self._forget(held, entry_id)
                if held.gated is not None and (is_gated or entry_id in {each.entry_id for each in held.gated}):
                    held.gated = None
            held.mark = mark
        return held

    def keep(self, scope: str, mark: ScopeMark, entries: Sequence[MemoryEntry], *, are_all_gated: bool = False) -> None:
        """Cache `entries`, which were read at `mark`. Nothing is cached if the scope has another mark now.

        Pass `are_all_gated` if `entries` are all entries of the scope that have viewers or conditions.
        """
        with self._lock:
            held = self._held.get(scope)
            if held is None or held.mark != mark:
                return
            if are_all_gated:
                held.gated = tuple(entries)
            for entry in entries:
                self._forget(held, entry.entry_id)
                held.entries[entry.entry_id] = entry
                held.entry_bytes += _bytes_of_entry(entry)
            while held.entry_bytes > self._most_bytes // _LARGEST_SHARE:
                self._forget(held, next(iter(held.entries)))
            self._bound(scope, held)

    def find_evidences(self, scope: str, session: SessionVersion, where: EvidenceFilter) -> tuple[Evidence, ...] | None:
        """Return the cached evidence list for the filter `where` at this version of the session, or None if it is not
        cached.
        """
        with self._lock:
            held = self._find(scope, session)
            return None if held is None else held.lists.get(where)

    def find_state(self, scope: str, session: SessionVersion, turn_id: str) -> Mapping[str, Any] | None:
        """Return the cached state after a committed turn, or None if it is not cached."""
        with self._lock:
            held = self._find(scope, session)
            return None if held is None or turn_id not in held.states else held.states[turn_id][1]

    def find_messages(self, scope: str, session: SessionVersion, branch_id: str, limit: int) -> ReadMessages | None:
        """Return the cached messages of a branch, or None if fewer than `limit` are cached.

        The branch may have newer messages, but no other ones up to the depth of the result.
        """
        with self._lock:
            held = self._find(scope, session)
            found = None if held is None else held.messages
        return found if found is not None and found.serves(branch_id, limit) else None

    def keep_messages(self, scope: str, session: SessionVersion, read: ReadMessages) -> None:
        """Cache `read`, the newest messages of a branch. Messages of another branch are replaced. A longer list of the same
        branch stays.
        """
        with self._lock:
            held = self._enter(scope, session)
            if held is None or (
                held.messages is not None
                and held.messages.branch_id == read.branch_id
                and held.messages.limit > read.limit
            ):
                return
            held.messages = read
            self._bound(scope, held)

    def keep_evidences(
        self,
        scope: str,
        session: SessionVersion,
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
            held = self._enter(scope, session)
            if held is not None:
                held.lists[where] = found
                self._bound(scope, held)

    def keep_state(
        self, scope: str, session: SessionVersion, turn_id: str, state: Mapping[str, Any], chars: int
    ) -> None:
        """Cache the state after a committed turn. `chars` is its length as JSON."""
        with self._lock:
            held = self._enter(scope, session)
            if held is not None:
                held.states[turn_id] = chars, state
                while len(held.states) > MOST_STATES:
                    del held.states[next(iter(held.states))]
                self._bound(scope, held)

    def follow(
        self, scope: str, key: int, before: int, after: int, written: Sequence[Evidence], replaced: Collection[str] = ()
    ) -> None:
        """Move the cache of a session from version `before` to `after`, because this store wrote a turn.

        `written` is the turn's evidence. Items whose ids are in `replaced` take the places of the former items. A turn
        changes no message and no state of a former turn, and deletes no entry.
        """
        with self._lock:
            held = self._held.get(scope)
            if held is None or held.mark.session != (key, before):
                return
            lists = {where: _with_written(where, found, written, replaced) for where, found in held.lists.items()}
            if after != before + 1 or None in lists.values():
                self._drop(scope)
                return
            held.mark = replace(held.mark, session=(key, after))
            held.lists = {where: found for where, found in lists.items() if found is not None}
            if written:
                self._bound(scope, held)

    def close(self) -> None:
        """Forget everything, and cache nothing from now on."""
        with self._lock:
            self._most_bytes = -1
            while self._held:
                self._drop(next(iter(self._held)))

    def _find(self, scope: str, session: SessionVersion) -> ReadOfScope | None:
        held = self._held.get(scope)
        if held is None or held.mark.session != session:
            return None
        self._held.move_to_end(scope)
        return held

    def _enter(self, scope: str, session: SessionVersion | None) -> ReadOfScope | None:
        """Return the cache of a scope, new if need be; None if a later version of the session is cached, or the cache is
        closed.
        """
        held = self._held.get(scope)
        if held is not None and held.mark.session == session:
            return held
        if self._most_bytes < 0 or (held is not None and (held.mark.session or (0, 0)) > (session or (0, 0))):
            return None
        self._drop(scope)
        held = self._held[scope] = ReadOfScope(mark=ScopeMark(session=session, newest=()))
        if len(self._held) > MOST_SCOPES:
            self._drop(next(iter(self._held)))
        return held

    def _bound(self, scope: str, held: ReadOfScope) -> None:
        """Count the cached bytes of a scope, and drop the excess."""
        size = _bytes_of(held)
        self._bytes += size - held.bytes
        held.bytes = size
        self._held.move_to_end(scope)
        while self._held and self._bytes > self._most_bytes:
            self._drop(next(iter(self._held)))

    def _forget(self, held: ReadOfScope, *entry_ids: str) -> None:
        for entry_id in entry_ids:
            entry = held.entries.pop(entry_id, None)
            held.entry_bytes -= 0 if entry is None else _bytes_of_entry(entry)

    def _drop(self, scope: str) -> None:
        """Forget a scope. A turn that still has its entries does not find them any more."""
        held = self._held.pop(scope, None)
        if held is not None:
            self._bytes -= held.bytes
            held.entries.clear()
            held.gated = None


def _bytes_of(held: ReadOfScope) -> int:
    """Return about how many bytes of memory the cached values of a scope take."""
    items = [each for found in held.lists.values() for each in found]
    chars = sum(size for size, _ in held.states.values())
    said = () if held.messages is None else held.messages.messages
    contents = sum(len(each.content) for each in items) + sum(len(each.message.content) for each in said)
    whole = held.entry_bytes + len(items) * _EVIDENCE_BYTES + len(said) * _MESSAGE_BYTES
    return whole + contents * _CONTENT_BYTES + chars * _STATE_BYTES


def _bytes_of_entry(entry: MemoryEntry) -> int:
    return _ENTRY_BYTES + _CONTENT_BYTES * len(entry.text)


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

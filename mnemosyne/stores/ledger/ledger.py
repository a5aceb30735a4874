"""The ledger of one session or one world: rows in plain dicts, with indexes to walk them fast.

The memory store and the file store share this turn tree. It is synchronous and pure: no file, no clock, no thread. A
write that raises is undone row by row; a write that succeeds returns the rows that it changed, so that a journal can
store them and another ledger can `apply` them.

Cost: a row is written and found in constant time; the walks (`paths`, `recalled`, `chains`, `changing`) are lists in
the order of writing, read by bisection from their ends. Only the rows themselves grow with the length of the session.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar

from mnemosyne.chains.turn_tree import BASE_BRANCH
from mnemosyne.core.codec import JsonText
from mnemosyne.core.errors import StoreError
from mnemosyne.schema.memory import Chain
from mnemosyne.schema.session import TurnStatus
from mnemosyne.stores.ledger.rows import (
    NO_OPS,
    TABLES,
    BranchRow,
    Change,
    EntryRow,
    EvidenceRow,
    MessageRow,
    RecallMark,
    Row,
    SessionRow,
    SnapshotRow,
    TurnRow,
)

T = TypeVar("T")

LOST = ""
_THE_SESSION = ""
_MOST_LOST = 100_000


class Ledger:
    """All rows of one scope. An empty ledger is a session or a world that does not exist.

    `floor` is the sequence number after which it starts to count.
    """

    def __init__(self, floor: int = 0) -> None:
        self._tables: dict[str, dict[str, Any]] = {name: {} for name in TABLES}
        self.branches: dict[str, BranchRow] = self._tables["branch"]
        self.turns: dict[str, TurnRow] = self._tables["turn"]
        self.messages: dict[str, MessageRow] = self._tables["message"]
        self.entries: dict[str, EntryRow] = self._tables["entry"]
        self.snapshots: dict[str, SnapshotRow] = self._tables["snapshot"]
        self.sources: dict[tuple[str, str], list[str]] = {}
        """The ids of evidence items that had this uri and content hash when they were written."""
        self.found: dict[str, list[str]] = {}
        """The ids of evidence items that said that this turn found them when they were written."""
        self.copies: dict[str, list[str]] = {}
        """The ids of the turns that were written as copies of a turn."""
        self.paths: dict[str, list[str]] = {}
        """The ids of the committed turns of each branch (of its own, not of its ancestors), by depth; LOST for one whose row
        is missing.
        """
        self.spoken: dict[str, list[str]] = {}
        """The message ids of each committed turn, in the order of writing."""
        self.recalled: list[str] = []
        """The ids of messages of the history chain, in the order of writing."""
        self.chains: dict[Chain, list[tuple[int, str]]] = {}
        """Numbers and ids of entries in the order of writing; an id whose row has another number was written again later."""
        self.changing: dict[str, list[int]] = {}
        """The depths of each branch whose turns have ops, ascending."""
        self.snapshot_depths: dict[str, list[int]] = {}
        self.summed: dict[str, list[int]] = {}
        """The depths of each branch whose turns have a rolling summary, ascending."""
        self.states: dict[str, JsonText] = {}
        """Cached head states; others are rebuilt from snapshots and ops."""
        self.is_damaged = False
        """Whether rows may be missing, because a line of the journal could not be read."""
        self.passed_by: list[tuple[str, str]] = []
        """What reads have passed by since this was last cleared: the name of each record, and what is wrong with it."""
        self.sequence = floor
        self._changes: list[Change] = []
        self._undo: list[Callable[[], None]] = []

    @property
    def session(self) -> SessionRow | None:
        """The session's own row, or None while there is no session."""
        row: SessionRow | None = self._tables["session"].get(_THE_SESSION)
        return row

    def is_empty(self) -> bool:
        """Return whether there is no row at all."""
        return not any(self._tables.values())

    def put_session(self, row: SessionRow) -> None:
        """Write the session's own row."""
        self.put("session", _THE_SESSION, row)

    @property
    def evidences(self) -> dict[str, EvidenceRow]:
        """The evidence rows, in the order of first writing."""
        return self._tables["evidence"]

    def bodies(self, table: str) -> Mapping[str, JsonText]:
        """Return the rows of a table of bodies, in the order of first writing."""
        return self._tables[table]

    def newest_bodies(self, table: str, limit: int) -> list[JsonText]:
        """Return the rows of a table of bodies that were first written last, oldest first."""
        return list(islice(reversed(self._tables[table].values()), limit))[::-1]

    def run(self, work: Callable[[Ledger], T]) -> tuple[T, tuple[Change, ...]]:
        """Return what `work` returns and the rows that it changed, in order; when it raises, every row is put back."""
        self._changes, self._undo = [], []
        before = self.sequence
        try:
            result = work(self)
        except BaseException:
            for step in reversed(self._undo):
                step()
            self.sequence = before
            self.states.clear()
            raise
        finally:
            changes, self._changes, self._undo = tuple(self._changes), [], []
        return result, changes

    def apply(self, changes: Iterable[Change]) -> None:
        """Apply rows that another ledger wrote, in its order."""
        try:
            for change in changes:
                if change.row is None:
                    self.drop(change.table, change.key)
                else:
                    self.put(change.table, change.key, change.row)
        finally:
            self._changes, self._undo = [], []

    def rows(self) -> Iterator[Change]:
        """Yield every row, so that an empty ledger that applies them equals this one."""
        for name in TABLES:
            table = self._tables[name]
            order = {"turn": self._depth, "message": self._sequence}.get(name)
            keys = list(table) if order is None else sorted(table, key=order)
            yield from (Change(table=name, key=key, row=table[key]) for key in keys)

    def next_sequence(self) -> int:
        """Return the next number in the order of writing."""
        self.sequence += 1
        return self.sequence

    def put(self, table: str, key: str, row: Row) -> None:
        """Write a row, replacing the one with this key. StoreError when UTF-8 cannot write the key."""
        if not key.isascii():
            _check_key(key)
        rows = self._tables[table]
        old = rows.get(key)
        rows[key] = row
        entered = self._enter(table, key, row, old)
        self._changes.append(Change(table=table, key=key, row=row))

        def undo() -> None:
            for walk, value in entered:
                if walk[-1] == value:
                    walk.pop()
                else:
                    walk.remove(value)
            if old is None:
                del rows[key]
            else:
                rows[key] = old

        self._undo.append(undo)

    def drop(self, table: str, key: str) -> None:
        """Remove a row that is part of no walk; an unknown key is no error."""
        rows = self._tables[table]
        old = rows.pop(key, None)
        if old is not None:
            self._changes.append(Change(table=table, key=key, row=None))
            self._undo.append(lambda: rows.__setitem__(key, old))

    def refill(self, table: str, rows: Mapping[str, Row]) -> None:
        """Replace the rows of a table that is part of no walk, in this order; unchanged rows are not written."""
        old = self._tables[table]
        if list(old.items()) == list(rows.items()):
            return
        self._tables[table] = {}
        self._undo.append(lambda: self._tables.__setitem__(table, old))
        shared = _common_start(old, rows)
        self._changes.extend(Change(table=table, key=key, row=None) for key in list(old)[shared:])
        for place, (key, row) in enumerate(rows.items()):
            if place < shared:
                self._tables[table][key] = row
            else:
                self.put(table, key, row)

    def _depth(self, turn_id: str) -> int:
        return self.turns[turn_id].depth

    def _sequence(self, message_id: str) -> int:
        return self.messages[message_id].sequence

    def _enter(self, table: str, key: str, row: Row, old: Row | None) -> list[tuple[list[Any], Any]]:
        """Add a row to the walks that it belongs to, and return each walk with the added value."""
        if isinstance(row, TurnRow):
            return self._enter_turn(key, row, old)
        if isinstance(row, MessageRow):
            self.sequence = max(self.sequence, row.sequence)
            spoken = [self.spoken.setdefault(row.turn_id, [])]
            if row.recalled is not RecallMark.NO:
                spoken.append(self.recalled)
            return [_add(walk, key) for walk in spoken]
        if isinstance(row, EntryRow):
            self.sequence = max(self.sequence, row.sequence)
            return [_add(self.chains.setdefault(row.chain, []), (row.sequence, key))]
        if isinstance(row, EvidenceRow):
            walks = [self.sources.setdefault((row.uri, row.content_hash), [])]
            if row.turn_id is not None:
                walks.append(self.found.setdefault(row.turn_id, []))
            return [_add(walk, key) for walk in walks]
        if isinstance(row, SnapshotRow):
            if row.branch_id == BASE_BRANCH:
                self.states.clear()
            self.states.pop(row.branch_id, None)
            return [] if old is not None else [_sort_in(self.snapshot_depths.setdefault(row.branch_id, []), row.depth)]
        if table == "summary" and old is None:
            turn = self.turns[key]
            return [_sort_in(self.summed.setdefault(turn.branch_id, []), turn.depth)]
        return []

    def _enter_turn(self, key: str, row: TurnRow, old: Row | None) -> list[tuple[list[Any], Any]]:
        copied = (
            [] if row.origin_id is None or old is not None else [_add(self.copies.setdefault(row.origin_id, []), key)]
        )
        was_committed = isinstance(old, TurnRow) and old.status is TurnStatus.COMMITTED
        if row.status is not TurnStatus.COMMITTED or was_committed:
            return copied
        path = self.paths.setdefault(row.branch_id, [])
        missing = row.depth - self.branches[row.branch_id].fork_depth - 1 - len(path)
        if missing < 0:
            raise ValueError(f"turn {key!r} has the depth of another")
        added: list[tuple[list[Any], Any]] = [*copied, *(_add(path, LOST) for _ in range(min(missing, _MOST_LOST)))]
        added.append(_add(path, key))
        if row.ops != NO_OPS:
            self.states.pop(row.branch_id, None)
            added.append(_add(self.changing.setdefault(row.branch_id, []), row.depth))
        return added

    def entries_from(self, chain: Chain, sequence: int) -> Iterator[tuple[int, str, EntryRow]]:
        """Yield number, id and row of the entries of a chain written after `sequence`, in the order of writing."""
        walk = self.chains.get(chain, [])
        for place in range(bisect_left(walk, (sequence + 1, "")), len(walk)):
            number, entry_id = walk[place]
            row = self.entries[entry_id]
            if row.sequence == number:
                yield number, entry_id, row


def _add(walk: list[Any], value: Any) -> tuple[list[Any], Any]:
    walk.append(value)
    return walk, value


def _sort_in(walk: list[Any], value: Any) -> tuple[list[Any], Any]:
    insort(walk, value)
    return walk, value


def _check_key(key: str) -> None:
    try:
        key.encode("utf-8")
    except UnicodeEncodeError:
        raise StoreError(
            f"{key!r} cannot be an id: it contains half a surrogate pair. Nothing was written; choose another."
        ) from None


def _common_start(old: Mapping[str, Row], new: Mapping[str, Row]) -> int:
    """Return the number of equal rows at the start of both."""
    count = 0
    for one, other in zip(old.items(), new.items(), strict=False):
        if one != other:
            break
        count += 1
    return count

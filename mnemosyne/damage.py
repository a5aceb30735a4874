"""Reports stored records that cannot be read, so that everything that does not need them keeps working.

A read skips a damaged record and adds a note to the store's `DamageLog`, so that the caller can report the missing record. A
damaged part of a turn becomes a `LostTree`: only reading this part raises an error, which names the part.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, NoReturn

from mnemosyne.core.errors import DamagedRecordError
from mnemosyne.schema.memory import EMPTY
from mnemosyne.schema.record import TurnRecord
from mnemosyne.values import dataclass

_MOST_NOTES = 1_000
LEFT_OUT = "It was left out"


@dataclass(frozen=True, kw_only=True, slots=True)
class DamageNote:
    """Note on a damaged record that a read skipped."""

    scope: str
    """`session:ID` or `world:ID`, or '' if the record belongs to neither."""
    what: str
    """Name of the record."""
    reason: str
    """Fault of the record."""
    path: str = ""
    """Address of the store."""
    effect: str = LEFT_OUT
    """Sentence (without a full stop) on the consequence: what the reader did because the record was missing."""

    @property
    def sentence(self) -> str:
        """Return the note as sentences for a person."""
        place = f" in {self.path}" if self.path else ""
        return (
            f"{self.what}{place} is damaged: {self.reason.strip().rstrip('.')}. {self.effect}; `jacquard operate check` names all "
            "damage, a backup brings it back."
        )


class DamageLog:
    """Newest notes of one open store, each of them once. Several threads may use it."""

    def __init__(self) -> None:
        self._notes: OrderedDict[tuple[str, str], tuple[int, DamageNote]] = OrderedDict()
        self._lock = threading.Lock()
        self._count = 0

    def add(self, note: DamageNote) -> None:
        """Add a note on a damaged record. A note on a record that has one already becomes the newest."""
        key = (note.scope, note.what)
        with self._lock:
            self._count += 1
            self._notes[key] = (self._count, note)
            self._notes.move_to_end(key)
            if len(self._notes) > _MOST_NOTES:
                self._notes.popitem(last=False)

    def mark(self) -> int:
        """Return a number to pass to `since`, which then returns only the notes that came after this call."""
        return self._count

    def since(self, mark: int = 0, scopes: Collection[str] | None = None) -> tuple[DamageNote, ...]:
        """Return the notes that came after `mark` (a result of `mark()`), oldest first. If `scopes` is not None, return only notes
        on records of these scopes (sessions or worlds).
        """
        with self._lock:
            kept = [note for number, note in self._notes.values() if number > mark]
        return tuple(note for note in kept if scopes is None or note.scope in scopes)


class LostTree(Mapping[str, Any]):
    """A damaged part of a turn's record. Every read of this part raises DamagedRecordError, which names the part."""

    __slots__ = ("error",)

    def __init__(self, error: DamagedRecordError) -> None:
        self.error = error

    def _fail(self) -> NoReturn:
        raise DamagedRecordError(self.error.path, self.error.what, self.error.reason)

    def __getitem__(self, key: str) -> Any:
        self._fail()

    def __iter__(self) -> Iterator[str]:
        self._fail()

    def __len__(self) -> int:
        self._fail()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"LostTree({self.error.what})"


def note_of(error: DamagedRecordError, scope: str, effect: str = LEFT_OUT) -> DamageNote:
    """Return the note on the record that the caught `error` names."""
    return DamageNote(scope=scope, what=error.what, reason=error.reason, path=error.path, effect=effect)


def without_lost(record: TurnRecord) -> TurnRecord:
    """Return the record of a turn with its damaged parts replaced by None, for readers that can continue without them."""
    return replace(
        record,
        plan=unless_lost(record.plan),
        receipt=unless_lost(record.receipt),
        prompt=unless_lost(record.prompt),
        report=unless_lost(record.report),
        anchors=unless_lost(record.anchors) or EMPTY,
    )


def has_lost(record: TurnRecord) -> bool:
    """Return whether a part of the turn's record is damaged."""
    return any(
        isinstance(part, LostTree)
        for part in (record.plan, record.receipt, record.prompt, record.report, record.anchors)
    )


def unless_lost(tree: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return `tree`, a part of a turn's record. Return None if the part is None or damaged."""
    return None if isinstance(tree, LostTree) else tree

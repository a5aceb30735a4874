"""Checks a part of a world pack against its shape (its expected form), and collects all faults before an error is raised."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mnemosyne.core.errors import WorldPackError
from mnemosyne.core.faults import Fault, FaultList, Severity, SourceLocation
from mnemosyne.shapes import BROKEN, Reading, Shape
from mnemosyne.values import dataclass

MAX_FAULTS = 200


@dataclass(kw_only=True, slots=True)
class PackFaults(FaultList):
    """Collects all faults or doubts about a pack. Call `close` at the end: it raises WorldPackError if there are any.

    If `last` is not 0, `add` raises WorldPackError already when `last` faults were added.
    """

    last: int = 0

    def add(
        self, place: SourceLocation, what: str, *, code: str = "value", severity: Severity = Severity.ERROR
    ) -> None:
        """Add a fault at `place`. Raises WorldPackError if the number of faults reaches `last`."""
        super(PackFaults, self).add(place, what, code=code, severity=severity)
        if len(self) == self.last:
            raise WorldPackError((*self.sentences(), "… and perhaps more; correct these first"))

    def close(self) -> None:
        """Raise WorldPackError if there are faults. The error has all of them, sorted by file and line."""
        if len(self):
            raise WorldPackError(self.sentences())

    def sentences(self) -> tuple[str, ...]:
        """Return one sentence for each fault, sorted by file and line, with `world.yaml` first.

        After the first MAX_FAULTS, one more sentence has the number of the others.
        """
        said = [str(each) for each in sorted(self.found, key=_order)]
        if len(said) > MAX_FAULTS:
            said[MAX_FAULTS:] = [f"… and {len(said) - MAX_FAULTS} more faults; correct these first"]
        return tuple(said)


def check(shape: Shape, value: Any, place: SourceLocation, faults: FaultList) -> Any:
    """Check `value` by `shape`, and return it with defaults filled in and conditions parsed.

    Faults are added to `faults`; `place` is the location of `value`. An invalid field of a record (a mapping with known keys)
    is left out. An invalid item of a list is replaced by the mark BROKEN (see `iterate_sound`). If `value` itself has the
    wrong type, the result is BROKEN.
    """
    return shape.read(value, place.path, Reading(faults=faults, root=place))


def iterate_sound(items: Any, place: SourceLocation) -> Iterator[tuple[SourceLocation, Any]]:
    """Yield (place, item) for each item of `items` that is not BROKEN. `items` is a result of `check`, and `place` its location.

    If `items` is BROKEN, nothing is yielded.
    """
    if isinstance(items, list):
        yield from ((place.at(index), item) for index, item in enumerate(items) if item is not BROKEN)


def _order(fault: Fault) -> tuple[bool, str, int]:
    return fault.file != "world.yaml", fault.file, fault.line

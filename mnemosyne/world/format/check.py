"""Checks a part of a pack against its shape, and collects the faults of the whole pack before anything is raised."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mnemosyne.core.errors import WorldPackError
from mnemosyne.core.faults import Fault, FaultList, Severity, SourceLocation
from mnemosyne.shapes import BROKEN, Reading, Shape

MAX_FAULTS = 200


@dataclass(kw_only=True, slots=True)
class PackFaults(FaultList):
    """All faults or doubts of a pack; `close` raises if there are any. `last`: `add` raises at so many (0: never)."""

    last: int = 0

    def add(
        self, place: SourceLocation, what: str, *, code: str = "value", severity: Severity = Severity.ERROR
    ) -> None:
        """Add a fault at `place`. WorldPackError at `last` faults."""
        super(PackFaults, self).add(place, what, code=code, severity=severity)
        if len(self) == self.last:
            raise WorldPackError((*self.sentences(), "… and perhaps more; correct these first"))

    def close(self) -> None:
        """Raise WorldPackError with all faults, by file and line, if there is any."""
        if len(self):
            raise WorldPackError(self.sentences())

    def sentences(self) -> tuple[str, ...]:
        """Return one sentence for each, by file and line, `world.yaml` first."""
        said = [str(each) for each in sorted(self.found, key=_order)]
        if len(said) > MAX_FAULTS:
            said[MAX_FAULTS:] = [f"… and {len(said) - MAX_FAULTS} more faults; correct these first"]
        return tuple(said)


def check(shape: Shape, value: Any, place: SourceLocation, faults: FaultList) -> Any:
    """Return `value` with defaults filled in and conditions parsed, or BROKEN after recording why.

    A record is returned without its broken parts, a list with BROKEN in their place (see `iterate_sound`); only a value
    of the wrong kind is BROKEN itself.
    """
    return shape.read(value, place.path, Reading(faults=faults, root=place))


def iterate_sound(items: Any, place: SourceLocation) -> Iterator[tuple[SourceLocation, Any]]:
    """Yield the members of a checked list that are not BROKEN, each with its place; nothing if the list itself is
    BROKEN.
    """
    if isinstance(items, list):
        yield from ((place.at(index), item) for index, item in enumerate(items) if item is not BROKEN)


def _order(fault: Fault) -> tuple[bool, str, int]:
    return fault.file != "world.yaml", fault.file, fault.line

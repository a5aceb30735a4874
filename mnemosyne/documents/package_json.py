"""Converts context packages 0.1 to JSON and back. Unknown fields are ignored, and listed for the caller."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mnemosyne.core.faults import Fault, Severity, child
from mnemosyne.core.plain_values import plain_faults
from mnemosyne.documents.shapes import json_kind_name, open_reading, raise_errors, read_object, write_object
from mnemosyne.schema.package import MODES, PACKAGE_VERSION, SOURCES, ContextPackage
from mnemosyne.shapes import Reading

_SESSION_ONLY = frozenset({"schema_version", "session", "evidences", "context_blocks"})
_PACKAGE_ONLY = frozenset(
    {
        "context_id",
        "system_blocks",
        "developer_blocks",
        "working_summary",
        "recent_turns",
        "user_message",
        "constraints",
    }
)
_READABLE = re.compile(r"0\.[0-9]+")


def package_to_json(package: ContextPackage) -> dict[str, Any]:
    """Return the package as a JSON object with every top-level field."""
    return write_object(package, whole=True)


def package_from_json(data: Mapping[str, Any]) -> tuple[ContextPackage, tuple[str, ...]]:
    """Return (package, ignored). `ignored` has a line for every ignored field and every warning: `evidence[0].colour: is
    not known, ignored`.

    The lines are also added to `debug.ignored` of the package. Raises SchemaValidationError with every error. A version
    other than 0.x is an error, because its fields may have another meaning.
    """
    reading = open_reading()
    made = _read_package(data, reading)
    raise_errors(reading.faults.found)
    ignored = (
        *(f"{path}: is not known, ignored" for path in reading.ignored),
        *(str(fault) for fault in reading.faults.found),
        *(_list_unusual(made) if isinstance(made, ContextPackage) else ()),
    )
    return _with_ignored(made, ignored), ignored


def package_faults(data: Any) -> tuple[Fault, ...]:
    """Return all faults of a package's JSON, errors and warnings.

    Unknown fields, and values that are not in the published lists, are warnings.
    """
    reading = open_reading()
    made = _read_package(data, reading)
    faults = reading.faults.found
    ignored = [
        Fault(path=path, what="is not known, ignored", code="unknown", severity=Severity.WARNING)
        for path in reading.ignored
    ]
    if any(fault.severity is Severity.ERROR for fault in faults) or not isinstance(made, ContextPackage):
        return (*faults, *ignored)
    unusual = [
        Fault(path=path, what=what, code="unusual", severity=Severity.WARNING)
        for path, what in (line.split(": ", 1) for line in _list_unusual(made))
    ]
    return (*faults, *ignored, *unusual)


def is_package(data: Any) -> bool:
    """Return whether a JSON value is probably a context package and not a session document. The names of its fields decide."""
    return isinstance(data, Mapping) and not _SESSION_ONLY & set(data) and bool(_PACKAGE_ONLY & set(data))


def _read_package(data: Any, reading: Reading) -> Any:
    if not isinstance(data, Mapping):
        return reading.refuse((), f"The package is {json_kind_name(data)}, not an object.", "kind")
    raw = data if isinstance(data, dict) else dict(data)
    for path, what in plain_faults(raw, any_text=True):
        reading.refuse(path, what, "plain")
    if len(reading.faults):
        return None
    version = raw.get("version")
    if isinstance(version, str) and _READABLE.fullmatch(version) is None:
        reading.refuse(("version",), f"{version!r} cannot be read here; this reads {PACKAGE_VERSION}", "version")
    made = read_object(ContextPackage, raw, reading)
    if isinstance(version, str) and version != PACKAGE_VERSION and isinstance(made, ContextPackage):
        reading.warn(("version",), f"{version!r} is read as {PACKAGE_VERSION}: what it added is ignored", "version")
        return replace(made, version=PACKAGE_VERSION)
    return made


def _list_unusual(package: ContextPackage) -> tuple[str, ...]:
    lines = [] if package.context_id else ["context_id: is missing; this package cannot be distinguished from others"]
    for place, item in enumerate(package.evidence):
        where = child("evidence", place)
        for name, value, known in (("source", item.source, SOURCES), ("mode", item.mode, MODES)):
            if value not in known:
                lines.append(f"{where}.{name}: {value!r} is none of {', '.join(known)}; kept as it is")
    return tuple(lines)


def _with_ignored(package: ContextPackage, ignored: tuple[str, ...]) -> ContextPackage:
    if not ignored:
        return package
    listed = package.debug.get("ignored", [])
    before = list(listed) if isinstance(listed, list | tuple) else [listed]
    new = [line for line in ignored if line not in before]
    return replace(package, debug={**package.debug, "ignored": [*before, *new]})

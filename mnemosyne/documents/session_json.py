"""Converts the session document 1.0 to JSON and back.

Nothing is lost in either direction. Unknown fields at every level, and unusual spellings of values (see `documents.shapes`),
are kept in `extra`. A document with errors is refused, and all its errors are reported together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mnemosyne.core.errors import MigrationError
from mnemosyne.core.faults import Fault, Severity
from mnemosyne.core.plain_values import plain_faults
from mnemosyne.documents.check import invariant_faults
from mnemosyne.documents.shapes import (
    json_kind_name,
    open_reading,
    raise_errors,
    read_object,
    shown_path,
    write_object,
)
from mnemosyne.schema.document import SCHEMA_VERSION, SessionDocument
from mnemosyne.values import dataclass


def document_to_json(doc: SessionDocument) -> dict[str, Any]:
    """Return the document as a JSON object that shares no mutable part with the document.

    Required fields are always written. Any other field is left out if it has its default, unless the loaded document
    contained it.
    """
    return write_object(doc)


def document_from_json(data: Mapping[str, Any]) -> SessionDocument:
    """Return the document of a JSON object. Raises SchemaValidationError with all errors, each as `path: fault`."""
    doc, faults = read_document(data)
    raise_errors(faults)
    assert doc is not None
    return doc


def document_faults(data: Any) -> tuple[Fault, ...]:
    """Return all faults of a document's JSON, errors and warnings, in the order of the document."""
    return read_document(data)[1]


def read_document(data: Any) -> tuple[SessionDocument | None, tuple[Fault, ...]]:
    """Return (document, faults). The document is None if a fault is an error."""
    if not isinstance(data, Mapping):
        return None, (Fault(path="", what=f"The document is {json_kind_name(data)}, not an object.", code="kind"),)
    raw = data if isinstance(data, dict) else dict(data)
    unfit = tuple(
        Fault(path=shown_path(path), what=what, code="plain") for path, what in plain_faults(raw, any_text=True)
    )
    if unfit:
        return None, unfit
    reading = open_reading()
    doc = read_object(SessionDocument, raw, reading)
    faults = (*_version_faults(raw), *reading.faults.found, *invariant_faults(raw))
    broken = any(fault.severity is Severity.ERROR for fault in faults)
    return (None if broken else doc), faults


def _version_faults(raw: Mapping[str, Any]) -> tuple[Fault, ...]:
    version = raw.get("schema_version", SCHEMA_VERSION)
    if version == SCHEMA_VERSION or not isinstance(version, str):
        return ()
    advice = f"only documents of {SCHEMA_VERSION!r} can be read"
    if _is_newer(version):
        advice = "a newer release wrote it; use that one, or export the session again from it"
    what = f"{version!r} is not {SCHEMA_VERSION!r}; {advice}"
    return (Fault(path="schema_version", what=what, code="version"),)


def _is_newer(version: str) -> bool:
    try:
        return [int(part) for part in version.split(".")] > [int(part) for part in SCHEMA_VERSION.split(".")]
    except ValueError:
        return False


@dataclass(frozen=True, kw_only=True, slots=True)
class MigrateResult:
    """A document in the present version, and what was changed for it."""

    doc: SessionDocument
    from_version: str
    to_version: str
    changes: tuple[str, ...] = ()


class Migrator:
    """Brings session documents of other versions to the present one. There is one version so far, so nothing changes."""

    def current_version(self) -> str:
        """Return the version of documents that are written."""
        return SCHEMA_VERSION

    def can_migrate(self, from_version: str) -> bool:
        """Return whether documents of a version can be read."""
        return from_version == SCHEMA_VERSION

    def migrate(self, doc: Mapping[str, Any], from_version: str) -> MigrateResult:
        """Return the document `doc`, which has the version `from_version`, in the present version.

        Raises MigrationError if the version cannot be read, and SchemaValidationError with every fault of the document.
        """
        if not self.can_migrate(from_version):
            raise MigrationError(from_version, SCHEMA_VERSION, f"only documents of {SCHEMA_VERSION} can be read")
        return MigrateResult(doc=document_from_json(dict(doc)), from_version=from_version, to_version=SCHEMA_VERSION)

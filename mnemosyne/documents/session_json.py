"""The session document 1.0 as JSON and back, with the names of its JSON Schema.

Nothing is lost in either direction: unknown fields of every level are kept in `extra`, and so is a spelling that is not
canonical (see `documents.shapes`). A document with an error is refused, with all its errors at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def document_to_json(doc: SessionDocument) -> dict[str, Any]:
    """Return the document as a JSON object that shares nothing with it.

    The required fields are always written; any other field is left out where it has its
    default, unless the document that was loaded contained it.
    """
    return write_object(doc)


def document_from_json(data: Mapping[str, Any]) -> SessionDocument:
    """Return the document of a JSON object; SchemaValidationError with all errors, each as `path: fault`."""
    doc, faults = read_document(data)
    raise_errors(faults)
    assert doc is not None
    return doc


def document_faults(data: Any) -> tuple[Fault, ...]:
    """Return all faults of a document, errors and warnings, in the order of reading."""
    return read_document(data)[1]


def read_document(data: Any) -> tuple[SessionDocument | None, tuple[Fault, ...]]:
    """Return the document (None when it has an error) with all its faults."""
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

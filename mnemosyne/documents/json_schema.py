"""Generates the published JSON Schemas (2020-12) of the session document and the context package.

The schemas are made from the tables by which documents are read. `python -m mnemosyne.documents.json_schema DOCS/schema` writes
them. Unknown fields are allowed everywhere. The value of a choice may also list several words (`success|error`); the reader
accepts such a value with a warning.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mnemosyne.documents.shapes import record_of
from mnemosyne.files import write_file
from mnemosyne.schema.document import SCHEMA_VERSION, SessionDocument
from mnemosyne.schema.package import PACKAGE_VERSION, ContextPackage
from mnemosyne.shapes import schema_document

SESSION_FILE = f"session-{SCHEMA_VERSION}.json"
PACKAGE_FILE = f"context-package-{PACKAGE_VERSION}.json"
PACKAGE_VERSIONS = r"^0\.[0-9]+$"
"""Versions of a package that can be read. Within a major version, fields are only added."""


def session_schema() -> dict[str, Any]:
    """Return the JSON Schema of the session document."""
    return _schema_of(
        SessionDocument, f"urn:jacquard:session:{SCHEMA_VERSION}", {"schema_version": {"const": SCHEMA_VERSION}}
    )


def package_schema() -> dict[str, Any]:
    """Return the JSON Schema of the context package."""
    return _schema_of(
        ContextPackage,
        f"urn:jacquard:context-package:{PACKAGE_VERSION}",
        {"version": {"type": "string", "pattern": PACKAGE_VERSIONS, "default": PACKAGE_VERSION}},
    )


def publish(folder: Path) -> None:
    """Write both schemas into a folder. Raises OSError if they cannot be written."""
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / SESSION_FILE, schema_document(session_schema()))
    write_file(folder / PACKAGE_FILE, schema_document(package_schema()))


def _schema_of(cls: type, name: str, instead: dict[str, dict[str, Any]]) -> dict[str, Any]:
    defs: dict[str, Any] = {}
    root = record_of(cls).object_schema(defs)
    root["properties"].update(instead)
    return {"$id": name, "title": cls.__name__, **root, "$defs": dict(sorted(defs.items()))}


if __name__ == "__main__":
    publish(Path(sys.argv[1]))

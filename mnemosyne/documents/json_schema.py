"""The published JSON Schemas (2020-12), generated from the tables by which documents are read.

`python -m mnemosyne.documents.json_schema DOCS/schema` writes them. Objects are open: unknown fields are not faults. A
word of a choice may also be a list of alternatives (`success|error`); the reader warns
about them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from mnemosyne.documents.read import write_value
from mnemosyne.documents.shapes import FieldShape, Form, Kind, choices, shape_of
from mnemosyne.files import write_file
from mnemosyne.schema.document import SCHEMA_VERSION, SessionDocument
from mnemosyne.schema.package import PACKAGE_VERSION, ContextPackage

DIALECT = "https://json-schema.org/draft/2020-12/schema"
SESSION_FILE = f"session-{SCHEMA_VERSION}.json"
PACKAGE_FILE = f"context-package-{PACKAGE_VERSION}.json"
PACKAGE_VERSIONS = r"^0\.[0-9]+$"
"""Versions of a package that can be read: within a major version fields are only added."""

_TYPES = {
    Form.TEXT: "string",
    Form.TIME: "string",
    Form.CHOICE: "string",
    Form.WHOLE: "integer",
    Form.NUMBER: "number",
    Form.FLAG: "boolean",
    Form.MANY: "array",
    Form.KEYED: "object",
}
_DERIVED = frozenset({"trust"})


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


def schema_text(schema: dict[str, Any]) -> str:
    """Return a schema as published text."""
    return json.dumps(schema, ensure_ascii=False, indent=2) + "\n"


def publish(folder: Path) -> None:
    """Write both schemas into a folder; OSError when it cannot be written."""
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / SESSION_FILE, schema_text(session_schema()))
    write_file(folder / PACKAGE_FILE, schema_text(package_schema()))


def _schema_of(cls: type, name: str, instead: dict[str, dict[str, Any]]) -> dict[str, Any]:
    defs: dict[str, Any] = {}
    root = _object_schema(cls, defs)
    root["properties"].update(instead)
    return {"$schema": DIALECT, "$id": name, "title": cls.__name__, **root, "$defs": dict(sorted(defs.items()))}


def _object_schema(cls: type, defs: dict[str, Any]) -> dict[str, Any]:
    shape = shape_of(cls)
    made: dict[str, Any] = {
        "description": " ".join((cls.__doc__ or "").split("\n\n")[0].split()),
        "type": "object",
        "properties": {each.json: _field_schema(each, defs) for each in shape.fields},
    }
    if required := [each.json for each in shape.fields if each.required]:
        made["required"] = required
    return made


def _field_schema(each: FieldShape, defs: dict[str, Any]) -> dict[str, Any]:
    made = _kind_schema(each.kind, defs)
    if each.required or each.default is None or each.name in _DERIVED or each.kind.form is Form.OBJECT:
        return made
    return {**made, "default": write_value(each.kind, each.default)}


def _kind_schema(kind: Kind, defs: dict[str, Any]) -> dict[str, Any]:
    if kind.form is Form.OBJECT:
        name = kind.of.__name__
        if name not in defs:
            defs[name] = {}
            defs[name] = _object_schema(kind.of, defs)
        link = {"$ref": f"#/$defs/{name}"}
        return {"anyOf": [link, {"type": "null"}]} if kind.nullable else link
    if kind.form is Form.TREE:
        return {}
    made: dict[str, Any] = {"type": [_TYPES[kind.form], "null"] if kind.nullable else _TYPES[kind.form]}
    if kind.form is Form.CHOICE:
        made["anyOf"] = _word_schema(kind)
    elif kind.form is Form.TIME:
        made["format"] = "date-time"
    elif kind.form is Form.MANY and kind.item is not None:
        made["items"] = _kind_schema(kind.item, defs)
    elif kind.form is Form.KEYED and kind.item is not None and kind.item.form is not Form.TREE:
        made["additionalProperties"] = _kind_schema(kind.item, defs)
    if kind.minimum is not None:
        made["minimum"] = kind.minimum
    if kind.maximum is not None:
        made["maximum"] = kind.maximum
    if kind.filled:
        made["minItems" if kind.form is Form.MANY else "minLength"] = 1
    return made


def _word_schema(kind: Kind) -> list[dict[str, Any]]:
    words = choices(kind)
    one = f"(?:{'|'.join(words)})"
    made: list[dict[str, Any]] = [{"enum": list(words)}]
    if kind.aliases:
        made.append({"enum": list(kind.aliases), "description": "Words of other frameworks, read as one of these."})
    made.append({"pattern": rf"^{one}(?:\|{one})+$", "description": "Alternatives, not yet chosen."})
    if kind.nullable:
        made.append({"type": "null"})
    return made


if __name__ == "__main__":
    publish(Path(sys.argv[1]))

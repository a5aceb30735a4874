"""Publishes the pack format: JSON Schema and Markdown tables, both generated from the tables by which packs are
checked.

`python -m mnemosyne.world.publish DOCS` writes `world-pack.schema.json` and the tables of `world-packs.md`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mnemosyne.files import write_file
from mnemosyne.world.format.fields import (
    ACTIONS_FILE,
    HISTORY,
    INJECTIONS_FILE,
    LORE,
    LORE_FILE,
    PLANNER,
    QUESTS_FILE,
    WORLD,
)
from mnemosyne.world.format.shapes import (
    Anything,
    Choice,
    Described,
    Field,
    Flag,
    Many,
    Number,
    OpList,
    Record,
    Shape,
    ShortCondition,
    Text,
    Tree,
)

SCHEMA_FILE = "world-pack.schema.json"
PAGE_FILE = "world-packs.md"
FILES: dict[str, Shape] = {
    "world": WORLD,
    "lore": LORE_FILE,
    "lore_entry": LORE,
    "quests": QUESTS_FILE,
    "actions": ACTIONS_FILE,
    "planner": PLANNER,
    "injections": INJECTIONS_FILE,
    "history": HISTORY,
}
_SCALARS = ["string", "number", "boolean", "null"]


def schema_text() -> str:
    """Return the published JSON Schema of all pack files; each file is one of its `$defs`."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "World pack",
        "description": (
            "The files of a world pack. Point an editor at one of the $defs: world for world.yaml, lore for a list in lore/, "
            "lore_entry for a single entry, quests, actions, planner, injections, history."
        ),
        "$defs": {name: schema_of(shape) for name, shape in FILES.items()},
    }
    return json.dumps(schema, ensure_ascii=False, indent=2) + "\n"


def schema_of(shape: Shape) -> dict[str, Any]:
    """Return the JSON Schema of one shape."""
    match shape:
        case Text():
            return _text_schema(shape)
        case Number():
            bounds = {"minimum": shape.low, "maximum": shape.high}
            kept = {key: bound for key, bound in bounds.items() if bound is not None}
            return {"type": "integer" if shape.whole else "number", **kept}
        case Flag():
            return {"type": "boolean"}
        case Choice():
            return {"type": "string", "enum": list(shape.words)}
        case Anything():
            return {}
        case Described():
            pair = {
                "type": "array",
                "prefixItems": [{"type": _SCALARS}, {"type": "string"}],
                "minItems": 2,
                "maxItems": 2,
            }
            return {"anyOf": [{"type": _SCALARS}, pair]}
        case Tree():
            return {"type": "object"}
        case Many():
            least = {"minItems": shape.least} if shape.least else {}
            return {"type": "array", "items": schema_of(shape.item), **least}
        case Record():
            return _record_schema(shape)
        case ShortCondition():
            record = schema_of(shape.record)
            return {"anyOf": [{"type": "string", "minLength": 3}, record]} if shape.short else record
        case OpList():
            return {"anyOf": [_op_schema(shape, with_value=True), _op_schema(shape, with_value=False)]}


def tables() -> dict[str, str]:
    """Return the Markdown table of every record of the format, by the record's name."""
    return {record.name: _table(record) for shape in FILES.values() for record in _records(shape)}


def page_with_tables(page: str) -> str:
    """Return the authors' page with the tables between its `<!-- table: name -->` and `<!-- end -->` lines regenerated."""
    made = tables()

    def renew(found: re.Match[str]) -> str:
        return f"<!-- table: {found[1]} -->\n{made[found[1]]}<!-- end -->"

    return re.sub(r"<!-- table: (\w+) -->\n.*?<!-- end -->", renew, page, flags=re.DOTALL)


def publish(docs: Path) -> None:
    """Write the schema into the folder `docs` and regenerate the tables of the authors' page there; OSError when they
    cannot be written.
    """
    write_file(docs / SCHEMA_FILE, schema_text())
    page = docs / PAGE_FILE
    write_file(page, page_with_tables(page.read_text(encoding="utf-8")))


def _text_schema(shape: Text) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "maxLength": shape.max_chars}
    if shape.pattern:
        schema["pattern"] = f"^{shape.pattern}$"
    elif not shape.blank:
        schema["pattern"] = r"\S"
    return schema


def _record_schema(shape: Record) -> dict[str, Any]:
    required = [field.name for field in shape.fields if field.required]
    return {
        "type": "object",
        "properties": {field.name: _field_schema(field) for field in shape.fields},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def _field_schema(field: Field) -> dict[str, Any]:
    schema = schema_of(field.shape)
    if not field.required:
        schema = _or_null(schema)
    default = [] if field.fallback == () else field.fallback
    return {**schema, "description": field.doc, **({"default": default} if default is not None else {})}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that also allows null, because an optional key that is left empty counts as absent."""
    if "anyOf" in schema:
        return {"anyOf": [*schema["anyOf"], {"type": "null"}]}
    kinds = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, "type": [schema["type"], "null"], **kinds} if "type" in schema else schema


def _op_schema(shape: OpList, *, with_value: bool) -> dict[str, Any]:
    verbs = [verb for verb in shape.verbs if (verb not in shape.bare if with_value else verb in shape.short)]
    items: list[dict[str, Any]] = [{"enum": verbs}, {"type": "string", "pattern": r"\S"}, *([{}] if with_value else [])]
    return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}


def _records(shape: Shape) -> Iterator[Record]:
    match shape:
        case Record():
            yield shape
            for field in shape.fields:
                yield from _records(field.shape)
        case Many():
            yield from _records(shape.item)
        case ShortCondition():
            yield shape.record
        case _:
            return


def _table(record: Record) -> str:
    rows = ["| key | what | default | meaning |", "| --- | --- | --- | --- |"]
    rows += [
        f"| `{field.name}` | {_kind(field.shape)} | {_default(field)} | {field.doc} |".replace("||", "\\|\\|")
        for field in record.fields
    ]
    return "\n".join(rows) + "\n"


def _default(field: Field) -> str:
    if field.required:
        return "**needed**"
    if field.fallback is None or field.fallback in ((), {}, ""):
        return "none"
    return f"`{json.dumps(field.fallback)}`"


def _kind(shape: Shape) -> str:
    match shape:
        case Text():
            return "text"
        case Number():
            name = "whole number" if shape.whole else "number"
            if shape.high is not None:
                return f"{name} {shape.low:g}..{shape.high:g}"
            return name if shape.low is None else f"{name} from {shape.low:g}"
        case Flag():
            return "true or false"
        case Choice():
            return ", ".join(f"`{word}`" for word in shape.words)
        case Anything():
            return "any value"
        case Described():
            return "value or `[value, description]`"
        case Tree():
            return "mapping"
        case Many():
            return f"list of {_kind(shape.item)}"
        case Record():
            return shape.name.replace("_", " ")
        case ShortCondition():
            return shape.record.name
        case OpList():
            return "op"


if __name__ == "__main__":
    publish(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))

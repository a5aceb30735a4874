"""The one engine of schemas: tables of fields for packs, documents and settings, and what is made of them.

A table is a `Record` of `Field`s, written by hand or derived from a dataclass (`TypeTables`). Its `read` checks a tree and reports
every fault with file, line, key and the nearest known name; `schema`, `describe` and `control` make its JSON Schema, its reference
page and its form.
"""

from mnemosyne.shapes.faults import (
    NO_LINES,
    Fault,
    FaultList,
    Severity,
    SourceLocation,
    Wording,
    child,
    did_you_mean,
    kind_name,
)
from mnemosyne.shapes.of_types import Rules, TypeTables
from mnemosyne.shapes.shapes import (
    BROKEN,
    Anything,
    Broken,
    Choice,
    Definitions,
    Field,
    Flag,
    KeyedValues,
    Many,
    Number,
    Reading,
    Record,
    Shape,
    Text,
    Trouble,
    format_table,
    iterate_records,
    schema_document,
    to_json,
)

__all__ = [
    "BROKEN",
    "NO_LINES",
    "Anything",
    "Broken",
    "Choice",
    "Definitions",
    "Fault",
    "FaultList",
    "Field",
    "Flag",
    "KeyedValues",
    "Many",
    "Number",
    "Reading",
    "Record",
    "Rules",
    "Severity",
    "Shape",
    "SourceLocation",
    "Text",
    "Trouble",
    "TypeTables",
    "Wording",
    "child",
    "did_you_mean",
    "format_table",
    "iterate_records",
    "kind_name",
    "schema_document",
    "to_json",
]

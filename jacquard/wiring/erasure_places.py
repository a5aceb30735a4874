"""The one list of all places where words of users can lie, and what an erasure does with each.

    python -m jacquard.wiring.erasure_places docs        # writes docs/erasure_places.md

It is made from the tables of the stores, the types of what is kept in them, and the places beside the store that a runtime
opens. A test compares it with the tables as they are created, and with the published page: a new table, column or field changes
the page, and is looked at before it is published.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

from mnemosyne.files import write_file
from mnemosyne.privacy.places import CONTENTS, OF_NO_SESSION, WORD_KEYS, Treatment, treatments, types_in
from mnemosyne.stores.ledger.rows import BODY_OF, CONTENT_OF, KEPT_TABLES, OF_WORLDS, ROW_TYPES, TABLES
from mnemosyne.stores.sql.schema import OF_A_WORLD, PART, TEXT_TABLES

PAGE = "erasure_places.md"
_BESIDE = (
    ("index: every table of a session's scope, its old versions and what is staged", Treatment.REBUILT),
    ("PostgreSQL: vectors of the erased entries (`vectors`)", Treatment.WHOLE),
    ("PostgreSQL: the rows of a session's index that hosts share (`index_segments`)", Treatment.REBUILT),
    ("originals (`dual_store`): those of an erased session or evidence", Treatment.WHOLE),
    ("originals (`dual_store`): all others of the session", Treatment.SCRUBBED),
    (
        "caches of the process: tokens, features, fingerprints, vectors, values of stored bodies, evidence and states, "
        "prepared turns, rendered sections",
        Treatment.CLEARED,
    ),
    (
        "published snapshots of the indexes of worlds, and the copies that hosts have fetched: lore alone",
        Treatment.AUTHORED,
    ),
    ("SQLite: free pages and write-ahead log", Treatment.REBUILT),
    ("file store: journals, with all earlier lines", Treatment.REBUILT),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A place (`sql: table.column`, `ledger: table.field`, `Type.field`, …) and what an erasure does with it in what stays."""

    name: str
    treatment: Treatment
    holds: str = ""


def list_places() -> tuple[Place, ...]:
    """Return all places: columns of the SQL stores, fields of the ledgers, fields of what is kept in them, and the rest."""
    return (*_sql_places(), *_ledger_places(), *_value_places(), *(Place(name=n, treatment=t) for n, t in _BESIDE))


def _sql_places() -> Iterator[Place]:
    for table in TEXT_TABLES:
        authored = table is OF_A_WORLD or table.table == "worlds"
        for column in table.words:
            kept = Treatment.AUTHORED if authored else Treatment.KEPT
            yield Place(name=f"sql: {table.table}.{column}", treatment=kept)
        for column, content in table.bodies.items():
            yield _body(f"sql: {table.table}.{column}", content)


def _ledger_places() -> Iterator[Place]:
    for table in TABLES:
        content = CONTENT_OF.get(table)
        if table in ROW_TYPES:
            for name in (each.name for each in fields(ROW_TYPES[table])):
                if content is not None and name == BODY_OF[table]:
                    yield _body(f"ledger: {table}.{name}", content)
                else:
                    yield Place(name=f"ledger: {table}.{name}", treatment=Treatment.KEPT)
        elif content is not None:
            yield _body(f"ledger: {table}", content)
        elif table in OF_WORLDS:
            yield Place(name=f"ledger: {table}", treatment=Treatment.AUTHORED)
        elif table not in KEPT_TABLES:
            raise LookupError(
                f"There is no treatment for the table {table!r} of ledgers; name its content in CONTENT_OF."
            )


def _body(name: str, content: str) -> Place:
    if content == PART:
        return Place(name=name, treatment=Treatment.PARTS, holds="block, task, tool_call, model_usage")
    if content in OF_NO_SESSION:
        return Place(name=name, treatment=OF_NO_SESSION[content][0], holds=content)
    kind = CONTENTS[content].kind
    if kind is not None:
        return Place(name=name, treatment=Treatment.PARTS, holds=kind.__name__)
    words = (
        f"{content}; below {', '.join(sorted(WORD_KEYS))}: {Treatment.WORDS}"
        if CONTENTS[content].word_keys
        else content
    )
    return Place(name=name, treatment=Treatment.SCRUBBED, holds=words)


def _value_places() -> Iterator[Place]:
    seen: dict[Any, None] = {}
    waiting: list[Any] = [each.kind for each in CONTENTS.values() if each.kind is not None]
    while waiting:
        kind = waiting.pop(0)
        if kind in seen:
            continue
        seen[kind] = None
        for name, treatment in treatments(kind).items():
            yield Place(name=f"{kind.__name__}.{name}", treatment=treatment)
        hints = get_type_hints(kind)
        waiting += [
            each for hint in hints.values() for each in types_in(hint) if isinstance(each, type) and is_dataclass(each)
        ]


def render_page() -> str:
    """Return the published page."""
    lines = [
        "# Where words can lie, and what an erasure does with them",
        "",
        "Generated by `python -m jacquard.wiring.erasure_places docs`. Of a session that is erased every row is removed; the",
        "table says what happens in sessions that stay. The proof searches every text of their rows, also of those that are kept.",
        "",
        "| place | holds | treatment |",
        "| --- | --- | --- |",
        *(f"| `{each.name}` | {each.holds} | {each.treatment.value} |" for each in list_places()),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    write_file(Path(sys.argv[1], PAGE), render_page())

"""Publishes the format of world packs as a JSON Schema and as Markdown tables.

Both are generated from the tables in `mnemosyne.world.format.fields`, by which packs are checked.

`python -m mnemosyne.world.publish DOCS` writes `schema/world-pack.schema.json` and the tables of the pages `en/pack-*.md`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from mnemosyne.files import write_file
from mnemosyne.shapes import format_table, iterate_records, schema_document
from mnemosyne.world.format.fields import FILES

SCHEMA_FILE = "schema/world-pack.schema.json"
PAGES = "en/pack-*.md"


def schema_text() -> str:
    """Return the JSON Schema of all pack files. Each file is one of its `$defs`."""
    return schema_document(
        {
            "title": "World pack",
            "description": (
                "The files of a world pack. Point an editor at one of the $defs: world for world.yaml, lore for a list in lore/, "
                "lore_entry for a single entry, quests, actions, planner, injections, history."
            ),
            "$defs": {name: shape.schema() for name, shape in FILES.items()},
        }
    )


def tables() -> dict[str, str]:
    """Return the Markdown table of each record of the format, by the name of the record."""
    return {
        record.name: format_table(
            ("key", "what", "default", "meaning"),
            ((f"`{each.name}`", each.describe(), each.describe_default(), each.doc) for each in record.fields),
        )
        for shape in FILES.values()
        for record in iterate_records(shape)
    }


def page_with_tables(page: str) -> str:
    """Return the Markdown text `page` with new tables between its lines `<!-- table: name -->` and `<!-- end -->`."""
    made = tables()

    def renew(found: re.Match[str]) -> str:
        return f"<!-- table: {found[1]} -->\n{made[found[1]]}<!-- end -->"

    return re.sub(r"<!-- table: (\w+) -->\n.*?<!-- end -->", renew, page, flags=re.DOTALL)


def publish(docs: Path) -> None:
    """Write the schema into the folder `docs`, and regenerate the tables of the pages `en/pack-*.md` in this folder.

    Raises OSError if a file cannot be written.
    """
    (docs / SCHEMA_FILE).parent.mkdir(parents=True, exist_ok=True)
    write_file(docs / SCHEMA_FILE, schema_text())
    for page in sorted(docs.glob(PAGES)):
        write_file(page, page_with_tables(page.read_text(encoding="utf-8")))


if __name__ == "__main__":
    publish(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))

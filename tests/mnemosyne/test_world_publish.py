"""What is published about the format is what the tables say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from mnemosyne.world.publish import PAGES, SCHEMA_FILE, page_with_tables, publish, schema_text, tables

DOCS = Path(__file__).parents[2] / "docs"
RENEW = "run `python -m mnemosyne.world.publish docs`"


def test_the_schema_is_current() -> None:
    assert (DOCS / SCHEMA_FILE).read_text(encoding="utf-8") == schema_text(), RENEW


def read_pages(docs: Path) -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in sorted(docs.glob(PAGES)))


def test_the_authors_pages_are_current() -> None:
    page = read_pages(DOCS)
    assert page == page_with_tables(page), RENEW


def test_every_record_but_the_weights_has_its_table_on_the_page() -> None:
    page = read_pages(DOCS)
    assert len(tables()) > 10
    for name in tables():
        if name not in ("weights", "domain_weights"):
            assert f"<!-- table: {name} -->" in page


def test_the_schema_is_one() -> None:
    schema = json.loads(schema_text())
    Draft202012Validator.check_schema(schema)
    for name in ("world", "lore", "quests", "actions", "planner", "injections", "history"):
        part = {"$schema": schema["$schema"], "$defs": schema["$defs"], "$ref": f"#/$defs/{name}"}
        assert not Draft202012Validator(part).is_valid("text")


def test_publish_mends_what_is_stale(tmp_path: Path) -> None:
    stale = tmp_path / PAGES.replace("*", "world")
    stale.parent.mkdir()
    stale.write_text("x\n<!-- table: entity -->\nold\n<!-- end -->\ny\n", encoding="utf-8")
    publish(tmp_path)
    page = read_pages(tmp_path)
    assert page == f"x\n<!-- table: entity -->\n{tables()['entity']}<!-- end -->\ny\n"
    assert (tmp_path / SCHEMA_FILE).read_text(encoding="utf-8") == schema_text()


@pytest.mark.parametrize("verb", ["SET", "PUSH", "ADD", "SUB", "MUL", "DIV", "POP", "DELETE"])
def test_the_schema_knows_every_verb(verb: str) -> None:
    assert f'"{verb}"' in schema_text()

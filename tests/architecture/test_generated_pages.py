"""The code writes its pages in both languages: every text has its Chinese, and no Chinese text is left over."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from docs.reference import TEXTS as DOCS_TEXTS
from docs.reference import make_english_pages, make_pages, translate_sentence
from jacquard.config import reference as settings
from jacquard.core.sentences.pages import GENERATED, PageTexts, read_page_texts, translate_page
from jacquard.remote import reference as operations
from jacquard.wiring import erasure_places

DOCS = Path(__file__).parents[2] / "docs"
PAGES = (
    (settings.PAGE, settings.page_text, settings.TEXTS),
    (operations.PAGE, operations.render_page, operations.TEXTS),
    (erasure_places.PAGE, erasure_places.render_page, erasure_places.TEXTS),
)
ENGLISH = re.compile(r"[A-Za-z][a-z'’]+(?: [A-Za-z][a-z'’]*){2,}")
CODE = re.compile(
    r"`[^`\n]+`|(?<=\])\([^)\n]*\)|^```.*?^```$|\bjacquard [a-z ]+|pip install [^。|]+", re.DOTALL | re.MULTILINE
)


def list_units(pages: list[str], texts: PageTexts) -> set[str]:
    """Return the texts of pages that need a translation; those within a pattern too."""
    units: set[str] = set()

    def note(unit: str) -> str:
        units.add(unit)
        return unit

    for page in pages:
        translate_page(page, PageTexts(texts={}, patterns=texts.patterns), note)
    return units


def find_english(page: str) -> list[str]:
    """Return the English words of a page, three or more in a row, outside of code."""
    return ENGLISH.findall(CODE.sub("", page))


@pytest.mark.parametrize(("name", "render", "file"), PAGES, ids=lambda each: each if isinstance(each, str) else "")
def test_a_generated_page_is_current_and_chinese(name: str, render: Callable[[], str], file: Path) -> None:
    texts = read_page_texts([file])
    chinese = translate_page(render(), texts)
    assert find_english(chinese) == [], f"{file.name} has no Chinese for these texts"
    assert set(texts.texts) - list_units([render()], texts) == set(), f"{file.name}: no page has these texts any more"
    published = (DOCS / "zh" / name).read_text(encoding="utf-8")
    assert published == GENERATED + chinese, f"docs/zh/{name} is not current: run the command that docs/en/{name} names"


def test_the_pages_of_the_reference_are_chinese() -> None:
    texts = read_page_texts([DOCS_TEXTS])
    english = make_english_pages()
    pages = {path: translate_page(page, texts, translate_sentence) for path, page in english.items()}
    assert {path: found for path, page in pages.items() if (found := find_english(page))} == {}


def test_no_text_of_the_reference_is_left_over() -> None:
    pytest.importorskip("griffe")
    texts = read_page_texts([DOCS_TEXTS])
    assert set(texts.texts) - list_units(list(make_pages().values()), texts) == set()

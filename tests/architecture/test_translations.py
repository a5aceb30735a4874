"""The two trees of the guide have the same pages, and no Chinese page is older than its English twin by more than a release."""

from __future__ import annotations

import re
import tomllib

import pytest

from docs.translation import DOCS, digest_page, list_pages, list_untranslated, read_front_matter

LINK_TO_ENGLISH = re.compile(r"\]\(((?:\.\./)+en/)([^)#\s]+)")


def test_both_trees_have_the_same_pages_except_those_that_are_listed() -> None:
    missing = list_pages("en") - list_pages("zh")
    assert missing == set(list_untranslated()), "docs/untranslated.txt lists the English pages without a Chinese twin"
    assert list_pages("zh") - list_pages("en") == set()


def test_the_list_of_untranslated_pages_only_becomes_shorter() -> None:
    assert set(list_untranslated()) <= set(ONCE_UNTRANSLATED), "a new English page comes with its Chinese twin"


NAMES = (
    "agents bench benchmarks budget documents erasure_places evaluating evidence filament files frameworks glossary layers memory "
    "models observability operations own-parts plays plugins profiles replay scaling security settings store-care stores templates "
    "tool-loops user-facts world-info world-packs"
)
ONCE_UNTRANSLATED = [f"{name}.md" for name in NAMES.split()]


@pytest.mark.parametrize("name", sorted(list_pages("zh")))
def test_a_chinese_page_is_as_new_as_its_english_twin(name: str) -> None:
    version = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    told = read_front_matter(DOCS / "zh" / name)
    if told.get("english") == digest_page(DOCS / "en" / name):
        assert "behind" not in told, f"docs/zh/{name} is current; strike `behind`"
    else:
        assert told.get("behind") == version, (
            f"docs/en/{name} has other headings or code blocks than docs/zh/{name} was written for: bring docs/zh/{name} up to "
            f"date and run `python docs/translation.py {name}`, or add `behind: {version}` to its front matter (one release)"
        )


@pytest.mark.parametrize("name", sorted(list_pages("zh")))
def test_a_chinese_page_links_chinese_pages_if_there_are_any(name: str) -> None:
    text = (DOCS / "zh" / name).read_text(encoding="utf-8")
    assert [page for _, page in LINK_TO_ENGLISH.findall(text) if (DOCS / "zh" / page).is_file()] == []


@pytest.mark.parametrize("name", sorted(list_pages("en")))
def test_an_english_page_links_no_chinese_page(name: str) -> None:
    assert "../zh/" not in (DOCS / "en" / name).read_text(encoding="utf-8")

"""Translates generated reference pages, unit by unit, by tables of English and Chinese texts.

A unit is a paragraph, a heading, an item of a list or a cell of a table. A table is a TOML file next to the code that
makes the page: `[texts]` has units, `[patterns]` regular expressions that fit a whole unit, whose groups are units too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from mnemosyne.files import write_file
from mnemosyne.values import dataclass

GENERATED = "---\nenglish: generated\n---\n\n"
"""Front matter of a generated page of docs/zh."""

_CELL = re.compile(r"(?<=\| )(?! *\|)(?:[^|\\\n]|\\.)+?(?= \|)")
_TEXT = re.compile(r"(\n*)(#+ |[-*] )?(.*?)(\n*)", re.DOTALL)
_GROUP = re.compile(r"\\(\d)")
_ITEM = re.compile(r"^(?=[-*] )", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class PageTexts:
    """Chinese texts of units by their English."""

    texts: dict[str, str]
    patterns: tuple[tuple[re.Pattern[str], str], ...]


def read_page_texts(files: Iterable[Path]) -> PageTexts:
    """Return the texts and patterns of TOML files."""
    import tomllib

    texts: dict[str, str] = {}
    patterns: dict[str, str] = {}
    for file in files:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
        texts |= tables.get("texts", {})
        patterns |= tables.get("patterns", {})
    return PageTexts(texts=texts, patterns=tuple((re.compile(key), to) for key, to in patterns.items()))


def translate_page(page: str, texts: PageTexts, otherwise: Callable[[str], str] = str) -> str:
    """Return a page in Chinese; `otherwise` translates units without a text, which stay English by default."""
    unit = partial(translate_unit, texts=texts, otherwise=otherwise)
    parts = re.split(r"(^```.*?^```$)", page, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if number % 2 else _translate_prose(part, unit) for number, part in enumerate(parts))


def _translate_prose(prose: str, unit: Callable[[str], str]) -> str:
    return "\n\n".join(_translate_block(block, unit) for block in prose.split("\n\n"))


def _translate_block(block: str, unit: Callable[[str], str]) -> str:
    if block.lstrip("\n").startswith("|"):
        return _CELL.sub(lambda cell: unit(cell[0]), block)
    return "".join(_translate_text(each, unit) for each in _ITEM.split(block))


def _translate_text(text: str, unit: Callable[[str], str]) -> str:
    before, mark, words, after = _TEXT.fullmatch(text).groups("")  # type: ignore[union-attr]
    joined = " ".join(words.split())
    translated = unit(joined) if joined else joined
    return text if translated == joined else f"{before}{mark}{translated}{after}"


def translate_unit(unit: str, texts: PageTexts, otherwise: Callable[[str], str] = str) -> str:
    """Return a unit in Chinese, by its own text, or by the first pattern that fits."""
    if unit in texts.texts:
        return texts.texts[unit]
    for pattern, to in texts.patterns:
        found = pattern.fullmatch(unit)
        if found:
            return _GROUP.sub(partial(_translate_group, found, texts, otherwise), to)
    return otherwise(unit)


def _translate_group(
    found: re.Match[str], texts: PageTexts, otherwise: Callable[[str], str], number: re.Match[str]
) -> str:
    return translate_unit(found[int(number[1])], texts, otherwise)


def write_pages(docs: Path, name: str, page: str, texts: Path) -> None:
    """Write a generated page of `docs/en`, and its Chinese twin by the texts of a file."""
    chinese = GENERATED + translate_page(page, read_page_texts([texts]))
    for language, text in (("en", page), ("zh", chinese)):
        (docs / language).mkdir(parents=True, exist_ok=True)
        write_file(docs / language / name, text)

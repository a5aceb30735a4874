"""Opens the templates of HTML pages, and the texts of pages in English and Chinese.

Every text that a template shows is escaped, and characters that control the direction of text are shown as escapes. Texts
are in TOML files: `key = { en = "…", zh = "…" }` in a table; `{name}` stands for a value.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from jacquard.core.sentences import LANGUAGES, translate
from mnemosyne.core.masking.controls import show_controls
from mnemosyne.values import dataclass

FOLDER = Path(__file__).parent
"""Folder of the templates and texts that all pages of turns share."""


@dataclass(frozen=True, slots=True)
class PageTexts:
    """Texts of pages in one language, by `table.key`."""

    language: str
    texts: Mapping[str, str]

    def __call__(self, key: str, **values: Any) -> str:
        """Return a text with its values. Raises KeyError if there is no such text."""
        return self.texts[key].format(**values)

    def find(self, key: str, default: str, **values: Any) -> str:
        """Return the text `key` with its `values`. Return `default` if there is no such text."""
        return self.texts[key].format(**values) if key in self.texts else default

    def say(self, sentence: str) -> str:
        """Return a sentence that was recorded in English in the language of the page."""
        return translate(sentence, self.language)


def read_texts(*files: Path) -> dict[str, PageTexts]:
    """Return the texts of all `files` by language. Raises KeyError if a text has no form in a language."""
    tables: dict[str, Any] = {}
    for file in files:
        tables |= tomllib.loads(file.read_text(encoding="utf-8"))
    found = {f"{table}.{key}": forms for table, texts in tables.items() for key, forms in texts.items()}
    return {
        each: PageTexts(language=each, texts={key: forms[each] for key, forms in found.items()}) for each in LANGUAGES
    }


def open_templates(*folders: Path) -> Environment:
    """Return the environment that loads the templates of pages from `folders`."""
    return Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        auto_reload=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )


def _finalize(value: Any) -> Any:
    return show_controls(value) if type(value) is str else value

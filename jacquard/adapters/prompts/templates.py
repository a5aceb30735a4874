"""Loads and renders the prompts for small models from the files `<language>/<name>.txt` in this folder.

A template is a plain text. It begins with comments. Then come the headings `[system]` and `[user]`, each followed by
the text of the message with this role. `$name` is replaced by the value `name`, and `$$` by a dollar sign. Values are
data: nothing in a value is read as a placeholder or a heading.

A template has no loops and no conditions. The caller makes repeated or optional parts as values, and escapes them. The
templates are not Jinja templates, because the limits of Jinja's sandbox would refuse long conversations.

To add a language, add a folder with a `language.toml` and translated templates. English is used for prompts that are
not translated.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Set
from functools import lru_cache
from importlib import resources
from importlib.resources.abc import Traversable
from string import Template
from typing import Any

from anyio import to_thread

from jacquard.core.errors import TemplateError
from jacquard.core.protocols import MessagePart
from mnemosyne.values import dataclass

FALLBACK_LANGUAGE = "en"
_LANGUAGE_FILE = "language.toml"
_HEADING = re.compile(r"^\[(system|user)\]\n", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptTemplate:
    """Template of one prompt in one language."""

    shown: str
    """Name of the template's file, for error messages."""
    messages: tuple[tuple[str, Template], ...]
    """(role, text with placeholders) of each message, in order."""
    placeholders: frozenset[str]
    """Names after `$` in the texts; `render` needs a value for each of them."""

    def render(self, values: Mapping[str, str | int]) -> tuple[MessagePart, ...]:
        """Return the messages, with each placeholder replaced by its value in `values`.

        Raises TemplateError if a placeholder has no value, or a value has no placeholder.
        """
        _check_names(self.shown, self.placeholders, values.keys())
        return tuple(MessagePart(role, text.substitute(values)) for role, text in self.messages)


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptLanguage:
    """Prompts and letters of one language."""

    words_per_token: float
    """Average number of words (in Chinese: characters) per token."""
    letters: re.Pattern[str] | None
    """Pattern of the letters that occur only in this language (None: the language has no letters of its own)."""
    prompts: Mapping[str, PromptTemplate]


def render_prompt(name: str, locale: str, **values: str | int) -> tuple[MessagePart, ...]:
    """Return the messages of the prompt `name` in the language of `locale`. If it is not translated, return them in
    English.

    `values` are the values of the placeholders.

    Raises TemplateError if there is no English prompt `name`, if a file has a fault, or if `values` has not exactly the
    names of the placeholders.
    """
    for language in (find_language(locale), FALLBACK_LANGUAGE):
        if (template := load_prompts()[language].prompts.get(name)) is not None:
            return template.render(values)
    raise TemplateError(_shown(FALLBACK_LANGUAGE, name), None, "there is no such prompt")


def words_per_token(locale: str) -> float:
    """Return the average number of words (in Chinese: characters) per token in the language of `locale`.

    Raises TemplateError if a file has a fault.
    """
    return load_prompts()[find_language(locale)].words_per_token


def find_language(locale: str) -> str:
    """Return the name of the language folder for `locale` (`zh` for `zh-CN`).

    If `locale` begins with several folder names, return the longest one; if with none, return `en`. Raises
    TemplateError if a file has a fault.
    """
    found = [name for name in load_prompts() if locale.lower().startswith(name)]
    return max(found, key=len, default=FALLBACK_LANGUAGE)


def find_text_language(text: str) -> str:
    """Return the name of the language whose own letters (`PromptLanguage.letters`) are most frequent in `text`.

    Return `en` if these letters are at most a quarter of the characters. Raises TemplateError if a file has a fault.
    """
    counts = {
        name: len(language.letters.findall(text))
        for name, language in load_prompts().items()
        if language.letters is not None
    }
    best = max(counts, key=lambda name: counts[name], default=FALLBACK_LANGUAGE)
    return best if counts.get(best, 0) * 4 > len(text) else FALLBACK_LANGUAGE


async def warm_prompts() -> None:
    """Load all prompts on a worker thread, unless they are loaded already.

    Raises TemplateError under the same conditions as `load_prompts`.
    """
    if not load_prompts.cache_info().currsize:
        await to_thread.run_sync(load_prompts)


@lru_cache(maxsize=1)
def load_prompts() -> Mapping[str, PromptLanguage]:
    """Return language name -> prompts for all languages.

    The first call reads files. On an event loop, await `warm_prompts` before this call.

    Raises TemplateError if a file has a fault, if a translated prompt does not exist in English, or if the placeholders
    of a translation differ from those of the English prompt.
    """
    root = resources.files(__package__)
    folders = [entry for entry in root.iterdir() if entry.joinpath(_LANGUAGE_FILE).is_file()]
    found = {folder.name: _read_language(folder) for folder in sorted(folders, key=lambda folder: folder.name)}
    for language in found.values():
        for name, template in language.prompts.items():
            if (english := found[FALLBACK_LANGUAGE].prompts.get(name)) is None:
                raise TemplateError(template.shown, None, "has no English prompt of that name")
            _check_names(template.shown, template.placeholders, english.placeholders)
    return found


def parse_template(text: str, shown: str) -> PromptTemplate:
    """Return the template that is written in `text`. `shown` is the name of its file, for error messages.

    Raises TemplateError if `text` is not a valid template.
    """
    head, *parts = _HEADING.split(text)
    for number, line in enumerate(head.splitlines(), start=1):
        if line.strip() and not line.startswith("#"):
            raise TemplateError(shown, number, "only comments may come before the first heading", line)
    messages = tuple(
        (role, Template(body.removesuffix("\n"))) for role, body in zip(parts[::2], parts[1::2], strict=True)
    )
    if [role for role, _ in messages] != ["system", "user"]:
        raise TemplateError(shown, None, "needs the headings [system] and [user], in this order, each once")
    if not all(body.is_valid() for _, body in messages):
        raise TemplateError(shown, None, "has a $ that begins no name; write $$ for a dollar sign")
    names = frozenset(name for _, body in messages for name in body.get_identifiers())
    return PromptTemplate(shown=shown, messages=messages, placeholders=names)


def _read_language(folder: Traversable) -> PromptLanguage:
    facts: dict[str, Any] = tomllib.loads(folder.joinpath(_LANGUAGE_FILE).read_text(encoding="utf-8"))
    files = {entry.name.removesuffix(".txt"): entry for entry in folder.iterdir() if entry.name.endswith(".txt")}
    return PromptLanguage(
        words_per_token=float(facts["words_per_token"]),
        letters=re.compile(f"[{facts['letters']}]") if "letters" in facts else None,
        prompts={
            name: parse_template(file.read_text(encoding="utf-8"), _shown(folder.name, name))
            for name, file in sorted(files.items())
        },
    )


def _check_names(shown: str, placeholders: frozenset[str], names: Set[str]) -> None:
    """Raise TemplateError if a placeholder has no value, or a value no placeholder."""
    if missing := sorted(placeholders - names):
        raise TemplateError(shown, None, f"${missing[0]} has no value; given are: {', '.join(sorted(names))}")
    if unknown := sorted(names - placeholders):
        raise TemplateError(shown, None, f"there is no ${unknown[0]}; it has: {', '.join(sorted(placeholders))}")


def _shown(language: str, name: str) -> str:
    return f"prompts/{language}/{name}.txt"

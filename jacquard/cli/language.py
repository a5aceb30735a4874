"""Chooses the language in which commands speak. `--lang` names it, else the environment, else it is English."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any

import typer

from jacquard.core.sentences import LANGUAGES, find_language, translate

_CHOSEN: ContextVar[str | None] = ContextVar("language", default=None)


def _check(wanted: str | None) -> str | None:
    if wanted is not None and wanted not in LANGUAGES:
        raise typer.BadParameter(f"choose {' or '.join(LANGUAGES)}.")
    return wanted


LanguageOption = Annotated[
    str | None,
    typer.Option(
        "--lang",
        metavar="|".join(LANGUAGES),
        help="Language of help, receipts, reasons and errors. [of LC_ALL, LC_MESSAGES or LANG, else en]",
        callback=_check,
    ),
]


def add_language_option(app: typer.Typer) -> None:
    """Add `--lang` to every command of `app` and of its groups."""
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_language_option(group.typer_instance)
    for each in app.registered_commands:
        if each.callback is not None:
            each.callback = _with_language(each.callback)


def _with_language(command: Callable[..., Any]) -> Callable[..., Any]:
    own = dict(inspect.signature(command, eval_str=True).parameters)

    @functools.wraps(command)
    def run(*, lang: str | None = None, **options: Any) -> Any:
        with speaking(lang):
            return command(**options)

    added = inspect.Parameter("lang", inspect.Parameter.KEYWORD_ONLY, annotation=LanguageOption, default=None)
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own.values()] + [added]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


@contextmanager
def speaking(language: str | None) -> Iterator[None]:
    """Speak a language of `LANGUAGES` inside of the block (None: the language stays)."""
    token = _CHOSEN.set(language or _CHOSEN.get())
    try:
        yield
    finally:
        _CHOSEN.reset(token)


def take_language(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the language of `LANGUAGES` that `--lang` names in a command line, and the other words of it.

    The language is None if no `--lang` names one of ours; such an option is left to the command, which refuses it.
    """
    language, rest = None, list(words)
    end = rest.index("--") if "--" in rest else len(rest)
    for place in reversed(range(end)):
        name, _, value = rest[place].partition("=")
        if name != "--lang":
            continue
        several = 1 if value else 2
        if (value or "".join(rest[place + 1 : place + 2])) in LANGUAGES:
            language = language or value or rest[place + 1]
            del rest[place : place + several]
    return language, rest


def chosen_language() -> str:
    """Return the language of `LANGUAGES` in which the running command speaks."""
    return _CHOSEN.get() or find_language(os.environ)


def speak(text: str) -> str:
    """Return a line of ours in the chosen language, with its leading blanks; other texts are returned unchanged."""
    line = text.lstrip(" ")
    return text[: len(text) - len(line)] + translate(line, chosen_language(), "line")

"""Escapes everything that `{{ }}` prints in a template, exactly once. This module must not import jinja2.

A text is printed as a one-line YAML scalar. A mapping or a list is refused unless a filter turns it into text. Text that is
escaped already has the type `Markup` of markupsafe; the functions here call this type the mark of safety. Filters and tests of
the engine never get marked text. A text that they make from a marked text has no mark and is escaped again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from types import GeneratorType
from typing import Any

from markupsafe import Markup

from filament import display, dump_yaml, escape_attribute, escape_text, scalar
from filament.boundaries import show_text as show_between_tags
from filament.state.display import list_limits
from jacquard.core.quests import is_scalar, read_plain_value
from jacquard.templating.limits import (
    FILTER_OPERATIONS,
    LimitError,
    check_number,
    check_size,
    pay,
    pay_for_items,
    pay_for_value,
    spend,
)

MAX_INDENT = 64

_LAST_LIMITS: ContextVar[tuple[object, str] | None] = ContextVar("last_limits", default=None)


class PrintError(Exception):
    """A value cannot be printed in this way; the message states how to print it."""


def finalize_prompt(value: Any) -> Markup:
    """Return `value` as it is printed in a prompt.

    A marked text is printed unchanged. A text, a number or a boolean becomes an escaped YAML scalar, and None becomes ''.
    Raises PrintError if the value is a mapping or a list, or has no text form.
    """
    if isinstance(value, Markup):
        shown = value
    else:
        _check_leaf(value)
        shown = Markup("" if value is None else escape_text(scalar(value)))
    spend(chars=len(shown))
    return shown


def finalize_reply(value: Any) -> str:
    """Return `value` as it is printed in a reply to a person: as plain text, not escaped.

    Of a value with a description (`[value, "text"]`) only the value is printed. Raises PrintError if the value is a mapping or
    a list, or has no text form.
    """
    shown = to_plain_text(value)
    spend(chars=len(shown))
    return shown


def to_plain_text(value: Any) -> str:
    """Return a text, a number or a boolean as text. Return '' for None. If `value` is a value with a description, only
    the value is used.
    """
    plain = strip_mark(read_plain_value(value))
    _check_leaf(plain)
    if plain is None:
        return ""
    return str(plain).lower() if isinstance(plain, bool) else str(plain)


def strip_mark(value: Any) -> Any:
    """Return a text without the mark of safety, so that the text is escaped when it is printed. Any other value is
    returned unchanged.
    """
    return str.__str__(value) if isinstance(value, Markup) else value


def wrap_function(function: Callable[..., Any], *, compares: bool = False) -> Callable[..., Any]:
    """Return `function` as a filter or test that takes and returns only unmarked texts, and subtracts the cost of the values
    that it reads and makes from the budget of the rendering (`limits`).

    `compares` states that `function` compares the items of its argument.
    """
    own = (
        1 if hasattr(function, "jinja_pass_arg") else 0
    )  # The first argument is then the engine's, not the template's.

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        spend(operations=FILTER_OPERATIONS)
        bare = {name: strip_mark(value) for name, value in kwargs.items()}
        given = [strip_mark(value) for value in args]
        for value in (*given[own:], *bare.values()):
            pay(value)
        if compares and isinstance(given[own], GeneratorType):
            given[own] = pay_for_items(given[own], deep=True)
        result = strip_mark(function(*given, **bare))
        is_new = isinstance(result, Iterator) and not any(result is value for value in given)
        return pay_for_items(result) if is_new else pay_for_value(result)

    return run


def sum_numbers(values: Iterable[Any]) -> Any:
    """Filter `sum`: add up numbers.

    Raises PrintError if an item is not a number.
    """
    total: int | float = 0
    for value in pay_for_items(values):
        if not isinstance(value, int | float):
            raise PrintError("`sum` adds numbers; choose the field first with `| map(attribute='…')`")
        total += value
        check_number(total)
    return total


def show_yaml(value: Any, indent: int = 0) -> Markup:
    """Filter `yaml`: show a value with its descriptions as block YAML. Every line is indented by `indent` spaces.

    Raises LimitError if `indent` is negative or above MAX_INDENT.
    """
    if not 0 <= indent <= MAX_INDENT:
        raise LimitError(f"`yaml` indents by 0 to {MAX_INDENT} blanks")
    if not isinstance(value, Mapping | list | tuple):
        _check_leaf(value)
    pay(value)
    return Markup(pay_for_value(escape_text(dump_yaml(display(strip_mark(value)), indent))))


def show_limits(value: Any) -> Markup:
    """Filter `limits`: show the ranges, choices and units of a state's fields. Fields with the same limits share a line.

    Raises PrintError if `value` is not a mapping.
    """
    if not isinstance(value, Mapping):
        raise PrintError("`limits` shows the rules of a mapping, such as `status`")
    pay(value)
    last = _LAST_LIMITS.get()
    # A template asks whether there are any before it shows them.
    text = last[1] if last is not None and last[0] is value else _limits_text(value)
    _LAST_LIMITS.set((value, text))
    return Markup(pay_for_value(text))


def _limits_text(value: Mapping[str, Any]) -> str:
    rows = list_limits(strip_mark(value)).items()
    return escape_text("\n".join(" ".join(f"{', '.join(paths)}: {rule}".split()) for rule, paths in rows))


def show_text(value: Any, boundary: Any = "") -> Markup:
    """Filter `text`: show text as prose of one or more lines. If `boundary` is not empty, the text is shown exactly as
    written between marks (`filament.show_text`).
    """
    return Markup(pay_for_value(show_between_tags(to_plain_text(value), to_plain_text(boundary))))


def show_attribute(value: Any) -> Markup:
    """Filter `attr`: show text as the value of an attribute, for use between quotes."""
    return Markup(pay_for_value(escape_attribute(to_plain_text(value))))


def join_texts(values: Iterable[Any], separator: str = "") -> str:
    """Filter `join` and operator `~`: join texts with `separator` between them.

    If one of the texts has the mark of safety, the texts without the mark are escaped before joining, and the result has the
    mark. Otherwise the result is plain text.
    """
    items = list(pay_for_items(values))
    if any(isinstance(each, Markup) for each in items):
        glue = strip_mark(separator) if isinstance(separator, Markup) else escape_text(separator)
        texts = [strip_mark(finalize_prompt(each)) for each in items]
        check_size(sum(map(len, texts)) + len(glue) * len(texts))
        return Markup(pay_for_value(glue.join(texts)))
    texts = [to_plain_text(each) for each in items]
    check_size(sum(map(len, texts)) + len(separator) * len(texts))
    return str(pay_for_value(str(strip_mark(separator)).join(texts)))


def replace_text(value: Any, old: str, new: str) -> str:
    """Filter `replace`: replace every `old` in a text by `new`."""
    text, find, put = to_plain_text(value), to_plain_text(old), to_plain_text(new)
    pay(text)
    check_size(len(text) + text.count(find) * len(put))
    return str(pay_for_value(text.replace(find, put)))


def _check_leaf(value: Any) -> None:
    if is_scalar(value):
        return
    if not isinstance(value, Mapping | list | tuple):
        str(value)  # An undefined value raises here and names itself.
        raise PrintError(f"a {type(value).__name__} cannot be printed; print a value of it")
    kind = "a mapping" if isinstance(value, Mapping) else "a list"
    pair = "; `| value` takes the value of a value with a description" if read_plain_value(value) is not value else ""
    raise PrintError(f"{kind} cannot be printed directly; use `| yaml`, or print one of its values{pair}")

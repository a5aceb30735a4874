"""Escapes everything that a template's `{{ }}` prints, exactly once. It must not import jinja2.

Text becomes a one-line YAML scalar; mappings and lists are refused unless a filter turns them into text. Safe text is marked
with markupsafe's `Markup`. The mark is never given to code outside of this module, and text made from a marked one loses the
mark and is escaped again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from types import GeneratorType
from typing import Any

from markupsafe import Markup

from filament import display, dump_yaml, escape_attribute, escape_text, list_limits, scalar
from filament import show_text as show_between_tags
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
    """A value cannot be printed like this; the message states how it can."""


def finalize_prompt(value: Any) -> Markup:
    """Return the printed form of a value in a prompt: a marked text unchanged, a leaf as an escaped YAML scalar.

    Raises PrintError for a mapping, a list, or a value that has no text form.
    """
    if isinstance(value, Markup):
        shown = value
    else:
        _check_leaf(value)
        shown = Markup("" if value is None else escape_text(scalar(value)))
    spend(chars=len(shown))
    return shown


def finalize_reply(value: Any) -> str:
    """Return the printed form of a value in a reply to a person: plain text; of a value with a description only the value.

    Raises PrintError for a mapping, a list, or a value that has no text form.
    """
    shown = to_plain_text(value)
    spend(chars=len(shown))
    return shown


def to_plain_text(value: Any) -> str:
    """Return a leaf, or the value of a VWD pair, as text; '' for None."""
    plain = strip_mark(read_plain_value(value))
    _check_leaf(plain)
    if plain is None:
        return ""
    return str(plain).lower() if isinstance(plain, bool) else str(plain)


def strip_mark(value: Any) -> Any:
    """Return a text without the mark of safety; any other value unchanged."""
    return str.__str__(value) if isinstance(value, Markup) else value


def wrap_function(function: Callable[..., Any], *, compares: bool = False) -> Callable[..., Any]:
    """Wrap a filter or test so that it gets and returns only unmarked texts, and pays for the values it reads and makes.

    `compares`: it compares the items of its arguments.
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
    """Filter `sum`: add up numbers; raises PrintError for anything else."""
    total: int | float = 0
    for value in pay_for_items(values):
        if not isinstance(value, int | float):
            raise PrintError("`sum` adds numbers; choose the field first with `| map(attribute='…')`")
        total += value
        check_number(total)
    return total


def show_yaml(value: Any, indent: int = 0) -> Markup:
    """Filter `yaml`: show a value as block YAML, with descriptions; every line is indented by `indent` spaces.

    Raises LimitError for an indent beyond MAX_INDENT.
    """
    if not 0 <= indent <= MAX_INDENT:
        raise LimitError(f"`yaml` indents by 0 to {MAX_INDENT} blanks")
    if not isinstance(value, Mapping | list | tuple):
        _check_leaf(value)
    pay(value)
    return Markup(pay_for_value(escape_text(dump_yaml(display(strip_mark(value)), indent))))


def show_limits(value: Any) -> Markup:
    """Filter `limits`: show the ranges, choices and units of a state; fields with the same share a line.

    Raises PrintError for anything but a mapping.
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
    """Filter `text`: show text as prose of one or more lines, with a `boundary` exactly as written (`filament.show_text`)."""
    return Markup(pay_for_value(show_between_tags(to_plain_text(value), to_plain_text(boundary))))


def show_attribute(value: Any) -> Markup:
    """Filter `attr`: show text as the inside of a quoted attribute."""
    return Markup(pay_for_value(escape_attribute(to_plain_text(value))))


def join_texts(values: Iterable[Any], separator: str = "") -> str:
    """Filter `join`, and `~`: the result is marked if any part is; the other parts are then escaped first."""
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

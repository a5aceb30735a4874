"""Filters and tests of templates: each has limits and gives the same result on every machine.

`language` names those adopted from the template engine. Its other filters are not offered, because they format or repeat text
without a bound (`center`, `format`, `indent`, `wordwrap`, `batch`, `slice`), print values without a text form (`pprint`,
`tojson`, `xmlattr`), bypass the escaping (`safe`, `escape`) or are random (`random`). It imports no template engine.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from jacquard.core.quests import drop_usual_values, is_scalar, read_plain_value
from jacquard.templating.language import BUILTIN_FILTERS
from jacquard.templating.limits import check_digits, check_number, check_stripped
from jacquard.templating.output_escaping import PrintError, join_texts, replace_text, sum_numbers, wrap_function

_OF_TEXT = frozenset({"capitalize", "lower", "string", "title", "trim", "truncate", "upper"})
_COMPARING = frozenset({"groupby", "max", "min", "sort", "unique"})

Function = Callable[..., Any]


def build_filters(engine: Mapping[str, Function]) -> dict[str, Function]:
    """Return the filters of every template by name; `engine` are the filters of the template engine."""
    own: dict[str, Function] = {
        "brief": drop_usual_values,
        "join": join_texts,
        "replace": replace_text,
        "sum": sum_numbers,
        "value": read_plain_value,
    }
    return {**{name: _filter(name, engine[name]) for name in BUILTIN_FILTERS}, **own}


def build_tests(engine: Mapping[str, Function]) -> dict[str, Function]:
    """Return the tests of every template by name (after `is`); `engine` are the tests of the template engine."""
    tests = {name: wrap_function(test) for name, test in engine.items()}
    tests |= {name: wrap_function(_require_text(engine[name])) for name in ("lower", "upper")}
    return {**tests, "sameas": wrap_function(_is_same)}


def _filter(name: str, function: Function) -> Function:
    if name in _OF_TEXT:
        function = _require_text(function)
    if name in _CHECKS:
        function = _add_check(function, _CHECKS[name])
    return wrap_function(function, compares=name in _COMPARING)


def _require_text(function: Function) -> Function:
    """Wrap a function so that it refuses values whose only text form is their address in memory."""
    own = 1 if hasattr(function, "jinja_pass_arg") else 0

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        _check_plain(args[own])
        return function(*args, **kwargs)

    return run


def _add_check(function: Function, check: Function) -> Function:
    @functools.wraps(function)
    def run(value: Any, *args: Any, **kwargs: Any) -> Any:
        check(*args, **kwargs)
        result = function(value, *args, **kwargs)
        if not isinstance(value, int):
            check_number(result)
        return result

    return run


def _check_nothing(*_args: Any, **_kwargs: Any) -> None:
    """Accept all arguments; the result is checked in any case."""


def _check_round(precision: Any = 0, method: Any = "common") -> None:
    check_digits(precision)


def _check_trim(chars: Any = None) -> None:
    check_stripped(chars)


_CHECKS: Mapping[str, Function] = {"int": _check_nothing, "round": _check_round, "trim": _check_trim}


def _check_plain(value: Any) -> None:
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, Mapping):
            stack += [*node, *node.values()]
        elif isinstance(node, list | tuple):
            stack += node
        elif not (is_scalar(node) or isinstance(node, range)):
            str(node)  # An undefined value raises here and names itself.
            raise PrintError(f"a {type(node).__name__} has no text that is the same each time; print a value of it")


def _is_same(value: Any, other: Any) -> bool:
    """Test `sameas`: leaves are the same if they have the same type and are equal; other values only if they are identical."""
    if is_scalar(value):
        return type(value) is type(other) and bool(value == other)
    return value is other

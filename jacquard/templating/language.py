"""Lists the names that the template language offers: filters, tests, functions and methods. This module imports
nothing.

The sandbox refuses all other names, and the lint of templates suggests names from these lists.
"""

from __future__ import annotations

_FILTERS = (
    "abs capitalize count d default dictsort first float groupby int items last length list lower map max min reject "
    "rejectattr reverse round select selectattr sort string title trim truncate unique upper"
)
_TEXT_METHODS = (
    "capitalize casefold count endswith find isalpha isdigit isnumeric lower lstrip removeprefix removesuffix rstrip split "
    "splitlines startswith strip swapcase title upper"
)

_TESTS = (
    "boolean callable defined divisibleby eq equalto even false filter float ge greaterthan gt in integer iterable le "
    "lessthan lower lt mapping ne none number odd sameas sequence string test true undefined upper"
)

BUILTIN_FILTERS = tuple(_FILTERS.split())
"""Filters of the template engine that are offered unchanged."""

OWN_FILTERS = ("attr", "brief", "join", "limits", "replace", "sum", "text", "value", "yaml")
"""Filters that this package adds for templates of prompts."""

TESTS = (*_TESTS.split(), "!=", "<", "<=", "==", ">", ">=", "escaped")
"""Tests: names that a template writes after `is`."""

FUNCTIONS = ("cycler", "dict", "joiner", "namespace", "range")
"""Functions that a template calls by name."""

TEXT_METHODS = frozenset(_TEXT_METHODS.split())
MAPPING_METHODS = frozenset({"get", "items", "keys", "values"})
LIST_METHODS = frozenset({"count", "grouper", "index", "list"})

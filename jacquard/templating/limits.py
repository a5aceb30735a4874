"""Limits the work of one rendering, so that no template can block a thread or fill the memory. This module must not
import jinja2.

Each rendering has a budget of steps, operations and created characters. When one of them is used up, `LimitError` ends the
rendering. The limits are numbers and not a time, so that a template gives the same result on every machine.

- A step is one pass of a loop; a call counts as ten steps.
- An operation is one evaluated part of a template, or one value that a filter reads.
- A value costs as many characters or operations as its size requires. The functions whose names begin with `pay` subtract this
  cost from the budget.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from mnemosyne.values import dataclass

OUTPUT_LIMIT_CHARS = 200_000
WORK_LIMIT_CHARS = 1_000_000
STEP_LIMIT = 100_000
OPERATION_LIMIT = 1_000_000
CALL_STEPS = 10
FILTER_OPERATIONS = 4
FILE_OPERATIONS = 100
CHARS_AN_OPERATION = 16
NUMBERS_AN_OPERATION = 8
NODE_CHARS = 4
RANGE_LIMIT = 10_000
NUMBER_LIMIT = 10**18
DIGIT_LIMIT = 308
STRIPPED_LIMIT_CHARS = 1_000
LOOP_DEPTH = 12
INCLUDE_COST_CHARS = 4_000
FILE_LIMIT_BYTES = 65_536

_NUMBERS = frozenset({int, float, bool, type(None)})
T = TypeVar("T")


class LimitError(Exception):
    """A template exceeded a limit, which the message names."""


@dataclass(slots=True)
class _Budget:
    steps: int
    chars: int
    operations: int


_BUDGET: ContextVar[_Budget | None] = ContextVar("template_budget", default=None)


@contextmanager
def limit_rendering() -> Iterator[None]:
    """Give the code in the `with` block a fresh budget for one rendering."""
    token = _BUDGET.set(_Budget(STEP_LIMIT, WORK_LIMIT_CHARS, OPERATION_LIMIT))
    try:
        yield
    finally:
        _BUDGET.reset(token)


def spend(*, steps: int = 0, chars: int = 0, operations: int = 0) -> None:
    """Take `steps`, `chars` and `operations` from the budget of the present rendering. Outside of a rendering, do
    nothing.

    Raises LimitError if the budget is used up.
    """
    budget = _BUDGET.get()
    if budget is None:
        return
    budget.steps -= steps
    budget.chars -= chars
    budget.operations -= operations
    if budget.steps < 0:
        raise LimitError(f"the template takes more than {STEP_LIMIT:,} steps; loop over less")
    if budget.chars < 0:
        raise LimitError(f"the template makes more than {WORK_LIMIT_CHARS:,} characters on its way; print less")
    if budget.operations < 0:
        raise LimitError(
            f"the template does more than {OPERATION_LIMIT:,} operations; loop over less, or do less in a loop"
        )


def pay(value: object) -> None:
    """Subtract the cost of reading `value` from the budget of the present rendering.

    A text costs half its length in characters. A list or a mapping costs its size (`tree_size`). A range and a view of a
    mapping cost operations.
    """
    if isinstance(value, str):
        spend(chars=len(value) // 2)
    elif isinstance(value, list | tuple | Mapping):
        spend(chars=tree_size(value))
    elif isinstance(value, range):
        spend(operations=len(value) // NUMBERS_AN_OPERATION)
    elif isinstance(value, KeysView | ValuesView | ItemsView):
        for item in value:
            spend(operations=_cost(item, deep=True))


def pay_for_items(items: Iterable[T], *, deep: bool = False) -> Iterator[T]:
    """Yield `items`. Before each item, subtract its cost in operations from the budget.

    If `deep` is true, the cost covers also everything inside of the item. This is needed if the items are compared.
    """
    for item in items:
        spend(operations=_cost(item, deep=deep))
        yield item


def _cost(item: object, *, deep: bool) -> int:
    if isinstance(item, str):
        return 1 + len(item) // CHARS_AN_OPERATION
    return 1 + (tree_size(item) // CHARS_AN_OPERATION if deep else 0)


def pay_arguments(args: Iterable[object]) -> None:
    """Subtract the cost of passing `args` to a function of the language from the budget: one operation for each value, and one
    operation for each item in a value.
    """
    for value in args:
        sized = isinstance(value, str | list | tuple | range | Mapping | KeysView | ValuesView | ItemsView)
        spend(operations=1 + (len(value) if sized else 0))  # type: ignore[arg-type]


def pay_for_value(value: T) -> T:
    """Subtract the size of `value`, which a template made, from the budget in characters. Return `value`.

    Raises LimitError if the value is too large.
    """
    if isinstance(value, str):
        check_size(len(value))
        spend(chars=len(value))
    elif isinstance(value, list | tuple | Mapping):
        spend(chars=tree_size(value))
    return value


def tree_size(value: object) -> int:
    """Return the size of a tree as text: NODE_CHARS for each value, plus the characters of each text.

    A part that occurs several times counts each time, because a list that contains another list many times is small in memory
    and long as text. Raises LimitError if the size is too large.
    """
    size = 0
    stack = [value]
    while stack:
        node = stack.pop()
        size += NODE_CHARS
        if isinstance(node, str):
            size += len(node)
        elif type(node) in _NUMBERS:
            pass
        elif type(node) is dict or (type(node) is not list and isinstance(node, Mapping)):
            if size + NODE_CHARS * len(node) > OUTPUT_LIMIT_CHARS:
                check_size(size + NODE_CHARS * len(node))
            stack.extend(node)
            stack.extend(node.values())
        elif isinstance(node, list | tuple):
            if size + NODE_CHARS * len(node) > OUTPUT_LIMIT_CHARS:
                check_size(size + NODE_CHARS * len(node))
            stack.extend(node)
        if size > OUTPUT_LIMIT_CHARS:
            check_size(size)
    return size


def check_size(size: int) -> None:
    """Raise LimitError if `size` exceeds OUTPUT_LIMIT_CHARS.

    `size` is the number of characters or items of a value that is about to be created.
    """
    if size > OUTPUT_LIMIT_CHARS:
        raise LimitError(f"a value of the template grows past {OUTPUT_LIMIT_CHARS:,} characters or items")


def check_power(left: object, right: object) -> None:
    """Raise LimitError if `left ** right` could be a very long number."""
    if isinstance(left, int | float) and isinstance(right, int | float) and abs(left) > 1 and right > 60:
        raise LimitError("a power in the template is too high")


def check_number(value: object) -> None:
    """Raise LimitError if `value` is a whole number above NUMBER_LIMIT or below -NUMBER_LIMIT."""
    if isinstance(value, int) and abs(value) > NUMBER_LIMIT:
        raise LimitError("a number in the template grows past 10^18")


def check_digits(precision: object) -> None:
    """Raise LimitError if `precision`, the number of digits to round to, is above DIGIT_LIMIT."""
    if isinstance(precision, int) and abs(precision) > DIGIT_LIMIT:
        raise LimitError(f"`round` rounds to at most {DIGIT_LIMIT} digits")


def check_stripped(chars: object) -> None:
    """Raise LimitError if `chars`, the characters to strip from a text, are more than STRIPPED_LIMIT_CHARS.

    Each character of the text is compared with all of `chars`, so many of them would take long.
    """
    if isinstance(chars, str) and len(chars) > STRIPPED_LIMIT_CHARS:
        raise LimitError(f"at most {STRIPPED_LIMIT_CHARS:,} characters can be named to be stripped from a text")


def bounded_range(*args: int) -> range:
    """Return `range(*args)`.

    Raises LimitError if the range has more than RANGE_LIMIT numbers.
    """
    numbers = range(*args)
    if len(numbers) > RANGE_LIMIT:
        raise LimitError(f"a range has at most {RANGE_LIMIT:,} numbers")
    return numbers

"""Decorator of values: dataclasses that are quick to define and to make.

`dataclass` is that of the standard library with two differences. A value with `frozen=True` is frozen by the type
checker and not at run time, because a frozen dataclass sets each field by a call. Comparison, hash and `repr` are shared
code, because text that is compiled for each of hundreds of classes takes longer than the rest of an import.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import wraps
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, TypeVar

C = TypeVar("C", bound=type)

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, *, frozen: bool = False, eq: bool = True, **options: Any) -> Any:
        """Return the class as a dataclass; without `cls`, return the decorator that does so.

        The arguments are those of `dataclasses.dataclass`.
        """

        def make(cls: type) -> type:
            own = cls.__dict__
            made = dataclasses.dataclass(cls, eq=False, repr=False, **options)
            if "__repr__" not in own:
                made.__repr__ = _show
            if eq:
                _compare_by_fields(made, own, frozen)
            return made

        return make if cls is None else make(cls)


def also_named(**fields: str) -> Callable[[C], C]:
    """Return a decorator with which the constructor of a class takes second names of its fields: second name -> field.

    A property of the second name reads the field; the class defines it.
    """

    def decorate(cls: C) -> C:
        make: Any = cls.__dict__["__init__"]

        @wraps(make)
        def init(self: Any, *args: Any, **given: Any) -> None:
            for second, name in fields.items():
                if second in given:
                    if name in given:
                        raise TypeError(f"{cls.__name__} got {name} and {second}, which are the same; leave one out")
                    given[name] = given.pop(second)
            make(self, *args, **given)

        setattr(cls, "__init__", init)  # noqa: B010 (a type checker refuses the assignment)
        return cls

    return decorate


def _compare_by_fields(cls: Any, own: Any, frozen: bool) -> None:
    """Give a class the comparison and the hash of its fields, unless it has `own` ones. Only frozen values have a hash."""
    names = [each.name for each in dataclasses.fields(cls) if each.compare]
    key: Callable[[Any], Any] = (
        attrgetter(*names) if len(names) > 1 else lambda value: tuple(getattr(value, name) for name in names)
    )
    if "__eq__" not in own:
        cls.__eq__ = lambda self, other: (
            key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented
        )
    if own.get("__hash__") is None:
        cls.__hash__ = (lambda self: hash(key(self))) if frozen else None


@recursive_repr()
def _show(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"

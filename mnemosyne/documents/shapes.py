"""What a schema value looks like as JSON: one table per type, derived from the type itself.

Reading, writing and the published JSON Schema use the same tables and so cannot disagree. Names, kinds and defaults
come from the dataclasses of `mnemosyne.schema`; the few rules that a type cannot express (required
fields; ranges of numbers) are given here by the name of the field. It imports no store, chain or codec.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from datetime import datetime
from enum import Enum, StrEnum
from typing import Any

from mnemosyne.schema.document import Session, SessionDocument, TaskState, TodoList
from mnemosyne.schema.evidence import Evidence
from mnemosyne.schema.memory import EMPTY
from mnemosyne.schema.package import ContextPackage
from mnemosyne.schema.session import Message, Role


class Form(Enum):
    """The forms that a JSON value can have here."""

    TEXT = "text"
    WHOLE = "whole"
    NUMBER = "number"
    FLAG = "flag"
    TIME = "time"
    CHOICE = "choice"
    TREE = "tree"
    OBJECT = "object"
    MANY = "many"
    KEYED = "keyed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """One kind of JSON value.

    `minimum` and `maximum` bound a number. `filled`: a text or list that may not be empty. `nullable`: null is read as
    the field's default. `of` is the type of an OBJECT or the enum of a CHOICE; `item` is the kind within MANY and
    KEYED. `aliases` are foreign words of a CHOICE with their meaning.
    """

    form: Form
    of: Any = None
    item: Kind | None = None
    nullable: bool = False
    filled: bool = False
    minimum: float | None = None
    maximum: float | None = None
    aliases: Mapping[str, str] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldShape:
    """One field: its name in Python and in JSON. A field that is not `required` is left out where it has its default."""

    name: str
    json: str
    kind: Kind
    required: bool
    default: Any = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """A type as a JSON object, fields in the order of the type; `open` types keep unknown fields in `extra`."""

    of: type
    fields: tuple[FieldShape, ...]
    open: bool


ROLE_ALIASES = {"developer": "system", "function": "tool", "human": "user", "ai": "assistant"}
"""Roles of other frameworks (further roles are allowed if they can be mapped)."""

_JSON_NAMES = {"from_index": "from", "to_index": "to"}
_ALWAYS = {
    (ContextPackage, "version"),
    (SessionDocument, "schema_version"),
    (SessionDocument, "evidences"),
    (SessionDocument, "context_blocks"),
    (Session, "messages"),
    (Session, "task_state"),
    (TaskState, "todo_list"),
    (TodoList, "tasks"),
}
_OF_THE_STORE = {(SessionDocument, "version")}
"""Fields that say something of a stored document and are not written in it."""
_FILLED = {(Session, "messages")}
_NULLABLE = {(Message, "refs")}
_BOUNDS: dict[tuple[type, str], tuple[float | None, float | None]] = {(Evidence, "confidence"): (0, 1)}
_FREE_NUMBERS = frozenset({"score"})
_SCALARS = {str: Form.TEXT, int: Form.WHOLE, float: Form.NUMBER, bool: Form.FLAG, datetime: Form.TIME}


_SHAPES: dict[type, Shape] = {}


def shape_of(cls: type) -> Shape:
    """Return the table of a dataclass of the schema."""
    if cls not in _SHAPES:
        _SHAPES[cls] = _shape_of(cls)
    return _SHAPES[cls]


def _shape_of(cls: type) -> Shape:
    hints = typing.get_type_hints(cls)
    made = []
    for each in fields(cls):
        if each.name == "extra" or (cls, each.name) in _OF_THE_STORE:
            continue
        default = each.default
        if each.default_factory is not MISSING:
            default = each.default_factory()
        kind = _kind_of(hints[each.name])
        made.append(
            FieldShape(
                name=each.name,
                json=_JSON_NAMES.get(each.name, each.name),
                kind=_refine_kind(cls, each.name, kind, required=default is MISSING),
                required=default is MISSING or (cls, each.name) in _ALWAYS,
                default=None if default is MISSING else default,
            )
        )
    return Shape(of=cls, fields=tuple(made), open="extra" in hints)


def choices(kind: Kind) -> tuple[str, ...]:
    """Return the legal words of a CHOICE."""
    members: type[StrEnum] = kind.of
    return tuple(member.value for member in members)


def _refine_kind(cls: type, name: str, kind: Kind, *, required: bool) -> Kind:
    place = (cls, name)
    low, high = _BOUNDS.get(place, (None, None))
    if kind.form in (Form.WHOLE, Form.NUMBER) and low is None and name not in _FREE_NUMBERS:
        low = 0
    names_something = required and kind.form is Form.TEXT and name.endswith("_id")
    return Kind(
        form=kind.form,
        of=kind.of,
        item=kind.item,
        nullable=kind.nullable or place in _NULLABLE,
        filled=names_something or place in _FILLED,
        minimum=low,
        maximum=high,
        aliases=ROLE_ALIASES if kind.of is Role else EMPTY,
    )


def _kind_of(hint: Any) -> Kind:
    if hint in _SCALARS:
        return Kind(form=_SCALARS[hint])
    if hint is Any:
        return Kind(form=Form.TREE)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        inner = _kind_of(next(arg for arg in args if arg is not type(None)))
        return Kind(form=inner.form, of=inner.of, item=inner.item, nullable=True)
    if origin is tuple:
        return Kind(form=Form.MANY, item=_kind_of(args[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return Kind(form=Form.KEYED, item=_kind_of(args[1]))
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return Kind(form=Form.CHOICE, of=hint)
    if is_dataclass(hint):
        return Kind(form=Form.OBJECT, of=hint)
    raise TypeError(f"{hint!r} has no JSON form in the schema")

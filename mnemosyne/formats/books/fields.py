"""Defines the native fields of an entry: the fields of SillyTavern's world info, with their types, defaults and other
spellings.

Every reader of books puts a native field into `BookEntry.fields` under its native name and type, wherever the file has
the field. Extensions of an entry that are not native fields stay in its `extensions`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from mnemosyne.formats.books.conversions import (
    Convert,
    kind_of,
    one_of,
    or_null,
    to_character_filter,
    to_count,
    to_flag,
    to_joined,
    to_keys,
    to_level,
    to_number,
    to_other_flag,
    to_text,
)
from mnemosyne.formats.books.keys import is_regex_key
from mnemosyne.formats.losses import FOR_EXPORT, FieldCounter
from mnemosyne.values import dataclass

BY_ACTIVATION = "heeded with activation: sillytavern"
"""Import note on a value that differs from SillyTavern's default and has an effect only with SillyTavern's activation rules."""
_COMMA_NOTE = "a key holds a comma, and is looked for as one text"

_POSITIONS = {
    **dict.fromkeys(("before_char", "before_char_defs", "before_character_definition", "before"), 0),
    **dict.fromkeys(("after_char", "after_char_defs", "after_character_definition", "after"), 1),
    **dict.fromkeys(("an_top", "top_an", "before_an", "before_author_note"), 2),
    **dict.fromkeys(("an_bottom", "bottom_an", "after_an", "after_author_note"), 3),
    **dict.fromkeys(("at_depth", "@_depth", "@depth", "at_depth_as_system"), 4),
    **dict.fromkeys(("em_top", "before_em", "before_example_messages"), 5),
    **dict.fromkeys(("em_bottom", "after_em", "after_example_messages"), 6),
    "outlet": 7,
}
_LOGICS = {"and_any": 0, "not_all": 1, "not_any": 2, "and_all": 3}
_ROLES = {"system": 0, "user": 1, "assistant": 2}
to_position = one_of(_POSITIONS, 8)


def _note_nothing(_: Any) -> str:
    return ""


def _note_keys(keys: Any) -> str:
    if any(is_regex_key(key) for key in keys):
        return BY_ACTIVATION
    return _COMMA_NOTE if any("," in key for key in keys) else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class NativeField:
    """A field of SillyTavern's world info, with all that a reader of books needs to recognise and convert it."""

    name: str
    convert: Convert
    """Converts a value to the field's type, or raises ValueError."""
    kind: str
    """Name of the field's type, for a sentence."""
    default: Any
    extension: str = ""
    """Name in the `extensions` of a card's entry. Empty if a card has its own field for it."""
    other_names: tuple[str, ...] = ()
    """Spellings in files of other programs."""
    note: Callable[[Any], str] = _note_nothing
    """Returns the import note for a value that differs from the default."""
    is_lossless: bool = False
    """Whether the format writes the field in another type, so that its conversion does not count as a change."""


def _heeded(
    name: str, convert: Convert, kind: str, default: Any, extension: str = "", others: tuple[str, ...] = ()
) -> NativeField:
    return NativeField(
        name=name,
        convert=convert,
        kind=kind,
        default=default,
        extension=extension,
        other_names=others,
        note=lambda _: BY_ACTIVATION,
    )


def _ui(name: str, convert: Convert, kind: str, default: Any, extension: str) -> NativeField:
    return NativeField(
        name=name, convert=convert, kind=kind, default=default, extension=extension, note=lambda _: FOR_EXPORT
    )


_FLAG, _TEXT, _COUNT = "true or false", "text", "a whole number"
_FLAG_OR_NULL, _COUNT_OR_NULL = "true, false or null", "a whole number or null"

NATIVE_FIELDS = (
    NativeField(name="key", convert=to_keys, kind="a list of keys", default=[], other_names=("keys",), note=_note_keys),
    _heeded("keysecondary", to_keys, "a list of keys", [], others=("key_secondary", "secondary_keys", "secondaryKeys")),
    NativeField(name="comment", convert=to_text, kind=_TEXT, default=""),
    NativeField(name="content", convert=to_text, kind=_TEXT, default=""),
    NativeField(name="constant", convert=to_flag, kind=_FLAG, default=False),
    NativeField(name="vectorized", convert=to_flag, kind=_FLAG, default=False, extension="vectorized"),
    _heeded("selective", to_flag, _FLAG, True),
    _heeded("selectiveLogic", one_of(_LOGICS, 4), "a logic of secondary keys", 0, "selectiveLogic"),
    _ui("addMemo", to_flag, _FLAG, False, "addMemo"),
    _heeded("order", to_number, "a number", 100, others=("insertion_order", "insertionOrder")),
    _heeded("position", to_position, "a position", 0, "position"),
    NativeField(name="disable", convert=to_flag, kind=_FLAG, default=False, other_names=("disabled",)),
    _heeded("ignoreBudget", to_flag, _FLAG, False, "ignore_budget"),
    _heeded("excludeRecursion", to_flag, _FLAG, False, "exclude_recursion"),
    _heeded("preventRecursion", to_flag, _FLAG, False, "prevent_recursion"),
    _heeded("matchPersonaDescription", to_flag, _FLAG, False, "match_persona_description"),
    _heeded("matchCharacterDescription", to_flag, _FLAG, False, "match_character_description"),
    _heeded("matchCharacterPersonality", to_flag, _FLAG, False, "match_character_personality"),
    _heeded("matchCharacterDepthPrompt", to_flag, _FLAG, False, "match_character_depth_prompt"),
    _heeded("matchScenario", to_flag, _FLAG, False, "match_scenario"),
    _heeded("matchCreatorNotes", to_flag, _FLAG, False, "match_creator_notes"),
    _heeded("delayUntilRecursion", to_level, "a level of recursion", 0, "delay_until_recursion"),
    _heeded("probability", to_number, "a number", 100, "probability"),
    _heeded("useProbability", to_flag, _FLAG, True, "useProbability"),
    _heeded("depth", to_count, _COUNT, 4, "depth"),
    _heeded("outletName", to_text, _TEXT, "", "outlet_name"),
    _heeded("group", to_joined, _TEXT, "", "group"),
    _heeded("groupOverride", to_flag, _FLAG, False, "group_override"),
    _heeded("groupWeight", to_number, "a number", 100, "group_weight"),
    _heeded("scanDepth", or_null(to_count), _COUNT_OR_NULL, None, "scan_depth"),
    _heeded("caseSensitive", or_null(to_flag), _FLAG_OR_NULL, None, "case_sensitive"),
    _heeded("matchWholeWords", or_null(to_flag), _FLAG_OR_NULL, None, "match_whole_words"),
    _heeded("useGroupScoring", or_null(to_flag), _FLAG_OR_NULL, None, "use_group_scoring"),
    _ui("automationId", to_text, _TEXT, "", "automation_id"),
    _heeded("role", one_of(_ROLES, 3), "a role", 0, "role"),
    _heeded("sticky", or_null(to_count), _COUNT_OR_NULL, None, "sticky"),
    _heeded("cooldown", or_null(to_count), _COUNT_OR_NULL, None, "cooldown"),
    _heeded("delay", or_null(to_count), _COUNT_OR_NULL, None, "delay"),
    _heeded("triggers", to_keys, "a list of triggers", [], "triggers"),
    _heeded("characterFilter", to_character_filter, "a character filter", None, "character_filter"),
    _ui("displayIndex", to_number, "a number", None, "display_index"),
)
FIELDS_BY_NAME: Mapping[str, NativeField] = {field.name: field for field in NATIVE_FIELDS}
ENABLED = replace(FIELDS_BY_NAME["disable"], convert=to_other_flag, is_lossless=True)
"""The native field `disable`, read from a field with the opposite meaning (`enabled`)."""

DEFAULTS: Mapping[str, Any] = {
    field.name: field.default for field in NATIVE_FIELDS if field.name not in ("characterFilter", "displayIndex")
}
"""SillyTavern's defaults for native fields that an entry does not have. `characterFilter` and `displayIndex` have no default."""


def _snake(name: str) -> str:
    return re.sub("([A-Z])", lambda found: f"_{found[1].lower()}", name)


OTHER_NAMES: Mapping[str, NativeField] = {
    **{_snake(field.name): field for field in NATIVE_FIELDS if _snake(field.name) != field.name},
    **{other: field for field in NATIVE_FIELDS for other in field.other_names},
    "enabled": ENABLED,
}
"""Native fields by their other spellings."""
EXTENSION_NAMES: Mapping[str, NativeField] = {
    name: field
    for field in NATIVE_FIELDS
    if field.extension
    for name in (field.extension, field.name, _snake(field.name))
}
"""Native fields by their names in the `extensions` of an entry."""
CARD_NAMES: Mapping[str, NativeField] = {
    "keys": FIELDS_BY_NAME["key"],
    "secondary_keys": FIELDS_BY_NAME["keysecondary"],
    "comment": FIELDS_BY_NAME["comment"],
    "content": FIELDS_BY_NAME["content"],
    "constant": FIELDS_BY_NAME["constant"],
    "selective": FIELDS_BY_NAME["selective"],
    "insertion_order": FIELDS_BY_NAME["order"],
    "enabled": ENABLED,
}
"""Native fields by their names in an entry of a card."""


def take_fields(
    source: Mapping[str, Any],
    names: Mapping[str, NativeField],
    fields: dict[str, Any],
    counter: FieldCounter,
    path: str,
    *,
    place: str = "",
    keeps_unusable: bool = False,
) -> dict[str, Any]:
    """Move native fields from `source` into `fields`, converted, and return the remaining fields of `source`.

    `names` has the native field for each name in `source`. A field that is in `fields` already keeps its value there. If a
    value cannot be converted, it is counted as refused and left out. If `keeps_unusable`, the value remains in the returned
    mapping instead, because another program may use the name for something else.

    A field is counted under its native name, after the text `path`. A field that was in `fields` already is counted under
    its own name, after the texts `path` and `place`.
    """
    left = {}
    for name, value in source.items():
        field = names.get(name)
        if field is None:
            left[name] = value
        elif (value is None and DEFAULTS.get(field.name, "") is not None) or (value == "" and field.default != ""):
            continue
        elif _is_default(field, value) and field.name not in fields:
            # Most values of a file are defaults: this keeps a large book fast.
            fields[field.name] = value
            if value is not None and value != "" and value != []:
                counter.keep(f"{path}{field.name}", value)
        else:
            try:
                converted = field.convert(value)
            except ValueError:
                if keeps_unusable:
                    left[name] = value
                else:
                    counter.refuse(f"{path}{field.name}", value, f"{kind_of(value)} is not {field.kind}; left out")
                continue
            if field.name in fields:
                _count_again(field, fields[field.name], converted, counter, f"{path}{place}{name}")
            else:
                fields[field.name] = converted
                _count(field, value, converted, counter, f"{path}{field.name}")
    return left


def _is_default(field: NativeField, value: Any) -> bool:
    return type(value) is type(field.default) and value == field.default and not field.is_lossless


def _count(field: NativeField, value: Any, converted: Any, counter: FieldCounter, path: str) -> None:
    note = "" if converted == field.default else field.note(converted)
    if field.is_lossless or _is_same(value, converted):
        counter.keep(path, converted, note)
    else:
        counter.change(path, value, f"written as {kind_of(value)}; read as {field.kind}")


def _count_again(field: NativeField, first: Any, second: Any, counter: FieldCounter, path: str) -> None:
    if first == second:
        counter.keep(path, second, f"the same as {field.name}")
    else:
        counter.change(path, second, f"the entry has another {field.name}, which takes precedence")


def _is_same(value: Any, converted: Any) -> bool:
    return value == converted and isinstance(value, bool) == isinstance(converted, bool)

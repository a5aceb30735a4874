"""Fits a new value to the type of its field: another spelling of a legal value is converted, any other value is refused.

`$meta.types` declares the type of a field. In a typed state, a field without a declared type keeps the kind of its
value (text, number or truth value).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from filament.state.changes.guards import check_limits, has_type, type_text
from filament.state.conventions import is_number
from filament.state.descriptions import add_note
from filament.state.rules import ANY, OR_NULL, Rules
from filament.state.verdicts import Authority, Legal, Note, Refusal, RefusedError, Remark, find_nearest

NOTHING = object()
"""Sentinel for a field that did not exist."""
_NUMBER = re.compile(r"[+-]?[0-9]{1,15}(\.[0-9]{1,15})?")
_TRUTH: Mapping[str, bool] = {
    **dict.fromkeys(("true", "yes", "是", "真"), True),
    **dict.fromkeys(("false", "no", "否", "假"), False),
}
_UNREADABLE = object()


def fit_value(rules: Rules, field: str, old: Any, new: Any, notes: list[Note]) -> Any:
    """Return `new` fitted to the type of `field`. Remarks on each conversion are added to `notes`.

    Args:
        rules: Rules of the mapping that has `field`.
        old: The present value of `field`, or NOTHING if the field is new.

    Raises:
        RefusedError: if `new` does not fit the type or is outside the limits.
    """
    described = rules.is_described(field, new)
    plain = new[0] if described else new
    before = old[0] if old is not NOTHING and rules.is_described(field, old) else old
    fitted = _fit(rules, field, rules.type_of(field) or _kept_kind(rules, before), plain, notes)
    check_limits(rules, field, fitted)
    return [fitted, new[1]] if described else fitted


def fit_entry(rules: Rules, field: str, old: Any, new: Any, notes: list[Note]) -> Any:
    """Return `new` fitted to the kind of `old`, the entry that it replaces in the list in `field`.

    `rules` are the rules of the mapping that has `field`. Remarks on a conversion are added to `notes`. Raises RefusedError if
    `new` does not fit.
    """
    return _fit(rules, field, _kept_kind(rules, old), new, notes)


def fit_number(field: str, value: Any, notes: list[Note]) -> Any:
    """Return `value` as a number if it is a text that contains only a number. Return any other value unchanged.

    A remark on the conversion of `field` is added to `notes`.
    """
    made = _read_text("number", value) if isinstance(value, str) else _UNREADABLE
    if made is _UNREADABLE:
        return value
    _note_conversion(notes, field, value, made)
    return made


def _kept_kind(rules: Rules, old: Any) -> str | None:
    """Return the type that a field keeps because its value has it, or None if it is unknown."""
    if not rules.typed or rules.authority is Authority.AUTHOR:
        return None
    if isinstance(old, bool):
        return "boolean"
    if is_number(old):
        return "number"
    return "text" if isinstance(old, str) else None


def _fit(rules: Rules, field: str, word: str | tuple[Any, ...] | None, plain: Any, notes: list[Note]) -> Any:
    if word is None or has_type(word, plain):
        return plain
    if isinstance(word, tuple):
        made = _find_choice(word, rules.synonyms_of(field), plain)
        if made is not _UNREADABLE:
            add_note(notes, Remark.NORMALISED, field, f"{plain!r} was read as {made!r}, a legal value of {field!r}.")
            return made
        near = find_nearest(_normal_form(plain), (str(choice) for choice in word))
        hint = f"; did you mean {near!r}?" if near else ""
        reason = f"{field!r} takes {type_text(word)}, not {plain!r} ($meta.types){hint}"
        raise RefusedError(Refusal.WRONG_TYPE, reason, Legal(field=field, near=near, choices=word))
    kind = word.removesuffix(OR_NULL)
    made = _read_text(kind, plain) if isinstance(plain, str) else _UNREADABLE
    if made is not _UNREADABLE:
        _note_conversion(notes, field, plain, made)
        return made
    ruled = " ($meta.types)" if rules.type_of(field) is not None else ", as it holds now"
    reason = f"{field!r} takes {type_text(word)}{ruled}"
    limits = rules.limits_of(field)
    raise RefusedError(Refusal.WRONG_TYPE, reason, Legal(field=field, kind="" if kind == ANY else kind, limits=limits))


def _find_choice(choices: tuple[Any, ...], synonyms: Mapping[str, str], plain: Any) -> Any:
    """Return the choice that another spelling or a synonym means."""
    if not isinstance(plain, str | bool | int):
        return _UNREADABLE
    given = _normal_form(plain)
    by_form = {_normal_form(choice): choice for choice in choices}
    if given in by_form:
        return by_form[given]
    meant = synonyms.get(given)
    return meant if meant in choices else _UNREADABLE


def _read_text(kind: str, text: str) -> Any:
    """Return the number or truth value that a text is."""
    form = _normal_form(text)
    if kind == "boolean":
        return _TRUTH.get(form, _UNREADABLE)
    given = unicodedata.normalize("NFKC", text).strip()
    found = _NUMBER.fullmatch(given) if kind in ("number", "integer") else None
    if found is None or (kind == "integer" and found[1]):
        return _UNREADABLE
    return float(given) if found[1] else int(given)


def _normal_form(value: Any) -> str:
    text = unicodedata.normalize("NFKC", str(value)).casefold()
    return " ".join(text.replace("_", " ").replace("-", " ").split()).strip(" .!。")


def _note_conversion(notes: list[Note], field: str, given: str, made: Any) -> None:
    add_note(notes, Remark.CONVERTED, field, f"{given!r} was text and was read as {str(made).lower()}.")

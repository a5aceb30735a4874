"""Chooses the description of a value that was set, so that a changed number does not keep a description that no longer fits.

A VWD is a value with a description, `[value, "text"]`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from filament.state.conventions import META, is_number, is_pair, is_scalar, same_scalar
from filament.state.rules import KEEP, VALUE, Rules, rules_at_root
from filament.state.verdicts import Note, Remark


def look_up_text(table: Sequence[tuple[Any, str]], value: Any) -> str | None:
    """Return the text that `table`, a sequence of (value, text), has for `value`. Return None if the table has none.

    A table whose keys are all numbers is read in steps. The row with the highest number that is not above `value` counts. If
    `value` is below all numbers, the first row counts. In any other table, the row whose key equals `value` counts.
    """
    if all(is_number(row[0]) for row in table):
        if not is_number(value):
            return None
        reached = [row for row in table if row[0] <= value]
        return reached[-1][1] if reached else table[0][1]
    return next((text for known, text in table if same_scalar(known, value)), None)


def describe_new_value(rules: Rules, field: str, old: Any, new: Any, notes: list[Note]) -> Any:
    """Return the new content of `field` after `new` is set in it: a plain value, or a VWD `[value, text]`.

    `new` is a scalar, or a pair of a value and its description. `old` is the present content, or None if there is none. The
    description is the first of these that exists: the description by the author's rule in `rules`, the description in `new`,
    the old description. If the value changes, the old description is dropped, unless the author's rule keeps it. Remarks
    are added to `notes`.
    """
    value, given = (new[0], new[1]) if is_pair(new) else (new, None)
    rule = rules.description_rule(field)
    text = derive_text(rule, value)
    if text is not None:
        if given is not None and given != text:
            add_note(notes, Remark.DESCRIPTION_RULED, field, f"{field!r} is described by the world's rule: {text!r}.")
        return [value, text]
    if given is not None:
        return [value, given]
    if not is_pair(old):
        return value
    if same_scalar(old[0], value) or rule == KEEP:
        return [value, old[1]]
    sentence = f"{old[1]!r} was dropped with the old value of {field!r}; give [value, description] for a new one."
    add_note(notes, Remark.DESCRIPTION_DROPPED, field, sentence)
    return value


def derive_text(rule: str | tuple[tuple[Any, str], ...] | None, value: Any) -> str | None:
    """Return the description of `value` by `rule`. Return None if `rule` has no description for it.

    `rule` is the author's rule for the field: a table, a text with a placeholder, or None.
    """
    if isinstance(rule, tuple):
        return look_up_text(rule, value)
    return rule.replace(VALUE, _value_text(value)) if isinstance(rule, str) and VALUE in rule else None


def _value_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)


def add_note(notes: list[Note], code: Remark, field: str, text: str) -> None:
    """Add a remark on `field` to `notes`: its `code`, and its `text` as a sentence."""
    notes.append(Note(code=code, field=field, text=text))


def with_descriptions(tree: Any) -> Any:
    """Return `tree` with the author's descriptions added to plain values.

    A plain value gets a description if the author wrote a table, or a text with a placeholder, for its field. Values
    that have a description do not change. Unchanged parts are shared with `tree`.
    """
    return _describe_values(tree, rules_at_root(tree))


def _describe_values(node: Any, rules: Rules) -> Any:
    """Return a mapping with its plain values described; `rules` are its own."""
    if not isinstance(node, Mapping):
        return node
    described = {key: value if key == META else _describe_field(rules, key, value) for key, value in node.items()}
    return described if any(described[key] is not value for key, value in node.items()) else node


def _describe_field(rules: Rules, key: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return _describe_values(value, rules.rules_below(key, value))
    if rules.is_list(key, value):
        return _describe_entries(rules, key, value)
    rule = rules.description_rule(key) if is_scalar(value) else None
    return value if derive_text(rule, value) is None else describe_new_value(rules, key, None, value, [])


def _describe_entries(rules: Rules, key: str, entries: Sequence[Any]) -> Any:
    described = [
        _describe_values(entry, rules.rules_below(key, entry, entry=True))
        if isinstance(entry, Mapping)
        else _describe_entries(rules, key, entry)
        if isinstance(entry, list)
        else entry
        for entry in entries
    ]
    return described if any(new is not old for new, old in zip(described, entries, strict=True)) else entries

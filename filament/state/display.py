"""Converts the state tree to the form that a model sees: values with their descriptions, without the author's rules.

A VWD is a value with a description, `[value, "text"]`. `$meta` of a mapping contains the author's rules for it. Hidden fields
can be removed, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from filament.payload import number_text
from filament.state.conventions import EMPTY, META, anchors_of, is_mapping, is_pair, meta_of
from filament.state.rules import HIDDEN, LIMITS, LISTS, TYPES, UNITS, Rules, is_group, rules_at_root
from filament.state.verdicts import RefusedError

_SHOWN_RULES = (LIMITS, TYPES, UNITS)
_LEAVES = frozenset({str, int, float, bool, type(None)})
_NONE: frozenset[str] = frozenset()
_GONE = object()


def display(tree: Any) -> Any:
    """Return `tree` as a model sees it: each VWD as `value (description)`, without `$meta`, keys in stored order.

    Values are shown exactly as stored. If the description of a VWD is empty, only the value is shown. The result shares
    nothing with `tree`. Hidden fields are still in the result; `without_hidden` removes them.
    """
    return _display_node(tree, rules_at_root(tree), "")


def _display_node(node: Any, rules: Rules, field: str) -> Any:
    """Return a node as shown; `rules` are a mapping's own rules, for any other node those of the mapping above."""
    if rules.is_described(field, node):
        value, text = node
        return f"{_plain_value(value)} ({text})" if text else value
    if is_mapping(node):
        return {
            key: _display_node(value, rules.rules_below(key, value) if is_mapping(value) else rules, key)
            for key, value in node.items()
            if key != META
        }
    if isinstance(node, list | tuple):
        return [
            _display_node(item, rules.rules_below(field, item, entry=True) if is_mapping(item) else rules, field)
            for item in node
        ]
    return node


def without_hidden(tree: Any) -> Any:
    """Return `tree` without the fields that `$meta.hidden` hides from models and players.

    If nothing is hidden, `tree` itself is returned.
    """
    hides, follows_templates = _find_hidden(tree)
    if not hides:
        return tree
    shown = _drop_hidden(tree, rules_at_root(tree) if follows_templates else None, "")
    return {} if shown is _GONE else shown


def _find_hidden(tree: Any) -> tuple[bool, bool]:
    """Return whether any mapping hides something, and whether a template in a `$meta` does."""
    hides, stack = False, [(tree, False)]
    while stack:
        node, is_in_meta = stack.pop()
        # Loops, because a turn walks the whole state and a comprehension is a call.
        if is_mapping(node):
            for key, value in node.items():
                if type(value) in _LEAVES:
                    continue
                if key == META and is_mapping(value) and HIDDEN in value:
                    if is_in_meta:
                        return True, True
                    hides = True
                stack.append((value, is_in_meta or key == META))
        else:
            for value in node if isinstance(node, list | tuple) else ():
                if type(value) not in _LEAVES:
                    stack.append((value, is_in_meta))
    return hides, False


def _drop_hidden(node: Any, rules: Rules | None, field: str) -> Any:
    """Return a node without its hidden parts, _GONE if it is hidden itself. `rules` are a mapping's own, for any other
    node those of the mapping above, and None if every mapping hides only by its own `$meta`.
    """
    if is_mapping(node):
        meta = (meta_of(node) if META in node else EMPTY) if rules is None else rules.meta
        named = meta.get(HIDDEN)
        if named is True:
            return _GONE
        hidden = frozenset(named) if isinstance(named, list | tuple) else _NONE
        shown = {}
        for key, value in node.items():
            if key in hidden:
                continue
            if key != META and type(value) not in _LEAVES:
                inner = rules.rules_below(key, value) if rules is not None and is_mapping(value) else rules
                value = _drop_hidden(value, inner, key)
            if value is not _GONE:
                shown[key] = value
        return shown
    if isinstance(node, list | tuple) and (rules is None or not rules.is_described(field, node)):
        kept = []
        for item in node:
            if type(item) not in _LEAVES:
                inner = rules.rules_below(field, item, entry=True) if rules is not None and is_mapping(item) else rules
                item = _drop_hidden(item, inner, field)
            if item is not _GONE:
                kept.append(item)
        return kept
    return node


def is_hidden_at(tree: Any, tokens: Iterable[str]) -> bool:
    """Return whether the value at the path `tokens` is hidden from models, or is inside of a hidden mapping."""
    node, rules, field, is_entry = tree, rules_at_root(tree), "", False
    for token in tokens:
        if is_mapping(node):
            inner = node.get(token)
            if rules.hides(token, inner):
                return True
            field, is_entry = token, False
        elif isinstance(node, list | tuple):
            inner = node[int(token)] if token.isdecimal() and int(token) < len(node) else None
            is_entry = True
        else:
            return False
        if is_mapping(inner):
            rules = rules.rules_below(field, inner, entry=is_entry)
            if rules.meta.get(HIDDEN) is True:
                return True
        node = inner
    return False


def list_limits(tree: Any) -> dict[str, list[str]]:
    """Return the rules for values that a model has to know, each mapped to the paths of the fields with this rule.

    A rule is a text: a range (`0..100`, `≥ 0`, `≤ 9`), the values to choose from (`novice | master`), a unit, or a range with
    its unit. Paths have the form that ops use and are in reading order. Fields that the tree does not have are left out. If a
    template has a rule for all mappings in a group, one path with `*` is listed (`people.*.trust`).
    """
    found: dict[str, dict[str, None]] = {}
    for rule, path in _walk_limits(tree, rules_at_root(tree), "", "", ""):
        found.setdefault(rule, {})[path] = None
    return {rule: list(paths) for rule, paths in found.items()}


def _walk_limits(node: Any, rules: Rules, base: str, field: str, group: str) -> Iterator[tuple[str, str]]:
    """Yield (rule, path) for the fields of a node; `base` is its path, `rules` are a mapping's own, `group` is the path of the
    mapping whose template it follows.
    """
    if is_mapping(node):
        base = next(iter(anchors_of(node)), base)
        has_rules = not rules.meta.keys().isdisjoint(_SHOWN_RULES)
        own = meta_of(node)
        for key, value in node.items():
            if key == META:
                continue
            path = f"{base}.{key}" if base else key
            if is_mapping(value):
                shared = base if rules.holds_things and not is_group(value) else ""
                yield from _walk_limits(value, rules.rules_below(key, value), path, key, shared)
            elif rules.is_list(key, value):
                yield from _walk_limits(value, rules, path, key, "")
            elif has_rules and (rule := _describe_rule(rules, key)):
                is_shared = group and not any(key in own.get(each, ()) for each in _SHOWN_RULES)
                yield rule, f"{group}.*.{key}" if is_shared else path
    elif isinstance(node, list | tuple):
        for item in node:
            if is_mapping(item) and anchors_of(item):
                yield from _walk_limits(item, rules.rules_below(field, item, entry=True), "", field, "")


def _describe_rule(rules: Rules, field: str) -> str:
    try:
        limits, kind = rules.limits_of(field), rules.type_of(field)
    except RefusedError:
        return ""
    choices = " | ".join(_plain_value(each) for each in kind) if isinstance(kind, tuple) else ""
    low, high = (None, None) if limits is None else (_end_text(end) for end in limits)
    if low is not None and high is not None:
        words = f"{low}..{high}"
    else:
        words = f"≥ {low}" if low is not None else f"≤ {high}" if high is not None else ""
    return " ".join(part for part in (choices, words, rules.unit_of(field)) if part)


def _end_text(end: float | None) -> str | None:
    return None if end is None else _plain_value(end)


def with_own_lists(tree: Any) -> Any:
    """Return `tree` with every list field declared in the `$meta.lists` of its own mapping.

    Some list fields are declared only in a template. If a part of the tree is shown separately, that template is missing, and a
    list of two could be read as a VWD. A tree without such a template is returned unchanged.
    """
    return _display_field(tree, rules_at_root(tree), "")


def _display_field(node: Any, rules: Rules, field: str) -> Any:
    if is_mapping(node):
        spelled = {
            key: value
            if key == META
            else _display_field(value, rules.rules_below(key, value) if is_mapping(value) else rules, key)
            for key, value in node.items()
        }
        if own := sorted(rules.lists & node.keys()):
            own_meta = meta_of(node)
            if set(own) - set(own_meta.get(LISTS, ())):
                return {**spelled, META: {**own_meta, LISTS: own}}
        return spelled if any(spelled[key] is not value for key, value in node.items()) else node
    if isinstance(node, list | tuple) and not is_pair(node):
        items = [
            _display_field(item, rules.rules_below(field, item, entry=True) if is_mapping(item) else rules, field)
            for item in node
        ]
        return items if any(new is not old for new, old in zip(items, node, strict=True)) else node
    return node


def _plain_value(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return number_text(value) if isinstance(value, float) else str(value)

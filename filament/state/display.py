"""The state tree as it is shown to a model: values with their descriptions, without the author's rules. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from filament.payload import number_text
from filament.state.conventions import META, is_pair, meta_of
from filament.state.rules import LISTS, Rules, rules_at_root


def display(tree: Any) -> Any:
    """Return the tree as a model sees it: VWDs as `value (description)`, without `$meta`, keys in stored order.

    Values are shown exactly as stored; an empty description leaves the bare value. The result shares nothing with the
    tree.
    """
    return _display_node(tree, rules_at_root(tree), "")


def _display_node(node: Any, rules: Rules, field: str) -> Any:
    """Return a node as shown; `rules` are a mapping's own rules, for any other node those of the mapping above."""
    if rules.is_described(field, node):
        value, text = node
        return f"{_plain_value(value)} ({text})" if text else value
    if isinstance(node, Mapping):
        return {
            key: _display_node(value, rules.rules_below(key, value) if isinstance(value, Mapping) else rules, key)
            for key, value in node.items()
            if key != META
        }
    if isinstance(node, list | tuple):
        return [
            _display_node(
                item, rules.rules_below(field, item, entry=True) if isinstance(item, Mapping) else rules, field
            )
            for item in node
        ]
    return node


def with_own_lists(tree: Any) -> Any:
    """Return the tree in which every mapping names its list fields in its own `$meta.lists`.

    A template's `lists` would be lost when a part of a tree is shown by itself; this copies them in. A tree without
    such a template is returned unchanged.
    """
    return _display_field(tree, rules_at_root(tree), "")


def _display_field(node: Any, rules: Rules, field: str) -> Any:
    if isinstance(node, Mapping):
        spelled = {
            key: value
            if key == META
            else _display_field(value, rules.rules_below(key, value) if isinstance(value, Mapping) else rules, key)
            for key, value in node.items()
        }
        if own := sorted(rules.lists & node.keys()):
            own_meta = meta_of(node)
            if set(own) - set(own_meta.get(LISTS, ())):
                return {**spelled, META: {**own_meta, LISTS: own}}
        return spelled if any(spelled[key] is not value for key, value in node.items()) else node
    if isinstance(node, list | tuple) and not is_pair(node):
        items = [
            _display_field(
                item, rules.rules_below(field, item, entry=True) if isinstance(item, Mapping) else rules, field
            )
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

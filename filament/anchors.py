"""Anchors of a state tree (seed 004 section 5.3) and the tree as a model is shown it.

A mapping with an `id` is an entity, a mapping with an `_anchor` a container that may grow. What is shown and what the
flat paths of a reply resolve against come from here. Pure; a tree is never changed, only copied where it differs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from filament.departed import departed
from filament.described import ANCHOR, ID, META, anchors_of, is_pair, meta_of
from filament.errors import AnchorError
from filament.payload import number_text
from filament.pointer import Tokens, join_pointer
from filament.rules import LISTS, Rules, rules_at_root

_MADE_ID = re.compile(r"item_([1-9][0-9]{0,17})", re.ASCII)


def collect_anchors(tree: Any) -> dict[str, str]:
    """Return anchor -> JSON Pointer for every `id` and `_anchor`, in reading order.

    AnchorError lists every anchor that stands at more than one place. `$meta` is not looked into.
    """
    places: dict[str, list[Tokens]] = {}
    for anchor, tokens in walk_anchors(tree):
        places.setdefault(anchor, []).append(tokens)
    duplicates = {name: tuple(map(join_pointer, found)) for name, found in places.items() if len(found) > 1}
    if duplicates:
        raise AnchorError(duplicates)
    return {anchor: join_pointer(found[0]) for anchor, found in places.items()}


def walk_anchors(tree: Any, at: Tokens = ()) -> Iterator[tuple[str, Tokens]]:
    """Yield (anchor, tokens of its mapping) in reading order, duplicates too; `at` goes before all tokens."""
    stack: list[tuple[Any, Tokens]] = [(tree, at)]
    while stack:
        node, tokens = stack.pop()
        if isinstance(node, Mapping):
            for anchor in anchors_of(node):
                yield anchor, tokens
            inner = [(value, (*tokens, key)) for key, value in node.items() if key != META]
        elif isinstance(node, list | tuple):
            inner = [(value, (*tokens, str(place))) for place, value in enumerate(node)]
        else:
            continue
        stack.extend(reversed(inner))


def next_item_id(taken: Any) -> Iterator[str]:
    """Yield `item_<n>` for rising n, from one above the highest such name in `taken`."""
    made = (_MADE_ID.fullmatch(name) for name in taken)
    number = max((int(match.group(1)) for match in made if match), default=0)
    while True:
        number += 1
        yield f"item_{number}"


def with_anchors(tree: Any) -> Any:
    """Return the tree in which every mapping inside a container's list has an `id`.

    A mapping without one gets `item_<n>`, in reading order, numbered on from the highest such id that is or was in the
    tree. The same tree gives the same ids; a tree that lacks none is returned as it is.
    """
    return named(tree, next_item_id({*departed(tree), *(anchor for anchor, _ in walk_anchors(tree))}))


def named(node: Any, fresh: Iterator[str]) -> Any:
    """Return a node in which every mapping inside a container's list has an `id`; those without take the next of `fresh`."""
    if isinstance(node, Mapping):
        grows = isinstance(node.get(ANCHOR), str)
        fields = {key: _named_field(key, value, fresh, grows=grows) for key, value in node.items()}
        return fields if any(fields[key] is not value for key, value in node.items()) else node
    if isinstance(node, list | tuple):
        items = [named(item, fresh) for item in node]
        return items if any(new is not old for new, old in zip(items, node, strict=True)) else node
    return node


def _named_field(key: str, value: Any, fresh: Iterator[str], *, grows: bool) -> Any:
    if key == META:
        return value
    if grows and isinstance(value, list | tuple) and any(_is_nameless(item) for item in value):
        value = [{ID: next(fresh), **item} if _is_nameless(item) else item for item in value]
    return named(value, fresh)


def _is_nameless(item: Any) -> bool:
    return isinstance(item, Mapping) and ID not in item


def display(tree: Any) -> Any:
    """Return the tree as a model is shown it: VWDs as `value (description)`, `$meta` gone, keys in stored order.

    Values stand exactly as stored; an empty description leaves the bare value. Shares nothing with the tree.
    """
    return _shown(tree, rules_at_root(tree), "")


def _shown(node: Any, rules: Rules, field: str) -> Any:
    """Return a node as shown; `rules` are those of a mapping itself, of all else those of the mapping above."""
    if rules.is_described(field, node):
        value, text = node
        return f"{_plain(value)} ({text})" if text else value
    if isinstance(node, Mapping):
        return {
            key: _shown(value, rules.below(key, value) if isinstance(value, Mapping) else rules, key)
            for key, value in node.items()
            if key != META
        }
    if isinstance(node, list | tuple):
        return [
            _shown(item, rules.below(field, item, entry=True) if isinstance(item, Mapping) else rules, field)
            for item in node
        ]
    return node


def with_own_lists(tree: Any) -> Any:
    """Return the tree in which every mapping says in its own `$meta.lists` which of its fields are lists.

    What a template says of lists gets lost when a part of a tree is shown by itself; this keeps it. A tree that has no
    such template is returned as it is.
    """
    return _spelled(tree, rules_at_root(tree), "")


def _spelled(node: Any, rules: Rules, field: str) -> Any:
    if isinstance(node, Mapping):
        spelled = {
            key: value
            if key == META
            else _spelled(value, rules.below(key, value) if isinstance(value, Mapping) else rules, key)
            for key, value in node.items()
        }
        if own := sorted(rules.lists & node.keys()):
            own_meta = meta_of(node)
            if set(own) - set(own_meta.get(LISTS, ())):
                return {**spelled, META: {**own_meta, LISTS: own}}
        return spelled if any(spelled[key] is not value for key, value in node.items()) else node
    if isinstance(node, list | tuple) and not is_pair(node):
        items = [
            _spelled(item, rules.below(field, item, entry=True) if isinstance(item, Mapping) else rules, field)
            for item in node
        ]
        return items if any(new is not old for new, old in zip(items, node, strict=True)) else node
    return node


def _plain(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return number_text(value) if isinstance(value, float) else str(value)

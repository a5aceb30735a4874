"""Finds the anchors of a state tree, by which ops address mappings, and gives ids to things without an id.

A thing is a mapping in a list or group, such as an item in a bag. An anchor is the `id` of a thing, or the `_anchor` of a
container (a mapping that may grow). The id of a removed thing is never given to another thing: the root's `$meta.gone` keeps the
ids of removed things with their names. A thing with the same name may return under its old id, for example after a move from
one bag to another. The functions never change a tree; they return a copy that shares the unchanged parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from filament.errors import AnchorError
from filament.state.conventions import ANCHOR, EMPTY, ID, META, anchors_of, is_mapping, label_of, meta_of
from filament.state.pointer import Tokens, join_pointer, look_up
from filament.state.quests import QUESTS
from filament.state.rules import GONE, TEMPLATE, Rules, is_group, rules_at_root

_LEAVES = frozenset({str, int, float, bool, type(None)})
_MADE_ID = re.compile(r"item_([1-9][0-9]{0,17})", re.ASCII)
_KEY_ID = re.compile(r"[^\s\x00-\x1f\x7f./~]{1,128}")


def collect_anchors(tree: Any) -> dict[str, str]:
    """Return a mapping from each `id` and `_anchor` to its JSON Pointer, in reading order. `$meta` is not searched.

    Raises:
        AnchorError: if an anchor occurs at more than one place. The error lists all such anchors.
    """
    places: dict[str, list[Tokens]] = {}
    for anchor, tokens in walk_anchors(tree):
        places.setdefault(anchor, []).append(tokens)
    duplicates = {name: tuple(map(join_pointer, found)) for name, found in places.items() if len(found) > 1}
    if duplicates:
        raise AnchorError(duplicates)
    return {anchor: join_pointer(found[0]) for anchor, found in places.items()}


def walk_anchors(tree: Any, at: Tokens = ()) -> Iterator[tuple[str, Tokens]]:
    """Yield (anchor, tokens) for each `id` and `_anchor` of `tree` in reading order. Duplicates are yielded, too.

    `tokens` are the steps to the mapping that has the anchor; they begin with `at`, the place of `tree`.
    """
    stack: list[tuple[Any, Tokens]] = [(tree, at)]
    while stack:
        node, tokens = stack.pop()
        inner: list[tuple[Any, Tokens]] = []
        # Loops, because a turn walks the state several times and a comprehension is a call.
        if is_mapping(node):
            for anchor in anchors_of(node):
                yield anchor, tokens
            for key, value in node.items():
                if type(value) not in _LEAVES and key != META:
                    inner.append((value, (*tokens, key)))
        elif isinstance(node, list | tuple):
            for place, value in enumerate(node):
                if type(value) not in _LEAVES:
                    inner.append((value, (*tokens, str(place))))
        stack.extend(reversed(inner))


def item_number(names: Iterable[str]) -> int:
    """Return the highest number `n` among the names of the form `item_<n>`, or 0 if there is none."""
    return max(map(made_number, names), default=0)


def made_number(name: str) -> int:
    """Return `n` for a name of the form `item_<n>`, or 0 for any other name."""
    match = _MADE_ID.fullmatch(name)
    return int(match[1]) if match else 0


def next_item_id(taken: Iterable[str]) -> Iterator[str]:
    """Yield `item_<n>` with rising `n`, starting after the highest such name in `taken`."""
    number = item_number(taken)
    while True:
        number += 1
        yield f"item_{number}"


def with_anchors(tree: Any) -> Any:
    """Return `tree` with an `id` in every mapping in a list and in every mapping that follows the template of its group.

    - A mapping in a list gets `item_<n>`, numbered in reading order from the highest such id that is or was in the
      tree. Lists of containers are numbered first, because older prompts showed ids only in containers, and those ids must
      keep their meaning.
    - A thing in a group gets its key as its id. It gets `item_<n>` instead if the key is or was the id of another
      thing, or is a top field of the tree.

    The same tree always gives the same ids. A tree in which all ids are present is returned unchanged.
    """
    is_nameless, has_groups = _find_nameless(tree)
    if is_nameless:
        fresh = next_item_id({*read_removed_ids(tree), *(anchor for anchor, _ in walk_anchors(tree))})
        tree = _assign_ids(_assign_ids(tree, fresh, everywhere=False), fresh, everywhere=True)
    return _name_things(tree) if has_groups else tree


def _find_nameless(tree: Any) -> tuple[bool, bool]:
    """Return whether any list holds a mapping without an `id`, and whether one that follows a template may lack an anchor;
    `$meta` is not searched.
    """
    quests = tree.get(QUESTS) if is_mapping(tree) else None
    # Quests have a template of their own; usually all have ids, and a turn has nothing to look for.
    is_nameless, has_groups = False, is_mapping(quests) and any(map(_is_nameless, quests.values()))
    stack = [tree]
    while stack:
        node = stack.pop()
        if is_mapping(node):
            for key, value in node.items():
                if key == META:
                    has_groups = has_groups or (
                        is_mapping(value) and TEMPLATE in value and _may_be_nameless(node, value)
                    )
                elif type(value) not in _LEAVES:
                    stack.append(value)
        elif isinstance(node, list | tuple):
            for item in node:
                if type(item) not in _LEAVES:
                    is_nameless = is_nameless or _is_nameless(item)
                    stack.append(item)
    return is_nameless, has_groups


def _may_be_nameless(group: Mapping[str, Any], meta: Mapping[str, Any]) -> bool:
    """Return whether a mapping with a template holds a thing without an anchor, or may do so deeper, by a template within it."""
    if any(_is_nameless(value) and ANCHOR not in value for key, value in group.items() if key != META):
        return True
    stack = [meta[TEMPLATE]]
    while stack:
        node = stack.pop()
        if is_mapping(node):
            if TEMPLATE in meta_of(node):
                return True
            stack += [value for value in node.values() if type(value) not in _LEAVES]
    return False


def _name_things(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a tree in which every thing that follows the template of its group has an anchor."""
    nameless = list(_walk_nameless_things(tree, rules_at_root(tree), ()))
    if not nameless:
        return tree
    gone, taken = read_removed_ids(tree), {*tree, *(anchor for anchor, _ in walk_anchors(tree))}
    fresh = next_item_id({*gone, *taken, *(tokens[-1] for tokens in nameless)})
    for tokens in nameless:
        key, thing = tokens[-1], look_up(tree, tokens)[1]
        is_free = key not in taken and gone.get(key, label_of(thing)) == label_of(thing)
        name = key if is_free and _KEY_ID.fullmatch(key) else next(fresh)
        taken.add(name)
        tree = _replace_node(tree, tokens, {ID: name, **thing})
    return tree


def _walk_nameless_things(node: Any, rules: Rules, at: Tokens) -> Iterator[Tokens]:
    """Yield the places of things without an anchor, in reading order; `rules` are a mapping's own."""
    if is_mapping(node):
        for key, value in node.items():
            if key == META or type(value) in _LEAVES:
                continue
            # Things directly in the tree are addressed by their unchanged key.
            if at and rules.holds_things and _is_nameless(value) and ANCHOR not in value and not is_group(value):
                yield (*at, key)
            inner = rules.rules_below(key, value) if is_mapping(value) else rules
            yield from _walk_nameless_things(value, inner, (*at, key))
    elif isinstance(node, list | tuple):
        field = at[-1] if at else ""
        for place, item in enumerate(node):
            if type(item) not in _LEAVES:
                inner = rules.rules_below(field, item, entry=True) if is_mapping(item) else rules
                yield from _walk_nameless_things(item, inner, (*at, str(place)))


def _replace_node(tree: Any, tokens: Tokens, node: Any) -> Any:
    """Return a copy of a tree with another node at a place."""
    if not tokens:
        return node
    step, rest = tokens[0], tokens[1:]
    if is_mapping(tree):
        return {**tree, step: _replace_node(tree[step], rest, node)}
    place = int(step)
    return [*tree[:place], _replace_node(tree[place], rest, node), *tree[place + 1 :]]


def list_made_ids(tree: Any) -> list[tuple[str, str]]:
    """Return (id, JSON Pointer) for each thing whose id has the form `item_<n>`, which `with_anchors` makes."""
    return [(name, join_pointer(tokens)) for name, tokens in walk_anchors(tree) if _MADE_ID.fullmatch(name)]


def assign_item_ids(node: Any, fresh: Iterator[str]) -> Any:
    """Return `node` with an `id` in every mapping in a list. A mapping without an id takes the next id from `fresh`."""
    return _assign_ids(node, fresh, everywhere=True)


def _assign_ids(node: Any, fresh: Iterator[str], *, everywhere: bool) -> Any:
    """Assign ids in all lists, or only in those of containers."""
    if type(node) in _LEAVES:
        return node
    if is_mapping(node):
        grows = everywhere or isinstance(node.get(ANCHOR), str)
        fields = {
            key: _assign_field_ids(key, value, fresh, grows=grows, everywhere=everywhere) for key, value in node.items()
        }
        return fields if any(fields[key] is not value for key, value in node.items()) else node
    if isinstance(node, list | tuple):
        items = [_assign_ids(item, fresh, everywhere=everywhere) for item in node]
        return items if any(new is not old for new, old in zip(items, node, strict=True)) else node
    return node


def _assign_field_ids(key: str, value: Any, fresh: Iterator[str], *, grows: bool, everywhere: bool) -> Any:
    if key == META or type(value) in _LEAVES:
        return value
    if grows and isinstance(value, list | tuple) and any(_is_nameless(item) for item in value):
        value = [{ID: next(fresh), **item} if _is_nameless(item) else item for item in value]
    return _assign_ids(value, fresh, everywhere=everywhere)


def _is_nameless(item: Any) -> bool:
    return is_mapping(item) and ID not in item


def read_removed_ids(tree: Any) -> Mapping[str, str]:
    """Return the ids of removed things, mapped to their names. The result is empty if nothing was removed."""
    gone = meta_of(tree).get(GONE)
    return gone if isinstance(gone, Mapping) else EMPTY


def patch_removed_ids(tree: Any, left: Mapping[str, str], back: Iterable[str]) -> list[dict[str, Any]]:
    """Return the JSON Patch that updates `$meta.gone` of `tree`. The patch is empty if there is nothing to record.

    The patch adds the removed things `left` (names by id), and deletes the ids `back`, whose things have returned.
    """
    if not isinstance(tree, Mapping):
        return []
    known = read_removed_ids(tree)
    changes = [{"op": "remove", "path": join_pointer((META, GONE, name))} for name in back if name in known]
    if not left:
        return changes
    if META not in tree:
        return [*changes, {"op": "add", "path": f"/{META}", "value": {GONE: dict(left)}}]
    if GONE not in meta_of(tree):
        return [*changes, {"op": "add", "path": f"/{META}/{GONE}", "value": dict(left)}]
    entered = ({"op": "add", "path": join_pointer((META, GONE, name)), "value": label} for name, label in left.items())
    return [*changes, *entered]

"""The state tree of a pack: quests merged in, its anchors found, its pairs and `$meta` checked.

Rules of the tree (spec 3.4; seed 004 section 5.3): a list `[scalar, text]` is a value with a description unless `$meta.lists`
of the mapping names the field; a mapping with `id` is an entity, one with `_anchor` a container; both are anchors, unique
in the tree. A flat path begins with an anchor, or else at the root.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mnemosyne.plain import Path as KeyPath
from mnemosyne.world.faults import FaultList, Place, called, did_you_mean
from mnemosyne.world.shapes import IDENTIFIER

QUESTS = "quests"
META = "$meta"
META_KEYS = ("limits", "updatable", "extensible", "lists", "necessary")
ANCHOR_KEYS = ("id", "_anchor")

Where = Callable[[KeyPath], Place]


@dataclass(kw_only=True, slots=True)
class StateTree:
    """A tree with its anchors; `anchors` maps each to the key path of its mapping."""

    root: dict[str, Any]
    anchors: dict[str, KeyPath] = field(default_factory=dict)

    def find(self, flat: str) -> KeyPath | None:
        """Return the key path that a flat path means in this tree, or None when it leads nowhere."""
        first, *rest = flat.split(".")
        path = self.anchors.get(first, (first,))
        node = self.at(path)
        for step in rest:
            if not isinstance(node, dict) or step not in node:
                return None
            node, path = node[step], (*path, step)
        return path if node is not MISSING else None

    def at(self, path: KeyPath) -> Any:
        """Return the node at a key path, or MISSING."""
        node: Any = self.root
        for step in path:
            if isinstance(node, dict):
                node = node.get(step, MISSING)
            elif isinstance(node, list) and isinstance(step, int) and step < len(node):
                node = node[step]
            else:
                return MISSING
        return node

    def nearest(self, flat: str) -> str:
        """Return `; did you mean …?` for a flat path that leads nowhere."""
        steps = flat.split(".")
        known = 0
        while known < len(steps) and self.find(".".join(steps[: known + 1])) is not None:
            known += 1
        if known == len(steps):
            return ""
        if known == 0:
            choices = [*self.anchors, *self.root]
        else:
            found = self.find(".".join(steps[:known]))
            node = self.at(found) if found is not None else None
            choices = [key for key in node if not key.startswith("$")] if isinstance(node, dict) else []
        return did_you_mean(steps[known], choices)


MISSING: Any = object()


def quest_state(quest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mapping that stands for a quest in the state: what the author wrote, with the fallbacks filled in.

    `$meta.lists` keeps lists of two ids from being read as a value with a description.
    """
    kept = {key: quest[key] for key in ("id", "title", "status", "description") if key in quest}
    kept["objectives"] = [dict(step) for step in quest.get("objectives", ()) if isinstance(step, dict)]
    links = {key: value for key, value in quest.get("links", {}).items() if value}
    if links:
        lists = [key for key in ("requires", "leads_to") if key in links]
        kept["links"] = {**links, **({META: {"lists": lists}} if lists else {})}
    if quest.get("entities"):
        kept |= {"entities": list(quest["entities"]), META: {"lists": ["entities"]}}
    kept |= {key: quest[key] for key in ("progress", "outcome") if quest.get(key) is not None}
    return kept


def read_tree(root: dict[str, Any], where: Where, faults: FaultList) -> StateTree:
    """Return the tree with its anchors, noting everything that breaks a rule of the tree; `where` tells places."""
    tree = StateTree(root=root)
    for path, node, described in _nodes(root, (), False):
        if isinstance(node, dict):
            _note_anchors(tree, path, node, where, faults)
            _check_keys(path, node, where, faults)
            _check_meta(path, node, where, faults)
        elif described:
            _check_pair(node, where(path), faults)
    for anchor, path in tree.anchors.items():
        if anchor in root and path != (anchor,):
            faults.add(
                where(path), f"has the anchor {anchor!r}, which is also a key at the root; give one another name"
            )
    return tree


def plain_value(node: Any, *, is_list: bool = False) -> Any:
    """Return the value of a pair `[scalar, description]`, and any other node as it is."""
    return node if is_list or not is_pair(node) else node[0]


def is_pair(node: Any) -> bool:
    """Return whether a node is a value with a description."""
    return (
        isinstance(node, list) and len(node) == 2 and isinstance(node[1], str) and not isinstance(node[0], dict | list)
    )


def read_pairs(root: Mapping[str, Any]) -> Iterator[str]:
    """Yield the key path, with dots, of every value with a description, in reading order."""
    for path, node, described in _nodes(root, (), False):
        if described and is_pair(node):
            yield ".".join(str(step) for step in path)


def meta_of(node: Any) -> Mapping[str, Any]:
    """Return the `$meta` of a mapping, empty where there is none."""
    meta = node.get(META) if isinstance(node, dict) else None
    return meta if isinstance(meta, dict) else {}


def lists_of(node: Any) -> tuple[Any, ...]:
    """Return the fields that `$meta.lists` of a mapping names."""
    lists = meta_of(node).get("lists")
    return tuple(lists) if isinstance(lists, list) else ()


def growing_list(node: Any) -> str | None:
    """Return the field of a container to which PUSH appends: `items`, or its only list; None when there is none."""
    if not isinstance(node, dict):
        return None
    if isinstance(node.get("items"), list):
        return "items"
    lists = [
        key
        for key, value in node.items()
        if isinstance(value, list) and key != META and (key in lists_of(node) or not is_pair(value))
    ]
    return lists[0] if len(lists) == 1 else None


def _nodes(node: Any, path: KeyPath, described: bool) -> Iterator[tuple[KeyPath, Any, bool]]:
    """Yield `(path, node, may be a pair)` for every node, parents first; `$meta` is no part of the tree."""
    yield path, node, described
    if isinstance(node, dict):
        lists = lists_of(node)
        for key, value in node.items():
            if key != META:
                yield from _nodes(value, (*path, key), key not in lists)
    elif isinstance(node, list) and not (described and is_pair(node)):
        for index, value in enumerate(node):
            yield from _nodes(value, (*path, index), True)


def _note_anchors(tree: StateTree, path: KeyPath, node: dict[str, Any], where: Where, faults: FaultList) -> None:
    for key in ANCHOR_KEYS:
        if key not in node:
            continue
        name, place = node[key], where((*path, key))
        if not isinstance(name, str):
            faults.add(place, f"is {called(name)}, but an anchor must be text; write it in quotes")
        elif not re.fullmatch(IDENTIFIER, name):
            faults.add(
                place, f"is {name[:80]!r}; an anchor has 1 to 128 characters, none of them a space, '.', '/' or '~'"
            )
        elif name in tree.anchors and tree.anchors[name] != path:
            other = tree.at(tree.anchors[name])
            first = where((*tree.anchors[name], next(each for each in ANCHOR_KEYS if other.get(each) == name)))
            faults.add(place, f"{name!r} is used already at {first} ({first.key}); give each its own id")
        else:
            tree.anchors[name] = path
    if "_anchor" in node and growing_list(node) is None:
        faults.add(where(path), "has an _anchor but no list that could grow; add 'items: []', or take the _anchor out")


def _check_keys(path: KeyPath, node: dict[str, Any], where: Where, faults: FaultList) -> None:
    for key in node:
        if not key.strip() or re.search(r"[\s.\x00-\x1f\x7f]", key):
            faults.add(
                where((*path, key)), f"has the key {key!r}, which no flat path can name; leave out spaces and dots"
            )
        elif key.startswith("$") and key != META:
            faults.add(where((*path, key)), f"begins with '$', which is kept for $meta{did_you_mean(key, (META,))}")


def _check_pair(node: Any, place: Place, faults: FaultList) -> None:
    if not isinstance(node, list) or len(node) != 2 or not isinstance(node[1], str):
        return
    if isinstance(node[0], list | dict):
        faults.add(
            place,
            f"is {called(node[0])} with a description; only a single value can have one. "
            "Describe the fields inside, or name this field in $meta.lists",
        )
    elif not node[1].strip():
        faults.add(place, "has an empty description; write one, or the value alone")


def _check_meta(path: KeyPath, node: dict[str, Any], where: Where, faults: FaultList) -> None:
    if META not in node:
        return
    meta, place = node[META], where((*path, META))
    if not isinstance(meta, dict):
        faults.add(place, f"is {called(meta)}, but must be a mapping; known keys: {', '.join(META_KEYS)}")
        return
    for key, value in meta.items():
        if key not in META_KEYS:
            near = did_you_mean(key, META_KEYS) or f"; known keys: {', '.join(META_KEYS)}"
            faults.add(place.at(key), f"is no key of $meta{near}")
        elif key in ("updatable", "extensible"):
            if not isinstance(value, bool):
                faults.add(place.at(key), f"is {called(value)}, but must be true or false; change it")
        elif key == "limits":
            _check_limits(node, value, place.at(key), faults)
        else:
            _check_named_fields(node, key, value, place.at(key), faults)


def _check_limits(node: dict[str, Any], limits: Any, place: Place, faults: FaultList) -> None:
    if not isinstance(limits, dict):
        faults.add(place, f"is {called(limits)}, but must be a mapping; write 'field: [least, most]'")
        return
    for name, bounds in limits.items():
        here = place.at(name)
        if not _is_field(node, name, here, faults):
            continue
        if not isinstance(bounds, list) or len(bounds) != 2 or not all(_is_number(each) for each in bounds):
            faults.add(here, "must be two numbers; write [least, most]")
            continue
        least, most = bounds
        value = plain_value(node[name])
        if least > most:
            faults.add(here, f"has a least value {least} above the most {most}; swap them")
        elif not _is_number(value):
            faults.add(here, f"limits {name!r}, which is {called(value)}; limits are for numbers")
        elif not least <= value <= most:
            faults.add(here, f"limits {name!r} to {least}..{most}, but it starts at {value}; change one of the two")


def _check_named_fields(node: dict[str, Any], key: str, names: Any, place: Place, faults: FaultList) -> None:
    if not isinstance(names, list):
        faults.add(place, f"is {called(names)}, but must be a list; write the fields in [ ]")
        return
    for index, name in enumerate(names):
        here = place.at(index)
        if _is_field(node, name, here, faults) and key == "lists" and not isinstance(node[name], list):
            faults.add(here, f"names {name!r}, which is {called(node[name])} and no list; take it out")


def _is_field(node: dict[str, Any], name: Any, place: Place, faults: FaultList) -> bool:
    if isinstance(name, str) and name in node and name != META:
        return True
    near = did_you_mean(name, node) if isinstance(name, str) else ""
    faults.add(place, f"names {name!r}, which is no field of this mapping{near or '; add the field or take it out'}")
    return False


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

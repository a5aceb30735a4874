"""The state tree of a pack: quests merged in, its anchors found, its pairs and `$meta` checked.

Rules of the tree (spec 3.4; seed 004 section 5.3): a list `[scalar, text]` is a value with a description unless `$meta.lists`
of the mapping names the field; a mapping with `id` is an entity, one with `_anchor` a container; both are anchors, unique
in the tree. A flat path begins with an anchor, or else at the root.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from filament.described import ANCHOR, ID, META, is_list, is_pair, plain_lists
from filament.guards import is_number
from filament.places import AnchorIndex, locate
from filament.pointer import look_up
from mnemosyne.plain import Path as KeyPath
from mnemosyne.world.faults import FaultList, Place, called, did_you_mean
from mnemosyne.world.shapes import IDENTIFIER

QUESTS = "quests"
META_KEYS = ("limits", "updatable", "extensible", "lists", "necessary")

Where = Callable[[KeyPath], Place]


@dataclass(frozen=True, kw_only=True, slots=True)
class StateTree:
    """A tree with its anchors; of an anchor that stands at two places, the first counts here.

    `is_sound` is false when an anchor stands twice: then no op can be tried on the tree.
    """

    root: dict[str, Any]
    index: AnchorIndex
    is_sound: bool

    @property
    def anchors(self) -> frozenset[str]:
        """The names of all entities and containers."""
        return frozenset(self.index.places)

    def find(self, flat: str) -> tuple[str, ...] | None:
        """Return the tokens of the place that a flat path means, or None when nothing is there."""
        try:
            tokens = locate(flat, self.index, self.root)
        except ValueError:
            return None
        return tokens if look_up(self.root, tokens)[0] else None

    def at(self, tokens: tuple[str, ...]) -> Any:
        """Return the node at a place that `find` has found."""
        return look_up(self.root, tokens)[1]

    def nearest(self, flat: str) -> str:
        """Return `; did you mean …?` for a flat path that leads nowhere."""
        steps = flat.split(".")
        known = 0
        found: tuple[str, ...] | None = ()
        while known < len(steps) and (here := self.find(".".join(steps[: known + 1]))) is not None:
            known, found = known + 1, here
        if known == len(steps):
            return ""
        node = self.at(found or ())
        choices = [key for key in node if key != META] if isinstance(node, dict) else []
        return did_you_mean(steps[known], choices if known else [*self.anchors, *choices])


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
    anchors: dict[str, tuple[KeyPath, str]] = {}
    for path, node, described in _nodes(root, (), False):
        if isinstance(node, dict):
            _note_anchors(anchors, path, node, where, faults)
            _check_keys(path, node, where, faults)
            _check_meta(path, node, where, faults)
        elif described:
            _check_pair(node, where(path), faults)
    for anchor, (path, _) in anchors.items():
        if anchor in root and path != (anchor,):
            faults.add(
                where(path), f"has the anchor {anchor!r}, which is also a key at the root; give one another name"
            )
    index = AnchorIndex(root)
    is_sound = not index.ambiguous
    index.ambiguous.clear()
    return StateTree(root=root, index=index, is_sound=is_sound)


def plain_value(node: Any) -> Any:
    """Return the value of a pair `[scalar, description]`, and any other node as it is."""
    return node[0] if is_pair(node) else node


def read_pairs(root: Mapping[str, Any]) -> Iterator[str]:
    """Yield the key path, with dots, of every value with a description, in reading order."""
    for path, node, described in _nodes(root, (), False):
        if described and is_pair(node):
            yield ".".join(str(step) for step in path)


def _nodes(node: Any, path: KeyPath, described: bool) -> Iterator[tuple[KeyPath, Any, bool]]:
    """Yield `(path, node, may be a pair)` for every node, parents first; `$meta` is no part of the tree."""
    yield path, node, described
    if isinstance(node, dict):
        lists = plain_lists(node)
        for key, value in node.items():
            if key != META:
                yield from _nodes(value, (*path, key), key not in lists)
    elif isinstance(node, list) and not (described and is_pair(node)):
        for index, value in enumerate(node):
            yield from _nodes(value, (*path, index), True)


def _note_anchors(
    anchors: dict[str, tuple[KeyPath, str]], path: KeyPath, node: dict[str, Any], where: Where, faults: FaultList
) -> None:
    for key in (ID, ANCHOR):
        if key not in node:
            continue
        name, place = node[key], where((*path, key))
        if not isinstance(name, str):
            faults.add(place, f"is {called(name)}, but an anchor must be text; write it in quotes")
        elif not re.fullmatch(IDENTIFIER, name):
            faults.add(
                place, f"is {name[:80]!r}; an anchor has 1 to 128 characters, none of them a space, '.', '/' or '~'"
            )
        elif name in anchors and anchors[name][0] != path:
            first = where((*anchors[name][0], anchors[name][1]))
            faults.add(place, f"{name!r} is used already at {first} ({first.key}); give each its own id")
        else:
            anchors.setdefault(name, (path, key))
    if ANCHOR in node and not any(key != META and is_list(node, key, value) for key, value in node.items()):
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
        if (
            not isinstance(bounds, list)
            or len(bounds) != 2
            or not all(each is None or is_number(each) for each in bounds)
        ):
            faults.add(here, "must be two numbers; write [least, most], with null for an open end")
            continue
        least, most = (-math.inf if bounds[0] is None else bounds[0]), (math.inf if bounds[1] is None else bounds[1])
        value = plain_value(node[name])
        if least > most:
            faults.add(here, f"has a least value {least} above the most {most}; swap them")
        elif not is_number(value):
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

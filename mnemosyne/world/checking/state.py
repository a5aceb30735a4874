"""Builds the state tree of a world pack: adds the quests, finds the anchors, and checks descriptions and rules (`$meta`).

The state tree is nested mappings and lists. A list `[scalar, text]` in it is a value with a description, unless `$meta.lists` of
the mapping names the field. A mapping with `id` is an entity; a mapping with `_anchor` is a container. The names of both are
anchors and are unique in the tree. A flat path such as `hero.health` begins with an anchor or with a key at the root.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from filament import apply_patch
from filament.state.anchors import with_anchors
from filament.state.conventions import ANCHOR, ID, META, is_pair, meta_of
from filament.state.descriptions import with_descriptions
from filament.state.places import AnchorIndex, locate
from filament.state.pointer import join_pointer, look_up
from filament.state.quests import QUESTS as QUESTS
from filament.state.rules import ANY, TYPED, TYPES, Rules, rules_at_root
from mnemosyne.core.faults import FaultList, SourceLocation, did_you_mean, kind_name
from mnemosyne.core.plain_values import Path as KeyPath
from mnemosyne.values import dataclass
from mnemosyne.world.checking.meta import check_follows, check_meta
from mnemosyne.world.format.shapes import IDENTIFIER

Where = Callable[[KeyPath], SourceLocation]


@dataclass(frozen=True, kw_only=True, slots=True)
class StateTree:
    """A state tree with its anchors. If an anchor occurs twice, the first one counts.

    `is_sound` is False if an anchor occurs twice. No op (change of the state) can be tried on the tree then. `where`
    returns the place in a file of a path in the tree.
    """

    root: dict[str, Any]
    index: AnchorIndex
    is_sound: bool
    where: Where

    @property
    def anchors(self) -> frozenset[str]:
        """Names of all entities and containers."""
        return frozenset(self.index.places)

    def find(self, flat: str) -> tuple[str, ...] | None:
        """Return the tokens (steps from the root) of the place to which the path `flat` leads. Return None if there is none."""
        try:
            tokens = locate(flat, self.index, self.root)
        except ValueError:
            return None
        return tokens if look_up(self.root, tokens)[0] else None

    def at(self, tokens: tuple[str, ...]) -> Any:
        """Return the node at `tokens`, a result of `find`."""
        return look_up(self.root, tokens)[1]

    def nearest(self, flat: str) -> str:
        """Return the text `; did you mean …?` for the unknown path `flat`. Return '' if no name is similar."""
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
    """Return the mapping that the state has for `quest`, a quest in the author's form. Missing fields get defaults.

    `$meta.lists` is added, so that a list of two ids is not read as a value with a description.
    """
    kept = {key: quest[key] for key in ("id", "title", "status", "description") if key in quest}
    kept["objectives"] = [
        {key: value for key, value in step.items() if key != "progress" or value is not None}
        for step in quest.get("objectives", ())
        if isinstance(step, dict)
    ]
    links = {key: value for key, value in quest.get("links", {}).items() if value}
    if links:
        lists = [key for key in ("requires", "leads_to") if key in links]
        kept["links"] = {**links, **({META: {"lists": lists}} if lists else {})}
    if quest.get("entities"):
        kept |= {"entities": list(quest["entities"]), META: {"lists": ["entities"]}}
    kept |= {key: quest[key] for key in ("progress", "outcome") if quest.get(key) is not None}
    return kept


def read_tree(root: dict[str, Any], where: Where, faults: FaultList) -> StateTree:
    """Return the state `root` with its anchors, and add every fault in it to `faults`.

    `where` returns the place in a file of a path in the tree.
    """
    anchors: dict[str, tuple[KeyPath, str]] = {}
    for path, node, rules, described in walk_nodes(root):
        if isinstance(node, dict):
            _note_anchors(anchors, path, node, rules, where, faults)
            _check_keys(path, node, where, faults)
            check_meta(node, where(path), faults, is_root=not path)
            check_follows(node, rules, where(path), faults)
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
    return StateTree(root=root, index=index, is_sound=is_sound, where=where)


def with_types(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a pack, marked as typed unless its author wrote `typed: false`.

    In a typed state a value keeps its type when it is changed (`docs/decisions/0036-typed-state.md`).
    """
    meta = state.get(META, {})
    if not isinstance(meta, dict) or TYPED in meta:
        return dict(state)
    return {**state, META: {**meta, TYPED: True}}


def plain_value(node: Any) -> Any:
    """Return the scalar of `node` if `node` is a pair `[scalar, description]`. Return any other node unchanged."""
    return node[0] if is_pair(node) else node


def start_state(tree: StateTree) -> dict[str, Any]:
    """Return the state with which sessions start.

    Mappings in lists get ids. Values for which `$meta` has a table of descriptions get their description. A field that is null
    and has no known type is declared to take any value.
    """
    started: dict[str, Any] = with_descriptions(with_anchors(tree.root))
    empty: dict[KeyPath, list[str]] = {}
    for path, node, rules, described in walk_nodes(started) if rules_at_root(started).typed else ():
        if path and isinstance(path[-1], str) and not isinstance(node, dict):
            plain = plain_value(node) if described else node
            if plain is None and rules.type_of(path[-1]) is None:
                empty.setdefault(path[:-1], []).append(path[-1])
    typed: dict[str, Any] = apply_patch(started, [_declare_any(started, holder, empty[holder]) for holder in empty])
    return typed


def _declare_any(root: Any, holder: KeyPath, fields: list[str]) -> dict[str, Any]:
    tokens = tuple(map(str, holder))
    meta = meta_of(look_up(root, tokens)[1])
    types = {**meta.get(TYPES, {}), **dict.fromkeys(fields, ANY)}
    return {"op": "add", "path": join_pointer((*tokens, META)), "value": {**meta, TYPES: types}}


def read_pairs(root: Mapping[str, Any]) -> Iterator[str]:
    """Yield the path, with dots, of every value with a description, in the order of the state."""
    for path, node, _, described in walk_nodes(root):
        if described and is_pair(node):
            yield ".".join(str(step) for step in path)


_Node = tuple[KeyPath, Any, Rules, bool]


def walk_nodes(root: Mapping[str, Any]) -> Iterator[_Node]:
    """Yield (path, node, rules, may_be_pair) for every node, parents first and without `$meta`.

    `path` is the list of keys from the root. If `node` is a mapping, `rules` are its own rules. Otherwise they are the rules of
    the mapping that contains `node`. `may_be_pair` is True if a list at this place may be a value with a description.
    """
    yield from _walk_node((), root, rules_at_root(root), "", described=False)


def _walk_node(path: KeyPath, node: Any, rules: Rules, field: str, *, described: bool) -> Iterator[_Node]:
    yield path, node, rules, described
    if isinstance(node, dict):
        inner = [(key, value, key) for key, value in node.items() if key != META]
    elif isinstance(node, list) and not (described and is_pair(node)):
        inner = [(index, value, field) for index, value in enumerate(node)]
    else:
        return
    entry = isinstance(node, list)
    for step, value, name in inner:
        below = rules.rules_below(name, value, entry=entry) if isinstance(value, dict) else rules
        yield from _walk_node((*path, step), value, below, name, described=rules.may_describe(name))


def _note_anchors(
    anchors: dict[str, tuple[KeyPath, str]],
    path: KeyPath,
    node: dict[str, Any],
    rules: Rules,
    where: Where,
    faults: FaultList,
) -> None:
    for key in (ID, ANCHOR):
        if key not in node:
            continue
        name, place = node[key], where((*path, key))
        if not isinstance(name, str):
            faults.add(place, f"is {kind_name(name)}, but an anchor must be text; write it in quotes")
        elif not re.fullmatch(IDENTIFIER, name):
            faults.add(
                place, f"is {name[:80]!r}; an anchor has 1 to 128 characters, none of them a space, '.', '/' or '~'"
            )
        elif name in anchors and anchors[name][0] != path:
            first = where((*anchors[name][0], anchors[name][1]))
            faults.add(place, f"{name!r} is used already at {first} ({first.key}); give each its own id")
        else:
            anchors.setdefault(name, (path, key))
    if ANCHOR in node and not any(key != META and rules.is_list(key, value) for key, value in node.items()):
        faults.add(where(path), "has an _anchor but no list that could grow; add 'items: []', or remove the _anchor")


def _check_keys(path: KeyPath, node: dict[str, Any], where: Where, faults: FaultList) -> None:
    for key in node:
        if not key.strip() or re.search(r"[\s.\x00-\x1f\x7f]", key):
            faults.add(
                where((*path, key)), f"has the key {key!r}, which no flat path can name; leave out spaces and dots"
            )
        elif key.startswith("$") and key != META:
            faults.add(where((*path, key)), f"begins with '$', which is reserved for $meta{did_you_mean(key, (META,))}")


def _check_pair(node: Any, place: SourceLocation, faults: FaultList) -> None:
    if not isinstance(node, list) or len(node) != 2 or not isinstance(node[1], str):
        return
    if isinstance(node[0], list | dict):
        faults.add(
            place,
            f"is {kind_name(node[0])} with a description; only a single value can have one. "
            "Describe the fields inside, or name this field in $meta.lists",
        )
    elif not node[1].strip():
        faults.add(place, "has an empty description; write one, or the value alone")

"""Finds the place in a state tree that an op names by an anchor or a path, with the rules that hold at this place.

An op is one change of the state. An anchor is an `id` or `_anchor` by which ops address a mapping. Tokens are the steps from the
root to a place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from filament.state.anchors import item_number, made_number, read_removed_ids, walk_anchors
from filament.state.conventions import ID, META, anchors_of, is_pair
from filament.state.display import is_hidden_at
from filament.state.pointer import Tokens, list_place, look_up, split_pointer, step
from filament.state.rules import Rules, rules_at_root, shown_names
from filament.state.verdicts import Authority, Legal, Refusal, RefusedError, find_nearest, list_choices

_MOST_COMPARED = 20_000
"""Maximum number of names to compare for the hints of one turn, because one comparison takes as long as judging one op."""

_MOST_LISTED = 12

_WALK_COST = 10
"""Cost of finding an anchor in the tree, as a multiple of the cost of looking up a known anchor."""


class AnchorIndex:
    """Index of the anchors of a tree that is being changed. `drop`, `shift` and `add` update it after each change.

    `shown` maps the anchors that the prompt showed to JSON Pointers. Some of these ids exist only in the prompt, because
    `with_anchors` made them. Such an id is used if the tree has no anchor of this name, and the pointer leads to a mapping
    without anchors. The attribute `gone` maps the ids of removed mappings to their names.
    """

    def __init__(self, tree: Any, shown: Mapping[str, str] | None = None) -> None:
        self._tree = tree
        self.places: dict[str, Tokens] = {}
        self.ambiguous: set[str] = set()
        self.gone: dict[str, str] = dict(read_removed_ids(tree))
        self._entered = 0
        self._order: dict[str, int] = {}
        self._shown: set[str] = set()
        self._back: set[str] = set()
        self._made = item_number(self.gone)
        self._compared = 0
        self.add(walk_anchors(tree))
        for anchor, pointer in (shown or {}).items():
            if anchor in self.places:
                continue
            try:
                tokens = split_pointer(pointer)
            except ValueError:
                continue
            found, node = look_up(tree, tokens)
            if found and isinstance(node, Mapping) and not anchors_of(node):
                self._shown.add(anchor)
                self._enter(anchor, tokens)

    def add(self, found: Iterable[tuple[str, Tokens]]) -> None:
        """Add the anchors `found`. An anchor that is already at another place becomes ambiguous and cannot be addressed."""
        for anchor, tokens in found:
            if anchor not in self.places:
                self._enter(anchor, tokens)
            elif self.places[anchor] != tokens:
                self.ambiguous.add(anchor)

    def _enter(self, anchor: str, tokens: Tokens) -> None:
        self.places[anchor] = tokens
        self._entered += 1
        self._order[anchor] = self._entered
        self._made = max(self._made, made_number(anchor))
        if anchor in self.gone:
            self._back.add(anchor)

    def drop(self, at: Tokens, node: Any) -> dict[str, Tokens]:
        """Remove all anchors at and below `at`, the place of `node`.

        Return the removed anchors with their places, in the order in which they had been added.
        """
        dropped = {name: self.places[name] for name in sorted(self.list_under(at, node), key=self._order.__getitem__)}
        for name in dropped:
            del self.places[name]
        self._shown.difference_update(dropped)
        return dropped

    def shift(self, at: Tokens, items: Sequence[Any], place: int, by: int) -> None:
        """Renumber the anchors in the list at `at` after an insertion or removal at the index `place`.

        `items` are the entries of the list. `by` (1 or -1) is added to each index from `place` on.
        """
        size = len(at)
        if (len(items) - place) * _WALK_COST < len(self.places):
            below = ((*at, str(each)) for each in range(place, len(items)))
            found = [each for step in below for each in walk_anchors(items[int(step[-1])], step)]
            moved = [(name, tokens) for name, tokens in found if self.places.get(name) == tokens]
            moved += [(name, self.places[name]) for name in self._shown]
        else:
            moved = list(self.places.items())
        for name, tokens in moved:
            if len(tokens) > size and tokens[:size] == at and int(tokens[size]) >= place:
                self.places[name] = (*at, str(int(tokens[size]) + by), *tokens[size + 1 :])

    @property
    def last_item_id(self) -> str:
        """The highest id of the form `item_<n>` that is or was in use; `item_0` if there is none."""
        return f"item_{self._made}"

    def list_under(self, at: Tokens, node: Any) -> set[str]:
        """Return the anchors at and below `at`, the place of `node`."""
        names = {name for name, tokens in walk_anchors(node, at) if self.places.get(name, ())[: len(at)] == at}
        return names.union(name for name in self._shown if self.places[name][: len(at)] == at)

    def pop_returned_ids(self) -> list[str]:
        """Return the ids of removed mappings (`gone`) that were added again since the last call, in the order of `gone`."""
        waiting, self._back = self._back, set()
        back = {name for name in waiting if name in self.gone and (name in self.places or name in self.ambiguous)}
        return [name for name in self.gone if name in back] if len(back) > 1 else list(back)

    def suggest(self, name: str, others: Iterable[str]) -> str:
        """Return the name in `others` that is most similar to `name`.

        The result is '' if no name is similar, if the similar name is hidden from models, or if too many names were compared
        in this turn already.
        """
        known = list(others) if self._compared < _MOST_COMPARED else []
        self._compared += len(known)
        near = find_nearest(name, known, most=len(known))
        return "" if is_hidden_at(self._tree, self.places.get(near, ())) else near


def locate(target: str, index: AnchorIndex, tree: Any, *, may_create: bool = True) -> Tokens:
    """Return the tokens of the place in `tree` that `target` names. The last token may name a field that does not exist yet.

    A JSON Pointer is used unchanged. In a flat path, the longest beginning that is an anchor is looked up in `index`, because
    ids may contain dots. If no beginning is an anchor, the path starts at the root. The remaining names are field names,
    or ids of entries in a list. If not `may_create`, a target of one name must be an anchor or an existing field of the root.

    Raises:
        RefusedError: if the path does not exist, or begins with an id that occurs at several places.
    """
    if target.startswith("/"):
        try:
            tokens = split_pointer(target)
        except ValueError as error:
            raise _unknown_path(str(error)) from error
        if not look_up(tree, tokens[:-1])[0]:
            raise _unknown_path(f"there is nothing at {target!r} in the state{_hint_at_pointer(tree, tokens)}")
        return tokens
    names = target.split(".")
    if "" in names:
        raise _unknown_path(f"{target!r} has an empty name between its dots")
    for size in range(len(names), 0, -1):
        anchor = ".".join(names[:size])
        if anchor in index.ambiguous:
            reason = f"the id {anchor!r} occurs at more than one place of the state; use a JSON Pointer"
            raise RefusedError(Refusal.AMBIGUOUS_ID, reason)
        if anchor in index.places:
            return _descend(tree, index.places[anchor], names[size:], anchor, index)
    if not isinstance(tree, Mapping) or (names[0] not in tree and (len(names) > 1 or not may_create)):
        others = shown_names(tree)
        reason = f"{names[0]!r} is neither an id or _anchor nor a top field of the state"
        raise _unknown_name(reason, names[0], index, others, chain(others, index.places))
    return _descend(tree, (), names, "the state", index)


def _descend(tree: Any, tokens: Tokens, names: list[str], name_above: str, index: AnchorIndex) -> Tokens:
    node = look_up(tree, tokens)[1]
    for place, name in enumerate(names):
        token = _child(node, name, name_above, index)
        found, inner = step(node, token)
        if not found and place < len(names) - 1:
            fields = shown_names(node)
            raise _unknown_name(f"{name_above} has no field {name!r}", name, index, fields, fields)
        tokens, node, name_above = (*tokens, token), inner, name
    return tokens


def _child(node: Any, name: str, name_above: str, index: AnchorIndex) -> str:
    """Return the token under which a node keeps what the path calls `name`."""
    if isinstance(node, Mapping):
        return name
    if isinstance(node, list | tuple) and not is_pair(node):
        for place, item in enumerate(node):
            if isinstance(item, Mapping) and item.get(ID) == name:
                return str(place)
        ids = [item[ID] for item in node if isinstance(item, Mapping) and isinstance(item.get(ID), str)]
        reason = f"{name_above} is a list: address an entry by its id, not as {name!r}"
        raise _unknown_name(reason, name, index, ids, ids)
    raise _unknown_path(f"{name_above} is a value and has no field {name!r}; name only {name_above}")


def _unknown_path(reason: str) -> RefusedError:
    return RefusedError(Refusal.UNKNOWN_PATH, reason)


def _unknown_name(
    reason: str, name: str, index: AnchorIndex, known: Sequence[str], compared: Iterable[str]
) -> RefusedError:
    """Return the refusal of a name that is not known; it names the most similar one of `compared`, else `known`."""
    near = index.suggest(name, compared)
    hint = f"; did you mean {near!r}?" if near else f"; there are {list_choices(known)}" if known else ""
    legal = Legal(field=name, near=near, choices=tuple(known[:_MOST_LISTED]))
    return RefusedError(Refusal.UNKNOWN_PATH, f"{reason}{hint}", legal)


def _hint_at_pointer(tree: Any, tokens: Tokens) -> str:
    """Return the names at the place where a pointer leaves the tree, as the end of a sentence."""
    node = tree
    for token in tokens:
        found, inner = step(node, token)
        if not found:
            break
        node = inner
    names = shown_names(node)
    near = find_nearest(token, names)
    return f"; did you mean {near!r}?" if near else f"; there are {list_choices(names)}" if names else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Spot:
    """A place in a tree, with the rules in force there."""

    tokens: Tokens
    owner: Any
    """The mapping or list that contains `key`."""
    key: str
    found: bool
    """Whether a value exists at this place; `old` is that value."""
    old: Any
    described: bool
    """Whether the value is a VWD (value with description)."""
    part: str | None
    """"0" or "1" if the path leads to the first or second element of a VWD (`tokens` then end at the VWD), else None."""
    holder: Mapping[str, Any]
    """The nearest mapping above the place."""
    field: str
    """The field of `holder` on the way to the place."""
    holder_tokens: Tokens
    """Place of `holder`."""
    rules: Rules
    """Rules of `holder`."""
    inner: Rules | None
    """Rules of the value itself if it is a mapping, else None."""

    @property
    def is_in_list(self) -> bool:
        """Whether the place is an entry of a list."""
        return isinstance(self.owner, list | tuple)

    @property
    def is_frozen(self) -> bool:
        """Whether the rules forbid any change at this place. If the value is a mapping, its own rules decide."""
        return not (self.inner.updatable if self.inner is not None else self.rules.may_update(self.field))


def spot_at(tree: Any, tokens: Tokens, authority: Authority = Authority.MODEL) -> Spot:
    """Return the place at the path `tokens` in `tree`, with the rules for ops that `authority` gives.

    Raises:
        RefusedError: if the place is the root or in `$meta`, or if the path does not exist.
    """
    if not tokens:
        raise RefusedError(Refusal.PROTECTED, "the root of the state is not changed as a whole; name a field")
    if META in tokens:
        raise RefusedError(Refusal.PROTECTED, "$meta belongs to the author of the world")
    node, owner, found = tree, tree, True
    inner: Rules | None = rules_at_root(tree, authority)
    rules = Rules()
    holder: Mapping[str, Any] = {}
    field = ""
    holder_tokens: Tokens = ()
    part, end = None, len(tokens)
    for at, token in enumerate(tokens):
        if isinstance(node, Mapping) and inner is not None:
            rules, holder, field, holder_tokens = inner, node, token, tokens[:at]
        elif rules.is_described(field, node):
            if at != len(tokens) - 1 or token not in ("0", "1"):
                raise _unknown_path("a value with a description has no such part")
            part, end = token, at
            break
        owner = node
        found, node = step(node, token)
        if not found and at < len(tokens) - 1:
            raise _unknown_path(f"there is nothing at {token!r}")
        entry = isinstance(owner, list | tuple)
        inner = rules.rules_below(field, node, entry=entry) if isinstance(node, Mapping) else None
    return Spot(
        tokens=tokens[:end],
        owner=owner,
        key=tokens[end - 1],
        found=found,
        old=node,
        described=found and rules.is_described(field, node),
        part=part,
        holder=holder,
        field=field,
        holder_tokens=holder_tokens,
        rules=rules,
        inner=inner,
    )


def open_place(token: str, owner: Any) -> int | None:
    """Return the index in the list `owner` at which an op may insert at `token` (`-` is the end).

    Return None if `owner` is not a list, or `token` is not an index up to its length.
    """
    if not isinstance(owner, list | tuple):
        return None
    return len(owner) if token == "-" else list_place(token, len(owner) + 1)

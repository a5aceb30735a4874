"""Computes which rules hold for each mapping of a state: the author's `$meta` with all that the mapping inherits.

The rules of a mapping come from three sources, the nearest first: the mapping's own `$meta`, the `$meta` of the template that
the mapping follows, and the mapping above (only for the two switches `updatable` and `extensible`).

A thing is a mapping inside of another mapping or list. A template is a mapping with example fields and rules, in the `$meta` of
another mapping. All things inside of that mapping follow the template, also things that are added later. Nothing is copied into
the things.

A group is a mapping without an `id` that has its own template, or a container in a container. A group itself does not
follow the template of the mapping around it, but the things in the group do. The group's own template takes precedence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from filament.state.conventions import EMPTY, ID, META, is_container, is_mapping, is_number, is_pair, meta_of
from filament.state.quests import QUESTS, QUESTS_SHAPE
from filament.state.verdicts import Authority, Refusal, RefusedError

UPDATABLE, EXTENSIBLE, NECESSARY = "updatable", "extensible", "necessary"
LIMITS, LISTS, TYPES, DESCRIPTIONS = "limits", "lists", "types", "descriptions"
TEMPLATE, DESCRIPTION, UNITS, HIDDEN = "template", "description", "units", "hidden"
META_KEYS = (DESCRIPTION, EXTENSIBLE, UPDATABLE, NECESSARY, LIMITS, LISTS, TYPES, UNITS, DESCRIPTIONS, TEMPLATE, HIDDEN)
"""Rules that an author may write in `$meta`."""
TYPED = "typed"
"""Key of the root's `$meta`: `true` in a state that a world pack started, unless the pack's author sets `false`."""
TRANSITIONS, SYNONYMS, ENTRIES = "transitions", "synonyms", "entries"
"""Rules that only quests have. Authors do not write these rules."""
GONE = "gone"
"""Key of the root's `$meta` that filament writes: the ids of removed things, with their names."""
OTHERS = "*"
"""In `updatable: {field: …}`, the value of this key holds for all fields that are not named."""
SELF = "$self"
"""In `necessary`, this word is for the thing itself."""
KEEP, DROP = "keep", "drop"
"""In `descriptions`, `keep` keeps the description when the value changes, and `drop` drops it together with the old value.
"""
VALUE = "{value}"
"""Placeholder of the value in a text of `descriptions`. A text that contains it describes every value."""
ANY, OR_NULL = "any", "?"
"""`any` is the type of every single value. `?` at the end of a type allows null too (`text?`)."""
TYPE_WORDS = ("text", "integer", "number", "boolean", "list", "mapping", ANY)
COUNT = "count"
"""Name of a number field that is never below 0 in a typed state."""
NECESSARY_WORDS = ("self", "children", "all")
_FIELDWISE = (LIMITS, TYPES, UNITS, DESCRIPTIONS)
_NO_FIELDS: frozenset[str] = frozenset()


def _empty_mapping() -> Mapping[str, Any]:
    return EMPTY


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """Rules in force for one mapping."""

    meta: Mapping[str, Any] = field(default_factory=_empty_mapping)
    """The mapping's own `$meta`, merged over the `$meta` of its template."""
    shape: Mapping[str, Any] = field(default_factory=_empty_mapping)
    """The template that the mapping follows."""
    pattern: Mapping[str, Any] = field(default_factory=_empty_mapping)
    """The template for the things in the mapping."""
    updatable: bool = True
    """Whether values may be changed. `updatable` and `extensible` are inherited unless the mapping declares them."""
    extensible: bool = True
    lists: frozenset[str] = _NO_FIELDS
    """Fields that are lists and never VWDs (values with a description)."""
    container: bool = False
    """Whether the mapping has an `_anchor`."""
    closed: bool = False
    """True if the author wrote that the mapping is not extensible. The lists in the mapping must not grow then, either."""
    typed: bool = False
    """Whether the state is typed: values keep their type, and only extensible mappings (containers by default) take
    new fields.
    """
    authority: Authority = Authority.MODEL
    """Giver of the ops for which these rules are computed."""

    @property
    def holds_things(self) -> bool:
        """Whether mappings in the fields of this mapping follow the template `pattern`."""
        return bool(self.pattern) and not self.container

    @property
    def is_free(self) -> bool:
        """Whether the giver of the ops is allowed to change, add and delete everything. Only a model is not allowed to."""
        return self.authority is not Authority.MODEL

    def rules_below(self, field: str, child: Mapping[str, Any], *, entry: bool = False) -> Rules:
        """Return the rules of the mapping `child`, the value of `field` or, if `entry`, an entry of the list in `field`."""
        # A turn asks this for each mapping of the state, so that nothing is looked up twice.
        container, own, free = is_container(child), meta_of(child), self.is_free
        grouped = not entry and not self.container and is_group(child)
        shape = self._rules_named(field) if grouped else self.shape_below(field, entry=entry)
        meta = merge_meta(meta_of(shape), own) if shape else own
        pattern = meta.get(TEMPLATE, EMPTY)
        if is_mapping(pattern) and (grouped or (entry and container and self.container)):
            pattern = merge_shapes(self.pattern, pattern)
        updatable, extensible = meta.get(UPDATABLE), meta.get(EXTENSIBLE)
        if is_mapping(updatable):
            updatable = updatable.get(OTHERS)
        if isinstance(extensible, bool):
            closed = not extensible
        else:
            closed, extensible = self.closed, self.extensible or (self.typed and container and not self.closed)
        return Rules(
            meta=meta,
            shape=shape,
            pattern=pattern if is_mapping(pattern) else EMPTY,
            updatable=free or (updatable if isinstance(updatable, bool) else self.may_update(field)),
            extensible=free or extensible,
            lists=_lists_of(meta) if meta else _NO_FIELDS,
            container=container,
            closed=closed and not free,
            typed=self.typed,
            authority=self.authority,
        )

    def shape_below(self, field: str, *, entry: bool) -> Mapping[str, Any]:
        """Return the template that a mapping in `field` follows. The result is empty if it follows none.

        If `entry`, the mapping is an entry of the list in `field`: its template is `pattern`, unless the quests' rules name
        another for `field`. Otherwise its template is the value that `shape` has for `field`, merged over `pattern`; in a
        container, only the former.
        """
        if entry:
            by_field = self.meta.get(ENTRIES)
            return by_field.get(field, self.pattern) if is_mapping(by_field) else self.pattern
        named = self._rules_named(field)
        return named if self.container else merge_shapes(self.pattern, named)

    def _rules_named(self, field: str) -> Mapping[str, Any]:
        named = self.shape.get(field)
        return named if is_mapping(named) else EMPTY

    def may_update(self, field: str) -> bool:
        """Return whether the value of a field may be changed."""
        by_field = None if self.is_free else self.meta.get(UPDATABLE)
        word = by_field.get(field) if is_mapping(by_field) else None
        return word if isinstance(word, bool) else self.updatable

    def hides(self, field: str, value: Any = None) -> bool:
        """Return whether `field` with this `value` is hidden from models and players.

        A field is hidden if the rule `hidden` names it, or if `value` is a mapping whose own rules hide it.
        """
        named = self.meta.get(HIDDEN)
        if named is True or (isinstance(named, list | tuple) and field in named):
            return True
        return is_mapping(value) and self.rules_below(field, value).meta.get(HIDDEN) is True

    def may_describe(self, field: str) -> bool:
        """Return whether a pair in `field` would be a VWD (value with description)."""
        return field not in self.lists

    def is_described(self, field: str, value: Any) -> bool:
        """Return whether `value`, in `field`, is a VWD."""
        return is_pair(value) and field not in self.lists

    def is_list(self, field: str, value: Any) -> bool:
        """Return whether `value`, in `field`, is a list and not a VWD."""
        return isinstance(value, list | tuple) and not self.is_described(field, value)

    def expects_field(self, field: str) -> bool:
        """Return whether `field` is declared: the template has it, or `types` names it."""
        types = self.meta.get(TYPES)
        return field in self.shape or (is_mapping(types) and field in types)

    def limits_of(self, field: str) -> tuple[float | None, float | None] | None:
        """Return the limits (min, max) that the author set for `field`, or None if there are none. In the pair, None means
        that there is no limit.

        Raises RefusedError if the author's limits are malformed.
        """
        limits = self.meta.get(LIMITS)
        pair = limits.get(field) if is_mapping(limits) else None
        if pair is None:
            return None
        if (
            not isinstance(pair, list | tuple)
            or len(pair) != 2
            or not all(end is None or is_number(end) for end in pair)
        ):
            raise _broken_rules_error(
                f"its $meta.limits must be [min, max]; the author of the world has to correct {field!r}"
            )
        return pair[0], pair[1]

    def bounds_of(self, field: str) -> tuple[float | None, float | None]:
        """Return the limits (min, max) for a number in `field`; None in the pair means that there is no limit.

        If the author set no limits, only the field `count` of a typed state has one: it is at least 0.
        """
        return self.limits_of(field) or (0 if self.typed and field == COUNT else None, None)

    def type_of(self, field: str) -> str | tuple[Any, ...] | None:
        """Return the type of `field`, or None if it has no type.

        The type is a word of TYPE_WORDS, with OR_NULL at its end if null is allowed, or a tuple of the values to
        choose from.

        Raises:
            RefusedError: if the author's type is malformed.
        """
        types = self.meta.get(TYPES)
        word = types.get(field) if is_mapping(types) else None
        if word is None or (isinstance(word, str) and word.removesuffix(OR_NULL) in TYPE_WORDS):
            return word
        if isinstance(word, list | tuple) and word:
            return tuple(word)
        raise _broken_rules_error(
            f"its $meta.types has {word!r} for {field!r}; the author of the world has to correct it"
        )

    def unit_of(self, field: str) -> str:
        """Return the unit of `field`, or '' if it has no unit."""
        units = self.meta.get(UNITS)
        unit = units.get(field) if is_mapping(units) else None
        return unit if isinstance(unit, str) else ""

    def followers_of(self, field: str, value: Any) -> tuple[str, ...] | None:
        """Return the values that may follow `value` in `field`. Return None if any value may follow."""
        by_field = None if self.is_free else self.meta.get(TRANSITIONS)
        table = by_field.get(field) if is_mapping(by_field) else None
        return table.get(value) if is_mapping(table) and isinstance(value, str) else None

    def synonyms_of(self, field: str) -> Mapping[str, str]:
        """Return other words for the values of `field`, mapped to the values that they mean."""
        by_field = self.meta.get(SYNONYMS)
        return by_field.get(field, EMPTY) if is_mapping(by_field) else EMPTY

    def description_rule(self, field: str) -> str | tuple[tuple[Any, str], ...] | None:
        """Return the author's rule for the descriptions of `field`, or None if there is none.

        The rule is a tuple of pairs (value, description), a text that contains VALUE, or KEEP or DROP.

        Raises:
            RefusedError: if the author's rule is anything else.
        """
        rules = self.meta.get(DESCRIPTIONS)
        rule = rules.get(field) if is_mapping(rules) else None
        if rule is None or rule in (KEEP, DROP) or (isinstance(rule, str) and VALUE in rule):
            return rule
        if isinstance(rule, list | tuple) and rule and all(is_pair(row) for row in rule):
            return tuple((row[0], row[1]) for row in rule)
        raise _broken_rules_error(
            f"its $meta.descriptions for {field!r} is not a table; the author of the world has to correct it"
        )

    def is_necessary(self, field: str) -> bool:
        """Return whether `field` must not be removed. In a typed state this includes a field that could not be added again."""
        if self.is_free:
            return False
        if self.typed and not self.extensible:
            return True
        word = self.meta.get(NECESSARY)
        return word in ("children", "all") if isinstance(word, str) else field in self.necessary_fields

    @property
    def necessary_fields(self) -> tuple[str, ...]:
        """The fields that `necessary` names. A new thing must have them."""
        word = self.meta.get(NECESSARY)
        if not isinstance(word, list | tuple):
            return ()
        return tuple(name for name in word if isinstance(name, str) and name != SELF)

    @property
    def must_stay(self) -> bool:
        """Return whether the mapping itself must not be removed."""
        if self.is_free:
            return False
        word = self.meta.get(NECESSARY)
        return word in ("self", "all") if isinstance(word, str) else isinstance(word, list | tuple) and SELF in word


def shown_names(node: Any, rules: Rules | None = None) -> list[str]:
    """Return the names of the fields of `node` that are not hidden from models. The result is empty if `node` is not a mapping.

    Pass the `rules` of `node` if they are known. Otherwise only its own `$meta` is read, without templates.
    """
    if not is_mapping(node):
        return []
    rules = rules or Rules(meta=meta_of(node))
    return [key for key, value in node.items() if key != META and not rules.hides(key, value)]


def is_group(child: Mapping[str, Any]) -> bool:
    """Return whether the mapping `child` is a group: it has no `id`, but a template for the things in it."""
    return ID not in child and META in child and is_mapping(meta_of(child).get(TEMPLATE))


def rules_at_root(tree: Any, authority: Authority = Authority.MODEL) -> Rules:
    """Return the rules of the root of the state `tree`, for ops that `authority` gives."""
    if not is_mapping(tree):
        return Rules()
    if not is_typed(tree):
        return Rules(authority=authority).rules_below("", tree)
    rules = Rules(typed=True, extensible=False, authority=authority).rules_below("", tree)
    return replace(rules, shape={QUESTS: QUESTS_SHAPE}) if QUESTS in tree else rules


def is_typed(tree: Any) -> bool:
    """Return whether the state is typed: its root's `$meta` has `typed: true`."""
    return meta_of(tree).get(TYPED) is True


def merge_meta(under: Mapping[str, Any], over: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the `$meta` of a mapping (`over`) merged with the `$meta` of its template (`under`).

    For each rule, `over` takes precedence. Some rules are combined:

    - `limits`, `types`, `units` and `descriptions` are merged field by field.
    - `updatable` is merged field by field if `over` names fields.
    - `lists` are united, and two templates are merged.

    `template: null` in `over` ends the inheritance of a template.
    """
    if not under or not over:
        return over or under
    merged = {**under, **over}
    for rule in _FIELDWISE:
        merged |= _merge_fields(under, over, rule)
    if isinstance(under.get(LISTS), list | tuple) and isinstance(over.get(LISTS), list | tuple):
        merged[LISTS] = list(dict.fromkeys([*under[LISTS], *over[LISTS]]))
    if isinstance(over.get(UPDATABLE), Mapping):
        word = under.get(UPDATABLE)
        by_field = word if is_mapping(word) else {} if word is None else {OTHERS: word}
        merged[UPDATABLE] = {**by_field, **over[UPDATABLE]}
    if isinstance(under.get(TEMPLATE), Mapping) and isinstance(over.get(TEMPLATE), Mapping):
        merged[TEMPLATE] = merge_shapes(under[TEMPLATE], over[TEMPLATE])
    return merged


def merge_shapes(under: Mapping[str, Any], over: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return two templates merged: mappings that both have are merged, and otherwise `over` takes precedence."""
    if not under or not over:
        return over or under
    merged = {**under, **over}
    for key in under.keys() & over.keys():
        low, high = under[key], over[key]
        if is_mapping(low) and is_mapping(high):
            merged[key] = merge_meta(low, high) if key == META else merge_shapes(low, high)
    return merged


def _merge_fields(under: Mapping[str, Any], over: Mapping[str, Any], rule: str) -> dict[str, Any]:
    low, high = under.get(rule), over.get(rule)
    return {rule: {**low, **high}} if is_mapping(low) and is_mapping(high) else {}


def _lists_of(meta: Mapping[str, Any]) -> frozenset[str]:
    names, types = meta.get(LISTS), meta.get(TYPES)
    found = {name for name in names if isinstance(name, str)} if isinstance(names, list | tuple) else set()
    if is_mapping(types):
        found |= {field for field, word in types.items() if word == "list"}
    return frozenset(found)


def _broken_rules_error(reason: str) -> RefusedError:
    return RefusedError(Refusal.BROKEN_RULES, reason)

"""Decides from which turn to which turn each fact of a story is valid.

A fact states the value of an attribute of a subject: of the brass key, the holder is Mara. A later fact about the same
attribute of the same subject ends the earlier one. A memory that was made of turns ends by an event of the turn that
ends it, so that the end belongs to the branch of this turn, and is gone if the turn is taken back. A value of the state
ends by the op that replaces or removes it. The module must not import a store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from filament.state.conventions import ANCHOR, ID, META, anchors_of, is_mapping, is_pair, is_scalar, label_of
from filament.state.display import is_hidden_at
from filament.state.places import spot_at
from filament.state.pointer import Tokens, split_pointer
from filament.state.rules import Rules, rules_at_root
from mnemosyne.chains.audience import audience_of_entry, join_audiences
from mnemosyne.chains.facts import fold_topic
from mnemosyne.chains.json_patch import replay_ops
from mnemosyne.core.errors import StateOpError
from mnemosyne.schema.memory import (
    ATTRIBUTE,
    FACT_ENDED,
    NOBODY,
    OF_TURN,
    STATE_VALUE,
    SUBJECT,
    SUPERSEDED_BY,
    TAKES_FROM_RECALL,
    VALUE,
    Chain,
    MemoryEntry,
    StoryFact,
    Trust,
)
from mnemosyne.schema.record import TurnRecord
from mnemosyne.schema.session import BranchSpan
from mnemosyne.values import dataclass

_ITEM = "="
"""Prefix of the last step of a path that names an element of a list by its value."""
_ITEM_CHARS, _VALUE_CHARS = 40, 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """End of a memory that was made of turns."""

    ended_id: str
    """Id of the memory that ended."""
    event_id: str
    """Id of the event that ended it."""
    turn_id: str
    depth: int
    """Number of the turn that ended it."""
    superseded_by: str = ""
    """Id of the memory that is valid instead ('': none took its place, as for a promise that was kept)."""
    of_turn: str = ""
    """Id of the turn that stated the ended fact ('': not recorded)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Validity:
    """Turns in which a shown fact is valid, as far as a prompt states them."""

    since: int | None = None
    """Number of the turn from which it is valid, if it took the place of another fact."""
    until: int | None = None
    """Number of the turn from which it is no longer valid (None: it is valid)."""
    before: str = ""
    """Former value ('': there was none, or it is not shown)."""
    now: str = ""
    """Value that is valid now in place of an ended one ('': none is, or it is not shown)."""


def find_endings(gated: Iterable[MemoryEntry], lineage: Sequence[BranchSpan]) -> dict[str, Ending]:
    """Return the ends of memories on the path `lineage`, by the id of the ended memory. `gated` has the entries with
    viewers (`Store.gated_entries`).

    Only events of turns are ends. An edit by hand is not one, because it may correct what was never true.
    """
    found: dict[str, Ending] = {}
    for each in gated:
        if each.chain is not Chain.EVENT or TAKES_FROM_RECALL not in each.metadata or not _is_on(lineage, each):
            continue
        ending = Ending(
            ended_id=str(each.metadata[TAKES_FROM_RECALL]),
            event_id=each.entry_id,
            turn_id=each.turn_id or "",
            depth=each.depth or 0,
            superseded_by=str(each.metadata.get(SUPERSEDED_BY, "")),
            of_turn=str(each.metadata.get(OF_TURN) or ""),
        )
        known = found.get(ending.ended_id)
        if known is None or ending.depth < known.depth:
            found[ending.ended_id] = ending
    return found


def find_last_successor(ended_id: str, endings: Mapping[str, Ending]) -> str:
    """Return the id of the memory that is valid now in place of an ended one ('': none is)."""
    name, seen = ended_id, {ended_id}
    while name in endings:
        name = endings[name].superseded_by
        if name in seen:
            return ""
        seen.add(name)
    return name


def _is_on(lineage: Sequence[BranchSpan], entry: MemoryEntry) -> bool:
    return any(span.branch_id == entry.branch_id and (entry.depth or 0) <= span.upto_depth for span in lineage)


def lineage_upto(lineage: Sequence[BranchSpan], depth: int | None) -> tuple[BranchSpan, ...]:
    """Return the path `lineage` up to the turn with the number `depth` (None: the whole path)."""
    if depth is None:
        return tuple(lineage)
    return tuple(replace(span, upto_depth=min(span.upto_depth, depth)) for span in lineage)


def topic_of_fact(entry: MemoryEntry) -> tuple[str, str] | None:
    """Return the subject and the attribute of a memory, in the form in which they are compared. Return None for a memory
    that states no fact.
    """
    names = [entry.metadata.get(name) for name in (SUBJECT, ATTRIBUTE)]
    if not all(isinstance(name, str) and name.strip() for name in names):
        return None
    subject, attribute = (fold_topic(str(name)) for name in names)
    return subject, attribute


def value_of_fact(entry: MemoryEntry) -> str:
    """Return the value that a fact states, or else its whole text."""
    value = entry.metadata.get(VALUE)
    return value if isinstance(value, str) and value else entry.text


def end_former_facts(events: Sequence[MemoryEntry], made: Sequence[MemoryEntry]) -> tuple[MemoryEntry, ...]:
    """Return the events that end facts, so that of the facts in `events` and `made` only the last one about each
    attribute of a subject is valid.

    `events` are the stored events of a path, and `made` the new facts on it; all of them have a depth. Ends that are
    stored already are left out. A fact that repeats the value before it ends nothing.
    """
    topics = {topic for each in made if (topic := topic_of_fact(each)) is not None}
    if not topics:
        return ()
    ended: dict[str, int] = {}
    for each in events:
        if TAKES_FROM_RECALL in each.metadata:
            name, depth = str(each.metadata[TAKES_FROM_RECALL]), each.depth or 0
            ended[name] = min(depth, ended.get(name, depth))
    by_topic: dict[tuple[str, str], list[MemoryEntry]] = {}
    for each in {entry.entry_id: entry for entry in (*events, *made)}.values():
        topic = topic_of_fact(each)
        if topic in topics:
            by_topic.setdefault(topic, []).append(each)
    ends: list[MemoryEntry] = []
    for line in by_topic.values():
        line.sort(key=lambda each: each.depth or 0)
        for place, each in enumerate(line[:-1]):
            following = next((one for one in line[place + 1 :] if _is_change(each, one)), None)
            if following is None:
                continue
            # A turn between two others may be consolidated after them.
            if each.entry_id not in ended or (following.depth or 0) < ended[each.entry_id]:
                ends.append(_end(each, following))
    return tuple(ends)


def valid_facts(events: Sequence[MemoryEntry]) -> list[MemoryEntry]:
    """Return the facts among `events`, the events of a path, that no other event of the path ends. They keep their order."""
    ended = {each.metadata[TAKES_FROM_RECALL] for each in events if TAKES_FROM_RECALL in each.metadata}
    return [each for each in events if topic_of_fact(each) is not None and each.entry_id not in ended]


def _is_change(fact: MemoryEntry, following: MemoryEntry) -> bool:
    """Return whether `following` states another value than `fact`, and all who may know `fact` may know it."""
    audience = audience_of_entry(fact)
    is_known = join_audiences((audience, audience_of_entry(following))) == audience
    return is_known and fold_topic(value_of_fact(fact)) != fold_topic(value_of_fact(following))


def _end(fact: MemoryEntry, following: MemoryEntry) -> MemoryEntry:
    """Return the event of the turn of `following` that ends `fact`. Nobody may know it."""
    return MemoryEntry(
        entry_id=f"{following.entry_id}.ends.{fact.entry_id}",
        scope=fact.scope,
        chain=Chain.EVENT,
        kind=FACT_ENDED,
        text=following.text,
        at=following.at,
        turn_id=following.turn_id,
        branch_id=following.branch_id,
        depth=following.depth,
        viewers=NOBODY,
        trust=Trust.MODEL,
        metadata={TAKES_FROM_RECALL: fact.entry_id, SUPERSEDED_BY: following.entry_id, OF_TURN: fact.turn_id},
    )


def facts_of_memories(entries: Iterable[MemoryEntry], endings: Mapping[str, Ending]) -> list[StoryFact]:
    """Return the facts that memories state, in their order, each with the turns in which it is valid."""
    return [
        StoryFact(
            fact_id=each.entry_id,
            kind=each.kind,
            subject=str(each.metadata[SUBJECT]),
            attribute=str(each.metadata[ATTRIBUTE]),
            value=value_of_fact(each),
            text=each.text,
            valid_from=each.depth or 0,
            valid_to=None if (ending := endings.get(each.entry_id)) is None else ending.depth,
            superseded_by="" if ending is None else ending.superseded_by,
            turn_id=each.turn_id or "",
            at=each.at,
            trust=each.trust,
        )
        for each in entries
        if topic_of_fact(each) is not None
    ]


def facts_of_state(
    base: Mapping[str, Any], turns: Iterable[TurnRecord], shown: Mapping[str, Any], depth: int = 0
) -> list[StoryFact]:
    """Return the values of the state that the ops of `turns` set or ended, each with the turns in which it is valid, in
    the order of their beginning.

    `base` is the state before the turns, after the turn with the number `depth`. Values that no turn changed are left
    out. `shown` is the present state without its hidden parts. A value is left out if `shown` has neither its place nor,
    for an ended value, the mapping around it.
    """
    tree, found, paths = base, list[StoryFact](), list[Tokens]()
    open_facts: dict[Tokens, int] = {}
    for turn in turns:
        for op in turn.ops:
            try:
                after = replay_ops(tree, (op,))
                place = _readable_place(tree, split_pointer(str(op.get("path", ""))))
            except (StateOpError, ValueError):
                # A recorded op that cannot be applied belongs to a damaged turn.
                continue
            before_values, after_values = _values_at(tree, place), _values_at(after, place)
            for path, value in before_values.items():
                if after_values.get(path) == value:
                    continue
                if path not in open_facts:
                    open_facts[path] = len(found)
                    found.append(_state_fact(tree, path, value, None, depth))
                    paths.append(path)
                number = open_facts.pop(path)
                found[number] = replace(found[number], valid_to=turn.depth)
                if path in after_values:
                    found[number] = replace(found[number], superseded_by=_state_fact_id(path, turn))
            for path, value in after_values.items():
                if before_values.get(path) != value:
                    open_facts[path] = len(found)
                    found.append(_state_fact(after, path, value, turn, turn.depth))
                    paths.append(path)
            tree = after
    seen = [fact for fact, path in zip(found, paths, strict=True) if _is_shown(fact, path, shown)]
    return sorted(seen, key=lambda fact: fact.valid_from)


def _is_shown(fact: StoryFact, path: Tokens, shown: Mapping[str, Any]) -> bool:
    """Return whether the state `shown` has the place of a value. For an ended value, the mapping around it is enough."""
    if path[-1].startswith(_ITEM):
        return _find(shown, path[:-1]) is not None
    return _find(shown, path) is not None or (
        fact.valid_to is not None and len(path) > 1 and _find(shown, path[:-1]) is not None
    )


def _find(tree: Any, path: Tokens) -> Any:
    """Return the part of a state at a path in which entries of lists are named by their ids, or None."""
    for token in path:
        if isinstance(tree, list | tuple):
            tree = next((each for each in tree if is_mapping(each) and token in anchors_of(each)), None)
        else:
            tree = tree.get(token) if is_mapping(tree) else None
    return tree


def _readable_place(tree: Mapping[str, Any], tokens: Tokens) -> Tokens:
    """Return the path of an op up to the first list, because a place in a list is not a name."""
    node: Any = tree
    for number, token in enumerate(tokens):
        if not is_mapping(node):
            return tokens[:number]
        node = node.get(token)
    return tokens


def _values_at(tree: Mapping[str, Any], place: Tokens) -> dict[Tokens, tuple[Any, str]]:
    """Return path -> (value, description) for each value at a place of the state, without hidden ones."""
    if not place or is_hidden_at(tree, place):
        return {} if place else dict(_values(tree, (), rules_at_root(tree)))
    try:
        spot = spot_at(tree, place)
    except ValueError:
        return {}
    return dict(_values(spot.old, place, spot.inner or spot.rules)) if spot.found else {}


def _values(node: Any, path: Tokens, rules: Rules) -> Iterator[tuple[Tokens, tuple[Any, str]]]:
    """Yield (path, (value, description)) for each value in a part of the state. An element of a list is named by its id or
    its value, not by its place. `rules` belong to the part if it is a mapping, else to the mapping around it.
    """
    field = path[-1] if path else ""
    if is_mapping(node):
        for name, child in node.items():
            if name not in (META, ANCHOR, ID) and not name.startswith(("$", "_")) and not rules.hides(name, child):
                inner = rules.rules_below(name, child) if is_mapping(child) else rules
                yield from _values(child, (*path, name), inner)
    elif rules.is_list(field, node):
        for item in node:
            if is_mapping(item):
                if names := anchors_of(item):
                    yield from _values(item, (*path, names[0]), rules.rules_below(field, item, entry=True))
            elif (is_scalar(item) or is_pair(item)) and (told := _read_scalar(item)) is not None:
                yield (*path, f"{_ITEM}{str(told[0])[:_ITEM_CHARS]}"), told
    elif (told := _read_scalar(node)) is not None:
        yield path, told


def _read_scalar(node: Any) -> tuple[Any, str] | None:
    """Return (value, description) of a value, or None if it is empty."""
    value, text = (node[0], node[1]) if is_pair(node) else (node, "")
    return None if value in (None, "") else (value, text)


def _state_fact(
    tree: Mapping[str, Any], path: Tokens, value: tuple[Any, str], turn: TurnRecord | None, depth: int
) -> StoryFact:
    names = path[:-1] if path[-1].startswith(_ITEM) else path
    labels = [label for size in range(len(names), 0, -1) if (label := label_of(_find(tree, names[:size])))]
    plain = "true" if value[0] is True else "false" if value[0] is False else str(value[0])[:_VALUE_CHARS]
    return StoryFact(
        fact_id=_state_fact_id(path, turn),
        kind=STATE_VALUE,
        subject=labels[0] if labels else ".".join(names[:-1]),
        attribute=names[-1],
        value=plain,
        text=f"{'.'.join(names)}: {plain}{f' ({value[1]})' if value[1] else ''}",
        valid_from=depth,
        turn_id="" if turn is None else turn.turn_id,
        at=None if turn is None else turn.created_at,
        trust=Trust.MODEL,
    )


def _state_fact_id(path: Tokens, turn: TurnRecord | None) -> str:
    name = ".".join(path)
    return f"state.{name}" if turn is None else f"{turn.turn_id}.state.{name}"

"""Reads quests from the state of a session, for the planner and for Stream A (the part of a prompt made by rules).

The state is a tree of mappings and lists. Its field `quests` maps the id of a quest to the quest's fields. Any state is
accepted: a quest or a step that is not a mapping is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mnemosyne.chains.state import view_state
from mnemosyne.values import dataclass

ACTIVE = "active"
META = "$meta"
QUESTS_KEY = "quests"
_USUAL: Mapping[str, Any] = {"status": ACTIVE, "optional": False}


@dataclass(frozen=True, kw_only=True, slots=True)
class Objective:
    """One step of a quest."""

    index: int
    """Place in the quest's list of steps, counted from 0."""
    text: str
    status: str
    optional: bool
    raw: Mapping[str, Any]
    """The step as it is written in the state."""
    progress: str = ""
    """Progress of the step, not of the quest."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Quest:
    """Quest with its steps."""

    quest_id: str
    key: str
    title: str
    status: str
    progress: str
    description: str
    objectives: tuple[Objective, ...]
    entities: tuple[str, ...]
    """Ids or names of persons, places and things, as the author wrote them."""
    raw: Mapping[str, Any]
    """The quest as it is written in the state."""

    @property
    def open_objectives(self) -> tuple[Objective, ...]:
        """Active steps. Required steps come before optional ones, each group in the author's order."""
        steps = [step for step in self.objectives if step.status == ACTIVE]
        return tuple(sorted(steps, key=lambda step: step.optional))


def read_plain_value(value: object) -> object:
    """Return the plain value of `value`. If `value` has the form `[scalar, description]`, return the scalar. Any other
    value is returned unchanged.
    """
    kind = type(value)
    if kind is str or kind is dict:
        return value
    if isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[1], str) and is_scalar(value[0]):
        return value[0]
    return value


def is_scalar(value: object) -> bool:
    """Return whether a value of a state tree is a leaf: a text, a number, a boolean or None."""
    return value is None or isinstance(value, str | bool | int | float)


def read_quests(state: Mapping[str, Any]) -> tuple[Quest, ...]:
    """Return all quests in the order of the state."""
    return tuple(_quest(key, raw) for key, raw in _raw_quests(state))


def _raw_quests(state: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    quests = state.get(QUESTS_KEY)
    if isinstance(quests, Mapping):
        for key, raw in quests.items():
            if key != META and isinstance(raw, Mapping):
                yield str(key), raw


def find_active_quests(state: Mapping[str, Any]) -> tuple[Quest, ...]:
    """Return the quests whose status is active, in the state's order. `state` must not be changed afterwards."""
    return view_state(state).derive(_find_active_quests)


def _find_active_quests(state: Mapping[str, Any]) -> tuple[Quest, ...]:
    return tuple(_quest(key, raw) for key, raw in _raw_quests(state) if _text(raw.get("status")) == ACTIVE)


def drop_quests(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state without its quests, for the status block. Return {} if nothing but the rules (`$meta`) is left."""
    rest = {key: value for key, value in state.items() if key != QUESTS_KEY}
    return rest if any(key != META for key in rest) else {}


def drop_usual_values(value: Any) -> Any:
    """Return `value` without fields that tell a model nothing, at every depth.

    A mapping that has an `id` loses the fields `status: active` and `optional: false`. Any other mapping loses its empty
    fields (None, '', {} and []).
    """
    if isinstance(value, list | tuple):
        return [drop_usual_values(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    usual = _USUAL if "id" in value else {}
    fields = {key: each if key == META else drop_usual_values(each) for key, each in value.items()}
    return {
        key: each
        for key, each in fields.items()
        if (key not in usual or each != usual[key]) and (usual or each not in (None, "", {}, []))
    }


def _quest(key: str, raw: Mapping[str, Any]) -> Quest:
    steps = raw.get("objectives")
    entities = raw.get("entities")
    return Quest(
        quest_id=_text(raw.get("id")) or key,
        key=key,
        title=_text(raw.get("title")),
        status=_text(raw.get("status")),
        progress=_describe_value(raw.get("progress")),
        description=_text(raw.get("description")),
        objectives=tuple(_objective(place, step) for place, step in enumerate(steps) if isinstance(step, Mapping))
        if isinstance(steps, list | tuple)
        else (),
        entities=tuple(each for each in entities if isinstance(each, str))
        if isinstance(entities, list | tuple)
        else (),
        raw=raw,
    )


def _objective(index: int, raw: Mapping[str, Any]) -> Objective:
    return Objective(
        index=index,
        text=_text(raw.get("text")),
        status=_text(raw.get("status")),
        optional=read_plain_value(raw.get("optional")) is True,
        raw=raw,
        progress=_describe_value(raw.get("progress")),
    )


def _text(value: object) -> str:
    if type(value) is str:
        return value
    plain = read_plain_value(value)
    return "" if plain is None or not is_scalar(plain) else str(plain)


def _describe_value(value: object) -> str:
    """Return a value followed by its description, if it has one, because a bare number means little in a goal."""
    plain = _text(value)
    described = read_plain_value(value) is not value and isinstance(value, list | tuple) and str(value[1]).strip()
    return f"{plain}: {described}" if described and plain else plain

"""Reads a world pack from a JSON value as a draft, so that the checks for packs in files apply to the value.

A draft is a pack whose parts were each checked by their shape (expected form). The JSON value has the fields of `WorldPack`.
Faults name places by these fields, such as `lore[3].entry_id`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, field, fields
from typing import Any

from filament.state.conventions import META
from filament.state.quests import QUESTS
from mnemosyne.chains.quantities import collapse_pattern
from mnemosyne.core.faults import NO_LINES, FaultList, SourceLocation, did_you_mean
from mnemosyne.schema.memory import EMPTY, MemoryEntry
from mnemosyne.schema.world import (
    Entity,
    Injection,
    NumericalAction,
    PlannerRules,
    PrologueEvent,
    PrologueNarrative,
    PrologueTurn,
    TemplateRule,
    WorldPack,
)
from mnemosyne.shapes import BROKEN, Many, Record
from mnemosyne.values import dataclass
from mnemosyne.world.format import fields as tables
from mnemosyne.world.format.check import check, iterate_sound
from mnemosyne.world.reading.draft import Item, PackDraft, Part, all_have_ids

_LORE_NAMES = {"id": "entry_id", "name": "title", "category": "kind", "content": "text"}
_LORE_METADATA = ("kind", "constant", "world_info")
_JSON_NAMES = {
    "id": "world_id",
    "entities.id": "entity_id",
    "turns": "prologue",
    "turns.events.id": "event_id",
    "turns.events.quest": "quest_id",
    "narratives.id": "narrative_id",
    "actions.id": "action_id",
    "injections.id": "injection_id",
    "planner.templates.id": "template_id",
    **{f"{part}.{own}": name for part in ("lore", "disabled") for own, name in _LORE_NAMES.items()},
    **{f"{part}.{own}": f"metadata.{own}" for part in ("lore", "disabled") for own in _LORE_METADATA},
}
"""Names in the JSON value for the fields that have another name in a file, by their path in the files."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Form:
    """The form of a record in JSON. `path` is its place without numbers, `inside` the forms of records in its lists."""

    path: str
    kind: type
    record: Record
    inside: Mapping[str, _Form] = field(default_factory=lambda: EMPTY)


_ENTITY = _Form(path="entities", kind=Entity, record=tables.ENTITY)
_WORLD = _Form(path="", kind=WorldPack, record=tables.WORLD, inside={"entities": _ENTITY})
_EVENT = _Form(path="turns.events", kind=PrologueEvent, record=tables.EVENT)
_TURN = _Form(path="turns", kind=PrologueTurn, record=tables.TURN, inside={"events": _EVENT})
_NARRATIVE = _Form(path="narratives", kind=PrologueNarrative, record=tables.NARRATIVE)
_HISTORY = _Form(path="", kind=WorldPack, record=tables.HISTORY, inside={"turns": _TURN, "narratives": _NARRATIVE})
_RULE = _Form(path="planner.templates", kind=TemplateRule, record=tables.TEMPLATE_RULE)
_PLANNER = _Form(path="planner", kind=PlannerRules, record=tables.PLANNER, inside={"templates": _RULE})
_ACTION = _Form(path="actions", kind=NumericalAction, record=tables.ACTION)
_INJECTION = _Form(path="injections", kind=Injection, record=tables.INJECTION)
_LORE = tuple(_Form(path=part, kind=MemoryEntry, record=tables.LORE) for part in ("lore", "disabled"))


def read_json_draft(pack: Mapping[str, Any], faults: FaultList) -> PackDraft:
    """Return the draft of the JSON value `pack`. Every part is checked by its shape, and faults are added to `faults`."""
    root = SourceLocation(file="pack", lines=NO_LINES, names=_JSON_NAMES)
    world = _author(pack, _WORLD, root, faults)
    state = world.get("state")
    quests: tuple[Item, ...] = ()
    if isinstance(state, dict):
        world["state"] = {name: each for name, each in state.items() if name != QUESTS}
        quests = tuple(_read_quests(state.get(QUESTS), root.at("state", QUESTS), faults))
    world = check(tables.WORLD, world, root, faults)
    place = root.at("planner")
    planner = check(tables.PLANNER, _author(pack.get("planner", {}), _PLANNER, place, faults), place, faults)
    return PackDraft(
        world=Part(place=root, value=world),
        planner=Part(place=place, value={} if planner is BROKEN else planner),
        history=Part(place=root, value=check(tables.HISTORY, _author(pack, _HISTORY, root, faults), root, faults)),
        lore=tuple(each for form in _LORE for each in _read_items(pack, form, root, faults)),
        quests=quests,
        actions=tuple(_read_items(pack, _ACTION, root, faults)),
        injections=tuple(_read_items(pack, _INJECTION, root, faults)),
        imported={},
        quests_known=all_have_ids([each for _, each in quests]),
        entities_known=all_have_ids(world.get("entities")),
    )


def _read_items(pack: Mapping[str, Any], form: _Form, root: SourceLocation, faults: FaultList) -> Iterator[Item]:
    items, place = pack.get(form.path, []), root.at(form.path)
    if isinstance(items, list):
        items = [_author(each, form, place.at(number), faults) for number, each in enumerate(items)]
    yield from iterate_sound(check(Many(item=form.record), items, place, faults), place)


def _author(raw: Any, form: _Form, place: SourceLocation, faults: FaultList) -> Any:
    """Return a record with the names of its fields in a file, without the fields that no author writes.

    Any value that is not a mapping is returned unchanged.
    """
    if not isinstance(raw, Mapping):
        return raw
    authored = {
        each.name: _JSON_NAMES.get(f"{form.path}.{each.name}".lstrip("."), each.name) for each in form.record.fields
    }
    if form is not _HISTORY:
        _check_fields(raw, form.kind, form.record, authored, place, faults)
    defaults = {each.name: each.default for each in fields(form.kind)}
    made = {
        own: raw[name] for own, name in authored.items() if name in raw and (raw[name] or raw[name] != defaults[name])
    }
    for own, below in form.inside.items():
        if isinstance(items := made.get(own), list):
            at = place.at(own)
            made[own] = [_author(each, below, at.at(number), faults) for number, each in enumerate(items)]
    if form.kind is MemoryEntry:
        metadata = raw.get("metadata")
        made |= {own: metadata[own] for own in _LORE_METADATA if isinstance(metadata, Mapping) and metadata.get(own)}
        made.setdefault("name", raw.get("entry_id"))
    if form.kind is NumericalAction:
        made = _collapse_patterns(made)
    return made


def _collapse_patterns(action: dict[str, Any]) -> dict[str, Any]:
    """Return an action with its patterns in the short form that an author writes."""
    patterns, numbers = action.get("patterns"), action.get("numbers")
    if not isinstance(patterns, list) or not isinstance(numbers, list):
        return action
    names = [each["name"] for each in numbers if isinstance(each, dict) and isinstance(each.get("name"), str)]
    return {
        **action,
        "patterns": [collapse_pattern(each, names) if isinstance(each, str) else each for each in patterns],
    }


def _read_quests(quests: Any, place: SourceLocation, faults: FaultList) -> Iterator[Item]:
    """Yield (place, quest) for the quests of a state. Each quest has only the fields that an author writes."""
    if quests is None:
        return
    if not isinstance(quests, dict):
        faults.add(place, "must be a mapping of quests by their ids; write it so")
        return
    for name, quest in quests.items():
        if name == META:
            continue
        made = _keep_fields(quest, tables.QUEST)
        if isinstance(made, dict):
            if isinstance(made.get("objectives"), list):
                made["objectives"] = [_keep_fields(each, tables.OBJECTIVE) for each in made["objectives"]]
            if "links" in made:
                made["links"] = _keep_fields(made["links"], tables.LINKS)
        checked = check(tables.QUEST, made, place.at(name), faults)
        if checked is not BROKEN:
            yield place.at(name), checked


def _keep_fields(value: Any, record: Record) -> Any:
    known = {each.name for each in record.fields}
    return {name: each for name, each in value.items() if name in known} if isinstance(value, dict) else value


def _check_fields(
    raw: Mapping[str, Any],
    kind: type,
    record: Record,
    authored: Mapping[str, str],
    place: SourceLocation,
    faults: FaultList,
) -> None:
    """Add faults for unknown fields of a record, and for missing fields that the check of its shape does not report."""
    known = {each.name: each.default is each.default_factory is MISSING for each in fields(kind)}
    asked = {authored[each.name] for each in record.fields if each.required}
    for name in raw:
        if name not in known:
            faults.add(place, f"has the field {name!r}, which is not known here{did_you_mean(name, known)}")
    for name, is_required in known.items():
        if is_required and name not in raw and name not in asked:
            faults.add(place, f"lacks the field {name!r}; add it")

"""Makes the draft of a world pack: parses all files, checks each by its shape, and records the place of each item.

A shape is the expected form of a value. Links between files are not checked here (see `checking`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any

from filament.errors import PayloadError
from filament.payload import load_yaml_marked
from mnemosyne.core.errors import CodecError
from mnemosyne.core.faults import FaultList, SourceLocation
from mnemosyne.core.json_text import parse_json
from mnemosyne.core.plain_values import plain_faults
from mnemosyne.shapes import BROKEN, Shape
from mnemosyne.values import dataclass
from mnemosyne.world.format.check import check, iterate_sound
from mnemosyne.world.format.fields import (
    ACTIONS_FILE,
    HISTORY,
    INJECTIONS_FILE,
    LORE,
    LORE_FILE,
    PLANNER,
    QUESTS_FILE,
    WORLD,
)
from mnemosyne.world.reading.files import IMPORTED_FILE, LORE_FOLDER, WORLD_FILE, PackFolder, decode
from mnemosyne.world.reading.markdown import split_markdown

Item = tuple[SourceLocation, dict[str, Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A file that contains one mapping. `place` is the location of the file, and `value` has the valid fields.

    `broken` is True if the file does not contain a mapping.
    """

    place: SourceLocation
    value: dict[str, Any] = field(default_factory=dict)
    broken: bool = False

    def items(self, key: str) -> Iterator[tuple[SourceLocation, Any]]:
        """Yield (place, item) for the valid items of the list `key`."""
        return iterate_sound(self.value.get(key), self.place.at(key))


@dataclass(frozen=True, kw_only=True, slots=True)
class PackDraft:
    """All parts of a pack. Invalid items are left out. A missing file is an empty part."""

    world: Part
    planner: Part
    history: Part
    lore: tuple[Item, ...]
    quests: tuple[Item, ...]
    actions: tuple[Item, ...]
    injections: tuple[Item, ...]
    imported: dict[str, Any]
    quests_known: bool
    """True if the ids of all quests could be read. If False, references to unknown quests are not reported, because the ids
    may exist. `entities_known` has the same meaning for entities.
    """
    entities_known: bool


def read_draft(pack: PackFolder, faults: FaultList) -> PackDraft:
    """Return the draft of `pack`. Every file is parsed and checked by its shape, and faults are added to `faults`."""
    world = _part(pack, WORLD_FILE, WORLD, faults)
    quests_place, quests = _read_items(pack, "quests.yaml", QUESTS_FILE, faults)
    actions_place, actions = _read_items(pack, "actions.yaml", ACTIONS_FILE, faults)
    injections_place, injections = _read_items(pack, "injections.yaml", INJECTIONS_FILE, faults)
    return PackDraft(
        world=world,
        planner=_part(pack, "planner.yaml", PLANNER, faults),
        history=_part(pack, "history.yaml", HISTORY, faults),
        lore=tuple(_lore(pack, faults)),
        quests=tuple(iterate_sound(quests, quests_place)),
        actions=tuple(iterate_sound(actions, actions_place)),
        injections=tuple(iterate_sound(injections, injections_place)),
        imported=_imported(pack, faults),
        quests_known=all_have_ids(quests),
        entities_known=all_have_ids(world.value.get("entities")),
    )


def all_have_ids(items: Any) -> bool:
    """Return whether `items` is a list (checked by its shape) in which every item is valid and has an id."""
    return isinstance(items, list | tuple) and all(item is not BROKEN and "id" in item for item in items)


def _part(pack: PackFolder, name: str, shape: Shape, faults: FaultList) -> Part:
    place, value = _parse_yaml(pack, name, "", faults)
    if value is BROKEN:
        return Part(place=place, broken=True)
    if name == WORLD_FILE and name not in pack.files:
        return Part(place=place, broken=True)
    if name not in pack.files:
        return Part(place=place, value=check(shape, {}, place, faults))
    checked = check(shape, value, place, faults)
    return Part(place=place, broken=True) if checked is BROKEN else Part(place=place, value=checked)


def _read_items(pack: PackFolder, name: str, shape: Shape, faults: FaultList) -> tuple[SourceLocation, Any]:
    """Return (place of the file, checked list). The list is BROKEN if the file has no list."""
    place, value = _parse_yaml(pack, name, name.removesuffix(".yaml"), faults)
    if name not in pack.files:
        return place, []
    return place, BROKEN if value is BROKEN else check(shape, value, place, faults)


def _imported(pack: PackFolder, faults: FaultList) -> dict[str, Any]:
    """Return the content of `imported.json`. It is empty if the file is missing or has a fault."""
    place = SourceLocation(file=IMPORTED_FILE)
    text = decode(pack.files[IMPORTED_FILE], place, faults) if IMPORTED_FILE in pack.files else None
    if text is None:
        return {}
    try:
        value = parse_json(text.encode(), IMPORTED_FILE)
    except CodecError as error:
        faults.add(place, f"is not what an import wrote ({error}); import the files again")
        return {}
    wrong = [reason for _, reason in plain_faults(value)] or ([] if isinstance(value, dict) else ["is no mapping"])
    if wrong:
        faults.add(place, f"{wrong[0]}; import the files again")
        return {}
    return dict(value)


def _lore(pack: PackFolder, faults: FaultList) -> Iterator[Item]:
    for name in pack.files:
        if not name.startswith(f"{LORE_FOLDER}/"):
            continue
        if name.endswith(".md"):
            place, value = _read_markdown(pack, name, faults)
        else:
            place, value = _parse_yaml(pack, name, LORE_FOLDER, faults)
        if value is BROKEN:
            continue
        if isinstance(value, dict):
            checked = check(LORE, value, place, faults)
            if checked is not BROKEN:
                yield place, checked
        else:
            yield from iterate_sound(check(LORE_FILE, value, place, faults), place)


def _parse_yaml(pack: PackFolder, name: str, prefix: str, faults: FaultList) -> tuple[SourceLocation, Any]:
    """Return (place of the file, value). The value is None if the file is missing, and BROKEN if it cannot be read."""
    place = SourceLocation(file=name, prefix=prefix)
    if name not in pack.files:
        return place, None
    text = decode(pack.files[name], place, faults)
    if text is None:
        return place, BROKEN
    return _load_yaml(text, place, 0, faults)


def _load_yaml(text: str, place: SourceLocation, lines_before: int, faults: FaultList) -> tuple[SourceLocation, Any]:
    try:
        value, lines = load_yaml_marked(text)
    except PayloadError as error:
        here = SourceLocation(file=place.file, lines={(): (error.line or 1) + lines_before})
        faults.add(here, error.reason)
        return place, BROKEN
    marked = SourceLocation(
        file=place.file, prefix=place.prefix, lines={path: line + lines_before for path, line in lines.items()}
    )
    if value is None:
        faults.add(marked, "is empty; fill it in, or remove the file")
        return marked, BROKEN
    return marked, value


def _read_markdown(pack: PackFolder, name: str, faults: FaultList) -> tuple[SourceLocation, Any]:
    place = SourceLocation(file=name)
    text = decode(pack.files[name], place, faults)
    if text is None:
        return place, BROKEN
    try:
        halves = split_markdown(text)
    except ValueError as error:
        faults.add(place, str(error))
        return place, BROKEN
    place, front = _load_yaml(halves.front, place, halves.front_line - 1, faults)
    if not isinstance(front, dict):
        if front is not BROKEN:
            faults.add(
                place, "has front matter that is not a mapping; write 'key: value' lines between the '---' lines"
            )
        return place, BROKEN
    if "content" in front:
        faults.add(place.at("content"), "is in the front matter; the text of a Markdown entry belongs below it")
    lines = {**place.lines, ("content",): halves.body_line}
    return SourceLocation(file=name, lines=lines), {**front, "content": halves.body}

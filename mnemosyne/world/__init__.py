"""Reads world packs: loads the folder that an author writes, checks it as a whole, and converts it to values.

A world pack is a folder with `world.yaml` and further files: lore, quests, actions, history and more. The rest of the
program can rely on a pack that was read here. This package must not import a store, an index, a template engine or
anything above mnemosyne. Of filament it imports `payload`, for YAML.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CodecError, WorldPackError
from mnemosyne.core.faults import Fault, Severity
from mnemosyne.schema.world import WorldPack
from mnemosyne.values import dataclass
from mnemosyne.world.build import build_world
from mnemosyne.world.checking.doubts import find_doubts
from mnemosyne.world.checking.links import check_links
from mnemosyne.world.describe import describe
from mnemosyne.world.format.check import PackFaults
from mnemosyne.world.pack_json import check_format, pack_from_json, pack_to_json
from mnemosyne.world.reading.draft import read_draft
from mnemosyne.world.reading.files import PackFolder, is_editable_name, pack_of_files, read_folder, replace_files
from mnemosyne.world.reading.json_draft import read_json_draft

__all__ = [
    "PackReport",
    "describe",
    "examine_changes",
    "examine_world",
    "is_editable_name",
    "load_world",
    "load_world_files",
    "load_world_json",
    "pack_from_json",
    "pack_to_json",
]


def load_world(folder: str | Path, *, try_patterns: bool = False) -> WorldPack:
    """Return the checked world of the pack in `folder`. Nothing is written.

    If `try_patterns`, the patterns of actions are also tried on inputs that may make them slow.

    Raises WorldPackError with all faults at once, if there are any. A fault has the form `file:line: key: fault;
    correction`, with the file relative to the pack and lines from 1. The faults are sorted by file and line, with
    `world.yaml` first.
    """
    return examine_world(folder, try_patterns=try_patterns)[0]


def examine_world(folder: str | Path, *, try_patterns: bool = False) -> tuple[WorldPack, tuple[str, ...]]:
    """Return (world, warnings) for the pack in `folder`. World and errors are the same as those of `load_world`.

    A warning is a sentence of the same form as a fault, about content that is legal but probably a mistake.
    """
    faults = PackFaults()
    return _load(read_folder(Path(folder), faults), faults, try_patterns=try_patterns)


@dataclass(frozen=True, kw_only=True, slots=True)
class PackReport:
    """Files of a pack as they would be after a change, and everything that is wrong with them."""

    files: Mapping[str, bytes]
    """Bytes of each file by its name below the pack."""
    world: WorldPack | None
    """World of these files. None if the pack has an error."""
    faults: tuple[Fault, ...]
    """Errors and warnings, sorted by file and line."""


def examine_changes(folder: str | Path, changes: Mapping[str, bytes | None]) -> PackReport:
    """Check the pack in `folder` as if some of its files had other bytes. Bytes that are None leave a file out.

    Nothing is written.
    """
    faults = PackFaults()
    pack = replace_files(read_folder(Path(folder), faults), changes, faults)
    draft = read_draft(pack, faults)
    tree = check_links(draft, faults)
    world: WorldPack | None = None
    doubts: tuple[Fault, ...] = ()
    if tree is not None and not len(faults):
        world, doubts = build_world(draft, tree, pack), find_doubts(tree, draft.world).found
    found = (*faults.found, *(replace(each, severity=Severity.WARNING) for each in doubts))
    ordered = sorted(found, key=lambda each: (each.file, each.line))
    return PackReport(files=pack.files, world=world, faults=tuple(ordered))


def load_world_files(files: Mapping[str, bytes]) -> WorldPack:
    """Return the checked world of the pack that consists of `files` (bytes by relative name).

    The files are checked like a pack in a folder. Raises WorldPackError as `load_world` does.
    """
    return _load(pack_of_files(files), PackFaults(), try_patterns=False)[0]


def load_world_json(value: Mapping[str, Any], *, most_faults: int = 0) -> WorldPack:
    """Return the checked world of the pack in `value`, which has the JSON form of `pack_to_json`.

    The pack is checked like a pack in a folder. Raises WorldPackError as `load_world` does, with names of fields instead of
    files and lines. If `most_faults` is not 0, the check stops when that many faults are found.
    """
    faults, pack = PackFaults(last=most_faults), value.get("pack")
    if not isinstance(pack, Mapping):
        raise WorldPackError(("pack: must be an object that has the fields of a world pack",))
    try:
        check_format(value)
        check_links(read_json_draft(pack, faults), faults)
        faults.close()
        return pack_from_json(value)
    except CodecError as error:
        raise WorldPackError((f"pack: {error}",)) from None


def _load(pack: PackFolder, faults: PackFaults, *, try_patterns: bool) -> tuple[WorldPack, tuple[str, ...]]:
    draft = read_draft(pack, faults)
    tree = check_links(draft, faults, try_patterns=try_patterns)
    faults.close()
    assert tree is not None, "a pack without faults has a state"
    return build_world(draft, tree, pack), find_doubts(tree, draft.world).sentences()

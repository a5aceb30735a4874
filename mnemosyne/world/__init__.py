"""World packs: reads the folder that an author writes, checks it as a whole, and converts it to values.

The rest of the program can rely on a pack that was read here. It must not import a store, an index, a template engine
or anything above mnemosyne; of filament it imports `payload` for YAML.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CodecError, WorldPackError
from mnemosyne.schema.world import WorldPack
from mnemosyne.world.build import build_world
from mnemosyne.world.checking.doubts import find_doubts
from mnemosyne.world.checking.links import check_links
from mnemosyne.world.describe import describe
from mnemosyne.world.format.check import PackFaults
from mnemosyne.world.pack_json import check_format, pack_from_json, pack_to_json
from mnemosyne.world.reading.draft import read_draft
from mnemosyne.world.reading.files import PackFolder, pack_of_files, read_folder
from mnemosyne.world.reading.json_draft import read_json_draft

__all__ = [
    "describe",
    "examine_world",
    "load_world",
    "load_world_files",
    "load_world_json",
    "pack_from_json",
    "pack_to_json",
]


def load_world(folder: str | Path, *, try_patterns: bool = False) -> WorldPack:
    """Return the world in a pack, checked; with `try_patterns` the patterns of actions are also tried on inputs that
    may slow them down.

    Nothing is written.

    Raises:
        WorldPackError: with all faults at once, each as `file:line: key: fault; correction` (file relative to the pack,
            line from 1), ordered
        by file and line, `world.yaml` first.
    """
    return examine_world(folder, try_patterns=try_patterns)[0]


def examine_world(folder: str | Path, *, try_patterns: bool = False) -> tuple[WorldPack, tuple[str, ...]]:
    """Return the world in a pack as `load_world` does, with warnings of the same form about legal content that is
    probably a mistake.
    """
    faults = PackFaults()
    return _load(read_folder(Path(folder), faults), faults, try_patterns=try_patterns)


def load_world_files(files: Mapping[str, bytes]) -> WorldPack:
    """Return the world of a pack whose files are given by relative name, checked as one in a folder; WorldPackError as for that."""
    return _load(pack_of_files(files), PackFaults(), try_patterns=False)[0]


def load_world_json(value: Mapping[str, Any], *, most_faults: int = 0) -> WorldPack:
    """Return the world of a pack in the JSON of `pack_to_json`, checked like a folder; WorldPackError with the names of
    fields in place of files and lines. `most_faults`: stop at so many (0: find all).
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
    return build_world(draft, tree, pack), find_doubts(tree, draft.world)

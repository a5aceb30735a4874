"""Writes imported cards and books into the folder of a pack (a world as files). All functions block.

An empty folder becomes a new pack. In an author's pack only files of lore (`lore/imported/`) and `imported.json` are
written. The author's own files never change, and a book that was edited since its import is not overwritten.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import WorldPackError
from mnemosyne.files import write_file
from mnemosyne.formats.worlds.lore import names_of, slug_of
from mnemosyne.formats.worlds.pack import (
    LORE_FOLDER,
    ImportedWorld,
    digest_of,
    imported_value,
    imported_world_of,
    join_imports,
    json_bytes,
    lore_of_book,
    lore_of_cards,
)
from mnemosyne.schema.imported_files import CharacterCard, WorldBook
from mnemosyne.schema.world import WorldPack
from mnemosyne.values import dataclass
from mnemosyne.world.reading.files import IMPORTED_FILE, WORLD_FILE

WRITTEN = "written"
"""Field of a book in `imported.json`: SHA-256 of the book's file of lore, as the import wrote it."""
IN_FOLDER = "in_folder"
"""Field of `imported.json`: true if the pack is in a folder, in which an author may edit it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderChange:
    """Files to write into a folder. `files` has the new contents by relative name. Files that do not change are not in it."""

    folder: Path
    files: Mapping[str, bytes]

    def write(self) -> tuple[Path, ...]:
        """Write the files and return their paths. Each file is written completely or not at all.

        Raises WorldPackError if a file cannot be written.
        """
        done = []
        for name, data in self.files.items():
            path = self.folder / name
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_file(path, data)
            except OSError as error:
                raise WorldPackError((f"{path}: cannot be written ({error.strerror or error})",)) from error
            done.append(path)
        return tuple(done)


def holds_pack(folder: Path) -> bool:
    """Return whether a folder contains a pack."""
    return (folder / WORLD_FILE).is_file()


def plan_new_pack(folder: Path, files: Mapping[str, bytes]) -> FolderChange:
    """Return the change that makes `folder` the pack of `files`. Raises WorldPackError if `folder` is a file or is not empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WorldPackError(
            (f"{folder}: holds no pack and is not empty; name a new folder, or one with a {WORLD_FILE}",)
        )
    return FolderChange(folder=folder, files=_note_written(files))


def plan_additions(
    folder: Path, world: WorldPack, cards: Sequence[CharacterCard], books: Sequence[WorldBook]
) -> FolderChange:
    """Return the change that adds cards and books to the pack in a folder. `world` is the present content of the pack.

    A new card becomes lore about its character, because the persona belongs to the author. Raises WorldPackError if the
    file of a book was edited since its import.
    """
    told = {str(each.get("name")): each for each in world.imported.get("books") or () if isinstance(each, Mapping)}
    known = {each.get("name") for each in world.imported.get("cards") or () if isinstance(each, Mapping)}
    before = imported_world_of(world)
    joined = join_imports(before, cards, books)
    new = [book for book in joined.books if book.dialect != "jacquard" and _is_new(book, told)]
    names = names_of(world.imported)
    files: dict[str, bytes] = {}
    for book in new:
        name = f"{LORE_FOLDER}/{slug_of(book.name)}.yaml"
        _check_unedited(folder / name, told.get(book.name, {}))
        if data := lore_of_book(book, names):
            files[name] = data
    guests = [card.name for card in joined.cards if card.name not in known]
    guests += [str(each["name"]) for each in world.imported.get("cards") or () if each.get("as_lore") is True]
    if cards and (data := lore_of_cards(joined.cards, names, guests)):
        files[f"{LORE_FOLDER}/cards.yaml"] = data
    if not files:
        return FolderChange(folder=folder, files={})
    value = _value_of(joined, world, guests, {book.name for book in new}, told)
    return _differing(folder, _note_written({**files, IMPORTED_FILE: json_bytes(value)}))


def _is_new(book: WorldBook, told: Mapping[str, Mapping[str, Any]]) -> bool:
    return told.get(book.name, {}).get("source") != digest_of(book)


def _value_of(
    joined: ImportedWorld,
    world: WorldPack,
    guests: Sequence[str],
    new: set[str],
    told: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the new content of `imported.json`: the present content with the new cards and books."""
    value = imported_value(joined)
    if "names" in world.imported:
        value["names"] = world.imported["names"]
    value["books"] = [
        each if each["name"] in new else told[each["name"]]
        for each in value["books"]
        if each["name"] in new or each["name"] in told
    ]
    for card in value["cards"]:
        if card["name"] in guests:
            card["as_lore"] = True
    return value


def _check_unedited(path: Path, told: Mapping[str, Any]) -> None:
    data = _content_of(path)
    if data is not None and WRITTEN in told and sha256(data).hexdigest() != told[WRITTEN]:
        raise WorldPackError(
            (f"{path}: was edited since the book was imported; move it elsewhere to import the book once more",)
        )


def _note_written(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files of a pack. Its `imported.json` gets the hash of each book's file and the mark that the pack is in
    a folder.
    """
    if IMPORTED_FILE not in files:
        return dict(files)
    value = {**json.loads(files[IMPORTED_FILE]), IN_FOLDER: True}
    for book in value.get("books", ()):
        data = files.get(f"{LORE_FOLDER}/{slug_of(book['name'])}.yaml")
        if data is not None:
            book[WRITTEN] = sha256(data).hexdigest()
    return {**files, IMPORTED_FILE: json_bytes(value)}


def _differing(folder: Path, files: Mapping[str, bytes]) -> FolderChange:
    changed = {name: data for name, data in sorted(files.items()) if _content_of(folder / name) != data}
    return FolderChange(folder=folder, files=changed)


def _content_of(path: Path) -> bytes | None:
    try:
        return path.read_bytes() if path.is_file() else None
    except OSError as error:
        raise WorldPackError((f"{path}: cannot be read ({error.strerror or error})",)) from error

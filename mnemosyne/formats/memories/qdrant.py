"""Local folders of Qdrant, the store that mem0 has by default: the payloads of their points, read without Qdrant.

A point is stored as a pickle, which may hold calls of any function. It is never loaded: `plain_pickle` reads its data alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.formats.memories.databases import open_database
from mnemosyne.formats.memories.plain_pickle import read_plain_pickle

COLLECTIONS = "collection"
_POINTS = "points"
_FILE = "storage.sqlite"
_MOST_COLLECTIONS = 1000
_MIGRATIONS = "mem0migrations"
_HOW_TO_EXPORT = "write get_all() of mem0 as JSON, and import that file"


def is_qdrant_folder(folder: Path) -> bool:
    """Return whether a folder is a local store of Qdrant."""
    return (folder / "meta.json").is_file() and (folder / COLLECTIONS).is_dir()


def read_points(folder: Path, counter: FieldCounter, notes: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the points of all collections of a folder in order, each with its `id` and its `payload`.

    A point that cannot be read is counted and passed by; `notes` get a sentence on it. CorpusError for a database that is damaged.
    """
    unread = 0
    for file in _databases(folder, notes):
        with open_database(file) as database:
            if _POINTS not in database.tables:
                continue
            for row in database.rows(_POINTS, ("point",)):
                point = _point_of(row.get("point"))
                if point is None:
                    unread += 1
                    counter.refuse("points.*", note="cannot be read; passed by")
                    continue
                counter.refuse("points.*.vector", note="vectors are made again")
                yield point
    if unread:
        notes.append(f"{unread:,} points of {folder.name} could not be read: {_HOW_TO_EXPORT}.")


def _databases(folder: Path, notes: list[str]) -> Iterator[Path]:
    collections = folder / COLLECTIONS
    try:
        names = sorted(each.name for each in collections.iterdir() if not each.is_symlink())
    except OSError as error:
        raise CorpusError(f"{collections}: cannot be read ({error.strerror or error}).") from error
    for name in names[:_MOST_COLLECTIONS]:
        file = collections / name / _FILE
        if name != _MIGRATIONS and file.is_file() and not file.is_symlink():
            yield file
    if len(names) > _MOST_COLLECTIONS:
        notes.append(f"{folder.name} has {len(names):,} collections; the first {_MOST_COLLECTIONS:,} were read.")


def _point_of(data: Any) -> dict[str, Any] | None:
    """Return the id and the payload of a stored point; None for what is no point."""
    if not isinstance(data, bytes):
        return None
    try:
        value = read_plain_pickle(data)
    except ValueError:
        return None
    fields = value.get("__dict__", value) if isinstance(value, Mapping) else None
    if not isinstance(fields, Mapping) or not isinstance(fields.get("payload"), Mapping):
        return None
    point_id = fields.get("id")
    return {"id": point_id if isinstance(point_id, str | int) else "", "payload": fields["payload"]}

"""Writes the starter pack of `jacquard author init`: a small, commented, playable world in English or Chinese.

The files of the starter pack are package data in `starter/`.
"""

from __future__ import annotations

import shutil
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from uuid import uuid4

from mnemosyne.core.errors import WorldPackError
from mnemosyne.files import write_file

LANGUAGES = ("en", "zh")
_MOST_NAMES = 5


def write_scaffold(folder: Path, locale: str = "en") -> tuple[Path, ...]:
    """Write the starter pack into `folder`, and return the paths of the written files, sorted.

    A missing folder is created. An existing folder must be empty, so that the files of the pack are not mixed with other
    files. Either all files are written or none. Raises WorldPackError if the folder is not empty or cannot be written, or if
    there is no starter pack for `locale`.
    """
    starter = starter_files(locale)
    if folder.exists() and not folder.is_dir():
        raise WorldPackError((f"{folder}: is a file; name a folder",))
    try:
        if (held := _list_contents(folder)) is not None:
            raise WorldPackError((f"{folder}: holds {held}; name a folder that does not exist yet, or an empty one",))
        if folder.is_dir():
            _add_files(folder, starter)
        else:
            _make_folder(folder, starter)
    except OSError as error:
        raise WorldPackError(
            (f"{folder}: cannot be written ({error.strerror or error}); nothing was written",)
        ) from error
    return tuple(folder / name for name in starter)


def _list_contents(folder: Path) -> str | None:
    """Return the names of the entries of a folder as text for people, or None if the folder is empty."""
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "") or None


def starter_files(locale: str = "en") -> dict[str, bytes]:
    """Return the files of the starter pack (bytes by relative name), sorted by name.

    Raises WorldPackError if there is no starter pack for `locale`.
    """
    language = locale.replace("_", "-").partition("-")[0].lower()
    if language not in LANGUAGES:
        raise WorldPackError(
            (f"There is no starter pack for the locale {locale!r}; choose one of {', '.join(LANGUAGES)}",)
        )
    return dict(sorted(_walk(files("mnemosyne.world") / "starter" / language, PurePosixPath())))


def _walk(folder: Traversable, name: PurePosixPath) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _walk(entry, name / entry.name)
        elif entry.name.endswith((".yaml", ".md")):
            found.append((str(name / entry.name), entry.read_bytes()))
    return found


def _make_folder(folder: Path, starter: dict[str, bytes]) -> None:
    """Write all files into a temporary folder next to `folder`, and rename it, so that `folder` is complete or missing."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    staged = folder.parent / f".{folder.name}.{uuid4().hex}"
    try:
        for name, data in starter.items():
            (staged / name).parent.mkdir(parents=True, exist_ok=True)
            write_file(staged / name, data)
        staged.rename(folder)
    except OSError:
        shutil.rmtree(staged, ignore_errors=True)
        raise


def _add_files(folder: Path, starter: dict[str, bytes]) -> None:
    """Write the files into an existing folder. If one cannot be written, remove the files written before."""
    made: list[Path] = []
    try:
        for name, data in starter.items():
            target = folder / name
            for parent in reversed(target.relative_to(folder).parents[:-1]):
                if not (folder / parent).is_dir():
                    (folder / parent).mkdir()
                    made.append(folder / parent)
            write_file(target, data)
            made.append(target)
    except OSError:
        for path in reversed(made):
            path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
        raise

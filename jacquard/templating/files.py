"""Finds template files below template roots and reads them into memory once. This module must not import jinja2.

Rendering then reads nothing from the disk, and no file name can lead out of a root. A root is a folder, or the texts of a world
pack that were read from a store. The name of a file is its path below the root, such as `combat/guidance.j2`. If several roots
have a file of this name, the first root is used, so that a pack can override single files. The prefix `shipped/` names the file
of the last root instead. The folder `tests` of a root contains golden prompts and no templates.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from operator import attrgetter
from pathlib import Path

from jacquard.core.errors import TemplateError
from jacquard.templating.limits import FILE_LIMIT_BYTES
from mnemosyne.schema.world import WorldPack
from mnemosyne.values import dataclass

SHIPPED_PREFIX = "shipped/"
COMMON_TEMPLATE = "chat"
_SUFFIXES = (".j2", ".yaml")
TESTS_FOLDER = "tests"
_NO_TEMPLATES = ("layouts", "profiles", TESTS_FOLDER, SHIPPED_PREFIX.rstrip("/"))

Fingerprint = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TemplateFile:
    """One template file in memory."""

    name: str
    shown: str
    """Path of the file, as messages show it to people."""
    text: str
    """Content, with line feeds as line ends."""

    def line(self, number: int | None) -> str:
        """Return the text of the line `number`, counted from 1. Return '' if there is no such line."""
        lines = self.text.split("\n")
        return lines[number - 1] if number is not None and 0 < number <= len(lines) else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class TextRoot:
    """Template root in memory: the texts of the template files of a pack."""

    shown: str
    """Prefix of the file names, as messages show them to people."""
    texts: tuple[tuple[str, str], ...]
    """(name, text) of every file, with line feeds as line ends."""

    def text(self, name: str) -> str | None:
        """Return the text of the file `name`. Return None if there is no such file."""
        return next((text for known, text in self.texts if known == name), None)


TemplateRoot = Path | TextRoot


def template_roots(roots: Sequence[TemplateRoot], world: WorldPack) -> tuple[TemplateRoot, ...]:
    """Return the template roots of `world`: the templates of its pack first, then `roots`.

    The root of the pack's templates contains the texts that were read with the pack. If they were not read yet, the
    root is the pack's folder.
    """
    if world.templates is None:
        return tuple(roots) if world.template_root is None else (Path(world.template_root), *roots)
    if not world.templates:
        return tuple(roots)
    shown = world.template_root or f"pack {world.world_id}: templates"
    return (TextRoot(shown=shown, texts=tuple(world.templates.items())), *roots)


def with_templates(world: WorldPack) -> WorldPack:
    """Return a pack with the texts of its templates; texts that the pack does not have yet are read from its folder.

    The function reads from the disk, so call it off the event loop. Raises TemplateError if a file is too large, is not
    UTF-8, or is a link that leads out of the folder.
    """
    if world.templates is not None:
        return world
    files = {} if world.template_root is None else read_files((Path(world.template_root),))
    texts = {name: file.text for name, file in files.items() if not name.startswith(SHIPPED_PREFIX)}
    return replace(world, templates=texts)


def find_shipped_templates() -> Path:
    """Return the folder of the shipped templates: in the installed package, else in the repository of this source.

    Raises TemplateError if neither has it.
    """
    package = Path(str(resources.files("jacquard")))
    for folder in (package / "_templates", package.parent / "templates"):
        if folder.is_dir():
            return folder
    raise TemplateError(
        str(package / "_templates"), None, "the shipped templates are missing; install jacquard-context again"
    )


def fingerprint(roots: Sequence[TemplateRoot]) -> Fingerprint:
    """Return (path, time of change, size) of each template file below `roots`; the value changes if any file changes.

    Roots in memory are left out, because they never change.
    """
    found = []
    for root in roots:
        for path in _list_paths(root) if isinstance(root, Path) else ():
            status = os.stat(path)  # noqa: PTH116 (a Path costs more than the call, and a turn asks for dozens)
            found.append((path, status.st_mtime_ns, status.st_size))
    return tuple(found)


def read_files(roots: Sequence[TemplateRoot]) -> Mapping[str, TemplateFile]:
    """Return file name -> template file, for all files below `roots`. If several roots have a file of the same name,
    the file of the first root is returned.

    Raises TemplateError if a file is too large, is not UTF-8, or is a link that leads out of its root.
    """
    files: dict[str, TemplateFile] = {}
    for index, root in enumerate(roots):
        for read in _read_root(root):
            files.setdefault(read.name, read)
            if index == len(roots) - 1:
                files[SHIPPED_PREFIX + read.name] = read
    return files


def _read_root(root: TemplateRoot) -> Iterator[TemplateFile]:
    if isinstance(root, Path):
        for path in map(Path, _list_paths(root)):
            yield _read(root, path, path.relative_to(root).as_posix())
        return
    for name, text in root.texts:
        shown = f"{root.shown}/{name}"
        _check_size(shown, len(text.encode("utf-8", "surrogatepass")))
        yield TemplateFile(name=name, shown=shown, text=text)


def template_ids(names: Iterable[str]) -> tuple[str, ...]:
    """Return the ids of the templates to which the files `names` belong, sorted. The id is the first folder of a name."""
    folders = {name.split("/", 1)[0] for name in names if "/" in name}
    return tuple(sorted(folders.difference(_NO_TEMPLATES)))


def resolve_file(files: Mapping[str, TemplateFile], folders: Sequence[str], file: str) -> str:
    """Return the name of `file` in the first of `folders` that has it.

    Raises TemplateError if none of `folders` has the file.
    """
    for folder in folders:
        if (name := f"{folder}/{file}") in files:
            return name
    raise TemplateError(
        f"{folders[0]}/{file}", None, f"there is no such file, nor one in {', '.join(folders[1:])}; add it"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Listing:
    """Template files below a root, and its folders with the times of their last change."""

    paths: tuple[str, ...]
    folders: tuple[tuple[str, int], ...]

    def is_current(self) -> bool:
        """Return whether no folder has changed since."""
        try:
            return all(os.stat(folder).st_mtime_ns == changed for folder, changed in self.folders)  # noqa: PTH116 (as above)
        except OSError:
            return False

    def is_settled(self) -> bool:
        """Return whether its folders changed so long ago that another change would give them another time."""
        return bool(self.folders) and time.time_ns() - max(at for _, at in self.folders) > _SETTLED_NS


_SETTLED_NS = 2_000_000_000
_LISTED: dict[str, _Listing] = {}


def _list_paths(root: Path) -> tuple[str, ...]:
    """Return the template files below a root, sorted, without its tests; empty if the root does not exist."""
    name = str(root)
    known = _LISTED.get(name)
    if known is not None and known.is_current():
        return known.paths
    listing = _list_folder(name, is_root=True)
    _LISTED.pop(name, None)
    if listing.is_settled():
        _LISTED[name] = listing
    return listing.paths


def _list_folder(folder: str, *, is_root: bool) -> _Listing:
    try:
        changed = os.stat(folder).st_mtime_ns  # noqa: PTH116 (as above)
        with os.scandir(folder) as listed:
            entries = sorted(listed, key=attrgetter("name"))
    except OSError:
        return _Listing(paths=(), folders=())
    paths = [each.path for each in entries if each.name.endswith(_SUFFIXES) and not each.is_dir()]
    folders = [(folder, changed)]
    for each in entries:
        if each.is_dir(follow_symlinks=False) and not (is_root and each.name == TESTS_FOLDER):
            inner = _list_folder(each.path, is_root=False)
            paths += inner.paths
            folders += inner.folders
    return _Listing(paths=tuple(paths), folders=tuple(folders))


def _read(root: Path, path: Path, name: str) -> TemplateFile:
    if not path.resolve().is_relative_to(root.resolve()):
        raise TemplateError(str(path), None, "leads out of the template folder; put the file itself there")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TemplateError(str(path), None, f"cannot be read: {error.strerror}") from error
    _check_size(str(path), len(data))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise TemplateError(str(path), line, "is not UTF-8 here; save the file as UTF-8") from error
    return TemplateFile(name=name, shown=str(path), text=text.removeprefix("﻿").replace("\r\n", "\n"))


def _check_size(shown: str, size: int) -> None:
    if size > FILE_LIMIT_BYTES:
        raise TemplateError(shown, None, f"has {size:,} bytes; a template file has at most {FILE_LIMIT_BYTES:,}")

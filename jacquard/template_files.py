"""Template folders: which file answers to which name, read into memory once.

The room exists so that rendering touches no disk and no name leads out of a root. A name is a path below a root
(`combat/guidance.j2`); the first root that has it wins, so that a pack's folder overrides file by file. The last root's own
file can still be named with `shipped/` before it. A root's folder `tests` holds golden prompts and is no template. It must
not import jinja2.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from operator import attrgetter
from pathlib import Path

from jacquard.errors import TemplateError
from jacquard.limits import FILE_LIMIT_BYTES

SHIPPED_PREFIX = "shipped/"
COMMON_TEMPLATE = "chat"
_SUFFIXES = (".j2", ".yaml")
TESTS_FOLDER = "tests"
_NO_TEMPLATES = ("layouts", TESTS_FOLDER, SHIPPED_PREFIX.rstrip("/"))

Fingerprint = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TemplateFile:
    """One file: `shown` is the path for people, `text` its content, lines ended by line feeds."""

    name: str
    shown: str
    text: str

    def line(self, number: int | None) -> str:
        """Return the text of a 1-based line, or an empty text."""
        lines = self.text.split("\n")
        return lines[number - 1] if number is not None and 0 < number <= len(lines) else ""


def shipped_templates() -> Path:
    """Return the folder of the shipped templates: in the installed package, else in the repository it runs from."""
    package = Path(str(resources.files("jacquard")))
    for folder in (package / "_templates", package.parent / "templates"):
        if folder.is_dir():
            return folder
    raise TemplateError(
        str(package / "_templates"), None, "the shipped templates are missing; install jacquard-context again"
    )


def fingerprint(roots: Sequence[Path]) -> Fingerprint:
    """Return what changes when any template file below the roots does: path, time of change, size."""
    found = []
    for root in roots:
        for path in _files(root):
            status = path.stat()
            found.append((path.path, status.st_mtime_ns, status.st_size))
    return tuple(found)


def read_files(roots: Sequence[Path]) -> Mapping[str, TemplateFile]:
    """Return all template files by name; TemplateError for one that is too big, not UTF-8 or leads out of its root."""
    files: dict[str, TemplateFile] = {}
    for index, root in enumerate(roots):
        for path in (Path(each) for each in _files(root)):
            name = path.relative_to(root).as_posix()
            read = _read(root, path, name)
            files.setdefault(name, read)
            if index == len(roots) - 1:
                files[SHIPPED_PREFIX + name] = read
    return files


def template_ids(names: Iterable[str]) -> tuple[str, ...]:
    """Return the template ids that these names make up, sorted."""
    folders = {name.split("/", 1)[0] for name in names if "/" in name}
    return tuple(sorted(folders.difference(_NO_TEMPLATES)))


def resolve_file(files: Mapping[str, TemplateFile], folders: Sequence[str], file: str) -> str:
    """Return the name of a template's file: that of the first folder which has it."""
    for folder in folders:
        if (name := f"{folder}/{file}") in files:
            return name
    raise TemplateError(
        f"{folders[0]}/{file}", None, f"there is no such file, nor one in {', '.join(folders[1:])}; add it"
    )


def _files(folder: str | Path, *, is_root: bool = True) -> list[os.DirEntry[str]]:
    """Return the template files below a root, sorted, its tests left out; a root that is not there has none."""
    try:
        with os.scandir(folder) as listed:
            entries = sorted(listed, key=attrgetter("name"))
    except OSError:
        return []
    found = [each for each in entries if each.name.endswith(_SUFFIXES) and not each.is_dir()]
    for each in entries:
        if each.is_dir(follow_symlinks=False) and not (is_root and each.name == TESTS_FOLDER):
            found += _files(each.path, is_root=False)
    return found


def _read(root: Path, path: Path, name: str) -> TemplateFile:
    if not path.resolve().is_relative_to(root.resolve()):
        raise TemplateError(str(path), None, "leads out of the template folder; put the file itself there")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TemplateError(str(path), None, f"cannot be read: {error.strerror}") from error
    if len(data) > FILE_LIMIT_BYTES:
        raise TemplateError(
            str(path), None, f"has {len(data):,} bytes; a template file has at most {FILE_LIMIT_BYTES:,}"
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise TemplateError(str(path), line, "is not UTF-8 here; save the file as UTF-8") from error
    return TemplateFile(name=name, shown=str(path), text=text.removeprefix("﻿").replace("\r\n", "\n"))

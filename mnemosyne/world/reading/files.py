"""Reads the files of a world pack (the folder that an author of a world writes) as bytes.

The module also checks which files are allowed, and computes one digest of all files.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import field
from hashlib import sha256
from pathlib import Path

from mnemosyne.core.faults import NO_LINES, FaultList, SourceLocation, did_you_mean
from mnemosyne.values import dataclass

WORLD_FILE = "world.yaml"
IMPORTED_FILE = "imported.json"
TOP_FILES = (
    WORLD_FILE,
    "quests.yaml",
    "actions.yaml",
    "planner.yaml",
    "injections.yaml",
    "history.yaml",
    IMPORTED_FILE,
)
LORE_FOLDER = "lore"
TEMPLATE_FOLDER = "templates"
TEMPLATE_SUFFIXES = (".j2", ".yaml")
TESTS_FOLDER = "tests"
MAX_FILE_BYTES = 16_000_000
MAX_PACK_BYTES = 128_000_000
MAX_FILES = 20_000


@dataclass(frozen=True, kw_only=True, slots=True)
class PackFolder:
    """Files of a pack. `digest` is the hash of all files."""

    files: dict[str, bytes]
    """Bytes of each file by relative name, sorted by name."""
    digest: str
    template_root: str | None
    """Folder of the pack's own templates. None if the pack has none."""
    templates: dict[str, str] = field(default_factory=dict)
    """Texts of the templates, manifests and layouts, by their names below `templates/`."""


def read_folder(folder: Path, faults: FaultList) -> PackFolder:
    """Return all files that belong to a pack. A file that cannot be read is added to `faults` and left out.

    Hidden files, pictures, a README and other folders at the top are skipped. Unknown YAML files are faults, because
    otherwise they would be ignored without a message.
    """
    here = _whole(str(folder))
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        faults.add(here, f"{what}; name the folder that holds {WORLD_FILE}")
        return PackFolder(files={}, digest="", template_root=None)
    root = folder.resolve()
    files: dict[str, bytes] = {}
    total = 0
    for name in _names(root, faults):
        if len(files) >= MAX_FILES:
            faults.add(here, f"holds more than {MAX_FILES:,} files; join small lore files")
            break
        data = _read(root, name, faults)
        total += len(data or b"")
        if total > MAX_PACK_BYTES:
            faults.add(here, f"holds more than {MAX_PACK_BYTES:,} bytes; shorten or split the pack")
            break
        if data is not None:
            files[_escape_unprintable(name)] = data
    if WORLD_FILE not in files and not (root / WORLD_FILE).exists():
        start = "is an empty folder" if not any(root.iterdir()) else "has no such file"
        faults.add(
            _whole(WORLD_FILE),
            f"is missing ({_escape_unprintable(str(folder))}: {start}); write it with id, title and locale",
        )
    templates = root / TEMPLATE_FOLDER
    return PackFolder(
        files=files,
        digest=_digest(files),
        template_root=str(templates) if templates.is_dir() else None,
        templates=_templates(files, faults),
    )


def is_editable_name(name: str) -> bool:
    """Return whether a file of this name below a pack is a text that its author writes."""
    parts = name.split("/")
    if not name.isprintable() or "\\" in name or any(not part or part.startswith(".") for part in parts):
        return False
    if len(parts) == 1:
        return name in TOP_FILES and name != IMPORTED_FILE
    if parts[0] == LORE_FOLDER:
        return name.endswith((".yaml", ".md"))
    is_prompt = parts[:2] == [TEMPLATE_FOLDER, TESTS_FOLDER] and len(parts) == 3 and name.endswith(".txt")
    return parts[0] == TEMPLATE_FOLDER and len(parts) > 2 and (name.endswith(TEMPLATE_SUFFIXES) or is_prompt)


def replace_files(pack: PackFolder, changes: Mapping[str, bytes | None], faults: FaultList) -> PackFolder:
    """Return a pack with other bytes of some files. A file whose bytes are None is left out."""
    given = {**pack.files, **changes}
    files = {name: data for name, data in sorted(given.items()) if data is not None}
    if WORLD_FILE in pack.files and WORLD_FILE not in files:
        faults.add(_whole(WORLD_FILE), "is missing; a pack cannot be without it")
    return PackFolder(
        files=files, digest=_digest(files), template_root=pack.template_root, templates=_templates(files, faults)
    )


def pack_of_files(files: Mapping[str, bytes]) -> PackFolder:
    """Return the pack that consists of `files` (bytes by relative name). Such a pack has no templates."""
    return PackFolder(files=dict(sorted(files.items())), digest=_digest(dict(files)), template_root=None)


def decode(data: bytes, place: SourceLocation, faults: FaultList) -> str | None:
    """Return the text of a file whose bytes are `data` in UTF-8, without a byte order mark.

    If `data` is not UTF-8, return None, and add to `faults` a fault at `place` that guesses the encoding.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        where = SourceLocation(file=place.file, lines={(): line})
        faults.add(where, f"is not UTF-8 (byte 0x{data[error.start]:02x}{_guess(data)}); save the file as UTF-8")
        return None


def _names(root: Path, faults: FaultList) -> Iterator[str]:
    """Yield the relative names of all pack files. They are sorted, so that the digest does not depend on the file system."""
    found: list[str] = []
    for entry in _list_folder(root, root, faults):
        if entry.name in TOP_FILES:
            found.append(entry.name)
        elif entry.name in (LORE_FOLDER, TEMPLATE_FOLDER) and _is_own_folder(entry, root, faults):
            found.extend(_list_below(entry, root, faults))
        elif entry.suffix.lower() in (".yaml", ".yml"):
            near = did_you_mean(entry.name, TOP_FILES)
            what = f"is not a file of a pack{near}; known are {', '.join(TOP_FILES)}, and lore files in lore/"
            faults.add(SourceLocation(file=_escape_unprintable(entry.name)), what)
        elif near := _suggest_folder(entry):
            faults.add(_whole(entry.name), f"is not a folder of a pack{near}")
    yield from sorted(found)


def _list_below(folder: Path, root: Path, faults: FaultList) -> Iterator[str]:
    for entry in _list_folder(folder, root, faults):
        name = entry.relative_to(root).as_posix()
        if entry.is_dir():
            if _is_own_folder(entry, root, faults):
                yield from _list_below(entry, root, faults)
        elif name.startswith(LORE_FOLDER) and entry.suffix not in (".yaml", ".md"):
            faults.add(
                SourceLocation(file=_escape_unprintable(name)),
                "is not a lore file; name it .yaml or .md, or move it out of lore/",
            )
        else:
            yield name


def _list_folder(folder: Path, root: Path, faults: FaultList) -> list[Path]:
    try:
        return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        what = f"cannot be listed ({error.strerror}); check its rights"
        faults.add(_whole(folder.relative_to(root).as_posix()), what)
        return []


def _is_own_folder(entry: Path, root: Path, faults: FaultList) -> bool:
    place = _whole(entry.relative_to(root).as_posix())
    if entry.is_symlink():
        faults.add(place, "is a link; put the folder itself into the pack")
        return False
    if not entry.is_dir():
        faults.add(place, "is not a folder; put a folder of this name here")
        return False
    return True


def _suggest_folder(entry: Path) -> str:
    known = (LORE_FOLDER, TEMPLATE_FOLDER)
    return did_you_mean(entry.name, known) if entry.is_dir() and not entry.is_symlink() else ""


def _read(root: Path, name: str, faults: FaultList) -> bytes | None:
    path = root / name
    place = SourceLocation(file=_escape_unprintable(name))
    try:
        target = path.resolve(strict=True)
        if not target.is_relative_to(root):
            faults.add(place, "is a link that leads out of the pack; put the file itself here")
            return None
        status = target.stat()
        if not stat.S_ISREG(status.st_mode):
            faults.add(place, "is not a regular file; put a file here")
            return None
        with target.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        faults.add(_whole(name), f"cannot be read ({reason}); check the file and its rights")
        return None
    if len(data) > MAX_FILE_BYTES:
        faults.add(place, f"has more than {MAX_FILE_BYTES:,} bytes; split it")
        return None
    return data


def _templates(files: dict[str, bytes], faults: FaultList) -> dict[str, str]:
    """Return the texts of a pack's templates. Golden prompts (`templates/tests/`) and other kinds of files are left out."""
    texts: dict[str, str] = {}
    for name, data in files.items():
        folder, _, below = name.partition("/")
        if folder != TEMPLATE_FOLDER or not below.endswith(TEMPLATE_SUFFIXES) or below.startswith(f"{TESTS_FOLDER}/"):
            continue
        text = decode(data, SourceLocation(file=name), faults)
        if text is not None:
            texts[below] = text.replace("\r\n", "\n")
    return texts


def _digest(files: dict[str, bytes]) -> str:
    digest = sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{len(files[name])}\0".encode())
        digest.update(files[name])
    return digest.hexdigest()


def _guess(data: bytes) -> str:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return ", perhaps UTF-16"
    try:
        text = data.decode("gb18030")
    except UnicodeDecodeError:
        return ""
    return ", perhaps GBK" if any("\u4e00" <= each <= "\u9fff" for each in text) else ""


def _whole(name: str) -> SourceLocation:
    """Return the place of a folder, or of a file as a whole (without a line)."""
    return SourceLocation(file=_escape_unprintable(name), lines=NO_LINES)


def _escape_unprintable(name: str) -> str:
    """Return a file name as one printable line, whatever its bytes are."""
    return re.sub(r"[\x00-\x1f\x7f]", "?", os.fsencode(name).decode("utf-8", "replace"))

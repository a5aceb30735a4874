"""Lists the files of a folder from an untrusted source. Skipped files are reported with the reason.

Links are not followed, so nothing outside of the folder is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path

from mnemosyne.core.errors import CorpusError
from mnemosyne.core.plain_values import text_fault
from mnemosyne.values import dataclass

MOST_FILES = 200_000
"""Maximum number of files and folders below a folder."""
MOST_NAMED = 100
"""Maximum number of files that are named for one reason. Further files are only counted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderFile:
    """A file below a folder. `name` is its path relative to the folder, with `/` between the parts."""

    path: Path
    name: str


@dataclass(kw_only=True, slots=True)
class PassedBy:
    """Collects the names of skipped files, by reason."""

    names: dict[str, list[str]] = field(default_factory=dict)

    def add(self, reason: str, name: str) -> None:
        """Add the name of a skipped file. `reason` is a clause about all files skipped for it: `they are links`."""
        self.names.setdefault(reason, []).append(name)

    def notes(self) -> Iterator[str]:
        """Yield a sentence for each reason. It names the first MOST_NAMED files."""
        for reason, names in self.names.items():
            shown = ", ".join(names[:MOST_NAMED])
            more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
            yield f"passed by, because {reason} ({len(names):,}): {shown}{more}"


def list_files(folder: Path, endings: Sequence[str], passed: PassedBy) -> list[FolderFile]:
    """Return the files below a folder whose names end with one of `endings` (in any case), sorted by name.

    Skipped files are added to `passed`: links, hidden files and folders, names that are not UTF-8, and folders that
    cannot be read. Files with other endings are added as a count for each ending. Raises CorpusError if `folder` is not a
    folder or contains more than MOST_FILES files.
    """
    if not folder.is_dir():
        raise CorpusError(f"{folder}: {'is not a folder' if folder.exists() else 'there is no such folder'}.")
    found: list[FolderFile] = []
    others: dict[str, int] = {}
    seen = 0
    stack = [(folder, "")]
    while stack:
        parent, prefix = stack.pop()
        try:
            with os.scandir(parent) as entries:
                for entry in entries:
                    seen += 1
                    if seen > MOST_FILES:
                        raise CorpusError(f"{folder}: holds more than {MOST_FILES:,} files; import a part of it.")
                    if reason := _reason_to_pass(entry):
                        passed.add(reason, _printable(prefix + entry.name))
                    elif entry.is_dir(follow_symlinks=False):
                        stack.append((Path(entry.path), f"{prefix}{entry.name}/"))
                    elif entry.name.lower().endswith(tuple(endings)):
                        found.append(FolderFile(path=Path(entry.path), name=prefix + entry.name))
                    else:
                        ending = Path(entry.name).suffix.lower()[:20] or "no ending"
                        others[ending] = others.get(ending, 0) + 1
        except OSError as error:
            passed.add(f"they cannot be read ({error.strerror or error})", _printable(prefix or str(folder)))
    for ending, count in sorted(others.items())[:MOST_NAMED]:
        passed.add("they are no notes", f"{count:,} with {ending}")
    return sorted(found, key=lambda file: file.name)


def _reason_to_pass(entry: os.DirEntry[str]) -> str:
    if text_fault(entry.name):
        return "their names are no UTF-8"
    if entry.is_symlink():
        return "they are links"
    return "they are hidden" if entry.name.startswith(".") else ""


def _printable(name: str) -> str:
    return name.encode("utf-8", "replace").decode("utf-8")

"""Stores the original texts of redacted evidence in a folder (a vault), for hosts that must keep originals.

An original is a text from outside before personal data was masked in it. Only the owner may read the folder. Nothing in this
system indexes originals or puts them into a prompt. The module must not import a store.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from anyio import to_thread

from mnemosyne.files import NEW, write_file
from mnemosyne.privacy.runs import TextMatcher
from mnemosyne.privacy.scrub import Scrubber
from mnemosyne.schema.erasure import StoredRow

_OWNER_ONLY = 0o700
_UNFINISHED = f".*{NEW}"


class FolderVault:
    """An `OriginalVault` in a folder: one JSON file for each original, readable only by its owner.

    Files are named by hashes, so that a listing shows no ids. Every method raises OSError if the folder cannot be
    used.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    async def put(self, session_id: str, evidence_id: str, original: str) -> None:
        """Store the original of an evidence item. An older original of the item is replaced."""
        await to_thread.run_sync(self._put, session_id, evidence_id, original)

    async def get(self, session_id: str, evidence_id: str) -> str | None:
        """Return the original of an evidence item. Return None if the vault has no original of the item."""
        return await to_thread.run_sync(self._get, session_id, evidence_id)

    async def drop(
        self, *, session_ids: Sequence[str] = (), evidence_ids: Sequence[str] = (), texts: Sequence[str] = ()
    ) -> int:
        """Delete originals, and return how many were deleted.

        The originals of `session_ids` are deleted. If `evidence_ids` is not empty, only the originals of these evidence items
        are. In addition, each original of any session that contains one of `texts` is deleted.
        """
        return await to_thread.run_sync(self._drop, tuple(session_ids), frozenset(evidence_ids), tuple(texts))

    async def count(
        self, *, session_ids: Sequence[str] = (), evidence_ids: Sequence[str] = (), texts: Sequence[str] = ()
    ) -> int:
        """Return how many originals `drop` would delete with the same arguments."""
        found = await to_thread.run_sync(
            lambda: list(self._find_files(tuple(session_ids), frozenset(evidence_ids), tuple(texts)))
        )
        return len(found)

    async def scrub(self, texts: Sequence[str], *, session_ids: Sequence[str], names: Sequence[str] = ()) -> int:
        """Cut `texts` out of the originals of `session_ids`, and also `names` as whole words. Return how many originals
        changed.

        The former content of a changed file is overwritten. A file that cannot be read and contains one of the texts
        is deleted. Files that a killed process left half written or half overwritten are deleted, too. So a second
        call finishes the work of a killed process.
        """
        return await to_thread.run_sync(self._scrub, tuple(texts), tuple(session_ids), tuple(names))

    async def walk_originals(
        self,
        visit: Callable[[StoredRow], bool],
        *,
        sessions: Collection[str] | None = None,
        without: Collection[str] = (),
    ) -> None:
        """Call `visit` with one original after the other, and stop if `visit` returns False.

        Only originals of `sessions` are visited (None: of all sessions), without the sessions in `without`.
        """
        await to_thread.run_sync(self._walk, visit, sessions, frozenset(without))

    def _file(self, session_id: str, evidence_id: str) -> Path:
        return self.folder / name_of(session_id) / f"{name_of(evidence_id)}.json"

    def _put(self, session_id: str, evidence_id: str, original: str) -> None:
        file = self._file(session_id, evidence_id)
        for folder in (self.folder, file.parent):
            folder.mkdir(mode=_OWNER_ONLY, parents=True, exist_ok=True)
            folder.chmod(_OWNER_ONLY)
        kept = {"session_id": session_id, "evidence_id": evidence_id, "original": original}
        write_file(file, json.dumps(kept), private=True)

    def _get(self, session_id: str, evidence_id: str) -> str | None:
        file = self._file(session_id, evidence_id)
        return str(_read_file(file)["original"]) if file.is_file() else None

    def _scrub(self, texts: tuple[str, ...], session_ids: tuple[str, ...], names: tuple[str, ...]) -> int:
        scrubber, matcher, changed = Scrubber(texts, names, thorough=False), TextMatcher(texts, names), 0
        for session_id in session_ids if not matcher.seeks_nothing else ():
            folder = self.folder / name_of(session_id)
            for part in sorted(folder.glob(_UNFINISHED)):
                _remove(part)
            for file in sorted(folder.glob("*.json")):
                data = file.read_bytes()
                try:
                    kept = json.loads(data)
                    clean = scrubber.text(str(kept["original"]))
                except (ValueError, KeyError, TypeError):
                    if _is_overwritten(data) or matcher.may_occur(data):
                        _remove(file)
                        changed += 1
                    continue
                if clean != kept["original"]:
                    former = file.with_name(f".{file.name}.{uuid4().hex}{NEW}")
                    with file.open("r+b") as content:
                        # The former content is found again under this name, should the process end before it is
                        # overwritten; not every file system has second names.
                        with suppress(OSError):
                            os.link(file, former)
                        self._put(str(kept["session_id"]), str(kept["evidence_id"]), clean)
                        _fill_with_zeros(content.fileno(), len(data))
                    former.unlink(missing_ok=True)
                    changed += 1
        return changed

    def _walk(
        self, visit: Callable[[StoredRow], bool], sessions: Collection[str] | None, without: frozenset[str]
    ) -> None:
        wanted = None if sessions is None else {name_of(name) for name in sessions}
        left_out = {name_of(name) for name in without}
        for file in sorted(self.folder.glob("*/*.json")):
            folder = file.parent.name
            if folder in left_out or (wanted is not None and folder not in wanted):
                continue
            data = file.read_bytes()
            try:
                kept = json.loads(data)
                session_id, evidence_id = str(kept["session_id"]), str(kept["evidence_id"])
            except (ValueError, KeyError, TypeError):
                session_id, evidence_id = folder, file.stem
            row = StoredRow(place=f"originals/{session_id}/{evidence_id}", session_id=session_id, bodies=(data,))
            if not visit(row):
                return

    def _drop(self, session_ids: tuple[str, ...], evidence_ids: frozenset[str], texts: tuple[str, ...]) -> int:
        found = list(self._find_files(session_ids, evidence_ids, texts))
        for file in found:
            # A deleted file's content may stay on the disk until it is overwritten, so it is overwritten first.
            _remove(file)
        for folder in {file.parent for file in found}:
            if not any(folder.iterdir()):
                folder.rmdir()
        return len(found)

    def _find_files(
        self, session_ids: tuple[str, ...], evidence_ids: frozenset[str], texts: tuple[str, ...]
    ) -> Iterator[Path]:
        folders = {name_of(session_id) for session_id in session_ids}
        wanted = {f"{name_of(evidence_id)}.json" for evidence_id in evidence_ids}
        matcher = TextMatcher(texts)
        for file in sorted(self.folder.glob("*/*.json")):
            named = file.parent.name in folders and (not wanted or file.name in wanted)
            if named or (texts and _holds(file, matcher)):
                yield file
        for part in sorted(self.folder.glob(f"*/{_UNFINISHED}")):
            # A half-written file of a writer that was killed belongs to no evidence item.
            if texts or part.parent.name in folders:
                yield part


def _holds(file: Path, matcher: TextMatcher) -> bool:
    """Return whether a text occurs in an original, or in the bytes of one that cannot be read."""
    data = file.read_bytes()
    try:
        return matcher.occurs_in_tree(json.loads(data))
    except ValueError:
        return _is_overwritten(data) or matcher.may_occur(data)


def _is_overwritten(data: bytes) -> bool:
    """Return whether a process was killed while it overwrote a file."""
    return data[:1] == b"\0"


def _remove(file: Path) -> None:
    """Overwrite a file and delete it; if it has another name too, only this name is deleted."""
    if file.stat().st_nlink == 1:
        _overwrite(file)
    file.unlink()


def _overwrite(file: Path) -> None:
    with file.open("r+b") as out:
        _fill_with_zeros(out.fileno(), file.stat().st_size)


def _fill_with_zeros(handle: int, size: int) -> None:
    os.lseek(handle, 0, os.SEEK_SET)
    left = size
    while left > 0:
        left -= os.write(handle, b"\0" * left)
    os.fsync(handle)


def name_of(name: str) -> str:
    """Return the hash of `name` that names a folder or file: of a session id for its folder, of an evidence id for its file."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _read_file(file: Path) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return kept

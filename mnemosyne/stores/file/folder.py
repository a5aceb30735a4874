"""Manages the folder of a file store: its format, its lock, and the replacement of several journals at once.

A journal is a file with the writes of one session or one world. An erasure first writes all new files next to the old files, and
then a plan that names the new files. If the process is killed after that, the next process that writes carries out the plan.
All functions here block.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from mnemosyne.core.codec import decode, encode
from mnemosyne.core.errors import CodecError, StoreBusyError, StoreUnavailableError
from mnemosyne.damage import DamageLog, DamageNote
from mnemosyne.files import (
    NEW,
    make_private_file,
    make_private_folder,
    place_draft,
    private_mode,
    sync_folder,
    write_draft,
    write_file,
)
from mnemosyne.stores.file.lines import FORMAT
from mnemosyne.stores.file.rows import AUDITS, Owner
from mnemosyne.values import dataclass

SUFFIX = ".jsonl"
SIGN = "store.json"
CACHE = ".cache.db"
PROGRAM = "jacquard file store"
_NAME_CHARS = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class _StoreInfo:
    """Content of `store.json`."""

    program: str
    format: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Plan:
    """Plan of an erasure: files to delete, and files to replace, both below the folder."""

    gone: tuple[str, ...]
    replaced: tuple[str, ...]


_SIGNED = encode(_StoreInfo(program=PROGRAM, format=FORMAT)) + b"\n"


def file_name(name: str) -> str:
    """Return a file name for an id: a readable part, and a hash that makes the name unique on every file system."""
    readable = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_NAME_CHARS]
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{readable}-{digest}" if readable else digest


def outdated_error(path: Path, found: int) -> StoreUnavailableError:
    """Return the error for a file whose format `found` is not the current one."""
    if found > FORMAT:
        return StoreUnavailableError(
            str(path), f"it was written by a newer release (format {found}, this one reads {FORMAT}); update"
        )
    return StoreUnavailableError(
        str(path),
        f"it has the form of an older release (format {found}, this one reads {FORMAT}); "
        "convert the folder once with `jacquard operate migrate file:FOLDER`",
    )


class Folder:
    """The files of all tenants of a file store, below the folder `root`."""

    def __init__(self, root: Path, tenant: str, *, create: bool, durable: bool, busy_seconds: float) -> None:
        self.root = root
        self.durable = durable
        self.log = DamageLog()
        self.cache = root / CACHE
        self._home = root / file_name(tenant)
        self._sign = root / SIGN
        self._plan = root / "erasing.json"
        self._flag = root / "writing"
        self._create = create
        self._busy_seconds = busy_seconds
        self._checked = False

    def exists(self) -> bool:
        """Return whether the folder contains a store."""
        return self._sign.exists()

    def is_writable(self) -> bool:
        """Return whether this process may write files in the folder."""
        return os.access(self.root, os.W_OK) and all(
            os.access(path, os.W_OK) for path in (self.cache, self.root / "lock") if path.exists()
        )

    def check(self) -> None:
        """Check that the folder can be used as a store.

        Raises StoreUnavailableError if it is a file, if it contains no store and a new store must not be created, or if its format
        is not the current one.
        """
        if self._checked:
            return
        if self.root.exists() and not self.root.is_dir():
            raise StoreUnavailableError(str(self.root), "it is a file; name a folder")
        if not self._sign.exists():
            if not self._create and not self._home.is_dir():
                raise StoreUnavailableError(
                    str(self.root), "there is no store in this folder; start a session there first"
                )
            return
        try:
            sign = decode(self._sign.read_bytes(), _StoreInfo)
        except CodecError as error:
            reason = f"it is not the description of a file store ({error})"
            if not self._home.is_dir():
                raise StoreUnavailableError(str(self._sign), reason) from None
            effect = "The journals were read without it; remove it and it is made again"
            self.log.add(DamageNote(scope="", what=f"The file {self._sign}", reason=reason, effect=effect))
            return
        if sign.program != PROGRAM:
            raise StoreUnavailableError(
                str(self.root), f"it belongs to another program ({sign.program}); name another folder"
            )
        if sign.format != FORMAT:
            raise outdated_error(self.root, sign.format)
        self._checked = True

    @contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Hold the folder's lock during the block, so that no other process writes. A missing folder is created.

        An erasure that was interrupted is finished first. Raises StoreBusyError if another process holds the lock too
        long.
        """
        make_private_folder(self.root)
        path = self.root / "lock"
        try:
            with FileLock(path, timeout=self._busy_seconds, mode=private_mode(path)):
                if not self._sign.exists():
                    write_file(self._sign, _SIGNED, private=True, durable=self.durable)
                if self._plan.exists():
                    self.begin_write()
                    self.finish()
                yield
        except Timeout:
            raise StoreBusyError(str(path), self._busy_seconds) from None

    def write_new_sign(self) -> Path:
        """Write `store.json` in the current format under a temporary name, and return its final path."""
        draft = self._sign.with_name(self._sign.name + NEW)
        write_draft(draft, _SIGNED, private=True, durable=self.durable, name=draft.name)
        return self._sign

    def begin_write(self) -> None:
        """Write a mark (a file). It means that the journals and the cached database may differ."""
        make_private_file(self._flag)

    def end_write(self) -> None:
        """Remove the mark, because the journals and the cached database agree again."""
        self._flag.unlink(missing_ok=True)

    def is_interrupted(self) -> bool:
        """Return whether the mark of a write exists. If so, a process was killed in the middle of a write."""
        return self._flag.exists()

    def path(self, owner: Owner) -> Path:
        """Return the path of the journal of `owner` (a tenant, and one of its sessions or worlds)."""
        home = self.root / file_name(owner.tenant)
        if owner.scope == AUDITS:
            return home / f"{AUDITS}{SUFFIX}"
        kind, _, name = owner.scope.partition(":")
        if kind == "world":
            return home / "worlds" / f"{file_name(owner.scope)}{SUFFIX}"
        return home / "sessions" / f"{file_name(name)}{SUFFIX}"

    def name(self, path: Path) -> str:
        """Return a path relative to the folder, with slashes."""
        return path.relative_to(self.root).as_posix()

    def journals(self) -> Iterator[os.DirEntry[str]]:
        """Yield the directory entries of all journals."""
        for home in _entries(self.root):
            if home.name.startswith(".") or not home.is_dir():
                continue
            for place in (home.path, f"{home.path}/sessions", f"{home.path}/worlds"):
                yield from (each for each in _entries(place) if each.name.endswith(SUFFIX))

    def replace(self, gone: Sequence[Path], replaced: Sequence[Path]) -> None:
        """Delete the journals `gone`, and move new files to the paths `replaced`. Either all files are changed or none.

        Each new file is already written next to its path.
        """
        plan = _Plan(gone=tuple(map(self.name, gone)), replaced=tuple(map(self.name, replaced)))
        draft = self._plan.with_name(self._plan.name + NEW)
        write_draft(draft, encode(plan), private=True, durable=self.durable, name=draft.name)
        place_draft(draft, self._plan, durable=self.durable)
        self.finish()

    def finish(self) -> None:
        """Carry out the plan of an erasure that was written before.

        Raises StoreUnavailableError if the plan is damaged.
        """
        try:
            plan = decode(self._plan.read_bytes(), _Plan)
        except CodecError as error:
            raise StoreUnavailableError(str(self._plan), f"it is damaged ({error}); restore it from a backup") from None
        for name in plan.replaced:
            path = self.root / name
            new = path.with_name(path.name + NEW)
            if new.exists():
                place_draft(new, path, durable=self.durable)
        for name in plan.gone:
            (self.root / name).unlink(missing_ok=True)
            self._sync((self.root / name).parent)
        self._plan.unlink()
        self._sync(self.root)

    def sweep(self) -> None:
        """Delete new files that were never moved to their paths, because the process that wrote them was killed."""
        for path in self.root.rglob(f"*{SUFFIX}{NEW}"):
            path.unlink(missing_ok=True)

    def remove_cache(self) -> None:
        """Delete the cached database. It is made again from the journals."""
        for end in ("", "-wal", "-shm"):
            self.cache.with_name(self.cache.name + end).unlink(missing_ok=True)

    def _sync(self, folder: Path) -> None:
        if self.durable and folder.exists():
            sync_folder(folder)


def _entries(folder: Path | str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda each: each.name)
    except FileNotFoundError:
        return []

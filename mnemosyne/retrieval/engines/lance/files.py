"""Names and removes the files of an index: tables, checkpoints, the folder's lock, and a mark for each scope that was
dropped.

File names are computed from the scope (session or world), so that a table can be found and removed without LanceDB, even if its
files are damaged. Several processes may use one folder. A process writes only while it holds the lock. A process that drops a
scope writes a new mark. The new mark tells other processes that they must not write old rows of the scope.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from uuid import uuid4

import anyio
from anyio import to_thread
from filelock import FileLock

from mnemosyne.core.errors import IndexUnavailableError, ScopeDroppedError
from mnemosyne.files import describe_folder_fault, make_private_folder, private_mode, write_file

_POLL_SECONDS = 0.02
_END, _CHECKPOINT_END = ".lance", ".checkpoint"


class SharedFolder:
    """Lock and marks of a folder to which several processes write. If `folder` is the address of a remote store, there are
    none, and the methods do nothing.
    """

    def __init__(self, folder: str, *, wait_seconds: float = 60.0) -> None:
        self._folder, self._wait_seconds = folder, wait_seconds
        self._is_local = "://" not in folder
        # A thread of its own: waiting callers must not keep the holder of the lock from releasing it.
        self._thread = anyio.CapacityLimiter(1)
        self._writing = anyio.Lock()
        self._marks: dict[str, str] = {}
        self._lock: FileLock | None = None

    async def remember_scope(self, scope: str) -> None:
        """Remember the present mark of `scope`, because the scope is read now. Until `forget`, only the first call counts."""
        if scope not in self._marks:
            self._marks[scope] = await to_thread.run_sync(read_mark, self._folder, scope)

    def forget(self, scope: str) -> None:
        """Forget the mark of `scope` that `remember_scope` has remembered."""
        self._marks.pop(scope, None)

    async def is_dropped(self, scope: str) -> bool:
        """Return whether another process has dropped a scope since this process read it."""
        return scope in self._marks and self._marks[scope] != await to_thread.run_sync(read_mark, self._folder, scope)

    @asynccontextmanager
    async def hold_lock(self, *scopes: str) -> AsyncIterator[None]:
        """Hold the folder's lock until the block ends. The operating system releases the lock of a killed process.

        Raises:
            ScopeDroppedError: if another process has dropped one of `scopes`.
            OSError: if another process holds the lock too long (filelock.Timeout), or the folder cannot be used.
        """
        async with self._writing:
            await self._run(self._acquire)
            try:
                for scope in scopes:
                    if await self.is_dropped(scope):
                        raise ScopeDroppedError(self._folder, scope)
                yield
            finally:
                with anyio.CancelScope(shield=True):
                    await self._run(self._release)

    async def leave_mark(self, scope: str) -> None:
        """Write a new mark of `scope`, because `scope` is being dropped. A process that has read `scope` before does not write to
        it any more. The caller must hold the lock.
        """
        if self._is_local:
            await to_thread.run_sync(self._leave, scope)

    async def _run(self, work: Callable[[], None]) -> None:
        if self._is_local:
            await to_thread.run_sync(work, limiter=self._thread)

    async def make_folder(self) -> None:
        """Create the folder with permissions only for its owner, because LanceDB would create it readable for others. Do nothing
        if the folder is not on this machine or cannot be created.
        """
        with suppress(OSError):
            await self._run(lambda: make_private_folder(Path(self._folder)))

    def _acquire(self) -> None:
        folder = Path(self._folder)
        make_private_folder(folder)
        file = folder / ".lock"
        mode = private_mode(file)
        self._lock = FileLock(file, timeout=self._wait_seconds, thread_local=False, mode=mode)
        self._lock.acquire(poll_interval=_POLL_SECONDS)

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def _leave(self, scope: str) -> None:
        file = _mark_file(self._folder, scope)
        make_private_folder(file.parent)
        write_file(file, uuid4().hex, private=True)


def table_name(scope: str) -> str:
    """Return a file name for a scope that is readable and unique."""
    readable = re.sub(r"[^a-z0-9]+", "_", scope.lower()).strip("_")[:40] or "scope"
    return f"{readable}_{hashlib.sha256(scope.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def read_mark(folder: str, scope: str) -> str:
    """Return the mark of `scope`; the mark changes when the scope is dropped.

    Return '' if the scope was never dropped, or if `folder` is the address of a remote store.
    """
    try:
        return _mark_file(folder, scope).read_text(encoding="ascii") if "://" not in folder else ""
    except OSError:
        return ""


def _mark_file(folder: str, scope: str) -> Path:
    """Return the file of a scope's mark; its name does not contain the scope, because the mark outlives an erasure."""
    return Path(folder) / ".dropped" / table_name(scope).rpartition("_")[2]


def has_files(folder: str, scope: str) -> bool:
    """Return whether LanceDB has files of a scope, or False for the address of a remote store."""
    return "://" not in folder and _files(folder, scope).exists()


def has_any_table(folder: str) -> bool:
    """Return whether LanceDB has files of any scope in a folder, or False for the address of a remote store."""
    return "://" not in folder and next(Path(folder).glob(f"*{_END}"), None) is not None


def checkpoint_file(folder: str, scope: str) -> Path:
    """Return the path of a scope's checkpoint."""
    return Path(folder) / f"{table_name(scope)}{_CHECKPOINT_END}"


def remove_files(folder: str, scope: str) -> None:
    """Remove the checkpoint and the table of a scope, if there are any. Raises OSError if they cannot be removed."""
    if "://" not in folder:
        checkpoint_file(folder, scope).unlink(missing_ok=True)
    remove_table(folder, scope)


def remove_table(folder: str, scope: str) -> None:
    """Remove LanceDB's table of a scope, if there is one. Raises OSError if it cannot be removed."""
    if has_files(folder, scope):
        shutil.rmtree(_files(folder, scope))


def copy_files(folder: str, target: Path, names: Sequence[str]) -> None:
    """Copy the files of the tables `names` into the folder `target`, if they exist. The caller must hold the lock."""
    make_private_folder(target)
    for name in names:
        if has_files(folder, name):
            shutil.copytree(_files(folder, name), _files(str(target), name))


def remove_others(folder: Path, scope: str) -> None:
    """Remove everything in a folder except the table of a scope."""
    for each in folder.iterdir():
        if each != _files(str(folder), scope):
            shutil.rmtree(each) if each.is_dir() else each.unlink()


async def remove_scope_files(folder: str, scope: str, names: Sequence[str]) -> None:
    """Remove the checkpoint of a scope and LanceDB's tables `names`. Raises IndexUnavailableError if they cannot be removed."""
    if "://" in folder:
        return
    # A folder that does not exist yet gets the marks too: another process may hold the scope in memory, and write it later.
    shared = SharedFolder(folder)
    try:
        async with shared.hold_lock():
            for name in names:
                await shared.leave_mark(name)
                await to_thread.run_sync(remove_files, folder, name)
    except OSError as error:
        raise IndexUnavailableError(folder, scope, describe_folder_fault(error)) from error


def list_tables(folder: str) -> tuple[str, ...]:
    """Return the names of the tables in a folder, sorted, including tables of which only a checkpoint is left. The
    result is empty for a missing folder.
    """
    try:
        return tuple(sorted({each.stem for each in Path(folder).iterdir() if each.suffix in (_END, _CHECKPOINT_END)}))
    except FileNotFoundError:
        return ()


async def remove_tables(folder: str, names: Sequence[str]) -> None:
    """Remove tables by their names, and leave a mark for processes that have read them. Raises OSError if they cannot
    be removed.
    """
    shared = SharedFolder(folder)
    async with shared.hold_lock():
        for name in names:
            await to_thread.run_sync(_remove_table, Path(folder), name)


def _remove_table(folder: Path, name: str) -> None:
    mark = folder / ".dropped" / name.rpartition("_")[2]
    make_private_folder(mark.parent)
    write_file(mark, uuid4().hex, private=True)
    (folder / f"{name}{_CHECKPOINT_END}").unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        shutil.rmtree(folder / f"{name}{_END}")


def _files(folder: str, scope: str) -> Path:
    return Path(folder) / f"{table_name(scope)}{_END}"

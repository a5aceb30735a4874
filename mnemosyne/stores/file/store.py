"""The store in files: local, human-readable JSON, safe for several processes.

It implements the Store protocol over journals: one folder per tenant, one file per session or world, one lock per
tenant. Reading takes no lock: it first reads what others have appended. Writing takes the lock, reads what others have
appended, decides, and appends one line. Each operation runs as one call in a thread, so nothing blocks the event loop.

    FOLDER/store.json                    what this folder is
    FOLDER/TENANT/sessions/NAME.jsonl    a journal per session
    FOLDER/TENANT/worlds/NAME.jsonl      a journal per world
    FOLDER/TENANT/audits.jsonl           what was erased, and when
    FOLDER/TENANT/lock
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeVar

import anyio
import anyio.to_thread
from filelock import FileLock, Timeout

from mnemosyne.core.errors import DamagedRecordError, StoreBusyError, StoreUnavailableError, UnreadableError
from mnemosyne.damage import DamageLog, DamageNote
from mnemosyne.files import private_mode
from mnemosyne.stores.damage import DAMAGED, build_damage_error
from mnemosyne.stores.file.folder import Folder
from mnemosyne.stores.file.journal import Journal
from mnemosyne.stores.file.lines import line_of
from mnemosyne.stores.ledger.erase import Dataset, RewritePlan
from mnemosyne.stores.ledger.ledger import Ledger
from mnemosyne.stores.ledger.store import LedgerStore

T = TypeVar("T")

_MAY_NOT_WRITE = (errno.EACCES, errno.EPERM, errno.EROFS)


class FileStore(LedgerStore):
    """A Store in a folder of JSON files.

    Nothing is opened before the first call; the first write creates the folder (unless `create` is false). With
    `synchronous="FULL"` an acknowledged turn survives a power cut; `NORMAL` is faster and survives a kill of the
    process. `busy_seconds` bounds the wait for another process (StoreBusyError). At most `held` sessions stay in
    memory; others are read again from their file. A journal of more than `compact_bytes` that has doubled in size is
    rewritten without outdated rows. For what a method does and raises, see `mnemosyne.protocols.Store`;
    StoreUnavailableError and DamagedRecordError name a damaged file and line.
    """

    def __init__(
        self,
        folder: str | Path,
        tenant: str = "default",
        *,
        synchronous: Literal["FULL", "NORMAL"] = "FULL",
        busy_seconds: float = 5.0,
        create: bool = True,
        held: int = 64,
        compact_bytes: int = 4_194_304,
    ) -> None:
        self.folder = Path(folder)
        self.tenant = tenant
        place = Folder(self.folder, tenant, create=create, durable=synchronous == "FULL")
        self._log = place.log
        super().__init__(FileBackend(place, busy_seconds=busy_seconds, held=held, compact_bytes=compact_bytes))

    @property
    def damage_log(self) -> DamageLog:
        """The notes on damaged records that reads have passed by."""
        return self._log


class FileBackend:
    """Stores the ledgers of one tenant in journals."""

    def __init__(self, folder: Folder, *, busy_seconds: float, held: int, compact_bytes: int) -> None:
        self._folder = folder
        self._busy_seconds = busy_seconds
        self._held = held
        self._compact_bytes = compact_bytes
        self._journals: dict[str, Journal] = {}
        self._limiter = anyio.CapacityLimiter(1)
        self._one = threading.Lock()
        self._closed = False

    async def read(self, scopes: Sequence[str], work: Callable[[Sequence[Ledger]], T]) -> T:
        """Run `work` on the current ledgers of these scopes."""
        return await self._run_in_thread(lambda: work([self._ledger(scope) for scope in scopes]), scopes)

    async def write(self, scope: str, name: str, work: Callable[[Ledger], T]) -> T:
        """Run `work` on a ledger and append what it changed to the journal before returning."""

        def run() -> T:
            with self._hold_lock():
                ledger = self._ledger(scope)
                result, changes = ledger.run(work)
                if changes:
                    self._journals[scope].keep(name, changes)
            return result

        return await self._run_in_thread(run, (scope,))

    async def read_all(self, work: Callable[[Dataset], T]) -> T:
        """Run `work` on all ledgers; each is read when it is used."""
        return await self._run_in_thread(lambda: work(self._dataset()))

    async def rewrite(self, work: Callable[[Dataset], tuple[T, RewritePlan]]) -> T:
        """Let `work` replace ledgers: all new files are written first, then moved into place, even after a crash in
        between.
        """

        def run() -> T:
            with self._hold_lock():
                result, rewriting = work(self._dataset())
                self._folder.replace(rewriting.ledgers, rewriting.audit, rewriting.floor)
                for scope in rewriting.ledgers:
                    self._journals.pop(scope, None)
            return result

        return await self._run_in_thread(run)

    async def close(self) -> None:
        """Wait for running work, then drop all ledgers from memory."""
        self._closed = True
        async with self._limiter:
            self._journals.clear()

    async def _run_in_thread(self, work: Callable[[], T], scopes: Sequence[str] = ()) -> T:
        if self._closed:
            raise StoreUnavailableError(str(self._folder.root), "this store is closed; open another")
        return await anyio.to_thread.run_sync(lambda: self._run(work, scopes), limiter=self._limiter)

    def _run(self, work: Callable[[], T], scopes: Sequence[str]) -> T:
        with self._one:
            try:
                self._folder.check()
                if self._folder.is_unfinished():
                    with self._hold_lock():
                        pass
                return work()
            except DAMAGED as error:
                raise self._damage(error, scopes) from error
            except OSError as error:
                reason = f"{error.strerror or error}"
                if error.errno in _MAY_NOT_WRITE:
                    reason += "; where it may only be read, what it holds can be read, nothing written"
                raise StoreUnavailableError(str(error.filename or self._folder.root), reason) from error
            finally:
                self._note_what_was_passed_by()
                for scope in list(self._journals)[: -self._held or None]:
                    del self._journals[scope]

    def _note_what_was_passed_by(self) -> None:
        for scope, journal in self._journals.items():
            for what, reason in journal.ledger.passed_by:
                path = str(self._folder.path(scope))
                self._folder.log.add(DamageNote(scope=scope, what=what, reason=reason, path=path))
            journal.ledger.passed_by.clear()

    def _damage(self, error: UnreadableError | LookupError, scopes: Sequence[str]) -> DamagedRecordError:
        """Return the error for a record of these scopes (none: of any) that could not be read; it names file and line."""
        files = [self._folder.path(scope) for scope in scopes]
        data = error.data if isinstance(error, UnreadableError) else b""
        for scope, file in zip(scopes, files, strict=True):
            self._journals.pop(scope, None)
            if (number := line_of(file, data)) is not None:
                return build_damage_error(error, str(file), f"Line {number}")
        return build_damage_error(error, ", ".join(map(str, files)) or str(self._folder.root))

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        """Hold the tenant's lock; an interrupted erasure is finished first."""
        self._folder.make()
        path = self._folder.lock
        try:
            with FileLock(path, timeout=self._busy_seconds, mode=private_mode(path)):
                self._folder.sign()
                self._folder.finish()
                yield
        except Timeout:
            raise StoreBusyError(str(path), self._busy_seconds) from None

    def _ledger(self, scope: str) -> Ledger:
        """Return the current ledger of a scope, and mark it as used last."""
        journal = self._journals.pop(scope, None)
        if journal is None:
            journal = Journal(
                self._folder.path(scope),
                scope,
                floor=self._folder.floor(),
                compact_bytes=self._compact_bytes,
                durable=self._folder.durable,
            )
        self._journals[scope] = journal
        ledger = journal.catch_up()
        for note in journal.damage:
            self._folder.log.add(note)
        return ledger

    def _dataset(self) -> Dataset:
        audits, floor = self._folder.audits()
        return Dataset(
            ledgers=_Ledgers(self._folder.scopes(), self._ledger),
            raw=lambda scope: self._folder.path(scope).read_bytes(),
            audits=audits,
            floor=floor,
        )


class _Ledgers(Mapping[str, Ledger]):
    """The ledgers of a tenant, each read when it is used."""

    def __init__(self, scopes: Sequence[str], fetch: Callable[[str], Ledger]) -> None:
        self._scopes = dict.fromkeys(scopes)
        self._fetch = fetch

    def __getitem__(self, scope: str) -> Ledger:
        if scope not in self._scopes:
            raise KeyError(scope)
        return self._fetch(scope)

    def __iter__(self) -> Iterator[str]:
        return iter(self._scopes)

    def __len__(self) -> int:
        return len(self._scopes)

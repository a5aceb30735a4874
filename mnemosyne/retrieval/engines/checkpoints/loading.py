"""Reads a scope whole on a thread of its own, while a part of it serves.

The thread has an event loop and a durable index of its own, so it can end at any time, and its caller may be cancelled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Protocol

import anyio
from anyio import to_thread

from mnemosyne.core.errors import MnemosyneError
from mnemosyne.retrieval.engines.checkpoints.checkpoint import write_checkpoint
from mnemosyne.retrieval.engines.rows import NO_ROWS, RowBatch, StoredScope, merge_batches
from mnemosyne.retrieval.engines.tables.table import ScopeTable
from mnemosyne.schema.memory import Chain


class ScopeReader(Protocol):
    """Source of a scope: the used methods of `DurableIndex`."""

    async def load(self, scope: str) -> StoredScope | None:
        """Return a stored table in the order of writing; None when nothing is stored."""
        ...

    async def stamp(self, scope: str, rows: int, marks: Mapping[Chain, int], model: str) -> str:
        """Return a text for the state that a scope's table is in, if it is the one that was loaded; else an empty one."""
        ...

    async def close(self) -> None:
        """Release the files."""
        ...


class ScopeLoad:
    """The reading of one scope, which also makes its checkpoint.

    At its end `table` is the scope, `lost` the number of its damaged rows and `stamp` the state of its checkpoint; or
    `error` is the reason why there is none. `mark` is the generation that is read. `added` are the writes to the part
    meanwhile. `head_start_seconds`: time that the turn that opened the scope has the processor for itself.
    """

    def __init__(
        self, folder: str, scope: str, mark: str, open_reader: Callable[[str], ScopeReader], head_start_seconds: float
    ) -> None:
        self.folder, self.scope, self.mark, self.stamp = folder, scope, mark, ""
        self.added: RowBatch = NO_ROWS
        self.lost = 0
        self.table: ScopeTable | None = None
        self.error: MnemosyneError | None = None
        self._open_reader, self._head_start_seconds = open_reader, head_start_seconds
        self._given_up, self._done = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="read scope", daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether it has ended: with a table, with an error, or with neither once it was given up."""
        return self._done.is_set()

    def note(self, batch: RowBatch) -> None:
        """Remember rows that were written to the part meanwhile."""
        self.added = merge_batches(self.added, batch)

    def give_up(self) -> None:
        """Let it end soon; its result is not wanted."""
        self._given_up.set()

    async def wait(self) -> None:
        """Return when it has ended."""
        await to_thread.run_sync(self._done.wait, abandon_on_cancel=True)

    def _run(self) -> None:
        try:
            if self._given_up.wait(self._head_start_seconds):
                return
            stored, stamp = anyio.run(self._load)
            if stored is None or self._given_up.is_set():
                return
            table = ScopeTable()
            table.fill(stored)
            self.table, self.lost = table, stored.lost
            if stamp and not stored.lost and write_checkpoint(self.folder, self.scope, stamp, self.mark, table):
                self.stamp = stamp
        except MnemosyneError as error:
            self.error = error
        finally:
            self._done.set()

    async def _load(self) -> tuple[StoredScope | None, str]:
        """Return the stored scope and its state; the state is empty if another process has written since."""
        reader = self._open_reader(self.folder)
        try:
            stored = await reader.load(self.scope)
            return stored, "" if stored is None else await reader.stamp(self.scope, len(stored.ids), {}, "")
        finally:
            await reader.close()

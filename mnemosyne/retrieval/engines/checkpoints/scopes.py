"""Scopes of an index that were opened from its files: their changes since their checkpoints, and the running reads.

Must not import an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from anyio import to_thread

from mnemosyne.core.errors import IndexUnavailableError, ScopeDroppedError
from mnemosyne.retrieval.engines.checkpoints.checkpoint import read_scope_files, remove_checkpoint, write_checkpoint
from mnemosyne.retrieval.engines.checkpoints.loading import ScopeLoad, ScopeReader
from mnemosyne.retrieval.engines.lance.files import read_mark
from mnemosyne.retrieval.engines.rows import NO_ROWS, RowBatch
from mnemosyne.retrieval.engines.tables.table import ScopeTable

_SAVED_SHARE = 16


@dataclass(kw_only=True, slots=True)
class OpenedScope:
    """Sources of an opened scope, and its checkpoint since."""

    mark: str
    """Generation of the scope."""
    version: int = 0
    """Version of its table, if it was read without the durable index (0: it was not)."""
    has_checkpoint: bool = False
    """Whether a checkpoint was read."""
    stamp: str = ""
    """State of the present checkpoint (empty: none); `rows` is its number of rows."""
    rows: int = 0
    writes: int = 0
    """Number of writes to the table since."""
    saved_writes: int = -1
    """Number of those that the checkpoint has."""
    removals: int = 0
    """Number of times that words have left the table, so that no file may keep them."""


class WholeScope(NamedTuple):
    """A scope that was read whole, and how many of its rows are damaged."""

    table: ScopeTable
    lost: int


class CheckpointedScopes:
    """Opens scopes from their checkpoints in a folder, and writes these. `open_reader` opens the durable index for the thread that
    reads a scope whole, `head_start_seconds` after it was opened. Of a scope of more than `long_rows` rows a checkpoint is only
    due once it has grown by a sixteenth.
    """

    def __init__(
        self, folder: str, open_reader: Callable[[str], ScopeReader], *, head_start_seconds: float, long_rows: int
    ) -> None:
        self._folder, self._open_reader = folder, open_reader
        self._head_start_seconds, self._long_rows = head_start_seconds, long_rows
        self._opened: dict[str, OpenedScope] = {}
        self._loads: dict[str, ScopeLoad] = {}

    def get(self, scope: str) -> OpenedScope | None:
        """Return the sources of an opened scope; None if it was not opened from a folder."""
        return self._opened.get(scope)

    def is_partial(self, scope: str) -> bool:
        """Return whether only a part of a scope is searched, because it is still read."""
        return scope in self._loads

    def degradations_for(self, scopes: Iterable[str]) -> tuple[str, ...]:
        """Return `index_loading` if only a part of one of the scopes is searched."""
        return () if self._loads.keys().isdisjoint(scopes) else ("index_loading",)

    async def open(self, scope: str, other_tables: Sequence[str], *, memory_rows: int) -> ScopeTable | None:
        """Return the content of a scope's files without the durable engine; None if they cannot be read without it, or
        have more than `memory_rows` rows.

        A checkpoint that is not whole serves while the scope is read. `other_tables`: see `read_scope_files`.
        """
        files = await to_thread.run_sync(read_scope_files, self._folder, scope, other_tables)
        opened = self._opened[scope] = OpenedScope(mark=files.mark)
        if files.checkpoint is None and not files.is_empty:
            return None
        table = ScopeTable() if files.checkpoint is None else files.checkpoint.table
        if table.count() > memory_rows:
            return None
        opened.has_checkpoint = files.checkpoint is not None
        if files.is_whole:
            opened.version, opened.stamp, opened.rows = files.version, files.stamp, table.count()
        elif not files.is_empty:
            self._begin_load(scope, files.mark)
        return table

    async def read_mark(self, scope: str) -> str:
        """Return the present generation of a scope."""
        return await to_thread.run_sync(read_mark, self._folder, scope)

    def begin(self, scope: str, mark: str, *, is_partial: bool) -> None:
        """Take a scope as opened in the generation `mark`; if it `is_partial`, begin to read it whole."""
        self._opened[scope] = OpenedScope(mark=mark)
        if is_partial:
            self._begin_load(scope, mark)

    def note(self, scope: str, batch: RowBatch) -> None:
        """Remember rows that were added to a part while the scope is read."""
        if (load := self._loads.get(scope)) is not None:
            load.note(batch)

    def is_read(self, scope: str) -> bool:
        """Return whether the reading of a scope has ended, so that `take_whole` has an outcome."""
        return (load := self._loads.get(scope)) is not None and load.is_done

    async def take_whole(self, scope: str) -> WholeScope | None:
        """Return a scope that was read whole, with the additions to its part meanwhile; None if it was taken already.
        IndexUnavailableError; ScopeDroppedError if it has to be read again.
        """
        if (load := self._loads.get(scope)) is None:
            return None
        if load.table is None or load.mark != await self.read_mark(scope):
            raise (
                load.error if isinstance(load.error, IndexUnavailableError) else ScopeDroppedError(self._folder, scope)
            )
        while load.added is not NO_ROWS:
            added, load.added = load.added, NO_ROWS
            if added.removed:
                # The checkpoint was made of the table while it had their words. A file that stays was noted when they left.
                load.stamp = ""
                with suppress(IndexUnavailableError):
                    await self.remove(scope)
            await to_thread.run_sync(load.table.put, load.table.select_news(added))
        if self._loads.get(scope) is not load:
            return None
        del self._loads[scope]
        if load.stamp and (opened := self._opened.get(scope)) is not None:
            opened.stamp, opened.rows = load.stamp, load.table.count()
        return WholeScope(load.table, load.lost)

    async def wait(self, scope: str) -> bool:
        """Return when the reading of a scope has ended, and whether it was read at all."""
        if (load := self._loads.get(scope)) is None:
            return False
        await load.wait()
        return True

    def note_write(self, scope: str) -> None:
        """Remember that a scope's table in the folder changes."""
        if (opened := self._opened.get(scope)) is not None:
            opened.writes += 1

    def is_due(self, scope: str, rows: int, *, is_last: bool) -> bool:
        """Return whether a scope of so many rows wants a checkpoint. If it `is_last`, one that has not changed may want one, too,
        and so does a long one that has hardly grown.
        """
        if (opened := self._opened.get(scope)) is None or not rows:
            return False
        if is_last:
            return True
        has_grown = rows <= self._long_rows or (rows - opened.rows) * _SAVED_SHARE >= rows
        return has_grown and opened.saved_writes != opened.writes

    async def save(self, scope: str, stamp: str, table: ScopeTable) -> None:
        """Write the checkpoint of a scope whose table in the folder is in the state `stamp`, unless it has one already.

        IndexUnavailableError if a checkpoint with words that were removed meanwhile cannot be deleted.
        """
        if (opened := self._opened.get(scope)) is None:
            return
        writes, removals, rows = opened.writes, opened.removals, table.count()
        if stamp != opened.stamp:
            if not await to_thread.run_sync(write_checkpoint, self._folder, scope, stamp, opened.mark, table):
                return
            if opened.removals != removals:
                await self.remove(scope)
                return
            opened.stamp, opened.rows = stamp, rows
        opened.saved_writes = writes

    async def remove(self, scope: str) -> None:
        """Remove the checkpoint of a scope; IndexUnavailableError."""
        if (opened := self._opened.get(scope)) is not None:
            opened.stamp, opened.rows, opened.saved_writes = "", 0, -1
            opened.removals += 1
        try:
            await to_thread.run_sync(remove_checkpoint, self._folder, scope)
        except OSError as error:
            raise IndexUnavailableError(self._folder, scope, str(error)) from error

    def forget(self, scope: str) -> None:
        """Forget the sources of a scope; a running read is not wanted."""
        self._opened.pop(scope, None)
        if (load := self._loads.pop(scope, None)) is not None:
            load.give_up()

    def give_up(self) -> None:
        """Let all reading end soon."""
        for load in self._loads.values():
            load.give_up()

    async def close(self) -> None:
        """Return when nothing is read any more: a thread in the engine when the process ends is not safe."""
        for load in list(self._loads.values()):
            await load.wait()

    def _begin_load(self, scope: str, mark: str) -> None:
        self._loads[scope] = ScopeLoad(self._folder, scope, mark, self._open_reader, self._head_start_seconds)

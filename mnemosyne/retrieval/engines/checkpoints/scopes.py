"""Opens scopes from their files (checkpoints), counts their changes, and writes the files when they are due.

A scope is one session or one world. Its checkpoint is one file with all of its rows. Larger scopes are in tables of LanceDB
instead. A staged scope is a second, hidden index of a scope that is filled anew and then replaces the scope's rows. This
module must not import an engine.
"""

from __future__ import annotations

from functools import partial

from anyio import to_thread

from mnemosyne.core.errors import IndexUnavailableError, UnreadableError
from mnemosyne.files import describe_folder_fault
from mnemosyne.retrieval.engines.checkpoints.checkpoint import read_checkpoint, write_checkpoint
from mnemosyne.retrieval.engines.lance.files import checkpoint_file, has_files, read_mark, remove_table
from mnemosyne.retrieval.engines.large_scope import table_names
from mnemosyne.retrieval.engines.rows import NO_ROWS, RowBatch, merge_batches
from mnemosyne.retrieval.engines.tables.memory import MemoryIndex
from mnemosyne.retrieval.engines.tables.table import ScopeTable
from mnemosyne.values import dataclass

_SAVED_SHARE = 16


@dataclass(kw_only=True, slots=True)
class _OpenedScope:
    """`mark`: the generation of the scope. `changes`: rows written since it was opened; `saved`: how many of them its file has.
    `has_removed`: words have left the table that the file may have. `has_table`: LanceDB has files of the scope, too.
    """

    mark: str
    changes: int = 0
    saved: int = 0
    has_removed: bool = False
    has_table: bool = False


class CheckpointedScopes:
    """Opens scopes from their files in a folder, and writes these files.

    A file is due in two cases: rows were removed, or at least `held_rows` rows and at least one in sixteen of the scope's
    rows have changed since the file was written. After a crash, rows that the file lacks are made again from the store.
    """

    def __init__(self, folder: str, *, held_rows: int) -> None:
        self._folder, self._held_rows = folder, held_rows
        self._opened: dict[str, _OpenedScope] = {}
        self._moving: dict[str, RowBatch] = {}

    async def open(self, scope: str) -> ScopeTable | None:
        """Return the table of `scope` from its file, or an empty table if there is no usable file. Return None if there is
        no usable file, but LanceDB has tables of `scope`.

        Raises:
            UnreadableError: if the file is damaged. The caller then starts with an empty table.
            IndexUnavailableError: if the file cannot be read.
        """
        opened = self._opened[scope] = _OpenedScope(mark=await to_thread.run_sync(read_mark, self._folder, scope))
        try:
            opened.has_table = await to_thread.run_sync(has_tables, self._folder, scope)
            table = await to_thread.run_sync(read_checkpoint, self._folder, scope)
        except UnreadableError:
            opened.changes, opened.has_removed = 1, True
            raise
        except OSError as error:
            raise self._unavailable(scope, error) from error
        if table is None and opened.has_table:
            return None
        return ScopeTable() if table is None else table

    def note(self, scope: str, batch: RowBatch) -> None:
        """Count the rows of `batch` as changes of `scope`. While `scope` is moved to LanceDB, remember them, too."""
        if (opened := self._opened.get(scope)) is not None:
            opened.changes += len(batch.rows) + len(batch.removed)
            opened.has_removed |= bool(batch.removed)
        if scope in self._moving:
            self._moving[scope] = merge_batches(self._moving[scope], batch)

    def has_changes(self, scope: str) -> bool:
        """Return whether `scope` was changed since its file was written, or still has tables in LanceDB."""
        opened = self._opened.get(scope)
        return opened is not None and (opened.changes != opened.saved or opened.has_table)

    def list_due(self, memory: MemoryIndex) -> list[str]:
        """Return the scopes in `memory` whose files must be written now."""
        due = []
        for scope, opened in self._opened.items():
            changes = opened.changes - opened.saved
            if changes and memory.holds(scope):
                least = max(self._held_rows, memory.table(scope).count() // _SAVED_SHARE)
                if opened.has_removed or changes >= least:
                    due.append(scope)
        return due

    async def save(self, scope: str, table: ScopeTable) -> bool:
        """Write the rows of `table` into the file of `scope` if `scope` has changed, and remove the tables of `scope` in
        LanceDB. If `table` is empty, remove the file instead.

        Return False, and write nothing, if another process has dropped `scope` or moved it to LanceDB. Return True otherwise.
        Raises IndexUnavailableError if the folder cannot be written.
        """
        opened = self._opened.get(scope)
        if opened is None or not self.has_changes(scope):
            return True
        changes, has_removed, opened.has_removed = opened.changes, opened.has_removed, False
        try:
            is_moving = opened.has_table or scope in self._moving
            if not is_moving and await to_thread.run_sync(has_tables, self._folder, scope):
                return False
            if has_removed:
                await to_thread.run_sync(table.pack)
            if not table.count():
                await self.remove(scope)
            elif not await to_thread.run_sync(write_checkpoint, self._folder, scope, opened.mark, table):
                return False
            if opened.has_table:
                await self.remove_tables(scope)
        except OSError as error:
            raise self._unavailable(scope, error) from error
        opened.saved = changes
        return True

    async def remove_tables(self, scope: str) -> None:
        """Remove the tables that LanceDB has for a scope. Raises OSError if they cannot be removed."""
        for name in table_names(scope):
            await to_thread.run_sync(remove_table, self._folder, name)
        if (opened := self._opened.get(scope)) is not None:
            opened.has_table = False

    def begin_move(self, scope: str) -> None:
        """Begin to remember the rows that are written to `scope`. Call this before `scope` is moved to LanceDB."""
        self._moving[scope] = NO_ROWS

    def take_moving(self, scope: str) -> RowBatch:
        """Return the rows that were written to a scope since `begin_move`, and stop remembering them."""
        return self._moving.pop(scope, NO_ROWS)

    async def remove(self, scope: str) -> None:
        """Remove the file of a scope. Raises IndexUnavailableError if it cannot be removed."""
        try:
            await to_thread.run_sync(partial(checkpoint_file(self._folder, scope).unlink, missing_ok=True))
        except OSError as error:
            raise self._unavailable(scope, error) from error

    async def find_mark(self, scope: str, staged: str) -> str | None:
        """Return the generation of `scope` (a mark that changes when `scope` is dropped).

        Return None if another process has dropped `scope` since its staged scope, named `staged`, was opened.
        """
        # A drop marks both. This order leaves no gap: one that comes after the second look is noticed when the file is written.
        mark = await to_thread.run_sync(read_mark, self._folder, scope)
        opened = self._opened.get(staged)
        if opened is not None and opened.mark != await to_thread.run_sync(read_mark, self._folder, staged):
            return None
        return mark

    async def adopt(self, scope: str, table: ScopeTable, mark: str) -> bool:
        """Write the file of `scope`, whose table was replaced by `table`. `mark` is the generation of `scope` from `find_mark`.

        Return False if another process has dropped `scope` or moved it to LanceDB, else True. Raises IndexUnavailableError if
        the folder cannot be written.
        """
        has_table = await to_thread.run_sync(has_tables, self._folder, scope)
        self._opened[scope] = _OpenedScope(mark=mark, changes=1, has_table=has_table)
        return await self.save(scope, table)

    def forget(self, scope: str) -> None:
        """Forget a scope that is no longer in memory."""
        self._opened.pop(scope, None)
        self._moving.pop(scope, None)

    def _unavailable(self, scope: str, error: OSError) -> IndexUnavailableError:
        return IndexUnavailableError(self._folder, scope, describe_folder_fault(error))


def has_tables(folder: str, scope: str) -> bool:
    """Return whether LanceDB has tables of a scope in the folder."""
    return any(has_files(folder, name) for name in table_names(scope))

"""Opens the LanceDB tables of a folder, each only once, and raises errors of LanceDB as our own errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import lancedb
from anyio import to_thread

from mnemosyne.core.errors import IndexUnavailableError, MnemosyneError, ScopeDroppedError
from mnemosyne.retrieval.engines.lance.arrow_rows import SCHEMA
from mnemosyne.retrieval.engines.lance.files import SharedFolder, has_files, remove_files, table_name

_METADATA_BYTES = 8 << 20
"""Limit of LanceDB's cache of table metadata, by default up to a gigabyte: 60 KB for the table of a session."""


class LanceConnection:
    """Opens, creates and drops the tables of a folder. `shared` handles the lock and the marks that other processes see."""

    def __init__(self, folder: str) -> None:
        self.folder, self.shared = folder, SharedFolder(folder)
        self._database: Any = None
        self._tables: dict[str, Any] = {}

    @asynccontextmanager
    async def guard(self, scope: str) -> AsyncIterator[None]:
        """Raise any error inside the block as IndexUnavailableError for `scope`, or as ScopeDroppedError if another
        process has dropped the scope.
        """
        try:
            yield
        except Exception as error:
            raise await self._failure(scope, error) from error

    async def open(self, scope: str, *, is_alone: bool = False) -> Any:
        """Return the table of `scope`, or None if there is none. Pass `is_alone` if this process holds the folder's lock."""
        if scope in self._tables:
            return self._tables[scope]
        await self.shared.remember_scope(scope)
        await self._connect()
        try:
            self._tables[scope] = await self._database.open_table(table_name(scope))
        except ValueError as error:
            if "was not found" not in str(error):
                raise
            if not await to_thread.run_sync(has_files, self.folder, scope):
                return None
            if is_alone:
                raise
            # Another process is creating the table: its files are complete once that process releases the lock.
            async with self.shared.hold_lock():
                return await self.open(scope, is_alone=True)
        return self._tables[scope]

    async def create(self, scope: str) -> Any:
        """Create the table of a scope and return it. The caller must hold the folder's lock."""
        table = await self._database.create_table(table_name(scope), schema=SCHEMA, exist_ok=True)
        self._tables[scope] = table
        return table

    async def drop(self, scope: str) -> None:
        """Remove the table of a scope, whatever the state of its files. The caller must hold the folder's lock."""
        table = self._tables.pop(scope, None)
        if table is not None:
            table.close()
        self.release(scope)
        try:
            await self._connect()
            await self._database.drop_table(table_name(scope), ignore_missing=True)
        except Exception:
            if not await to_thread.run_sync(has_files, self.folder, scope):
                raise
        await to_thread.run_sync(remove_files, self.folder, scope)

    def release(self, scope: str) -> None:
        """Forget the table of `scope`, so that it is opened again, even if another process has dropped the scope since."""
        self._tables.pop(scope, None)
        self.shared.forget(scope)

    async def close(self) -> None:
        """Close all tables and the connection."""
        for table in self._tables.values():
            table.close()
        self._tables.clear()
        if self._database is not None:
            self._database.close()
            self._database = None

    async def _connect(self) -> None:
        if self._database is None:
            await self.shared.make_folder()
            # Handles are snapshots; an interval of nothing makes each read see what other processes wrote.
            session = lancedb.Session(metadata_cache_size_bytes=_METADATA_BYTES)
            self._database = await lancedb.connect_async(
                self.folder, read_consistency_interval=timedelta(0), session=session
            )

    async def _failure(self, scope: str, error: Exception) -> MnemosyneError:
        """Return the error to raise for one of LanceDB or the disk."""
        if isinstance(error, ScopeDroppedError) or await self.shared.is_dropped(scope):
            return ScopeDroppedError(self.folder, scope)
        self._tables.pop(scope, None)
        said = " ".join(str(error).split())
        if isinstance(error, FileExistsError | NotADirectoryError) or "NotADirectory" in said:
            said = "it is a file, or is below one; move that file"
        return IndexUnavailableError(self.folder, scope, said[:300] or type(error).__name__)

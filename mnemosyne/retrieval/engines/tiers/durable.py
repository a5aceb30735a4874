"""Folder of an index: its engine, rows that wait to be written to it, and its faults.

The engine is imported when it is first needed, by name and off the event loop: it is heavy, and a store without a
session should not pay for it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from importlib import import_module

import anyio
from anyio import to_thread

from mnemosyne.core.errors import IndexUnavailableError
from mnemosyne.core.optional_packages import explain_missing_package
from mnemosyne.retrieval.engines.large_scope import DurableIndex, delta_names
from mnemosyne.retrieval.engines.rows import NO_ROWS, RowBatch, merge_batches
from mnemosyne.retrieval.engines.tables.table import ScopeTable


class DurableFolder:
    """The folder `path`.

    `engine`: stores rows there; None: LanceDB, once `open` was called. `held_rows`: number of new rows of a scope that
    are collected before they are written, because single rows slow LanceDB down; a quarter of them if the scopes have
    more than `held_rows_in_all` together. A crash costs only vectors that must be computed again, because the store has
    the texts.
    """

    def __init__(self, path: str, engine: DurableIndex | None, *, held_rows: int, held_rows_in_all: int) -> None:
        self.path, self.engine = path, engine
        self.has_own_engine = engine is None
        self.is_alone = False
        """Whether LanceDB is not installed."""
        self.detached = set[str]()
        """Scopes that are only in memory."""
        self.writing = anyio.Lock()
        self._held_rows, self._held_rows_in_all = held_rows, held_rows_in_all
        self._held: dict[str, RowBatch] = {}
        self._in_flight = set[str]()
        self._faults: dict[str, str] = {}
        self._lost: dict[str, str] = {}

    async def open(self, scope: str) -> DurableIndex | None:
        """Return the engine; None if it is not installed. IndexUnavailableError if it cannot be loaded."""
        if self.engine is None and not self.is_alone:
            try:
                self.engine = await to_thread.run_sync(open_engine, self.path)
            except ModuleNotFoundError:
                self.is_alone = True
                return None
            except ImportError as error:
                reason = explain_missing_package("The index on disk", "lancedb", "lance", error)
                raise IndexUnavailableError(self.path, scope, reason) from error
        return self.engine

    def release(self, scope: str) -> None:
        """Close the tables of a scope."""
        if self.engine is not None:
            for name in (scope, *delta_names(scope)):
                self.engine.release(name)

    def hold(self, scope: str, batch: RowBatch) -> bool:
        """Collect new rows of a scope; return whether there are enough to write them."""
        self._held[scope] = merge_batches(self._held.get(scope, NO_ROWS), batch)
        rows = len(self._held[scope].rows)
        if rows >= self._held_rows:
            return True
        return (
            rows * 4 >= self._held_rows and sum(len(each.rows) for each in self._held.values()) > self._held_rows_in_all
        )

    def held_scopes(self) -> list[str]:
        """Return the scopes with rows that wait to be written."""
        return list(self._held)

    def is_pending(self, scope: str) -> bool:
        """Return whether rows of a scope wait to be written, or are being written."""
        return scope in self._held or scope in self._in_flight

    @asynccontextmanager
    async def take_held(self, scope: str) -> AsyncIterator[RowBatch]:
        """Give the rows of a scope that wait; they are being written until the block ends, and nobody else writes meanwhile."""
        async with self.writing:
            batch = self._held.pop(scope, NO_ROWS)
            self._in_flight.add(scope)
            try:
                yield batch
            finally:
                self._in_flight.discard(scope)

    def sift(self, scope: str, table: ScopeTable) -> None:
        """Drop waiting rows of which a table that was read meanwhile has more."""
        if scope in self._held:
            self._held[scope] = table.select_news(self._held[scope])

    def drop_held(self, scope: str) -> None:
        """Forget the rows of a scope that wait."""
        self._held.pop(scope, None)

    def forget(self, scope: str) -> None:
        """Forget the waiting rows of a scope, and its faults."""
        self.drop_held(scope)
        self._lost.pop(scope, None)
        self.detached.discard(scope)

    def note(self, error: IndexUnavailableError, scope: str) -> None:
        """Remember a fault."""
        self._faults[str(error)] = scope or error.scope

    def note_lost(self, scope: str, rows: int) -> None:
        """Remember how many rows of a scope are damaged."""
        self._lost.pop(scope, None)
        if rows:
            self._lost[scope] = (
                f"The index of {scope!r} in {self.path} has damaged rows, which recall does without. Nothing of the "
                "session is lost: they are made again from the store after the next turn, or by `jacquard operate reindex`."
            )

    def lost_of(self, scope: str) -> str:
        """Return the sentence on the damaged rows of a scope; empty if there are none."""
        return self._lost.get(scope, "")

    def keep_lost(self, scope: str, said: str) -> None:
        """Use the sentence on the damaged rows of another scope for this one."""
        if said:
            self._lost[scope] = said

    def faults(self) -> tuple[str, ...]:
        """Return the faults, each sentence once, in order."""
        return (*self._faults, *self._lost.values())

    def clear_faults(self, scopes: Collection[str]) -> None:
        """Forget the faults of some scopes, and those without a scope."""
        self._faults = {fault: scope for fault, scope in self._faults.items() if scope and scope not in scopes}


def open_engine(folder: str) -> DurableIndex:
    """Return LanceDB's index of a folder. It is imported here: call this on a thread. ImportError."""
    opened: DurableIndex = import_module("mnemosyne.retrieval.engines.lance.index").LanceIndex(folder)
    return opened

"""Manages the folder of an index: loads LanceDB when it is needed, and remembers the faults of the folder.

LanceDB stores the large scopes of an index. It is imported when the index is warmed or the first large scope is opened.
A store with only small scopes does not import it, because the import takes long.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module

from anyio import to_thread

from mnemosyne.core.errors import IndexUnavailableError
from mnemosyne.core.optional_packages import explain_missing_package
from mnemosyne.retrieval.engines.large_scope import DurableIndex, table_names


class DurableFolder:
    """The folder `path` of an index. `engine` stores large scopes; if it is None, `open` loads LanceDB."""

    def __init__(self, path: str, engine: DurableIndex | None) -> None:
        self.path, self.engine = path, engine
        self.is_alone = False
        """Whether LanceDB is not installed."""
        self.detached = set[str]()
        """The scopes that are in memory only."""
        self._faults: dict[str, str] = {}
        self._lost: dict[str, str] = {}

    async def open(self, scope: str) -> DurableIndex | None:
        """Return the engine for large scopes, or None if LanceDB is not installed.

        Raises IndexUnavailableError (with `scope`) if LanceDB is installed but cannot be loaded.
        """
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
        """Release the tables of a scope, so that they are opened again."""
        if self.engine is not None:
            for name in table_names(scope):
                self.engine.release(name)

    def forget(self, scope: str) -> None:
        """Forget the damaged rows of a scope, and that the scope is only in memory."""
        self._lost.pop(scope, None)
        self.detached.discard(scope)

    def note(self, error: IndexUnavailableError, scope: str) -> None:
        """Remember a fault of a scope (empty: of the scope that `error` names)."""
        self._faults[str(error)] = scope or error.scope

    def note_lost(self, scope: str, rows: int) -> None:
        """Remember that `rows` rows of a scope are damaged (0: none)."""
        self._lost.pop(scope, None)
        if rows:
            self._lost[scope] = (
                f"The index of {scope!r} in {self.path} has damaged rows, which recall does without. Nothing of the "
                "session is lost: they are made again from the store after the next turn, or by `jacquard operate reindex`."
            )

    def lost_of(self, scope: str) -> str:
        """Return the sentence about the damaged rows of a scope; empty if there are none."""
        return self._lost.get(scope, "")

    def keep_lost(self, scope: str, said: str) -> None:
        """Use `said`, the sentence about the damaged rows of another scope, for this scope."""
        if said:
            self._lost[scope] = said

    def faults(self) -> tuple[str, ...]:
        """Return the faults, each sentence once, in order."""
        return (*self._faults, *self._lost.values())

    def clear_faults(self, scopes: Collection[str]) -> None:
        """Forget the faults of `scopes`, and the faults without a scope."""
        self._faults = {fault: scope for fault, scope in self._faults.items() if scope and scope not in scopes}


def open_engine(folder: str) -> DurableIndex:
    """Return LanceDB's index of a folder. LanceDB is imported here, so call this on a thread. Raises ImportError if
    it cannot be imported.
    """
    opened: DurableIndex = import_module("mnemosyne.retrieval.engines.lance.index").LanceIndex(folder)
    return opened

"""Finds leftovers on this host: index tables, originals of redacted texts, and old backups. The housekeeper removes them.

Leftovers are in files next to a store, so each host removes the leftovers on its own disk. The caller must list the
files before the sessions; otherwise the files of a new session could be taken for leftovers.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from mnemosyne.evidence import FolderVault
from mnemosyne.evidence.vault import name_of
from mnemosyne.protocols import Store, StoreUpkeep
from mnemosyne.retrieval.engines.lance.files import list_tables, table_name
from mnemosyne.retrieval.engines.large_scope import delta_names
from mnemosyne.schema.memory import session_scope, staged_scope
from mnemosyne.stores.locate import StoreLocation
from mnemosyne.stores.maintenance.digest import has_digest

_OF_SESSIONS = (
    "session_",
    "next_session_",
    "young_1_session_",
    "young_2_session_",
    "young_1_next_session_",
    "young_2_next_session_",
)


def vault_of(location: StoreLocation) -> FolderVault | None:
    """Return the vault (folder with originals of redacted texts) that belongs to a store location. Return None if the
    vault is not on this host.
    """
    if location.index is None:
        return None
    return FolderVault(location.index.with_name(location.index.name.replace("index", "originals")))


def tables_of(session_id: str) -> tuple[str, ...]:
    """Return the names of all tables that an index may have for a session."""
    scope, staged = session_scope(session_id), staged_scope(session_scope(session_id))
    return tuple(table_name(name) for name in (scope, *delta_names(scope), staged, *delta_names(staged)))


def list_session_tables(index: Path) -> tuple[str, ...]:
    """Return the names of the tables in an index folder that belong to sessions. Raises OSError if the folder cannot be read."""
    return tuple(name for name in list_tables(str(index)) if name.startswith(_OF_SESSIONS))


async def open_sessions(store: Store) -> frozenset[str]:
    """Return the ids of all sessions that are not archived."""
    every = frozenset(await store.sessions())
    return every - await store.archived_ids() if isinstance(store, StoreUpkeep) else every


def leftover_tables(tables: Collection[str], open_sessions: Collection[str]) -> tuple[str, ...]:
    """Return the names in `tables` that belong to none of `open_sessions`."""
    if not tables:
        return ()
    needed = {name for session_id in open_sessions for name in tables_of(session_id)}
    return tuple(sorted(set(tables) - needed))


def list_originals(vault: FolderVault | None) -> tuple[str, ...]:
    """Return the names of the folders in a vault. Each folder contains the originals of one session. Return an empty
    tuple if `vault` is None.
    """
    if vault is None or not vault.folder.is_dir():
        return ()
    return tuple(sorted(each.name for each in vault.folder.iterdir() if each.is_dir()))


def leftover_originals(folders: Collection[str], sessions: Collection[str]) -> tuple[str, ...]:
    """Return the names in `folders` whose session is not in `sessions`."""
    return tuple(sorted(set(folders) - {name_of(session_id) for session_id in sessions})) if folders else ()


def old_backups(folder: Path, kept: int) -> tuple[Path, ...]:
    """Return the files in `folder` that `jacquard operate backup` made, except the newest `kept` ones. Other files are never
    returned.
    """
    if not folder.is_dir():
        return ()
    ours = [each for each in folder.iterdir() if each.is_file() and not each.is_symlink() and has_digest(each)]
    return tuple(sorted(ours, key=lambda each: (each.stat().st_mtime, each.name))[: max(0, len(ours) - kept)])

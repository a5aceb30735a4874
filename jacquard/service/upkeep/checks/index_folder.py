"""Compares the index folder of a tenant on this host with the store. Finds leftovers in this folder, and among the
originals (unredacted texts) in the folder next to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from anyio import to_thread

from jacquard.core.degradations import DegradationCode
from jacquard.service.upkeep import tidy
from jacquard.service.upkeep.findings import Finding, IndexFolder, stale, wrong
from mnemosyne.core.errors import MnemosyneError
from mnemosyne.protocols import Store
from mnemosyne.retrieval.engines.checkpoints.checkpoint import read_checkpoint
from mnemosyne.retrieval.engines.lance.files import has_files, list_tables, table_name
from mnemosyne.schema.memory import Chain, session_scope, world_scope
from mnemosyne.stores.locate import StoreLocation

MOST_SCOPES = 200
"""Maximum number of scopes (sessions or worlds) of an index that are compared with the store. More are not compared,
because this would take long.
"""


async def check_index(
    store: Store, location: StoreLocation, tenant: str, serving: str
) -> tuple[IndexFolder | None, list[Finding]]:
    """Check the index folder of a tenant. Return (folder, findings): the figures of the folder, and the faults.
    `folder` is None if there is no index folder, or if it cannot be read.

    `serving` is the name of the configured embedder ('': there is none).
    """
    if location.index is None:
        return None, []
    try:
        tables = await to_thread.run_sync(list_tables, str(location.index))
        session_tables = await to_thread.run_sync(tidy.list_session_tables, location.index)
        size = await to_thread.run_sync(_size_of, location.index)
    except OSError as error:
        what = f"{location.index} cannot be read: {error.strerror or error}."
        do = "Grant this user the folder, or remove it: the next turn makes it anew."
        return None, [wrong("index_unreadable", what, do)]
    sessions = await store.sessions()
    left = await to_thread.run_sync(tidy.leftover_tables, session_tables, await tidy.open_sessions(store))
    found = []
    if left:
        found.append(
            stale(
                "index_leftovers",
                f"{location.index} has {len(left)} tables of sessions that are gone or archived.",
                "`jacquard operate housekeeping --once` removes them.",
            )
        )
    found += await _check_originals(location, sessions)
    scopes = [world_scope(name) for name in await store.worlds()] + [session_scope(name) for name in sessions]
    compared = [each for each in scopes if table_name(each) in tables][:MOST_SCOPES]
    encoders, faults = await _compare(store, location.index, compared, serving)
    folder = IndexFolder(
        tenant=tenant,
        folder=str(location.index),
        tables=len(tables),
        file_bytes=size,
        leftovers=len(left),
        encoders=encoders,
    )
    return folder, found + faults


async def _check_originals(location: StoreLocation, sessions: Iterable[str]) -> list[Finding]:
    vault = tidy.vault_of(location)
    try:
        folders = await to_thread.run_sync(tidy.list_originals, vault)
    except OSError as error:
        what = f"The originals cannot be read: {error}."
        return [wrong("originals", what, "Grant this user the folder.")]
    left = tidy.leftover_originals(folders, frozenset(sessions))
    if not left or vault is None:
        return []
    what = f"{vault.folder} has originals of {len(left)} sessions that are gone."
    do = "`jacquard operate housekeeping --once` removes them."
    return [wrong("originals_leftovers", what, do)]


async def _compare(
    store: Store, folder: Path, scopes: list[str], serving: str
) -> tuple[tuple[str, ...], list[Finding]]:
    """Compare tables of the index with the store; return the embedders of their vectors."""
    large = await to_thread.run_sync(_open_large, str(folder), scopes)
    encoders: Counter[str] = Counter()
    behind: list[str] = []
    found: list[Finding] = []
    try:
        for scope in scopes:
            try:
                table = await to_thread.run_sync(read_checkpoint, str(folder), scope)
                if table is not None:
                    marks = {(scope, chain): table.watermark(chain) for chain in Chain}
                    encoders[table.model] += 1
                elif large is not None:
                    marks = {(scope, chain): await large.watermark(scope, chain) for chain in Chain}
                    encoders[await large.encoder_of(scope)] += 1
                else:
                    continue
            except (MnemosyneError, OSError) as error:
                code, do = (
                    DegradationCode.INDEX_DAMAGED.value,
                    "`jacquard operate reindex` builds it again from the store.",
                )
                found.append(wrong(code, str(error), do))
                continue
            if await store.chains_written_after(marks):
                behind.append(scope)
    finally:
        if large is not None:
            await large.close()
    if behind:
        found.append(
            stale(
                DegradationCode.INDEX_BEHIND.value,
                f"The index of {len(behind)} scopes lacks what was written last ({', '.join(behind[:3])} …).",
                "The next turn brings it in; `jacquard operate reindex` does it now.",
            )
        )
    found += [
        stale(
            DegradationCode.ENCODER_CHANGED.value,
            f"The vectors of {number} scopes are those of {name}; the configured model is {serving}.",
            "`jacquard operate reindex` makes them with the configured model; until then the former one serves.",
        )
        for name, number in encoders.items()
        if name and serving and name != serving
    ]
    return tuple(sorted(name for name in encoders if name)), found


def _open_large(folder: str, scopes: Iterable[str]) -> Any:
    """Return LanceDB's index of a folder if it has one of the scopes; None if not, or LanceDB is not installed."""
    if find_spec("lancedb") is None or not any(has_files(folder, scope) for scope in scopes):
        return None
    return import_module("mnemosyne.retrieval.engines.lance.index").LanceIndex(folder)


def _size_of(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file()) if folder.is_dir() else 0

"""Writes the rows of a scope as one table with its graph, for a snapshot (a published index).

A graph is an index that finds the nearest vectors quickly. This module imports LanceDB, so import it only when it is needed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from anyio import to_thread

from mnemosyne.retrieval.engines.lance.files import SharedFolder, copy_files, remove_others
from mnemosyne.retrieval.engines.lance.index import LanceIndex
from mnemosyne.retrieval.engines.large_scope import delta_names
from mnemosyne.retrieval.engines.rows import RowBatch
from mnemosyne.schema.memory import Chain

_NEWEST = 2**62


async def export_scope(base: str, scope: str, target: Path, changes: RowBatch, *, is_shared: bool) -> None:
    """Write the table of a scope, with its deltas (tables of newer rows) and `changes`, into the empty folder
    `target`. `base` is the folder of the index.

    The graph is kept if nothing has changed. Otherwise it is built, which takes long. Raises IndexUnavailableError if
    a table cannot be read or written.

    Args:
        is_shared: True if other processes may write to `base` at the same time.
    """
    names = (scope, *delta_names(scope))
    if is_shared:
        shared = SharedFolder(base)
        async with shared.hold_lock():
            await to_thread.run_sync(copy_files, base, target, names)
    else:
        await to_thread.run_sync(copy_files, base, target, names)
    store = LanceIndex(str(target))
    try:
        late = await _join_deltas(store, scope)
        if changes.rows or changes.removed:
            # Sequences of another store say nothing about which row is newer: what was written last is.
            await store.write(scope, replace(changes, watermarks=dict.fromkeys(Chain, _NEWEST)))
        await store.finish(scope, rebuild=late or bool(changes.rows))
    finally:
        await store.close()
    await to_thread.run_sync(remove_others, target, scope)


async def _join_deltas(store: LanceIndex, scope: str) -> bool:
    """Copy the deltas of a scope into its table, the older one first; return whether there was any row."""
    marks = [(max([await store.watermark(name, chain) for chain in Chain]), name) for name in delta_names(scope)]
    joined = False
    for mark, name in sorted(marks):
        if mark:
            await store.absorb(scope, name, graph=False)
            joined = True
        await store.drop(name)
    return joined

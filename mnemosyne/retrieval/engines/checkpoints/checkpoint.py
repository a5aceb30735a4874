"""Reads and writes checkpoints. A checkpoint is a file with the index of one scope (a session or a world), as arrays.

Opening a checkpoint is fast, because the arrays are mapped into memory. Each array has a checksum, and a file is always
replaced as a whole. Rows that were added after the last writing are made again from the store. This module must not import
an engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mnemosyne.core.codec import decode, encode
from mnemosyne.core.errors import CodecError, UnreadableError
from mnemosyne.files import make_private_folder
from mnemosyne.retrieval.engines.checkpoints.array_file import map_arrays, write_arrays
from mnemosyne.retrieval.engines.lance.files import checkpoint_file, read_mark
from mnemosyne.retrieval.engines.tables.table import FrozenTable, ScopeTable
from mnemosyne.schema.memory import Chain
from mnemosyne.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class _About:
    """Values of a checkpoint besides its arrays. `release` changes with the meaning of the arrays; `mark` is the generation of
    the scope that was read.
    """

    release: int
    scope: str
    mark: str = ""
    model: str
    branches: tuple[str | None, ...]
    watermarks: Mapping[Chain, int]


_RELEASE = 2


def read_checkpoint(folder: str, scope: str) -> ScopeTable | None:
    """Return the table in the checkpoint of `scope`.

    Return None if there is no checkpoint, or if a different release wrote it. Return None and remove the file if the
    checkpoint belongs to an earlier generation of `scope` (the generation changes when the scope is dropped).

    This function reads files: call it on a thread.

    Raises:
        UnreadableError: if the checkpoint is damaged.
        OSError: if the file cannot be read.
    """
    try:
        about, arrays = map_arrays(checkpoint_file(folder, scope))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise UnreadableError(f"the checkpoint of {scope!r} is empty") from error
    try:
        of = decode(about, _About)
    except CodecError:
        # One of an earlier release belonged to a table of LanceDB, which has all of its rows.
        return None
    if (of.release, of.scope) != (_RELEASE, scope):
        return None
    if of.mark != read_mark(folder, scope):
        # Another process was writing it while the scope was dropped; it has words that were erased.
        checkpoint_file(folder, scope).unlink(missing_ok=True)
        return None
    try:
        frozen = FrozenTable(
            model=of.model,
            branches=of.branches,
            watermarks=of.watermarks,
            ids=decode(arrays.pop("ids").tobytes(), tuple[str, ...]),
            words=decode(arrays.pop("words").tobytes(), tuple[str, ...]),
            arrays=arrays,
        )
        return ScopeTable.restore(frozen)
    except (CodecError, ValueError, KeyError) as error:
        raise UnreadableError(f"the checkpoint of {scope!r} is damaged", about) from error


def write_checkpoint(folder: str, scope: str, mark: str, table: ScopeTable) -> bool:
    """Write `table` as the checkpoint of `scope`. `mark` is the generation of `scope` that `table` belongs to.

    Return False, and leave no file, if another process has dropped `scope` since: the generation is then no longer `mark`.
    Return True otherwise. This function writes files: call it on a thread. Raises OSError if the file cannot be written.
    """
    frozen = table.freeze()
    about = _About(
        release=_RELEASE,
        scope=scope,
        mark=mark,
        model=frozen.model,
        branches=frozen.branches,
        watermarks=frozen.watermarks,
    )
    names = {"ids": encode(frozen.ids), "words": encode(frozen.words)}
    arrays = {name: np.frombuffer(text, dtype=np.uint8) for name, text in names.items()}
    make_private_folder(Path(folder))
    if read_mark(folder, scope) == mark:
        write_arrays(checkpoint_file(folder, scope), encode(about), {**arrays, **frozen.arrays})
        # A process that drops the scope from here on removes the file after its mark.
        if read_mark(folder, scope) == mark:
            return True
        checkpoint_file(folder, scope).unlink(missing_ok=True)
    return False

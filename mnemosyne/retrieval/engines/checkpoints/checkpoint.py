"""Checkpoints: the table of a scope as a file next to the durable index, from which it opens at once.

A checkpoint names the state of the durable table that it was made of. If that is still its state, it is whole;
otherwise it is an earlier part, which serves until the scope is read. Must not import an engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mnemosyne.core.codec import decode, encode
from mnemosyne.core.errors import CodecError
from mnemosyne.retrieval.engines.checkpoints.array_file import map_arrays, read_about, write_arrays
from mnemosyne.retrieval.engines.lance.files import (
    checkpoint_file,
    has_files,
    is_local_folder,
    read_mark,
    read_stamp,
)
from mnemosyne.retrieval.engines.tables.table import FrozenTable, ScopeTable
from mnemosyne.schema.memory import Chain

_RELEASE = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class _About:
    """Head of a checkpoint. `release` changes with the meaning of the arrays."""

    release: int
    scope: str
    stamp: str
    model: str
    branches: tuple[str | None, ...]
    watermarks: Mapping[Chain, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """A table made of the durable one in the state `stamp`."""

    table: ScopeTable
    stamp: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ScopeFiles:
    """Information in the files of a scope, read before the durable index is opened."""

    mark: str
    """Generation of the scope."""
    version: int
    """Version of its table; `stamp` is its state."""
    stamp: str
    is_empty: bool
    """Whether there are no rows."""
    checkpoint: Checkpoint | None

    @property
    def is_whole(self) -> bool:
        """Whether the checkpoint has all that the table has."""
        return self.checkpoint is not None and self.checkpoint.stamp == self.stamp


def read_scope_files(folder: str, scope: str, other_tables: Sequence[str]) -> ScopeFiles:
    """Return the information about a scope; one with `other_tables` is too large for a checkpoint. Reads files: call it
    on a thread.
    """
    mark = read_mark(folder, scope)
    is_large = any(has_files(folder, name) for name in other_tables)
    version, stamp = read_stamp(folder, scope)
    return ScopeFiles(
        mark=mark,
        version=version,
        stamp=stamp,
        is_empty=not is_large and not has_files(folder, scope) and is_local_folder(folder),
        checkpoint=read_checkpoint(folder, scope) if stamp and not is_large else None,
    )


def read_checkpoint(folder: str, scope: str) -> Checkpoint | None:
    """Return the checkpoint of a scope; None if there is none that can be used. Reads files: call it on a thread."""
    try:
        about, arrays = map_arrays(checkpoint_file(folder, scope))
        of = decode(about, _About)
        if (of.release, of.scope) != (_RELEASE, scope):
            return None
        frozen = FrozenTable(
            model=of.model,
            branches=of.branches,
            watermarks=of.watermarks,
            ids=decode(arrays.pop("ids").tobytes(), tuple[str, ...]),
            words=decode(arrays.pop("words").tobytes(), tuple[str, ...]),
            arrays=arrays,
        )
        return Checkpoint(table=ScopeTable.restore(frozen), stamp=of.stamp)
    except (CodecError, OSError, ValueError, KeyError):
        # Damaged, cut off, or of another release: the durable index has all of it.
        return None


def remove_checkpoint(folder: str, scope: str) -> None:
    """Remove the checkpoint of a scope, if there is one; OSError."""
    if "://" not in folder and Path(folder).is_dir():
        checkpoint_file(folder, scope).unlink(missing_ok=True)


def stamp_of(folder: str, scope: str) -> str:
    """Return the state of the durable table that a scope's checkpoint was made of; empty if there is none that can be used."""
    try:
        of = decode(read_about(checkpoint_file(folder, scope)), _About)
    except (CodecError, OSError):
        return ""
    return of.stamp if (of.release, of.scope) == (_RELEASE, scope) else ""


def write_checkpoint(folder: str, scope: str, stamp: str, mark: str, table: ScopeTable) -> bool:
    """Write the checkpoint of a scope of the generation `mark`, unless there is one of this state; return whether there is one
    then. One that cannot be written is left out: it only saves time. Call it on a thread.
    """
    if stamp_of(folder, scope) == stamp:
        return True
    frozen = table.freeze()
    about = _About(
        release=_RELEASE,
        scope=scope,
        stamp=stamp,
        model=frozen.model,
        branches=frozen.branches,
        watermarks=frozen.watermarks,
    )
    try:
        names = {"ids": encode(frozen.ids), "words": encode(frozen.words)}
        arrays = {name: np.frombuffer(text, dtype=np.uint8) for name, text in names.items()}
        write_arrays(checkpoint_file(folder, scope), encode(about), {**arrays, **frozen.arrays})
        if read_mark(folder, scope) == mark:
            return True
        # Another process has dropped the scope meanwhile. One that does so from here on removes the file after its mark.
        remove_checkpoint(folder, scope)
    except (CodecError, OSError):
        pass
    return False

"""Describes a published snapshot that a host searches, and the protocol of the source that finds snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Protocol

from mnemosyne.retrieval.engines.rows import NO_ROWS, RowBatch, merge_batches
from mnemosyne.schema.memory import Chain
from mnemosyne.values import dataclass


@dataclass(kw_only=True, slots=True)
class ServedSnapshot:
    """A published snapshot of a scope that a host searches in place of an index of its own."""

    snapshot_id: str
    folder: Path
    """Folder of the snapshot's table."""
    stale: tuple[str, ...] = ()
    """Ids of rows that must be hidden, because the store no longer has their entries or has them with other content."""
    sequences: Mapping[str, int] = field(default_factory=dict)
    """Sequences of rows in this store, by entry id, if they differ from those in the publisher's store. Empty if none differ."""
    watermarks: Mapping[Chain, int] = field(default_factory=dict)
    """By chain, the sequence of the store up to which the snapshot was compared with the store."""
    incomplete: bool = False
    """True if the snapshot lacks some entries of the store with sequences up to those in `watermarks`."""
    delta: RowBatch = NO_ROWS
    """Writes since the snapshot was opened."""

    def note(self, batch: RowBatch) -> None:
        """Add `batch` to the writes since the snapshot was opened."""
        self.delta = merge_batches(self.delta, batch)

    @property
    def is_old(self) -> bool:
        """Whether the store has changed since the snapshot was published."""
        return bool(self.stale or self.incomplete or self.delta.rows or self.delta.removed)

    @property
    def changes(self) -> RowBatch:
        """Changes that turn the rows of the snapshot's table into the rows that are searched."""
        return merge_batches(RowBatch(rows=(), removed=self.stale, watermarks={}), self.delta)


class SnapshotSource(Protocol):
    """Finds the snapshots of scopes. No method raises if the storage cannot be reached or a snapshot is damaged."""

    async def open(self, scope: str) -> ServedSnapshot | None:
        """Return the newest usable snapshot of a scope, or None if the scope has none."""
        ...

    async def find_newer(self, scope: str, snapshot_id: str) -> ServedSnapshot | None:
        """Return a usable snapshot of `scope` that is newer than `snapshot_id`.

        Return None if there is none, or if the storage was asked so recently that it is not asked again.
        """
        ...

    async def reject(self, snapshot: ServedSnapshot, reason: str) -> None:
        """Remove a snapshot from this host because its table cannot be read. `open` fetches it again."""
        ...

    async def release(self, snapshot: ServedSnapshot) -> None:
        """Allow the files of a snapshot to be removed."""
        ...

    def degradations_for(self, scopes: Iterable[str]) -> tuple[str, ...]:
        """Return the degradation codes that apply when these scopes are searched."""
        ...

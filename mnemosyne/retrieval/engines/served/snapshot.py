"""A published snapshot that a host searches, and its source. Values and a protocol only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from mnemosyne.retrieval.engines.rows import NO_ROWS, RowBatch, merge_batches
from mnemosyne.schema.memory import Chain


@dataclass(kw_only=True, slots=True)
class ServedSnapshot:
    """A snapshot that a host searches in place of an index of its own."""

    snapshot_id: str
    folder: Path
    """Folder of its table."""
    stale: tuple[str, ...] = ()
    """Ids of rows that the store no longer has."""
    sequences: Mapping[str, int] = field(default_factory=dict)
    """Sequences of the other rows in this store by id, if they differ from the publisher's (empty: they do not)."""
    watermarks: Mapping[Chain, int] = field(default_factory=dict)
    """Sequence of the store, by chain, up to which the fresh rows are complete."""
    incomplete: bool = False
    """Whether it lacks entries of the store all the same."""
    delta: RowBatch = NO_ROWS
    """Writes since it was opened."""

    def note(self, batch: RowBatch) -> None:
        """Add to the writes since the snapshot was opened."""
        self.delta = merge_batches(self.delta, batch)

    @property
    def is_old(self) -> bool:
        """Whether the store has changed since the snapshot was published."""
        return bool(self.stale or self.incomplete or self.delta.rows or self.delta.removed)

    @property
    def changes(self) -> RowBatch:
        """Return the changes that turn the snapshot's table into the searched one."""
        return merge_batches(RowBatch(rows=(), removed=self.stale, watermarks={}), self.delta)


class SnapshotSource(Protocol):
    """Finds the snapshots of scopes. No method raises for a storage that is away or a snapshot that is damaged."""

    async def open(self, scope: str) -> ServedSnapshot | None:
        """Return the newest usable snapshot of a scope; None if the scope has none."""
        ...

    async def find_newer(self, scope: str, snapshot_id: str) -> ServedSnapshot | None:
        """Return a usable snapshot that is newer than the one named, if it is time to look for one."""
        ...

    async def reject(self, snapshot: ServedSnapshot, reason: str) -> None:
        """Remove a snapshot from this host, because its table cannot be read; `open` fetches it again."""
        ...

    async def release(self, snapshot: ServedSnapshot) -> None:
        """Let the files of a snapshot be removed."""
        ...

    def degradations_for(self, scopes: Iterable[str]) -> tuple[str, ...]:
        """Return the degradation codes that apply when these scopes are searched."""
        ...

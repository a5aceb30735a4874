"""A published snapshot that a host searches, and where it comes from. Values and a protocol only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from mnemosyne.retrieval.engines.rows import NO_ROWS, RowBatch, merge_batches
from mnemosyne.schema.memory import Chain


@dataclass(kw_only=True, slots=True)
class ServedSnapshot:
    """A snapshot that a host searches in place of an index of its own.

    `folder` holds its table. `stale`: the ids of its rows that are not those of the store any more. `sequences`: by id, those of
    the other rows in this store, where they are not those of the publisher's (empty: they are). `watermarks`: up to which
    sequence of the store, by chain, the rows that are not stale are complete, except where the snapshot is `incomplete`: then
    it lacks entries that the store has. `delta`: what was written since it was opened.
    """

    snapshot_id: str
    folder: Path
    stale: tuple[str, ...] = ()
    sequences: Mapping[str, int] = field(default_factory=dict)
    watermarks: Mapping[Chain, int] = field(default_factory=dict)
    incomplete: bool = False
    delta: RowBatch = NO_ROWS

    def note(self, batch: RowBatch) -> None:
        """Add to what was written since the snapshot was opened."""
        self.delta = merge_batches(self.delta, batch)

    @property
    def is_old(self) -> bool:
        """Whether the store has changed since the snapshot was published."""
        return bool(self.stale or self.incomplete or self.delta.rows or self.delta.removed)

    @property
    def changes(self) -> RowBatch:
        """All that makes the snapshot's table what is searched now."""
        return merge_batches(RowBatch(rows=(), removed=self.stale, watermarks={}), self.delta)


class SnapshotSource(Protocol):
    """Finds the snapshots of scopes. No method raises for a storage that is away or a snapshot that is damaged."""

    async def open(self, scope: str) -> ServedSnapshot | None:
        """Return the newest usable snapshot of a scope; None where the scope has none."""
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

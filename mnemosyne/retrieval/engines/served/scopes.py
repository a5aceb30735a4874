"""Which scopes of an index are searched in published snapshots, and what has changed since. It must not import an engine."""

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


class ServedScopes:
    """Which scopes of an index are searched in snapshots. `source` None: none is."""

    def __init__(self, source: SnapshotSource | None) -> None:
        self._source = source
        self._served: dict[str, ServedSnapshot] = {}
        self._refused = set[str]()
        self._left: list[ServedSnapshot] = []

    def __contains__(self, scope: str) -> bool:
        return scope in self._served

    def get(self, scope: str) -> ServedSnapshot | None:
        """Return the snapshot in which a scope is searched."""
        return self._served.get(scope)

    async def find(self, scope: str) -> ServedSnapshot | None:
        """Return the newest snapshot of a scope; None where there is none, or the scope was dropped here."""
        return None if self._source is None or scope in self._refused else await self._source.open(scope)

    async def find_newer(self, scope: str) -> ServedSnapshot | None:
        """Return a snapshot that is newer than the one in which a scope is searched."""
        if self._source is None or scope not in self._served:
            return None
        return await self._source.find_newer(scope, self._served[scope].snapshot_id)

    async def reject(self, snapshot: ServedSnapshot, reason: str) -> None:
        """Let a snapshot be removed from this host, because its table cannot be read."""
        if self._source is not None:
            await self._source.reject(snapshot, reason)

    def serve(self, scope: str, snapshot: ServedSnapshot) -> None:
        """Search a scope in a snapshot from here on."""
        self.forget(scope)
        self._served[scope] = snapshot

    def forget(self, scope: str) -> None:
        """Search a scope in its snapshot no longer; it may be opened again."""
        if (snapshot := self._served.pop(scope, None)) is not None:
            self._left.append(snapshot)

    def refuse(self, scope: str) -> None:
        """Search a scope in no snapshot until this process ends."""
        self.forget(scope)
        self._refused.add(scope)

    async def release(self) -> None:
        """Let the files of the snapshots that are searched no longer be removed."""
        while self._left and self._source is not None:
            await self._source.release(self._left.pop())

    async def close(self) -> None:
        """Search no scope in a snapshot any more."""
        for scope in list(self._served):
            self.forget(scope)
        await self.release()

    def degradations_for(self, scopes: Iterable[str]) -> tuple[str, ...]:
        """Return the degradation codes that apply when these scopes are searched.

        `snapshot_old`: a snapshot is searched with what has changed since; `index_behind`: some of that is not in yet; and those
        of the source.
        """
        wanted = list(scopes)
        found = [self._served[scope] for scope in wanted if scope in self._served]
        codes = () if self._source is None else self._source.degradations_for(wanted)
        old = ("snapshot_old",) if any(each.is_old for each in found) else ()
        return (*codes, *old, *(("index_behind",) if any(each.incomplete for each in found) else ()))

"""Protocols for the maintenance of a store: archived sessions, leases, and usage figures.

A store without it (of a plugin) is maintained by its owner. Of the protocols it imports those of recall only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, runtime_checkable

from mnemosyne.protocols.recall import SegmentStore, VectorStore
from mnemosyne.schema.erasure import Erasure, ErasureOutcome
from mnemosyne.schema.memory import EMPTY


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """The right to do one kind of work for a whole store, until `until` (by the clock of the store) or its renewal."""

    name: str
    holder: str
    token: int
    """Grows with every holder, so a write with an old one is refused when another process has taken over."""
    until: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class IdleSession:
    """A session and its last turn."""

    session_id: str
    active_at: datetime
    """Time when that turn was prepared (aware)."""
    version: int
    """The session's version at that moment."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IdlePage:
    """One page of idle sessions."""

    items: tuple[IdleSession, ...]
    seen: int
    """Number of sessions that were looked at."""
    next: str | None
    """Id after which to continue (None: there are no more)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchivedSession:
    """An archived session: when it was archived and last active (both aware), its rows, and their bytes before and
    after.
    """

    session_id: str
    archived_at: datetime
    active_at: datetime
    rows: int
    raw_bytes: int
    packed_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreUsage:
    """Usage of a tenant: sessions (archived ones included), entries of memory and lore, bytes of all bodies."""

    sessions: int
    archived: int
    entries: int
    stored_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedScope:
    """Shared index data of a scope."""

    scope: str
    vectors: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    """Number of vectors by encoder."""
    missing: int = 0
    """Number of entries without a vector of the requested encoder."""
    orphaned_vectors: int = 0
    """Number of vectors of texts that no entry has."""
    segments: int = 0
    """Number of segments with index rows."""
    orphaned_segments: int = 0
    """All of them if a row belongs to an entry that is gone or was erased since, else 0."""
    is_damaged: bool = False
    """Whether a segment cannot be read."""


@dataclass(frozen=True, slots=True)
class SessionLimit:
    """Maximum number of sessions of a tenant, and a function that makes the error for one more."""

    most: int
    refuse: Callable[[], Exception]


@runtime_checkable
class StoreUpkeep(Protocol):
    """A Store that one worker can maintain for all its hosts.

    1. An archived session is opened by every call that needs its rows, and is then byte for byte the same. `head`,
       `branches`, `sessions` and searches leave it archived; reads of entries by scope, which feed an index, show
       nothing of it.
    2. Archiving, opening and deleting are one transaction each: a kill leaves a session either open or archived.
    3. At most one holder has a lease at a time; with `lease`, a write of a holder that has lost it raises
       LeaseLostError and changes nothing.

    Methods raise the same errors as those of `Store`.
    """

    async def acquire_lease(self, name: str, holder: str, seconds: float) -> Lease | None:
        """Return the lease, renewed if this holder has it already; None if another has it."""
        ...

    async def release_lease(self, lease: Lease) -> None:
        """Give a lease back, unless another holder has it by now."""
        ...

    async def leases(self) -> tuple[Lease, ...]:
        """Return all leases, also expired ones, by name."""
        ...

    async def tenants(self) -> tuple[str, ...]:
        """Return the names of all tenants that have sessions or worlds, sorted."""
        ...

    async def idle_sessions(self, before: datetime, *, after: str = "", limit: int = 100) -> IdlePage:
        """Look at the next `limit` open sessions after the id `after`, and return those whose last turn is older than
        `before`.

        It never returns a session without any date, or a user's profile.
        """
        ...

    async def archive(
        self, session_id: str, *, at: datetime, expected_version: int | None = None, lease: Lease | None = None
    ) -> ArchivedSession | None:
        """Pack the rows of a session into its archive; None if it is archived already, or has evidence that will
        expire.

        SessionNotFoundError; VersionConflictError if it was changed meanwhile; LeaseLostError.
        """
        ...

    async def open_archived(self, session_id: str) -> bool:
        """Put the rows of an archived session back; return whether it was archived. SessionNotFoundError; DamagedRecordError."""
        ...

    async def archived_sessions(
        self, *, before: datetime | None = None, after: str = "", limit: int = 100, session_id: str | None = None
    ) -> tuple[ArchivedSession, ...]:
        """Return archived sessions (archived before a time, if given) by id, after the id `after`; or one by its id."""
        ...

    async def archived_ids(self) -> frozenset[str]:
        """Return the ids of all archived sessions."""
        ...

    async def erase_archived(
        self, erasure: Erasure, *, archived_before: datetime, lease: Lease | None = None
    ) -> ErasureOutcome | None:
        """Erase one whole session as `Store.erase` does, if it is archived and was archived before a time; None
        otherwise.

        So a session that was opened meanwhile stays. ValueError unless the erasure names a session; LeaseLostError.
        """
        ...

    async def check_archive(self, session_id: str) -> None:
        """Read an archive without opening it; DamagedRecordError if it cannot be opened."""
        ...

    async def usage(self) -> StoreUsage:
        """Return figures of the tenant; it reads the sizes of all its rows."""
        ...

    def limit_sessions(self, limit: SessionLimit | None) -> None:
        """Refuse from now on, in the transaction that would create it, a session beyond a limit; None lifts the limit.

        Several hosts that create sessions at the same time keep the limit together if each has set it.
        """
        ...

    async def count_entries(self, most: int) -> int:
        """Return the number of entries of the tenant, counted up to `most` and no further."""
        ...

    async def drop_abandoned(self, before: datetime, *, limit: int = 1000, lease: Lease | None = None) -> int:
        """Delete at most `limit` abandoned turns that were prepared before a time, with their records; return how many.

        An abandoned turn is on no path: its user asked again instead. LeaseLostError.
        """
        ...


@runtime_checkable
class SharedIndexStore(Protocol):
    """A store for several hosts, which share vectors and index rows in it; one worker maintains these for all hosts.

    1. Owned data stays: a vector while an entry has its text, a chain of segments while all its rows are of entries. A
       scope that is neither a session's nor a world's is not touched.
    2. A scope that is being written is left for the next look.
    3. With `lease`, the work of a holder that has lost it raises LeaseLostError and changes nothing.

    Methods raise the same errors as those of `Store`.
    """

    @property
    def vectors(self) -> VectorStore:
        """The vectors of this store's tenant."""
        ...

    @property
    def segments(self) -> SegmentStore:
        """The index rows of this store's tenant."""
        ...

    async def shared_scopes(self, *, after: str = "", limit: int = 100) -> tuple[str, ...]:
        """Return the next `limit` scopes, after `after`, that have vectors or index rows, sorted."""
        ...

    async def inspect_shared(self, scope: str, *, encoder: str = "") -> SharedScope:
        """Return the shared index data of a scope. It reads all of its entries, but no vectors."""
        ...

    async def tidy_shared(self, scope: str, *, lease: Lease | None = None) -> SharedScope:
        """Remove the ownerless index data of a scope, in one transaction, and return its former state.
        LeaseLostError.
        """
        ...

"""Defines the protocols for the maintenance of a store: archived sessions, leases, usage figures, and index data of hosts.

A lease is the right of one process to do one kind of work for a whole store. If the store of a plugin lacks these protocols, the
owner of the store maintains it. Of the other protocols this module imports only those of recall.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import datetime
from typing import Protocol, runtime_checkable

from mnemosyne.protocols.recall import SegmentStore, VectorStore
from mnemosyne.schema.erasure import Erasure, ErasureOutcome
from mnemosyne.schema.memory import EMPTY
from mnemosyne.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """The right to do one kind of work for a whole store, until `until` by the clock of the store. A renewal moves `until`."""

    name: str
    holder: str
    token: int
    """Grows with every new holder. A write with an older token is refused, because another process has taken over."""
    until: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class IdleSession:
    """A session and the time of its last turn."""

    session_id: str
    active_at: datetime
    """Time when the last turn was prepared (aware)."""
    version: int
    """The version of the session at the time of the query."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IdlePage:
    """One page of idle sessions."""

    items: tuple[IdleSession, ...]
    seen: int
    """Number of sessions that were examined."""
    next: str | None
    """Id after which to continue (None: there are no more sessions)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchivedSession:
    """An archived session: when it was archived and last active (both aware), the number of its rows, and their bytes
    before and after packing.
    """

    session_id: str
    archived_at: datetime
    active_at: datetime
    rows: int
    raw_bytes: int
    packed_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreUsage:
    """Usage of a tenant: number of sessions (archived ones included), number of memory and lore entries, and bytes of
    all stored bodies.
    """

    sessions: int
    archived: int
    entries: int
    stored_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedScope:
    """Figures of the index data that hosts share for one scope: vectors, and segments with index rows."""

    scope: str
    vectors: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    """Number of vectors by name of the embedder."""
    missing: int = 0
    """Number of entries without a vector of the embedder that the caller named."""
    orphaned_vectors: int = 0
    """Number of vectors of texts that no entry has."""
    segments: int = 0
    """Number of segments with index rows."""
    orphaned_segments: int = 0
    """Number of segments to be removed. If one row in the segments belongs to an entry that is gone or erased, these are all
    segments of the scope; otherwise it is 0.
    """
    is_damaged: bool = False
    """Whether a segment cannot be read."""


@dataclass(frozen=True, slots=True)
class SessionLimit:
    """Maximum number of sessions of a tenant. `refuse` returns the error to raise for a session beyond it."""

    most: int
    refuse: Callable[[], Exception]


@runtime_checkable
class StoreUpkeep(Protocol):
    """A `Store` that one worker can maintain for all its hosts.

    An archived session is packed: its rows are stored together and compressed, until a call needs them.

    1. Every call that needs the rows of an archived session opens it first. The opened session is byte for byte the
       same as before. `head`, `branches`, `sessions` and searches leave a session archived. Reads of entries by
       scope, which feed an index, show nothing of an archived session.
    2. Archiving, opening and deleting are one transaction each. If the process is killed, a session is either open or
       archived.
    3. At most one holder has a lease at a time. With `lease`, a write of a holder that has lost the lease raises
       LeaseLostError and changes nothing.

    Methods raise the same errors as the methods of `Store`.
    """

    async def acquire_lease(self, name: str, holder: str, seconds: float) -> Lease | None:
        """Return the lease `name` for `seconds`, renewed if `holder` has it already. Return None if another holder has it."""
        ...

    async def release_lease(self, lease: Lease) -> None:
        """Give a lease back, unless another holder has it by now."""
        ...

    async def leases(self) -> tuple[Lease, ...]:
        """Return all leases, ordered by name, expired ones included."""
        ...

    async def tenants(self) -> tuple[str, ...]:
        """Return the names of all tenants that have sessions or worlds, sorted."""
        ...

    async def idle_sessions(self, before: datetime, *, after: str = "", limit: int = 100) -> IdlePage:
        """Examine the next `limit` open sessions after the id `after`, and return those whose last turn came before the time
        `before`.

        A session without any date, or a user's profile, is never returned.
        """
        ...

    async def archive(
        self, session_id: str, *, at: datetime, expected_version: int | None = None, lease: Lease | None = None
    ) -> ArchivedSession | None:
        """Pack the rows of a session into its archive. Return None if the session is archived already, or has
        evidence that will expire.

        Raises:
            SessionNotFoundError: if there is no such session.
            VersionConflictError: if the session has another version than `expected_version`.
            LeaseLostError: if the holder has lost `lease`.
        """
        ...

    async def open_archived(self, session_id: str) -> bool:
        """Put the rows of an archived session back. Return whether the session was archived.

        Raises:
            SessionNotFoundError: if there is no such session.
            DamagedRecordError: if the archive cannot be read.
        """
        ...

    async def archived_sessions(
        self, *, before: datetime | None = None, after: str = "", limit: int = 100, session_id: str | None = None
    ) -> tuple[ArchivedSession, ...]:
        """Return at most `limit` archived sessions, ordered by id, after the id `after`.

        Args:
            before: Only sessions that were archived before this time.
            session_id: Only this session.
        """
        ...

    async def archived_ids(self) -> frozenset[str]:
        """Return the ids of all archived sessions."""
        ...

    async def erase_archived(
        self, erasure: Erasure, *, archived_before: datetime, lease: Lease | None = None
    ) -> ErasureOutcome | None:
        """Erase the session of `erasure` as `Store.erase` does, if it was archived before the time `archived_before` and still
        is. Return None, and erase nothing, otherwise.

        So a session that was opened meanwhile stays. `lease` is the caller's right to do this work (None: no lease is checked).

        Raises:
            ValueError: if `erasure` does not name a session.
            LeaseLostError: if the holder has lost `lease`.
        """
        ...

    async def check_archive(self, session_id: str) -> None:
        """Read the archive of a session without opening the session. Raises DamagedRecordError if the archive cannot be read."""
        ...

    async def usage(self) -> StoreUsage:
        """Return the usage figures of the tenant. The call reads the sizes of all its rows."""
        ...

    def limit_sessions(self, limit: SessionLimit | None) -> None:
        """Refuse from now on to create a session beyond `limit`; None lifts the limit. The check is part of the
        transaction that would create the session.

        Several hosts that create sessions at the same time keep the limit together if each has set it.
        """
        ...

    async def count_entries(self, most: int) -> int:
        """Count the entries of the tenant, and stop at `most`."""
        ...

    async def drop_abandoned(self, before: datetime, *, limit: int = 1000, lease: Lease | None = None) -> int:
        """Delete abandoned turns that were prepared before the time `before`, and unfinished replies whose last chunk came before
        it. At most `limit` of each are deleted. Return the number of both together.

        An abandoned turn is a turn whose user asked again instead; it is on no path. An unfinished reply has chunks and
        no end. Raises LeaseLostError if the holder has lost `lease`.
        """
        ...


@runtime_checkable
class SharedIndexStore(Protocol):
    """A store in which several hosts share vectors and index rows. One worker maintains these for all hosts.

    1. Only data without an owner is removed. A vector has an owner while an entry has the text of the vector. The segments
       of a scope have an owner while each of their rows belongs to an entry. A scope that is neither a session nor a world
       is not touched.
    2. A scope that is being written is left until the next call.
    3. With `lease`, the work of a holder that has lost the lease raises LeaseLostError and changes nothing.

    Methods raise the same errors as the methods of `Store`.
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
        """Return the next `limit` scopes after the scope `after` that have vectors or index rows, sorted."""
        ...

    async def inspect_shared(self, scope: str, *, encoder: str = "") -> SharedScope:
        """Return figures of the shared index data of `scope`. The field `missing` counts the entries without a vector of the
        embedder `encoder`. The call reads all entries of the scope, but no vectors.
        """
        ...

    async def tidy_shared(self, scope: str, *, lease: Lease | None = None) -> SharedScope:
        """Remove the shared index data of a scope that no entry owns, in one transaction. Return the figures from
        before.

        Raises LeaseLostError if the holder has lost `lease`.
        """
        ...

"""Defines the values that a health check returns: findings, and figures of what is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

from mnemosyne.schema.memory import EMPTY
from mnemosyne.values import dataclass


class Severity(StrEnum):
    """Severity of a finding. WRONG: something does not work, or soon will not work. STALE: something works, but slower
    or worse than possible.
    """

    WRONG = "wrong"
    STALE = "stale"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One fault. `what` states the fault and `do` states the fix, each in one sentence. `code` names the fault for programs."""

    code: str
    severity: Severity
    what: str
    do: str


def wrong(code: str, what: str, do: str) -> Finding:
    """Return a finding about something that does not work."""
    return Finding(code=code, severity=Severity.WRONG, what=what, do=do)


def stale(code: str, what: str, do: str) -> Finding:
    """Return a finding about something that works, but could work better."""
    return Finding(code=code, severity=Severity.STALE, what=what, do=do)


@dataclass(frozen=True, kw_only=True, slots=True)
class InForce:
    """Effective setting. `name` is the path of the setting, `value` its value without secrets, and `source` is
    `default`, an environment variable (with the file that it names), or `file:line`.
    """

    name: str
    value: Any
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexFolder:
    """Index folder of a tenant on this host. `leftovers` is the number of tables that no open session needs. `encoders` are the
    models that made its vectors.
    """

    tenant: str
    folder: str
    tables: int
    file_bytes: int
    leftovers: int
    encoders: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedIndexFigures:
    """Figures of a tenant's index data that hosts share in PostgreSQL. `scopes` is the number of checked scopes (sessions and
    worlds).
    """

    tenant: str
    scopes: int
    vectors: Mapping[str, int]
    """Number of vectors, by the name of the model that made them."""
    segments: int
    """Number of segments with index rows."""
    missing: int
    """Number of entries without a vector of the configured embedder."""
    orphaned_vectors: int
    """Number of vectors of texts that no entry has any more."""
    orphaned_segments: int
    """Number of segments in scopes that have an index row for an entry that is gone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedWorld:
    """Newest published snapshot (ready-made search index) of a tenant's world. `encoder` is the model that made the
    vectors of the snapshot ('': the snapshot has no vectors).
    """

    tenant: str
    world_id: str
    snapshot_id: str
    entries: int
    file_bytes: int
    encoder: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TenantFigures:
    """Figures of a tenant: numbers of sessions, archived sessions, entries and worlds, and the bytes that are stored."""

    tenant: str
    sessions: int
    archived: int
    entries: int
    stored_bytes: int
    worlds: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """Result of a health check of a store."""

    store: str
    kind: str
    reachable: bool
    revisions: tuple[int, int] = (0, 0)
    """Revision of the tables in the store (0: unknown), and the revision that this release needs."""
    tenants: tuple[TenantFigures, ...] = ()
    indexes: tuple[IndexFolder, ...] = ()
    shared: tuple[SharedIndexFigures, ...] = ()
    snapshots: tuple[PublishedWorld, ...] = ()
    leases: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    """Holder and end of each lease in the store, by the name of the lease. A lease lets only one process do a job."""
    embedder: str = ""
    packages: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    """Installed version of each package, by its name; '' if the package is not installed."""
    settings: tuple[InForce, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def is_well(self) -> bool:
        """True if no finding has the severity `wrong`."""
        return all(each.severity is not Severity.WRONG for each in self.findings)

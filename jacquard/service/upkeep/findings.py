"""Findings of a health check. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from mnemosyne.schema.memory import EMPTY


class Severity(StrEnum):
    """`wrong`: something does not work, or will not. `stale`: it works, but slower or worse than possible."""

    WRONG = "wrong"
    STALE = "stale"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One fault: `what` it is, and what to `do`, a sentence each; `code` is for machines."""

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
    """Effective setting: its path, its value without secrets, and its source (`default`, a variable, `file:line`)."""

    name: str
    value: Any
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexFolder:
    """Index folder of a tenant on this host: its tables and their bytes, and the number of tables that no session needs."""

    tenant: str
    folder: str
    tables: int
    file_bytes: int
    leftovers: int
    encoders: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedIndexFigures:
    """Shared index data of a tenant in PostgreSQL, in the checked `scopes`."""

    tenant: str
    scopes: int
    vectors: Mapping[str, int]
    """Number of vectors by encoder."""
    segments: int
    """Scopes with index rows."""
    missing: int
    """Entries without a vector of the configured encoder."""
    orphaned_vectors: int
    orphaned_segments: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedWorld:
    """Newest snapshot of a tenant's world; `encoder` is the embedder of its vectors ('': it has none)."""

    tenant: str
    world_id: str
    snapshot_id: str
    entries: int
    file_bytes: int
    encoder: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TenantFigures:
    """Contents of a tenant."""

    tenant: str
    sessions: int
    archived: int
    entries: int
    stored_bytes: int
    worlds: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """Health check of a store."""

    store: str
    kind: str
    reachable: bool
    revisions: tuple[int, int] = (0, 0)
    """Revision of the store (0: unknown) and of this release."""
    tenants: tuple[TenantFigures, ...] = ()
    indexes: tuple[IndexFolder, ...] = ()
    shared: tuple[SharedIndexFigures, ...] = ()
    snapshots: tuple[PublishedWorld, ...] = ()
    leases: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    """Leases in the store, with their holders."""
    embedder: str = ""
    packages: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    """Versions by name, '' if a package is not installed."""
    settings: tuple[InForce, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def is_well(self) -> bool:
        """True if nothing is wrong."""
        return all(each.severity is not Severity.WRONG for each in self.findings)

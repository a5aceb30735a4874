"""What a look at a store and its surroundings has found. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from mnemosyne.schema.memory import EMPTY


class Severity(StrEnum):
    """`wrong`: something does not work, or will not. `stale`: it works, with more time or less quality than it could."""

    WRONG = "wrong"
    STALE = "stale"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that is stale or wrong: `what` it is, and what to `do`, a sentence each; `code` is for machines."""

    code: str
    severity: Severity
    what: str
    do: str


def wrong(code: str, what: str, do: str) -> Finding:
    """Return a finding of what does not work."""
    return Finding(code=code, severity=Severity.WRONG, what=what, do=do)


def stale(code: str, what: str, do: str) -> Finding:
    """Return a finding of what works, and could work better."""
    return Finding(code=code, severity=Severity.STALE, what=what, do=do)


@dataclass(frozen=True, kw_only=True, slots=True)
class InForce:
    """A setting in force: its path, its value without secrets, and where it comes from (`default`, a variable, `file:line`)."""

    name: str
    value: Any
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexFolder:
    """The index folder of a tenant on this host: its tables and their bytes, and the sessions whose tables nobody needs."""

    tenant: str
    folder: str
    tables: int
    file_bytes: int
    leftovers: int
    encoders: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedIndexFigures:
    """What hosts share of a tenant's indexes in PostgreSQL, in the `scopes` that were looked at.

    `vectors`: their number by encoder. `missing`: entries without a vector of the configured one. `segments` have index rows.
    """

    tenant: str
    scopes: int
    vectors: Mapping[str, int]
    segments: int
    missing: int
    orphaned_vectors: int
    orphaned_segments: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedWorld:
    """The newest snapshot of a world of a tenant. `encoder`: the embedder of its vectors (empty: it has none)."""

    tenant: str
    world_id: str
    snapshot_id: str
    entries: int
    file_bytes: int
    encoder: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TenantFigures:
    """What a tenant has."""

    tenant: str
    sessions: int
    archived: int
    entries: int
    stored_bytes: int
    worlds: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """What is where, and what is stale or wrong.

    `revisions` are those of the store (0: none is known) and of this release. `leases`
    are those in the store, with their holders. `packages` are versions by name, empty where one is not installed.
    """

    store: str
    kind: str
    reachable: bool
    revisions: tuple[int, int] = (0, 0)
    tenants: tuple[TenantFigures, ...] = ()
    indexes: tuple[IndexFolder, ...] = ()
    shared: tuple[SharedIndexFigures, ...] = ()
    snapshots: tuple[PublishedWorld, ...] = ()
    leases: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    embedder: str = ""
    packages: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    settings: tuple[InForce, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def is_well(self) -> bool:
        """Whether nothing is wrong."""
        return all(each.severity is not Severity.WRONG for each in self.findings)

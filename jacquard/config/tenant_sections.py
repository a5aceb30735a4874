"""Defines settings of the service about stored sessions: quotas of tenants, retention, and housekeeping."""

from __future__ import annotations

from jacquard.config.fields import bounded_field, check, plain_field
from jacquard.core.errors import ConfigError
from mnemosyne.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class TenantSettings:
    """Quotas of a tenant, and the retention of its idle sessions. A quota of 0 means unlimited; a time of 0 means never."""

    sessions: int = bounded_field(0, 0, doc="Maximum sessions, including archived ones.")
    entries: int = bounded_field(0, 0, doc="Maximum entries of memory and lore.")
    stored_bytes: int = bounded_field(0, 0, doc="Maximum stored bytes, as measured within the last ten minutes.")
    turns_a_minute: int = bounded_field(
        0, 0, doc="Maximum turns, summaries and consolidations that one process begins in a minute."
    )
    archive_days: float = bounded_field(
        0.0, 0.0, doc="Age of the last turn, in days, after which a session is archived (SQLite and PostgreSQL)."
    )
    delete_days: float = bounded_field(
        0.0,
        0.0,
        doc="Age of the last turn, in days, after which an archived session is erased; `archive_days` must be set, and be less.",
    )
    abandoned_days: float = bounded_field(
        0.0, 0.0, doc="Days after which a prepared turn that another input replaced is deleted."
    )

    def __post_init__(self) -> None:
        """Check the values. Raises ConfigError if `delete_days` is set, but `archive_days` is not set to fewer days."""
        check(self)
        if self.delete_days and not 0 < self.archive_days < self.delete_days:
            raise ConfigError(
                f"TenantSettings.delete_days: is {self.delete_days:g}, but only archived sessions are erased; set archive_days "
                "to fewer days"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class HousekeepingSettings:
    """Settings of the housekeeping of stores. A lease in the store lets only one process of all hosts do it at a time."""

    enabled: bool = plain_field(
        False,
        doc="Whether `jacquard operate serve` does it; otherwise `jacquard operate housekeeping` does, where it is run.",
    )
    every_seconds: float = bounded_field(3_600.0, 1.0, doc="Time between two passes, in seconds.")
    lease_seconds: float = bounded_field(
        300.0,
        5.0,
        86_400.0,
        doc="Time without a sign of life, in seconds, after which another process takes over.",
    )
    sessions_a_pass: int = bounded_field(
        1_000,
        1,
        doc="Maximum sessions of one pass, for each of its tasks: archiving, erasing, and checking shared index data in "
        "PostgreSQL. The next pass continues after them.",
    )
    backups: str | None = plain_field(
        None, doc="A folder with backups of `jacquard operate backup`, of which old ones are deleted."
    )
    backups_kept: int = bounded_field(7, 1, doc="Number of newest backups in that folder that are kept.")

    def __post_init__(self) -> None:
        check(self)

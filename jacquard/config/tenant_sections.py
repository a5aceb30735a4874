"""Settings of the service for the life of sessions: what each tenant may have, how long it is kept, and who keeps it in order."""

from __future__ import annotations

from dataclasses import dataclass

from jacquard.config.fields import bounded_field, check, plain_field
from jacquard.core.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class TenantSettings:
    """What a tenant may have, and how long its idle sessions are kept; 0 is no limit, and never."""

    sessions: int = bounded_field(0, 0, doc="The most sessions, archived ones among them.")
    entries: int = bounded_field(0, 0, doc="The most entries of memory and lore.")
    stored_bytes: int = bounded_field(
        0, 0, doc="The most bytes of what is stored, as it was measured within the last ten minutes."
    )
    turns_a_minute: int = bounded_field(
        0, 0, doc="The most turns, summaries and consolidations that one process begins in a minute."
    )
    archive_days: float = bounded_field(
        0.0, 0.0, doc="A session is archived when its last turn is so many days ago (SQLite and PostgreSQL)."
    )
    delete_days: float = bounded_field(
        0.0,
        0.0,
        doc="An archived session is erased when its last turn is so many days ago; more than `archive_days`, which it needs.",
    )
    abandoned_days: float = bounded_field(
        0.0, 0.0, doc="A prepared turn that another input took the place of is deleted after so many days."
    )

    def __post_init__(self) -> None:
        """Check the values; ConfigError for an age of deletion that no archived session can have."""
        check(self)
        if self.delete_days and not 0 < self.archive_days < self.delete_days:
            raise ConfigError(
                f"TenantSettings.delete_days: is {self.delete_days:g}, but only archived sessions are erased; set archive_days "
                "to fewer days"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class HousekeepingSettings:
    """The work that keeps stores in order: one process of all hosts does it, by a lease in the store."""

    enabled: bool = plain_field(
        False,
        doc="Whether `jacquard operate serve` does it; otherwise `jacquard operate housekeeping` does, where it is run.",
    )
    every_seconds: float = bounded_field(3_600.0, 1.0, doc="How long it waits between two passes.")
    lease_seconds: float = bounded_field(
        300.0,
        5.0,
        86_400.0,
        doc="How long another process waits before it takes over from one that gives no sign of life.",
    )
    sessions_a_pass: int = bounded_field(
        1_000,
        1,
        doc="How many sessions one pass archives at most, how many it erases, and of how many it looks at what hosts share in "
        "PostgreSQL; the next pass continues after them.",
    )
    backups: str | None = plain_field(
        None, doc="A folder with backups of `jacquard operate backup`, of which old ones are deleted."
    )
    backups_kept: int = bounded_field(7, 1, doc="How many of the newest backups in that folder are kept.")

    def __post_init__(self) -> None:
        check(self)

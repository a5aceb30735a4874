"""Checks the tables of a store: whether they can be used, their revision, and leases that ended without being given back."""

from __future__ import annotations

from datetime import datetime

from jacquard.service.upkeep.findings import Finding, stale, wrong
from jacquard.service.upkeep.housekeeper import LEASE
from mnemosyne.core.codec import format_time
from mnemosyne.core.errors import StoreError
from mnemosyne.protocols import Store, StoreUpkeep
from mnemosyne.stores.locate import StoreLocation
from mnemosyne.stores.maintenance.rows import find_revision
from mnemosyne.stores.sql.schema import REVISION


def check_revisions(location: StoreLocation) -> tuple[int | None, list[Finding]]:
    """Return (revision, findings): the revision of a store's tables, and the faults. `revision` is None if the store
    cannot be used. It is 0 if the store has no tables, or if its kind has no revisions.
    """
    if location.kind not in ("sqlite", "postgresql"):
        return 0, []
    try:
        revision = find_revision(location)
    except StoreError as error:
        do = "See that the address is right and the database runs; what is said below needs no database."
        return None, [wrong("store_unavailable", str(error), do)]
    found = []
    if revision == 0:
        found.append(wrong("no_store", f"{location.shown} has no tables yet.", "Start a session there first."))
    elif revision < REVISION:
        found.append(
            stale(
                "migration_pending",
                f"The store is of revision {revision}, this release reads {REVISION}.",
                "End what uses it, then run `jacquard operate migrate`. Until then its content is not looked at.",
            )
        )
    elif revision > REVISION:
        found.append(
            wrong(
                "newer_store",
                f"The store is of revision {revision}, this release reads {REVISION}.",
                "Update this host.",
            )
        )
    return revision, found


async def check_leases(store: Store, now: datetime) -> tuple[dict[str, str], list[Finding]]:
    """Return (holders, findings). A lease gives one process the right to do a job for the whole store. `holders` maps
    the name of each lease to its holder and end. A lease that ended before `now` without being given back is a finding.
    """
    held: dict[str, str] = {}
    found: list[Finding] = []
    for lease in await store.leases() if isinstance(store, StoreUpkeep) else ():
        held[lease.name] = f"{lease.holder} until {format_time(lease.until)}"
        if lease.until >= now:
            continue
        do = "The next housekeeping on that host takes over."
        if lease.name == LEASE:
            do = "The next housekeeping takes over; see that it runs (`jacquard operate housekeeping`)."
        what = (
            f"The lease {lease.name!r} of {lease.holder} ended at {format_time(lease.until)} and was not given back: its "
            "process died or hangs."
        )
        found.append(stale("lease_over", what, do))
    return held, found

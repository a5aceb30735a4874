"""Gives out leases: the right of one process to do a job for a whole database. An abandoned lease expires by the database's
clock.

Locks are not enough for this. A lock of the server or of a file (decision 0017) ends only with the connection of its holder,
so it cannot distinguish a hung holder from a working one. SQLite has no lock that lasts over several calls. So a lease is a
row with a time.

The row also has a token, which changes with the holder. A write of the holder compares the token and locks the row in the
same transaction. So nobody can take over before the write is committed, and a former holder can write nothing. Each function
runs inside a write transaction that its caller has opened.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from mnemosyne.core.errors import LeaseLostError
from mnemosyne.protocols.upkeep import Lease
from mnemosyne.stores.sql.connection import Connection

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def acquire(connection: Connection, name: str, holder: str, seconds: float) -> Lease | None:
    """Return the lease for the job `name`, new or renewed, for `seconds`. Return None if another holder has it."""
    now = connection.now_us()
    until = now + round(seconds * 1e6)
    connection.post(
        "INSERT INTO leases (name, holder, token, until_us) VALUES (?, '', 0, 0) ON CONFLICT (name) DO NOTHING", (name,)
    )
    found = connection.execute(
        f"SELECT holder, token, until_us FROM leases WHERE name = ?{connection.lock}", (name,)
    ).fetchone()
    former, token, over = found
    if former not in ("", holder) and over > now:
        return None
    if former != holder or over <= now:
        token += 1
    connection.execute(
        "UPDATE leases SET holder = ?, token = ?, until_us = ? WHERE name = ?", (holder, token, until, name)
    )
    return Lease(name=name, holder=holder, token=token, until=_time(until))


def check(connection: Connection, lease: Lease | None) -> None:
    """Ensure, until the transaction ends, that the lease still belongs to its holder. If `lease` is None, do nothing.

    Raises LeaseLostError if the lease has expired, or another holder has it.
    """
    if lease is None:
        return
    found = connection.execute(
        f"SELECT token, until_us FROM leases WHERE name = ?{connection.lock}", (lease.name,)
    ).fetchone()
    if found is None or found[0] != lease.token or found[1] <= connection.now_us():
        raise LeaseLostError(lease.name, lease.holder)


def release(connection: Connection, lease: Lease) -> None:
    """Give a lease back. If another holder has it by now, nothing changes."""
    connection.execute(
        "UPDATE leases SET holder = '', until_us = 0 WHERE name = ? AND token = ?", (lease.name, lease.token)
    )


def read_leases(connection: Connection) -> tuple[Lease, ...]:
    """Return all leases that were not given back, by name. They may have expired."""
    rows = connection.execute("SELECT name, holder, token, until_us FROM leases WHERE holder <> '' ORDER BY name")
    return tuple(
        Lease(name=name, holder=holder, token=token, until=_time(until)) for name, holder, token, until in rows
    )


def _time(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)

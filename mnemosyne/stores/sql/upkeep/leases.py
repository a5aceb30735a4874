"""Leases: at most one process does a kind of work for a whole database, and a lost one ends by the database's clock.

A lock of the server or of a file (decision 0017) ends with its holder's connection, which does not tell a hung holder from a
working one, and SQLite has none that holds across calls. A row with a time does both, and its token fences: a write of the holder
locks the row in its own transaction, so nobody takes over before that is done, and afterwards the token no longer fits. Each
function runs inside a write transaction that its caller has opened.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from mnemosyne.core.errors import LeaseLostError
from mnemosyne.protocols.upkeep import Lease
from mnemosyne.stores.sql.connection import Connection

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def acquire(connection: Connection, name: str, holder: str, seconds: float) -> Lease | None:
    """Return the lease of a kind of work, new or renewed; None if another holder has it."""
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
    """Make sure, until the transaction ends, that the lease is still its holder's; LeaseLostError. None needs none."""
    if lease is None:
        return
    found = connection.execute(
        f"SELECT token, until_us FROM leases WHERE name = ?{connection.lock}", (lease.name,)
    ).fetchone()
    if found is None or found[0] != lease.token or found[1] <= connection.now_us():
        raise LeaseLostError(lease.name, lease.holder)


def release(connection: Connection, lease: Lease) -> None:
    """Give a lease back, unless another has it by now."""
    connection.execute(
        "UPDATE leases SET holder = '', until_us = 0 WHERE name = ? AND token = ?", (lease.name, lease.token)
    )


def read_leases(connection: Connection) -> tuple[Lease, ...]:
    """Return all leases that somebody has or had, by name."""
    rows = connection.execute("SELECT name, holder, token, until_us FROM leases WHERE holder <> '' ORDER BY name")
    return tuple(
        Lease(name=name, holder=holder, token=token, until=_time(until)) for name, holder, token, until in rows
    )


def _time(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)

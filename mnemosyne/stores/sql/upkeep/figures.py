"""Reads the usage figures of a SQL store, and finds its idle sessions.

Each function runs inside a transaction. Only `drop_abandoned` writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from mnemosyne.core.codec import parse_time
from mnemosyne.core.errors import UnreadableError
from mnemosyne.protocols.upkeep import IdlePage, IdleSession, StoreUsage
from mnemosyne.schema.memory import is_profile_session
from mnemosyne.stores.sql.connection import Connection, expand_in
from mnemosyne.stores.sql.replies import drop_old_unfinished
from mnemosyne.stores.sql.schema import OF_A_SESSION, OF_A_TURN

_COUNTED = {"sessions": "sessions WHERE tenant = ?", "entries": "entries WHERE tenant = ?"}
_LAST = """SELECT t.session, t.created_at FROM branches AS b
        JOIN turns AS t ON t.session = b.session AND t.turn_id = b.head_turn WHERE b.session IN ({marks})
    UNION ALL SELECT session, created_at FROM turns WHERE session IN ({marks}) AND status = 'prepared'"""


def read_tenants(connection: Connection) -> tuple[str, ...]:
    """Return the names of all tenants, sorted. The cost depends on the number of tenants, not on the number of their rows."""
    found: list[str] = []
    while True:
        above = (found[-1] if found else "",) * 3
        row = connection.execute(
            """SELECT min(tenant) FROM (SELECT min(tenant) AS tenant FROM sessions WHERE tenant > ?
                UNION ALL SELECT min(tenant) FROM worlds WHERE tenant > ?
                UNION ALL SELECT min(tenant) FROM audits WHERE tenant > ?) AS names""",
            above,
        ).fetchone()
        if row[0] is None:
            return tuple(found)
        found.append(row[0])


def read_idle(connection: Connection, before: datetime, after: str, limit: int) -> IdlePage:
    """Examine the next `limit` open sessions after the id `after`. Return those whose last turn is older than `before`."""
    rows = connection.execute(
        """SELECT key, session_id, version, created_at FROM sessions
            WHERE tenant = ? AND session_id > ? AND active_branch <> '' ORDER BY session_id LIMIT ?""",
        (connection.tenant, after, limit),
    ).fetchall()
    active = last_active(connection, {key: created for key, _, _, created in rows})
    idle = tuple(
        IdleSession(session_id=name, active_at=active[key], version=version)
        for key, name, version, _ in rows
        if key in active and active[key] < before and not is_profile_session(name)
    )
    return IdlePage(items=idle, seen=len(rows), next=rows[-1][1] if len(rows) == limit else None)


def last_active(connection: Connection, created: Mapping[int, str | None]) -> dict[int, datetime]:
    """Return when each session was last active: when its newest turn was prepared, or else when the session was
    created.

    `created` maps session numbers to times of creation. Sessions without any date are left out.
    """
    dates = [(key, text) for key, text in created.items() if text is not None]
    if created:
        marks, keys = expand_in(list(created))
        dates += connection.execute(_LAST.format(marks=marks), (*keys, *keys)).fetchall()
    found: dict[int, datetime] = {}
    for key, at in _readable(dates):
        found[key] = max(found.get(key, at), at)
    return found


def _readable(dates: Iterable[tuple[int, str | None]]) -> Iterable[tuple[int, datetime]]:
    for key, text in dates:
        try:
            at = None if text is None else parse_time(text)
        except UnreadableError:
            continue
        if at is not None:
            yield key, at


def read_usage(connection: Connection) -> StoreUsage:
    """Return the numbers of sessions, entries and archived sessions of the tenant, and the stored bytes."""
    tenant = (connection.tenant,)
    sizes = [_of_sessions(table.table, tuple(table.bodies)) for table in OF_A_SESSION if table.bodies]
    papers = " + ".join(f"coalesce(length(p.{column}), 0)" for column in OF_A_TURN.bodies)
    sizes += [
        f"SELECT sum({papers}) FROM sessions AS s JOIN turns AS t ON t.session = s.key JOIN papers AS p ON p.turn = t.number "
        "WHERE s.tenant = ?",
        "SELECT sum(length(body)) FROM entries WHERE tenant = ?",
        "SELECT sum(length(body)) FROM packs WHERE tenant = ?",
        "SELECT sum(packed_bytes) FROM archives WHERE tenant = ?",
    ]
    stored = sum(int(connection.execute(each, tenant).fetchone()[0] or 0) for each in sizes)
    (archived,) = connection.execute("SELECT count(*) FROM archives WHERE tenant = ?", tenant).fetchone()
    counts = {
        name: connection.execute(f"SELECT count(*) FROM {source}", tenant).fetchone()[0]
        for name, source in _COUNTED.items()
    }
    return StoreUsage(**counts, archived=archived, stored_bytes=stored)


def _of_sessions(table: str, bodies: tuple[str, ...]) -> str:
    length = " + ".join(f"coalesce(length(t.{column}), 0)" for column in bodies)
    return f"SELECT sum({length}) FROM sessions AS s JOIN {table} AS t ON t.session = s.key WHERE s.tenant = ?"


def drop_abandoned(connection: Connection, before: datetime, limit: int) -> int:
    """Delete abandoned turns that were prepared before the time `before`, and unfinished replies whose last chunk came before it.

    At most `limit` turns and `limit` replies are deleted. Return the number of both together.
    """
    rows = connection.execute(
        """SELECT t.number, t.created_at FROM sessions AS s JOIN turns AS t ON t.session = s.key
            WHERE s.tenant = ? AND t.status = 'abandoned'""",
        (connection.tenant,),
    ).fetchall()
    old = [number for number, at in _readable(rows) if at.astimezone(UTC) < before][:limit]
    if old:
        marks, numbers = expand_in(old)
        connection.execute(f"DELETE FROM papers WHERE turn IN ({marks})", numbers)
        connection.execute(f"DELETE FROM turns WHERE number IN ({marks})", numbers)
    return len(old) + drop_old_unfinished(connection, before, limit)

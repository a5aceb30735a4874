"""Records which rows of the SQL tables are written, so that they can be appended to journals, and applies such rows.

A journal is a file with the writes of one session or world, or with the audit records of a tenant. Every row belongs to
one journal. Temporary triggers note the key of each row that a transaction writes or deletes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from mnemosyne.schema.memory import session_scope, world_scope
from mnemosyne.stores.file.lines import RowChange
from mnemosyne.stores.sql.schema import COLUMNS, OF_A_SESSION, OF_THE_DATABASE, TABLES
from mnemosyne.values import dataclass

AUDITS = "audits"
_BREAK = "\x1f"
_PUT, _SET, _DROP = "put", "set", "drop"
_OF_A_SESSION = (*(each.table for each in OF_A_SESSION), "archives", "archive_parts")
_LARGE = ("papers",)
"""Tables of which only the changed columns are written. Rows of other tables are written whole, so that less is lost
with a damaged line.
"""
_WITHOUT_ROWID = frozenset(each.split()[2] for each in TABLES if each.endswith("{lean}"))
_SESSION_OF_TURN = "(SELECT session FROM main.turns WHERE number = {row}.turn)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Owner:
    """Identifies a journal by its tenant and its scope (`session:ID`, `world:ID`, or AUDITS)."""

    tenant: str
    scope: str

    @property
    def place(self) -> str:
        """The place of the journal as one text. It is part of the checksum of every line."""
        return f"{self.tenant}{_BREAK}{self.scope}"


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenRows:
    """The rows that a transaction changed, by journal, and the journals of the sessions that it deleted (`gone`)."""

    changes: Mapping[Owner, Sequence[RowChange]]
    gone: Sequence[Owner]


class RowTables:
    """The tables of a database whose rows are also in journals."""

    def __init__(self, driver: sqlite3.Connection) -> None:
        self._driver = driver
        self._is_watched = False

    @cached_property
    def _keys(self) -> Mapping[str, tuple[str, ...]]:
        """The columns that identify a row, by table."""
        sql = "SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk"
        return {
            table: tuple(name for (name,) in self._driver.execute(sql, (table,)))
            for table in COLUMNS
            if table not in OF_THE_DATABASE
        }

    def watch(self) -> None:
        """Note from now on which rows are written on this connection."""
        self._is_watched = True
        self._driver.execute("PRAGMA temp_store = MEMORY")
        self._driver.execute("CREATE TEMP TABLE written (name, did, a, b, c, owner, mask)")
        for table, key in self._keys.items():
            for did, row, event in ((_PUT, "new", "INSERT"), (_SET, "new", "UPDATE"), (_DROP, "old", "DELETE")):
                cells = [f"{row}.{name}" for name in key] + ["NULL"] * (3 - len(key))
                mask = "0"
                if did == _SET:
                    mask = " | ".join(
                        f"((old.{name} IS NOT new.{name}) << {number})" for number, name in enumerate(COLUMNS[table])
                    )
                self._driver.execute(
                    f"CREATE TEMP TRIGGER {event}_{table} AFTER {event} ON main.{table} BEGIN INSERT INTO written "
                    f"VALUES ('{table}', '{did}', {', '.join(cells)}, {_owner_of(table, row)}, {mask}); END"
                )

    def forget_written(self) -> None:
        """Forget the noted rows."""
        if self._is_watched:
            self._driver.execute("DELETE FROM temp.written")

    def take_written(self) -> WrittenRows:
        """Return the rows that this transaction wrote, and forget the notes.

        Each row is returned once, in its current form. Rows are in the order in which they were first written.
        """
        noted: dict[tuple[str, tuple[Any, ...]], list[Any]] = {}
        for table, did, *key, owner, mask in self._driver.execute("SELECT * FROM temp.written ORDER BY rowid"):
            known = noted.setdefault((table, tuple(key[: len(self._keys[table])])), [did, owner, 0])
            known[0], known[2] = (did if did == _DROP else known[0]), known[2] | mask
            known[1] = owner if owner is not None else known[1]
        if not noted:
            return WrittenRows(changes={}, gone=())
        self.forget_written()
        changes: dict[Owner, list[RowChange]] = {}
        gone: list[Owner] = []
        owners: dict[object, Owner | None] = {
            key[0]: _owner(owner) for (table, key), (_, owner, _) in noted.items() if table == "sessions"
        }
        for (table, key), (did, named, mask) in noted.items():
            owner = self._find_owner(owners, named)
            change = None if owner is None else self._change_of(table, key, did, mask)
            if owner is None or change is None:
                continue
            if table == "sessions" and change.did == _DROP:
                gone.append(owner)
            changes.setdefault(owner, []).append(change)
        return WrittenRows(changes={owner: rows for owner, rows in changes.items() if owner not in gone}, gone=gone)

    def _find_owner(self, owners: dict[object, Owner | None], named: object) -> Owner | None:
        if isinstance(named, str):
            return _owner(named)
        if named not in owners:
            row = self._driver.execute("SELECT tenant, session_id FROM sessions WHERE key = ?", (named,)).fetchone()
            owners[named] = None if row is None else Owner(tenant=row[0], scope=session_scope(row[1]))
        return owners[named]

    def _change_of(self, table: str, key: tuple[Any, ...], did: str, mask: int) -> RowChange | None:
        """Return the present form of a row, or None if its columns are unchanged."""
        if did == _SET and not mask:
            return None
        names = dict(zip(self._keys[table], key, strict=True))
        every = wanted = COLUMNS[table]
        if did == _SET and table in _LARGE:
            wanted = tuple(name for number, name in enumerate(every) if mask >> number & 1)
        row = self._driver.execute(
            f"SELECT {', '.join(wanted)} FROM {table} WHERE {_where(names)}", (*names.values(),)
        ).fetchone()
        if row is None:
            return RowChange(table=table, did=_DROP, columns=names)
        columns = names | dict(zip(wanted, row, strict=True))
        return RowChange(table=table, did=_SET if len(wanted) < len(every) else _PUT, columns=columns)

    def read_all(self, owner: Owner) -> Iterator[RowChange]:
        """Yield every row of a journal, in an order in which `apply` can write them into an empty database."""
        tenant, scope = owner.tenant, owner.scope
        kind, _, name = scope.partition(":")
        if scope == AUDITS:
            yield from self._read("audits", "tenant = ?", tenant)
        elif kind == "world":
            for table in ("worlds", "packs"):
                yield from self._read(table, "tenant = ? AND world_id = ?", tenant, name)
        else:
            of_session = "(SELECT key FROM sessions WHERE tenant = ? AND session_id = ?)"
            yield from self._read("sessions", "tenant = ? AND session_id = ?", tenant, name)
            for table in _OF_A_SESSION:
                yield from self._read(table, f"session = {of_session}", tenant, name)
            turns = f"SELECT number FROM turns WHERE session = {of_session}"
            yield from self._read("papers", f"turn IN ({turns})", tenant, name)
        yield from self._read("entries", "tenant = ? AND scope = ?", tenant, scope)

    def _read(self, table: str, where: str, *values: object) -> Iterator[RowChange]:
        columns = dict.fromkeys((*self._keys[table], *COLUMNS[table]))
        order = ", ".join(self._keys[table]) if table in _WITHOUT_ROWID else "rowid"
        sql = f"SELECT {', '.join(columns)} FROM {table} WHERE {where} ORDER BY {order}"
        for row in self._driver.execute(sql, values):
            yield RowChange(table=table, did=_PUT, columns=dict(zip(columns, row, strict=True)))

    def apply(self, changes: Sequence[RowChange]) -> Iterator[tuple[RowChange, str]]:
        """Write changes that were read from a line. Yield (change, reason) for each that cannot be written."""
        for did in (_DROP, _SET, _PUT):
            for change in changes:
                if change.did == did and (reason := self._apply(change)):
                    yield change, reason

    def _apply(self, change: RowChange) -> str:
        keys = self._keys.get(change.table)
        if keys is None:
            return f"there is no table {change.table!r}"
        known = {name: value for name, value in change.columns.items() if name in COLUMNS[change.table] or name in keys}
        names = {name: known[name] for name in keys if name in known}
        if len(names) < len(keys):
            return f"it has no {' and '.join(set(keys) - set(names))}"
        where, rest = _where(names), {name: value for name, value in known.items() if name not in names}
        try:
            if change.did == _SET:
                cells = ", ".join(f"{name} = ?" for name in rest)
                done = self._driver.execute(
                    f"UPDATE {change.table} SET {cells} WHERE {where}", (*rest.values(), *names.values())
                )
                return "" if done.rowcount else "the row that it changed is missing"
            self._driver.execute(f"DELETE FROM {change.table} WHERE {where}", (*names.values(),))
            if change.did == _DROP and change.table == "turns":
                self._driver.execute("DELETE FROM papers WHERE turn = ?", (*names.values(),))
            if change.did == _PUT:
                signs = ", ".join("?" * len(known))
                self._driver.execute(
                    f"INSERT INTO {change.table} ({', '.join(known)}) VALUES ({signs})", (*known.values(),)
                )
        except sqlite3.IntegrityError as error:
            return str(error)
        return ""

    def has_session(self, owner: Owner) -> bool:
        """Return whether the session of a journal has a row. For a journal of a world or of audits, return True."""
        kind, _, name = owner.scope.partition(":")
        found = self._driver.execute("SELECT 1 FROM sessions WHERE tenant = ? AND session_id = ?", (owner.tenant, name))
        return kind != "session" or found.fetchone() is not None

    def clear(self) -> None:
        """Delete all rows of these tables."""
        for table in self._keys:
            self._driver.execute(f"DELETE FROM {table}")

    def numbers(self) -> dict[str, int]:
        """Return, by table, the last number that the table gave to a row."""
        return dict(self._driver.execute("SELECT name, seq FROM sqlite_sequence"))

    def count_on(self, numbers: Mapping[str, int]) -> None:
        """Continue the numbering of each table after `numbers`, so that no number is used again."""
        for table, last in numbers.items():
            done = self._driver.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?", (last, table))
            if not done.rowcount and table in self._keys:
                self._driver.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table, last))


def find_owner(changes: Sequence[RowChange]) -> Owner | None:
    """Return the journal to which the rows `changes` belong. Return None if no row shows it."""
    for change in changes:
        tenant, columns = change.columns.get("tenant"), change.columns
        if not isinstance(tenant, str):
            continue
        if change.table == "sessions" and "session_id" in columns:
            return Owner(tenant=tenant, scope=session_scope(str(columns["session_id"])))
        if change.table in ("worlds", "packs") and "world_id" in columns:
            return Owner(tenant=tenant, scope=world_scope(str(columns["world_id"])))
        if change.table == "entries" and "scope" in columns:
            return Owner(tenant=tenant, scope=str(columns["scope"]))
        if change.table == "audits":
            return Owner(tenant=tenant, scope=AUDITS)
    return None


def _owner_of(table: str, row: str) -> str:
    """Return SQL for the journal of a row: its tenant and scope as text, or the number of its session."""
    if table in _OF_A_SESSION:
        return f"{row}.session"
    if table == "papers":
        return _SESSION_OF_TURN.format(row=row)
    scopes = {
        "sessions": f"'session:' || {row}.session_id",
        "entries": f"{row}.scope",
        "worlds": f"'world:' || {row}.world_id",
        "packs": f"'world:' || {row}.world_id",
        "audits": f"'{AUDITS}'",
    }
    return f"{row}.tenant || char(31) || {scopes[table]}"


def _owner(text: str) -> Owner:
    tenant, _, scope = text.partition(_BREAK)
    return Owner(tenant=tenant, scope=scope)


def _where(names: Mapping[str, object]) -> str:
    return " AND ".join(f"{name} = ?" for name in names)

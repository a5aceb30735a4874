"""Finds sessions and branches of a SQL store, with their numbers and heads. The head of a branch is its newest committed turn.

Every function that works on a session first calls `load_session`. In a write transaction this locks the session. So the
rest of the transaction sees everything that was committed before, and its sequence numbers follow the order of commits.
Each function runs inside a transaction that its caller has opened; none of them writes.
"""

from __future__ import annotations

from collections.abc import Sequence

from mnemosyne.core.errors import BranchNotFoundError, SessionNotFoundError, TurnNotFoundError, VersionConflictError
from mnemosyne.protocols.upkeep import SessionLimit
from mnemosyne.schema.memory import session_scope
from mnemosyne.schema.session import BranchSpan, SessionHead
from mnemosyne.stores.sql.connection import Connection, expand_in
from mnemosyne.values import dataclass

_AT_ONCE = 512

_PATH = """WITH RECURSIVE path (branch_id, upto, parent, next_upto, tip, place) AS (
        SELECT branch_id, coalesce(?, head_depth), parent_branch, fork_depth, head_turn, 0 FROM branches
            WHERE session = ? AND branch_id = ?
        UNION ALL
        SELECT b.branch_id, path.next_upto, b.parent_branch, b.fork_depth, b.head_turn, path.place + 1
            FROM path JOIN branches AS b ON b.session = ? AND b.branch_id = path.parent)
    SELECT branch_id, upto, tip FROM path ORDER BY path.place"""

_HERE = """WITH RECURSIVE here (key, world_id, active_branch, version) AS (
        SELECT key, world_id, active_branch, version FROM sessions WHERE tenant = ? AND session_id = ?),
    path (session, branch_id, upto, parent, next_upto, tip, place) AS (
        SELECT b.session, b.branch_id, b.head_depth, b.parent_branch, b.fork_depth, b.head_turn, 0
            FROM here JOIN branches AS b ON b.session = here.key AND b.branch_id = coalesce(?, here.active_branch)
        UNION ALL
        SELECT b.session, b.branch_id, path.next_upto, b.parent_branch, b.fork_depth, b.head_turn, path.place + 1
            FROM path JOIN branches AS b ON b.session = path.session AND b.branch_id = path.parent)
    SELECT here.key, here.world_id, here.active_branch, here.version, path.branch_id, path.upto, path.tip
        FROM here LEFT JOIN path ON path.session = here.key ORDER BY path.place"""


class SessionArchivedError(Exception):
    """A transaction needs sessions that are archived (`session_ids`). The store opens them and runs the transaction again."""

    def __init__(self, session_ids: Sequence[str]) -> None:
        self.session_ids = tuple(session_ids)
        super().__init__(", ".join(self.session_ids))


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredSession:
    """A row of `sessions`. `key` is the session's number in all other tables."""

    key: int
    session_id: str
    world_id: str
    active_branch: str
    version: int

    @property
    def scope(self) -> str:
        """Scope of the session's memory entries."""
        return session_scope(self.session_id)

    @property
    def mark(self) -> tuple[int, int]:
        """Number and version of the session. Almost every write raises the version."""
        return self.key, self.version


def find_session(connection: Connection, session_id: str) -> StoredSession | None:
    """Return a session, or None if it does not exist. In a write transaction the session is locked until the transaction ends.

    Raises SessionArchivedError if the session is archived.
    """
    row = connection.execute(
        "SELECT key, world_id, active_branch, version FROM sessions WHERE tenant = ? AND session_id = ?"
        + connection.lock,
        (connection.tenant, session_id),
    ).fetchone()
    if row is None:
        return None
    if not row[2]:
        raise SessionArchivedError((session_id,))
    return StoredSession(key=row[0], session_id=session_id, world_id=row[1], active_branch=row[2], version=row[3])


def load_session(connection: Connection, session_id: str, expected_version: int | None = None) -> StoredSession:
    """Return a session, and lock it like `find_session`.

    Raises SessionNotFoundError if there is no session, SessionArchivedError if it is archived, and VersionConflictError
    if it has another version than `expected_version`.
    """
    session = find_session(connection, session_id)
    if session is None:
        raise SessionNotFoundError(session_id)
    if expected_version is not None and session.version != expected_version:
        raise VersionConflictError(session_id, expected_version, session.version)
    return session


def read_sessions(connection: Connection) -> tuple[str, ...]:
    """Return all session ids, sorted."""
    rows = connection.execute(
        "SELECT session_id FROM sessions WHERE tenant = ? ORDER BY session_id", (connection.tenant,)
    )
    return tuple(name for (name,) in rows)


def read_sessions_by_time(connection: Connection) -> tuple[str, ...]:
    """Return all session ids, the session with the newest turn at the end of its active branch first."""
    rows = connection.execute(
        """SELECT s.session_id FROM sessions AS s
            LEFT JOIN branches AS b ON b.session = s.key AND b.branch_id = s.active_branch
            LEFT JOIN turns AS t ON t.session = s.key AND t.turn_id = b.head_turn
            WHERE s.tenant = ? ORDER BY coalesce(t.number, 0) DESC, s.key DESC""",
        (connection.tenant,),
    )
    return tuple(name for (name,) in rows)


def head_of(connection: Connection, session: StoredSession, branch_id: str | None = None) -> SessionHead:
    """Return the head of a branch (None: the active one). Raises BranchNotFoundError if there is no such branch."""
    branch_id = session.active_branch if branch_id is None else branch_id
    return _head(session, branch_id, _spans(connection, session.key, branch_id, None))


def _head(session: StoredSession, branch_id: str, spans: Sequence[tuple[str, int, str | None]]) -> SessionHead:
    if not spans:
        raise BranchNotFoundError(session.session_id, branch_id)
    return SessionHead(
        session_id=session.session_id,
        world_id=session.world_id,
        branch_id=branch_id,
        turn_id=spans[0][2],
        depth=spans[0][1],
        lineage=tuple(BranchSpan(branch_id=branch, upto_depth=upto) for branch, upto, _ in spans),
        version=session.version,
    )


def load_head(
    connection: Connection, session_id: str, branch_id: str | None = None
) -> tuple[StoredSession, SessionHead]:
    """Return (session, head of the branch) by one query, without a lock. If `branch_id` is None, the active branch is meant.

    Use this only for reads, because a writer must lock the session first. Raises SessionNotFoundError or
    BranchNotFoundError if there is no such session or branch, and SessionArchivedError if the session is archived.
    """
    rows = connection.execute(_HERE, (connection.tenant, session_id, branch_id)).fetchall()
    if not rows:
        raise SessionNotFoundError(session_id)
    key, world_id, active_branch, version = rows[0][:4]
    if not active_branch:
        raise SessionArchivedError((session_id,))
    session = StoredSession(
        key=key, session_id=session_id, world_id=world_id, active_branch=active_branch, version=version
    )
    spans = [row[4:] for row in rows if row[4] is not None]
    return session, _head(session, active_branch if branch_id is None else branch_id, spans)


def read_head(connection: Connection, session_id: str, branch_id: str | None = None) -> SessionHead:
    """Return the head of a branch (None: the active one).

    Raises SessionNotFoundError or BranchNotFoundError if there is no such session or branch.
    """
    return load_head(connection, session_id, branch_id)[1]


def read_lineage(connection: Connection, key: int, branch_id: str, depth: int) -> tuple[BranchSpan, ...]:
    """Return the path to the turn at `depth` on a branch, as spans (branch, depth up to which its turns belong to the path),
    newest branch first.
    """
    spans = _spans(connection, key, branch_id, depth)
    return tuple(BranchSpan(branch_id=branch, upto_depth=upto) for branch, upto, _ in spans)


def _spans(connection: Connection, key: int, branch_id: str, depth: int | None) -> list[tuple[str, int, str | None]]:
    return connection.execute(_PATH, (depth, key, branch_id, key)).fetchall()


def read_branches(connection: Connection, session_id: str) -> tuple[SessionHead, ...]:
    """Return the head of every branch: first the active branch, then the others in the order in which they were opened."""
    session = load_session(connection, session_id)
    names = connection.execute(
        "SELECT branch_id FROM branches WHERE session = ? AND branch_id <> ? ORDER BY ordinal",
        (session.key, session.active_branch),
    ).fetchall()
    return tuple(head_of(connection, session, name) for name in (session.active_branch, *(row[0] for row in names)))


def read_committed(connection: Connection, session_id: str, turn_ids: Sequence[str]) -> frozenset[str]:
    """Return the ids in `turn_ids` of committed turns. Raises SessionNotFoundError if there is no session."""
    key, found = load_head(connection, session_id)[0].key, set[str]()
    for start in range(0, len(turn_ids), _AT_ONCE):
        signs, values = expand_in(turn_ids[start : start + _AT_ONCE])
        rows = connection.execute(
            f"SELECT turn_id FROM turns WHERE session = ? AND status = 'committed' AND turn_id IN ({signs})",
            (key, *values),
        )
        found.update(turn_id for (turn_id,) in rows)
    return frozenset(found)


def has_branch(connection: Connection, key: int, branch_id: str) -> bool:
    """Return whether a session has this branch."""
    row = connection.execute("SELECT 1 FROM branches WHERE session = ? AND branch_id = ?", (key, branch_id)).fetchone()
    return row is not None


def committed_place(connection: Connection, session: StoredSession, turn_id: str) -> tuple[str, int]:
    """Return (branch, depth) of a committed turn. Raises TurnNotFoundError if there is no such turn, or it is not
    committed.
    """
    row = connection.execute(
        "SELECT branch_id, depth FROM turns WHERE session = ? AND turn_id = ? AND status = 'committed'",
        (session.key, turn_id),
    ).fetchone()
    if row is None:
        raise TurnNotFoundError(session.session_id, turn_id)
    return row[0], row[1]


def count_up_to(connection: Connection, what: str, most: int) -> int:
    """Count the tenant's rows of the table `what` (`sessions` or `entries`), and stop at `most`."""
    sql = f"SELECT count(*) FROM (SELECT 1 AS one FROM {what} WHERE tenant = ? LIMIT ?) AS counted"
    return int(connection.execute(sql, (connection.tenant, most)).fetchone()[0])


def check_session_limit(connection: Connection, limit: SessionLimit) -> None:
    """Raise the error of `limit` if the tenant has more sessions than allowed, including the session of this transaction."""
    if connection.lock:
        # Those who create sessions wait here for one another, so that each counts what the others have written.
        connection.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended('sessions ' || current_schema() || ?, 0))",
            (connection.tenant,),
        )
    if count_up_to(connection, "sessions", limit.most + 1) > limit.most:
        raise limit.refuse()

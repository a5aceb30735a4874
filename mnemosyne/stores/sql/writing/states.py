"""Writes the state at the head of a branch, and snapshots from which past states are rebuilt.

Each function runs inside a write transaction that its caller has opened, with the session loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mnemosyne.chains.json_patch import replay_ops
from mnemosyne.chains.turn_tree import SNAPSHOT_EVERY
from mnemosyne.core.codec import encode_tree
from mnemosyne.core.errors import StateOpError
from mnemosyne.schema.record import TurnRecord
from mnemosyne.stores.sql.blobs import REBUILT, bare, read_body, seal, snapshot_place, state_place
from mnemosyne.stores.sql.connection import Connection
from mnemosyne.stores.sql.reading.turns import rebuild_state
from mnemosyne.stores.sql.sessions import StoredSession


def write_state(
    connection: Connection, session: StoredSession, record: TurnRecord, state: Mapping[str, Any] | None
) -> None:
    """Update the stored state at the head after the turn `record`. `state` is the new state. If None, the turn's ops (changes)
    are applied to the former state.

    A snapshot is written after every fifty changes, and if the turn's ops do not lead to `state`.
    """
    key, here = session.key, (session.key, record.branch_id)
    stored, changes = connection.execute(
        """SELECT s.state, b.changes FROM branches AS b LEFT JOIN branch_states AS s USING (session, branch_id)
            WHERE b.session = ? AND b.branch_id = ?""",
        here,
    ).fetchone()
    tree = read_body(connection, stored, dict, state_place(key, record.branch_id), REBUILT)
    before = b"" if tree is None else bare(stored)
    if tree is None:
        tree = rebuild_state(connection, session, record.parent_id)[0]
    try:
        replayed = encode_tree(replay_ops(tree, record.ops)) if record.ops else before
    except StateOpError:
        if state is None:
            raise
        replayed = b""
    after = replayed if state is None else encode_tree(state)
    if after == replayed == before:
        return
    changes = 0 if after != replayed or changes + 1 >= SNAPSHOT_EVERY else changes + 1
    if changes == 0:
        connection.post(
            "INSERT INTO snapshots (session, branch_id, depth, state) VALUES (?, ?, ?, ?)",
            (*here, record.depth, seal(after, snapshot_place(key, record.branch_id, record.depth))),
        )
    connection.post(
        """INSERT INTO branch_states (session, branch_id, state) VALUES (?, ?, ?)
            ON CONFLICT (session, branch_id) DO UPDATE SET state = excluded.state""",
        (*here, seal(after, state_place(key, record.branch_id))),
    )
    connection.post("UPDATE branches SET changes = ? WHERE session = ? AND branch_id = ?", (changes, *here))


def replace_states(connection: Connection, key: int, state: bytes) -> None:
    """Replace every stored state of a session by `state`."""
    rows = connection.execute("SELECT branch_id, depth FROM snapshots WHERE session = ?", (key,)).fetchall()
    for branch_id, depth in rows:
        connection.post(
            "UPDATE snapshots SET state = ? WHERE session = ? AND branch_id = ? AND depth = ?",
            (seal(state, snapshot_place(key, branch_id, depth)), key, branch_id, depth),
        )
    for (branch_id,) in connection.execute("SELECT branch_id FROM branches WHERE session = ?", (key,)).fetchall():
        connection.post(
            "UPDATE branch_states SET state = ? WHERE session = ? AND branch_id = ?",
            (seal(state, state_place(key, branch_id)), key, branch_id),
        )

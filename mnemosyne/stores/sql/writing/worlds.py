"""Stores worlds in a SQL store: the current version of each world, its lore as entries, and its pack as one compressed value.

A pack contains everything that an author wrote for a world.

Lore and pack are written in one transaction, so both always belong to the same version. This matters because the lore in
the tables decides which texts are hidden, while the texts are rendered from the pack. Each function runs inside a
transaction that its caller has opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mnemosyne.chains.turn_tree import lore_by_id
from mnemosyne.core.codec import encode
from mnemosyne.core.errors import UnreadableError
from mnemosyne.schema.memory import MemoryEntry, world_scope
from mnemosyne.stores.sql.blobs import (
    bare,
    entry_place,
    load_body,
    pack_blob,
    pack_place,
    read_body,
    seal,
    unpack_blob,
)
from mnemosyne.stores.sql.connection import Connection
from mnemosyne.stores.sql.reading.entries import lost_entry
from mnemosyne.stores.sql.writing.entries import replace_entry


def replace_world(
    connection: Connection,
    world_id: str,
    digest: str,
    lore: Sequence[MemoryEntry],
    pack: Mapping[str, Any] | None,
) -> int:
    """Make the version `digest` of a world the current one, and return the number of changed lore entries.

    The result is 0 if the version is the current one already.
    """
    here = (connection.tenant, world_id)
    place = pack_place(world_id, digest)
    body = None if pack is None else pack_blob(seal(encode(pack), place))
    connection.post(
        "INSERT INTO worlds (tenant, world_id, digest) VALUES (?, ?, '') ON CONFLICT (tenant, world_id) DO NOTHING",
        here,
    )
    known = connection.execute(
        "SELECT digest FROM worlds WHERE tenant = ? AND world_id = ?" + connection.lock, here
    ).fetchone()
    if known[0] == digest and digest and (body is None or _same_pack(connection, world_id, digest, body)):
        return 0
    changes = _replace_lore(connection, world_id, lore)
    connection.post("DELETE FROM packs WHERE tenant = ? AND world_id = ?", here)
    if body is not None:
        connection.insert("packs", "tenant, world_id, digest, body", [(*here, digest, body)])
    connection.post("UPDATE worlds SET digest = ? WHERE tenant = ? AND world_id = ?", (digest, *here))
    return changes


def _replace_lore(connection: Connection, world_id: str, lore: Sequence[MemoryEntry]) -> int:
    """Write new and changed entries, mark removed ones; return their number."""
    scope, wanted = world_scope(world_id), lore_by_id(world_id, lore)
    changes = 0
    rows = connection.execute(
        "SELECT seq, entry_id, deleted, body, chain, restricted FROM entries WHERE tenant = ? AND scope = ?",
        (connection.tenant, scope),
    ).fetchall()
    for seq, entry_id, deleted, body, chain, restricted in rows:
        place = entry_place(entry_id, scope, chain, restricted, deleted)
        stored = read_body(connection, body, MemoryEntry, place, "It was written again, or removed")
        given = wanted.pop(entry_id, None)
        if stored is not None and ((given is None and deleted) or (given == stored and not deleted)):
            continue
        replace_entry(connection, given or stored or lost_entry(scope, chain, entry_id), seq, deleted=given is None)
        changes += 1
    for entry in wanted.values():
        replace_entry(connection, entry, None)
    return changes + len(wanted)


def read_worlds(connection: Connection) -> dict[str, str]:
    """Return the digest of the current version of every world, by world id, sorted."""
    rows = connection.execute(
        "SELECT world_id, digest FROM worlds WHERE tenant = ? ORDER BY world_id", (connection.tenant,)
    )
    return dict(rows)


def read_digest(connection: Connection, world_id: str) -> str | None:
    """Return the digest of the current version of a world, or None if there is no such world."""
    row = connection.execute(
        "SELECT digest FROM worlds WHERE tenant = ? AND world_id = ?", (connection.tenant, world_id)
    ).fetchone()
    return None if row is None else str(row[0])


def read_pack(connection: Connection, world_id: str, digest: str) -> dict[str, Any] | None:
    """Return the stored pack of the version `digest` of a world, or None if it is not stored.

    Raises DamagedRecordError if the pack cannot be read.
    """
    body = _body(connection, world_id, digest)
    return None if body is None else load_body(connection, body, dict, pack_place(world_id, digest))


def _same_pack(connection: Connection, world_id: str, digest: str, body: bytes) -> bool:
    stored = _body(connection, world_id, digest)
    try:
        return stored is not None and bare(unpack_blob(stored)) == bare(unpack_blob(body))
    except UnreadableError:
        return False


def _body(connection: Connection, world_id: str, digest: str) -> bytes | None:
    row = connection.execute(
        "SELECT body FROM packs WHERE tenant = ? AND world_id = ? AND digest = ?",
        (connection.tenant, world_id, digest),
    ).fetchone()
    return None if row is None else bytes(row[0])

"""Encodes and decodes the bodies of a SQL store: JSON with a checksum, compressed if it is large.

The checksum is a CRC-32 of the body and of its place (table, column, session, key and the rest of the row's identity). So a
changed bit is noticed, and also a body that was copied to another row. The checksum is written as sixteen blank characters
after the JSON. A body therefore stays JSON for every reader of the database, and a body of an older release, which has no
checksum, is read unchanged.

The large parts of a turn are compressed: its prompt, its report and its receipt (why each block is in the prompt). They are
about 160 KB of repetitive JSON per turn, and a sixth of that when compressed. JSON never begins like a compressed body.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from mnemosyne.core.codec import JsonTree, decode, encode
from mnemosyne.core.errors import DamagedRecordError, UnreadableError
from mnemosyne.damage import LEFT_OUT, DamageNote, LostTree
from mnemosyne.schema.memory import session_scope, world_scope
from mnemosyne.stores.sql.connection import Connection

T = TypeVar("T")

REBUILT = "The state was rebuilt from its snapshots and changes"

_LEVEL = 3
_LEAST_BYTES = 256
_PACKED = b"x"
_BLANKS = b" \t\n\r"
_BLANK_ENDS = frozenset((b" ", b"\t", b"\n", b"\r"))
_SIGNS = tuple(bytes(_BLANKS[byte >> shift & 3] for shift in (6, 4, 2, 0)) for byte in range(256))
_SUM_BYTES = 16
_DIGITS = bytes.maketrans(_BLANKS, b"0123")
_JSON_STARTS = frozenset(bytes((byte,)) for byte in b'{["-0123456789tfn')
_BREAK = "\x1f"


def place_of(table: str, column: str, owner: object, *names: object) -> str:
    """Return the place of a body, for its checksum.

    `owner` is the number of the session, or the scope of a world. `names` identify the row, beginning with the name that is
    shown to people. Some functions below build the places of certain tables without this function, because a turn needs
    hundreds of them.
    """
    return _BREAK.join((table, column, str(owner), *map(str, names)))


def message_place(key: int, turn_id: str, order: int, branch_id: str, depth: int) -> str:
    """Return the place of a message's body."""
    return f"messages\x1fbody\x1f{key}\x1f{turn_id}\x1f{order}\x1f{branch_id}\x1f{depth}"


def summary_place(key: int, turn_id: str, branch_id: str, depth: int) -> str:
    """Return the place of a summary's body."""
    return place_of("summaries", "body", key, turn_id, branch_id, depth)


def snapshot_place(key: int, branch_id: str, depth: int) -> str:
    """Return the place of a snapshot's state."""
    return place_of("snapshots", "state", key, branch_id, depth)


def state_place(key: int, branch_id: str) -> str:
    """Return the place of a branch's head state."""
    return place_of("branch_states", "state", key, branch_id)


def blob_place(column: str, key: int, turn_id: str) -> str:
    """Return the place of a large part of a turn. `column` is `receipt`, `prompt` or `report`."""
    return place_of("papers", column, key, turn_id)


def turn_place(column: str, key: int, row: Sequence[Any]) -> str:
    """Return the place of a body in the row of a turn.

    `row` begins with `turn_id, branch_id, depth, parent_id, kind, status, fingerprint, created_at`. All of these are
    part of the place except the status, which changes.
    """
    turn_id, branch_id, depth, parent_id, kind, _, fingerprint, at = row[:8]
    return place_of("turns", column, key, turn_id, branch_id, depth, parent_id, kind, fingerprint, at)


def part_place(key: int, name: str, kind: str) -> str:
    """Return the place of an item in one of a session's lists (block, task, tool call, model call)."""
    return f"parts\x1fbody\x1f{key}\x1f{name}\x1f{kind}"


def prefetch_place(key: int, branch_id: str) -> str:
    """Return the place of a branch's prefetch: a selection of memories that came too late for its turn."""
    return place_of("prefetches", "body", key, branch_id)


def chunk_place(key: int, reply: int, index: int) -> str:
    """Return the place of a chunk of a reply."""
    return place_of("reply_chunks", "body", key, reply, index)


def evidence_place(key: int, evidence_id: str) -> str:
    """Return the place of the body of an evidence item."""
    return f"evidences\x1fbody\x1f{key}\x1f{evidence_id}"


def entry_place(entry_id: str, scope: str, chain: str, restricted: int, deleted: int) -> str:
    """Return the place of an entry's body. The place also states whether the entry is restricted and whether it is deleted."""
    return f"entries\x1fbody\x1f{scope}\x1f{entry_id}\x1f{chain}\x1f{int(restricted)}\x1f{int(deleted)}"


def frame_place(key: int) -> str:
    """Return the place of the frame of a session's document: the fields of the document that no other table contains."""
    return place_of("documents", "frame", key)


def pack_place(world_id: str, digest: str) -> str:
    """Return the place of a pack's body."""
    return place_of("packs", "body", world_scope(world_id), world_id, digest)


PLACED_BY: Mapping[str, tuple[str, ...]] = {
    "documents": (),
    "branch_states": ("branch_id",),
    "snapshots": ("branch_id", "depth"),
    "turns": ("turn_id", "branch_id", "depth", "parent_id", "kind", "status", "fingerprint", "created_at"),
    "prefetches": ("branch_id",),
    "reply_chunks": ("reply", "ord"),
    "summaries": ("turn_id", "branch_id", "depth"),
    "evidences": ("evidence_id",),
    "parts": ("part_id", "kind"),
}
"""For each table of a session, the columns that `place_of_row` needs. Messages, entries and papers have functions of
their own.
"""

_ROW_PLACES: Mapping[str, Callable[..., str]] = {
    "documents": frame_place,
    "branch_states": state_place,
    "snapshots": snapshot_place,
    "prefetches": prefetch_place,
    "reply_chunks": chunk_place,
    "summaries": summary_place,
    "evidences": evidence_place,
    "parts": part_place,
}


def place_of_row(table: str, column: str, key: int, row: Sequence[Any]) -> str:
    """Return the place of a body in a row. `row` contains the columns that `PLACED_BY` lists for the table."""
    return turn_place(column, key, row) if table == "turns" else _ROW_PLACES[table](key, *row)


def seal(body: bytes, place: str) -> bytes:
    """Return the body followed by its checksum for `place`."""
    return body + _sum(body, place)


def unseal(data: bytes, place: str) -> bytes:
    """Return the body without its checksum. A body that has no checksum is returned unchanged.

    Raises UnreadableError if the checksum does not fit the body and its place.
    """
    if data[-1:] not in _BLANK_ENDS:
        return data
    body = data[:-_SUM_BYTES]
    if data[-_SUM_BYTES:] != _sum(body, place):
        raise UnreadableError("its checksum does not fit: the row was changed, or belongs elsewhere", data)
    return body


def reseal(body: bytes, former: bytes, place: str) -> bytes:
    """Return a changed body with its checksum. `former` is the stored body that it replaces.

    If `former` was damaged, the new checksum does not fit on purpose, so that the damage stays visible.
    """
    try:
        unseal(former, place)
    except UnreadableError:
        return seal(body, place + _BREAK)
    return seal(body, place)


def bare(data: bytes) -> bytes:
    """Return a body without its checksum, for comparisons. The checksum is not verified."""
    return data[:-_SUM_BYTES] if data[-1:] in _BLANK_ENDS else data


def _sum(body: bytes, place: str) -> bytes:
    return _write_sum(zlib.crc32(body, zlib.crc32(place.encode("utf-8", "surrogatepass"))))


def _write_sum(number: int) -> bytes:
    return _SIGNS[number >> 24] + _SIGNS[number >> 16 & 255] + _SIGNS[number >> 8 & 255] + _SIGNS[number & 255]


def split_body(data: bytes) -> tuple[bytes | None, str]:
    """Return (JSON, form) of the stored body `data`. `join_body` makes the same bytes from this pair again.

    The form is the checksum as text; if the body is compressed, the form begins with `packed `. Return (None, '') if the body is
    not JSON in one line.
    """
    form, body = "", data
    if data[:1] == _PACKED:
        try:
            form, body = "packed ", zlib.decompress(data)
        except zlib.error:
            return None, ""
    if body[-1:] in _BLANK_ENDS:
        form += str(int(body[-_SUM_BYTES:].translate(_DIGITS), len(_BLANKS)))
        body = body[:-_SUM_BYTES]
    return (body, form) if body[:1] in _JSON_STARTS and b"\n" not in body else (None, "")


def join_body(body: bytes, form: str) -> bytes:
    """Return a body in its stored form, from the result of `split_body`. Raises ValueError if `form` is unknown."""
    number = form.removeprefix("packed ")
    data = body + _write_sum(int(number)) if number else body
    return pack_blob(data) if number != form else data


def pack_blob(body: bytes) -> bytes:
    """Return the JSON compressed, or unchanged if it is short or would not become smaller."""
    if len(body) < _LEAST_BYTES:
        return body
    small = zlib.compress(body, _LEVEL)
    return small if len(small) < len(body) else body


def pack_body(value: Any, place: str) -> bytes:
    """Return the stored form of `value`: JSON with a checksum, compressed if it is large."""
    return pack_blob(seal(encode(value), place))


def keep_blob(connection: Connection, value: Any, place: str) -> bytes:
    """Return the stored form of a large part of a turn, and cache its value, because the next turn reads it."""
    body = encode(value)
    data = pack_blob(seal(body, place))
    connection.bodies.keep(place, data, len(body), JsonTree(body))
    return data


def unpack_blob(data: Any) -> bytes:
    """Return the JSON of a stored body, compressed or not. Raises UnreadableError if the bytes are neither."""
    if not isinstance(data, bytes | memoryview):
        raise UnreadableError(f"it is {type(data).__name__}, not bytes")
    try:
        return zlib.decompress(data) if bytes(data[:1]) == _PACKED else bytes(data)
    except zlib.error as error:
        raise UnreadableError(f"These bytes are not a compressed blob: {error}.", bytes(data)) from None


def change_blob(data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Return the stored body after `change` was applied to its JSON. If `change` returns its argument, return `data`."""
    body = unpack_blob(data)
    done = change(body)
    return data if done is body else pack_blob(done)


def load_body(connection: Connection, data: Any, kind: type[T], place: str, *, keep: bool = True) -> T:
    """Return the value of the stored body `data`, compressed or not. If `keep`, the value is cached.

    `place` is the place of the body, and `kind` the type of the value. Raises DamagedRecordError if the body cannot be read.
    """
    known = connection.bodies.find(place, data)
    if known is not None:
        return cast(T, known)
    try:
        body = unseal(unpack_blob(data) if type(data) is not bytes or data[:1] == _PACKED else data, place)
        value = decode(body, kind)
    except UnreadableError as error:
        raise DamagedRecordError(connection.shown, _name_of(connection, place)[1], str(error)) from None
    if keep:
        connection.bodies.keep(place, data, len(body), value)
    return value


def read_body(
    connection: Connection, data: Any, kind: type[T], place: str, effect: str = LEFT_OUT, *, keep: bool = True
) -> T | None:
    """Return the value of a stored body, or None if it cannot be read.

    In that case the damage is noted, with `effect` as its consequence. `keep` has the same meaning as for `load_body`.
    """
    try:
        return load_body(connection, data, kind, place, keep=keep)
    except DamagedRecordError as error:
        note_damage(connection, error, place, effect)
        return None


def read_tree(connection: Connection, data: bytes | None, place: str) -> Any:
    """Return a part of a turn's record, or None if `data` is None.

    If the part cannot be read, return a `LostTree` (a placeholder that raises when it is read) and note the damage.
    """
    if data is None:
        return None
    try:
        return load_body(connection, data, dict, place)
    except DamagedRecordError as error:
        note_damage(connection, error, place, "It was passed by")
        return LostTree(error)


def read_blob(connection: Connection, data: bytes | None, place: str) -> Any:
    """Return a large part of a turn's record, or None if `data` is None. The fields of the result are decoded when they are
    first read.

    If the part cannot be read, return a `LostTree` and note the damage.
    """
    if data is None or type(data) is not bytes:
        return read_tree(connection, data, place)
    known = connection.bodies.find(place, data)
    if known is not None:
        return known
    try:
        sealed = unpack_blob(data)
        body = unseal(sealed, place)
    except UnreadableError:
        return read_tree(connection, data, place)
    if len(body) == len(sealed):
        # Without a checksum nothing but decoding it tells whether it is sound.
        return read_tree(connection, data, place)
    tree = JsonTree(body)
    connection.bodies.keep(place, data, len(body), tree)
    return tree


def note_damage(connection: Connection, error: DamagedRecordError, place: str, effect: str = LEFT_OUT) -> None:
    """Note in the store's log that the record at `place` was skipped, with the consequence `effect`."""
    scope, what = _name_of(connection, place)
    connection.log.add(DamageNote(scope=scope, what=what, reason=error.reason, path=connection.shown, effect=effect))


def _name_of(connection: Connection, place: str) -> tuple[str, str]:
    """Return the scope of a body and its name for a person."""
    table, column, owner, *names = place.split(_BREAK)
    key = f"/{names[0]}" if names and names[0] else ""
    if not owner.isdigit():
        return owner, f"The {column} of {table}{key}" + (f" of {owner}" if owner else "")
    row = connection.execute("SELECT session_id FROM sessions WHERE key = ?", (int(owner),)).fetchone()
    session_id = owner if row is None else str(row[0])
    return session_scope(session_id), f"The {column} of {table}{key} of session {session_id!r}"

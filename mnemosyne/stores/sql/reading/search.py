"""Searches everything that is stored, and reads the records of erasures.

The search proves an erasure. It covers every column that can contain text (`sql.schema` lists them), in the form in
which JSON writes it; compressed columns are decompressed. Each function runs inside a transaction; none of them writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from mnemosyne.core.codec import decode, encode, parse_time
from mnemosyne.core.plain_values import text_fault
from mnemosyne.privacy.scrub import occurs_in, occurs_in_tree, spellings
from mnemosyne.schema.erasure import PACK_PLACE, AuditRecord
from mnemosyne.schema.memory import world_scope
from mnemosyne.stores.sql.blobs import place_of, read_body, unpack_blob
from mnemosyne.stores.sql.connection import Connection
from mnemosyne.stores.sql.schema import OF_A_SESSION, OF_A_TENANT, OF_A_TURN, OF_A_WORLD, TextTable

_AT_ONCE = 16


def read_audits(connection: Connection) -> tuple[AuditRecord, ...]:
    """Return the audit records, oldest first."""
    rows = connection.execute(
        "SELECT audit_id, erased_at, kind, subject_hash, reason, counts FROM audits WHERE tenant = ? ORDER BY number",
        (connection.tenant,),
    ).fetchall()
    return tuple(
        AuditRecord(
            audit_id=audit_id,
            at=parse_time(at),
            kind=kind,
            subject_hash=subject_hash,
            reason=reason,
            counts=_read_counts(connection, audit_id, counts),
        )
        for audit_id, at, kind, subject_hash, reason, counts in rows
    )


def _read_counts(connection: Connection, audit_id: str, body: bytes) -> dict[str, int]:
    return read_body(connection, body, dict[str, int], place_of("audits", "counts", "", audit_id)) or {}


def find_text(connection: Connection, texts: Sequence[str]) -> tuple[str, ...]:
    """Return the places (`table/session/key`, sorted) that contain any of these texts."""
    return tuple(sorted({place for place, _ in _find_occurrences(connection, texts)}))


def find_remaining(connection: Connection, texts: Sequence[str]) -> frozenset[str]:
    """Return those of the texts that occur anywhere."""
    return frozenset(text for _, text in _find_occurrences(connection, texts))


def find_in_packs(connection: Connection, texts: Sequence[str]) -> frozenset[str]:
    """Return those of the texts that a world pack contains."""
    sought = [text for text in dict.fromkeys(texts) if text.strip()]
    return frozenset(text for _, text in _in_packs(connection, sought)) if sought else frozenset()


def _find_occurrences(connection: Connection, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    sought = [text for text in dict.fromkeys(texts) if text.strip()]
    for start in range(0, len(sought), _AT_ONCE):
        some = sought[start : start + _AT_ONCE]
        for kept, source in _sources():
            yield from _in_table(connection, kept, source, some)
        yield from _find_in_blobs(connection, some)
        yield from _in_packs(connection, some)


def _sources() -> Iterator[tuple[TextTable, str]]:
    """Yield each table with the SELECT of session and key to which its columns are added."""
    for kept in OF_A_SESSION:
        yield kept, f"s.session_id, {_key(kept)} FROM {kept.table} AS t JOIN sessions AS s ON s.key = t.session"
    for kept in OF_A_TENANT:
        yield kept, f"'', {_key(kept)} FROM {kept.table} AS s"


def _key(kept: TextTable) -> str:
    return kept.key if kept.key.startswith("'") else f"{_alias(kept)}.{kept.key}"


def _alias(kept: TextTable) -> str:
    return "s" if kept in OF_A_TENANT else "t"


def _in_table(connection: Connection, kept: TextTable, source: str, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    alias = _alias(kept)
    tests: list[str] = []
    values: list[Any] = [connection.tenant]
    for column in kept.words:
        for text in texts:
            if "\0" not in text and text_fault(text) is None:
                tests.append(connection.contains(f"{alias}.{column}"))
                values.append(text)
    for column in kept.bodies:
        for needle in dict.fromkeys(form for text in texts for form in _json_forms(text)):
            tests.append(connection.contains(f"{alias}.{column}"))
            values.append(needle)
    if not tests:
        return
    columns = "".join(f"{alias}.{column}, " for column in (*kept.words, *kept.bodies))
    rows = connection.execute(f"SELECT {columns}{source} WHERE s.tenant = ? AND ({' OR '.join(tests)})", values)
    for row in rows:
        *cells, session_id, key = row
        place = "/".join(part for part in (kept.table, session_id, key) if part)
        words = [word for word in cells[: len(kept.words)] if word is not None]
        trees = [decode(body, object) for body in cells[len(kept.words) :] if body is not None]
        for text in texts:
            if any(occurs_in(text, word) for word in words) or occurs_in_tree((text,), trees):
                yield place, text


def _find_in_blobs(connection: Connection, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Search the blobs of turns, which a database cannot search because they are compressed."""
    needles = tuple(dict.fromkeys(form for text in texts for form in _json_forms(text)))
    columns = ", ".join(f"t.{column}" for column in OF_A_TURN.bodies)
    rows = connection.execute(
        f"SELECT {columns}, s.session_id, u.turn_id FROM papers AS t JOIN turns AS u ON u.number = t.turn "
        "JOIN sessions AS s ON s.key = u.session WHERE s.tenant = ?",
        (connection.tenant,),
    )
    for *cells, session_id, turn_id in rows:
        bodies = [unpack_blob(cell) for cell in cells if cell is not None]
        if any(needle in body for body in bodies for needle in needles):
            trees = [decode(body, object) for body in bodies]
            for text in texts:
                if occurs_in_tree((text,), trees):
                    yield f"{OF_A_TURN.table}/{session_id}/{turn_id}", text


def _in_packs(connection: Connection, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Search the world packs, which are compressed too, and the names of worlds."""
    needles = tuple(dict.fromkeys(form for text in texts for form in _json_forms(text)))
    columns = ", ".join((*OF_A_WORLD.words, *OF_A_WORLD.bodies))
    rows = connection.execute(f"SELECT {columns} FROM packs WHERE tenant = ?", (connection.tenant,))
    for world_id, digest, cell in rows:
        body = unpack_blob(cell)
        trees = [decode(body, object)] if any(needle in body for needle in needles) else []
        for text in texts:
            if occurs_in(text, world_id) or occurs_in(text, digest) or occurs_in_tree((text,), trees):
                yield f"{PACK_PLACE}{world_scope(world_id)}", text


def _json_forms(text: str) -> Iterator[bytes]:
    """Yield the bytes that JSON may write for a text and its XML spellings."""
    for form in spellings(text):
        yield encode(form)[1:-1]
        yield json.dumps(form)[1:-1].encode("ascii")

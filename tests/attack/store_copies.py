"""A small store with two sessions, everything that can be read of it, and copies of it that are damaged by a number."""

from __future__ import annotations

import random
import sqlite3
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mnemosyne import Chain, ContextEngineError, Store, Summary, open_store
from mnemosyne.core.codec import encode
from mnemosyne.damage import LostTree
from mnemosyne.schema.memory import session_scope, world_scope
from mnemosyne.schema.record import PathSummary, Prefetch, TurnCommit
from mnemosyne.testing.stores.samples import (
    AT,
    block,
    evidence,
    imported_turn,
    lore,
    memory,
    prepared_turn,
    reply_message,
    start,
)

SESSIONS = ("s1", "s2")
TURNS = 12
_ALL = 10_000
_PAGE = 4096
_BODIES = (
    ("messages", "body"),
    ("turns", "plan"),
    ("turns", "ops"),
    ("turns", "anchors"),
    ("papers", "receipt"),
    ("papers", "prompt"),
    ("entries", "body"),
    ("evidences", "body"),
    ("parts", "body"),
    ("snapshots", "state"),
    ("branch_states", "state"),
    ("summaries", "body"),
    ("prefetches", "body"),
)
REFUSED = "refused: "


async def play_store(address: str) -> None:
    """Play two sessions with everything that a store holds."""
    store = open_store(address)
    await store.replace_world("w1", "v1", [lore("l1", "the key is under the stone"), lore("l2", "a lantern")], {"a": 1})
    for session_id in SESSIONS:
        await store.create_session(start(imported_turn("p1"), session_id=session_id))
        await _play_session(store, session_id)
    await store.close()


async def _play_session(store: Store, session_id: str) -> None:
    for number in range(1, TURNS + 1):
        turn_id, head = f"{session_id}.t{number}", await store.head(session_id)
        record = prepared_turn(
            head,
            turn_id,
            f"question {number} of {session_id}",
            plan={"goal": f"goal {number}"},
            anchors={"gold": "/hero/gold"},
            receipt={"why": f"{turn_id} " * 30},
            prompt={"text": f"prompt of {turn_id} " * 40},
        )
        record = replace(record, session_id=session_id)
        found = evidence(f"{turn_id}.e", f"evidence of {turn_id}")
        shown = block(f"{turn_id}.b")
        saved = await store.save_prepared(
            record, expected_version=head.version, evidences=(found,), blocks=(replace(shown, refs=()),)
        )
        commit = TurnCommit(
            turn_id=turn_id,
            messages=(reply_message(f"answer {number} of {session_id}"),),
            ops=({"op": "replace", "path": "/hero/gold", "value": number},),
            state={"hero": {"gold": number}},
            entries=(replace(memory(f"{turn_id}.m"), scope=session_scope(session_id), text=f"memory of {turn_id}"),),
            report={"applied": number},
        )
        await store.commit_turn(session_id, commit, expected_version=saved.version)
        if number == TURNS // 2:
            head = await store.head(session_id)
            summary = Summary(content=f"so far in {session_id}", updated_at=AT)
            await store.save_summary(
                session_id, PathSummary(turn_id=turn_id, branch_id="main", depth=head.depth, summary=summary)
            )
            await store.fork(session_id, turn_id, "other")
            await store.switch(session_id, "main")
    await store.save_prefetch(
        session_id,
        Prefetch(
            turn_id=turn_id, branch_id="main", depth=TURNS + 1, focus_quest_id=None, keywords=("key",), value={"x": 1}
        ),
    )


Piece = tuple[str, str]
"""The scope of something that can be read of a store, and its name."""


async def read_pieces(store: Store) -> dict[Piece, Any]:
    """Return everything that can be read, by piece: a list of JSON values, JSON, or `refused: …` for a named refusal.

    Whatever is no error of this product passes through.
    """
    pieces: dict[Piece, Any] = {}

    async def read(scope: str, name: str, work: Callable[[], Awaitable[Any]]) -> Any:
        try:
            value = await work()
        except ContextEngineError as error:
            pieces[scope, name] = f"{REFUSED}{error}"
            return None
        pieces[scope, name] = _as_json(value)
        return value

    await read("", "sessions", store.sessions)
    await read("", "worlds", _listed(store.worlds))
    await read("", "audits", store.audits)
    for session_id in SESSIONS:
        async for name, work in _session_pieces(store, session_id):
            await read(session_scope(session_id), name, work)
    scope = world_scope("w1")
    await read(scope, "pack", lambda: store.pack("w1", "v1"))
    await read(scope, "lore", lambda: store.entries(scope, ("l1", "l2")))
    await read(scope, "lore in order", _in_order(store, scope, Chain.LORE))
    return pieces


async def _session_pieces(store: Store, session_id: str) -> AsyncIterator[tuple[str, Callable[[], Awaitable[Any]]]]:
    scope = session_scope(session_id)

    async def window(part: str) -> Any:
        return getattr(await store.window(session_id, message_limit=_ALL), part)

    async def turn(turn_id: str, part: str) -> Any:
        value = getattr(await store.turn(session_id, turn_id), part)
        return dict(value) if isinstance(value, LostTree) else value

    async def document(part: str) -> Any:
        found = await store.get_session(session_id)
        return None if found is None else getattr(found.session, part)

    yield "branches", lambda: store.branches(session_id)
    for part in ("messages", "state", "summary", "prefetch", "tasks", "usages"):
        yield f"window {part}", lambda part=part: window(part)  # type: ignore[misc]
    yield "turns", _listed_turns(store, session_id)
    for number in range(1, TURNS + 1):
        turn_id = f"{session_id}.t{number}"
        for part in ("messages", "plan", "receipt", "prompt", "report", "anchors", "ops"):
            yield f"{part} of {turn_id}", lambda turn_id=turn_id, part=part: turn(turn_id, part)  # type: ignore[misc]
        yield f"state after {turn_id}", lambda turn_id=turn_id: store.state_at(session_id, turn_id)  # type: ignore[misc]
    yield "document messages", lambda: document("messages")
    yield "evidences", lambda: store.list_evidences(session_id)
    yield "blocks", lambda: store.list_context_blocks(session_id)
    for chain in (Chain.HISTORY, Chain.EVENT):
        yield f"{chain.value} in order", _in_order(store, scope, chain)


def _listed(work: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    async def read() -> Any:
        return sorted((await work()).items())

    return read


def _listed_turns(store: Store, session_id: str) -> Callable[[], Awaitable[Any]]:
    async def read() -> Any:
        return [(turn.turn_id, turn.depth, turn.parent_id) for turn in await store.turns(session_id, limit=_ALL)]

    return read


def _in_order(store: Store, scope: str, chain: Chain) -> Callable[[], Awaitable[Any]]:
    async def read() -> Any:
        return [each.entry for each in await store.entries_after(scope, chain, 0, _ALL) if not each.deleted]

    return read


def _as_json(value: Any) -> Any:
    return [encode(each) for each in value] if isinstance(value, list | tuple) else encode(value)


@dataclass(frozen=True, kw_only=True)
class Harm:
    """What was done to a copy, for a finding."""

    what: str


def harm_sqlite(file: Path, chance: random.Random) -> Harm:
    """Damage a SQLite file in one of the ways of a fault."""
    kind = chance.choice(("bit", "bit", "bit", "page", "cut", "swap", "foreign", "value"))
    if kind in ("bit", "page", "cut"):
        return harm_bytes(file, kind, chance)
    database = sqlite3.connect(file)
    try:
        return Harm(what=_harm_rows(database, kind, chance))
    finally:
        database.commit()
        database.close()


def _harm_rows(database: sqlite3.Connection, kind: str, chance: random.Random) -> str:
    table, column = chance.choice(_BODIES)
    rows = database.execute(f"SELECT rowid, {column} FROM {table} WHERE {column} IS NOT NULL").fetchall()
    (one, first), (other, second) = chance.sample(rows, 2)
    put = f"UPDATE {table} SET {column} = ? WHERE rowid = ?"
    if kind == "value":
        database.execute(put, (changed_letter(first, chance), one))
    else:
        database.execute(put, (second, one))
        if kind == "swap":
            database.execute(put, (first, other))
    return f"{kind} of {table}.{column}, rows {one} and {other}"


def changed_letter(data: bytes, chance: random.Random) -> bytes:
    """Return JSON in which one letter of a text is another: it stays JSON of the same shape."""
    packed = data[:1] == b"x"
    body = bytearray(zlib.decompress(data) if packed else data)
    places = [
        place for place, sign in enumerate(body) if chr(sign) in "bcdgkmopqw" and body[place - 1 : place].isalpha()
    ]
    if places:
        body[chance.choice(places)] ^= 1
    return zlib.compress(bytes(body)) if packed else bytes(body)


def harm_bytes(file: Path, kind: str, chance: random.Random) -> Harm:
    """Flip a bit, zero a page, or cut the end of a file off."""
    data = bytearray(file.read_bytes())
    place = chance.randrange(max(len(data), 1))
    if kind == "bit" and data:
        data[place] ^= 1 << chance.randrange(8)
    elif kind == "page":
        place -= place % _PAGE
        data[place : place + _PAGE] = bytes(len(data[place : place + _PAGE]))
    elif kind == "cut":
        del data[place:]
    file.write_bytes(data)
    return Harm(what=f"{kind} at {place} of {file.name} ({len(data)} bytes)")


def harm_files(folder: Path, chance: random.Random) -> Harm:
    """Damage a folder of files in one of the ways of a fault."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "lock")
    file = chance.choice(files)
    journals = [path for path in files if path.parent.name == "sessions"]
    kind = chance.choice(("bit", "bit", "bit", "page", "cut", "delete", "swap lines", "foreign line", "foreign file"))
    if kind in ("bit", "page", "cut"):
        return harm_bytes(file, kind, chance)
    if kind == "delete" or len(journals) < 2:
        file.unlink()
        return Harm(what=f"delete {file.name}")
    first, second = chance.sample(journals, 2)
    lines, others = first.read_bytes().splitlines(keepends=True), second.read_bytes().splitlines(keepends=True)
    if kind == "foreign file":
        first.write_bytes(second.read_bytes())
        return Harm(what=f"{second.name} in the place of {first.name}")
    one, other = chance.sample(range(1, min(len(lines), len(others))), 2)
    if kind == "swap lines":
        lines[one], lines[other] = lines[other], lines[one]
    else:
        lines[one] = others[one]
    first.write_bytes(b"".join(lines))
    return Harm(what=f"{kind} {one} and {other} of {first.name}")

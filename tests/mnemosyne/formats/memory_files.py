"""Files as agent libraries write them: mem0ai 2.2, langchain-community 0.4, langgraph-checkpoint-sqlite 3.1, qdrant-client 1.20,
llama-index-core 0.14. Their packages are not needed.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from contextlib import closing

HISTORY = """
CREATE TABLE history (id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT, event TEXT, created_at DATETIME,
    updated_at DATETIME, is_deleted INTEGER, actor_id TEXT, role TEXT);
CREATE TABLE messages (id TEXT PRIMARY KEY, session_scope TEXT, role TEXT, content TEXT, name TEXT, created_at DATETIME);
"""
MESSAGE_STORE = "CREATE TABLE message_store (id INTEGER NOT NULL, session_id TEXT, message TEXT, PRIMARY KEY (id));"
STORE = """
CREATE TABLE store (prefix text NOT NULL, key text NOT NULL, value text NOT NULL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, expires_at TIMESTAMP, ttl_minutes REAL, PRIMARY KEY (prefix, key));
"""
CHECKPOINTS = """
CREATE TABLE checkpoints (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
    parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));
"""


def database(path, script, rows=()):
    """Write a database with tables, and with rows as (table, values); return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
        for table, values in rows:
            connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)
        connection.commit()
    return path


def write_json(path, value):
    """Write a JSON file; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path


def langchain_message(kind, content, **fields):
    """Return a message as `messages_to_dict` makes it."""
    data = {
        "content": content,
        "additional_kwargs": {},
        "response_metadata": {},
        "type": kind,
        "name": None,
        "id": None,
    }
    return {"type": kind, "data": {**data, **fields}}


def pickled(value):
    """Return a pickle (protocol 4) of texts, numbers, lists and mappings, as the opcodes that qdrant-client's points have."""
    return b"\x80\x04" + _pickled(value) + b"."


def pickled_point(point_id, payload):
    """Return a point as qdrant-client stores it: a pickled object with `id`, `vector` and `payload`."""
    fields = {"id": point_id, "vector": [1.0, 0.5], "payload": payload}
    state = {"__dict__": fields, "__pydantic_extra__": None, "__pydantic_private__": None}
    named = _pickled("qdrant_client.http.models.models") + _pickled("PointStruct") + b"\x93"
    return b"\x80\x04" + named + b")\x81" + _pickled(state) + b"b."


def _pickled(value):
    if value is None or isinstance(value, bool):
        return {None: b"N", True: b"\x88", False: b"\x89"}[value]
    if isinstance(value, str):
        data = value.encode("utf-8", "surrogatepass")
        return b"X" + struct.pack("<I", len(data)) + data + b"\x94"
    if isinstance(value, int):
        return b"J" + struct.pack("<i", value)
    if isinstance(value, float):
        return b"G" + struct.pack(">d", value)
    if isinstance(value, list):
        return b"]\x94(" + b"".join(map(_pickled, value)) + b"e"
    return b"}\x94(" + b"".join(_pickled(each) for pair in value.items() for each in pair) + b"u"


def qdrant_folder(folder, *points):
    """Write a local folder of Qdrant with a collection `mem0`; return the folder."""
    write_json(folder / "meta.json", {"collections": {"mem0": {}}, "aliases": {}})
    rows = [("points", (str(number), point)) for number, point in enumerate(points)]
    database(
        folder / "collection" / "mem0" / "storage.sqlite", "CREATE TABLE points (id TEXT PRIMARY KEY, point BLOB)", rows
    )
    return folder

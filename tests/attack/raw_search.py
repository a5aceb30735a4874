"""A search of what a store keeps that uses nothing of ours: bytes of files, cells of databases, objects in memory.

What is compressed is decompressed; what is escaped (JSON once or twice, XML) is looked at unescaped as well.
"""

from __future__ import annotations

import gc
import html
import json
import lzma
import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import msgspec
import psycopg
from psycopg import sql

RUN = 24
MARK = "[erased]"
"""What stands in place of what was cut; its brackets belong to no text."""

DENSE_RUN = 10
_ESCAPE = re.compile(r'\\+(u[0-9a-fA-F]{4}|["/nrt]|(?<=\\\\))')
_SPACE = re.compile(r"\s+")
_SIGNS = {"n": "\n", "r": "\r", "t": "\t"}
_SKIPPED = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)
_XZ = b"\xfd7zXZ\0"


def runs_of(texts: Iterable[str]) -> set[str]:
    """Return all runs of 24 characters with six letters or digits, and all of ten that are Chinese."""
    found: set[str] = set()
    for text in texts:
        plain = unescape(text.strip())
        for at in range(len(plain) - RUN + 1):
            run = plain[at : at + RUN]
            if sum(3 if is_chinese(char) else 1 for char in run if char.isalnum()) >= 6:
                found.add(run)
        for at in range(len(plain) - DENSE_RUN + 1):
            run = plain[at : at + DENSE_RUN]
            if all(map(is_chinese, run)):
                found.add(run)
    return found


def is_chinese(char: str) -> bool:
    """Return whether a character is Chinese."""
    return "\u4e00" <= char <= "\u9fff"


def find_runs(data: Iterable[bytes], runs: set[str]) -> list[str]:
    """Return the runs that occur in some bytes, as a reader sees them: in the strings of JSON, and else as the bytes stand.

    A run with a quotation mark counts only in a string: elsewhere the mark may be one of JSON's own.
    """
    found: set[str] = set()
    bare = {run for run in runs if '"' not in run}
    for each in data:
        for text in strings_of(each):
            found.update(hits(unescape(text).replace(MARK, "\0"), runs))
        found.update(hits(unescape(each.decode("utf-8", "ignore")).replace(MARK, "\0"), bare))
    return sorted(found)


def hits(text: str, runs: set[str]) -> Iterator[str]:
    """Yield the runs that occur in a text."""
    for size in (RUN, DENSE_RUN):
        yield from (text[at : at + size] for at in range(len(text) - size + 1) if text[at : at + size] in runs)


def strings_of(data: bytes) -> Iterator[str]:
    """Yield the strings of JSON, or of lines of it; nothing for other bytes."""
    for line in data.splitlines() if data[:1] in (b"{", b"[", b'"') else ():
        try:
            waiting = [json.loads(line)]
        except ValueError:
            continue
        while waiting:
            each = waiting.pop()
            if isinstance(each, str):
                yield each
            elif isinstance(each, dict):
                waiting += [*each, *each.values()]
            elif isinstance(each, list):
                waiting += each


def unescape(text: str) -> str:
    """Return a text with the escapes of JSON and XML resolved, one in another too, and white space as one blank."""
    before = ""
    while before != text:
        before, text = text, html.unescape(_ESCAPE.sub(resolve, text))
    return _SPACE.sub(" ", text)


def resolve(hit: re.Match[str]) -> str:
    """Return what an escape of JSON stands for."""
    return chr(int(hit[1][1:], 16)) if hit[1][:1] == "u" else _SIGNS.get(hit[1], hit[1] or "\\")


def bytes_of_folder(folder: Path) -> Iterator[bytes]:
    """Yield every file below a folder, and every cell of those that are SQLite databases."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield file.read_bytes()
            if file.suffix == ".db":
                yield from cells_of_sqlite(file)


def cells_of_sqlite(file: Path) -> Iterator[bytes]:
    """Yield every cell of every table."""
    database = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    try:
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in database.execute(f"SELECT * FROM {table}"):
                yield from cells(row)
    finally:
        database.close()


def cells_of_postgres(uri: str, schema: str) -> Iterator[bytes]:
    """Yield every cell of every table of a schema."""
    with psycopg.connect(uri) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)).fetchall()
        for (table,) in tables:
            for row in connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(schema, table))):
                yield from cells(row)


def empty_postgres(uri: str, schema: str) -> None:
    """Delete every row of a schema's tables, except the revision."""
    with psycopg.connect(uri) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)).fetchall()
        for (table,) in tables:
            if table != "store_revision":
                connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(schema, table)))


def cells(row: Iterable[Any]) -> Iterator[bytes]:
    """Yield the cells of a row as bytes, decompressed."""
    for cell in row:
        if isinstance(cell, str):
            yield cell.encode("utf-8", "surrogatepass")
        elif isinstance(cell, bytes | memoryview):
            data = bytes(cell)
            yield data
            if data[:1] == b"x":
                yield zlib.decompress(data)
            elif data[:6] == _XZ:
                yield lzma.decompress(data)


def bytes_of_object(root: object) -> Iterator[bytes]:
    """Yield every text and bytes value that an object holds, however deep."""
    for each in objects_in(root):
        if isinstance(each, str):
            yield each.encode("utf-8", "surrogatepass")
        elif isinstance(each, bytes | msgspec.Raw):
            yield bytes(each)


def objects_in(root: object) -> Iterator[object]:
    """Yield every object that an object holds, however deep."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, _SKIPPED):
            continue
        seen.add(id(each))
        yield each
        if not isinstance(each, str | bytes | msgspec.Raw):
            waiting += gc.get_referents(each)

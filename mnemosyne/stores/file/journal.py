"""A journal: one ledger in one file of JSON lines, shared by several processes.

It defines what a file holds, how it grows and how damage is reported. The first line is a header; every other line is
one numbered write with the rows that it changed. A line is on the disk before its write is acknowledged. An incomplete
last line was never acknowledged: it is ignored, and the next write truncates it. A journal that has doubled in size is
compacted: all current rows are written to a new file, which replaces the old one.

Each line ends with its checksum, a CRC-32 of the line and of the scope (lines of older releases have none). A damaged line
is passed by and noted, and the lines after it count; the file is then left as it is, apart from lines that are added.

All functions here block, and those that write are called with the tenant's lock held. The module knows ledgers and
files, nothing of async or of the meaning of rows.
"""

from __future__ import annotations

import hashlib
import os
import re
import uuid
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from mnemosyne.core.codec import JsonText, decode, encode
from mnemosyne.core.errors import CodecError, DamagedRecordError, StoreUnavailableError
from mnemosyne.damage import DamageNote
from mnemosyne.files import NEW, make_private_folder, place_draft, private_mode
from mnemosyne.stores.ledger.ledger import Ledger
from mnemosyne.stores.ledger.rows import PACK, ROW_TYPES, TABLES, Change

FORMAT = 2
"""The newest format: 2 is a journal with a world pack, which a release that knows only format 1 cannot read."""

FIRST_FORMAT = 1
SUFFIX = ".jsonl"
_ROWS_A_LINE = 50
_NAME_CHARS = 40
_DROPPED = JsonText(b"null")


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """The first line. `generation` changes whenever the file is rewritten; the `kept` lines after it are a snapshot."""

    format: int
    scope: str
    generation: str
    kept: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One write: its number in the file (1-based), what it did, and table, key and body (null: dropped) of each row."""

    n: int
    did: str
    rows: tuple[tuple[str, str, JsonText], ...]


_SUM = re.compile(rb',"sum":([0-9]{1,10})\}\n\Z')
_LOST_HEADER = "lost"


def with_sum(body: bytes, scope: str) -> bytes:
    """Return a JSON object as a line of a journal, with its checksum as the last field."""
    number = zlib.crc32(body, zlib.crc32(scope.encode("utf-8", "surrogatepass")))
    return body[:-1] + b',"sum":%d}\n' % number


def without_sum(line: bytes, scope: str) -> bytes:
    """Return the JSON of a line; CodecError when its checksum does not fit. A line without one is returned as it is."""
    found = _SUM.search(line)
    if found is None:
        return line
    body = line[: found.start()] + b"}"
    if with_sum(body, scope) != line:
        raise CodecError("its checksum does not fit")
    return body


@dataclass(frozen=True, kw_only=True, slots=True)
class NewFile:
    """A complete journal, written beside the file that it will replace."""

    path: Path
    format: int
    generation: str
    lines: int
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Mark:
    """The state of a file when it was last read."""

    inode: int
    size: int
    written_ns: int


def file_name(name: str) -> str:
    """Return a file name for any id: a readable part, and a hash that makes it unique on every file system."""
    readable = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_NAME_CHARS]
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{readable}-{digest}" if readable else digest


class Journal:
    """One file and its ledger.

    `floor` is the sequence number after which an empty ledger starts to count. `compact_bytes` is the smallest size
    that is compacted. With `durable` each write is on the disk before it returns; otherwise the operating system has
    it.
    """

    def __init__(self, path: Path, scope: str, *, floor: int, compact_bytes: int, durable: bool) -> None:
        self.path = path
        self.scope = scope
        self.ledger = Ledger(floor)
        self._floor = floor
        self._compact_bytes = compact_bytes
        self._durable = durable
        self._mark: _Mark | None = None
        self._format = FIRST_FORMAT
        self._generation = ""
        self._number = self._good = self._lines = 0
        self._offset = 0
        self._base = 0
        self.damage: list[DamageNote] = []
        """What is damaged in the part of the file that was read."""

    def catch_up(self) -> Ledger:
        """Read what other processes have written since, and return the ledger; StoreUnavailableError for a file that
        cannot be read, DamagedRecordError for one of which nothing is left.
        """
        try:
            ledger = self._follow()
        except _RewrittenError:
            # Other lines than those that follow what was read: the file has been replaced, or is damaged.
            self.forget()
            ledger = self._follow()
        if self.damage and ledger.is_empty():
            note = self.damage[0]
            raise DamagedRecordError(str(self.path), f"The journal of {self.scope}", note.reason)
        return ledger

    def _follow(self) -> Ledger:
        mark = self._stat_file()
        if mark == self._mark:
            return self.ledger
        try:
            with self.path.open("rb") as file:
                head = file.readline()
                header = self._header(head)
                lost = header is None
                header = header or Header(format=FIRST_FORMAT, scope=self.scope, generation=_LOST_HEADER, kept=0)
                fresh = header.generation != self._generation or (mark is not None and mark.size < self._offset)
                if fresh:
                    self._reset()
                    self._format, self._generation, self._offset = header.format, header.generation, len(head)
                    self._lines = 1
                    if lost:
                        self._note(1, "it is no header of a journal", "The lines after it were read")
                file.seek(self._offset)
                self._take(file, header.kept, fresh)
        except FileNotFoundError:
            mark = None
            self._reset()
        self._mark = mark
        return self.ledger

    def forget(self) -> None:
        """Read the whole file again next time, because the ledger may hold what the file does not."""
        self._reset()

    def keep(self, name: str, changes: Sequence[Change]) -> None:
        """Append what has just been changed in the ledger; StoreUnavailableError when it cannot be written, and then
        nothing is stored.
        """
        try:
            if self._mark is None:
                make_private_folder(self.path.parent)
                self._adopt(write_new(self.path, self.scope, [(name, changes)], durable=self._durable, kept=0))
            elif self._format < _format_of(changes):
                self.compact()
            else:
                self._append(_line(self._number + 1, name, changes, self.scope))
            if self._offset > max(self._compact_bytes, 2 * self._base) and not self.damage:
                self.compact()
        except BaseException:
            self.forget()
            raise

    def compact(self) -> None:
        """Write all current rows to a new file that replaces this one."""
        self._adopt(write_ledger(self.path, self.scope, self.ledger, durable=self._durable))

    def _append(self, line: bytes) -> None:
        with self.path.open("r+b", buffering=0) as file:
            if self._mark is not None and self._mark.size > self._offset:
                file.truncate(self._offset)
            file.seek(self._offset)
            try:
                done = 0
                while done < len(line):
                    done += file.write(line[done:]) or 0
                if self._durable:
                    os.fsync(file.fileno())
            except OSError:
                file.truncate(self._offset)
                raise
        self._offset += len(line)
        self._number += 1
        self._good = self._number
        self._lines += 1
        self._mark = self._stat_file()

    def _adopt(self, new: NewFile) -> None:
        """Continue with a file that has just been written from this ledger."""
        place_file(new.path, durable=self._durable)
        self._format, self._generation, self._number = new.format, new.generation, new.lines
        self._good, self._lines, self.damage = new.lines, new.lines + 1, []
        self._offset = self._base = new.size
        self._mark = self._stat_file()

    def _reset(self) -> None:
        self.ledger = Ledger(self._floor)
        self._format, self._generation = FIRST_FORMAT, ""
        self._number, self._offset, self._base, self._mark = 0, 0, 0, None
        self._good, self._lines, self.damage = 0, 0, []

    def _stat_file(self) -> _Mark | None:
        try:
            stat = self.path.stat()
        except FileNotFoundError:
            return None
        return _Mark(inode=stat.st_ino, size=stat.st_size, written_ns=stat.st_mtime_ns)

    def _header(self, line: bytes) -> Header | None:
        """Return the header in a first line, None where it is damaged. StoreUnavailableError when a newer release wrote it,
        DamagedRecordError when it is that of another scope.
        """
        try:
            header = read_header(line)
        except CodecError:
            return None
        except ValueError as error:
            raise StoreUnavailableError(str(self.path), str(error)) from None
        if header.scope != self.scope:
            what = f"The journal of {self.scope}"
            raise DamagedRecordError(str(self.path), what, f"the file is the journal of {header.scope}")
        return header

    def _take(self, lines: Iterable[bytes], kept: int, fresh: bool) -> None:
        """Apply complete lines from the current offset on; damaged ones are passed by."""
        for line in lines:
            if not line.endswith(b"\n"):
                return
            try:
                read = decode(without_sum(line, self.scope), Line)
                if read.n <= self._good:
                    raise CodecError(f"write {self._number + 1} was expected, not {read.n}")
            except CodecError as error:
                if not fresh:
                    raise _RewrittenError from None
                self._number += 1
                self._note(self._lines + 1, str(error), "What it wrote is missing")
            else:
                self._apply(read, fresh)
            self._lines += 1
            self._offset += len(line)
            if kept and not self._base and self._number >= kept:
                self._base = self._offset

    def _apply(self, line: Line, fresh: bool) -> None:
        """Apply the rows of a line, except for those that are damaged or need a row that is missing."""
        if line.n != self._number + 1:
            if not fresh:
                raise _RewrittenError
            if line.n > self._number + 1:
                self._note(self._lines + 1, f"write {self._number + 1} was expected, not {line.n}", "Lines are missing")
        for table, key, body in line.rows:
            try:
                self.ledger.apply([_change(table, key, body)])
            except (CodecError, LookupError, ValueError) as error:
                if not fresh:
                    raise _RewrittenError from None
                reason = f"its {table} {key!r} cannot be used: {error}"
                self._note(self._lines + 1, reason, "This part of it is missing")
        self._number = self._good = line.n

    def _note(self, number: int, reason: str, effect: str) -> None:
        what = f"Line {number} of {self.path.name}"
        self.ledger.is_damaged = True
        self.damage.append(
            DamageNote(scope=self.scope, what=what, reason=reason, path=str(self.path.parent), effect=effect)
        )


class _RewrittenError(Exception):
    """Lines do not continue what was read of a file."""


def read_header(line: bytes) -> Header:
    """Return the header in a first line; CodecError when it holds none, ValueError when a newer release wrote it."""
    header = decode(line, Header)
    without_sum(line, header.scope)
    if header.format > FORMAT:
        raise ValueError(
            f"it was written by a newer release (format {header.format}, this one reads up to {FORMAT}); update"
        )
    return header


def read_scope(path: Path) -> str:
    """Return the scope of a journal; StoreUnavailableError when it cannot be read, DamagedRecordError when its header
    cannot.
    """
    with path.open("rb") as file:
        line = file.readline()
    try:
        return read_header(line).scope
    except CodecError as error:
        raise DamagedRecordError(str(path), "Line 1", str(error)) from None
    except ValueError as error:
        raise StoreUnavailableError(str(path), str(error)) from None


def line_of(path: Path, data: bytes) -> int | None:
    """Return the number (1-based) of the first line of a journal that contains these bytes, or None."""
    if not data:
        return None
    with path.open("rb") as file:
        return next((number for number, line in enumerate(file, start=1) if data in line), None)


def write_ledger(path: Path, scope: str, ledger: Ledger, *, durable: bool) -> NewFile:
    """Write a snapshot of a ledger beside `path` and return the new file, complete and on the disk."""
    return write_new(path, scope, [("snapshot", rows) for rows in _batches(ledger.rows())], durable=durable)


def write_new(
    path: Path, scope: str, writes: Sequence[tuple[str, Sequence[Change]]], *, durable: bool, kept: int | None = None
) -> NewFile:
    """Write a journal of these writes beside `path` and return the new file."""
    generation, written = uuid.uuid4().hex, max([FIRST_FORMAT, *(_format_of(changes) for _, changes in writes)])
    header = Header(format=written, scope=scope, generation=generation, kept=len(writes) if kept is None else kept)
    new = path.with_name(path.name + NEW)
    mode = private_mode(path)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        new.chmod(mode)
        file.write(with_sum(encode(header), scope))
        for number, (name, changes) in enumerate(writes, start=1):
            file.write(_line(number, name, changes, scope))
        file.flush()
        size = file.tell()
        if durable:
            os.fsync(file.fileno())
    return NewFile(path=new, format=written, generation=generation, lines=len(writes), size=size)


def _format_of(changes: Sequence[Change]) -> int:
    """Return the oldest format that supports these rows."""
    return FORMAT if any(change.table == PACK for change in changes) else FIRST_FORMAT


def place_file(new: Path, *, durable: bool) -> None:
    """Move a new file into place."""
    place_draft(new, new.with_name(new.name.removesuffix(NEW)), durable=durable)


def _line(number: int, name: str, changes: Sequence[Change], scope: str) -> bytes:
    rows: list[tuple[str, str, Any]] = [(change.table, change.key, change.row) for change in changes]
    return with_sum(encode({"n": number, "did": name, "rows": rows}), scope)


def _change(table: str, key: str, body: JsonText) -> Change:
    if table not in TABLES:
        raise CodecError(f"there is no table {table!r}")
    if body == _DROPPED:
        return Change(table=table, key=key, row=None)
    if table not in ROW_TYPES:
        return Change(table=table, key=key, row=body)
    return Change(table=table, key=key, row=decode(body, ROW_TYPES[table]))


def _batches(changes: Iterator[Change]) -> Iterator[list[Change]]:
    while batch := list(islice(changes, _ROWS_A_LINE)):
        yield batch

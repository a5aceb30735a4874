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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from mnemosyne.core.codec import decode, encode
from mnemosyne.core.errors import CodecError, DamagedRecordError, StoreUnavailableError
from mnemosyne.damage import DamageNote
from mnemosyne.files import NEW, make_private_folder, place_draft, private_mode
from mnemosyne.stores.file.lines import (
    FIRST_FORMAT,
    Header,
    Line,
    change_of,
    format_of,
    read_header,
    with_sum,
    without_sum,
    write_line,
)
from mnemosyne.stores.ledger.ledger import Ledger
from mnemosyne.stores.ledger.rows import Change

SUFFIX = ".jsonl"
_LOST_HEADER = "lost"
_ROWS_A_LINE = 50
_NAME_CHARS = 40


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
        self._number = self._lines = 0
        self._offset = 0
        self._base = 0
        self.damage: list[DamageNote] = []
        """What is damaged in the part of the file that was read."""

    def catch_up(self) -> Ledger:
        """Read what other processes have written since, and return the ledger; StoreUnavailableError for a file that
        cannot be read, DamagedRecordError for one of which nothing is left.
        """
        try:
            return self._follow()
        except _BrokenError:
            self.forget()
        try:
            return self._follow()  # The file may have been replaced by another.
        except _BrokenError:
            self.forget()
        ledger = self._recover()
        if ledger.is_empty():
            raise DamagedRecordError(str(self.path), f"The journal of {self.scope}", self.damage[0].reason)
        return ledger

    def _follow(self) -> Ledger:
        """Apply what was written since; _BrokenError where it does not continue what was read."""
        mark = self._stat_file()
        if mark == self._mark:
            return self.ledger
        try:
            with self.path.open("rb") as file:
                head = file.readline()
                header = self._header(head)
                if header is None:
                    if self._generation != _LOST_HEADER:
                        raise _BrokenError
                elif header.generation != self._generation or (mark is not None and mark.size < self._offset):
                    self._reset()
                    self._begin(header, len(head))
                file.seek(self._offset)
                self._take(file, 0 if header is None else header.kept)
        except FileNotFoundError:
            mark = None
            self._reset()
        self._mark = mark
        return self.ledger

    def _begin(self, header: Header, size: int) -> None:
        self._format, self._generation, self._offset, self._lines = header.format, header.generation, size, 1

    def _recover(self) -> Ledger:
        """Read a damaged file from its start: every line that is whole, in the order of their numbers; note all others."""
        mark = self._stat_file()
        kept: list[tuple[int, int, Line]] = []
        with self.path.open("rb") as file:
            head = file.readline()
            header = self._header(head)
            lost = Header(format=FIRST_FORMAT, scope=self.scope, generation=_LOST_HEADER, kept=0)
            self._begin(header or lost, len(head))
            if header is None:
                self._note(1, "it is no header of a journal", "The lines after it were read")
            for number, line in enumerate(file, start=2):
                if not line.endswith(b"\n"):
                    break
                self._offset += len(line)
                self._lines = number
                try:
                    read = decode(without_sum(line, self.scope), Line)
                    kept.append((read.n, number, read))
                except CodecError as error:
                    self._note(number, str(error), "What it wrote is missing")
        self._apply_in_order(kept)
        self._number = max(self._number, self._lines - 1)
        self._mark = mark
        return self.ledger

    def _apply_in_order(self, lines: Sequence[tuple[int, int, Line]]) -> None:
        """Apply lines, given with their numbers as writes and in the file; note what is missing, twice or out of order."""
        for place, (count, number, line) in enumerate(sorted(lines, key=lambda each: each[:2])):
            if count <= self._number:
                self._note(number, f"write {count} is there twice", "It counts once")
                continue
            if count != self._number + 1:
                missing = f"write {self._number + 1}" + (f" to {count - 1}" if count > self._number + 2 else "")
                self._note(number, f"{missing} before it is missing", "It was read without it")
            elif lines[place][1] != number:
                self._note(number, "the lines are not in their order", "They were read in the order of their numbers")
            for table, key, body in line.rows:
                try:
                    self.ledger.apply([change_of(table, key, body)])
                except (CodecError, LookupError, ValueError) as error:
                    self._note(number, f"its {table} {key!r} cannot be used: {error}", "This part of it is missing")
            self._number = count

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
            elif self._format < format_of(changes):
                self.compact()
            else:
                self._append(write_line(self._number + 1, name, changes, self.scope))
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
        self._lines += 1
        self._mark = self._stat_file()

    def _adopt(self, new: NewFile) -> None:
        """Continue with a file that has just been written from this ledger."""
        place_file(new.path, durable=self._durable)
        self._format, self._generation, self._number = new.format, new.generation, new.lines
        self._lines, self.damage = new.lines + 1, []
        self._offset = self._base = new.size
        self._mark = self._stat_file()

    def _reset(self) -> None:
        self.ledger = Ledger(self._floor)
        self._format, self._generation = FIRST_FORMAT, ""
        self._number, self._offset, self._base, self._mark = 0, 0, 0, None
        self._lines, self.damage = 0, []

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

    def _take(self, lines: Iterable[bytes], kept: int) -> None:
        """Apply complete lines from the current offset on; _BrokenError for one that is damaged or does not follow."""
        for line in lines:
            if not line.endswith(b"\n"):
                return
            try:
                read = decode(without_sum(line, self.scope), Line)
                if read.n != self._number + 1:
                    raise CodecError(f"write {self._number + 1} was expected, not {read.n}")
                self.ledger.apply([change_of(*row) for row in read.rows])
            except (CodecError, LookupError, ValueError):
                raise _BrokenError from None
            self._number += 1
            self._lines += 1
            self._offset += len(line)
            if self._number == kept:
                self._base = self._offset

    def _note(self, number: int, reason: str, effect: str) -> None:
        what = f"Line {number} of {self.path.name}"
        self.ledger.is_damaged = True
        self.damage.append(
            DamageNote(scope=self.scope, what=what, reason=reason, path=str(self.path.parent), effect=effect)
        )


class _BrokenError(Exception):
    """Lines do not continue what was read of a file."""


def write_ledger(path: Path, scope: str, ledger: Ledger, *, durable: bool) -> NewFile:
    """Write a snapshot of a ledger beside `path` and return the new file, complete and on the disk."""
    return write_new(path, scope, [("snapshot", rows) for rows in _batches(ledger.rows())], durable=durable)


def write_new(
    path: Path, scope: str, writes: Sequence[tuple[str, Sequence[Change]]], *, durable: bool, kept: int | None = None
) -> NewFile:
    """Write a journal of these writes beside `path` and return the new file."""
    generation, written = uuid.uuid4().hex, max([FIRST_FORMAT, *(format_of(changes) for _, changes in writes)])
    header = Header(format=written, scope=scope, generation=generation, kept=len(writes) if kept is None else kept)
    new = path.with_name(path.name + NEW)
    mode = private_mode(path)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        new.chmod(mode)
        file.write(with_sum(encode(header), scope))
        for number, (name, changes) in enumerate(writes, start=1):
            file.write(write_line(number, name, changes, scope))
        file.flush()
        size = file.tell()
        if durable:
            os.fsync(file.fileno())
    return NewFile(path=new, format=written, generation=generation, lines=len(writes), size=size)


def place_file(new: Path, *, durable: bool) -> None:
    """Move a new file into place."""
    place_draft(new, new.with_name(new.name.removesuffix(NEW)), durable=durable)


def _batches(changes: Iterator[Change]) -> Iterator[list[Change]]:
    while batch := list(islice(changes, _ROWS_A_LINE)):
        yield batch

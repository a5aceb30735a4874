"""Reads and writes the journals of a file store, and keeps a SQLite database that is made from them.

A journal is one file of JSON lines for a session or a world, which several processes share. The first line is a header.
Every other line is one numbered write, with the rows that it changed. A write is acknowledged only after its line is on the
disk. An incomplete last line was never acknowledged, so it is ignored, and the next write truncates it. A journal that has
doubled in size is compacted: all current rows are written to a new file, which replaces the old one.

The database contains the same rows for SQL, and how far each journal was read. It is only a cache. If it does not agree with
the files, it is made again from them. A damaged line is skipped and noted, and the lines after it are read. As long as a
journal has a damaged line, it is not compacted.

All functions here block. Functions that write are called inside a transaction, with the folder's lock held.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, fields, replace
from itertools import islice
from pathlib import Path

from mnemosyne.core.codec import decode, encode
from mnemosyne.core.errors import CodecError, DamagedRecordError
from mnemosyne.damage import DamageNote
from mnemosyne.files import NEW, make_private_folder, place_draft, private_mode, write_draft
from mnemosyne.stores.file.folder import Folder, outdated_error
from mnemosyne.stores.file.lines import (
    FORMAT,
    Header,
    Line,
    RowChange,
    read_columns,
    read_line,
    with_sum,
    without_sum,
    write_line,
)
from mnemosyne.stores.file.rows import AUDITS, Owner, RowTables, find_owner
from mnemosyne.stores.sqlite.file import SqliteConnection
from mnemosyne.values import dataclass

_ROWS_A_LINE = 50
_LOST_HEADER = "lost"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Journal:
    """A journal as it was last read or written; a row of the table `journals`."""

    name: str
    """Path of the journal below the folder."""
    tenant: str
    scope: str
    generation: str
    number: int = 0
    """Number of the last write."""
    lines: int = 0
    size: int = 0
    """Total length of the complete lines, in bytes."""
    kept_size: int = 0
    """Size of the journal when it was last written as a whole."""
    inode: int = 0
    stored_size: int = 0
    written_ns: int = 0
    notes: bytes = b"[]"
    """The notes on its damaged lines, as JSON."""

    @property
    def owner(self) -> Owner:
        """The tenant and the scope."""
        return Owner(tenant=self.tenant, scope=self.scope)


_COLUMNS = tuple(each.name for each in fields(_Journal))


class _BrokenError(Exception):
    """A journal does not continue its part that was read before."""


class Journals:
    """The journals of a folder, and the rows that one database connection has from them."""

    def __init__(self, folder: Folder, connection: SqliteConnection, *, compact_bytes: int) -> None:
        self._folder = folder
        self._driver = connection.driver
        self._tables = RowTables(connection.driver)
        self._compact_bytes = compact_bytes
        self._appended: list[tuple[Path, int]] = []
        self._is_rewritten = False
        self.notes: tuple[DamageNote, ...] = ()
        """Notes on all damaged lines."""
        self.is_remade = False
        """Whether the database was made again. Its file may then still contain bytes of deleted rows."""
        self._driver.execute(
            f"CREATE TABLE IF NOT EXISTS journals (name PRIMARY KEY, {', '.join(_COLUMNS[1:])}) WITHOUT ROWID"
        )

    def watch(self) -> None:
        """Record from now on which rows this connection writes."""
        self._tables.watch()

    def follow(self) -> None:
        """Update the database from the files.

        Lines that were appended are applied. After any other change of a file, all rows are made again.
        """
        stored = {each.name: each for each in self._read_table("")}
        found = {self._folder.name(Path(each.path)): each.stat() for each in self._folder.journals()}
        try:
            if stored.keys() - found.keys():
                raise _BrokenError
            for name, stat in found.items():
                journal = stored.get(name)
                if journal is None:
                    self._read_whole(name)
                elif (journal.inode, journal.stored_size, journal.written_ns) != _mark(stat):
                    self._read_appended(journal, stat)
        except _BrokenError:
            self._tables.clear()
            self._driver.execute("DELETE FROM journals")
            self.is_remade = True
            for name in found:
                self._read_whole(name)
        self._tables.forget_written()
        self.notes = tuple(
            note
            for each in self._read_table(" WHERE notes <> x'5b5d'")
            for note in decode(each.notes, tuple[DamageNote, ...])
        )

    def append_written(self, name: str) -> None:
        """Append the rows written in this transaction to their journals, and wait until they are on the disk.

        `name` is the name of the write in the lines. If an erasure deleted sessions or wrote an audit record, the
        journals are replaced instead.
        """
        written = self._tables.take_written()
        if not written.changes and not written.gone:
            return
        self._folder.begin_write()
        if written.gone or any(owner.scope == AUDITS for owner in written.changes):
            self._is_rewritten = True
            self._erase(written.gone, list(written.changes))
            return
        for owner, changes in written.changes.items():
            self._append(owner, name, changes)

    def write_all(self, owners: Sequence[Owner]) -> None:
        """Replace the journals of `owners` by their current rows, and `store.json` by its current format, in one step."""
        self._erase((), owners, sign=self._folder.write_new_sign())

    def end_write(self, *, is_committed: bool) -> None:
        """End a write. If not `is_committed` (its transaction failed), the lines that it appended are removed from the files.

        If the lines cannot be removed, the mark of an unfinished write stays, so the next write reads the files again.
        """
        appended, self._appended = self._appended, []
        is_rewritten, self._is_rewritten = self._is_rewritten, False
        if is_rewritten and not is_committed:
            return
        for path, size in () if is_committed else appended:
            if size:
                with path.open("r+b", buffering=0) as file:
                    file.truncate(size)
            else:
                path.unlink(missing_ok=True)
        self._folder.end_write()

    def raise_if_lost(self, owner: Owner) -> None:
        """Raise DamagedRecordError if the journal of `owner` is so damaged that it shows no session."""
        path = self._folder.path(owner)
        for note in self.notes if path.exists() else ():
            if not note.scope and note.path == str(path.parent) and note.what.endswith(f" of {path.name}"):
                raise DamagedRecordError(str(path), f"The journal of {owner.scope}", note.reason)

    def find_faults(self) -> Iterator[str]:
        """Read every line of all journals again, and yield a sentence for each line whose checksum does not fit."""
        for journal in self._read_table(""):
            path = self._folder.root / journal.name
            with path.open("rb") as file:
                for number, line in enumerate(file, start=1):
                    try:
                        if line.endswith(b"\n"):
                            without_sum(line, journal.owner.place)
                    except CodecError as error:
                        yield f"Line {number} of {path}: {error}"

    def _read_table(self, where: str) -> list[_Journal]:
        rows = self._driver.execute(f"SELECT {', '.join(_COLUMNS)} FROM journals{where}")
        return [_Journal(**dict(zip(_COLUMNS, row, strict=True))) for row in rows]

    def _find(self, owner: Owner) -> _Journal | None:
        rows = self._driver.execute(
            f"SELECT {', '.join(_COLUMNS)} FROM journals WHERE name = ?", (self._folder.name(self._folder.path(owner)),)
        ).fetchall()
        return _Journal(**dict(zip(_COLUMNS, rows[0], strict=True))) if rows else None

    def _store(self, journal: _Journal, stat: os.stat_result) -> None:
        inode, size, written_ns = _mark(stat)
        stored = replace(journal, inode=inode, stored_size=size, written_ns=written_ns)
        self._driver.execute(
            f"INSERT OR REPLACE INTO journals ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})",
            astuple(stored),
        )

    def _read_appended(self, journal: _Journal, stat: os.stat_result) -> None:
        """Apply the appended lines of a journal; _BrokenError if something else happened to it."""
        path = self._folder.root / journal.name
        if journal.inode != stat.st_ino or stat.st_size <= journal.size or journal.notes != b"[]":
            raise _BrokenError
        with path.open("rb") as file:
            try:
                if _read_header(file.readline(), path).generation != journal.generation:
                    raise _BrokenError
            except CodecError:
                raise _BrokenError from None
            file.seek(journal.size - 1)
            if file.read(1) != b"\n":
                raise _BrokenError
            for line in file:
                if not line.endswith(b"\n"):
                    break
                try:
                    read = read_line(line, journal.owner.place)
                except CodecError:
                    raise _BrokenError from None
                if read.n != journal.number + 1 or any(self._tables.apply(_changes_of(read))):
                    raise _BrokenError
                journal = replace(journal, number=read.n, lines=journal.lines + 1, size=journal.size + len(line))
        self._store(journal, stat)

    def _read_whole(self, name: str) -> None:
        """Apply all lines of a journal; damaged ones are noted and skipped."""
        path = self._folder.root / name
        with path.open("rb") as file:
            stat = os.fstat(file.fileno())
            head = file.readline()
            lines = list(file)
        try:
            header: Header | None = _read_header(head, path)
        except CodecError:
            header = None
        owner = _guess_owner(lines) if header is None else Owner(tenant=header.tenant, scope=header.scope)
        notes: list[DamageNote] = []
        journal = _Journal(
            name=name,
            tenant="" if owner is None else owner.tenant,
            scope="" if owner is None else owner.scope,
            generation=_LOST_HEADER if header is None else header.generation,
            size=len(head) if head.endswith(b"\n") else 0,
            lines=1,
        )
        is_ours = self._folder.path(journal.owner) == path
        reading = _Reading(path=path, scope=journal.scope if is_ours else "", notes=notes)
        if header is None:
            reading.note(1, "it is not a header of a journal", "The lines after it were read")
        elif not is_ours:
            reading.note(1, f"the file is the journal of {journal.scope}", "It was left out")
            lines = []
        kept: list[tuple[int, int, Line]] = []
        size, kept_size, number = journal.size, 0, 1
        for number, line in enumerate(lines, start=2):
            if not line.endswith(b"\n"):
                number -= 1
                break
            size += len(line)
            try:
                read = read_line(line, journal.owner.place)
                kept.append((read.n, number, read))
                kept_size = size if header is not None and read.n == header.kept else kept_size
            except CodecError as error:
                reading.note(number, str(error), "What it wrote is missing")
        last = self._apply_in_order(kept, reading)
        if notes and not self._tables.has_session(journal.owner):
            reading = replace(reading, scope="")
            reading.note(1, "the rows of its session are missing", "It is not among the sessions")
        if header is not None:
            self._tables.count_on(header.numbers)
        self._store(
            replace(
                journal,
                number=max(last, number - 1),
                lines=number,
                size=size,
                kept_size=kept_size,
                notes=encode(notes),
            ),
            stat,
        )

    def _apply_in_order(self, lines: Sequence[tuple[int, int, Line]], reading: _Reading) -> int:
        """Apply lines, given with their numbers as writes and in the file; note missing, repeated and misplaced ones.
        Return the number of the last write.
        """
        last = 0
        for place, (count, number, line) in enumerate(sorted(lines, key=lambda each: each[:2])):
            if count <= last:
                reading.note(number, f"write {count} is there twice", "It counts once")
                continue
            if count != last + 1:
                missing = f"write {last + 1}" + (f" to {count - 1}" if count > last + 2 else "")
                reading.note(number, f"{missing} before it is missing", "It was read without it")
            elif lines[place][1] != number:
                reading.note(number, "the lines are not in their order", "They were read in the order of their numbers")
            try:
                for change, reason in self._tables.apply(_changes_of(line)):
                    what = f"its row of {change.table} cannot be used: {reason}"
                    reading.note(number, what, "This part of it is missing")
            except CodecError as error:
                reading.note(number, str(error), "What it wrote is missing")
            last = count
        return last

    def _append(self, owner: Owner, name: str, changes: Sequence[RowChange]) -> None:
        journal, path = self._find(owner), self._folder.path(owner)
        if journal is None:
            make_private_folder(path.parent.parent)
            make_private_folder(path.parent)
            self._appended.append((path, 0))
            self._place(self._write_new(owner, ((name, batch) for batch in _batches(iter(changes))), kept=0))
            return
        if journal.notes != b"[]":
            self.raise_if_lost(owner)
        line = write_line(journal.number + 1, name, changes, owner.place)
        with path.open("r+b", buffering=0) as file:
            if journal.stored_size > journal.size:
                file.truncate(journal.size)
            file.seek(journal.size)
            self._appended.append((path, journal.size))
            done = 0
            while done < len(line):
                done += file.write(line[done:]) or 0
            if self._folder.durable:
                os.fsync(file.fileno())
            stat = os.fstat(file.fileno())
        journal = replace(journal, number=journal.number + 1, lines=journal.lines + 1, size=journal.size + len(line))
        self._store(journal, stat)
        if journal.size > max(self._compact_bytes, 2 * journal.kept_size) and journal.notes == b"[]":
            self._is_rewritten = True
            self._place(self._write_snapshot(owner))

    def _erase(self, gone: Sequence[Owner], kept: Sequence[Owner], sign: Path | None = None) -> None:
        """Write all current rows of journals to new files, and remove others, in one step."""
        self._folder.sweep()
        for owner in kept:
            make_private_folder(self._folder.path(owner).parent.parent)
            make_private_folder(self._folder.path(owner).parent)
        new = [self._write_snapshot(owner) for owner in kept]
        replaced = [self._folder.path(each.owner) for each in new]
        self._folder.replace([*map(self._folder.path, gone)], replaced if sign is None else [sign, *replaced])
        for owner in gone:
            name = self._folder.name(self._folder.path(owner))
            self._driver.execute("DELETE FROM journals WHERE name = ?", (name,))
        for journal in new:
            self._store(journal, self._folder.path(journal.owner).stat())

    def _place(self, journal: _Journal) -> None:
        path = self._folder.path(journal.owner)
        place_draft(path.with_name(path.name + NEW), path, durable=self._folder.durable)
        self._store(journal, path.stat())

    def _write_snapshot(self, owner: Owner) -> _Journal:
        """Write all current rows of a journal next to its file."""
        rows = self._tables.read_all(owner)
        return self._write_new(owner, (("snapshot", batch) for batch in _batches(rows)))

    def _write_new(
        self, owner: Owner, writes: Iterable[tuple[str, Sequence[RowChange]]], kept: int | None = None
    ) -> _Journal:
        """Write a journal next to its file, complete and on the disk."""
        path = self._folder.path(owner)
        new, mode, place = path.with_name(path.name + NEW), private_mode(path), owner.place
        lines = [write_line(number, name, rows, place) for number, (name, rows) in enumerate(writes, start=1)]
        for line in lines:
            read_line(line, place)  # a row that the database no longer reads well must not replace what the file has
        header = Header(
            format=FORMAT,
            tenant=owner.tenant,
            scope=owner.scope,
            generation=uuid.uuid4().hex,
            kept=len(lines) if kept is None else kept,
            numbers=self._tables.numbers(),
        )
        data = [with_sum(encode(header), place), *lines]
        write_draft(path, data, private=True, durable=self._folder.durable, name=new.name)
        new.chmod(mode)
        size = sum(map(len, data))
        return _Journal(
            name=self._folder.name(path),
            tenant=owner.tenant,
            scope=owner.scope,
            generation=header.generation,
            number=len(lines),
            lines=len(lines) + 1,
            size=size,
            kept_size=size if kept is None else 0,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Reading:
    """A journal while it is read, and the notes on its damage."""

    path: Path
    scope: str
    notes: list[DamageNote]

    def note(self, number: int, reason: str, effect: str) -> None:
        """Note the fault of a line."""
        what = f"Line {number} of {self.path.name}"
        self.notes.append(
            DamageNote(scope=self.scope, what=what, reason=reason, path=str(self.path.parent), effect=effect)
        )


def _mark(stat: os.stat_result) -> tuple[int, int, int]:
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _read_header(line: bytes, path: Path) -> Header:
    """Return the header in a first line; CodecError if it is damaged, StoreUnavailableError for another format."""
    header = decode(line, Header)
    if header.format != FORMAT:
        raise outdated_error(path, header.format)
    without_sum(line, Owner(tenant=header.tenant, scope=header.scope).place)
    return header


def _guess_owner(lines: Sequence[bytes]) -> Owner | None:
    """Return the journal of lines whose header is lost."""
    for line in lines:
        try:
            owner = find_owner(_changes_of(decode(line, Line)))
            if owner is not None:
                read_line(line, owner.place)
                return owner
        except CodecError:
            continue
    return None


def _changes_of(line: Line) -> list[RowChange]:
    return [RowChange(table=table, did=did, columns=read_columns(cells)) for table, did, cells in line.rows]


def _batches(changes: Iterator[RowChange]) -> Iterator[list[RowChange]]:
    while batch := list(islice(changes, _ROWS_A_LINE)):
        yield batch

"""Reads a Markdown or text file, or a folder of them, as a book of lore. Each heading of the top two levels becomes an entry."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mnemosyne.core.errors import CorpusError
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.formats.notes.entries import MOST_TITLE_CHARS, build_entry, count_text, key_habits, title_of
from mnemosyne.formats.notes.fields import canonical_front
from mnemosyne.formats.notes.folder import MOST_NAMED, FolderFile, PassedBy, list_files
from mnemosyne.formats.notes.front_matter import Note, read_note
from mnemosyne.formats.notes.text import clean_text, iter_headings
from mnemosyne.schema.imported_files import BookEntry, ImportedFile, WorldBook
from mnemosyne.values import dataclass

FORMAT = "markdown"
ENDINGS = (".md", ".markdown", ".txt")
MOST_ENTRIES = 200_000
_MOST_CHARS = 400_000_000
_LEVELS = 2
_BETWEEN = " > "


def is_markdown(path: Path) -> bool:
    """Return whether `path` is a file with an ending of Markdown or text, or a folder that contains one."""
    if path.is_dir():
        try:
            return bool(list_files(path, ENDINGS, PassedBy()))
        except CorpusError:
            return False
    return path.suffix.lower() in ENDINGS and path.is_file()


def read_markdown(path: Path) -> ImportedFile:
    """Return the text of a file, or of the files of a folder, as one book, in the order of names and lines.

    An entry is the text below a heading of the two highest levels in its file. Its title is the path of headings, and its
    last heading is a key. Text above the first heading becomes an entry with the title of the file. Front matter applies
    to all entries of its file. The uid of an entry is the name of the file and the title.

    In a folder, a file that cannot be read is skipped and reported. Raises CorpusError if `path` is a file that cannot be
    read, or a folder without text.
    """
    passed = PassedBy()
    notes = _read_folder(path, passed) if path.is_dir() else [read_note(path, path.name)]
    habits = key_habits(canonical_front(note.front) for note in notes)
    counter = FieldCounter()
    named: set[str] = set()
    faults: list[str] = []
    entries: dict[str, BookEntry] = {}
    for note in notes:
        faults += note.faults
        clean = clean_text(note.text, has_comments=False)
        count_text(clean, counter)
        own = title_of(note.front, (Path(note.name).stem,))
        for part in split_text(clean.text):
            titles = tuple(title for title in part.titles if title)
            title = _BETWEEN.join(titles or (own,))[:MOST_TITLE_CHARS]
            uid = _free_uid(f"{note.name}#{title}" if titles else note.name, entries)
            entry = build_entry(uid, note, title, part.text, habits, counter, dialect=FORMAT, named=named)
            keys = [*entry.fields["key"]]
            key = titles[-1] if titles else own
            fields = {**entry.fields, "key": [*(each for each in keys if each not in (title, key)), key]}
            entries[uid] = BookEntry(uid=uid, fields=fields)
            if len(entries) > MOST_ENTRIES:
                raise CorpusError(f"{path}: has more than {MOST_ENTRIES:,} headings; import a part of it.")
    if not entries:
        raise CorpusError(f"{path}: holds no text. {' '.join(passed.notes())}".rstrip())
    book = WorldBook(name=_book_name(path), dialect=FORMAT, entries=tuple(entries.values()))
    more = [f"and {len(faults) - MOST_NAMED:,} more faults of this kind."] if len(faults) > MOST_NAMED else []
    notes_of_file = (*faults[:MOST_NAMED], *more, *passed.notes())
    return ImportedFile(path=str(path), format=FORMAT, books=(book,), fates=counter.fates(), notes=notes_of_file)


@dataclass(frozen=True, kw_only=True, slots=True)
class TextPart:
    """A part of a text. `titles` are the headings above the part, highest first; it is empty for text above the first heading."""

    titles: tuple[str, ...]
    text: str


def split_text(text: str) -> Iterator[TextPart]:
    """Yield the parts of a Markdown text that are not empty, in order. The text is cut at the headings of its two highest
    levels.
    """
    headings = list(iter_headings(text))
    levels = sorted({heading.level for heading in headings})[:_LEVELS]
    cuts = [heading for heading in headings if heading.level in levels]
    first = text[: cuts[0].start if cuts else len(text)].strip()
    if first:
        yield TextPart(titles=(), text=first)
    above = ""
    for place, heading in enumerate(cuts):
        is_top = heading.level == levels[0]
        above = heading.title if is_top else above
        end = cuts[place + 1].start if place + 1 < len(cuts) else len(text)
        if below := text[heading.end : end].strip():
            yield TextPart(titles=(heading.title,) if is_top else (above, heading.title), text=below)


def _read_folder(folder: Path, passed: PassedBy) -> list[Note]:
    notes: list[Note] = []
    size = 0
    for file in list_files(folder, ENDINGS, passed):
        note = _read(file, passed)
        if note is None:
            continue
        size += len(note.text)
        if size > _MOST_CHARS:
            raise CorpusError(f"{folder}: its files have more than {_MOST_CHARS:,} characters; import a part of it.")
        notes.append(note)
    return notes


def _read(file: FolderFile, passed: PassedBy) -> Note | None:
    try:
        return read_note(file.path, file.name)
    except CorpusError as error:
        passed.add("they cannot be read", str(error).rstrip("."))
        return None


def _free_uid(uid: str, entries: dict[str, BookEntry]) -> str:
    number, free = 1, uid
    while free in entries:
        number += 1
        free = f"{uid} ({number})"
    return free


def _book_name(path: Path) -> str:
    whole = path.resolve()
    return (whole.name if path.is_dir() else whole.stem) or "notes"

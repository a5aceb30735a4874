"""Reads an Obsidian vault (a folder of notes with front matter) as one book of lore, with an entry for each note.

The module reads the front matter of Obsidian (`title`, `aliases`, `tags`) and the fields of vaults that are used as lorebooks
(`keys`, `priority`, `constant`, `enabled`, `probability`, … and the tags `lorebook`, `lorebook-always`, `lorebook-never`). If a
note of the vault has a tag `lorebook` or `lorebook-…`, only the notes with such a tag are entries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from mnemosyne.core.errors import CorpusError
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.formats.notes.entries import build_entry, count_text, key_habits, open_comments, title_of
from mnemosyne.formats.notes.fields import LOREBOOK_TAG, canonical_front, tags_of
from mnemosyne.formats.notes.folder import MOST_NAMED, FolderFile, PassedBy, list_files
from mnemosyne.formats.notes.front_matter import Note, read_note
from mnemosyne.formats.notes.text import clean_text, first_heading
from mnemosyne.formats.safe_files import read_file_bytes
from mnemosyne.schema.imported_files import BookEntry, ImportedFile, WorldBook

FORMAT = "obsidian"
MOST_VAULT_CHARS = 400_000_000
"""Maximum number of characters in the notes of a vault, because all of them are in memory at once."""
_SETTINGS = ".obsidian"
_ENDINGS = (".md",)
_MOST_LOOKED_AT = 200
_SEVERAL = 2


def is_vault(folder: Path) -> bool:
    """Return whether a folder is a vault: it contains the folder `.obsidian`, or at least two notes with front matter.

    In a large folder only the first notes are examined. Return False if the folder cannot be read.
    """
    try:
        if (folder / _SETTINGS).is_dir():
            return True
        files = list_files(folder, _ENDINGS, PassedBy()) if folder.is_dir() else []
    except (CorpusError, OSError):
        return False
    count = 0
    for file in files[:_MOST_LOOKED_AT]:
        count += _begins_with_front_matter(file)
        if count >= _SEVERAL:
            return True
    return False


def read_vault(folder: Path) -> ImportedFile:
    """Return the notes of a vault as one book, in the order of their names. The book has the name of the folder.

    The uid of an entry is the path of its note in the vault, without `.md`. A note that cannot be read or is not an entry
    is skipped and reported. Raises CorpusError if the folder cannot be read, is too large, or has no note that is an
    entry.
    """
    passed = PassedBy()
    notes = _choose_entries(list(_read_notes(folder, passed)), passed)
    if not notes:
        raise CorpusError(f"{folder}: holds no note that can be read as an entry. {' '.join(passed.notes())}".rstrip())
    habits = key_habits(canonical_front(note.front) for note in notes)
    counter = FieldCounter()
    named: set[str] = set()
    faults: list[str] = []
    entries: list[BookEntry] = []
    for note in notes:
        clean = clean_text(note.text, has_comments=True)
        faults += (*note.faults, *open_comments(note, clean))
        text = clean.text.strip()
        heading = first_heading(text)
        title = title_of(note.front, (heading.title if heading else "", Path(note.name).stem))
        if heading and heading.start == 0 and heading.level == 1 and heading.title.casefold() == title.casefold():
            text = text[heading.end :].strip()
        count_text(clean, counter)
        uid = note.name[: -len(".md")]
        entries.append(build_entry(uid, note, title, text, habits, counter, dialect=FORMAT, named=named))
    book = WorldBook(name=folder.resolve().name or "vault", dialect=FORMAT, entries=tuple(entries))
    remarks = (*faults[:MOST_NAMED], *_count_more(faults), *passed.notes(), *_doubtful(entries))
    return ImportedFile(path=str(folder), format=FORMAT, books=(book,), fates=counter.fates(), notes=remarks)


def _read_notes(folder: Path, passed: PassedBy) -> Iterator[Note]:
    size = 0
    for file in list_files(folder, _ENDINGS, passed):
        try:
            note = read_note(file.path, file.name)
        except CorpusError as error:
            passed.add("they cannot be read", str(error).rstrip("."))
            continue
        size += len(note.text)
        if size > MOST_VAULT_CHARS:
            raise CorpusError(
                f"{folder}: its notes have more than {MOST_VAULT_CHARS:,} characters; import a part of it."
            )
        yield note


def _choose_entries(notes: list[Note], passed: PassedBy) -> list[Note]:
    """Return the notes that are entries. These are all notes, or only the notes with a tag `lorebook` if at least one has it."""
    tagged = [note for note in notes if _has_lorebook_tag(note)]
    if not tagged:
        return notes
    chosen = {note.name for note in tagged}
    for note in notes:
        if note.name not in chosen:
            passed.add(f"they do not have the tag `{LOREBOOK_TAG}`, and others do", note.name)
    return tagged


def _has_lorebook_tag(note: Note) -> bool:
    return any(tag.split("-", 1)[0] == LOREBOOK_TAG for tag in tags_of(canonical_front(note.front)))


def _begins_with_front_matter(file: FolderFile) -> bool:
    try:
        head = read_file_bytes(file.path, 8, whole=False)
    except CorpusError:
        return False
    return head.removeprefix(b"\xef\xbb\xbf").startswith((b"---\n", b"---\r\n"))


def _count_more(faults: list[str]) -> Iterator[str]:
    if len(faults) > MOST_NAMED:
        yield f"and {len(faults) - MOST_NAMED:,} more faults of this kind."


def _doubtful(entries: list[BookEntry]) -> Iterator[str]:
    """Yield sentences on imported entries that may not work as their author expects."""
    empty = [entry.uid for entry in entries if not entry.fields["content"]]
    silent = [entry.uid for entry in entries if not entry.fields["key"] and entry.fields.get("constant") is not True]
    titles = Counter(str(entry.fields["comment"]).casefold() for entry in entries)
    twice = [entry.uid for entry in entries if titles[str(entry.fields["comment"]).casefold()] > 1]
    for names, sentence in (
        (empty, "have no text"),
        (silent, "have no keys: they are found by relevance alone"),
        (twice, "share their title with another note"),
    ):
        if names:
            more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
            yield f"{len(names):,} notes {sentence}: {', '.join(names[:MOST_NAMED])}{more}"

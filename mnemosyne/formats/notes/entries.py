"""Makes entries of a book of lore from notes, and counts which parts of a note were kept, changed or refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mnemosyne.formats.losses import FieldCounter, count_macros
from mnemosyne.formats.notes.fields import PATH, KeyHabits, canonical_front, names_keys, note_fields, tags_of
from mnemosyne.formats.notes.front_matter import Note
from mnemosyne.formats.notes.text import BOX, COMMENT, EMBED, LINK, PICTURE, CleanText
from mnemosyne.schema.imported_files import BookEntry

MOST_TITLE_CHARS = 200
_TEXT_NOTES = {
    LINK: "became the text that they show",
    EMBED: "became the name of the note; its text is not copied in",
    PICTURE: "pictures and other files are not shown; left out",
    BOX: "tags that only set a text apart; the text within is kept",
    COMMENT: "comments are not shown; left out",
}


def key_habits(fronts: Iterable[Mapping[str, Any]]) -> KeyHabits:
    """Return the way in which the notes of a folder get their keys, from the front matter of all notes.

    Front matter is the block of fields at the top of a note. Each item of `fronts` is a result of `canonical_front`.
    """
    has_keys = False
    tags = Counter[str]()
    for front in fronts:
        has_keys = has_keys or names_keys(front)
        tags.update(set(tags_of(front)))
    return KeyHabits(has_keys=has_keys, own_tags=frozenset(tag for tag, count in tags.items() if count == 1))


def title_of(front: Mapping[str, Any], others: Iterable[str]) -> str:
    """Return the title in the front matter, or else the first of `others` that is not empty, as one line."""
    given = front.get("title")
    written = "" if given is None or isinstance(given, bool | list | dict) else str(given)
    return next((title for each in (written, *others) if (title := " ".join(each.split())[:MOST_TITLE_CHARS])), "note")


def build_entry(
    uid: str,
    note: Note,
    title: str,
    text: str,
    habits: KeyHabits,
    counter: FieldCounter,
    *,
    dialect: str,
    named: set[str],
) -> BookEntry:
    """Return the entry of a note, or of a part of a note, and count its fields.

    Fields without a native meaning are kept under the name `dialect` of the format. `habits` says how the notes of the folder get
    their keys. `named` are the field names that were counted so far.
    """
    fields = note_fields(canonical_front(note.front), title, habits, counter, dialect, named)
    fields[dialect] = {"file": note.name, **fields[dialect]}
    counter.keep(f"{PATH}text", text)
    count_macros((text,), f"{PATH}text", counter)
    count_macros(fields["key"], f"{PATH}keys", counter)
    return BookEntry(uid=uid, fields={**fields, "content": text})


def count_text(clean: CleanText, counter: FieldCounter) -> None:
    """Count the replacements that `clean_text` made in a text."""
    for kind, count in clean.counts.items():
        for _ in range(count):
            if kind in (PICTURE, COMMENT):
                counter.refuse(f"{PATH}text: {kind}", note=_TEXT_NOTES[kind])
            else:
                counter.change(f"{PATH}text: {kind}", note=_TEXT_NOTES[kind])


def open_comments(note: Note, clean: CleanText) -> Iterator[str]:
    """Yield a sentence if a comment in a note does not end."""
    if clean.open_comment >= 0:
        line = note.text_line + note.text.count("\n", 0, clean.open_comment)
        yield f"{note.name}:{line}: a comment %% never ends; its text was kept."

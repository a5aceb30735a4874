"""The importer `sample`: a text of lines `NAME: what they say`; the first who speaks is the user. `sample:lore` reads lines
`KEY = TEXT` as a book of lore.
"""

from __future__ import annotations

from pathlib import Path

from mnemosyne import (
    CorpusError,
    Message,
    Role,
    SessionStart,
)
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.schema.imported_files import BookEntry, ImportedFile, WorldBook
from mnemosyne.schema.record import ImportedConversation, ImportedConversations, ImportedTurn, ImportRequest


class DialogueImporter:
    """An importer of one conversation, or of one book of lore, a file."""

    def __init__(self, argument: str) -> None:
        self._is_lore = argument == "lore"
        self._locale = "en" if self._is_lore else argument or "en"

    def read(self, path: Path, request: ImportRequest) -> ImportedConversations | ImportedFile:
        """Return what a file holds; lines that nobody speaks are left out and told."""
        return _read_book(path) if self._is_lore else self._read_dialogue(path, request)

    def _read_dialogue(self, path: Path, request: ImportRequest) -> ImportedConversations:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise CorpusError(f"{path}: cannot be read ({error.strerror}).") from error
        spoken = [(place, *line.split(": ", 1)) for place, line in enumerate(lines, 1) if ": " in line]
        if not spoken:
            raise CorpusError(f"{path}: no line is written as `NAME: what they say`.")
        users = request.users or (spoken[0][1],)
        turns = tuple(
            ImportedTurn(
                turn_id=f"line{place}",
                messages=(
                    Message(
                        role=Role.USER if speaker in users else Role.ASSISTANT,
                        content=text,
                        message_id=f"line{place}.m",
                    ),
                ),
            )
            for place, speaker, text in spoken
        )
        start = SessionStart(
            session_id=request.session_id or path.stem, world_id="", locale=self._locale, state={}, turns=turns
        )
        left_out = len([line for line in lines if line.strip()]) - len(spoken)
        notes = (f"{path.name}: {left_out} lines that nobody speaks were left out",) if left_out else ()
        return ImportedConversations(conversations=(ImportedConversation(start=start, notes=notes),))


def _read_book(path: Path) -> ImportedFile:
    counter, entries = FieldCounter(), []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        key, _, text = (part.strip() for part in line.partition("="))
        counter.keep("KEY", key)
        counter.keep("TEXT", text)
        entries.append(BookEntry(uid=str(number), fields={"key": [key], "content": text}))
    book = WorldBook(name=path.stem, dialect="sample", entries=tuple(entries))
    return ImportedFile(path=str(path), format="sample:lore", books=(book,), fates=counter.fates())

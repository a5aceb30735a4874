"""The importer `sample`: a text of lines `NAME: what they say`; the first who speaks is the user."""

from __future__ import annotations

from pathlib import Path

from mnemosyne import (
    CorpusError,
    ImportedConversation,
    ImportedConversations,
    ImportedTurn,
    ImportRequest,
    Message,
    Role,
    SessionStart,
)


class DialogueImporter:
    """An importer of one conversation a file."""

    def __init__(self, argument: str) -> None:
        self._locale = argument or "en"

    def read(self, path: Path, request: ImportRequest) -> ImportedConversations:
        """Return the conversation of a file; lines that nobody speaks are left out and told."""
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

"""Imports normalised corpora: chooses the sessions to create, and reports who is the user in each."""

from __future__ import annotations

from pathlib import Path

from mnemosyne.core.errors import CorpusError
from mnemosyne.formats.corpora.corpus import (
    Corpus,
    Speakers,
    check_speakers,
    corpus_file,
    read_corpus,
    speakers_of,
    to_session,
)
from mnemosyne.schema.record import ImportedConversation, ImportedConversations, ImportRequest

_REASONS = {
    "role": "as the file says",
    "asked": "as you say",
    "name": "by their names",
    "first": "the first speaker was taken for the user",
}


class CorpusImporter:
    """Imports a `corpus.jsonl`, or a folder that contains one. Each session that the corpus names becomes a session."""

    def read(self, path: Path, request: ImportRequest) -> ImportedConversations:
        """Return the requested sessions of a corpus, in the order of its file, each with a note on who is the user.

        Raises CorpusError if `read_corpus` does, or if the request names a session or a speaker that the corpus does not
        contain.
        """
        corpus = read_corpus(corpus_file(path))
        wanted = _choose_sessions(path, corpus, request)
        check_speakers(corpus, wanted, [*request.users, *request.assistants])
        conversations = []
        has_guessed = False
        for name in wanted:
            start = to_session(
                corpus,
                name,
                session_id=request.session_id or name,
                user=request.users,
                assistant=request.assistants,
            )
            speakers = speakers_of(corpus.entries_for(name), user=request.users, assistant=request.assistants)
            has_guessed = has_guessed or speakers.reason in ("first", "name")
            notes = (f"session {start.session_id}: {_describe_speakers(speakers)}",) if speakers.reason else ()
            conversations.append(ImportedConversation(start=start, notes=notes))
        advice = 'To say it yourself, import into a new session with --user NAME, or write "role" into the lines.'
        return ImportedConversations(conversations=tuple(conversations), notes=(advice,) if has_guessed else ())


def _choose_sessions(path: Path, corpus: Corpus, request: ImportRequest) -> list[str | None]:
    """Return the names of the requested sessions. Raises CorpusError if the request names an unknown one."""
    session, only = request.session_id, request.only
    if only is not None or session in corpus.sessions:
        return [only or session]
    if session is None:
        return [*corpus.sessions] or [None]
    if len(corpus.sessions) > 1:
        known = ", ".join(corpus.sessions[:8])
        raise CorpusError(f"{path}: no session {session!r} in it; choose one with --only. It has: {known}.")
    return [*corpus.sessions] or [None]


def _describe_speakers(speakers: Speakers) -> str:
    named = [", ".join(name or "who has no name" for name in names) for names in (speakers.users, speakers.assistants)]
    told = f"user: {named[0] or 'nobody'}; assistant: {named[1] or 'nobody'}"
    return f"{told} ({_REASONS[speakers.reason]})"

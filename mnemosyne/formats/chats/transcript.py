"""Reads transcripts: plain text in which each speech begins with `NAME: ` (or `名字：`), with or without a time before the
name.

A speech continues over lines and paragraphs until the next speech begins.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from functools import partial
from io import StringIO
from pathlib import Path

from mnemosyne.core.errors import CorpusError
from mnemosyne.core.plain_values import make_plain
from mnemosyne.formats.chats.chat_lists import make_message
from mnemosyne.formats.chats.send_dates import read_date
from mnemosyne.formats.chats.turns import SaidMessage, chat_key, group_turns
from mnemosyne.formats.corpora.corpus import Speakers, tell_speakers
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.formats.safe_files import decode_text, read_file_bytes
from mnemosyne.schema.imported_files import Chat, ImportedFile
from mnemosyne.schema.record import ImportedTurn, ImportRequest
from mnemosyne.schema.session import Role
from mnemosyne.values import dataclass

FORMAT = "transcript"
_MOST_NAMES = 200
_HEAD_LINES = 40
_MOST_WORDS = 4
_TIME = (
    r"(?:[\[(（【](?P<time>\d[^\])）】\n]{0,40})[\])）】][ \t]?"
    r"|(?P<bare>\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?)[ \t](?:[-\u2013][ \t])?)?"
)
_NAME = r"(?:\*\*)?(?P<name>[^\W\d_][^:：\[\]()（）【】<>{}\"“”。，,;；!?！？\n]{0,39})"
_START = re.compile(rf"[ \t]{{0,8}}{_TIME}{_NAME}[:：](?!//)(?:\*\*)?[ \t]{{0,4}}(?P<text>.*)", re.DOTALL)
_LABELS = frozenset(
    (
        *(
            "note",
            "notes",
            "ps",
            "p.s.",
            "warning",
            "example",
            "examples",
            "edit",
            "update",
            "tip",
            "todo",
            "summary",
            "http",
        ),
        *(
            "https",
            "ooc",
            "title",
            "date",
            "time",
            "注",
            "备注",
            "注意",
            "例如",
            "比如",
            "提示",
            "总结",
            "标题",
            "时间",
            "日期",
        ),
    )
)
_REASONS = {
    "asked": "as you say",
    "name": "by their names",
    "first": "the first speaker was taken for the user",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Speech:
    """One speech. `time` is the text of the time before the name, or empty."""

    name: str
    text: str
    time: str = ""


def looks_like_transcript(head: str) -> bool:
    """Return whether the text that begins with `head` is a transcript.

    The first line must begin a speech, and the first lines must have speeches of at least two speakers.
    """
    lines = [line for line in head.splitlines() if line.strip()][:_HEAD_LINES]
    found = [speech for line in lines if (speech := _start_of(line, ())) is not None]
    if not lines or _start_of(lines[0], ()) is None:
        return False
    return len({speech.name for speech in found}) >= 2 and len(found) * 4 >= len(lines)


def read_transcript(path: Path, request: ImportRequest) -> ImportedFile:
    """Return the chat of a transcript. `request` may say which speakers are users and which are assistants. If it does not,
    `tell_speakers` decides.

    Raises CorpusError if nobody speaks in the file, if the file has too many speakers, or if a name of the request does
    not occur in it.
    """
    asked = (*request.users, *request.assistants)
    counter = FieldCounter()
    names: dict[str, None] = {}
    first: Speech | None = None
    started: datetime | None = None
    known = find_speakers(_lines(path), asked)
    if len(known) > _MOST_NAMES:
        raise CorpusError(f"{path}: has more than {_MOST_NAMES} speakers, so it is not a transcript of a chat.")
    for speech in split_speech(_lines(path), known):
        first = first or speech
        counter.keep("speech", speech.text)
        at = read_date(speech.time)
        started = started or at
        if at is not None:
            counter.keep("time", speech.time)
        else:
            counter.change("time", speech.time, "no date that is known; kept beside the message")
        names[speech.name] = None
    if first is None:
        raise CorpusError(f"{path}: nobody speaks in it. Begin each speech with the name of the speaker and a colon.")
    for name in asked:
        if name not in names:
            raise CorpusError(f"{path}: {name!r} is not a speaker in it. Its speakers: {', '.join([*names][:8])}.")
    speakers = tell_speakers([*names], user=request.users, assistant=request.assistants)
    users = frozenset(name for name in speakers.users if name is not None)
    key = chat_key(FORMAT, first.name, first.text)
    read = partial(_read_turns, path, known, key, users)
    chat = Chat(
        name=path.stem,
        read_turns=read,
        turn_count=sum(1 for _ in read()),
        user_name=next(iter(name for name in names if name in users), ""),
        character_names=tuple(name for name in names if name not in users),
        started_at=started,
    )
    return ImportedFile(
        path=str(path), format=FORMAT, chats=(chat,), fates=counter.fates(), notes=(_describe(speakers),)
    )


def split_speech(lines: Iterable[str], names: Collection[str]) -> Iterator[Speech]:
    """Yield the speeches of a text. A line that begins with one of `names` and a colon begins a speech.

    Lines before the first speech are skipped.
    """
    current: Speech | None = None
    held: list[str] = []
    for line in lines:
        start = _start_of(line, names)
        if start is None or start.name not in names:
            held.append(line)
            continue
        if current is not None and (text := "\n".join(held).strip()):
            yield Speech(name=current.name, text=text, time=current.time)
        current, held = start, [start.text]
    if current is not None and (text := "\n".join(held).strip()):
        yield Speech(name=current.name, text=text, time=current.time)


def find_speakers(lines: Iterable[str], asked: Collection[str] = ()) -> frozenset[str]:
    """Return the names of the speakers in a transcript. A name before a colon is a speaker's if one of these holds:
    - the line begins a paragraph or has a time before the name,
    - the line directly follows a speech of one line,
    - the name occurred before, or is in `asked`.

    If fewer than two names are found, all names before a colon are returned.
    """
    counts: Counter[str] = Counter()
    sure: set[str] = set()
    is_inside = False
    for line in lines:
        start = _start_of(line, asked)
        if start is None:
            is_inside = bool(line.strip())
            continue
        counts[start.name] += 1
        if not is_inside or start.time or start.name in asked or counts[start.name] > 1:
            sure.add(start.name)
        is_inside = is_inside and start.name not in sure
    return frozenset(sure if len(sure) > 1 else counts)


def _start_of(line: str, names: Collection[str]) -> Speech | None:
    found = _START.match(line)
    if found is None:
        return None
    name = found["name"].strip().removesuffix("**").rstrip()
    if name not in names and not _is_name(name):
        return None
    return Speech(name=name, text=found["text"], time=found["time"] or found["bare"] or "")


def _is_name(name: str) -> bool:
    """Return whether a text before a colon may be the name of a speaker: few words, and several words only if each is
    capitalised.
    """
    words = name.split()
    if not words or len(words) > _MOST_WORDS or name.casefold() in _LABELS:
        return False
    return len(words) == 1 or all(not word[0].islower() for word in words)


def _lines(path: Path) -> Iterator[str]:
    return (line.removesuffix("\n") for line in StringIO(decode_text(read_file_bytes(path), str(path)), newline=None))


def _read_turns(path: Path, names: Collection[str], key: str, users: frozenset[str]) -> Iterator[ImportedTurn]:
    return group_turns(key, (_to_message(speech, users) for speech in split_speech(_lines(path), names)))


def _to_message(speech: Speech, users: frozenset[str]) -> SaidMessage:
    role = Role.USER if speech.name in users else Role.ASSISTANT
    rest = {"time": make_plain(speech.time)} if speech.time and read_date(speech.time) is None else {}
    return SaidMessage(message=make_message(role, speech.text, speech.name, date=speech.time, source=FORMAT, rest=rest))


def _describe(speakers: Speakers) -> str:
    named = [", ".join(name or "" for name in names) for names in (speakers.users, speakers.assistants)]
    told = f"user: {named[0] or 'nobody'}; assistant: {named[1] or 'nobody'}"
    return f"{told} ({_REASONS.get(speakers.reason, 'as the file says')})"

"""Removes lines that a client (not the user) writes into the user's messages: reminders, and an instruction at the end
or the beginning of each message. Also separates messages that a client merged into one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from jacquard.service.proxy.alignment import Alignment, Relation
from jacquard.service.proxy.message_forms import MessageForm, form_of
from mnemosyne.chains.messages.exchanges import digest_of, loose_words, shown_text, without_name
from mnemosyne.schema.session import Message, Role

CLIENT_LINES = "client_lines"
"""Key in the `extra` of a user's message. Its value is the digests of the removed lines."""
MOST_RECENT = 6
"""Number of newest stored user messages whose recorded lines (CLIENT_LINES) are searched for."""

_REMINDER = re.compile(r"<(system-reminder|system_reminder|environment_details|ide_opened_file|ide_selection)>")


def without_reminders(message: Message) -> Message:
    """Return `message` without the reminders that coding agents put into user messages. If nothing would remain, return
    `message` unchanged.
    """
    text = message.content
    if message.role is not Role.USER or "<" not in text:
        return message
    kept, at = list[str](), 0
    for found in _REMINDER.finditer(text):
        if found.start() < at:
            continue
        end = text.find(f"</{found[1]}>", found.end())
        if end < 0:
            break
        kept.append(text[at : found.start()])
        at = end + len(found[1]) + 3
    rest = "".join((*kept, text[at:])).strip()
    return replace(message, content=rest) if at and rest else message


def find_instruction(
    user: MessageForm,
    before: Sequence[MessageForm],
    stored: Sequence[Message],
    forms: Sequence[MessageForm],
    found: Alignment,
) -> frozenset[str]:
    """Return the digests of the lines that the client adds to each call. A line counts as added by the client if one of
    three signs is found:

    1. The line was removed from stored messages before. 2. The client showed the line in an earlier user message, and
    now shows this message without the line. 3. The newest message repeats a user message that the client no longer
    shows at its old place, and the user message before it has no reply. Then all lines of the newest message count.

    Args:
        user: the user's newest message.
        before: client's messages before `user`.
        stored: newest stored messages.
        forms: all stored messages in the form for comparison.
        found: alignment of `before` with `forms`.
    """
    asked = (each for each in reversed(stored) if each.role is Role.USER)
    known = {str(digest) for each in islice(asked, MOST_RECENT) for digest in each.extra.get(CLIENT_LINES, ())}
    for pair in found.pairs:
        if pair.relation is Relation.CUT and forms[pair.stored].role is Role.USER:
            kept = {*before[pair.shown].lines}
            known.update(digest_of([loose]) for loose, bare in forms[pair.stored].lines if (loose, bare) not in kept)
    known_last = any(pair.shown == len(before) - 1 and pair.relation is Relation.SAME for pair in found.pairs)
    if before and before[-1].role is Role.USER and not known_last:
        same = {*range(found.start, found.end_of_run)}
        same.update(pair.stored for pair in found.pairs if pair.relation is Relation.SAME)
        if any(at not in same and form.is_same(user) for at, form in enumerate(forms)):
            known.update(digest_of([loose]) for loose, _ in user.lines)
    return frozenset(known)


def without_lines(message: Message, digests: Collection[str]) -> Message:
    """Return `message` without lines whose digests are in `digests`. Lines are removed only at the end and the
    beginning. The returned message records the digests of the removed lines (CLIENT_LINES).
    """
    lines, dropped = message.content.split("\n"), list[str]()

    def is_instruction(line: str) -> bool:
        return digest_of([loose_words(shown_text(line))]) in digests

    for place in (-1, 0):
        while lines and (not lines[place].strip() or is_instruction(lines[place])):
            line = lines.pop(place)
            dropped += [digest_of([loose_words(shown_text(line))])] if line.strip() else []
    if not dropped:
        return message
    return replace(message, content="\n".join(lines), extra={**message.extra, CLIENT_LINES: dropped})


def split_merged(user: Message, stored: Sequence[MessageForm]) -> list[Message]:
    """Return the messages that a client merged into the user message `user`, newest last. If the client merged none,
    return only `user`.

    Merged messages are recognised by assistant messages of `stored` among the lines of `user`. Lines before the first
    known message are dropped, because the client and not the user wrote them.
    """
    lines = [line for line in shown_text(user.content).split("\n") if line.strip()]
    form = form_of(user)
    firsts: dict[str, list[MessageForm]] = {}
    for each in stored:
        for key in {*each.lines[0]} if each.lines else ():
            firsts.setdefault(key, []).append(each)
    pieces = list(_pieces_of(form, firsts))
    if len(form.lines) != len(lines) or not any(role is Role.ASSISTANT for role, _, _ in pieces):
        return [user]
    names = {_name_of(lines[start]): role for role, start, _ in pieces if role is not None}
    said: list[Message] = []
    for known, start, end in pieces:
        if known is None and not said and end < len(lines):
            continue
        for role, words in [(known, lines[start:end])] if known else _speeches(lines[start:end], names):
            is_reply = bool(said) and said[-1].role is Role.USER and end < len(lines)
            spoken = role or (Role.ASSISTANT if is_reply else Role.USER)
            said.append(replace(user, role=spoken, content="\n".join(words)))
    return said if said[-1].role is Role.USER else [user]


def _name_of(line: str) -> str:
    """Return the speaker's name before a line, or ''."""
    line = line.lstrip()
    return line[: len(line) - len(without_name(line))].strip()


def _speeches(lines: Sequence[str], names: Mapping[str, Role]) -> Iterator[tuple[Role | None, list[str]]]:
    """Yield lines that are not stored, separated by the speakers' names that precede the stored ones."""
    words: list[str] = []
    role: Role | None = None
    for line in lines:
        name = _name_of(line)
        if words and name and name in names:
            yield role, words
            words = []
        if not words:
            role = names.get(name) if name else None
        words.append(line)
    yield role, words


def _pieces_of(form: MessageForm, firsts: dict[str, list[MessageForm]]) -> Iterator[tuple[Role | None, int, int]]:
    """Yield the stored messages among the lines of a message, and the lines between them (None)."""
    at = unknown = 0
    while at < len(form.lines):
        candidates = {id(each): each for key in form.lines[at] for each in firsts.get(key, ())[: MOST_RECENT * 4]}
        fits = [each for each in candidates.values() if form.find_lines(each, at, at + 1) is not None]
        if not fits:
            at += 1
            continue
        found = max(fits, key=lambda each: (len(each.lines), each.role is Role.ASSISTANT))
        if unknown < at:
            yield None, unknown, at
        yield found.role, at, at + len(found.lines)
        at = unknown = at + len(found.lines)
    if unknown < at:
        yield None, unknown, at

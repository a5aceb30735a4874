"""Computes digests by which a conversation is recognised from the messages that a client sends again.

An exchange is a message of the user with its reply. Each reply has a digest, and each message of the user has one, too. A short
message of the user is digested together with its reply. Only words count for a digest, because chat clients change the rest of
a text: spaces, emphasis, quotation marks and markup. Some clients also leave out the thoughts in a reply.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence

from mnemosyne.schema.session import Message, Role

MOST_CHARS = 4_000
"""Number of characters at the beginning of a text that count for its digest."""

MOST_SESSIONS = 50
"""Maximum number of sessions to find by one digest, because a common phrase occurs in many sessions."""

LONG_BYTES = 24
"""A user message of at least this many bytes (UTF-8) identifies a conversation without its reply. (Clients may edit a reply.)"""

_MARKS = str.maketrans("", "", "*_~`\"'“”‘’„«»「」『』")
_WORD = re.compile(r"\w+")
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,200}>")
_HIDDEN = re.compile(r"<(think|thinking|thought|reasoning|state_update)\b[^<>]{0,100}>", re.IGNORECASE)
_NAME = re.compile(r"\A[^\n:：]{1,60}[:：]\s*(?=\S)")


def shown_text(text: str) -> str:
    """Return `text` without the elements of thoughts and state changes, and without other tags."""
    if "<" not in text:
        return text
    lowered, kept, at, unclosed = text.lower(), list[str](), 0, set[str]()
    if len(lowered) != len(text):
        lowered = text
    for found in _HIDDEN.finditer(text):
        name = found[1].lower()
        if found.start() < at or name in unclosed:
            continue
        end = lowered.find(f"</{name}", found.end())
        if end < 0:
            unclosed.add(name)
            continue
        kept.append(text[at : found.start()])
        at = lowered.find(">", end) + 1 or len(text)
    return _TAG.sub(" ", "".join((*kept, text[at:]))) or text


def loose_words(text: str) -> str:
    """Return the words of `text` in lower case, with one space between them. A text without words is only stripped."""
    return " ".join(_WORD.findall(text.translate(_MARKS).lower())) or text.strip()


def without_name(text: str) -> str:
    """Return `text` without the name of its speaker at the beginning."""
    return _NAME.sub("", text.lstrip(), count=1)


def exchange_digests(messages: Sequence[Message]) -> Iterator[tuple[int, str]]:
    """Yield (place, digest) for each reply in `messages`, the messages of a turn, and for the user message before it.

    A user message that is too short to identify a conversation is digested together with its reply.
    """
    places = [at for at, each in enumerate(messages) if each.role in (Role.USER, Role.ASSISTANT)]
    for before, at in zip([None, *places], places, strict=False):
        if messages[at].role is not Role.ASSISTANT:
            continue
        reply = _words_of(messages[at])
        yield at, digest_of([reply])
        if before is not None and messages[before].role is Role.USER:
            words = _words_of(messages[before])
            yield before, digest_of([words] if len(words.encode(errors="replace")) >= LONG_BYTES else [words, reply])


def _words_of(message: Message) -> str:
    return loose_words(without_name(shown_text(message.content[:MOST_CHARS])))


def digest_of(texts: Iterable[str]) -> str:
    """Return one digest of all `texts`."""
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]

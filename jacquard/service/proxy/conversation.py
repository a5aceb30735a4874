"""Reads the messages of a call (one request of a chat client), and makes an id for the session if the client does not
name a session.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import Any

from jacquard.service.ids import check_id
from jacquard.service.proxy.client_lines import without_reminders
from jacquard.service.proxy.message_forms import MOST_REMEMBERED, SHORT_CHARS, MessageForm, form_of, tight_text
from jacquard.service.proxy.requests.chat_request import ChatRequest, text_of
from jacquard.service.proxy.requests.headers import SESSION_HEADERS, read_header
from mnemosyne.chains.messages.message_parts import USER_ID, message_from_chat
from mnemosyne.core.off_loop import calculate, size_of
from mnemosyne.evidence.ingestor import RECALLED
from mnemosyne.evidence.redactions import redaction_of
from mnemosyne.privacy.forget import TEXT_CACHES
from mnemosyne.schema.evidence import Evidence
from mnemosyne.schema.memory import EMPTY
from mnemosyne.schema.session import Message, Role
from mnemosyne.values import dataclass

PREFIX, OWNED = "chat-", "chat-of-"
"""Prefixes of the ids of sessions that no client named. OWNED is the prefix if a viewer or a named person began the
session.
"""

MESSAGE_CHARS = 400
"""Cost of handling one message, in characters for `calculate`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallMessages:
    """Messages of a call: the user's newest message (`user`), and all messages before it (`before`).

    `forms` and `user_form` are the same messages in the form for comparison.
    """

    before: tuple[Message, ...]
    user: Message
    forms: tuple[MessageForm, ...]
    user_form: MessageForm
    named: str | None = None
    """Id of the session that the client names (None: the client names no session)."""
    viewer: str | None = None
    """Viewer to whom the caller's token is bound (None: no viewer)."""
    user_id: str = ""
    """Id of the person for whom the client makes the call. The prompt may contain facts about this person. The id is '' if
    the client names no person, or if the caller has a viewer.
    """
    results: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    """Texts of the tool results that the client shows, by the ids of their tool calls."""

    @property
    def size(self) -> int:
        """Cost of a pass over all messages, in characters for `calculate`."""
        return len(self.user_form.text) + MESSAGE_CHARS * len(self.forms)

    def with_messages(self, before: Sequence[Message], user: Message) -> CallMessages:
        """Return the same call with other messages."""
        forms = tuple(form_of(each) for each in before)
        return replace(self, before=tuple(before), user=user, forms=forms, user_form=form_of(user))

    def shows(self, evidence: Evidence) -> bool:
        """Return whether the client shows the tool result that an evidence item (a stored source text) contains.

        The stored text may be masked or shortened. In this case the result is recognised by the id of its tool call.
        """
        call_id = (evidence.links.tool_call_id or "").removeprefix(f"{evidence.links.turn_id}.")
        if redaction_of(evidence) is not None or RECALLED in evidence.metadata:
            return call_id in self.results
        return self.results.get(call_id) == evidence.content


async def read_said(headers: Mapping[str, str], request: ChatRequest, viewer: str | None = None) -> CallMessages:
    """Return the messages of a call up to and including the newest message of the user. The call must have a message of the
    user. `viewer` is the viewer of the caller's token (None: no viewer).

    Raises ValueError if the content of a message is invalid. Raises ConfigError if the client names a session by a name that
    cannot be an id.
    """
    assert request.last_user is not None
    heard, named = request.messages[: request.last_user + 1], _named_session(headers, request)
    if named is not None:
        check_id("session_id", named)
    user_id = "" if viewer is not None else request.user_id
    said = await calculate(_read_said, heard, named, user_id, size=len(heard) * MESSAGE_CHARS + size_of(heard))
    results = {call_id: text_of(each.get("content")) for call_id, each in request.results}
    author = said.user.author
    # A viewer speaks as itself, because a prompt shows the facts about its user.
    user = said.user if viewer is None or author is None or author.id == viewer else replace(said.user, author=None)
    return replace(said, user=user, viewer=viewer, results=results)


def expected_session(headers: Mapping[str, str], request: ChatRequest) -> str:
    """Return the probable session id of a call: the id that the client names, or else the id of the session that the
    call would begin.

    The result is '' if the content of a message is invalid. If the client leaves out the beginning of its conversation,
    `find_session` may find another session.
    """
    assert request.last_user is not None
    try:
        named = _named_session(headers, request)
        heard = request.messages[: request.last_user + 1]
        return named or begun_session(_read_said(heard, None, request.user_id))
    except ValueError:
        return ""


def _read_said(messages: Sequence[Mapping[str, Any]], named: str | None, user_id: str) -> CallMessages:
    kept = (each for each in messages if each.get("role") in ("user", "assistant") and not each.get("tool_calls"))
    said = [_read_message(each) for each in kept]
    said = [*(each for each in said[:-1] if each[0].extra or each[0].content.strip()), said[-1]]
    (*before, user), forms = zip(*said, strict=True)
    if user_id:
        user = replace(user, extra={**user.extra, USER_ID: user_id})
    return CallMessages(
        before=tuple(before), user=user, forms=forms[:-1], user_form=forms[-1], named=named, user_id=user_id
    )


def _read_message(plain: Mapping[str, Any]) -> tuple[Message, MessageForm]:
    content = plain.get("content")
    if len(plain) == 2 and type(content) is str and len(content) <= SHORT_CHARS:
        return _read_text(plain["role"], content)
    message = without_reminders(message_from_chat(plain))
    return message, form_of(message)


@lru_cache(MOST_REMEMBERED)
def _read_text(role: str, content: str) -> tuple[Message, MessageForm]:
    """Return a message with only a text; cached, because most messages of a call were in the previous call."""
    message = without_reminders(message_from_chat({"role": role, "content": content}))
    return message, form_of(message)


TEXT_CACHES.append(_read_text.cache_clear)


def _named_session(headers: Mapping[str, str], request: ChatRequest) -> str | None:
    named = [*(read_header(headers, name) for name in SESSION_HEADERS), request.metadata.get("session_id")]
    # A placeholder that a client did not fill in names nothing.
    return next((each for each in named if isinstance(each, str) and each.strip() and "{{" not in each), None)


def _prefix_of(viewer: str | None, user_id: str = "") -> str:
    """Return the prefix of the ids of sessions begun by a viewer, a person, or nobody in particular."""
    owner = viewer if viewer is not None or not user_id else f"\0{user_id}"
    return PREFIX if owner is None else f"{OWNED}{hashlib.sha256(owner.encode()).hexdigest()[:8]}-"


def may_hold(session_id: str, said: CallMessages) -> bool:
    """Return whether the session `session_id`, which no client has named, may contain the conversation of a call.

    If the call has a viewer, return True only for sessions that this viewer began.
    """
    return session_id.startswith(PREFIX if said.viewer is None else _prefix_of(said.viewer))


def begun_session(said: CallMessages) -> str:
    """Return the id for a new session with the conversation `said`. The id is a digest of the messages up to and including
    the first message of the user.
    """
    return begun_sessions(said)[0]


def begun_sessions(said: CallMessages) -> list[str]:
    """Return the ids under which a session with the conversation `said` may be stored. Each id is a digest of the messages
    up to and including the first message of the user.

    The first id is the id for a new session. The other ids are for clients that add a note to one message of the user
    and move this note. A note is a paragraph or a line before or after the user's words. When the session began, the
    note may have been in the first message, and now it is in the newest one. Or the first message had no note then, and
    has one now.
    """
    forms = [*said.forms, said.user_form]
    first = next(at for at, each in enumerate(forms) if each.role is Role.USER)
    begun, newest = _paragraphs(forms[first].words), _paragraphs(said.user.content)
    texts = [begun, *(each for note in _notes_of(newest) for each in _with_note(begun, note)), *_without_note(begun)]
    prefix, before = _prefix_of(said.viewer, said.user_id), [_joined(each, each.words) for each in forms[:first]]
    begun_texts = ("\n".join(sorted(each)) for each in texts)
    wholes = ("\0".join((*before, _joined(forms[first], text))) for text in begun_texts)
    digests = (hashlib.sha256(each.encode("utf-8", "surrogatepass")).hexdigest()[:16] for each in wholes)
    return list(dict.fromkeys(f"{prefix}{digest}" for digest in digests))


def session_of_chat(messages: Iterable[Message]) -> str | None:
    """Return the id of the session in which the proxy looks for a chat that begins with `messages`. Return None if none of them
    is a message of the user.
    """
    before: list[Message] = []
    for each in messages:
        if each.role is Role.USER:
            forms = tuple(form_of(earlier) for earlier in before)
            said = CallMessages(before=tuple(before), user=each, forms=forms, user_form=form_of(each))
            return begun_session(said)
        if each.role is Role.ASSISTANT:
            before.append(each)
    return None


def _joined(form: MessageForm, words: str) -> str:
    return f"{form.role}\0{tight_text(words)}\0{''.join(sorted(form.parts))}"


def _notes_of(paragraphs: Sequence[str]) -> list[str]:
    """Return what may be a note in a message: a paragraph, or a line, at one of its ends."""
    lines = [line for each in paragraphs for line in each.split("\n")]
    ends = [end for parts in (paragraphs, lines) if len(parts) > 1 for end in (parts[0], parts[-1])]
    return sorted(set(ends))


def _with_note(paragraphs: Sequence[str], note: str) -> list[list[str]]:
    first, last = [f"{note}\n{paragraphs[0]}", *paragraphs[1:]], [*paragraphs[:-1], f"{paragraphs[-1]}\n{note}"]
    return [[*paragraphs, note], first, last]


def _without_note(paragraphs: Sequence[str]) -> list[list[str]]:
    (opening, *others), (*former, closing) = paragraphs, paragraphs
    whole = [[*others], [*former]] if former else []
    _, opened, rest = opening.partition("\n")
    start, closed, _ = closing.rpartition("\n")
    return [*whole, *([[rest, *others]] if opened else []), *([[*former, start]] if closed else [])]


def _paragraphs(text: str) -> list[str]:
    return [each for each in text.strip().split("\n\n") if each.strip()] or [text]

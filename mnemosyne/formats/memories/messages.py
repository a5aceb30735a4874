"""Builds conversations from the messages of agent libraries, and counts the fate of their fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any

from mnemosyne.formats.chats.turns import SaidMessage, chat_key, group_turns
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.schema.imported_files import Chat
from mnemosyne.schema.memory import EMPTY, NOBODY, VIEWERS
from mnemosyne.schema.record import ImportedTurn
from mnemosyne.schema.session import Author, AuthorKind, Message, Role
from mnemosyne.values import dataclass

MOST_NAME_CHARS = 200
FOR_EXPORT = "kept with the message"
TOOL_CALLS = "tool_calls"
_KINDS = {
    Role.USER: AuthorKind.USER,
    Role.ASSISTANT: AuthorKind.AGENT,
    Role.TOOL: AuthorKind.TOOL,
    Role.SYSTEM: AuthorKind.SYSTEM,
}
_ROLES = {
    "user": Role.USER, "human": Role.USER, "assistant": Role.ASSISTANT, "ai": Role.ASSISTANT, "model": Role.ASSISTANT,
    "chatbot": Role.ASSISTANT, "system": Role.SYSTEM, "developer": Role.SYSTEM, "tool": Role.TOOL, "function": Role.TOOL,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class SpokenMessage:
    """A message as an agent library stores it.

    `role` is the library's name of the role. `name` is the speaker, `at` the time. `kept` are the fields that are stored
    with the message.
    """

    role: str
    text: str
    name: str = ""
    at: datetime | None = None
    kept: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


ReadMessages = Callable[[FieldCounter], Iterable[SpokenMessage]]
"""Reads the messages of a conversation from its beginning, and counts their fields in the given counter."""


def build_chat(name: str, read: ReadMessages, counter: FieldCounter, library: str) -> Chat | None:
    """Return the conversation `name` with the messages that `read` returns. Return None if no message has text.

    The turns are read again when they are requested. Messages without text are left out, unless they call tools. Tool calls and
    tool results are kept, but no model sees them. Fields are counted in `counter`. Further fields are kept in `Message.extra`
    under the name `library`.
    """
    key = chat_key(library, name, next((each.text for each in read(FieldCounter()) if each.text.strip()), ""))
    users: dict[str, None] = {}
    others: dict[str, None] = {}
    started_at: datetime | None = None

    def watched() -> Iterator[SpokenMessage]:
        nonlocal started_at
        for message in read(counter):
            if message.text.strip():
                started_at = started_at or message.at
                role = role_of(message.role)
                if message.name and role in (Role.USER, Role.ASSISTANT):
                    (users if role is Role.USER else others).setdefault(message.name)
            yield message

    def read_turns() -> Iterator[ImportedTurn]:
        return group_turns(key, _to_said(read(FieldCounter()), library))

    count = sum(1 for _ in group_turns(key, _to_said(watched(), library)))
    if not count:
        return None
    return Chat(
        name=name[:MOST_NAME_CHARS],
        read_turns=read_turns,
        turn_count=count,
        user_name=next(iter(users), ""),
        character_names=tuple(others),
        started_at=started_at,
    )


def role_of(name: str) -> Role:
    """Return the role for a library's name of a role. An unknown name means an assistant."""
    return _ROLES.get(name.lower(), Role.ASSISTANT)


def _to_said(messages: Iterable[SpokenMessage], library: str) -> Iterator[SaidMessage]:
    for each in messages:
        is_call = not each.text.strip() and bool(each.kept.get(TOOL_CALLS))
        if not each.text.strip() and not is_call:
            continue
        role = role_of(each.role)
        name = each.name or ("" if each.role.lower() in _ROLES else each.role)
        author = Author(kind=_KINDS[role], id=" ".join(name.split())[:MOST_NAME_CHARS]) if name.strip() else None
        extra: dict[str, Any] = {library: dict(each.kept)} if each.kept else {}
        if role is Role.TOOL or is_call:
            # Model providers refuse a result without its call, and the calls of another program cannot be made again.
            extra[VIEWERS] = list(NOBODY)
        yield SaidMessage(message=Message(role=role, content=each.text, author=author, at=each.at, extra=extra))


def text_of_content(content: Any, counter: FieldCounter, path: str) -> str:
    """Return the text of `content`, which is a text or a list of parts. Parts without text are counted by type and left out."""
    if isinstance(content, str):
        counter.keep(path, content)
        return content
    if not isinstance(content, list):
        counter.refuse(path, content, "no text; left out")
        return ""
    texts = []
    for part in content:
        text = part.get("text") if isinstance(part, Mapping) else part
        if isinstance(text, str):
            counter.keep(f"{path}.*", text)
            texts.append(text)
        else:
            kind = part.get("type") or part.get("block_type") if isinstance(part, Mapping) else None
            named = kind[:40] if isinstance(kind, str) else "…"
            counter.refuse(f"{path}.*: {named}", note="parts without text are left out")
    return "\n".join(text for text in texts if text.strip())

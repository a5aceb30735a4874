"""Reads and makes the contents of a message in addition to its text: images, audio, files and tool calls.

These contents are in `Message.extra` in the form of chat APIs, so every store and document contains them:

- `parts`: the list of content parts, if one of them is not text.
- `tool_calls`: the calls of an assistant message.
- `tool_call_id`: the id of the call that a tool message answers.
- `user_id`: the person who wrote a message that names no author.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mnemosyne.schema.memory import EMPTY
from mnemosyne.schema.session import Author, AuthorKind, Message, Role

PARTS, TOOL_CALLS, TOOL_CALL_ID, USER_ID = "parts", "tool_calls", "tool_call_id", "user_id"
_TEXT_TYPES = ("text", "input_text", "output_text")
_AUTHORS = {
    Role.USER: AuthorKind.USER,
    Role.ASSISTANT: AuthorKind.AGENT,
    Role.TOOL: AuthorKind.TOOL,
    Role.SYSTEM: AuthorKind.SYSTEM,
}
_ROLES = {"developer": Role.SYSTEM, "function": Role.TOOL, "human": Role.USER, "ai": Role.ASSISTANT}


def read_parts(message: Message) -> tuple[Mapping[str, Any], ...]:
    """Return the content parts of `message` in their order. If all of them are text, return an empty tuple."""
    return _mappings(message.extra[PARTS]) if PARTS in message.extra else ()


def read_tool_calls(message: Message) -> tuple[Mapping[str, Any], ...]:
    """Return the tool calls of `message` that have an id, in the form of the OpenAI API."""
    if TOOL_CALLS not in message.extra:
        return ()
    return tuple(call for call in _mappings(message.extra[TOOL_CALLS]) if isinstance(call.get("id"), str))


def read_tool_call_id(message: Message) -> str | None:
    """Return the id of the tool call that `message` answers, or None if it answers none."""
    told = message.extra.get(TOOL_CALL_ID)
    return told if isinstance(told, str) and told else None


def read_user(message: Message) -> str:
    """Return the id of the user who wrote `message`: its author or, without an author, its `user_id`. Return '' if no user is
    known.
    """
    if message.author is not None:
        return message.author.id if message.author.kind is AuthorKind.USER else ""
    told = message.extra.get(USER_ID)
    return told if isinstance(told, str) and message.role is Role.USER else ""


def is_text_part(part: Mapping[str, Any]) -> bool:
    """Return whether a content part is text."""
    return part.get("type") in _TEXT_TYPES and isinstance(part.get("text"), str)


def message_from_chat(plain: Mapping[str, Any]) -> Message:
    """Return the message that a chat API writes as the dict `plain`.

    The fields are `role`, `content` (a text, or a list of parts), `name`, `tool_calls` and `tool_call_id`.

    Raises:
        ValueError: for an unknown role, a content of another kind, or a value that JSON cannot express; the message
            states the fault.
    """
    told = plain.get("role")
    try:
        role = _ROLES.get(str(told)) or Role(str(told))
    except ValueError:
        raise ValueError(f"role is {told!r}; use system, user, assistant or tool") from None
    text, parts = _read_content(plain.get("content"))
    extra: dict[str, Any] = {}
    if parts:
        extra[PARTS] = parts
    if plain.get(TOOL_CALLS):
        extra[TOOL_CALLS] = [dict(call) for call in _mappings(plain[TOOL_CALLS])]
    if plain.get(TOOL_CALL_ID):
        extra[TOOL_CALL_ID] = str(plain[TOOL_CALL_ID])
    try:
        json.dumps(extra, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"a part or a tool call cannot be written as JSON ({error})") from None
    name = plain.get("name")
    author = Author(kind=_AUTHORS[role], id=name) if isinstance(name, str) and name else None
    return Message(role=role, content=text, author=author, extra=extra or EMPTY)


def _read_content(content: Any) -> tuple[str, list[dict[str, Any]]]:
    """Return the text of a content, and its parts if one of them is not text."""
    if content is None:
        return "", []
    if isinstance(content, str):
        return content, []
    held = content if isinstance(content, list | tuple) else [None]
    parts: list[Mapping[str, Any]] = []
    for part in held:
        if not isinstance(part, str | Mapping):
            raise ValueError(f"content is {type(content).__name__}; give a text or a list of content parts")
        parts.append({"type": "text", "text": part} if isinstance(part, str) else part)
    text = "\n".join(part["text"] for part in parts if is_text_part(part))
    return text, [] if all(map(is_text_part, parts)) else [dict(part) for part in parts]


def _mappings(value: Any) -> tuple[Mapping[str, Any], ...]:
    if not isinstance(value, list | tuple):
        return ()
    return tuple(each for each in value if isinstance(each, Mapping))

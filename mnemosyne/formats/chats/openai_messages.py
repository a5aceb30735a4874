"""Reads messages of the OpenAI API from JSON files, as chats.

A file contains a list of messages, a mapping `{"messages": [...]}`, or a list of such mappings. A file of JSON lines has
one message or one such mapping per line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.core.plain_values import plain_or_none
from mnemosyne.formats.chats.chat_lists import FOR_EXPORT, listed_chat, listed_file, make_message
from mnemosyne.formats.chats.json_lines import read_json_lines, read_loose_json
from mnemosyne.formats.chats.sillytavern import NO_REQUEST
from mnemosyne.formats.chats.turns import SaidMessage, chat_key
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.schema.imported_files import Chat, ImportedFile
from mnemosyne.schema.record import ImportRequest
from mnemosyne.schema.session import Message, Role

FORMAT = "openai"
PARTS, TOOL_CALLS, TOOL_CALL_ID = "parts", "tool_calls", "tool_call_id"
_ROLES = {
    **{role.value: role for role in Role},
    **{
        "developer": Role.SYSTEM,
        "function": Role.TOOL,
        "human": Role.USER,
        "ai": Role.ASSISTANT,
        "model": Role.ASSISTANT,
    },
}
_TEXT_TYPES = ("text", "input_text", "output_text")
_READ = frozenset(("role", "content", "name", TOOL_CALLS, TOOL_CALL_ID, "id", "created_at", "timestamp"))


def is_openai_messages(value: Any) -> bool:
    """Return whether a JSON value is a conversation in messages of the OpenAI API, or a list of such conversations."""
    if isinstance(value, list) and value and isinstance(value[0], Mapping) and "messages" in value[0]:
        return _is_conversation(value[0])
    return _is_conversation(value)


def _is_conversation(value: Any) -> bool:
    messages = value.get("messages") if isinstance(value, Mapping) else value
    if not isinstance(messages, list) or not messages:
        return False
    fits = [isinstance(each, Mapping) and _role_of(each) is not None and _has_content(each) for each in messages[:20]]
    return fits[0] and sum(fits) * 2 > len(fits)


def _role_of(message: Mapping[str, Any]) -> Role | None:
    told = message.get("role")
    return _ROLES.get(told) if isinstance(told, str) else None


def _has_content(message: Mapping[str, Any]) -> bool:
    return "content" in message or TOOL_CALLS in message or "function_call" in message


def read_openai_messages(path: Path, request: ImportRequest = NO_REQUEST) -> ImportedFile:
    """Return the conversations of a file, each as a chat. System messages and tool calls are included.

    A message with an unknown role is skipped and counted. Raises CorpusError if the file contains no message.
    """
    counter = FieldCounter()
    chats: list[Chat] = []
    for number, value in enumerate(_conversations(path), start=1):
        chats.append(_read_conversation(value, path.stem if number == 1 else f"{path.stem} {number}", counter))
    return listed_file(path, FORMAT, chats, counter, request)


def _conversations(path: Path) -> Sequence[Any]:
    if path.suffix.lower() == ".jsonl":
        lines = [line.value for line in read_json_lines(path) if line.value is not None]
        # Either each line is a conversation, or each is a message of one.
        return [{"messages": lines}] if lines and "role" in lines[0] else lines
    value = read_loose_json(path)
    if not is_openai_messages(value):
        raise CorpusError(f"{path}: holds no messages of the OpenAI API: a list of mappings with role and content.")
    if isinstance(value, list) and "messages" in value[0]:
        return value
    return [value]


def _read_conversation(value: Any, name: str, counter: FieldCounter) -> Chat:
    messages = value.get("messages") if isinstance(value, Mapping) else value
    header = {key: each for key, each in value.items() if key != "messages"} if isinstance(value, Mapping) else {}
    for key, each in header.items():
        counter.keep(key, each, "kept for export")
    said: list[SaidMessage] = []
    for each in messages if isinstance(messages, list) else ():
        message = read_openai_message(each, counter) if isinstance(each, Mapping) else None
        if message is None:
            counter.refuse("messages.*", each, "is no message with a known role")
        else:
            said.append(SaidMessage(message=message))
    told = [each.message.content for each in said if each.message.role is not Role.SYSTEM][:1]
    begun = header.get("id") if isinstance(header.get("id"), str) else None
    return listed_chat(name, chat_key(FORMAT, begun, *told), said, header=header)


def read_openai_message(plain: Mapping[str, Any], counter: FieldCounter) -> Message | None:
    """Return a message of the OpenAI API, or None if its role is unknown.

    `Message.extra` keeps parts that are not text, tool calls, and the id of a tool call, under the names `parts`,
    `tool_calls` and `tool_call_id`.
    """
    role = _role_of(plain)
    if role is None:
        return None
    text, parts = _split_content(plain.get("content"))
    rest = {name: each for name, each in plain.items() if name not in _READ}
    date = plain.get("created_at") or plain.get("timestamp")
    message = make_message(role, text, plain.get("name"), date=date, source=FORMAT, rest=rest)
    calls = (
        [each for each in plain[TOOL_CALLS] if isinstance(each, Mapping)]
        if isinstance(plain.get(TOOL_CALLS), list)
        else []
    )
    extra = dict(message.extra)
    for name, value in ((PARTS, parts), (TOOL_CALLS, calls), (TOOL_CALL_ID, plain.get(TOOL_CALL_ID))):
        kept = plain_or_none(value) if value else None
        if kept:
            extra[name] = kept
    counter.keep("messages.*.role", plain["role"])
    counter.keep("messages.*.content", text)
    counter.keep("messages.*.content.parts", parts)
    for name in ("name", TOOL_CALLS, TOOL_CALL_ID, "created_at", "timestamp"):
        counter.keep(f"messages.*.{name}", plain.get(name))
    counter.refuse("messages.*.id", plain.get("id"), "messages get ids of their own")
    for name, value in rest.items():
        counter.keep(f"messages.*.{name}", value, FOR_EXPORT)
    return Message(role=role, content=message.content, author=message.author, at=message.at, extra=extra)


def _split_content(content: Any) -> tuple[str, list[dict[str, Any]]]:
    """Return (text, parts) of a content. The parts are empty if all of them are text; otherwise all parts are returned."""
    if isinstance(content, str):
        return content, []
    parts: list[dict[str, Any]] = []
    for part in content if isinstance(content, list) else ():
        if isinstance(part, str):
            parts.append({"type": "text", "text": part})
        elif isinstance(part, Mapping):
            parts.append(dict(part))
    texts = [part["text"] for part in parts if part.get("type") in _TEXT_TYPES and isinstance(part.get("text"), str)]
    return "\n".join(texts), [] if len(texts) == len(parts) else parts

"""Reads the export of ChatGPT (`conversations.json`), in which each conversation is a tree of messages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.formats.chats.chat_lists import (
    EXPORT_MEMBER,
    MOST_EXPORT_BYTES,
    count_rest,
    distinct_names,
    listed_chat,
    listed_file,
    make_message,
    whole_text,
)
from mnemosyne.formats.chats.json_lines import read_loose_json
from mnemosyne.formats.chats.sillytavern import NO_REQUEST
from mnemosyne.formats.chats.trees import TreeNode, said_on_path
from mnemosyne.formats.chats.turns import chat_key
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.schema.imported_files import Chat, ImportedFile
from mnemosyne.schema.record import ImportRequest
from mnemosyne.schema.session import Message, Role

FORMAT = "chatgpt"
_MOST_KIND_CHARS = 40
_FIELD = "*.mapping.*.message"
_TEXTS = ("text", "result")
_NOT_TOLD = ("thoughts", "reasoning_recap", "user_editable_context", "model_editable_context")

_ROLES = frozenset(role.value for role in Role)

Node = Mapping[str, Any]


def is_chatgpt(value: Any) -> bool:
    """Return whether a JSON value is an export of ChatGPT, or one conversation of it."""
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, Mapping) and isinstance(first.get("mapping"), Mapping)


def read_chatgpt(path: Path, request: ImportRequest = NO_REQUEST) -> ImportedFile:
    """Return the conversations of an export, each as a chat with the title of the conversation as its name.

    Raises CorpusError if the file is not an export of ChatGPT.
    """
    value = read_loose_json(path, MOST_EXPORT_BYTES, member=EXPORT_MEMBER)
    if not is_chatgpt(value):
        raise CorpusError(f"{path}: is not an export of ChatGPT: it holds no conversation with a mapping.")
    counter = FieldCounter()
    told = [
        each
        for each in (value if isinstance(value, list) else [value])
        if isinstance(each, Mapping) and isinstance(each.get("mapping"), Mapping)
    ]
    names = distinct_names(whole_text(each.get("title")).strip() or path.stem for each in told)
    chats = [_read_conversation(each, name, request, counter) for each, name in zip(told, names, strict=True)]
    return listed_file(path, FORMAT, chats, counter, request)


def _read_conversation(value: Mapping[str, Any], name: str, request: ImportRequest, counter: FieldCounter) -> Chat:
    nodes = {
        key: _tree_node(node, request, counter) for key, node in value["mapping"].items() if isinstance(node, Mapping)
    }
    said = list(said_on_path(nodes, value.get("current_node"), counter, "*.mapping.*.children.*"))
    header = {key: each for key, each in value.items() if key not in ("mapping", "current_node")}
    count_rest(counter, "*.", header)
    begun = value.get("conversation_id") or value.get("id") or value.get("create_time")
    return listed_chat(name, chat_key(FORMAT, begun, *([] if begun else [name])), said, header=header)


def _read_message(node: Node, role: Role | None, request: ImportRequest, counter: FieldCounter) -> Message | None:
    """Return the message of a node, or None if the node has no text that belongs to the conversation."""
    held = node.get("message")
    if role is None or not isinstance(held, Mapping):
        return None
    content = held.get("content")
    content = content if isinstance(content, Mapping) else {}
    kind = whole_text(content.get("content_type"))[:_MOST_KIND_CHARS]
    if kind in _NOT_TOLD:
        counter.refuse(f"{_FIELD}.content.{kind}", content, "is not a part of the conversation")
        return None
    texts, parts = _read_content(content)
    if not "".join(texts).strip() and not parts:
        return None
    counter.keep(f"{_FIELD}.content.{kind}", texts or None)
    counter.keep(f"{_FIELD}.content.parts", parts, "is not text; kept beside the message")
    counter.keep(f"{_FIELD}.create_time", held.get("create_time"))
    rest: dict[str, Any] = {
        name: each for name, each in held.items() if name in ("metadata", "recipient", "channel") and each
    }
    count_rest(counter, f"{_FIELD}.", rest)
    if parts:
        rest["parts"] = parts
    author = held["author"] if isinstance(held.get("author"), Mapping) else {}
    names = {Role.USER: request.users, Role.ASSISTANT: request.assistants}.get(role, ())
    name = author.get("name") or next(iter(names), None)
    return make_message(role, "\n".join(texts), name, date=held.get("create_time"), source=FORMAT, rest=rest)


def _read_content(content: Mapping[str, Any]) -> tuple[list[str], list[Any]]:
    """Return (texts, other parts) of a content."""
    texts: list[str] = []
    others: list[Any] = []
    for part in content["parts"] if isinstance(content.get("parts"), list) else ():
        text = part.get("text") if isinstance(part, Mapping) else part
        if isinstance(text, str):
            texts += [text] if text else []
        elif part:
            others.append(part)
    texts += [content[name] for name in _TEXTS if isinstance(content.get(name), str) and content[name]]
    return texts, others


def _role(node: Node) -> Role | None:
    message = node.get("message")
    author = message.get("author") if isinstance(message, Mapping) else None
    told = author.get("role") if isinstance(author, Mapping) else None
    return Role(told) if isinstance(told, str) and told in _ROLES else None


def _tree_node(node: Node, request: ImportRequest, counter: FieldCounter) -> TreeNode:
    role, parent, children = _role(node), node.get("parent"), node.get("children")
    message = node.get("message")
    created = message.get("create_time") if isinstance(message, Mapping) else None
    return TreeNode(
        role=role,
        read=partial(_read_message, node, role, request, counter),
        parent=parent if isinstance(parent, str) else None,
        children=tuple(each for each in children if isinstance(each, str)) if isinstance(children, list) else (),
        created=created if isinstance(created, int | float) else 0,
    )

"""The export of ChatGPT (`conversations.json`): each conversation is a tree of messages with a current path.

The current path is the chat. Branches off it that answer the same input are other replies. Inputs that were edited, and what was
said after another reply, are not taken in, and are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.formats.chats.json_lines import read_loose_json
from mnemosyne.formats.chats.listed import count_rest, listed_chat, listed_file, make_message, whole_text
from mnemosyne.formats.chats.sillytavern import NO_REQUEST
from mnemosyne.formats.chats.turns import MOST_REPLIES, SaidMessage, chat_key
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.formats.values import Chat, ImportedFile
from mnemosyne.schema.record import ImportRequest
from mnemosyne.schema.session import Message, Role

FORMAT = "chatgpt"
MOST_EXPORT_BYTES = 256_000_000
"""How large an export may be; it is read as a whole."""
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
    """Return the conversations of an export, each as a chat with the name of its title. CorpusError for a file that is none."""
    value = read_loose_json(path, MOST_EXPORT_BYTES)
    if not is_chatgpt(value):
        raise CorpusError(f"{path}: is no export of ChatGPT: it holds no conversation with a mapping.")
    counter = FieldCounter()
    chats: list[Chat] = []
    names: dict[str, int] = {}
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, Mapping) and isinstance(each.get("mapping"), Mapping):
            name = whole_text(each.get("title")).strip() or path.stem
            names[name] = count = names.get(name, 0) + 1
            chats.append(_read_conversation(each, name if count == 1 else f"{name} ({count})", request, counter))
    return listed_file(path, FORMAT, chats, counter, request)


def _read_conversation(value: Mapping[str, Any], name: str, request: ImportRequest, counter: FieldCounter) -> Chat:
    nodes = {key: node for key, node in value["mapping"].items() if isinstance(node, Mapping)}
    path = _current_path(nodes, value.get("current_node"))
    said = list(_walk(nodes, path, request, counter))
    header = {key: each for key, each in value.items() if key not in ("mapping", "current_node")}
    count_rest(counter, "*.", header)
    begun = value.get("conversation_id") or value.get("id") or value.get("create_time")
    return listed_chat(name, chat_key(FORMAT, begun, *([] if begun else [name])), said, header=header)


def _current_path(nodes: Mapping[str, Node], current: Any) -> list[str]:
    """Return the ids of the nodes from the first to the current one; where that is unknown, to a newest leaf."""
    if not isinstance(current, str) or current not in nodes:
        leaves = [key for key, node in nodes.items() if not _children(node)]
        current = max(leaves, key=lambda key: _created(nodes[key]), default=None)
    path: dict[str, None] = {}
    while isinstance(current, str) and current in nodes and current not in path:
        path[current] = None
        current = nodes[current].get("parent")
    return [*path][::-1]


def _walk(
    nodes: Mapping[str, Node], path: Sequence[str], request: ImportRequest, counter: FieldCounter
) -> Iterator[SaidMessage]:
    """Yield the messages of a path with the other replies in their places."""
    others: list[tuple[Message, ...]] = []
    is_answered = False
    parent: str | None = None
    for key in path:
        role = _role(nodes[key])
        siblings = [each for each in _children(nodes[parent]) if each != key and each in nodes] if parent else []
        if role is Role.USER:
            is_answered, others = True, []
        for each in siblings:
            if role is Role.USER or _role(nodes[each]) is Role.USER or not is_answered:
                counter.refuse("*.mapping.*.children.*", each, "an input that was edited, with what follows it")
            elif found := tuple(_read_branch(nodes, each, request, counter)):
                counter.keep("*.mapping.*.children.*", each, "another reply")
                others.append(found)
        parent = key
        message = _read_message(nodes[key], role, request, counter)
        if message is not None:
            taken = tuple(other for other in others if message.content != other[0].content or len(other) > 1)
            others = []
            yield SaidMessage(message=message, others=() if role is Role.USER else taken)


def _read_branch(
    nodes: Mapping[str, Node], key: str, request: ImportRequest, counter: FieldCounter
) -> Iterator[Message]:
    """Yield the messages from a node on, along the newest children, up to the next one of the user."""
    seen: set[str] = set()
    here: str | None = key
    while here is not None and here in nodes and here not in seen and len(seen) < MOST_REPLIES:
        seen.add(here)
        role = _role(nodes[here])
        if role is Role.USER:
            counter.refuse("*.mapping.*.children.*", here, "what was said after another reply")
            return
        message = _read_message(nodes[here], role, request, counter)
        if message is not None:
            yield message
        here = next(reversed(_children(nodes[here])), None)


def _read_message(node: Node, role: Role | None, request: ImportRequest, counter: FieldCounter) -> Message | None:
    """Return the message of a node; None for one without a text that belongs to the conversation."""
    held = node.get("message")
    if role is None or not isinstance(held, Mapping):
        return None
    content = held.get("content")
    content = content if isinstance(content, Mapping) else {}
    kind = whole_text(content.get("content_type"))[:_MOST_KIND_CHARS]
    if kind in _NOT_TOLD:
        counter.refuse(f"{_FIELD}.content.{kind}", content, "is no part of the conversation")
        return None
    texts, parts = _read_content(content)
    if not "".join(texts).strip() and not parts:
        return None
    counter.keep(f"{_FIELD}.content.{kind}", texts or None)
    counter.keep(f"{_FIELD}.content.parts", parts, "is no text; kept beside the message")
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
    """Return the texts of a content, and its parts that are no text."""
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


def _children(node: Node) -> list[str]:
    children = node.get("children")
    return [each for each in children if isinstance(each, str)] if isinstance(children, list) else []


def _created(node: Node) -> float:
    message = node.get("message")
    told = message.get("create_time") if isinstance(message, Mapping) else None
    return told if isinstance(told, int | float) else 0

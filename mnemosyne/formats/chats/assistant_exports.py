"""Reads the exports of programs for talking to assistants: Claude, Open WebUI, LibreChat and Cherry Studio.

Claude and Cherry Studio export zip archives, which are read directly. The thoughts of a model are not imported, because
they are not part of the conversation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from mnemosyne.formats.chats.send_dates import read_date
from mnemosyne.formats.chats.sillytavern import NO_REQUEST
from mnemosyne.formats.chats.trees import TreeNode, said_on_path
from mnemosyne.formats.chats.turns import SaidMessage, chat_key
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.schema.imported_files import Chat, ImportedFile
from mnemosyne.schema.record import ImportRequest
from mnemosyne.schema.session import Message, Role

BACKUP_MEMBER = "data.json"
"""Name of the file with the conversations in a backup of Cherry Studio."""
_THOUGHT = "a thought of the model, which is not part of the conversation"
_BESIDE = "is not text; kept beside the message"
_ROLES = {"human": Role.USER, **{role.value: role for role in Role}}
_FOLDED = re.compile(r'<details type="(?:reasoning|tool_calls|code_interpreter)"')
_DETAILS_END = "</details>"
_STORE_KEY = "persist:cherry-studio"

_Values = Mapping[str, Any]


def is_claude_export(value: Any) -> bool:
    """Return whether a JSON value is an export of Claude, or one conversation of it."""
    return isinstance(_first(value).get("chat_messages"), list)


def read_claude_export(path: Path, request: ImportRequest = NO_REQUEST) -> ImportedFile:
    """Return the conversations of an export of Claude, each as a chat.

    Raises CorpusError, like the other readers of this module, if the file is not an export of the expected program.
    """
    return _read_all(path, "claude", is_claude_export, _read_claude, request, member=EXPORT_MEMBER)


def is_open_webui(value: Any) -> bool:
    """Return whether a JSON value is an export of Open WebUI, or one chat of it."""
    chat = _mapping(_first(value).get("chat"))
    return isinstance(_mapping(chat.get("history")).get("messages"), Mapping) or isinstance(chat.get("messages"), list)


def read_open_webui(path: Path, request: ImportRequest = NO_REQUEST) -> ImportedFile:
    """Return the chats of an export of Open WebUI. If several models replied to one message, one reply is shown and the
    others are alternatives.
    """
    return _read_all(path, "open-webui", is_open_webui, _read_open_webui, request)


def is_librechat(value: Any) -> bool:
    """Return whether a JSON value is a conversation that LibreChat exported."""
    first = _first(value)
    messages = first.get("messagesTree") or first.get("messages")
    sample = next(iter(_mappings(messages)), _mapping(messages))
    return "conversationId" in first and "messageId" in sample


def read_librechat(path: Path, request: ImportRequest = NO_REQUEST) -> ImportedFile:
    """Return the conversation of an export of LibreChat. Its branches are included if the export has them."""
    return _read_all(path, "librechat", is_librechat, _read_librechat, request)


def is_cherry_studio(value: Any) -> bool:
    """Return whether a JSON value is the data of a backup of Cherry Studio."""
    return isinstance(_mapping(_mapping(value).get("indexedDB")).get("topics"), list)


def read_cherry_studio(path: Path, request: ImportRequest = NO_REQUEST) -> ImportedFile:
    """Return the topics of a backup of Cherry Studio, each as a chat with the topic's name. Raises CorpusError for any
    other file.
    """
    value = read_loose_json(path, MOST_EXPORT_BYTES, member=BACKUP_MEMBER)
    if not is_cherry_studio(value):
        raise CorpusError(f"{path}: is not a backup of Cherry Studio: it has no topics.")
    counter = FieldCounter()
    titles = _topic_names(_mapping(value.get("localStorage")))
    blocks = {
        each["id"]: each
        for each in _mappings(value["indexedDB"].get("message_blocks"))
        if isinstance(each.get("id"), str)
    }
    topics = _mappings(value["indexedDB"]["topics"])
    chats = []
    for topic, name in zip(
        topics, distinct_names(titles.get(whole_text(each.get("id"))) or path.stem for each in topics), strict=True
    ):
        said = list(_cherry_messages(_mappings(topic.get("messages")), blocks, request, counter))
        chats.append(listed_chat(name, chat_key("cherry-studio", topic.get("id") or name), said))
    return listed_file(path, "cherry-studio", chats, counter, request)


def _read_all(
    path: Path,
    format_name: str,
    fits: Callable[[Any], bool],
    read: Callable[[_Values, str, ImportRequest, FieldCounter], Chat],
    request: ImportRequest,
    *,
    member: str = "",
) -> ImportedFile:
    value = read_loose_json(path, MOST_EXPORT_BYTES, member=member)
    if not fits(value):
        raise CorpusError(f"{path}: is not an export of this format ({format_name}).")
    counter = FieldCounter()
    values = [each for each in (value if isinstance(value, list) else [value]) if fits(each)]
    names = distinct_names(_name_of(each) or path.stem for each in values)
    chats = [read(each, name, request, counter) for each, name in zip(values, names, strict=True)]
    return listed_file(path, format_name, chats, counter, request)


def _name_of(value: _Values) -> str:
    """Return the title of a conversation from any of the fields that programs use for it. It is empty if there is none."""
    told = (value.get("name"), value.get("title"), _mapping(value.get("chat")).get("title"))
    return next((text for each in told if (text := whole_text(each).strip())), "")


def _read_claude(value: _Values, name: str, request: ImportRequest, counter: FieldCounter) -> Chat:
    field = "*.chat_messages.*"
    messages = _mappings(value.get("chat_messages"))
    nodes: dict[str, TreeNode] = {}
    before: str | None = None
    for number, each in enumerate(messages):
        key = _key_of(each, "uuid", number)
        # Older exports state no parent: their messages follow each other.
        parent = each.get("parent_message_uuid", before)
        role = _ROLES.get(whole_text(each.get("sender")), Role.ASSISTANT)
        nodes[key] = TreeNode(
            role=role,
            read=partial(_read_claude_message, each, role, request, counter, f"{field}."),
            parent=parent if isinstance(parent, str) else None,
            created=_seconds(each.get("created_at")),
        )
        before = key
    said = said_on_path(nodes, value.get("current_leaf_message_uuid"), counter, field)
    return _chat_of(value, "claude", name, "uuid", said, ("chat_messages", "current_leaf_message_uuid"), counter)


def _read_claude_message(
    each: _Values, role: Role, request: ImportRequest, counter: FieldCounter, prefix: str
) -> Message | None:
    texts, parts = _split_parts(each.get("content"), f"{prefix}content", counter)
    text = "\n".join(texts) or whole_text(each.get("text"))
    rest = _rest_of(each, ("uuid", "text", "content", "sender", "created_at", "updated_at", "parent_message_uuid"))
    return _message(role, text, parts, request, each.get("created_at"), "claude", rest, counter, prefix)


def _read_open_webui(value: _Values, name: str, request: ImportRequest, counter: FieldCounter) -> Chat:
    chat = _mapping(value.get("chat"))
    history = _mapping(chat.get("history"))
    held = history.get("messages")
    field = "*.chat.history.messages.*" if isinstance(held, Mapping) else "*.chat.messages.*"
    nodes: dict[str, TreeNode] = {}
    before: str | None = None
    for key, each in _keyed(held if isinstance(held, Mapping) else chat.get("messages")):
        role = _ROLES.get(whole_text(each.get("role")), Role.ASSISTANT)
        parent = each.get("parentId", before)
        nodes[key] = TreeNode(
            role=role,
            read=partial(_read_open_webui_message, each, role, request, counter, f"{field}."),
            parent=parent if isinstance(parent, str) else None,
            children=tuple(child for child in _list(each.get("childrenIds")) if isinstance(child, str)),
            created=_seconds(each.get("timestamp")),
        )
        before = key
    said = said_on_path(nodes, history.get("currentId"), counter, field)
    return _chat_of(value, "open-webui", name, "id", said, ("chat",), counter)


def _read_open_webui_message(
    each: _Values, role: Role, request: ImportRequest, counter: FieldCounter, prefix: str
) -> Message | None:
    written = whole_text(each.get("content"))
    text = _without_details(written)
    if text != written:
        counter.refuse(f"{prefix}content", note="a folded part (thoughts, calls of tools) of what the page shows")
    rest = _rest_of(each, ("id", "role", "content", "timestamp", "parentId", "childrenIds", "done"))
    return _message(role, text, [], request, each.get("timestamp"), "open-webui", rest, counter, prefix)


def _without_details(text: str) -> str:
    """Return a reply without the folded parts that Open WebUI writes into it."""
    kept: list[str] = []
    start = 0
    while (opening := _FOLDED.search(text, start)) is not None:
        closing = text.find(_DETAILS_END, opening.end())
        if closing < 0:
            break
        kept.append(text[start : opening.start()])
        start = closing + len(_DETAILS_END)
    kept.append(text[start:])
    return "".join(kept).strip() if start else text


def _read_librechat(value: _Values, name: str, request: ImportRequest, counter: FieldCounter) -> Chat:
    nodes: dict[str, TreeNode] = {}
    held = value.get("messagesTree") or value.get("messages")
    waiting: list[tuple[str | None, _Values]] = [(None, each) for each in reversed(_mappings(held) or [_mapping(held)])]
    while waiting:
        above, each = waiting.pop()
        key = _key_of(each, "messageId", len(nodes))
        parent = above if above is not None else each.get("parentMessageId")
        role = Role.USER if each.get("isCreatedByUser") is True else Role.ASSISTANT
        nodes[key] = TreeNode(
            role=role,
            read=partial(_read_librechat_message, each, role, request, counter),
            parent=parent if isinstance(parent, str) else None,
            created=_seconds(each.get("createdAt")),
        )
        waiting += [(key, child) for child in reversed(_mappings(each.get("children")))]
    said = said_on_path(nodes, None, counter, "messages.*")
    return _chat_of(value, "librechat", name, "conversationId", said, ("messages", "messagesTree"), counter)


def _read_librechat_message(each: _Values, role: Role, request: ImportRequest, counter: FieldCounter) -> Message | None:
    prefix = "messages.*."
    if each.get("error") is True:
        counter.refuse(f"{prefix}error", note="an error that the page showed")
        return None
    texts, parts = _split_parts(each.get("content"), f"{prefix}content", counter)
    text = "\n".join(texts) or whole_text(each.get("text"))
    read = (
        "messageId",
        "parentMessageId",
        "conversationId",
        "text",
        "content",
        "isCreatedByUser",
        "createdAt",
        "children",
    )
    rest = _rest_of(each, (*read, "error"))
    return _message(role, text, parts, request, each.get("createdAt"), "librechat", rest, counter, prefix)


def _cherry_messages(
    messages: Sequence[_Values], blocks: Mapping[str, _Values], request: ImportRequest, counter: FieldCounter
) -> Iterator[SaidMessage]:
    """Yield the messages of a topic. If several models answered a question, one answer is the message and the others are
    alternatives.
    """
    answers: dict[str, list[_Values]] = {}
    for each in messages:
        if isinstance(each.get("askId"), str) and each.get("role") == Role.ASSISTANT:
            answers.setdefault(each["askId"], []).append(each)
    for each in messages:
        group = answers.get(each["askId"], []) if each.get("role") == Role.ASSISTANT and "askId" in each else [each]
        if not group or each is not group[0]:
            continue
        shown = next((one for one in group if one.get("foldSelected") is True), group[0])
        read = {id(one): _read_cherry_message(one, blocks, request, counter) for one in group}
        message = read.pop(id(shown))
        others = tuple((other,) for other in read.values() if other is not None)
        if message is None and others:
            (message,), others = others[0], others[1:]
        if message is not None:
            yield SaidMessage(message=message, others=others if message.role is not Role.USER else ())


def _read_cherry_message(
    each: _Values, blocks: Mapping[str, _Values], request: ImportRequest, counter: FieldCounter
) -> Message | None:
    prefix = "indexedDB.topics.*.messages.*."
    role = _ROLES.get(whole_text(each.get("role")))
    if role is None or each.get("type") == "clear":
        counter.refuse(f"{prefix}type", each.get("type"), "a mark of the page")
        return None
    texts, parts = [whole_text(each.get("content"))] if each.get("content") else [], []
    for block in (blocks[key] for key in _list(each.get("blocks")) if isinstance(key, str) and key in blocks):
        kind = whole_text(block.get("type"))
        if kind in ("main_text", "code"):
            texts.append(whole_text(block.get("content")))
        elif kind == "thinking":
            counter.refuse("indexedDB.message_blocks.*.thinking", block, _THOUGHT)
        else:
            parts.append(dict(block))
    rest = _rest_of(each, ("id", "role", "content", "createdAt", "blocks", "type", "topicId"))
    text = "\n".join(text for text in texts if text)
    return _message(role, text, parts, request, each.get("createdAt"), "cherry-studio", rest, counter, prefix)


def _topic_names(store: _Values) -> dict[str, str]:
    """Return the names of topics by id. The program stores them as JSON within JSON."""
    state = _mapping(_parsed(store.get(_STORE_KEY)))
    assistants = _mapping(_parsed(state.get("assistants")))
    held = [*_mappings(assistants.get("assistants")), _mapping(assistants.get("defaultAssistant"))]
    return {
        topic["id"]: whole_text(topic.get("name")).strip()
        for assistant in held
        for topic in _mappings(assistant.get("topics"))
        if isinstance(topic.get("id"), str)
    }


def _split_parts(content: Any, field: str, counter: FieldCounter) -> tuple[list[str], list[Any]]:
    """Return (texts, other parts) of a content. Thoughts of the model are counted and left out."""
    texts: list[str] = []
    others: list[Any] = []
    for part in _mappings(content):
        kind = whole_text(part.get("type"))
        if kind == "text":
            text = part.get("text")
            texts.append(whole_text(text.get("value") if isinstance(text, Mapping) else text))
        elif kind in ("thinking", "think", "redacted_thinking"):
            counter.refuse(f"{field}.{kind}", part, _THOUGHT)
        else:
            others.append(dict(part))
    return [text for text in texts if text], others


def _message(
    role: Role,
    text: str,
    parts: list[Any],
    request: ImportRequest,
    date: Any,
    source: str,
    rest: dict[str, Any],
    counter: FieldCounter,
    prefix: str,
) -> Message | None:
    if not text.strip() and not parts:
        return None
    counter.keep(f"{prefix}content", text)
    counter.keep(f"{prefix}content.parts", parts, _BESIDE)
    counter.keep(f"{prefix}date", date)
    count_rest(counter, prefix, rest)
    names = {Role.USER: request.users, Role.ASSISTANT: request.assistants}.get(role, ())
    return make_message(
        role,
        text,
        next(iter(names), None),
        date=date,
        source=source,
        rest={**rest, **({"parts": parts} if parts else {})},
    )


def _chat_of(
    value: _Values,
    format_name: str,
    name: str,
    id_field: str,
    said: Iterable[SaidMessage],
    read: tuple[str, ...],
    counter: FieldCounter,
) -> Chat:
    messages = list(said)
    header = _rest_of(value, read)
    count_rest(counter, "*.", header)
    begun = value.get(id_field)
    return listed_chat(name, chat_key(format_name, begun, *([] if begun else [name])), messages, header=header)


def _rest_of(values: _Values, read: Sequence[str]) -> dict[str, Any]:
    return {name: each for name, each in values.items() if name not in read and each not in (None, "", [], {})}


def _seconds(value: Any) -> float:
    moment = read_date(value)
    return 0 if moment is None else moment.timestamp()


def _key_of(each: _Values, name: str, number: int) -> str:
    return each[name] if isinstance(each.get(name), str) else f"#{number}"


def _keyed(messages: Any) -> Iterator[tuple[str, _Values]]:
    if isinstance(messages, Mapping):
        yield from ((key, each) for key, each in messages.items() if isinstance(each, Mapping))
    else:
        yield from ((_key_of(each, "id", number), each) for number, each in enumerate(_mappings(messages)))


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        return None


def _first(value: Any) -> _Values:
    return _mapping(value[0] if isinstance(value, list) and value else value)


def _mapping(value: Any) -> _Values:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mappings(value: Any) -> list[_Values]:
    return [each for each in _list(value) if isinstance(each, Mapping)]

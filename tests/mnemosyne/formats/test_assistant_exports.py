"""Exports of Claude, Open WebUI, LibreChat and Cherry Studio: the shown path, other replies, and what is not taken in."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from mnemosyne.formats.recognise import read_imported_file, recognise
from mnemosyne.schema.imported_files import Chat, Fate, ImportedFile
from mnemosyne.schema.record import ImportRequest

LIN = ImportRequest(users=("Lin",), assistants=("Mara",))


def read(folder: Path, value: Any, *, member: str = "") -> ImportedFile:
    """Return what a file holds, by the format that its content shows."""
    path = folder / "export.json"
    text = json.dumps(value, ensure_ascii=False)
    if member:
        path = folder / "export.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(member, text)
            archive.writestr("users.json", "[]")
    else:
        path.write_text(text, encoding="utf-8")
    return read_imported_file(path, recognise(path), LIN)


def spoken(chat: Chat) -> list[tuple[str, str]]:
    return [(m.role.value, m.content) for turn in chat.read_turns() for m in turn.messages]


def others(chat: Chat) -> list[str]:
    return [m.content for turn in chat.read_turns() for other in turn.alternatives for m in other]


def claude_message(uuid: str, sender: str, text: str, **fields: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {
        "uuid": uuid,
        "sender": sender,
        "text": text,
        "content": content,
        "created_at": "2026-01-02T03:04:05Z",
        **fields,
    }


def claude(**links: str) -> dict[str, Any]:
    messages = [
        claude_message("1", "human", "灯在哪里？"),
        claude_message("2", "assistant", "In the well."),
        claude_message(
            "3",
            "assistant",
            "在井里。",
            content=[{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "在井里。"}],
        ),
        claude_message("4", "human", "Thanks", attachments=[{"file_name": "map.txt", "extracted_content": "A map."}]),
    ]
    for message in messages:
        if message["uuid"] in links:
            message["parent_message_uuid"] = links[message["uuid"]]
    return {"uuid": "c-1", "name": "The lamp", "created_at": "2026-01-02T03:04:05Z", "chat_messages": messages}


@pytest.mark.parametrize("member", ["", "conversations.json"])
def test_claude(tmp_path: Path, member: str) -> None:
    tree = claude(**{"1": "00000000-0000-4000-8000-000000000000", "2": "1", "3": "1", "4": "3"})
    file = read(tmp_path, [tree, {**claude(), "uuid": "c-2"}], member=member)
    assert file.format == "claude"
    assert [chat.name for chat in file.chats] == ["The lamp", "The lamp (2)"]
    first, second = file.chats
    assert spoken(first) == [("user", "灯在哪里？"), ("assistant", "在井里。"), ("user", "Thanks")]
    assert others(first) == ["In the well."]
    assert [text for _, text in spoken(second)] == ["灯在哪里？", "In the well.", "在井里。", "Thanks"]
    assert {each.field for each in file.fates if each.fate is Fate.NOT_SUPPORTED} == {
        "*.chat_messages.*.content.thinking"
    }
    last = [*first.read_turns()][-1].messages[-1]
    assert last.extra["claude"]["attachments"][0]["extracted_content"] == "A map."
    assert last.author is not None
    assert last.author.id == "Lin"
    assert last.at is not None


def webui_message(key: str, parent: str | None, role: str, content: str, *children: str) -> dict[str, Any]:
    fields = {"id": key, "parentId": parent, "childrenIds": list(children), "role": role}
    return {**fields, "content": content, "timestamp": 1_700_000_000}


def test_open_webui(tmp_path: Path) -> None:
    folded = '<details type="reasoning" done="true">\n<summary>Thought</summary>\n&gt; hm\n</details>\nAt pier nine.'
    messages = {
        "u": webui_message("u", None, "user", "Where is the boat?", "a", "b"),
        "a": webui_message("a", "u", "assistant", folded, "v"),
        "b": webui_message("b", "u", "assistant", "I do not know."),
        "v": webui_message("v", "a", "user", "And <details> of the key?"),
    }
    chat = {"title": "Boat", "history": {"currentId": "v", "messages": messages}, "messages": []}
    file = read(tmp_path, [{"id": "w-1", "title": "Boat", "chat": chat, "folder_id": None}])
    assert file.format == "open-webui"
    assert spoken(file.chats[0]) == [
        ("user", "Where is the boat?"),
        ("assistant", "At pier nine."),
        ("user", "And <details> of the key?"),
    ]
    assert others(file.chats[0]) == ["I do not know."]
    linear = {
        "title": "Old",
        "chat": {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]},
    }
    assert spoken(read(tmp_path, linear).chats[0]) == [("user", "Hi"), ("assistant", "Ho")]


def libre(key: str, text: str, *, user: bool, parent: str = "", **fields: Any) -> dict[str, Any]:
    return {"messageId": key, "parentMessageId": parent, "text": text, "isCreatedByUser": user, **fields}


def test_librechat(tmp_path: Path) -> None:
    content = [{"type": "think", "think": "hm"}, {"type": "text", "text": {"value": "At pier nine."}}]
    reply = libre("b", "", user=False, parent="a", content=content, createdAt="2026-01-01T00:00:02Z")
    error = libre("x", "No quota", user=False, parent="c", error=True, createdAt="2026-01-01T00:00:04Z")
    messages = [
        libre("a", "Where?", user=True, createdAt="2026-01-01T00:00:00Z"),
        libre("old", "There.", user=False, parent="a", createdAt="2026-01-01T00:00:01Z"),
        reply,
        libre("c", "And the key?", user=True, parent="b", createdAt="2026-01-01T00:00:03Z"),
        error,
    ]
    flat = {"conversationId": "l-1", "title": "Boat", "recursive": False, "messages": messages}
    expected = [("user", "Where?"), ("assistant", "At pier nine."), ("user", "And the key?")]
    file = read(tmp_path, flat)
    assert file.format == "librechat"
    assert spoken(file.chats[0]) == expected
    assert others(file.chats[0]) == ["There."]
    nested = {**messages[0], "children": [messages[1], {**reply, "children": [{**messages[3], "children": [error]}]}]}
    tree = {"conversationId": "l-1", "title": "Boat", "recursive": True, "messagesTree": [nested]}
    assert spoken(read(tmp_path, tree).chats[0]) == expected


def cherry_backup() -> dict[str, Any]:
    def message(key: str, role: str, *blocks: str, **fields: Any) -> dict[str, Any]:
        return {
            "id": key,
            "role": role,
            "topicId": "t-1",
            "createdAt": "2026-01-01T00:00:00Z",
            "blocks": list(blocks),
            **fields,
        }

    def block(key: str, kind: str, content: str) -> dict[str, Any]:
        return {"id": key, "messageId": "m", "type": kind, "content": content}

    topics = [
        message("1", "user", "k1"),
        message("2", "assistant", "k2", "k3", askId="1"),
        message("3", "assistant", "k4", askId="1", foldSelected=True),
        message("4", "user", type="clear"),
        message("5", "user", content="Thanks"),
    ]
    blocks = [
        block("k1", "main_text", "船在哪里？"),
        block("k2", "thinking", "hm"),
        block("k3", "main_text", "I do not know."),
        block("k4", "main_text", "在九号码头。"),
    ]
    assistants = json.dumps({"assistants": [{"topics": [{"id": "t-1", "name": "船"}]}], "defaultAssistant": {}})
    store = {"persist:cherry-studio": json.dumps({"assistants": assistants})}
    data = {"topics": [{"id": "t-1", "messages": topics}], "message_blocks": blocks}
    return {"time": 1, "version": 5, "localStorage": store, "indexedDB": data}


@pytest.mark.parametrize("member", ["", "data.json"])
def test_cherry_studio(tmp_path: Path, member: str) -> None:
    file = read(tmp_path, cherry_backup(), member=member)
    (chat,) = file.chats
    assert (file.format, chat.name) == ("cherry-studio", "船")
    assert spoken(chat) == [("user", "船在哪里？"), ("assistant", "在九号码头。"), ("user", "Thanks")]
    assert others(chat) == ["I do not know."]


@pytest.mark.parametrize("value", [[claude()], cherry_backup()])
def test_the_same_export_gives_the_same_turns_again(tmp_path: Path, value: Any) -> None:
    once, again = (read(tmp_path, value).chats[0] for _ in range(2))
    assert [turn.turn_id for turn in once.read_turns()] == [turn.turn_id for turn in again.read_turns()]

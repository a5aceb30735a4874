"""Entry points of files of other programs: cards, books, chats, keys, and the texts in which keys are looked for."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from entry_points import MEASURED_CHARS, entry

from mnemosyne import MnemosyneError
from mnemosyne.formats.cards.card_json import parse_card
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.formats.recognise import FORMATS, read_imported_file, recognise
from mnemosyne.formats.worlds.pack import ImportedWorld, join_imports, pack_files
from mnemosyne.schema.imported_files import BookEntry, WorldBook
from mnemosyne.schema.record import ImportRequest
from mnemosyne.world import load_world_files
from mnemosyne.world.activation.entries import read_entry
from mnemosyne.world.activation.macros import fill_names
from mnemosyne.world.activation.scan import scan
from mnemosyne.world.activation.values import BookSource, ScanContext, ScannedMessage, WorldInfoSettings

KEYS = ("lamp", "灯塔", "/la(m|n)p/i", r"/\bfog\b/", "red lamp")


@cache
def _folder() -> Path:
    return Path(mkdtemp(prefix="format-entries-"))


@entry("file of another program", MEASURED_CHARS, MnemosyneError, costs=True)
def read_file(text: str) -> None:
    path = _folder() / "file"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    name = recognise(path)
    if name in FORMATS:
        read_imported_file(path, name, ImportRequest())


@entry("line of a chat", MEASURED_CHARS, MnemosyneError, costs=True)
def read_chat_line(text: str) -> None:
    said = {"name": text[:100], "mes": text, "swipes": [text, text[::-1]], "send_date": text[:60]}
    lines = ({"user_name": "T", "chat_metadata": {}}, said)
    path = _folder() / "chat.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    (chat,) = read_imported_file(path, "chat", ImportRequest()).chats
    assert sum(1 for _ in chat.read_turns()) == chat.turn_count


@entry("export of an assistant", MEASURED_CHARS, MnemosyneError, costs=True)
def read_exports(text: str) -> None:
    folded = f'<details type="reasoning">{text}</details>{text}'
    spoken = {"role": "user", "sender": "human", "content": folded, "text": folded, "isCreatedByUser": True}
    exports = {
        "claude": {"name": text, "chat_messages": [{**spoken, "content": [{"type": "text", "text": text}]}]},
        "open-webui": {"title": text, "chat": {"messages": [spoken]}},
        "librechat": {"conversationId": text, "messages": [{**spoken, "messageId": text, "parentMessageId": text}]},
        "cherry-studio": {"indexedDB": {"topics": [{"id": text, "messages": [spoken]}]}},
        "foreign-chat": {"prompt": text, "actions": [text], "savedsettings": {"instruct_starttag": text[:40]}},
    }
    path = _folder() / "export.json"
    for name, value in exports.items():
        path.write_text(json.dumps(value), encoding="utf-8")
        for chat in read_imported_file(path, name, ImportRequest()).chats if text.strip() else ():
            assert sum(1 for _ in chat.read_turns()) == chat.turn_count


@entry("card and its book", 200_000, MnemosyneError, costs=True)
def make_world(text: str) -> None:
    # A file with half a surrogate pair is refused by its reader.
    text = text.encode("utf-8", "replace").decode("utf-8")
    card = parse_card(
        {
            "spec": "chara_card_v2",
            "data": {"name": "Mira", "description": text, "mes_example": text, "first_mes": text},
        },
        file_name="Mira",
        counter=FieldCounter(),
    )
    entries = (BookEntry(uid="1", fields={"key": [text[:2_000]], "content": text, "comment": text[:2_000]}),)
    book = WorldBook(name="B", dialect="sillytavern", entries=entries)
    load_world_files(pack_files(join_imports(ImportedWorld(world_id="w", user_name=text[:100]), (card,), (book,))))


@entry("text with macros", 200_000)
def fill(text: str) -> None:
    fill_names(text, char="Mira", user="Tom")


@entry("text that is scanned for keys", 400_000)
def scan_text(text: str) -> None:
    _scan(KEYS, text)


@entry("key of world info", 4_000)
def scan_key(text: str) -> None:
    _scan((text, f"/{text}/i"), "the lamp at night 灯塔 " * 20)


def _scan(keys: tuple[str, ...], text: str) -> None:
    fields = {"key": list(keys), "keysecondary": list(keys), "selectiveLogic": 3, "content": text[:1_000]}
    scan(
        [read_entry(fields, world="w", uid="1", source=BookSource.GLOBAL)],
        ScanContext(messages=(ScannedMessage(name="Ann", text=text),)),
        WorldInfoSettings(),
        count_tokens=len,
        roll=lambda purpose, name: 0.5,
    )

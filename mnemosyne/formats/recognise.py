"""Recognises the format of a file or folder for import, and reads files by the name of their format.

The content of a file decides. Its name decides only if the content fits several formats.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.formats.archives import ZIP_MARK, member_names
from mnemosyne.formats.books.agnai import is_agnai, read_agnai
from mnemosyne.formats.books.character_book import is_lorebook, read_lorebook
from mnemosyne.formats.books.kobold import is_ai_dungeon, is_kobold, read_ai_dungeon, read_kobold
from mnemosyne.formats.books.novelai import is_novelai, read_novelai
from mnemosyne.formats.books.risu import is_risu, read_risu
from mnemosyne.formats.books.world_info import is_world_info, read_world_info
from mnemosyne.formats.cards.card_json import is_card, read_card_json
from mnemosyne.formats.cards.charx import read_charx
from mnemosyne.formats.cards.png import read_card_png
from mnemosyne.formats.chats.assistant_exports import (
    BACKUP_MEMBER,
    is_cherry_studio,
    is_claude_export,
    is_librechat,
    is_open_webui,
    read_cherry_studio,
    read_claude_export,
    read_librechat,
    read_open_webui,
)
from mnemosyne.formats.chats.chat_lists import EXPORT_MEMBER, MOST_EXPORT_BYTES
from mnemosyne.formats.chats.chatgpt import is_chatgpt, read_chatgpt
from mnemosyne.formats.chats.foreign import is_chub_line, is_foreign_chat, read_foreign_chat
from mnemosyne.formats.chats.json_lines import read_loose_json
from mnemosyne.formats.chats.openai_messages import is_openai_messages, read_openai_messages
from mnemosyne.formats.chats.sillytavern import is_chat_line, read_chat
from mnemosyne.formats.chats.transcript import looks_like_transcript, read_transcript
from mnemosyne.formats.corpora.corpus import CORPUS_FILE
from mnemosyne.formats.memories.databases import tables_of
from mnemosyne.formats.memories.langchain import is_langchain, read_langchain
from mnemosyne.formats.memories.llamaindex import is_llamaindex, read_llamaindex
from mnemosyne.formats.memories.mem0 import is_mem0, read_mem0
from mnemosyne.formats.notes.markdown import is_markdown, read_markdown
from mnemosyne.formats.notes.obsidian import is_vault, read_vault
from mnemosyne.formats.safe_files import read_file_bytes
from mnemosyne.schema.imported_files import ImportedFile
from mnemosyne.schema.record import ImportRequest

WORLD, CORPUS = "world", "corpus"
WORLD_FILE = "world.yaml"
_HEAD_BYTES, _READ_BYTES = 4_000_000, 16_000
_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SQLITE = b"SQLite format 3\x00"
_CARD_MEMBER = "card.json"

Read = Callable[[Path, ImportRequest], ImportedFile]
"""Reads a file of one format. Raises CorpusError if it cannot."""


def _of_path(read: Callable[[Path], ImportedFile]) -> Read:
    return lambda path, request: read(path)


FORMATS: dict[str, Read] = {
    "world-info": _of_path(read_world_info),
    "lorebook": _of_path(read_lorebook),
    "risu": _of_path(read_risu),
    "agnai": _of_path(read_agnai),
    "novelai": _of_path(read_novelai),
    "kobold": _of_path(read_kobold),
    "ai-dungeon": _of_path(read_ai_dungeon),
    "card": _of_path(read_card_json),
    "card-png": _of_path(read_card_png),
    "charx": _of_path(read_charx),
    "chat": read_chat,
    "foreign-chat": read_foreign_chat,
    "chatgpt": read_chatgpt,
    "claude": read_claude_export,
    "open-webui": read_open_webui,
    "librechat": read_librechat,
    "cherry-studio": read_cherry_studio,
    "openai": read_openai_messages,
    "transcript": read_transcript,
    "obsidian": _of_path(read_vault),
    "markdown": _of_path(read_markdown),
    "mem0": _of_path(read_mem0),
    "langchain": _of_path(read_langchain),
    "llamaindex": _of_path(read_llamaindex),
}
"""Readers of files of other programs, by the names of their formats."""

_IN_JSON: dict[str, Callable[[Any], bool]] = {
    "card": is_card,
    "lorebook": is_lorebook,
    "chatgpt": is_chatgpt,
    "claude": is_claude_export,
    "open-webui": is_open_webui,
    "librechat": is_librechat,
    "cherry-studio": is_cherry_studio,
    "openai": is_openai_messages,
    "foreign-chat": is_foreign_chat,
    "risu": is_risu,
    "agnai": is_agnai,
    "novelai": is_novelai,
    "kobold": is_kobold,
    "ai-dungeon": is_ai_dungeon,
    "mem0": is_mem0,
    "langchain": is_langchain,
    "llamaindex": is_llamaindex,
    "world-info": is_world_info,
}
"""Tests for the formats of JSON files, in the order in which they are tried."""


def read_imported_file(path: Path, name: str, request: ImportRequest) -> ImportedFile:
    """Return the content of the file or folder `path`, read by the reader of the format `name` (a key of FORMATS).

    `request` has the caller's choices for the import. Raises CorpusError if the reader cannot read the file.
    """
    return replace(FORMATS[name](path, request), format=name)


def recognise(path: Path) -> str:
    """Return the name of the format of a file or folder: one of FORMATS, `world` or `corpus`.

    Raises CorpusError if the file or folder is missing, cannot be read, is empty, or has no known format.
    """
    if path.is_dir():
        return _recognise_folder(path)
    data = read_file_bytes(path, most_bytes=_HEAD_BYTES, whole=False)
    if not data.strip():
        raise CorpusError(f"{path}: is empty.")
    if data.startswith(_PNG):
        return "card-png"
    if data.startswith(ZIP_MARK):
        return _recognise_archive(path)
    if data.startswith(_JPEG):
        return "charx"
    if data.startswith(_SQLITE):
        return _recognise_database(path)
    found = _recognise_text(path, data)
    if found is None:
        raise CorpusError(
            f"{path}: its format is not known. Name it by --format: {', '.join((WORLD, CORPUS, *FORMATS))}."
        )
    return found


def _recognise_folder(path: Path) -> str:
    if (path / WORLD_FILE).is_file():
        return WORLD
    if (path / CORPUS_FILE).is_file():
        return CORPUS
    kinds: dict[str, Callable[[Path], bool]] = {
        "llamaindex": is_llamaindex,
        "mem0": is_mem0,
        "obsidian": is_vault,
        "markdown": is_markdown,
    }
    for name, fits in kinds.items():
        if fits(path):
            return name
    raise CorpusError(
        f"{path}: is a folder of no known format: neither {WORLD_FILE} nor {CORPUS_FILE} is in it. Name its format by --format."
    )


def holds_export(path: Path) -> bool:
    """Return whether a zip archive is itself an export of another program (a card, or the chats of an assistant)."""
    return not member_names(path).isdisjoint((EXPORT_MEMBER, BACKUP_MEMBER, _CARD_MEMBER))


def _recognise_archive(path: Path) -> str:
    names = member_names(path)
    member = next((name for name in (EXPORT_MEMBER, BACKUP_MEMBER) if name in names), None)
    if member is None or _CARD_MEMBER in names:
        return "charx"
    return _recognise_json(read_loose_json(path, MOST_EXPORT_BYTES, member=member)) or "charx"


def _recognise_json(value: Any) -> str | None:
    return next((name for name, fits in _IN_JSON.items() if fits(value)), None)


def _recognise_database(path: Path) -> str:
    tables_of(path)  # A database that is damaged or in use says so, and not that its format is unknown.
    for name, fits in (("mem0", is_mem0), ("langchain", is_langchain)):
        if fits(path):
            return name
    raise CorpusError(f"{path}: is a SQLite database, but none of mem0 or LangChain.")


def _recognise_text(path: Path, data: bytes) -> str | None:
    if data.startswith(_UTF16):
        data = data.decode("utf-16", "ignore").encode("utf-8", "ignore")
    first = _first_line(data)
    if is_chub_line(first):
        return "foreign-chat"
    if is_chat_line(first):
        return "chat"
    if isinstance(first, Mapping) and {"id", "chain", "text"} <= set(first):
        return CORPUS
    if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
        return _recognise_plain_text(path, data)
    return _recognise_json(read_loose_json(path, MOST_EXPORT_BYTES))


def _recognise_plain_text(path: Path, data: bytes) -> str | None:
    if path.suffix.lower() == ".jsonl":
        return CORPUS
    if looks_like_transcript(data[:_READ_BYTES].decode("utf-8", "ignore")):
        return "transcript"
    return "markdown" if is_markdown(path) else None


def _first_line(data: bytes) -> Any:
    try:
        return json.loads(data.split(b"\n", 1)[0].decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None

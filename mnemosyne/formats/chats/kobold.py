"""Saved stories of KoboldAI and KoboldAI Lite: a beginning, and actions that are the player's or the model's.

Who speaks follows from the marks of instructions, from names at the beginning of lines, or from `>` in adventures. A story
without any of these is the model's alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.formats.chats.json_lines import read_loose_json
from mnemosyne.formats.chats.listed import count_rest, listed_chat, listed_file, make_message, whole_text
from mnemosyne.formats.chats.sillytavern import NO_REQUEST
from mnemosyne.formats.chats.transcript import split_speech
from mnemosyne.formats.chats.turns import SaidMessage, chat_key
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.schema.imported_files import AuthorsNote, ImportedFile
from mnemosyne.schema.record import ImportRequest
from mnemosyne.schema.session import Role

_MARKS = re.compile(r"\{\{\[(SYSTEM|INPUT|OUTPUT|SYSTEM_END|INPUT_END|OUTPUT_END)\]\}\}")
_ROLES = {"INPUT": Role.USER, "SYSTEM": Role.SYSTEM}
_TAG_SETTINGS = {
    "instruct_starttag": "INPUT",
    "instruct_starttag_end": "INPUT_END",
    "instruct_endtag": "OUTPUT",
    "instruct_endtag_end": "OUTPUT_END",
    "instruct_systag": "SYSTEM",
    "instruct_systag_end": "SYSTEM_END",
}
"""Settings of a story that name its tags, for stories that were saved with the tags themselves."""
_USUAL_TAGS = {"instruct_starttag": "\n### Instruction:\n", "instruct_endtag": "\n### Response:\n"}
_SPEAKER_TAG = re.compile(r"[\w ]+[:：]")
_MOST_TAG_CHARS = 200
_CHAT_MODE = 3
_READ = frozenset(("prompt", "actions", "actions_metadata", "authorsnote"))


def is_kobold_story(value: Any) -> bool:
    """Return whether a JSON value is a saved story."""
    return (
        isinstance(value, Mapping) and isinstance(value.get("actions"), list) and isinstance(value.get("prompt"), str)
    )


def read_kobold_story(path: Path, request: ImportRequest = NO_REQUEST) -> ImportedFile:
    """Return a saved story as a chat; the author's note comes with it, memory and world info do not. CorpusError for a file that is
    none.
    """
    value = read_loose_json(path)
    if not is_kobold_story(value):
        raise CorpusError(f"{path}: is no saved story of KoboldAI: it has no prompt and actions.")
    counter = FieldCounter()
    settings = value.get("savedsettings")
    settings = settings if isinstance(settings, Mapping) else {}
    said = list(_read_story(value, settings, request, counter))
    counter.keep("authorsnote", value.get("authorsnote"))
    counter.refuse("memory", value.get("memory"), "is no part of the conversation; put it into a persona")
    counter.refuse("worldinfo", value.get("worldinfo"), "is a book: import the file as one")
    header = {name: each for name, each in value.items() if name not in {*_READ, "memory", "worldinfo"}}
    count_rest(counter, "", header)
    note = whole_text(value.get("authorsnote")).strip()
    key = chat_key("kobold", *(each.message.content for each in said[:2]))
    chat = listed_chat(path.stem, key, said, header=header, authors_note=AuthorsNote(text=note) if note else None)
    return listed_file(path, "kobold-story", [chat], counter, request)


def _read_story(
    value: Mapping[str, Any], settings: Mapping[str, Any], request: ImportRequest, counter: FieldCounter
) -> Iterator[SaidMessage]:
    parts = [whole_text(each) for each in (value.get("prompt"), *value["actions"])]
    for number, part in enumerate(parts):
        counter.keep("actions.*" if number else "prompt", part)
    user = request.users[0] if request.users else whole_text(settings.get("chatname"))
    others = [name.strip() for name in whole_text(settings.get("chatopponent")).split("||$||") if name.strip()]
    other = next(iter((*request.assistants, *others)), "")
    whole = _with_marks("".join(parts), settings)
    if _MARKS.search(whole):
        yield from _split_marks(whole, user, other)
    elif settings.get("opmode") == _CHAT_MODE and user:
        for speech in split_speech(whole.splitlines(), (user, *others)):
            role = Role.USER if speech.name == user else Role.ASSISTANT
            yield SaidMessage(message=make_message(role, speech.text, speech.name, date=speech.time))
    else:
        yield from _split_actions(parts, value.get("actions_metadata"), user, other, counter)


def _with_marks(text: str, settings: Mapping[str, Any]) -> str:
    """Return a story with marks in the place of literal tags; a text that has no tag of the user stays as it is."""
    tags: dict[str, str] = {}
    patterns: list[str] = []
    for setting, mark in _TAG_SETTINGS.items():
        written = whole_text(settings.get(setting)) or _USUAL_TAGS.get(setting, "")
        tag = written.replace("\\n", "\n")
        if (bare := tag.strip()) and len(bare) <= _MOST_TAG_CHARS and bare not in tags:
            tags[bare] = mark
            # Any sentence can contain "Q:", so it is a tag only at the beginning of a line.
            is_anchored = tag.startswith("\n") or _SPEAKER_TAG.fullmatch(bare)
            patterns.append((r"^[ \t]*" if is_anchored else "") + re.escape(bare))
    longest_first = sorted(patterns, key=len, reverse=True)
    found = re.compile("|".join(longest_first), re.MULTILINE)
    if not any(tags[each[0].strip()] == "INPUT" for each in found.finditer(text)):
        return text
    return found.sub(lambda each: f"{{{{[{tags[each[0].strip()]}]}}}}", text)


def _split_marks(text: str, user: str, other: str) -> Iterator[SaidMessage]:
    pieces = _MARKS.split(text)
    for mark, piece in zip(("", *pieces[1::2]), pieces[::2], strict=True):
        if piece.strip():
            role = _ROLES.get(mark, Role.ASSISTANT)
            name = {Role.USER: user, Role.ASSISTANT: other}.get(role)
            yield SaidMessage(message=make_message(role, piece.strip(), name))


def _split_actions(
    parts: list[str], metadata: Any, user: str, other: str, counter: FieldCounter
) -> Iterator[SaidMessage]:
    for number, part in enumerate(parts):
        text = part.strip()
        if not text:
            continue
        is_user = number > 0 and text.startswith(">")
        role = Role.USER if is_user else Role.ASSISTANT
        message = make_message(role, text.removeprefix(">").strip() if is_user else text, user if is_user else other)
        info = metadata.get(str(number - 1)) if isinstance(metadata, Mapping) else None
        told = info.get("Alternative Text") if isinstance(info, Mapping) else None
        texts = {
            whole_text(each.get("Text")).strip(): None
            for each in (told if isinstance(told, list) else ())
            if isinstance(each, Mapping)
        }
        others = [each for each in texts if each and each != text] if not is_user else []
        for each in others:
            counter.keep("actions_metadata.*.Alternative Text.*", each)
        yield SaidMessage(message=message, others=tuple((make_message(role, each, other),) for each in others))

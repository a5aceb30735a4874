"""Reads chats of Chub, oobabooga's text-generation-webui, Agnai, CAI Tools (character.ai), Risu, KoboldAI and KoboldAI
Lite.

If a file contains no names, the speakers get the names of the request: its first user and its first assistant. A story of
KoboldAI is one text. Its speakers are found by instruction tags, by names at the beginning of lines, or by `>` before
inputs in adventures. If the story has none of these, all text counts as the model's.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.formats.chats.chat_lists import count_rest, listed_chat, listed_file, make_message, whole_text
from mnemosyne.formats.chats.json_lines import read_json_lines, read_loose_json
from mnemosyne.formats.chats.sillytavern import NO_REQUEST, read_chat
from mnemosyne.formats.chats.transcript import split_speech
from mnemosyne.formats.chats.turns import SaidMessage, chat_key
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.schema.imported_files import AuthorsNote, Chat, ImportedFile
from mnemosyne.schema.record import ImportRequest
from mnemosyne.schema.session import Message, Role

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
"""Settings of a story that contain its tags. They are needed for stories that were saved with literal tags."""
_USUAL_TAGS = {"instruct_starttag": "\n### Instruction:\n", "instruct_endtag": "\n### Response:\n"}
_SPEAKER_TAG = re.compile(r"[\w ]+[:：]")
_MOST_TAG_CHARS = 200
_CHAT_MODE = 3
_READ = frozenset(("prompt", "actions", "actions_metadata", "authorsnote"))


def is_kobold_story(value: Any) -> bool:
    """Return whether a JSON value is a saved story of KoboldAI or KoboldAI Lite."""
    return (
        isinstance(value, Mapping) and isinstance(value.get("actions"), list) and isinstance(value.get("prompt"), str)
    )


def read_kobold_story(path: Path, request: ImportRequest = NO_REQUEST) -> ImportedFile:
    """Return a saved story of KoboldAI as a chat. The author's note is imported; memory and world info are not.

    Raises CorpusError if the file is not a saved story.
    """
    value = read_loose_json(path)
    if not is_kobold_story(value):
        raise CorpusError(f"{path}: is not a saved story of KoboldAI: it has no prompt and actions.")
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
    """Return a story in which literal tags are replaced by marks. A story without a tag of the user stays unchanged."""
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


_BEGIN = "<|BEGIN-VISIBLE-CHAT|>"


def is_foreign_chat(value: Any) -> bool:
    """Return whether `read_foreign_chat` reads a file with this JSON value. For a file of JSON lines, `value` is its
    first line.
    """
    return is_chub_line(value) or any(fits(value) for fits, _ in _READERS)


def read_foreign_chat(path: Path, request: ImportRequest = NO_REQUEST) -> ImportedFile:
    """Return the chats of a file of any program in this module. Raises CorpusError if the file belongs to none of them."""
    first = next(read_json_lines(path), None)
    if first is not None and first.value is not None and ("mes" in first.value or "user_name" in first.value):
        return read_chub(path, request)
    value = read_loose_json(path)
    for fits, read in _READERS:
        if fits(value):
            return read(path, request)
    raise CorpusError(f"{path}: is not a chat of Chub, oobabooga, Agnai, CAI Tools, Risu or KoboldAI.")


def is_chub_line(value: Any) -> bool:
    """Return whether a JSON value is a message of a chat of Chub. Its `mes` is a mapping with `message`, not a text."""
    return isinstance(value, Mapping) and isinstance(value.get("mes"), Mapping) and "message" in value["mes"]


def read_chub(path: Path, request: ImportRequest = NO_REQUEST) -> ImportedFile:
    """Return a chat of Chub. Its format is SillyTavern's, except for the form of the texts. Raises CorpusError as
    `read_chat` does.
    """
    return read_chat(path, request, dialect="chub")


def is_oobabooga(value: Any) -> bool:
    """Return whether a JSON value is a history of text-generation-webui, which is a list of pairs of texts."""
    if not isinstance(value, Mapping):
        return False
    return isinstance(value.get("data_visible"), list) or (
        isinstance(value.get("internal"), list) and isinstance(value.get("visible"), list)
    )


def read_oobabooga(path: Path, request: ImportRequest = NO_REQUEST) -> ImportedFile:
    """Return the chat of a history of text-generation-webui. The text of a message is the text that the model got or, if it
    is missing, the text that was shown.

    Raises CorpusError, like the other readers of this module, if the file has another format or no message.
    """
    value = _mapping(path)
    counter = FieldCounter()
    raw = _first_list(value, "internal", "data")
    shown = _first_list(value, "visible", "data_visible")
    metadata = value.get("metadata")
    said: list[SaidMessage] = []
    for number in range(max(len(raw), len(shown))):
        for side, role in enumerate((Role.USER, Role.ASSISTANT)):
            info = metadata.get(f"{role.value}_{number}") if isinstance(metadata, Mapping) else None
            each = _read_side(_at(raw, number, side), _at(shown, number, side), role, info, request, counter)
            if each is not None:
                said.append(each)
    header = {name: each for name, each in value.items() if name in ("character", "name", "mode")}
    count_rest(counter, "", header)
    key = chat_key("oobabooga", *(each.message.content for each in said[:2]))
    return listed_file(path, "oobabooga", [listed_chat(path.stem, key, said, header=header)], counter, request)


def _read_side(
    raw: Any, shown: Any, role: Role, info: Any, request: ImportRequest, counter: FieldCounter
) -> SaidMessage | None:
    """Return one text of a pair as a message. Return None if both forms of the text are empty."""
    seen = html.unescape(shown) if isinstance(shown, str) else ""
    own = raw if isinstance(raw, str) and raw.strip() and raw != _BEGIN else ""
    if not (own or seen).strip():
        return None
    counter.keep("internal.*", own)
    rest = dict(info) if isinstance(info, Mapping) else {}
    date, versions = rest.pop("timestamp", None), rest.pop("versions", None)
    if own and seen and seen != own:
        rest["visible"] = seen
        counter.keep("visible.*", seen, "differs from the text that the model had; kept beside it")
    else:
        counter.keep("visible.*", seen)
    counter.keep("metadata.*.timestamp", date)
    count_rest(counter, "metadata.*.", {name: each for name, each in rest.items() if name != "visible"})
    message = make_message(role, own or seen, _name_of(role, request), date=date, source="oobabooga", rest=rest)
    texts = [
        (each.get("content"), each.get("timestamp"))
        for each in (versions if isinstance(versions, list) else ())
        if isinstance(each, Mapping)
    ]
    return SaidMessage(message=message, others=_others(message, texts, "metadata.*.versions.*", counter))


def is_agnai_chat(value: Any) -> bool:
    """Return whether a JSON value is a chat of Agnai, which is a list of messages with `msg`."""
    messages = value.get("messages") if isinstance(value, Mapping) else None
    return isinstance(messages, list) and any(isinstance(each, Mapping) and "msg" in each for each in messages[:20])


def read_agnai_chat(path: Path, request: ImportRequest = NO_REQUEST) -> ImportedFile:
    """Return the chat of an export of Agnai. A message with a `userId` is the user's. The retries of a reply become its
    alternatives.
    """
    value = _mapping(path)
    counter = FieldCounter()
    said: list[SaidMessage] = []
    for each in _mappings(value.get("messages")):
        rest = {name: held for name, held in each.items() if name not in ("msg", "handle", "createdAt", "retries")}
        role = Role.USER if each.get("userId") else Role.ASSISTANT
        if not whole_text(each.get("msg")).strip():
            counter.refuse("messages.*", each, "has no text")
            continue
        for name in ("msg", "handle", "createdAt"):
            counter.keep(f"messages.*.{name}", each.get(name))
        count_rest(counter, "messages.*.", rest)
        speaker = each.get("handle") or _name_of(role, request)
        message = make_message(role, each["msg"], speaker, date=each.get("createdAt"), source="agnai", rest=rest)
        retries = [(text, None) for text in _list(each.get("retries"))]
        others = _others(message, retries, "messages.*.retries.*", counter) if role is Role.ASSISTANT else ()
        said.append(SaidMessage(message=message, others=others))
    header = {name: each for name, each in value.items() if name != "messages"}
    count_rest(counter, "", header)
    first = _list(value.get("messages"))[:1]
    begun = first[0].get("_id") if first and isinstance(first[0], Mapping) else None
    key = chat_key("agnai", begun, *(each.message.content for each in said[:1]))
    name = value["name"] if isinstance(value.get("name"), str) and value["name"].strip() else path.stem
    return listed_file(path, "agnai-chat", [listed_chat(name, key, said, header=header)], counter, request)


def is_cai_tools(value: Any) -> bool:
    """Return whether a JSON value is an export of CAI Tools, which contains histories of character.ai."""
    histories = value.get("histories") if isinstance(value, Mapping) else None
    return isinstance(histories, Mapping) and isinstance(histories.get("histories"), list)


def read_cai_tools(path: Path, request: ImportRequest = NO_REQUEST) -> ImportedFile:
    """Return the chats of an export of CAI Tools, one for each history."""
    value = _mapping(path)
    histories = value.get("histories")
    counter = FieldCounter()
    chats: list[Chat] = []
    for number, history in enumerate(
        _mappings(histories.get("histories") if isinstance(histories, Mapping) else None), 1
    ):
        said = list(_read_cai_messages(history, request, counter))
        header = {name: each for name, each in history.items() if name != "msgs"}
        count_rest(counter, "histories.histories.*.", header)
        begun = history.get("external_id") or history.get("created")
        key = chat_key("cai", begun, *(each.message.content for each in said[:1]))
        name = path.stem if number == 1 else f"{path.stem} {number}"
        chats.append(listed_chat(name, key, said, header=header))
    return listed_file(path, "cai-tools", chats, counter, request)


def _read_cai_messages(
    history: Mapping[str, Any], request: ImportRequest, counter: FieldCounter
) -> Iterator[SaidMessage]:
    for each in _mappings(history.get("msgs")):
        source = each.get("src")
        speaker = source if isinstance(source, Mapping) else {}
        role = Role.USER if speaker.get("is_human") is True else Role.ASSISTANT
        rest = {name: held for name, held in each.items() if name not in ("text", "src", "created")}
        if not whole_text(each.get("text")).strip():
            counter.refuse("histories.histories.*.msgs.*", each, "has no text")
            continue
        counter.keep("histories.histories.*.msgs.*.text", each["text"])
        counter.keep("histories.histories.*.msgs.*.src", source)
        counter.keep("histories.histories.*.msgs.*.created", each.get("created"))
        count_rest(counter, "histories.histories.*.msgs.*.", rest)
        name = speaker.get("name") or _name_of(role, request)
        yield SaidMessage(
            message=make_message(role, each["text"], name, date=each.get("created"), source="cai", rest=rest)
        )


def is_risu_chat(value: Any) -> bool:
    """Return whether a JSON value is a chat of Risu."""
    return isinstance(value, Mapping) and value.get("type") == "risuChat" and isinstance(value.get("data"), Mapping)


def read_risu_chat(path: Path, request: ImportRequest = NO_REQUEST) -> ImportedFile:
    """Return the chat of an export of Risu."""
    value = _mapping(path)
    data = value["data"] if isinstance(value.get("data"), Mapping) else {}
    counter = FieldCounter()
    said: list[SaidMessage] = []
    for each in _mappings(data.get("message")):
        role = Role.USER if each.get("role") == "user" else Role.ASSISTANT
        rest = {name: held for name, held in each.items() if name not in ("data", "role", "time", "name")}
        if not whole_text(each.get("data")).strip():
            counter.refuse("data.message.*", each, "has no text")
            continue
        for name in ("data", "role", "time", "name"):
            counter.keep(f"data.message.*.{name}", each.get(name))
        count_rest(counter, "data.message.*.", rest)
        speaker = each.get("name") or _name_of(role, request)
        message = make_message(role, each["data"], speaker, date=each.get("time"), source="risu", rest=rest)
        said.append(SaidMessage(message=message))
    header = {name: each for name, each in data.items() if name != "message"}
    count_rest(counter, "data.", header)
    key = chat_key("risu", data.get("id"), *(each.message.content for each in said[:1]))
    title = data["name"] if isinstance(data.get("name"), str) and data["name"].strip() else path.stem
    return listed_file(path, "risu-chat", [listed_chat(title, key, said, header=header)], counter, request)


_READERS: tuple[tuple[Callable[[Any], bool], Callable[[Path, ImportRequest], ImportedFile]], ...] = (
    (is_oobabooga, read_oobabooga),
    (is_agnai_chat, read_agnai_chat),
    (is_cai_tools, read_cai_tools),
    (is_risu_chat, read_risu_chat),
    (is_kobold_story, read_kobold_story),
)


def _others(
    message: Message, texts: Sequence[tuple[Any, Any]], field: str, counter: FieldCounter
) -> tuple[tuple[Message, ...], ...]:
    """Return the alternatives of a message. `texts` are (text, date) of each."""
    found: dict[str, Message] = {}
    for value, date in texts:
        text = whole_text(value)
        if not text.strip():
            continue
        counter.keep(field, text)
        if text != message.content and text not in found:
            name = message.author.id if message.author is not None else None
            found[text] = make_message(message.role, text, name, date=date)
    return tuple((each,) for each in found.values())


def _name_of(role: Role, request: ImportRequest) -> str | None:
    names = request.users if role is Role.USER else request.assistants
    return names[0] if names else None


def _mapping(path: Path) -> Mapping[str, Any]:
    value = read_loose_json(path)
    if not isinstance(value, Mapping):
        raise CorpusError(f"{path}: is not a chat of this format: it holds no JSON mapping.")
    return value


def _first_list(value: Mapping[str, Any], *names: str) -> list[Any]:
    return next((value[name] for name in names if isinstance(value.get(name), list)), [])


def _at(pairs: list[Any], number: int, side: int) -> Any:
    pair = pairs[number] if number < len(pairs) else None
    return pair[side] if isinstance(pair, list) and side < len(pair) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in _list(value) if isinstance(each, Mapping)]

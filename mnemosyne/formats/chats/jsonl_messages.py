"""Reads one line of a SillyTavern chat as a message with its other replies (swipes), and counts the fields of the line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mnemosyne.formats.chats.send_dates import read_date
from mnemosyne.formats.chats.turns import SaidMessage
from mnemosyne.formats.losses import FOR_EXPORT, FieldCounter
from mnemosyne.schema.memory import NOBODY, VIEWERS
from mnemosyne.schema.session import Author, AuthorKind, Message, Role

LINE, HEADER = "sillytavern", "sillytavern_header"
"""Names in `Message.extra`. LINE has the further fields of the message's line, HEADER the header of its chat."""
SWIPE_INFO = "swipe_info"
CHUB_MES = "chub_mes"
_IN_MESSAGE = ("mes", "name", "is_user", "swipes", SWIPE_INFO)
_COUNTED = ("is_system", "send_date", "swipe_id", "extra")
FOR_EXPORT_FIELDS = (
    *(
        "gen_started",
        "gen_finished",
        "gen_id",
        "force_avatar",
        "original_avatar",
        "title",
        "is_name",
        "avatar",
        "chid",
        "index",
    ),
    *("variables", "api", "model"),
)
_SPEAKER_TYPES = ("narrator", "comment")


def header_name(header: Mapping[str, Any], field: str) -> str:
    """Return the name in a field of a header. Return an empty text if the field is missing or is marked as unused."""
    value = header.get(field)
    return value if isinstance(value, str) and value != "unused" else ""


def is_message(line: Mapping[str, Any]) -> bool:
    """Return whether a line is a message and not a header."""
    return "mes" in line or isinstance(line.get("swipes"), list)


def read_message(line: Mapping[str, Any], counter: FieldCounter) -> SaidMessage | None:
    """Return the message of a line, or None if the line has no text field. An empty text is a message.

    If SillyTavern hides the message from the prompt (`is_system`), no viewer may read it here.
    """
    swipes = _read_swipes(line)
    chosen = line.get("swipe_id")
    place = chosen if isinstance(chosen, int) and not isinstance(chosen, bool) and 0 <= chosen < len(swipes) else None
    text = read_text(line.get("mes"))
    if text is None:
        text = swipes[place or 0] if swipes else None
        counter.change("mes", line.get("mes"), "no text; the chosen swipe was taken")
    elif place is not None and swipes[place] != text:
        counter.change("swipes.*", swipes[place], "differs from mes, which was taken")
    if text is None:
        return None
    if place is None and text in swipes:
        place = swipes.index(text)
    is_user = _is_true(line.get("is_user"))
    said = Message(
        role=Role.USER if is_user else Role.ASSISTANT,
        content=text,
        author=_read_author(line, is_user=is_user),
        at=read_date(line.get("send_date")),
        extra=_read_extra(line, place, is_user=is_user),
    )
    _count_line(line, said, counter)
    if is_user:
        return SaidMessage(message=said)
    others, before = _read_others(line, swipes, place, said, counter)
    if others or "swipe_id" in line or SWIPE_INFO in said.extra[LINE]:
        # Swipes that are empty or the same as others are left out, so the number of the chosen one may be another.
        said = replace(said, extra={**said.extra, LINE: {**said.extra[LINE], "swipe_id": before}})
    return SaidMessage(message=said, others=tuple((each,) for each in others))


def read_text(value: Any) -> str | None:
    """Return the text in `value`, the field `mes` or a swipe. It is a text or, in files of Chub, a mapping with `message`.

    Return None for any other value.
    """
    if isinstance(value, Mapping):
        value = value.get("message")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else None


def _read_swipes(line: Mapping[str, Any]) -> list[str]:
    swipes = line.get("swipes")
    return [read_text(each) or "" for each in swipes] if isinstance(swipes, list) else []


def _read_author(line: Mapping[str, Any], *, is_user: bool) -> Author | None:
    name = line.get("name")
    if not isinstance(name, str) or not name.strip():
        return None
    extra = line.get("extra")
    told = extra.get("type") if isinstance(extra, Mapping) else None
    other = AuthorKind.SYSTEM if told in _SPEAKER_TYPES else AuthorKind.AGENT
    return Author(kind=AuthorKind.USER if is_user else other, id=name)


def _read_extra(line: Mapping[str, Any], place: int | None, *, is_user: bool) -> dict[str, Any]:
    rest = {name: value for name, value in line.items() if name not in _IN_MESSAGE}
    if is_user:
        rest |= {name: line[name] for name in ("swipes", SWIPE_INFO) if name in line}
    elif info := _read_info(line, place):
        rest[SWIPE_INFO] = info
    if isinstance(line.get("mes"), Mapping):
        rest[CHUB_MES] = line["mes"]
    return {LINE: rest, **_audience(line)}


def _read_info(line: Mapping[str, Any], place: int | None) -> Any:
    infos = line.get(SWIPE_INFO)
    return infos[place] if place is not None and isinstance(infos, list) and place < len(infos) else None


def _audience(line: Mapping[str, Any]) -> dict[str, Any]:
    return {VIEWERS: list(NOBODY)} if _is_true(line.get("is_system")) else {}


def _is_true(value: Any) -> bool:
    return value is True or value == 1 or value == "true"


def _read_others(
    line: Mapping[str, Any], swipes: list[str], place: int | None, said: Message, counter: FieldCounter
) -> tuple[list[Message], int]:
    """Return (others, place): the swipes except the message itself, in their order, and the place of the message among them."""
    others: list[Message] = []
    before: int | None = None
    known = {said.content}
    for number, text in enumerate(swipes):
        if number == place:
            before = len(others)
            if text == said.content:
                counter.keep("swipes.*", text)
        elif text in known:
            counter.change("swipes.*", text, "the same text as another swipe; left out")
        elif text.strip():
            counter.keep("swipes.*", text)
            known.add(text)
            info = _read_info(line, number)
            date = info.get("send_date") if isinstance(info, Mapping) else None
            others.append(
                Message(
                    role=said.role,
                    content=text,
                    author=said.author,
                    at=read_date(date) or said.at,
                    extra={LINE: {SWIPE_INFO: info} if info else {}, **_audience(line)},
                )
            )
    return others, len(others) if before is None else before


def _count_line(line: Mapping[str, Any], said: Message, counter: FieldCounter) -> None:
    counter.keep("mes", read_text(line.get("mes")))
    counter.keep("name", line.get("name"))
    counter.keep("is_user", said.role is Role.USER or None)
    counter.keep("is_system", _is_true(line.get("is_system")) or None, "no viewer may read the message")
    if said.at is not None:
        counter.keep("send_date", line.get("send_date"))
    else:
        counter.change("send_date", line.get("send_date"), "not understood as a time; kept for export")
    if said.role is Role.USER:
        for each in line["swipes"] if isinstance(line.get("swipes"), list) else ():
            counter.keep("swipes.*", each, "of a message of the user; kept for export")
    counter.keep("swipe_id", line.get("swipe_id"))
    for info in line[SWIPE_INFO] if isinstance(line.get(SWIPE_INFO), list) else ():
        counter.keep("swipe_info.*", info)
    extra = line.get("extra")
    for name, value in extra.items() if isinstance(extra, Mapping) else ():
        counter.keep(f"extra.{name}", value, "" if name == "type" else FOR_EXPORT)
    for name in FOR_EXPORT_FIELDS:
        counter.keep(name, line.get(name), FOR_EXPORT)
    counter.keep_others("", line, {*_IN_MESSAGE, *_COUNTED, *FOR_EXPORT_FIELDS})

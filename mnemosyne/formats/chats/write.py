"""Writes a chat as a file of SillyTavern: one JSON mapping per line. Fields that were read from such a file are written
unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from mnemosyne.formats.chats.jsonl_messages import CHUB_MES, LINE, SWIPE_INFO, header_name
from mnemosyne.schema.memory import EMPTY, NOBODY, VIEWERS
from mnemosyne.schema.record import ImportedTurn
from mnemosyne.schema.session import Message, Role, count_inputs

Replies = Sequence[Message]


def chat_header(user_name: str, character_name: str, created_at: datetime) -> dict[str, Any]:
    """Return the header for a chat that has no header."""
    return {
        "user_name": user_name,
        "character_name": character_name,
        "create_date": _format_date(created_at),
        "chat_metadata": {},
    }


def chat_jsonl(
    header: Mapping[str, Any], turns: Iterable[ImportedTurn], alternatives: Mapping[str, Sequence[Replies]] = EMPTY
) -> Iterator[str]:
    """Yield the lines of a chat, each with its line break. An empty header is not written.

    A message that was not read from such a file may have no name or time. Then it gets the name of the last message with
    the same role, or the name in the header, and the time of the first dated message of its turn.

    `alternatives` has replies by turn id, in addition to the alternatives in `turns`. A reply that differs from the
    turn's own reply in one message becomes a swipe of that message. A reply that differs in several messages becomes a
    swipe of the first of them, with the texts of all of them.
    """
    if header:
        yield _dump(header)
    names = {Role.USER: header_name(header, "user_name"), Role.ASSISTANT: header_name(header, "character_name")}
    for turn in turns:
        names |= {message.role: message.author.id for message in turn.messages if message.author is not None}
        first = count_inputs(turn.messages)
        swipes = _find_swipes(turn.messages[first:], (*turn.alternatives, *alternatives.get(turn.turn_id, ())))
        at = next((message.at for message in turn.messages if message.at is not None), None)
        for place, message in enumerate(turn.messages):
            is_foreign = LINE not in message.extra
            name = (
                message.author.id if message.author is not None else names.get(message.role, "") if is_foreign else ""
            )
            dated = replace(message, at=at) if is_foreign and message.at is None else message
            yield _dump(_line_of(dated, name, swipes.get(place - first, ())))


def _find_swipes(own: Replies, others: Iterable[Replies]) -> dict[int, list[Message]]:
    """Return the swipes of each reply, by the place of the reply in its turn."""
    found: dict[int, list[Message]] = {}
    for other in others:
        place = next(
            (n for n, (one, two) in enumerate(zip(own, other, strict=False)) if one.content != two.content),
            min(len(own), len(other)),
        )
        if place >= len(own) or place >= len(other):
            continue
        rest = other[place:]
        text = "\n\n".join(each.content for each in rest)
        swipe = rest[0] if len(rest) == 1 else Message(role=rest[0].role, content=text, at=rest[0].at)
        known = found.setdefault(place, [])
        if text and text not in (each.content for each in known):
            known.append(swipe)
    return {place: swipes for place, swipes in found.items() if swipes}


def _line_of(message: Message, name: str, swipes: Sequence[Message]) -> dict[str, Any]:
    held = message.extra.get(LINE)
    kept: dict[str, Any] = dict(held) if isinstance(held, Mapping) else _new_fields(message)
    info = None if message.role is Role.USER else kept.pop(SWIPE_INFO, None)
    line = {
        "name": name,
        "is_user": message.role is Role.USER,
        **kept,
        "mes": kept.get(CHUB_MES, message.content),
    }
    line.pop(CHUB_MES, None)
    if not swipes and (message.role is Role.USER or "swipe_id" not in kept):
        return line
    chosen = kept.get("swipe_id")
    place = chosen if isinstance(chosen, int) and 0 <= chosen <= len(swipes) else len(swipes)
    texts: list[Any] = [each.content for each in swipes]
    texts.insert(place, message.content)
    infos = [_swipe_info(each) for each in swipes]
    infos.insert(place, info)
    line |= {"swipe_id": place, "swipes": texts}
    if any(each is not None for each in infos):
        line[SWIPE_INFO] = [{} if each is None else each for each in infos]
    return line


def _new_fields(message: Message) -> dict[str, Any]:
    """Return the fields of a message that was not read from a file of SillyTavern."""
    fields: dict[str, Any] = {"is_system": tuple(message.extra.get(VIEWERS, ())) == NOBODY, "extra": {}}
    if message.at is not None:
        fields["send_date"] = _format_date(message.at)
    if message.role in (Role.SYSTEM, Role.TOOL):
        fields["extra"] = {"type": "narrator"}
    return fields


def _swipe_info(message: Message) -> Any:
    held = message.extra.get(LINE)
    if isinstance(held, Mapping):
        return held.get(SWIPE_INFO)
    return None if message.at is None else {"send_date": _format_date(message.at), "extra": {}}


def _format_date(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _dump(line: Mapping[str, Any]) -> str:
    return json.dumps(line, ensure_ascii=False, default=_plain) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return list(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value")

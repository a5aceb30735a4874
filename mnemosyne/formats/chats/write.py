"""Writes turns as a chat of SillyTavern: one JSON object a line, other replies as swipes. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from mnemosyne.formats.chats.sillytavern import HEADER, LINE
from mnemosyne.schema.record import ImportedTurn
from mnemosyne.schema.session import Message, Role

_USER, _CHARACTER = "User", "Assistant"


def chat_lines(turns: Iterable[ImportedTurn]) -> Iterator[str]:
    """Yield the lines of a chat, each with its line end: first that of the whole chat, then a message a line.

    What a message's line said before it was imported is written as it came; what other programs have no place for is left out.
    """
    names = {Role.USER: "", Role.ASSISTANT: ""}
    listed = list(turns)
    for turn in listed:
        for message in turn.messages:
            if not names.get(message.role, "-"):
                names[message.role] = _name(message)
    first = next((message for turn in listed for message in turn.messages), None)
    yield _line(_header(first, names[Role.USER] or _USER, names[Role.ASSISTANT] or _CHARACTER))
    for turn in listed:
        for place, message in enumerate(turn.messages):
            if message.role is not Role.TOOL:
                yield _line(_row(message, _others(turn, place)))


def _header(first: Message | None, user: str, character: str) -> dict[str, Any]:
    kept = first.extra.get(HEADER) if first is not None else None
    if isinstance(kept, dict):
        return kept
    at = first.at if first is not None else None
    return {
        "user_name": user,
        "character_name": character,
        "create_date": _time(at),
        "chat_metadata": {},
    }


def _others(turn: ImportedTurn, place: int) -> list[Message]:
    """Return the other texts of a message of a turn: alternatives that are the same up to it."""
    return [
        other[place]
        for other in turn.alternatives
        if len(other) == place + 1 and [each.content for each in other[:place]] == _texts(turn.messages[:place])
    ]


def _texts(messages: Sequence[Message]) -> list[str]:
    return [message.content for message in messages]


def _row(message: Message, others: Sequence[Message]) -> dict[str, Any]:
    kept = message.extra.get(LINE)
    row: dict[str, Any] = dict(kept) if isinstance(kept, dict) else {}
    row.setdefault("name", _name(message) or (_USER if message.role is Role.USER else _CHARACTER))
    row["is_user"] = message.role is Role.USER
    row.setdefault("is_system", message.role is Role.SYSTEM)
    row.setdefault("send_date", _time(message.at))
    row["mes"] = message.content
    if others:
        _add_swipes(row, message, others)
    return row


def _add_swipes(row: dict[str, Any], message: Message, others: Sequence[Message]) -> None:
    """Put other texts of a message beside it, each at the place that it had."""
    places: dict[int, str] = {}
    infos = row.get("swipe_info")
    for other in others:
        kept = other.extra.get(LINE)
        told = kept.get("swipe_id") if isinstance(kept, dict) else None
        free = next(place for place in range(len(others) + 2) if place not in places and place != row.get("swipe_id"))
        places[told if isinstance(told, int) and told not in places else free] = other.content
    own = row.get("swipe_id")
    if not isinstance(own, int) or own in places or own < 0:
        own = next(place for place in range(len(others) + 1) if place not in places)
    places[own] = message.content
    ordered = [places[place] for place in sorted(places)]
    row["swipes"] = ordered
    row["swipe_id"] = ordered.index(message.content)
    if not isinstance(infos, list):
        row.pop("swipe_info", None)


def _name(message: Message) -> str:
    return message.author.id if message.author is not None else ""


def _time(at: datetime | None) -> str:
    return "" if at is None else at.isoformat()


def _line(row: dict[str, Any]) -> str:
    return f"{json.dumps(row, ensure_ascii=False)}\n"

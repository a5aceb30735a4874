"""Messages of a chat as turns: a turn begins with each message of the user. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from mnemosyne.schema.record import ImportedTurn
from mnemosyne.schema.session import Message, Role


@dataclass(frozen=True, kw_only=True, slots=True)
class SpokenLine:
    """A message with the other texts that it might have had."""

    message: Message
    others: tuple[Message, ...] = ()


def group_turns(lines: Iterable[SpokenLine]) -> Iterator[ImportedTurn]:
    """Yield turns, each with the messages up to the next one of the user, in order.

    The id of a turn follows from all that was said up to its end, so that chats with the same beginning have the same turns
    there, and a longer version of a chat goes on where the shorter one ends. Other texts of a message make the turn once more:
    the messages before it, with that text.
    """
    before = ""
    messages: list[Message] = []
    others: list[tuple[Message, ...]] = []
    for line in lines:
        if line.message.role is Role.USER and any(each.role is not Role.SYSTEM for each in messages):
            turn = _build(before, messages, others)
            yield turn
            before, messages, others = turn.turn_id, [], []
        others += [(*messages, other) for other in line.others]
        messages.append(line.message)
    if messages:
        yield _build(before, messages, others)


def _build(before: str, messages: Sequence[Message], others: Sequence[Sequence[Message]]) -> ImportedTurn:
    turn_id = turn_id_after(before, messages)
    return ImportedTurn(
        turn_id=turn_id,
        messages=_with_ids(messages, turn_id),
        alternatives=tuple(_with_ids(each, turn_id_after(before, each)) for each in others),
    )


def turn_id_after(before: str, messages: Iterable[Message]) -> str:
    """Return the id of a turn with these messages after the turn `before` (empty: it is the first)."""
    digest = sha256(before.encode())
    for message in messages:
        name = message.author.id if message.author is not None else ""
        for part in (message.role.value, name, message.content):
            digest.update(b"\0" + part.encode("utf-8", "surrogatepass"))
    return f"chat-{digest.hexdigest()[:20]}"


def _with_ids(messages: Iterable[Message], turn_id: str) -> tuple[Message, ...]:
    return tuple(replace(message, message_id=f"{turn_id}.{place}") for place, message in enumerate(messages))

"""Gives ids to the messages of a turn, and converts messages to memory entries of the history chain, for recall.

Every store uses these functions, so a message has the same id and the same entry in every store. The module imports
the schema and no storage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from mnemosyne.chains.audience import NOBODY, audience_field, read_audience
from mnemosyne.schema.memory import EMPTY, Chain, MemoryEntry, Trust, session_scope
from mnemosyne.schema.session import Message, Role, TurnKind

_SPOKEN = (Role.USER, Role.ASSISTANT)


def assign_ids(turn_id: str, messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages of turn `turn_id`, with an id for each message that has none.

    The ids are `<turn>.u` and `<turn>.a` for the first message of the user and of the assistant, else `<turn>.m<n>`.
    """
    taken = {message.message_id for message in messages}
    done: list[Message] = []
    for place, message in enumerate(messages, start=1):
        if not message.message_id:
            short = {Role.USER: f"{turn_id}.u", Role.ASSISTANT: f"{turn_id}.a"}.get(message.role, f"{turn_id}.m{place}")
            message_id = short if short not in taken else next(_own_ids(turn_id, place, taken))
            taken.add(message_id)
            message = replace(message, message_id=message_id)
        done.append(message)
    return tuple(done)


def assign_free_ids(turn_id: str, messages: Sequence[Message], is_used: Callable[[str], bool]) -> tuple[Message, ...]:
    """Return the messages of a turn that is being committed, each with an id that no other message of the session has.

    `is_used` returns whether an id is used in the session. A used id, for example after a retry of the same input, is
    replaced by an id made from `turn_id`.
    """
    taken: set[str] = set()
    done: list[Message] = []
    for place, message in enumerate(assign_ids(turn_id, messages), start=1):
        candidates = _candidate_ids(turn_id, message.message_id, place, taken)
        message_id = next(candidate for candidate in candidates if not is_used(candidate))
        taken.add(message_id)
        done.append(message if message.message_id == message_id else replace(message, message_id=message_id))
    return tuple(done)


def _candidate_ids(turn_id: str, message_id: str, place: int, taken: set[str]) -> Iterator[str]:
    if message_id not in taken:
        yield message_id
    yield from _own_ids(turn_id, place, taken)


def _own_ids(turn_id: str, place: int, taken: set[str]) -> Iterator[str]:
    """Yield `<turn>.m<n>` from `place` on, without those that are taken."""
    while True:
        if f"{turn_id}.m{place}" not in taken:
            yield f"{turn_id}.m{place}"
        place += 1


def is_recalled(message: Message, kind: TurnKind) -> bool:
    """Return whether `message`, of a turn of `kind`, may be recalled.

    Only user and assistant messages of narrative turns are recalled, if they are not empty and some viewer may know
    them.
    """
    if kind is not TurnKind.NARRATIVE or message.role not in _SPOKEN or read_audience(message.extra) == NOBODY:
        return False
    return bool(message.content.strip())


def speaker_of(message: Message) -> str:
    """Return the speaker in the entry of a message: the id of its author, or its role."""
    return message.author.id if message.author is not None and message.author.id else message.role.value


def message_entry(scope: str, turn_id: str, branch_id: str, depth: int, message: Message) -> MemoryEntry:
    """Return `message` as an entry of the history chain. The title is the speaker."""
    speaker = speaker_of(message)
    return MemoryEntry(
        entry_id=message.message_id,
        scope=scope,
        chain=Chain.HISTORY,
        kind="message",
        text=message.content,
        title=speaker,
        speaker=speaker,
        at=message.at,
        turn_id=turn_id,
        branch_id=branch_id,
        depth=depth,
        trust=Trust.USER if message.role is Role.USER else Trust.MODEL,
        metadata=audience_field(read_audience(message.extra)) or EMPTY,
    )


def session_of(scope: str) -> str | None:
    """Return the session id of a session's `scope`, or None for the scope of a world."""
    start = session_scope("")
    return scope[len(start) :] if scope.startswith(start) else None

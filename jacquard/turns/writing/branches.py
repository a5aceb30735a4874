"""Other ways that a session might go: a branch for another reply, for an earlier turn, for an edited message.

Nothing is overwritten: what was said stays on its branch, and the one that a method names goes on from there. The caller holds the
session.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jacquard.core.errors import ConfigError
from jacquard.pipeline.record.prepared_turn import turn_id_of
from mnemosyne.core.errors import TurnNotFoundError
from mnemosyne.core.off_loop import calculate
from mnemosyne.protocols import Store
from mnemosyne.schema.record import ImportedTurn, TurnCommit, TurnRecord
from mnemosyne.schema.session import Message, Role, SessionHead, TurnKind, TurnStatus

MESSAGE_CHARS = 100
"""Cost of reading an adopted message, in characters for `calculate`."""

_PAGE = 200


async def open_branch(
    store: Store, session_id: str, turn_id: str | None, branch_id: str | None, stem: str
) -> SessionHead:
    """Open a branch after a committed turn (None: before the first); without a name it is called `stem-1`, `stem-2`, …"""
    return await store.fork(session_id, turn_id, branch_id or await _free_name(store, session_id, stem))


async def _free_name(store: Store, session_id: str, stem: str) -> str:
    taken = {head.branch_id for head in await store.branches(session_id)}
    number = len(taken)
    while f"{stem}-{number}" in taken:
        number += 1
    return f"{stem}-{number}"


async def find_answered_turn(store: Store, session_id: str, turn_id: str | None) -> TurnRecord:
    """Return a committed turn with an input of the user (None: the newest on the active branch).

    TurnNotFoundError where there is none, ConfigError for a turn in which the user said nothing.
    """
    if turn_id is None:
        newest = (await store.head(session_id)).turn_id
        if newest is None:
            raise TurnNotFoundError(session_id, "the newest")
        turn_id = newest
    record = await store.turn(session_id, turn_id)
    if find_input(record) is None:
        raise ConfigError(
            f"Turn {turn_id!r} has no message of the user that could be answered again; name another one."
        )
    return record


def find_input(record: TurnRecord) -> Message | None:
    """Return what the user said in a turn."""
    return next((message for message in record.messages if message.role is Role.USER), None)


async def edit_message(
    store: Store, session_id: str, message_id: str, content: str, branch_id: str | None
) -> SessionHead:
    """Write the path of the active branch once more from the turn of a message on, with another text for that message.

    The turns after it keep their messages, ops and states. ConfigError for an unknown message and for an empty text.
    """
    if not content.strip():
        raise ConfigError("An edited message needs a text; to leave a message out, go back to the turn before it.")
    path = await _read_path(store, session_id)
    place = next((n for n, turn in enumerate(path) if any(m.message_id == message_id for m in turn.messages)), None)
    if place is None:
        raise ConfigError(f"No message {message_id!r} is on the active branch of session {session_id!r}.")
    head = await open_branch(store, session_id, path[place].parent_id, branch_id, "edit")
    for turn in path[place:]:
        head = await _copy_turn(store, turn, head, {message_id: content})
    return head


async def _read_path(store: Store, session_id: str) -> list[TurnRecord]:
    """Return all committed turns of the active branch, oldest first."""
    path: list[TurnRecord] = []
    before: int | None = None
    while page := await store.turns(session_id, limit=_PAGE, before_depth=before):
        path = [*page, *path]
        before = page[0].depth
    return path


async def _copy_turn(store: Store, turn: TurnRecord, head: SessionHead, texts: dict[str, str]) -> SessionHead:
    """Commit the copy of a turn after a head; `texts` replace those of messages, by id."""
    said = [
        replace(message, content=texts.get(message.message_id, message.content), message_id="")
        for message in turn.messages
    ]
    words = "\x00".join((turn.turn_id, *(message.content for message in said)))
    copied = TurnRecord(
        turn_id=turn_id_of(head.session_id, head.branch_id, head.turn_id, head.depth + 1, words),
        session_id=head.session_id,
        branch_id=head.branch_id,
        depth=head.depth + 1,
        parent_id=head.turn_id,
        kind=turn.kind,
        status=TurnStatus.PREPARED,
        messages=tuple(message for message in said if message.role is not Role.ASSISTANT),
        plan=turn.plan,
        created_at=turn.created_at,
        origin_id=turn.origin_id or turn.turn_id,
    )
    state = await store.state_at(head.session_id, turn.turn_id) if turn.ops else None
    saved = await store.save_prepared(copied, expected_version=head.version)
    commit = TurnCommit(
        turn_id=copied.turn_id,
        messages=tuple(message for message in said if message.role is Role.ASSISTANT),
        ops=turn.ops,
        state=state,
        report=turn.report,
    )
    return await store.commit_turn(head.session_id, commit, expected_version=saved.version)


async def adopt_messages(store: Store, session_id: str, messages: Sequence[Message]) -> SessionHead:
    """Commit messages that were exchanged elsewhere, after the head: a turn begins with each message of the user.

    Their roles, authors, times and ids stay. Messages that the session has already (by id) begin no second turn.
    """
    head = await store.head(session_id)
    turns = await calculate(_group_turns, head, messages, size=MESSAGE_CHARS * len(messages))
    return await store.append_turns(session_id, turns)


def _group_turns(head: SessionHead, messages: Sequence[Message]) -> list[ImportedTurn]:
    groups: list[list[Message]] = []
    for message in messages:
        if not groups or (message.role is Role.USER and any(m.role is not Role.SYSTEM for m in groups[-1])):
            groups.append([])
        groups[-1].append(message)
    return [
        ImportedTurn(
            turn_id=turn_id_of(
                head.session_id, head.branch_id, None, number, "\x00".join(m.message_id or m.content for m in group)
            ),
            messages=tuple(group),
            kind=TurnKind.NARRATIVE,
        )
        for number, group in enumerate(groups, start=1)
    ]

"""Implements the operations on branches: swipe, rollback, edit, retell and adopt.

Nothing is overwritten. Old messages stay on their branch, and a new branch continues from the named turn. The caller
holds the lock of the session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from filament import parse_reply
from jacquard.core.errors import ConfigError
from jacquard.pipeline.record.prepared_turn import turn_id_of
from mnemosyne.chains.messages.exchanges import digest_of
from mnemosyne.chains.messages.message_parts import PARTS
from mnemosyne.chains.state import judge_reply_ops
from mnemosyne.core.errors import TurnNotFoundError
from mnemosyne.core.off_loop import calculate
from mnemosyne.evidence.redactions import REDACTION
from mnemosyne.protocols import Store
from mnemosyne.schema.record import ImportedTurn, TurnCommit, TurnRecord
from mnemosyne.schema.session import Message, Role, SessionHead, TurnKind, TurnStatus
from mnemosyne.values import dataclass

MESSAGE_CHARS = 100
"""Cost of reading an adopted message, in characters for `calculate`."""

_PAGE = 200


async def open_branch(
    store: Store, session_id: str, turn_id: str | None, branch_id: str | None, stem: str
) -> SessionHead:
    """Open a branch after the committed turn `turn_id` (None: before the first turn), make the branch active, and
    return its head.

    The branch is named `branch_id`. If this is None, it gets the first free name of `STEM-1`, `STEM-2` and so on, with
    the value of `stem`.
    """
    return await store.fork(session_id, turn_id, branch_id or await _free_name(store, session_id, stem))


async def _free_name(store: Store, session_id: str, stem: str) -> str:
    taken = {head.branch_id for head in await store.branches(session_id)}
    number = len(taken)
    while f"{stem}-{number}" in taken:
        number += 1
    return f"{stem}-{number}"


async def find_answered_turn(store: Store, session_id: str, turn_id: str | None) -> TurnRecord:
    """Return the turn `turn_id` (None: the newest turn of the active branch), which must have a message of the user.

    Raises TurnNotFoundError if there is no such turn. Raises ConfigError if the turn has no user message.
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
    """Return the first user message of a turn. Return None if there is none."""
    return next((message for message in record.messages if message.role is Role.USER), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class RetoldTurn:
    """Turn to write on a new branch."""

    messages: tuple[Message, ...]
    """Messages of the new turn."""
    copied: TurnRecord | None = None
    """Stored turn of which this is a copy. None: the turn is new."""


async def retell(
    store: Store,
    session_id: str,
    after: str | None,
    turns: Sequence[RetoldTurn],
    branch_id: str | None = None,
    stem: str = "edit",
) -> SessionHead:
    """Open a branch after the committed turn `after` (None: before the first turn) and write `turns` there.

    A copied turn that still has a reply applies its ops to the state again. Other turns leave the state unchanged. The
    branch is named `branch_id` (None: `stem` and a number). Return the head of the branch.
    """
    head = await open_branch(store, session_id, after, branch_id, stem)
    told: str | None = after
    for turn in turns:
        if turn.copied is None:
            # The same words may occur again later, so the place is part of the ids.
            place = "\0".join((head.branch_id, head.turn_id or ""))
            said = [replace(each, message_id=digest_of([place, str(at)])) for at, each in enumerate(turn.messages)]
            head = await adopt_messages(store, session_id, said)
            continue
        is_in_line = turn.copied.parent_id == told
        head, keeps_ops = await _copy_turn(store, turn.copied, turn.messages, head, is_in_line=is_in_line)
        told = turn.copied.turn_id if is_in_line and keeps_ops else ""
    return head


async def edit_message(
    store: Store, session_id: str, message_id: str, said: Message, branch_id: str | None
) -> SessionHead:
    """Change the text of the message `message_id` to the text of `said`, on a new branch with copies of the later
    turns. Return the head of this branch.

    The later turns keep their messages, ops and states. Raises ConfigError if the message is unknown or the text is
    empty. `branch_id` is the name of the new branch (None: a free name).
    """
    if not said.content.strip():
        raise ConfigError("An edited message needs a text; to leave a message out, go back to the turn before it.")
    path = await read_path(store, session_id)
    place = next((n for n, turn in enumerate(path) if any(m.message_id == message_id for m in turn.messages)), None)
    if place is None:
        raise ConfigError(f"No message {message_id!r} is on the active branch of session {session_id!r}.")
    edited = tuple(_with_text(m, said) if m.message_id == message_id else m for m in path[place].messages)
    first, *others = path[place:]
    turns = [RetoldTurn(copied=first, messages=edited), *(RetoldTurn(copied=t, messages=t.messages) for t in others)]
    return await retell(store, session_id, first.parent_id, turns, branch_id)


def _with_text(message: Message, said: Message) -> Message:
    """Return a message with the text and the masks of another; its other parts stay, masked as before."""
    kept = message.extra if PARTS in message.extra else {k: v for k, v in message.extra.items() if k != REDACTION}
    return replace(message, content=said.content, extra={**kept, **said.extra})


async def read_path(store: Store, session_id: str, *, from_turn: str | None = None) -> list[TurnRecord]:
    """Return the committed turns of the active branch, oldest first. If `from_turn` is given, return only this turn and
    later ones.
    """
    path: list[TurnRecord] = []
    before: int | None = None
    while page := await store.turns(session_id, limit=_PAGE, before_depth=before):
        path = [*page, *path]
        before = page[0].depth
        place = next((at for at, turn in enumerate(page) if turn.turn_id == from_turn), None)
        if place is not None:
            return path[place:]
    return path


async def _copy_turn(
    store: Store, turn: TurnRecord, messages: Sequence[Message], head: SessionHead, *, is_in_line: bool
) -> tuple[SessionHead, bool]:
    """Commit a copy of a turn after `head`. Return (new head, keeps_ops): whether the copy has the ops of the turn.

    `is_in_line` states that the state at `head` is the one before the original turn.
    """
    said = [replace(message, message_id="") for message in messages]
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
    has_reply = not turn.messages or any(message.role is Role.ASSISTANT for message in said)
    ops, state, report = turn.ops if has_reply else (), None, turn.report
    if ops:
        # A path is read without reports; a later copy of this turn reads the ops from its reply.
        whole = await store.turn(head.session_id, turn.turn_id)
        report = whole.report
        if is_in_line:
            state = await store.state_at(head.session_id, turn.turn_id)
        else:
            ops, state = await _repeat_ops(store, whole, head)
    saved = await store.save_prepared(copied, expected_version=head.version)
    commit = TurnCommit(
        turn_id=copied.turn_id,
        messages=tuple(message for message in said if message.role is Role.ASSISTANT),
        ops=ops,
        state=state,
        report=report,
    )
    return await store.commit_turn(head.session_id, commit, expected_version=saved.version), has_reply or not turn.ops


async def _repeat_ops(
    store: Store, turn: TurnRecord, head: SessionHead
) -> tuple[tuple[Mapping[str, Any], ...], Mapping[str, Any] | None]:
    """Return (ops, state): the ops of a turn applied to the state at `head`, and the state after them.

    The ops are read again from the reply, because the stored ops set fixed values. Ops that would be refused change
    nothing.
    """
    told = str((turn.report or {}).get("raw", ""))
    said = "\n".join(message.content for message in turn.messages if message.role is not Role.ASSISTANT)
    ops: Sequence[Any] = parse_reply(told, user_text=said).ops if told else ()
    before = await store.state_at(head.session_id, head.turn_id)
    judged = judge_reply_ops(before, ops or turn.ops, turn.anchors)
    return judged.patch, judged.tree if judged.patch else None


async def adopt_messages(store: Store, session_id: str, messages: Sequence[Message]) -> SessionHead:
    """Commit messages that were exchanged elsewhere, after the newest turn. Each user message begins a turn. Return the
    new head.

    Roles, authors, times and ids of the messages stay. A turn whose id the session already has is not written again.
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

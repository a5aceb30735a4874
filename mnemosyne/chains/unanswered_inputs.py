"""Marks user messages that got no reply, and keeps them in the session.

A user message belongs to the session from `prepare_turn` on. While its turn waits for the reply, the message is a
draft of that turn. If another turn follows without a reply, the store commits the waiting turn and marks its messages
as unanswered. Every store and the engine use these functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mnemosyne.schema.record import SessionWindow, TurnRecord
from mnemosyne.schema.session import BranchSpan, Message, SessionHead, TurnStatus, WindowMessage

UNANSWERED = "unanswered"
"""Field of a message without a reply. It is in the message's `extra`, so that session documents contain it too."""


def is_unanswered(message: Message) -> bool:
    """Return whether `message` is marked as unanswered."""
    return message.extra.get(UNANSWERED) is True


def mark_unanswered(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return `messages`, the messages of a turn that is committed without a reply, each marked as unanswered."""
    return tuple(replace(message, extra={**message.extra, UNANSWERED: True}) for message in messages)


def is_closed_unanswered(record: TurnRecord) -> bool:
    """Return whether the turn of `record` was committed without a reply."""
    said = record.messages if record.status is TurnStatus.COMMITTED else ()
    return bool(said) and all(is_unanswered(message) for message in said)


def head_after(head: SessionHead, pending: TurnRecord) -> SessionHead:
    """Return the head (the end of a branch) after the turn `pending` is committed. `head` is the head before the commit.

    The version stays the same.
    """
    depth = head.depth + 1
    own = BranchSpan(branch_id=head.branch_id, upto_depth=depth)
    return replace(head, turn_id=pending.turn_id, depth=depth, lineage=(own, *head.lineage[1:]))


def with_unanswered(window: SessionWindow) -> SessionWindow:
    """Return `window` with its pending turn as the previous turn, and with the messages of this turn marked as unanswered.

    The head in the window does not change. A window without a pending turn is returned unchanged.
    """
    pending = window.pending
    if pending is None:
        return window
    said = tuple(
        WindowMessage(
            message=message, turn_id=pending.turn_id, branch_id=window.head.branch_id, depth=window.head.depth + 1
        )
        for message in mark_unanswered(pending.messages)
    )
    return replace(window, messages=(*window.messages, *said), previous=pending, pending=None)

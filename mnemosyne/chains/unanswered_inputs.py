"""User messages without a reply: they belong to the session from `prepare_turn` on.

While its turn waits, the message is a draft of that turn. When the next turn follows it, the store commits the waiting
turn without a reply, and its messages are marked. Every store and the engine use these functions. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mnemosyne.schema.record import SessionWindow, TurnRecord
from mnemosyne.schema.session import BranchSpan, Message, SessionHead, TurnStatus, WindowMessage

UNANSWERED = "unanswered"
"""Field of a message without a reply (in `extra`, so that documents have it too)."""


def is_unanswered(message: Message) -> bool:
    """Return whether a message is marked as unanswered."""
    return message.extra.get(UNANSWERED) is True


def mark_unanswered(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages of a turn that is committed without a reply, each marked."""
    return tuple(replace(message, extra={**message.extra, UNANSWERED: True}) for message in messages)


def is_closed_unanswered(record: TurnRecord) -> bool:
    """Return whether a turn was committed without a reply."""
    said = record.messages if record.status is TurnStatus.COMMITTED else ()
    return bool(said) and all(is_unanswered(message) for message in said)


def head_after(head: SessionHead, pending: TurnRecord) -> SessionHead:
    """Return the head once the pending turn is committed, with the present version."""
    depth = head.depth + 1
    own = BranchSpan(branch_id=head.branch_id, upto_depth=depth)
    return replace(head, turn_id=pending.turn_id, depth=depth, lineage=(own, *head.lineage[1:]))


def with_unanswered(window: SessionWindow) -> SessionWindow:
    """Return a window that shows the messages of its pending turn as unanswered, and that turn as the previous one.

    The head stays at the stored place. A window without a pending turn is returned unchanged.
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

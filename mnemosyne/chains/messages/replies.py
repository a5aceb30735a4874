"""Which messages of a turn are its input and which are replies to it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from mnemosyne.schema.session import Message, Role


def count_inputs(messages: Sequence[Message]) -> int:
    """Return how many messages of a turn come before its replies: those up to the first message of the user, or, in a turn without
    one, the system messages that it begins with.
    """
    for place, message in enumerate(messages):
        if message.role is Role.USER:
            return place + 1
    return next((place for place, message in enumerate(messages) if message.role is not Role.SYSTEM), len(messages))

"""Converts the inputs of a host to values of the engine: texts to messages, ISO times to aware datetimes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from jacquard.core.errors import ConfigError
from mnemosyne.chains.messages.message_parts import message_from_chat, read_parts
from mnemosyne.schema.document import ToolCall, ToolCallStatus
from mnemosyne.schema.session import Message, Role

ChatMessage = Message | str | Mapping[str, Any]
"""Message from a host: a `Message`, its text, or the dict of a chat API (`role`, `content`, `tool_calls`…)."""


def to_user_message(message: ChatMessage) -> Message:
    """Return the user's input as a message. Raises ConfigError if the message is empty, has another role than user, or
    has an invalid time.
    """
    made = to_message(message, Role.USER)
    if made.role is not Role.USER:
        raise ConfigError(
            f"The message that a turn answers has the role {made.role.value}; give the user's, and others to adopt_messages."
        )
    if not made.content.strip() and not read_parts(made):
        raise ConfigError("The user message is empty; give the words that the turn should answer.")
    return made


def to_reply(message: ChatMessage) -> Message:
    """Return a model's reply as a message. Raises ConfigError if the message cannot be used, for example because of its
    time.
    """
    return to_message(message, Role.ASSISTANT)


def to_tool_call(call: ToolCall) -> ToolCall:
    """Return a tool call whose time has a time zone, and whose status may have been given as a text.

    Raises ConfigError if the time or the status is not valid.
    """
    at = _to_time(call.called_at, "ToolCall.called_at")
    try:
        status = ToolCallStatus(call.status)
    except ValueError:
        known = ", ".join(ToolCallStatus)
        raise ConfigError(f"ToolCall.status is {call.status!r}; give one of {known}.") from None
    return call if at is call.called_at and status is call.status else replace(call, called_at=at, status=status)


def to_message(message: ChatMessage, role: Role = Role.USER) -> Message:
    """Return a host's message as a `Message` whose time has a time zone. A plain text, or a dict without a role, gets
    the role `role`.

    Raises ConfigError with the reason if the message cannot be used.
    """
    if isinstance(message, str):
        return Message(role=role, content=message)
    if not isinstance(message, Message):
        if not isinstance(message, Mapping):
            kind = type(message).__name__
            raise ConfigError(f"A message is a {kind}; give a Message, a text, or a dict with `role` and `content`.")
        try:
            return message_from_chat({"role": role.value, **message})
        except ValueError as error:
            raise ConfigError(f"The message cannot be used: {error}.") from None
    at = _to_time(message.at, "Message.at")
    return message if at is message.at else replace(message, at=at)


def _to_time(at: Any, place: str) -> Any:
    """Return the time of an ISO text; any other value unchanged."""
    if at == "":
        return None
    if not isinstance(at, str):
        return at
    try:
        read = datetime.fromisoformat(at)
    except ValueError:
        read = None
    if read is None or read.tzinfo is None:
        raise ConfigError(
            f"{place} is {at!r}; give a time with its zone as ISO 8601 has it, as 2026-01-31T08:30:00+00:00."
        )
    return read

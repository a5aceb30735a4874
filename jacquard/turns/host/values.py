"""What a host passes to an engine, as the values that the engine works on: texts as messages, ISO times as aware ones. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from jacquard.core.errors import ConfigError
from mnemosyne.schema.document import ToolCall
from mnemosyne.schema.session import Message, Role


def to_user_message(message: Message | str) -> Message:
    """Return what the user said as a message; ConfigError where it is empty, or its time is none."""
    made = Message(role=Role.USER, content=message) if isinstance(message, str) else message
    if not made.content.strip():
        raise ConfigError("The user message is empty; give the words that the turn should answer.")
    return to_message(made)


def to_reply(message: Message | str) -> Message:
    """Return a model's reply as a message; ConfigError where its time is none."""
    return to_message(Message(role=Role.ASSISTANT, content=message) if isinstance(message, str) else message)


def to_tool_call(call: ToolCall) -> ToolCall:
    """Return a tool call with an aware time; ConfigError where its time is none."""
    at = _to_time(call.called_at, "ToolCall.called_at")
    return call if at is call.called_at else replace(call, called_at=at)


def to_message(message: Message) -> Message:
    """Return a message with an aware time; ConfigError where its time is none."""
    at = _to_time(message.at, "Message.at")
    return message if at is message.at else replace(message, at=at)


def _to_time(at: Any, place: str) -> Any:
    """Return the time that ISO text means (seed 002 section 5.1 has texts); any other value is returned itself."""
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

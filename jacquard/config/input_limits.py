"""Checks the sizes of user messages, replies and tool results against the section `limits` of the settings. Pure."""

from __future__ import annotations

import json

from jacquard.config.sections import LimitsConfig
from jacquard.core.errors import InputTooLargeError
from mnemosyne.chains.messages.message_parts import read_parts, read_tool_calls
from mnemosyne.schema.session import Message


def check_user_message(text: str, limits: LimitsConfig) -> None:
    """Raise InputTooLargeError if a user message is longer than `user_message_chars`."""
    _check("user message", len(text), limits.user_message_chars, "user_message_chars")


def check_parts(message: Message, limits: LimitsConfig) -> None:
    """Raise InputTooLargeError if a message's content other than text, written as JSON, is longer than `part_chars`."""
    carried = [*read_parts(message), *read_tool_calls(message)]
    if carried:
        _check("parts of the message", len(json.dumps(carried, default=dict)), limits.part_chars, "part_chars")


def check_reply(text: str, limits: LimitsConfig) -> None:
    """Raise InputTooLargeError if a reply of the model is longer than `reply_chars`."""
    check_reply_chars(len(text), limits)


def check_reply_chars(chars: int, limits: LimitsConfig) -> None:
    """Raise InputTooLargeError if `chars`, the length of a reply, is more than `reply_chars`."""
    _check("reply", chars, limits.reply_chars, "reply_chars")


def check_tool_result(text: str, limits: LimitsConfig) -> None:
    """Raise InputTooLargeError if the result of a tool is longer than `tool_result_chars`."""
    _check("tool result", len(text), limits.tool_result_chars, "tool_result_chars")


def _check(what: str, chars: int, limit_chars: int, setting: str) -> None:
    if chars > limit_chars:
        raise InputTooLargeError(what, chars, limit_chars, f"limits.{setting}")

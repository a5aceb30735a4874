"""Splits, reads and writes server-sent events of model servers. Pure; the time is linear in their length."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from jacquard.service.proxy.requests.chat_request import write_json

DONE = "[DONE]"
MOST_READ_BYTES = 8_000_000
"""Maximum bytes of an event, or of an answer that is not a stream. Larger ones are not read."""

_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LONGEST_END = 4
_LINE_END = re.compile(r"\r\n|\n|\r")


class AnswerTooLargeError(Exception):
    """Raised if an answer of a model server is too large to be read."""


class EventSplitter:
    """Splits a stream into events. The parts of the stream may be cut anywhere. An event keeps its bytes, including the
    empty line at its end.
    """

    def __init__(self) -> None:
        self._held = bytearray()

    def take(self, part: bytes) -> Iterator[bytes]:
        """Yield the events that are complete after the next `part`. Raises AnswerTooLargeError if an event without an
        end becomes too large.
        """
        begin = max(0, len(self._held) - _LONGEST_END + 1)
        self._held += part
        start = 0
        while (found := _END.search(self._held, max(begin, start))) is not None:
            yield bytes(self._held[start : found.end()])
            start = found.end()
        del self._held[:start]
        if len(self._held) > MOST_READ_BYTES:
            raise AnswerTooLargeError

    def end(self) -> bytes:
        """Return the beginning of an event whose end did not arrive. Return b'' if there is no such event."""
        rest, self._held = bytes(self._held), bytearray()
        return rest


def data_of(event: bytes) -> str:
    """Return the data of an event. Return '' if the event has none, for example a comment."""
    lines = _LINE_END.split(event.decode("utf-8", "replace"))
    data = [line[5:].removeprefix(" ") for line in lines if line.startswith("data:")]
    return "\n".join(data)


def value_of(data: str) -> Any:
    """Return the JSON value of `data`, the data of an event. Return None if `data` is not JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def write_event(value: Any, kind: str = "") -> bytes:
    """Return an event that contains `value` as JSON. `kind` is the name of the event ('': the event has no name)."""
    head = f"event: {kind}\n" if kind else ""
    return b"%sdata: %s\n\n" % (head.encode(), write_json(value))

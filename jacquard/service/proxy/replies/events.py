"""Streams of server-sent events as model servers send them: cut into events, read, and written. Pure, linear in their length."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from jacquard.service.proxy.requests.chat_request import write_json

DONE = "[DONE]"
MOST_READ_BYTES = 8_000_000
"""An event of a stream, and an answer that is no stream, is read up to this size."""

_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LONGEST_END = 4
_LINE_END = re.compile(r"\r\n|\n|\r")


class AnswerTooLargeError(Exception):
    """An answer of a model server is too large to be read."""


class EventSplitter:
    """Cuts a stream into events, however its parts are cut; each event keeps its bytes, the empty line at its end among them."""

    def __init__(self) -> None:
        self._held = bytearray()

    def take(self, part: bytes) -> Iterator[bytes]:
        """Yield the events that are whole now; AnswerTooLargeError for one that has no end."""
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
        """Return what is left of an event without its end."""
        rest, self._held = bytes(self._held), bytearray()
        return rest


def data_of(event: bytes) -> str:
    """Return the data of an event; empty for one that has none, such as a comment."""
    lines = _LINE_END.split(event.decode("utf-8", "replace"))
    data = [line[5:].removeprefix(" ") for line in lines if line.startswith("data:")]
    return "\n".join(data)


def value_of(data: str) -> Any:
    """Return the JSON value of an event's data; None where it is none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def write_event(value: Any, kind: str = "") -> bytes:
    """Return an event with a JSON value; `kind` is its name, where the API gives it one."""
    head = f"event: {kind}\n" if kind else ""
    return b"%sdata: %s\n\n" % (head.encode(), write_json(value))

"""Reads the texts in an answer of a model server, complete or streamed, and decides which part of each text the client
sees.

A `ReplyView` decides which part of a text the client sees. Everything else in an answer (tools, usage, reasoning, unknown
fields) passes unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from io import StringIO
from typing import Any, Protocol

from filament import StreamParser
from filament.reply.values import EventKind, ParseEvent
from jacquard.service.proxy.replies.events import DONE, AnswerTooLargeError, data_of, value_of, write_event
from jacquard.service.proxy.requests.chat_request import Api
from mnemosyne.chains.messages.message_parts import is_text_part
from mnemosyne.values import dataclass

MOST_CHARS, MOST_TEXTS = 2_000_000, 128
"""Maximum characters of a model's answer, and maximum number of texts in it."""

_COUNTS = frozenset({"prompt_tokens", "completion_tokens", "total_tokens", "input_tokens", "output_tokens"})
_MODEL_CHARS, _REASON_CHARS, _MOST_COUNTED = 255, 64, 10**12


class ReplyView(Protocol):
    """Decides which part of one text the client sees. The text arrives in pieces, which may be cut anywhere."""

    def take(self, piece: str) -> str:
        """Return the part of the next piece that the client sees."""
        ...

    def end(self) -> str:
        """Return what the client sees after the last piece."""
        ...


class WholeView:
    """Shows a text unchanged."""

    def take(self, piece: str) -> str:
        """Return `piece` unchanged."""
        return piece

    def end(self) -> str:
        """Return '', because nothing is held back."""
        return ""


class ContentView:
    """Shows only the content of a reply that is written in named elements, without thoughts and updates of the state."""

    def __init__(self) -> None:
        self._parser = StreamParser()

    def take(self, piece: str) -> str:
        """Return the text that is certainly content. Uncertain text is held back until the next piece."""
        return _content_of(self._parser.feed(piece))

    def end(self) -> str:
        """Return the content that was held back."""
        return _content_of(self._parser.close().tail)


def _content_of(events: tuple[ParseEvent, ...]) -> str:
    return "".join(event.text for event in events if event.kind is EventKind.TEXT and event.tag == "content")


@dataclass(slots=True)
class _SpokenText:
    view: ReplyView
    raw: StringIO = field(default_factory=StringIO)
    shown: StringIO = field(default_factory=StringIO)
    has_ended: bool = False

    def take(self, piece: str) -> str:
        if self.has_ended:
            return piece
        self.raw.write(piece)
        text = self.view.take(piece)
        self.shown.write(text)
        return text

    def end(self) -> str:
        if self.has_ended:
            return ""
        self.has_ended = True
        text = self.view.end()
        self.shown.write(text)
        return text


class AnswerReader:
    """Reads one answer of the API `api`. `make_view` makes the `ReplyView` of each text in the answer.

    Its methods raise AnswerTooLargeError if the texts are too large.
    """

    def __init__(self, api: Api, make_view: Callable[[], ReplyView] = WholeView) -> None:
        self._api, self._make_view = api, make_view
        self._texts: dict[int, _SpokenText] = {}
        self._frame: Mapping[str, Any] = {}
        self._chars = 0
        self.calls_tools = False
        self.is_complete = False
        self.model = self.stop_reason = ""
        self.usage: dict[str, int] = {}

    @property
    def has_begun(self) -> bool:
        """True if the model has produced any text or tool call."""
        return bool(self._chars) or self.calls_tools

    @property
    def raw(self) -> str:
        """Text that the model has written so far. If the model gives several alternative answers, this is the text of
        the first one.
        """
        return "".join(text.raw.getvalue() for text in self._said())

    @property
    def shown(self) -> str:
        """Part of `raw` that the client was shown."""
        return "".join(text.shown.getvalue() for text in self._said())

    def _said(self) -> list[_SpokenText]:
        if self._api is Api.OPENAI:
            return [self._texts[0]] if 0 in self._texts else []
        return [self._texts[place] for place in sorted(self._texts)]

    def _text(self, place: int) -> _SpokenText:
        if place not in self._texts:
            if len(self._texts) >= MOST_TEXTS:
                raise AnswerTooLargeError
            self._texts[place] = _SpokenText(self._make_view())
        return self._texts[place]

    def _hear(self, place: int, piece: str) -> str:
        """Return the shown part of the next piece of a text."""
        self._chars += len(piece)
        if self._chars > MOST_CHARS:
            raise AnswerTooLargeError
        return self._text(place).take(piece)

    def take(self, event: bytes) -> bytes:
        """Return the client's form of one event of the stream. If the client sees everything in the event, the bytes
        are unchanged.
        """
        data = data_of(event)
        if data == DONE:
            self.is_complete = True
            return self.end() + event
        value = value_of(data) if data else None
        if not isinstance(value, dict):
            return event
        self._note(value)
        return self._take_chunk(value, event) if self._api is Api.OPENAI else self._take_named(value, event)

    def end(self) -> bytes:
        """Return an event with the text that is still held back, for a stream that ends without an end mark. Return b''
        if no text is held back.
        """
        rest = {place: text.end() for place, text in self._texts.items() if not text.has_ended}
        choices = [
            {"index": place, "delta": {"content": text}, "finish_reason": None} for place, text in rest.items() if text
        ]
        if not choices or self._api is not Api.OPENAI:
            return b""
        return write_event({**self._frame, "choices": choices})

    def _take_chunk(self, chunk: dict[str, Any], event: bytes) -> bytes:
        self._frame = {name: value for name, value in chunk.items() if name not in ("choices", "usage")}
        is_changed = False
        for choice in _mappings(chunk.get("choices")):
            delta = choice.get("delta")
            if not isinstance(delta, dict):
                continue
            self.calls_tools |= bool(delta.get("tool_calls"))
            told = choice.get("index")
            place = told if isinstance(told, int) else 0
            holders = list(_texts_of(delta))
            is_changed |= self._show(place, holders)
            rest = self._text(place).end() if choice.get("finish_reason") is not None and place in self._texts else ""
            if rest and isinstance(delta.get("content"), list):
                delta["content"].append({"type": "text", "text": rest})
            elif rest:
                delta["content"] = (delta.get("content") or "") + rest
            is_changed |= bool(rest)
        return write_event(chunk) if is_changed else event

    def _take_named(self, value: dict[str, Any], event: bytes) -> bytes:
        kind, place = value.get("type"), value.get("index")
        if kind == "message_stop":
            self.is_complete = True
        if not isinstance(place, int):
            return event
        block, delta = value.get("content_block"), value.get("delta")
        if kind == "content_block_start" and isinstance(block, dict):
            self.calls_tools |= block.get("type") == "tool_use"
        holder = {"content_block_start": block, "content_block_delta": delta}.get(str(kind))
        if isinstance(holder, dict) and isinstance(holder.get("text"), str):
            return write_event(value, str(kind)) if self._show(place, [(holder, "text")]) else event
        if kind == "content_block_stop" and place in self._texts:
            rest = self._texts[place].end()
            if rest:
                last = {"type": "content_block_delta", "index": place, "delta": {"type": "text_delta", "text": rest}}
                return write_event(last, "content_block_delta") + event
        return event

    def take_whole(self, body: dict[str, Any]) -> bool:
        """Read an answer that is not a stream, and replace each text in `body` by the part that the client sees. Return
        whether `body` was changed.
        """
        self._note(body)
        self.is_complete = True
        is_changed = False
        if self._api is Api.OPENAI:
            for place, choice in enumerate(_mappings(body.get("choices"))):
                message = choice.get("message")
                if isinstance(message, dict):
                    self.calls_tools |= bool(message.get("tool_calls"))
                    is_changed |= self._show(place, list(_texts_of(message)), is_whole=True)
        else:
            for place, block in enumerate(_mappings(body.get("content"))):
                self.calls_tools |= block.get("type") == "tool_use"
                holders = [(block, "text")] if isinstance(block.get("text"), str) else []
                is_changed |= self._show(place, holders, is_whole=True)
        return is_changed

    def _show(self, place: int, holders: list[tuple[dict[str, Any], str]], *, is_whole: bool = False) -> bool:
        """Replace the pieces of a text by the shown part, `is_whole`: to its end; return whether that changed them."""
        is_changed = False
        for number, (holder, name) in enumerate(holders, start=1):
            said = holder[name]
            holder[name] = self._hear(place, said)
            if is_whole and number == len(holders):
                holder[name] += self._text(place).end()
            is_changed |= holder[name] != said
        return is_changed

    def _note(self, value: Mapping[str, Any]) -> None:
        """Record the model's name, the token counts, and the stop reason."""
        held = value.get("message") if isinstance(value.get("message"), dict) else value
        assert isinstance(held, Mapping)
        if isinstance(held.get("model"), str):
            self.model = held["model"][:_MODEL_CHARS]
        for usage in (held.get("usage"), value.get("usage")):
            if isinstance(usage, dict):
                self.usage |= {name: usage[name] for name in _COUNTS if _is_count(usage.get(name))}
        for holder in (held, value.get("delta"), *_mappings(value.get("choices"))[:1]):
            reason = (holder.get("finish_reason") or holder.get("stop_reason")) if isinstance(holder, dict) else None
            self.stop_reason = reason[:_REASON_CHARS] if isinstance(reason, str) else self.stop_reason


def _texts_of(message: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the text fields of a message or delta of OpenAI's API: its content, or the text parts of it."""
    if isinstance(message.get("content"), str):
        yield message, "content"
    for part in _mappings(message.get("content")):
        if is_text_part(part):
            yield part, "text"


def _mappings(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _MOST_COUNTED

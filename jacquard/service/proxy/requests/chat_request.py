"""Calls of chat clients in one form, whichever API they speak, and the places where our text goes into them. Pure.

Nothing that the client sent is changed: our text is added beside it, as a message or as a content part of its own, or at the end of
the client's system message for servers that take only one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from jacquard.service.ids import shorten_id
from mnemosyne.core import codec
from mnemosyne.core.errors import CodecError

AFTER_SYSTEM, BEFORE_LAST_USER, DEPTH, MERGED = "after_system", "before_last_user", "depth:", "merged"
MOST_VALUES = 1_000_000
"""A call has at most about so many values; what makes it large is text and pictures."""

_SYSTEM_ROLES = ("system", "developer")


class Api(StrEnum):
    """The API of a call."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"


@dataclass(frozen=True, kw_only=True)
class ChatRequest:
    """One call. `messages` are those of `body` in the form of the OpenAI API, oldest first, the system text among them. `place` is
    where our changing text goes.
    """

    api: Api
    body: Mapping[str, Any]
    messages: tuple[Mapping[str, Any], ...]
    place: str = BEFORE_LAST_USER

    @property
    def max_tokens(self) -> int | None:
        """The most tokens that the answer may have, where the call says it."""
        told = self.body.get("max_completion_tokens", self.body.get("max_tokens"))
        return told if isinstance(told, int) and not isinstance(told, bool) else None

    @property
    def model(self) -> str:
        """The model that the call asks for; '' where it names none."""
        told = self.body.get("model")
        return told if isinstance(told, str) else ""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The metadata of the call, where they are a mapping."""
        told = self.body.get("metadata")
        return told if isinstance(told, dict) else {}

    @property
    def user_id(self) -> str:
        """The person whom the call names (`user`, or Anthropic's `metadata.user_id`), in all chats alike; '' for none.

        An id that contains a session's, as Claude Code sends it, is another one in the next chat and names nobody.
        """
        told = (self.body.get("user"), self.metadata.get("user_id"))
        named = next((each.strip() for each in told if isinstance(each, str) and each.strip()), "")
        return "" if "session" in named else shorten_id(named)

    @property
    def last_user(self) -> int | None:
        """The place of the newest message of the user."""
        return _last_of_role(self.messages, "user")

    @property
    def continues(self) -> bool:
        """Whether the model is to go on with the assistant's newest message, rather than to answer the user."""
        roles = (each.get("role") for each in reversed(self.messages))
        return next((role for role in roles if role in ("user", "assistant", "tool")), None) == "assistant"

    @cached_property
    def system_messages(self) -> tuple[Mapping[str, Any], ...]:
        """The system messages, wherever they stand."""
        return tuple(each for each in self.messages if each.get("role") in _SYSTEM_ROLES)

    @property
    def beginnings(self) -> tuple[Mapping[str, Any], ...]:
        """The texts of the assistant after the user's newest message."""
        after = () if self.last_user is None else self.messages[self.last_user + 1 :]
        return tuple(each for each in after if each.get("role") == "assistant" and not each.get("tool_calls"))

    @property
    def results(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The results of tools with the ids of their calls, oldest first; one without an id gets one from its place and content."""
        place = 0
        for each in self.messages:
            place = 0 if each.get("role") == "user" else place + (each.get("role") == "tool")
            if each.get("role") == "tool":
                told = each.get("tool_call_id")
                unnamed = hashlib.sha256(f"{place}\0{text_of(each.get('content'))}".encode("utf-8", "surrogatepass"))
                yield shorten_id(str(told)) if told else f"call-{unnamed.hexdigest()[:16]}", each

    @property
    def tail(self) -> tuple[Mapping[str, Any], ...]:
        """The tool calls and results after the newest message of the user, with what the assistant said beside them."""
        if self.last_user is None or not any(
            each.get("role") == "tool" for each in self.messages[self.last_user + 1 :]
        ):
            return ()
        return self.messages[self.last_user + 1 :]


@dataclass(frozen=True, kw_only=True, slots=True)
class OurNote:
    """A note of ours that has a message of its own, `depth` messages before the end, as SillyTavern counts."""

    depth: int
    text: str
    role: str = "system"


@dataclass(frozen=True, kw_only=True, slots=True)
class OurText:
    """What is added to a call: `lasting` stays the same over many calls, `changing` does not. Empty texts are left out."""

    lasting: str = ""
    changing: str = ""
    notes: tuple[OurNote, ...] = ()


def read_request(api: Api, data: bytes) -> ChatRequest | None:
    """Return a call; None for what is no call of a chat API as we know it, which the model server may judge."""
    if len(data) > MOST_VALUES and sum(map(data.count, (b"{", b"[", b","))) > MOST_VALUES:
        return None
    try:
        body = codec.decode(data, dict)
    except CodecError:
        # What JSON does not have but clients write: marks of byte order, other encodings, NaN.
        try:
            body = json.loads(data)
        except (ValueError, RecursionError):
            return None
    messages = body.get("messages") if isinstance(body, dict) else None
    if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
        return None
    if api is Api.OPENAI:
        return ChatRequest(api=api, body=body, messages=tuple(messages))
    contents = [body.get("system"), *(each.get("content") for each in messages)]
    if not all(isinstance(each, str | list | None) for each in contents):
        return None
    read = tuple(_from_anthropic(body))
    return ChatRequest(api=api, body=body, messages=read)


def text_of(content: Any) -> str:
    """Return the text of a message's content: a text, or the texts of its parts, a line each."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def with_our_text(request: ChatRequest, ours: OurText, place: str) -> bytes:
    """Return the body of a call with our text (`join_our_text`)."""
    return write_json(join_our_text(request, ours, place))


def join_our_text(request: ChatRequest, ours: OurText, place: str) -> dict[str, Any]:
    """Return the body of a call with our text: what lasts after the system messages, what changes at `place`, notes where they
    belong; for a server that takes system messages at the beginning alone, notes come first of what changes.
    """
    if ours.notes and place != BEFORE_LAST_USER and not place.startswith(DEPTH):
        changing = "\n\n".join(filter(None, (*(note.text for note in ours.notes), ours.changing)))
        ours = OurText(lasting=ours.lasting, changing=changing)
    return (_add_to_openai if request.api is Api.OPENAI else _add_to_anthropic)(request, ours, place)


def write_json(value: Any) -> bytes:
    """Return a value as JSON in UTF-8."""
    try:
        return codec.encode(value)
    except CodecError:
        return json.dumps(value, separators=(",", ":")).encode()


def _add_to_openai(request: ChatRequest, ours: OurText, place: str) -> dict[str, Any]:
    messages: list[Any] = list(request.messages)
    if place == MERGED:
        return {**request.body, "messages": _merge(messages, "\n\n".join(filter(None, (ours.lasting, ours.changing))))}
    leading = _count_leading(messages)
    added = [(leading, "system", ours.lasting), (_spot_of(messages, leading, place), "system", ours.changing)]
    added += [(_spot_of(messages, leading, f"{DEPTH}{note.depth}"), note.role, note.text) for note in ours.notes]
    # From the end, so that no place moves.
    for spot, role, text in sorted(added, key=lambda each: each[0])[::-1]:
        if text:
            messages.insert(spot, {"role": role, "content": text})
    return {**request.body, "messages": messages}


def _merge(messages: list[Any], text: str) -> list[Any]:
    """Return messages with a text at the end of the first system message, or before the newest of the user where there is none."""
    systems = [at for at, each in enumerate(messages) if each.get("role") in _SYSTEM_ROLES]
    spot = systems[0] if systems else _last_of_role(messages, "user")
    if spot is None or not text:
        return messages
    own = messages[spot].get("content")
    ours = {"type": "text", "text": text}
    parts = [*_parts_of(own), ours] if systems else [ours, *_parts_of(own)]
    content = parts if isinstance(own, list) else "\n\n".join(part["text"] for part in parts)
    return [*messages[:spot], {**messages[spot], "content": content}, *messages[spot + 1 :]]


def _add_to_anthropic(request: ChatRequest, ours: OurText, place: str) -> dict[str, Any]:
    messages: list[Any] = list(request.body["messages"])
    body = dict(request.body)
    is_first = place in (AFTER_SYSTEM, MERGED)
    beside = [ours.lasting, ours.changing] if is_first else [ours.lasting]
    blocks = [{"type": "text", "text": text} for text in beside if text]
    if blocks:
        body["system"] = [*_parts_of(body.get("system")), *blocks]
    added = [] if is_first else [(_spot_of(messages, 0, place), ours.changing)]
    added += [(_spot_of(messages, 0, f"{DEPTH}{note.depth}"), note.text) for note in ours.notes]
    users = [at for at, each in enumerate(messages) if each.get("role") == "user" and not _has_results(each)]
    # The roles of this API take turns, so our text becomes a part of the user's message.
    for spot, text in reversed(added):
        before = [at for at in users if at <= min(spot, len(messages) - 1)] or users[:1]
        if text and before:
            message = messages[before[-1]]
            parts = [{"type": "text", "text": text}, *_parts_of(message.get("content"))]
            messages[before[-1]] = {**message, "content": parts}
    return {**body, "messages": messages}


def _parts_of(content: Any) -> list[Any]:
    """Return the parts of a content; a blank text is none, because Anthropic's API refuses it as a part."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content.strip() else []
    return list(content or ())


def _spot_of(messages: Sequence[Mapping[str, Any]], leading: int, place: str) -> int:
    """Return the index before which our changing text goes; it parts no tool call from its results."""
    users = [at for at, each in enumerate(messages) if each.get("role") == "user" and not _has_results(each)]
    last = users[-1] if users else len(messages)
    if place == AFTER_SYSTEM:
        return leading
    if place == BEFORE_LAST_USER:
        return max(last, leading)
    # Counted from the newest message of the user, so that calls with results of tools have it at the same place.
    spot = max(min(last + 1, len(messages)) - int(place.removeprefix(DEPTH)), leading)
    while spot > leading and messages[spot : spot + 1] and messages[spot].get("role") == "tool":
        spot -= 1
    return spot


def _has_results(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    parts = content if isinstance(content, list) else ()
    return any(isinstance(part, dict) and part.get("type") == "tool_result" for part in parts)


def _count_leading(messages: Sequence[Mapping[str, Any]]) -> int:
    places = (at for at, each in enumerate(messages) if each.get("role") not in _SYSTEM_ROLES)
    return next(places, len(messages))


def _last_of_role(messages: Sequence[Mapping[str, Any]], role: str) -> int | None:
    return next((at for at in range(len(messages) - 1, -1, -1) if messages[at].get("role") == role), None)


def _from_anthropic(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if body.get("system"):
        yield {"role": "system", "content": text_of(body["system"])}
    for message in body["messages"]:
        content, role = message.get("content"), message.get("role")
        parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
        for part in parts:
            if part.get("type") == "tool_result":
                yield {
                    "role": "tool",
                    "tool_call_id": part.get("tool_use_id"),
                    "content": text_of(part.get("content")),
                }
        calls = [_call_of(part) for part in parts if part.get("type") == "tool_use"]
        rest = [part for part in parts if part.get("type") not in ("tool_result", "tool_use", "thinking")]
        if any(part.get("type") == "tool_result" for part in parts):
            # Text beside results belongs to the running turn: it is the client's, and no new message of the user.
            role = "system"
        if isinstance(content, str):
            yield {"role": role, "content": content}
        elif rest or calls:
            plain = text_of(rest) if all(part.get("type") == "text" for part in rest) else rest
            yield {"role": role, "content": plain, **({"tool_calls": calls} if calls else {})}


def _call_of(part: Mapping[str, Any]) -> dict[str, Any]:
    arguments = json.dumps(part.get("input") or {}, ensure_ascii=False)
    return {
        "id": part.get("id"),
        "type": "function",
        "function": {"name": part.get("name"), "arguments": arguments},
    }

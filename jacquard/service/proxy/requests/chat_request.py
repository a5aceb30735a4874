"""Reads calls of chat clients into one form for both APIs (OpenAI and Anthropic), and adds our text (the text of a turn) to
them. Pure.

The client's own content is not changed. Our text is added as a message or as a content part. For servers that accept only
one system message, it is added at the end of the client's system message.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any

from jacquard.service.ids import shorten_id
from mnemosyne.core import codec
from mnemosyne.core.errors import CodecError
from mnemosyne.values import dataclass

AFTER_SYSTEM, BEFORE_LAST_USER, DEPTH, MERGED = "after_system", "before_last_user", "depth:", "merged"
"""Places for our changing text. DEPTH is followed by a number: the place is so many messages before the end. MERGED is
a place inside the client's system message.
"""
MOST_VALUES = 1_000_000
"""Maximum number of JSON values in a call (approximate). Large calls are usually large because of texts and pictures."""

_SYSTEM_ROLES = ("system", "developer")


class Api(StrEnum):
    """API to which a call belongs."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"


@dataclass(frozen=True, kw_only=True)
class ChatRequest:
    """Call of a chat client. `body` is the JSON body as the client sent it."""

    api: Api
    body: Mapping[str, Any]
    messages: tuple[Mapping[str, Any], ...]
    """Messages of `body`, oldest first, in the form of the OpenAI API. They include the system text."""
    place: str = BEFORE_LAST_USER
    """Place of our changing text, for example BEFORE_LAST_USER."""

    @property
    def max_tokens(self) -> int | None:
        """Maximum tokens of the answer (None: the call does not limit them)."""
        told = self.body.get("max_completion_tokens", self.body.get("max_tokens"))
        return told if isinstance(told, int) and not isinstance(told, bool) else None

    @property
    def model(self) -> str:
        """Model that the call asks for; '' if the call names no model."""
        told = self.body.get("model")
        return told if isinstance(told, str) else ""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the call; empty if there are none."""
        told = self.body.get("metadata")
        return told if isinstance(told, dict) else {}

    @property
    def user_id(self) -> str:
        """Id of the person that the call names (`user`, or Anthropic's `metadata.user_id`); '' if the call names no
        person.

        Clients must give a person the same id in all chats. An id that contains the word "session", like Claude Code's,
        does not count, because it differs in each chat.
        """
        told = (self.body.get("user"), self.metadata.get("user_id"))
        named = next((each.strip() for each in told if isinstance(each, str) and each.strip()), "")
        return "" if "session" in named else shorten_id(named)

    @property
    def last_user(self) -> int | None:
        """Place of the newest user message in `messages` (None: there is no user message)."""
        return _last_of_role(self.messages, "user")

    @property
    def continues(self) -> bool:
        """True if the model is to continue the assistant's newest message, because no user message and no tool result follows
        this message.
        """
        roles = (each.get("role") for each in reversed(self.messages))
        return next((role for role in roles if role in ("user", "assistant", "tool")), None) == "assistant"

    @cached_property
    def system_messages(self) -> tuple[Mapping[str, Any], ...]:
        """System messages of the call, wherever they are."""
        return tuple(each for each in self.messages if each.get("role") in _SYSTEM_ROLES)

    @property
    def beginnings(self) -> tuple[Mapping[str, Any], ...]:
        """Assistant messages after the user's newest message that do not call tools."""
        after = () if self.last_user is None else self.messages[self.last_user + 1 :]
        return tuple(each for each in after if each.get("role") == "assistant" and not each.get("tool_calls"))

    @property
    def results(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Tool results as pairs of the tool call's id and the message, oldest first.

        A result without an id gets an id that is made from its place and its content.
        """
        place = 0
        for each in self.messages:
            place = 0 if each.get("role") == "user" else place + (each.get("role") == "tool")
            if each.get("role") == "tool":
                told = each.get("tool_call_id")
                unnamed = hashlib.sha256(f"{place}\0{text_of(each.get('content'))}".encode("utf-8", "surrogatepass"))
                yield shorten_id(str(told)) if told else f"call-{unnamed.hexdigest()[:16]}", each

    @property
    def tail(self) -> tuple[Mapping[str, Any], ...]:
        """All messages after the newest user message if there are tool results among them; otherwise empty."""
        if self.last_user is None or not any(
            each.get("role") == "tool" for each in self.messages[self.last_user + 1 :]
        ):
            return ()
        return self.messages[self.last_user + 1 :]


@dataclass(frozen=True, kw_only=True, slots=True)
class OurNote:
    """Text that we add in a message of its own. The message is placed `depth` messages before the end, counted in the
    way of SillyTavern.
    """

    depth: int
    text: str
    role: str = "system"


@dataclass(frozen=True, kw_only=True, slots=True)
class OurText:
    """Texts that are added to a call. `lasting` stays the same over many calls, and `changing` may differ in each call.
    Empty texts are not added.
    """

    lasting: str = ""
    changing: str = ""
    notes: tuple[OurNote, ...] = ()


def read_request(api: Api, data: bytes) -> ChatRequest | None:
    """Read a call from its body `data`. Return None if `data` is not a valid call of this API; such a call is sent to
    the model server, which reports the fault.
    """
    if len(data) > MOST_VALUES and sum(map(data.count, (b"{", b"[", b","))) > MOST_VALUES:
        return None
    try:
        body = codec.decode(data, dict)
    except CodecError:
        # Clients write things that are not JSON: byte order marks, other encodings, NaN.
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
    """Return the text of a message's content: the content itself, or the texts of its parts, one on each line."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def with_our_text(request: ChatRequest, ours: OurText, place: str) -> bytes:
    """Return the body of a call with our text, as JSON (see `join_our_text`)."""
    return write_json(join_our_text(request, ours, place))


def join_our_text(request: ChatRequest, ours: OurText, place: str) -> dict[str, Any]:
    """Return the body of a call with our text.

    Lasting text comes after the system messages, changing text at `place`, and notes at their depth. If the server accepts
    system messages only at the beginning, the notes become the first part of the changing text.
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
    """Return messages with a text at the end of the first system message, or before the newest user message if there is none."""
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
    # The roles of this API alternate, so our text becomes a part of the user's message.
    for spot, text in reversed(added):
        before = [at for at in users if at <= min(spot, len(messages) - 1)] or users[:1]
        if text and before:
            message = messages[before[-1]]
            parts = [{"type": "text", "text": text}, *_parts_of(message.get("content"))]
            messages[before[-1]] = {**message, "content": parts}
    return {**body, "messages": messages}


def _parts_of(content: Any) -> list[Any]:
    """Return the parts of a content without blank texts, because Anthropic's API refuses these."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content.strip() else []
    return list(content or ())


def _spot_of(messages: Sequence[Mapping[str, Any]], leading: int, place: str) -> int:
    """Return the index before which our changing text goes; it separates no tool call from its results."""
    users = [at for at, each in enumerate(messages) if each.get("role") == "user" and not _has_results(each)]
    last = users[-1] if users else len(messages)
    if place == AFTER_SYSTEM:
        return leading
    if place == BEFORE_LAST_USER:
        return max(last, leading)
    # Counted from the newest user message, so that calls with tool results have it at the same place.
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
            # Text next to results belongs to the running turn: it is the client's, and not a new user message.
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

"""Converts a prompt to messages of the OpenAI API, or to `system` and `messages` of the Anthropic API. Pure.

Content that is not text (tool calls and their ids, images and other parts) is taken from the session's messages. Providers refuse
a tool call without its result, and a result without its call. A call whose result is not in the prompt is therefore left out, and
a result whose call is not in the prompt gets an artificial call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from filament.boundaries import choose_boundary
from jacquard.core.block_kinds import INPUT_ID, SAID
from jacquard.core.receipt import BlockSpan
from jacquard.pipeline.weaving.assemble import PromptMessage
from mnemosyne.chains.messages.message_parts import is_text_part, read_parts, read_tool_call_id, read_tool_calls
from mnemosyne.schema.session import Message, Role
from mnemosyne.values import dataclass

CACHED = {"type": "ephemeral"}
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,", re.ASCII)
_NO_ARGUMENTS = "{}"
_BEGUN = "…"
"""Text of an added first user message. It is added if a conversation begins with the assistant, because the Anthropic
API refuses such a conversation.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attachment:
    """Non-text content of one message of a prompt."""

    place: int
    """Index of the message in the prompt (0-based)."""
    message_id: str
    """Id of the session's message."""
    written: str = ""
    """Text of the message in the session."""
    parts: tuple[Mapping[str, Any], ...] = ()
    """All content parts of the message, including text."""
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    tool_call_id: str | None = None


def find_attachments(
    spans: Iterable[BlockSpan], messages: Iterable[Message], said: Message | None = None
) -> tuple[Attachment, ...]:
    """Return the attachments (content that is not text) of a prompt's messages.

    `spans` are the places of the blocks, from the receipt. `messages` are the session's messages. `said` is the user
    message of the turn (None: the input has no attachments).
    """
    held = {message.message_id: message for message in messages}
    if said is not None:
        held[INPUT_ID] = said
    places = {span.block_id: span.message for span in spans if span.kind in SAID and span.block_id in held}
    found = (_attachment_of(place, name, held[name]) for name, place in places.items() if held[name].extra)
    return tuple(each for each in found if each.parts or each.tool_calls or each.tool_call_id)


def _attachment_of(place: int, message_id: str, message: Message) -> Attachment:
    return Attachment(
        place=place,
        message_id=message_id,
        written=message.content,
        parts=read_parts(message),
        tool_calls=read_tool_calls(message),
        tool_call_id=read_tool_call_id(message),
    )


def to_openai(messages: Sequence[PromptMessage], attachments: Sequence[Attachment] = ()) -> list[Any]:
    """Return a prompt as messages of the OpenAI chat API, with the non-text content `attachments`. Each message is a
    new dict.
    """
    return [plain for _, plain in _openai_messages(messages, attachments)]


def _openai_messages(
    messages: Sequence[PromptMessage], attachments: Sequence[Attachment]
) -> Iterator[tuple[int | None, dict[str, Any]]]:
    """Yield each message with its place in the prompt; the place is None for a call that is made for a result."""
    carried = {each.place: each for each in attachments}
    pairs = _find_pairs(messages, carried)
    for place, message in enumerate(messages):
        held = carried.get(place)
        plain: dict[str, Any] = {"role": message.role, "content": _openai_content(message, held)}
        if message.role == Role.TOOL:
            call_id = held.tool_call_id if held is not None else None
            if (place, call_id) not in pairs:
                call_id = call_id or f"call_{place}"
                call = {"id": call_id, "type": "function", "function": {"name": "tool", "arguments": _NO_ARGUMENTS}}
                yield None, {"role": Role.ASSISTANT.value, "content": None, "tool_calls": [call]}
            plain["tool_call_id"] = call_id
        calls = [] if held is None else [dict(call) for call in held.tool_calls if (place, call["id"]) in pairs]
        if calls:
            plain["tool_calls"] = calls
            plain["content"] = plain["content"] or None
        yield place, plain


def _find_pairs(
    messages: Sequence[PromptMessage], carried: Mapping[int, Attachment]
) -> frozenset[tuple[int, str | None]]:
    """Return the tool calls and results in a prompt as pairs, each by its place and its id.

    A result comes after its call, with only other results between.
    """
    pairs: set[tuple[int, str | None]] = set()
    waiting: dict[str, int] = {}
    for place, message in enumerate(messages):
        held = carried.get(place)
        if message.role == Role.TOOL:
            if held is not None and held.tool_call_id in waiting:
                pairs |= {(waiting.pop(held.tool_call_id), held.tool_call_id), (place, held.tool_call_id)}
            else:
                # It gets a new call before it, which separates the following messages from the waiting call.
                waiting = {}
            continue
        waiting = {} if held is None else {call["id"]: place for call in held.tool_calls}
    return frozenset(pairs)


def _openai_content(message: PromptMessage, held: Attachment | None) -> Any:
    if held is None or not held.parts:
        return message.content
    if message.content == held.written:
        return [dict(part) for part in held.parts]
    # The text is shown in another form, or with other text around it, so the parts follow it.
    text = [{"type": "text", "text": message.content}] if message.content else []
    return [*text, *(dict(part) for part in held.parts if not is_text_part(part))]


def to_anthropic(
    messages: Sequence[PromptMessage],
    attachments: Sequence[Attachment] = (),
    stable_messages: int = 0,
    stable_chars: int = 0,
    boundary: str = "",
) -> dict[str, Any]:
    """Return a prompt as `system` (text blocks) and `messages` of the Anthropic messages API.

    System messages that follow a message of another role become text blocks of the user. If the same message also has
    text of the user, this text is enclosed in lines with `boundary`, so that the two texts cannot be confused.
    `cache_control` marks the end of the part that does not change every turn: the first `stable_messages` messages, and
    `stable_chars` characters of the next message.
    """
    first = next((place for place, each in enumerate(messages) if each.role != Role.SYSTEM), len(messages))
    turns: list[_Turn] = []
    for place, plain in _openai_messages(messages, attachments):
        blocks = _anthropic_blocks(plain)
        if not blocks or (place is not None and place < first):
            continue
        role = Role.ASSISTANT if plain["role"] == Role.ASSISTANT else Role.USER
        if not turns and role is Role.ASSISTANT:
            turns.append(_Turn(role=Role.USER, pieces=[_Piece(origin=Role.USER, blocks=[_text(_BEGUN)])]))
        if not turns or turns[-1].role is not role:
            turns.append(_Turn(role=role, pieces=[]))
        is_stable = place is not None and place < stable_messages
        turns[-1].pieces.append(_Piece(origin=Role(plain["role"]), blocks=blocks, is_stable=is_stable))
    stable = [piece for turn in turns for piece in turn.pieces if piece.is_stable]
    if stable:
        stable[-1].blocks[-1]["cache_control"] = dict(CACHED)
    system = _system_blocks(messages[:first], stable_messages, stable_chars)
    return {"system": system, "messages": [turn.to_plain(boundary) for turn in turns]}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Piece:
    """One message as content blocks; `origin` is its role in the prompt."""

    origin: Role
    blocks: list[dict[str, Any]]
    is_stable: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class _Turn:
    """Neighbouring messages of one role, which the Anthropic API requires as one message."""

    role: Role
    pieces: list[_Piece]

    def to_plain(self, boundary: str) -> dict[str, Any]:
        """Return the message; if it also has our text, the user's text is between boundaries."""
        is_mixed = any(piece.origin is Role.SYSTEM for piece in self.pieces)
        content: list[dict[str, Any]] = []
        for piece in self.pieces:
            is_bounded = is_mixed and piece.origin is Role.USER
            content += _between_boundaries(piece.blocks, boundary) if is_bounded else piece.blocks
        return {"role": self.role.value, "content": content}


def _system_blocks(messages: Sequence[PromptMessage], stable: int, chars: int) -> list[dict[str, Any]]:
    """Return the system text as blocks; the last stable one is marked."""
    blocks: list[dict[str, Any]] = []
    last: dict[str, Any] | None = None
    for place, message in enumerate(messages):
        cut = len(message.content) if place < stable else chars if place == stable else 0
        head, rest = message.content[:cut], message.content[cut:]
        if head.strip():
            last = _text(head)
            blocks.append(last)
        if rest.strip():
            blocks.append(_text(rest))
    if last is not None:
        last["cache_control"] = dict(CACHED)
    return blocks


def _anthropic_blocks(plain: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the content of one message of the OpenAI API as content blocks of the Anthropic API."""
    content = plain["content"]
    parts = content if isinstance(content, list) else [_text(content)] if content else []
    blocks = [block for part in parts if (block := _anthropic_part(part)) is not None]
    if plain["role"] == Role.TOOL:
        return [{"type": "tool_result", "tool_use_id": plain["tool_call_id"], "content": blocks}]
    return [*blocks, *(_tool_use(call) for call in plain.get("tool_calls", ()))]


def _anthropic_part(part: Mapping[str, Any]) -> dict[str, Any] | None:
    if is_text_part(part):
        return _text(part["text"]) if part["text"].strip() else None
    image = part.get("image_url")
    address = image.get("url") if isinstance(image, Mapping) else image
    if not isinstance(address, str):
        return dict(part)
    found = _DATA_URL.match(address)
    if found is None:
        return {"type": "image", "source": {"type": "url", "url": address}}
    source = {"type": "base64", "media_type": found.group(1), "data": address[found.end() :]}
    return {"type": "image", "source": source}


def _tool_use(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    held = function if isinstance(function, Mapping) else {}
    try:
        given = json.loads(held.get("arguments") or _NO_ARGUMENTS)
    except (TypeError, ValueError):
        given = None
    values = given if isinstance(given, dict) else {"arguments": held.get("arguments")}
    return {"type": "tool_use", "id": call["id"], "name": str(held.get("name") or "tool"), "input": values}


def _between_boundaries(blocks: list[dict[str, Any]], boundary: str) -> list[dict[str, Any]]:
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    mark = choose_boundary(boundary, text)
    return [_text(f'<user_input boundary="{mark}">'), *blocks, _text(f'</user_input boundary="{mark}">')]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}

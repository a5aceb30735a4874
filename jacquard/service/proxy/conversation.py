"""Finds the session of a call and brings it to where the client's messages are."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from jacquard.pipeline.worlds import build_bare_world
from jacquard.service.proxy.requests.chat_request import ChatRequest, text_of
from jacquard.service.proxy.requests.headers import SESSION
from jacquard.wiring.runtime import Runtime
from mnemosyne.chains.messages.message_parts import message_from_chat
from mnemosyne.core.errors import SessionExistsError, SessionNotFoundError
from mnemosyne.core.off_loop import calculate
from mnemosyne.schema.session import Message, Role, WindowMessage

MOST_STARTS = 20
MESSAGE_CHARS = 200
"""As how many characters of work a message counts, when it is decided whether a thread does it."""
SPARE = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Placed:
    """Where a call stands in its session: the user's message, and how many of the stored messages the client shows before it.

    `is_cut`: the client leaves older messages out. `again_turn` is the turn whose input is answered once more.
    """

    user: Message
    shown: int
    is_cut: bool = False
    again_turn: str | None = None


def session_of(headers: Mapping[str, str], request: ChatRequest) -> str:
    """Return the id of the session: as the header or the body names it, or else by the beginning of the conversation."""
    metadata = request.body.get("metadata")
    named = [headers.get(SESSION), request.body.get("user")]
    if isinstance(metadata, dict):
        named += [metadata.get("session_id"), metadata.get("user_id")]
    told = next((each for each in named if isinstance(each, str) and each.strip()), None)
    if told is not None:
        return told
    said = [each for each in request.messages if each.get("role") in ("user", "assistant")][:2]
    words = "\0".join(f"{each.get('role')}\0{text_of(each.get('content'))}" for each in said)
    return f"chat-{hashlib.sha256(words.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


async def ensure_session(runtime: Runtime, session_id: str) -> None:
    """Start the session where there is none: from the world of the service, or without a world."""
    try:
        await runtime.store.head(session_id)
    except SessionNotFoundError:
        with suppress(SessionExistsError):
            await runtime.engine.start_session(session_id, runtime.opening or build_bare_world("bare"))


async def place(runtime: Runtime, session_id: str, request: ChatRequest) -> Placed:
    """Bring the session to where the client's messages are, and return the place of the user's newest message."""
    assert request.last_user is not None
    heard = request.messages[: request.last_user + 1]
    said = await calculate(_said, heard, size=len(heard) * MESSAGE_CHARS)
    before, user = said[:-1], said[-1]
    engine = runtime.engine
    window = await runtime.store.window(session_id, message_limit=len(before) + SPARE)
    stored = [each for each in window.messages if each.message.role in (Role.USER, Role.ASSISTANT)]
    start, length = _match(before, stored)
    end = start + length
    is_cut = start > 0 or (len(stored) < window.head.depth and not length)
    follows = stored[end].message if end < len(stored) else None
    if length == len(before) and follows is not None and _key(follows) == _key(user) and end + 2 == len(stored):
        return Placed(user=user, shown=length, is_cut=is_cut, again_turn=stored[end].turn_id)
    if follows is not None:
        while length and stored[start + length - 1].turn_id == stored[end].turn_id:
            length -= 1
        await engine.rollback(session_id, stored[start + length - 1].turn_id if start + length else None)
    if before[length:]:
        await engine.adopt_messages(session_id, before[length:])
    return Placed(user=user, shown=len(before), is_cut=is_cut)


def _said(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    kept = (each for each in messages if each.get("role") in ("user", "assistant") and not each.get("tool_calls"))
    return [message_from_chat(each) for each in kept]


def _key(message: Message) -> tuple[Role, str]:
    return message.role, message.content.strip()


def _match(before: Sequence[Message], stored: Sequence[WindowMessage]) -> tuple[int, int]:
    """Return where the client's messages begin among the stored ones, and how many of them agree from there."""
    keys, held = [_key(each) for each in before], [_key(each.message) for each in stored]
    starts = [at for at, each in enumerate(held) if keys and each == keys[0]][:MOST_STARTS]
    best = (0, 0)
    for start in starts:
        pairs = zip(keys, held[start:], strict=False)
        length = next(
            (at for at, (mine, theirs) in enumerate(pairs) if mine != theirs), min(len(keys), len(held) - start)
        )
        if length > best[1]:
            best = (start, length)
    return best

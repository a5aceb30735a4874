"""What the service and its client send each other: our own values as JSON, and the few that have another form there. Pure.

All other values are the dataclasses of `jacquard` and `mnemosyne` as `mnemosyne.core.codec` writes and reads them. The types of
this module are also those of the published interface (OpenAPI).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from jacquard.core.plan import PlanContext
from jacquard.core.receipt import Report
from jacquard.pipeline.record.prepared_turn import PreparedTurn
from jacquard.pipeline.record.provider_messages import Attachment
from jacquard.pipeline.weaving.assemble import PromptMessage
from jacquard.templating.profiles import ReplyForm
from jacquard.turns.host.values import ChatMessage
from mnemosyne.core import codec
from mnemosyne.schema.evidence import ContextBlock, Evidence
from mnemosyne.schema.memory import EMPTY
from mnemosyne.schema.package import ContextPackage
from mnemosyne.schema.session import Message


@dataclass(frozen=True, kw_only=True, slots=True)
class SentMessage:
    """One message of a prompt: `role` and `content`, as the main model takes it."""

    role: str
    content: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SentTurn:
    """A prepared turn (`jacquard.PreparedTurn`) as it is sent: without the snapshot of its prompt, which stays in the store."""

    turn_id: str
    session_id: str
    branch_id: str
    depth: int
    version: int
    plan: PlanContext
    messages: tuple[SentMessage, ...]
    text: str
    package: ContextPackage
    report: Report
    evidences: tuple[Evidence, ...] = ()
    context_blocks: tuple[ContextBlock, ...] = ()
    reply: str | None = None
    reply_form: ReplyForm = ReplyForm.ELEMENTS
    history_start: str | None = None
    other_tokens: int | None = None
    newest_evidence: str = ""
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorBody:
    """What an error says: its code (the name of its class in snake case, without `Error`), its sentence, and its facts."""

    code: str
    message: str
    facts: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorAnswer:
    """The body of every answer that is an error."""

    error: ErrorBody


_FIELDS = tuple(each.name for each in fields(SentTurn))


def encode_turn(turn: PreparedTurn) -> bytes:
    """Return a prepared turn as JSON of the form of `SentTurn`."""
    return codec.encode({name: getattr(turn, name) for name in _FIELDS})


def decode_turn(data: bytes) -> PreparedTurn:
    """Return the prepared turn that `encode_turn` wrote, without what stays in the store; UnreadableError for other bytes."""
    sent = codec.decode(data, SentTurn)
    given = {name: getattr(sent, name) for name in _FIELDS}
    messages = tuple(PromptMessage(role=each.role, content=each.content) for each in sent.messages)
    return PreparedTurn(**{**given, "messages": messages})


_OF_A_MESSAGE = frozenset({"message_id", "author", "at", "refs", "extra"})
"""Fields of `Message` that no message of a chat API has."""


def message_to_wire(message: ChatMessage) -> str | dict[str, Any]:
    """Return a message as it is sent: its text, the object of a chat API, or a `Message` with all its fields."""
    if isinstance(message, str):
        return message
    plain: dict[str, Any] = codec.to_plain(message) if isinstance(message, Message) else dict(message)
    return plain


def message_from_wire(sent: str | dict[str, Any]) -> ChatMessage:
    """Return the message that was sent; CodecError for an object that has fields of a `Message` and is none."""
    if isinstance(sent, dict) and _OF_A_MESSAGE.intersection(sent):
        return codec.from_plain(sent, Message)
    return sent

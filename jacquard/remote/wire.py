"""Converts values between their form in the engine and their form in requests and answers of the service.

Only prepared turns, chat messages and errors have a form of their own there. All other values are sent as dataclasses of
`jacquard` and `mnemosyne`, which `mnemosyne.core.codec` writes and reads as JSON. The OpenAPI description publishes the types of
this module. Everything here is pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field, fields
from typing import Any

from jacquard.core.block_kinds import INPUT_ID
from jacquard.core.degradations import Degradation
from jacquard.core.plan import PlanContext
from jacquard.core.receipt import BudgetReport, CandidateDecision, CurationPath, PrefixReport, Report
from jacquard.pipeline.record.prepared_turn import PreparedTurn
from jacquard.pipeline.record.provider_messages import Attachment, to_anthropic, to_openai
from jacquard.pipeline.weaving.assemble import PromptMessage
from jacquard.templating.profiles import ReplyForm, session_boundary
from jacquard.turns.host.values import ChatMessage
from mnemosyne.core import codec
from mnemosyne.schema.evidence import ContextBlock, Evidence
from mnemosyne.schema.memory import EMPTY
from mnemosyne.schema.package import ContextPackage
from mnemosyne.schema.session import Message
from mnemosyne.values import dataclass

MOST_LINE_CHARS = 80


@dataclass(frozen=True, kw_only=True, slots=True)
class SentMessage:
    """One message of a prompt for the main model."""

    role: str
    content: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ChosenMemory:
    """A memory that was chosen for a prompt.

    `entry_id` is the id of its entry, `score` its score in recall (None: not recorded), and `line` its title or first words.
    """

    entry_id: str
    score: float | None = None
    line: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShortReport:
    """The part of a turn's receipt (why each block is in the prompt) that a caller needs most often."""

    budget: BudgetReport
    prefix: PrefixReport
    path: CurationPath
    """Way in which the memories were chosen."""
    memories: tuple[ChosenMemory, ...] = ()
    """The chosen memories, best first."""
    degradations: tuple[Degradation, ...] = ()
    redacted: tuple[str, ...] = ()
    """Rules by which secrets were removed from the user's message."""
    timings_ms: Mapping[str, float] = field(default_factory=lambda: EMPTY)


def shorten_report(report: Report) -> ShortReport:
    """Return the short form of the report in a receipt."""
    chosen = {each.entry_id: each for each in report.stream_b.candidates if each.chosen}
    return ShortReport(
        budget=report.budget,
        prefix=report.prefix,
        path=report.stream_b.path,
        memories=tuple(_describe_choice(each, chosen.get(each)) for each in report.stream_b.selected),
        degradations=report.degradations,
        redacted=tuple(rule for each in report.redactions if each.block_id == INPUT_ID for rule in each.rules_applied),
        timings_ms=report.timings_ms,
    )


def _describe_choice(entry_id: str, chosen: CandidateDecision | None) -> ChosenMemory:
    if chosen is None:
        return ChosenMemory(entry_id=entry_id)
    line = " ".join((chosen.title or chosen.preview).split())
    line = line if len(line) <= MOST_LINE_CHARS else f"{line[: MOST_LINE_CHARS - 1]}…"
    return ChosenMemory(entry_id=entry_id, score=round(chosen.score, 3), line=line)


@dataclass(frozen=True, kw_only=True, slots=True)
class _TurnAnswer:
    turn_id: str
    session_id: str
    branch_id: str
    depth: int
    version: int
    short_report: ShortReport
    reply: str | None = None
    reply_form: ReplyForm = ReplyForm.ELEMENTS
    attachments: tuple[Attachment, ...] = ()
    plan: PlanContext | None = None
    text: str | None = None
    package: ContextPackage | None = None
    report: Report | None = None
    evidences: tuple[Evidence, ...] | None = None
    context_blocks: tuple[ContextBlock, ...] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SentTurn(_TurnAnswer):
    """A prepared turn (`jacquard.PreparedTurn`) as the service sends it.

    It always has its ids, its messages with their attachments, and a short report. The other parts are sent only if the parameter
    `include` names them.
    """

    messages: tuple[SentMessage, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class RemoteTurn(_TurnAnswer):
    """A turn that a service has prepared, as a caller of the client gets it.

    Its `messages` are dicts with `role` and `content`, like the messages of `PreparedTurn`. Parts that the client did not request
    (`RemoteEngine(include=…)`) are None.
    """

    messages: tuple[PromptMessage, ...]

    def to_openai(self) -> list[Any]:
        """Return the prompt as messages of the OpenAI API, equal to the result of `PreparedTurn.to_openai`."""
        return to_openai(self.messages, self.attachments)

    def to_anthropic(self) -> dict[str, Any]:
        """Return the prompt in the form of the Anthropic API, equal to the result of `PreparedTurn.to_anthropic`."""
        prefix = self.short_report.prefix
        boundary = session_boundary(self.session_id)
        return to_anthropic(self.messages, self.attachments, prefix.stable_messages, prefix.stable_chars, boundary)


PARTS = ("plan", "text", "package", "report", "evidences", "context_blocks")
"""Parts of a prepared turn that are sent only if `include` names them."""

ALL = "all"
"""Value of `include` that requests every part."""

_ALWAYS = tuple(each.name for each in fields(SentTurn) if each.name not in (*PARTS, "short_report"))


def encode_turn(turn: PreparedTurn, include: Collection[str] = ()) -> bytes:
    """Return a prepared turn as the JSON of a `SentTurn`, with the parts that `include` names."""
    parts = PARTS if ALL in include else (name for name in PARTS if name in include)
    sent = {name: getattr(turn, name) for name in (*_ALWAYS, *parts)}
    return codec.encode({**sent, "short_report": shorten_report(turn.report)})


def receive_turn(sent: SentTurn) -> RemoteTurn:
    """Return the turn that a caller of the client gets, made from `sent`, the turn as the service sent it."""
    given = {each.name: getattr(sent, each.name) for each in fields(SentTurn)}
    messages = tuple(PromptMessage(role=each.role, content=each.content) for each in sent.messages)
    return RemoteTurn(**{**given, "messages": messages})


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorBody:
    """Error in an answer.

    `code` is the name of the error's class in snake case, without `Error`. `message` is a sentence for people, and `facts` are
    values for programs.
    """

    code: str
    message: str
    facts: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorAnswer:
    """Body of an answer that reports an error."""

    error: ErrorBody


_OF_A_MESSAGE = frozenset({"message_id", "author", "at", "refs", "extra"})
"""Fields of `Message` that no message of a chat API has."""


def message_from_wire(sent: str | dict[str, Any]) -> ChatMessage:
    """Return the chat message of a request.

    An object with a field that only a stored `Message` has is read as a `Message`. Raises CodecError if the object is
    not a valid `Message`.
    """
    if isinstance(sent, dict) and _OF_A_MESSAGE.intersection(sent):
        return codec.from_plain(sent, Message)
    return sent

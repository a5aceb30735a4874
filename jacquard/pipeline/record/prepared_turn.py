"""Defines the prepared turn (a prompt with its receipt), and converts it to a stored record and back. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from jacquard.config.sections import (
    ChunkConfig,
    ConsolidationConfig,
    LockConfig,
    ObservabilityConfig,
    RuntimeConfig,
    SnapshotConfig,
    drop_config_secrets,
)
from jacquard.core.calibration import COUNTED, REPORTED
from jacquard.core.model_calls import UNKNOWN
from jacquard.core.plan import PlanContext, Triage, plan_to_json
from jacquard.core.receipt import CurationPath, Report
from jacquard.pipeline.record.prompt_forms import PromptForms
from jacquard.pipeline.record.prompt_snapshot import snapshot_from_json, snapshot_to_json
from jacquard.pipeline.record.provider_messages import (
    Attachment,
    find_attachments,
    to_anthropic,
    to_openai,
)
from jacquard.pipeline.record.stored_turn import plan_of, report_damage, report_of
from jacquard.pipeline.weaving.assemble import PromptMessage
from jacquard.pipeline.weaving.pieces import join_messages, split_messages
from jacquard.templating.profiles import ReplyForm, session_boundary
from mnemosyne.core import codec
from mnemosyne.documents.package_json import package_to_json
from mnemosyne.schema.document import ModelUsage, ModelUsageStage
from mnemosyne.schema.evidence import ContextBlock, Evidence
from mnemosyne.schema.memory import EMPTY
from mnemosyne.schema.package import ContextPackage
from mnemosyne.schema.record import SessionWindow, TurnRecord
from mnemosyne.schema.session import Message, Role, TurnKind, TurnStatus
from mnemosyne.values import dataclass

RECORD_VERSION = 2
_FINGERPRINT_VERSION = 1
_DEFAULTS = codec.to_plain(RuntimeConfig())


@dataclass(frozen=True, kw_only=True, slots=True)
class AssembledInput:
    """Prompt in two forms, as messages and as one text, with our estimate of its tokens."""

    parts: tuple[PromptMessage, ...]
    text: str | None = None
    """Prompt as one text. An assembler of a host may leave it out."""
    total_tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedTurn:
    """Result of `prepare_turn`: the prompt of one turn, with its plan and receipt."""

    turn_id: str
    session_id: str
    branch_id: str
    depth: int
    version: int
    plan: PlanContext
    messages: tuple[PromptMessage, ...]
    """Messages for the main model. Pass them unchanged. Each is a dict with `role` and `content`."""
    report: Report
    forms: PromptForms = field(compare=False, repr=False)
    """Makes the other forms of the prompt (one text, package, blocks, evidence), each when it is first used."""
    reply: str | None = None
    """Reply of a numerical turn. Such a turn needs no model, and its changes of the state are applied already. None:
    call the model.
    """
    reply_form: ReplyForm = ReplyForm.ELEMENTS
    history_start: str | None = None
    other_tokens: int | None = None
    """Tokens of the prompt without the conversation and memories, for the budget of the next turn."""
    newest_evidence: str = ""
    """Mark of the session's newest evidence, made by `mark_newest`."""
    attachments: tuple[Attachment, ...] = ()
    """Non-text content of messages, stored with the session's messages and not in the turn's record."""
    recorded: codec.JsonTree | None = field(default=None, compare=False, repr=False)
    """The prompt in its form for the record (None: the turn was read from its record)."""
    usages: tuple[ModelUsage, ...] = field(default=(), compare=False, repr=False)
    """Model calls that were made to prepare the turn."""

    @property
    def text(self) -> str:
        """The prompt as one XML text."""
        return self.forms.text

    @property
    def package(self) -> ContextPackage:
        """The context of the turn as a ContextPackage 0.1."""
        return self.forms.package

    @property
    def context_blocks(self) -> tuple[ContextBlock, ...]:
        """The blocks of the prompt in the form of session document 1.0."""
        return self.forms.context_blocks

    @property
    def evidences(self) -> tuple[Evidence, ...]:
        """The memories in the prompt as evidence of session document 1.0, best first."""
        return self.forms.evidences

    @property
    def assembled_input(self) -> AssembledInput:
        """The prompt as messages, as one text, and its tokens."""
        return AssembledInput(parts=self.messages, text=self.text, total_tokens=self.report.budget.used_tokens)

    def to_openai(self) -> list[Any]:
        """Return the prompt as messages of the OpenAI API, with tool calls, their ids, and non-text parts."""
        return to_openai(self.messages, self.attachments)

    def to_anthropic(self) -> dict[str, Any]:
        """Return the prompt as `system` and `messages` of the Anthropic API, with cache breakpoints at the end of stable parts."""
        prefix = self.report.prefix
        boundary = session_boundary(self.session_id)
        return to_anthropic(self.messages, self.attachments, prefix.stable_messages, prefix.stable_chars, boundary)

    @property
    def triage(self) -> Triage:
        """Kind of the input: numerical (an action answers it without a model) or narrative."""
        return self.plan.triage

    @property
    def session_version(self) -> int:
        """Version of the session with this turn waiting: `version`."""
        return self.version


PrepareResult = PreparedTurn
"""Name of `PreparedTurn` in the SDK's design."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredPrompt:
    """The part of a turn's record from which its prompt can be made again, byte for byte."""

    messages: Any
    """The messages, cut into pieces by `split_messages`."""
    reply: str | None
    history_start: str | None
    memories: tuple[Evidence, ...] = ()
    """The memories in the prompt, as in `PromptForms`."""
    reply_form: ReplyForm = ReplyForm.ELEMENTS
    other_tokens: int | None = None
    newest_evidence: str = ""
    tape: Mapping[str, Any]
    """The snapshot of the prompt (`jacquard.pipeline.record.prompt_snapshot`)."""
    text: str = ""
    """The XML text, if the host's own assembler made it (empty: the built-in assembler made it)."""
    record_version: int = RECORD_VERSION


def turn_id_of(session_id: str, branch_id: str, parent_id: str | None, depth: int, user_message: str) -> str:
    """Return the id of the turn that follows the turn `parent_id` with the input `user_message`.

    The same arguments always give the same id. The same input on another branch gets another id, so that it can be
    answered again (retry, swipe). `depth` is the number of the turn on its branch. `parent_id` is None for the first
    turn.
    """
    parts = (session_id, branch_id, parent_id or "", user_message)
    digest = hashlib.sha256("\x00".join(parts).encode("utf-8", "surrogatepass"))
    return f"t{depth:06d}-{digest.hexdigest()[:10]}"


def request_fingerprint(user_message: str, config: RuntimeConfig, world_digest: str) -> str:
    """Return a hash of everything that a stored answer depends on: input, configuration (without secrets) and world."""
    payload = codec.encode([_FINGERPRINT_VERSION, user_message, _COMPARABLE.of(config), world_digest])
    return hashlib.sha256(payload).hexdigest()


class _LastComparable:
    """Cache of the last configuration's parts that a turn's answer depends on, because most turns of a process share one.

    Not with experiments or instructions, which are mappings that a host may change.
    """

    def __init__(self) -> None:
        self._last: tuple[RuntimeConfig, Mapping[str, Any]] | None = None

    def of(self, config: RuntimeConfig) -> Mapping[str, Any]:
        """Return it as plain values."""
        if self._last is not None and self._last[0] is config:
            return self._last[1]
        plain = _make_comparable(config)
        if not (config.experiments or config.instructions):
            self._last = (config, plain)
        return plain


_COMPARABLE = _LastComparable()


def _make_comparable(config: RuntimeConfig) -> dict[str, Any]:
    bare = replace(
        drop_config_secrets(config),
        consolidation=ConsolidationConfig(),
        observability=ObservabilityConfig(),
        chunks=ChunkConfig(),
        locks=LockConfig(),
        snapshots=SnapshotConfig(),
        tags=EMPTY,
    )
    return _select_changed(codec.to_plain(bare), _DEFAULTS)


def _select_changed(plain: Mapping[str, Any], default: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that are not at their default: a setting that is added later changes no fingerprint."""
    return {
        name: _select_changed(each, default[name]) if isinstance(each, dict) and default.get(name) else each
        for name, each in plain.items()
        if each != default.get(name)
    }


def usages_of(turn: PreparedTurn) -> tuple[ModelUsage, ...]:
    """Return the model calls that were made to prepare a turn.

    If the selector of memories did not record its call, the usage of this call is taken from the receipt, provided that
    the selector answered for this turn.
    """
    stream = turn.report.stream_b
    asked, answered = stream.counts.get("prompt_tokens"), stream.counts.get("completion_tokens")
    noted = any(usage.params.get("purpose") == "select" for usage in turn.usages)
    if noted or stream.path is not CurationPath.SELECTED or stream.model is None:
        return turn.usages
    provider, _, _ = stream.model.rpartition("/")
    usage = ModelUsage(
        model_usage_id=f"{turn.turn_id}.select",
        provider=provider,
        model=stream.model,
        stage=ModelUsageStage.OTHER,
        params={"purpose": "select"},
        prompt_tokens=asked or 0,
        completion_tokens=answered or 0,
        total_tokens=(asked or 0) + (answered or 0),
        latency_ms=int(turn.report.timings_ms.get("select", 0)),
        extra={COUNTED: UNKNOWN if asked is None or answered is None else REPORTED, "turn_id": turn.turn_id},
    )
    return (*turn.usages, usage)


def _report_to_store(report: Report) -> Report:
    """Return the part of a receipt that is stored where its decisions are not."""
    stream_b = replace(report.stream_b, candidates=())
    return replace(report, decisions=(), spans=(), evidence=(), activation=(), stream_b=stream_b)


def build_record(
    turn: PreparedTurn,
    window: SessionWindow,
    message: Message,
    fingerprint: str,
    anchors: Mapping[str, str],
    *,
    with_report: bool = True,
) -> TurnRecord:
    """Return the record of a prepared turn. The messages in the record are the input `message` and, for a numerical
    turn, the reply.

    `window` ends with the previous turn. `fingerprint` is the hash of everything that the answer depends on. `anchors`
    maps the names by which ops address the state to places in the state. If `with_report` is false, only a part of the
    receipt is stored (plan, budget, prefix, path, times).
    """
    messages = [replace(message, message_id=f"{turn.turn_id}.u")]
    if turn.reply is not None:
        messages.append(Message(role=Role.ASSISTANT, content=turn.reply, message_id=f"{turn.turn_id}.a", at=message.at))
    # A numerical turn has its reply already, so there is nothing to wait for: it is stored as committed.
    numerical = turn.triage is Triage.NUMERICAL
    return TurnRecord(
        turn_id=turn.turn_id,
        session_id=turn.session_id,
        branch_id=turn.branch_id,
        depth=turn.depth,
        parent_id=window.head.turn_id,
        kind=TurnKind.NUMERICAL if numerical else TurnKind.NARRATIVE,
        status=TurnStatus.COMMITTED if numerical else TurnStatus.PREPARED,
        messages=tuple(messages),
        fingerprint=fingerprint,
        plan=plan_to_json(turn.plan),
        receipt=codec.JsonTree(codec.encode(turn.report if with_report else _report_to_store(turn.report))),
        prompt=turn.recorded,
        anchors=anchors,
        created_at=message.at,
    )


def encode_prompt(turn: PreparedTurn) -> codec.JsonTree:
    """Return the prompt of a turn in the form in which the record stores it. This takes long, so do not call the
    function on the event loop.
    """
    (messages, places), forms = split_messages(turn.messages, turn.report.spans), turn.forms
    prompt = StoredPrompt(
        messages=messages,
        memories=forms.memories,
        reply=turn.reply,
        reply_form=turn.reply_form,
        history_start=turn.history_start,
        other_tokens=turn.other_tokens,
        newest_evidence=turn.newest_evidence,
        tape=snapshot_to_json(forms.snapshot, messages, places),
        text=forms.assembled_text,
    )
    return codec.JsonTree(codec.encode(prompt))


def turn_from_record(record: TurnRecord, version: int) -> PreparedTurn:
    """Return the prepared turn that was stored as `record`.

    `version` is the version of the session. Raises ValueError if the turn was imported, because an imported turn has no
    prompt. Raises DamagedRecordError if the record cannot be read.
    """
    if record.prompt is None or record.receipt is None or record.plan is None:
        raise ValueError(f"turn {record.turn_id} was imported: it has no prompt of its own")
    with report_damage(record, "prompt"):
        stored = codec.from_plain(dict(record.prompt), StoredPrompt)
        messages = join_messages(stored.messages)
        snapshot = snapshot_from_json(stored.tape, stored.messages)
    plan, report = plan_of(record), report_of(record)
    return PreparedTurn(
        turn_id=record.turn_id,
        session_id=record.session_id,
        branch_id=record.branch_id,
        depth=record.depth,
        version=version,
        plan=plan,
        messages=messages,
        report=report,
        forms=PromptForms(
            snapshot=snapshot, report=report, plan=plan, memories=stored.memories, assembled_text=stored.text
        ),
        reply=stored.reply,
        reply_form=stored.reply_form,
        history_start=stored.history_start,
        other_tokens=stored.other_tokens,
        newest_evidence=stored.newest_evidence,
    )


def with_attachments(turn: PreparedTurn, window: SessionWindow, said: Message | None) -> PreparedTurn:
    """Return a turn from its record with the non-text content of its messages.

    The content is taken from the messages in `window` and from `said`, the user message of the turn (None: there is
    none).
    """
    messages = (each.message for each in window.messages)
    return replace(turn, attachments=find_attachments(turn.report.spans, messages, said))


def turn_to_json(turn: PreparedTurn) -> dict[str, Any]:
    """Return the turn as JSON values, in the form that `jacquard play weave --json` prints."""
    return {
        "turn_id": turn.turn_id,
        "session_id": turn.session_id,
        "branch_id": turn.branch_id,
        "triage": turn.triage.value,
        "reply": turn.reply,
        "messages": codec.to_plain(turn.messages),
        "text": turn.text,
        "plan": plan_to_json(turn.plan),
        "package": package_to_json(turn.package),
        "report": codec.to_plain(turn.report),
    }

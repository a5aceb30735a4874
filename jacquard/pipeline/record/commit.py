"""Builds the commit of a turn: parses the model's reply, applies the ops in the reply to the state, and derives events.
The functions are pure.

An op is one change of the state that the reply asks for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from filament import OpLimits, parse_reply
from filament.reply.values import Correction, ParsedReply
from filament.state.changes.judge import JudgedOps
from filament.state.verdicts import OpVerdict
from jacquard.config.sections import RuntimeConfig
from jacquard.pipeline.record.stored_turn import report_damage
from jacquard.pipeline.refusals import CARRIED_OUT, SET_ASIDE, UNTAGGED
from jacquard.pipeline.schedule import event_words
from jacquard.pipeline.weaving.pieces import join_messages
from jacquard.templating.profiles import ReplyForm
from mnemosyne.chains.audience import audience_field, audience_of_messages
from mnemosyne.chains.event import quest_events
from mnemosyne.chains.state import judge_reply_ops
from mnemosyne.core import codec
from mnemosyne.core.errors import StateOpError
from mnemosyne.schema.memory import EMPTY, MemoryEntry
from mnemosyne.schema.record import TurnCommit, TurnRecord
from mnemosyne.schema.session import Author, AuthorKind, Message, Ref, Role
from mnemosyne.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitResult:
    """Result of a commit."""

    turn_id: str
    content: str
    """Text of the reply that the player sees."""
    thought: str
    ops: tuple[Mapping[str, Any], ...]
    """Applied ops as JSON Patch."""
    refused: str | None
    """Sentence about the first refused op (None: no op was refused). If an op is refused, no op of the reply is applied."""
    corrections: tuple[str, ...]
    """Sentences about corrections that were made in the reply."""
    version: int
    """Version of the session after the commit."""
    verdicts: tuple[OpVerdict, ...] = ()
    """Verdict on every op, applied or refused, with reasons and remarks."""
    set_aside: tuple[Correction, ...] = ()
    """Updates (lists of ops) that were ignored, because they are in a wrong place of the reply or were written by the
    user.

    Each has a code, a sentence with a remedy, and its characters `start`..`end` in the reply.
    """

    @property
    def success(self) -> bool:
        """True: a commit that fails raises an error."""
        return True


def build_commit(
    record: TurnRecord,
    state: Mapping[str, Any],
    reply: Message,
    *,
    agent: str,
    at: datetime,
    refs: tuple[Ref, ...],
    config: RuntimeConfig,
) -> tuple[TurnCommit, CommitResult]:
    """Return (commit, result): the data to write, and the result for the caller.

    Paths in the ops of `reply` refer to the prompt of this turn. If an op is refused, for example because it exceeds a
    limit, all ops of the reply are refused. `record` is the record of the turn, and `state` is the state before the
    reply. `agent` is the author of the reply if the reply names none. `refs` are the pieces of evidence that the reply
    cites. `at` is the time of the commit.
    """
    limits, parsed = config.limits, _parse(record, reply, config)
    bounds = OpLimits(reply_ops=limits.reply_ops, op_value_chars=limits.op_value_chars, state_chars=limits.state_chars)
    judged = judge_reply_ops(state, parsed.ops, record.anchors, parsed.lost, limits=bounds)
    patch = judged.patch
    after: Mapping[str, Any] | None = judged.tree if patch else None
    bad = judged.refused
    refused = None if bad is None else str(StateOpError(bad.number, bad.op, bad.reason, bad.code))
    entries = () if after is None else quest_events(state, after, record, at)
    message = Message(
        role=Role.ASSISTANT,
        content=parsed.content,
        message_id=f"{record.turn_id}.a",
        author=reply.author or Author(kind=AuthorKind.AGENT, id=agent),
        at=reply.at or at,
        refs=refs or reply.refs,
        extra=audience_field(audience_of_messages(record.messages)) or EMPTY,
    )
    commit = TurnCommit(
        turn_id=record.turn_id,
        messages=(message,),
        ops=patch,
        state=after,
        entries=entries,
        report=_report_to_store(reply, parsed, judged, refused, entries),
    )
    result = CommitResult(
        turn_id=record.turn_id,
        content=parsed.content,
        thought=parsed.thought,
        ops=patch,
        refused=refused,
        corrections=tuple(parsed.corrections),
        # Known once the commit is written.
        version=0,
        verdicts=judged.verdicts,
        set_aside=parsed.set_aside,
    )
    return commit, result


def _parse(record: TurnRecord, reply: Message, config: RuntimeConfig) -> ParsedReply:
    # Turns of older releases name no form: their replies have elements.
    if (record.prompt or {}).get("reply_form") == ReplyForm.TEXT:
        return ParsedReply(content=reply.content)
    # Ops in the user's message are a quotation, not the model's decision (decision 0025).
    said = "\n".join(message.content for message in record.messages if message.role is not Role.ASSISTANT)
    return parse_reply(
        reply.content, user_text=said, prompt_text=_text_of_prompt(record), carries_untagged=config.untagged_updates
    )


def _text_of_prompt(record: TurnRecord) -> str:
    """Return the complete input of the model; '' if the record does not contain it."""
    with report_damage(record, "prompt"):
        return "\n".join(message.content for message in join_messages((record.prompt or {}).get("messages", ())))


def _report_to_store(
    reply: Message, parsed: ParsedReply, judged: JudgedOps, refused: str | None, entries: Sequence[MemoryEntry]
) -> dict[str, Any]:
    return {
        # The parsed content by itself could not show repairs and ignored updates.
        "raw": reply.content,
        "thought": parsed.thought,
        "corrections": list(parsed.corrections),
        "refused": refused,
        "events": event_words(entries),
        "verdicts": codec.to_plain(judged.verdicts),
        "set_aside": codec.to_plain(parsed.set_aside),
        **_report_untagged(parsed),
    }


def _report_untagged(parsed: ParsedReply) -> dict[str, str]:
    """Return whether changes without their tag were carried out; empty if the reply has none."""
    found = {entry.start for entry in parsed.log if entry.code == "untagged"}
    if not found:
        return {}
    return {UNTAGGED: CARRIED_OUT if found - {entry.start for entry in parsed.set_aside} else SET_ASIDE}


def read_commit_result(record: TurnRecord, version: int) -> CommitResult:
    """Return the result of a turn's commit, as the record of the turn states it. `version` is the version of the
    session.

    Raises DamagedRecordError if the report in the record cannot be read.
    """
    report = record.report or {}
    with report_damage(record, "report"):
        verdicts = tuple(codec.from_plain(verdict, OpVerdict) for verdict in report.get("verdicts", ()))
        set_aside = tuple(codec.from_plain(entry, Correction) for entry in report.get("set_aside", ()))
    replies = [message.content for message in record.messages if message.role is Role.ASSISTANT]
    return CommitResult(
        turn_id=record.turn_id,
        content=replies[-1] if replies else "",
        thought=str(report.get("thought", "")),
        ops=tuple(record.ops),
        refused=report.get("refused"),
        corrections=tuple(report.get("corrections", ())),
        version=version,
        verdicts=verdicts,
        set_aside=set_aside,
    )

"""Makes a readable view of a prepared turn: its prompt block by block, and everything that was left out. Pure.

Pages and scores are made from this view, so both see the same blocks under the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from filament.boundaries import unescape_content
from jacquard.core.block_kinds import EVIDENCE_SOURCE, SAID, Subject, subject_of
from jacquard.core.blocks import FRAME, BlockKind
from jacquard.core.receipt import Action, BlockDecision, BlockSpan, Report
from jacquard.pipeline.record.prepared_turn import PreparedTurn
from jacquard.pipeline.record.sent_prompt import as_sent
from mnemosyne.schema.memory import Chain
from mnemosyne.values import dataclass

FRAME_GROUP = "frame"
EVIDENCE_GROUP = "evidence"
INSTRUCTIONS_GROUP = "instructions"
GROUPS = (
    INSTRUCTIONS_GROUP,
    Subject.WORLD.value,
    Subject.DIRECTIVE.value,
    Subject.STATE.value,
    Subject.GUIDANCE.value,
    Subject.MEMORIES.value,
    EVIDENCE_GROUP,
    Subject.TALK.value,
    Subject.INPUT.value,
    FRAME_GROUP,
)
"""Topics of the pieces of a prompt, in the order of a legend."""
TOLD_GROUPS = frozenset({Subject.TALK.value, Subject.MEMORIES.value, Subject.INPUT.value, EVIDENCE_GROUP})
"""Topics that repeat words of a speaker or a tool. All other topics state the present situation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownBlock:
    """One piece of the prompt. `text` has the characters `start` to `end` of the sent message number `message`."""

    block_id: str
    kind: BlockKind
    group: str
    """Topic of the piece, one of GROUPS."""
    text: str
    tokens: int
    message: int
    start: int
    end: int
    title: str = ""
    source: str = ""
    trust: str = ""
    action: str = ""
    code: str = ""
    """Code of the decision on the block. `code` and `reason` are '' for the frame between blocks."""
    reason: str = ""
    as_written: bool = False

    @property
    def plain(self) -> str:
        """The text before it was escaped."""
        return self.text if self.as_written else unescape_content(self.text)


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """Something that was considered but is not in the prompt: a dropped block, or a candidate of recall or world info."""

    name: str
    what: str
    """`block`, or the chain (kind of memory) of the candidate."""
    code: str
    reason: str
    title: str = ""
    tokens: int | None = None
    """Tokens of a block; None for other things."""
    rank: int | None = None
    """Rank of a candidate in recall (1 = best); None for other things."""
    preview: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownMessage:
    """One message of the prompt, with its pieces in reading order."""

    role: str
    blocks: tuple[ShownBlock, ...]

    @property
    def tokens(self) -> int:
        """Tokens of the message, counted by our estimator."""
        return sum(block.tokens for block in self.blocks)

    @property
    def chars(self) -> int:
        """Number of characters of the message."""
        return self.blocks[-1].end if self.blocks else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnView:
    """Readable view of a prepared turn."""

    turn_id: str
    session_id: str
    messages: tuple[ShownMessage, ...]
    left_out: tuple[LeftOut, ...]
    tokens: Mapping[str, int]
    """Tokens of each topic in the prompt, in the order of GROUPS."""
    report: Report
    reply: str | None = None

    @property
    def blocks(self) -> tuple[ShownBlock, ...]:
        """All pieces of the prompt in reading order, including the frame (tags and blank lines) between blocks."""
        return tuple(block for message in self.messages for block in message.blocks)


def view_turn(turn: PreparedTurn) -> TurnView:
    """Return the view of a turn as it was sent. If the receipt has no decisions, each message is one piece."""
    turn = as_sent(turn)
    decisions = {decision.block_id: decision for decision in turn.report.decisions}
    messages = []
    for number, message in enumerate(turn.messages):
        spans = sorted((span for span in turn.report.spans if span.message == number), key=lambda span: span.start)
        whole = BlockSpan(block_id=FRAME, message=number, start=0, end=len(message.content), tokens=0)
        blocks = tuple(
            _show_block(span, decisions.get(span.block_id), message.content, as_written=turn.report.as_written)
            for span in spans or [whole]
        )
        messages.append(ShownMessage(role=message.role, blocks=blocks))
    spent: dict[str, int] = {}
    for each in messages:
        for block in each.blocks:
            spent[block.group] = spent.get(block.group, 0) + block.tokens
    return TurnView(
        turn_id=turn.turn_id,
        session_id=turn.session_id,
        messages=tuple(messages),
        left_out=_find_left_out(turn.report),
        tokens={group: spent[group] for group in GROUPS if group in spent},
        report=turn.report,
        reply=turn.reply,
    )


def _show_block(
    span: BlockSpan, decision: BlockDecision | None, content: str, *, as_written: bool = False
) -> ShownBlock:
    shown = ShownBlock(
        block_id=span.block_id,
        kind=span.kind,
        group=FRAME_GROUP,
        text=content[span.start : span.end],
        tokens=span.tokens,
        message=span.message,
        start=span.start,
        end=span.end,
        as_written=as_written and span.kind in SAID,
    )
    if decision is None:
        return shown
    return replace(
        shown,
        group=_group_of(decision.source),
        title=decision.title,
        source=decision.source,
        trust=decision.trust.value,
        action=decision.action.value,
        code=decision.code,
        reason=decision.reason,
    )


def _group_of(source: str) -> str:
    if source.startswith(EVIDENCE_SOURCE):
        return EVIDENCE_GROUP
    return subject_of(source).value or INSTRUCTIONS_GROUP


def _find_left_out(report: Report) -> tuple[LeftOut, ...]:
    """Return the omissions: blocks in the order of their decisions, then activated world info, then candidates, best first."""
    dropped = [
        LeftOut(
            name=each.block_id,
            what="block",
            code=each.code,
            reason=each.reason,
            title=each.title,
            tokens=each.tokens,
        )
        for each in report.decisions
        if each.action is Action.DROPPED
    ]
    rejected = [
        LeftOut(
            name=each.entry_id,
            what=each.chain,
            code=each.code,
            reason=each.reason,
            title=each.title,
            rank=each.rank,
            preview=each.preview,
        )
        for each in sorted(report.stream_b.candidates, key=lambda each: each.rank)
        if not each.chosen
    ]
    not_shown = [
        LeftOut(name=each.entry_id, what=Chain.LORE.value, code=each.code, reason=each.reason, title=each.title)
        for each in report.activation
        if not each.chosen
    ]
    return (*dropped, *not_shown, *rejected)

"""Finds where a place in a prompt comes from: its block, the decision on it, its evidence and their source. Pure.

A place is the offset of a character. Offsets count from the first character of the first sent message, as if the
messages followed each other directly. The sent messages include those of a chat client, if the proxy sent them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from filament import escape_text, show_as_written
from jacquard.core.block_kinds import EVIDENCE_SOURCE, HISTORY_SOURCE, HOST_SOURCE, TEMPLATE_SOURCE, USER_SOURCE
from jacquard.core.blocks import FRAME, Block
from jacquard.core.errors import ConfigError
from jacquard.core.receipt import BlockDecision, BlockSpan, CandidateDecision
from jacquard.pipeline.record.prepared_turn import PreparedTurn
from jacquard.pipeline.record.prompt_snapshot import PromptSnapshot
from jacquard.pipeline.record.sent_prompt import as_sent
from mnemosyne.chains.uris import EntryAddress, entry_uri, evidence_uri, format_uri, turn_uri
from mnemosyne.schema.evidence import Evidence
from mnemosyne.schema.memory import Chain, session_scope
from mnemosyne.schema.session import Ref
from mnemosyne.values import dataclass

_SHOWN = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Origin of one place (or one stretch of text) in a prompt."""

    message: int
    """Number of the sent message, from 0."""
    role: str
    start: int
    """First character of the requested text in this message; `end` is the position after its last character."""
    end: int
    text: str
    """Requested text, as far as it is in this block."""
    span: BlockSpan
    """Position of the whole block in this message."""
    decision: BlockDecision | None = None
    """Decision on the block (None: the place is in the frame, that is, in tags and blank lines)."""
    candidate: CandidateDecision | None = None
    """Line about this block in the receipt of recall (None: the block is not a memory)."""
    evidences: tuple[Evidence, ...] = ()
    """Evidence (stored texts with their source) that the block shows."""
    refs: tuple[Ref, ...] = ()
    """Pointer to each piece of evidence."""
    uri: str = ""
    """Address of the source: a memory entry, a message, evidence, or the turn itself ('': the text is from a template)."""
    template: str = ""
    """File of the template that made the block ('': no template made it)."""
    digest: str = ""
    """Hash of the template file when the prompt was made ('': unknown)."""
    line: str = ""
    """Whole line of the message in which the text begins."""


def find_origin(turn: PreparedTurn, offset: int, snapshot: PromptSnapshot | None = None) -> Origin:
    """Return the origin of the character at `offset`. Raises ConfigError if the prompt has no such character.
    `snapshot` is the snapshot of the prompt, for the origin of template texts (None: unknown).
    """
    turn, left = as_sent(turn), offset
    for number, message in enumerate(turn.messages):
        if 0 <= left < len(message.content):
            return next(_origins(turn, number, left, left + 1, snapshot))
        left -= len(message.content)
    total = sum(len(message.content) for message in turn.messages)
    raise ConfigError(f"The prompt of turn {turn.turn_id} has {total} characters; give a place from 0 to {total - 1}.")


def find_origins(
    turn: PreparedTurn, text: str, snapshot: PromptSnapshot | None = None, limit: int = _SHOWN
) -> tuple[Origin, ...]:
    """Return the origins of every occurrence of `text` in the prompt, in reading order, at most `limit`.

    An occurrence that touches several blocks has one origin for each of them. The text is searched in its original and
    its escaped form. `snapshot` is the snapshot of the prompt, for the origin of template texts (None: unknown).
    """
    turn = as_sent(turn)
    forms = [form for form in dict.fromkeys((text, escape_text(text), show_as_written(text))) if form]
    found: list[Origin] = []
    for number, message in enumerate(turn.messages):
        places = sorted({(at, at + len(form)) for form in forms for at in _places(message.content, form)})
        for start, end in places:
            found += _origins(turn, number, start, end, snapshot)
            if len(found) >= limit:
                return tuple(found[:limit])
    return tuple(found)


def count_tokens_by_block(turn: PreparedTurn) -> dict[str, int]:
    """Return the tokens of each block in the prompt, in reading order. The numbers add up to the tokens of the prompt."""
    spent: dict[str, int] = {}
    for span in as_sent(turn).report.spans:
        spent[span.block_id] = spent.get(span.block_id, 0) + span.tokens
    return spent


def _places(content: str, text: str) -> Iterator[int]:
    at = content.find(text)
    while at >= 0:
        yield at
        at = content.find(text, at + 1)


def _origins(
    turn: PreparedTurn, number: int, start: int, end: int, snapshot: PromptSnapshot | None
) -> Iterator[Origin]:
    """Yield an origin for each block that characters `start`..`end` of a message touch."""
    for span in turn.report.spans:
        if span.message == number and span.start < end and start < span.end:
            low, high = max(start, span.start), min(end, span.end)
            yield _origin(turn, span, low, high, snapshot)


def _origin(turn: PreparedTurn, span: BlockSpan, start: int, end: int, snapshot: PromptSnapshot | None) -> Origin:
    role, content = turn.messages[span.message].role, turn.messages[span.message].content
    text, line = content[start:end], _find_line(content, start)
    if span.block_id == FRAME:
        return Origin(message=span.message, role=role, start=start, end=end, text=text, span=span, line=line)
    decision = next((d for d in turn.report.decisions if d.block_id == span.block_id), None)
    block = next((b for b in turn.context_blocks if b.block_id == span.block_id), None)
    refs = block.refs if block is not None else ()
    named = {ref.evidence_id for ref in refs}
    evidences = tuple(evidence for evidence in turn.evidences if evidence.evidence_id in named)
    sources = {evidence.source.uri for evidence in evidences}
    candidate = next((c for c in turn.report.stream_b.candidates if c.uri in sources or _is_named(c, named)), None)
    source = decision.source if decision is not None else ""
    file = source.removeprefix(TEMPLATE_SOURCE) if source.startswith(TEMPLATE_SOURCE) else ""
    return Origin(
        message=span.message,
        role=role,
        start=start,
        end=end,
        text=text,
        span=span,
        decision=decision,
        candidate=candidate,
        evidences=evidences,
        refs=refs,
        uri=evidences[0].source.uri if evidences else _uri(turn, span.block_id, source, snapshot, refs),
        template=file,
        digest=snapshot.source.digests.get(file, "") if snapshot is not None else "",
        line=line,
    )


def _find_line(content: str, at: int) -> str:
    end = content.find("\n", at)
    return content[content.rfind("\n", 0, at) + 1 : end if end >= 0 else len(content)]


def _is_named(candidate: CandidateDecision, evidence_ids: set[str]) -> bool:
    """Return whether a candidate is one of these evidence items, in a receipt that was recorded without addresses."""
    return not candidate.uri and candidate.entry_id in evidence_ids


def _block_of(snapshot: PromptSnapshot | None, block_id: str) -> Block | None:
    blocks = (*snapshot.blocks, *snapshot.history) if snapshot is not None else ()
    return next((block for block in blocks if block.block_id == block_id), None)


def _uri(turn: PreparedTurn, block_id: str, source: str, snapshot: PromptSnapshot | None, refs: Sequence[Ref]) -> str:
    block = _block_of(snapshot, block_id)
    if block is not None and (block.origin.uri or source.startswith(TEMPLATE_SOURCE)):
        return block.origin.uri
    if refs and source.startswith(EVIDENCE_SOURCE):
        return evidence_uri(turn.session_id, refs[0].evidence_id)
    directives = snapshot.source.directives if snapshot is not None else ()
    if (called := next((entry for entry in directives if entry.entry_id == block_id), None)) is not None:
        return entry_uri(called)
    if source == HISTORY_SOURCE:
        scope = session_scope(turn.session_id)
        return format_uri(EntryAddress(scope=scope, chain=Chain.HISTORY, entry_id=block_id))
    # The input, and instructions of the host's configuration, are stored with the turn.
    return turn_uri(turn.session_id, turn.turn_id) if source in (USER_SOURCE, HOST_SOURCE) else ""

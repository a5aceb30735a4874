"""Evidence of a session in its turns: loads tool results for the prompt by ref, and ingests new results.

Evidence enters a prompt only here (seed 002 sections 6.4, 6.6 and 7.2): it is read newest first, conflicts are settled, each
ref is resolved by its selector and checked against its hash, and the text is escaped and labelled with its trust. Only the
ingestor writes.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from itertools import count as count_from
from typing import Any

from anyio import to_thread

from filament import escape_text, open_tag, unescape
from jacquard.config.sections import EvidenceConfig
from jacquard.core.block_kinds import EVIDENCE_LAYER, EVIDENCE_SOURCE, slot_of
from jacquard.core.blocks import BlockKind, Placement, Position, PromptBlock, sensitivity_of
from jacquard.core.degradations import DegradationCode
from jacquard.core.truncation import truncate_with_size
from jacquard.pipeline.record.prepared_turn import turn_from_record
from mnemosyne.chains.uris import entry_uri, evidence_uri
from mnemosyne.core.off_loop import calculate, size_of
from mnemosyne.evidence.conflicts import settle_conflicts
from mnemosyne.evidence.derive import derive_evidence_blocks
from mnemosyne.evidence.ingestor import SHOWN_REFS
from mnemosyne.evidence.resolve import RefResolver, ResolvedBlock
from mnemosyne.evidence.rules import OWN_SCHEME, is_expired
from mnemosyne.protocols import Clock, EvidenceIngestor, Store
from mnemosyne.schema.document import ToolCall, ToolType
from mnemosyne.schema.evidence import (
    ContextBlock,
    Evidence,
    EvidenceLinks,
    EvidenceSource,
    EvidenceType,
    SourceKind,
)
from mnemosyne.schema.ingest import ConflictPolicy, ConflictRecord, Ingested, IngestOptions, Shown
from mnemosyne.schema.memory import MemoryEntry
from mnemosyne.schema.query import EvidenceFilter
from mnemosyne.schema.record import TurnRecord

_log = logging.getLogger(__name__)
_TAG = re.compile(r"<[^<>]*>")
_PLACEMENT = Placement(position=Position.BEFORE_HISTORY, priority=20)
_TYPES = frozenset({EvidenceType.TOOL_RESULT, EvidenceType.SKILL_OUTPUT, EvidenceType.RAG_DOC})
_LOOKED_THROUGH = 96
"""So many of the newest evidences are read, whatever they are, so that a turn costs the same in a long session."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceBlocks:
    """A session's evidence as blocks, oldest first, with what was settled, what had to be done without (`code: detail`),
    and what went wrong.
    """

    blocks: tuple[PromptBlock, ...] = ()
    conflicts: tuple[ConflictRecord, ...] = ()
    degradations: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


async def load_evidence_blocks(
    store: Store, clock: Clock, session_id: str, config: EvidenceConfig, count: Callable[[str], int]
) -> EvidenceBlocks:
    """Return the newest results of a session's tools and searches as blocks.

    They are sought among the session's newest 96 evidences. Memories that a turn recalled are evidence too, but come by
    recall and not from here. `count` gives the tokens of a text.
    """
    if not config.enabled or config.limit <= 0:
        return EvidenceBlocks()
    where = EvidenceFilter(limit=max(_LOOKED_THROUGH, config.limit), newest=True)
    now = clock.now()
    newest = await store.list_evidences(session_id, where)
    live = [each for each in newest if _is_result(each) and not is_expired(each, now)]
    size = sum(len(each.content) for each in live)
    settled = await calculate(settle_conflicts, live, ConflictPolicy(config.conflict_policy), size=size)
    kept = [each for each in live if each.evidence_id not in settled.left_out][-config.limit :]
    resolver = RefResolver(store, clock)
    blocks: list[PromptBlock] = []
    told = [f"{DegradationCode.CONFLICT}: {_sentence(record)}" for record in settled.records]
    by_id = {each.evidence_id: each for each in kept}
    if any(each.metadata.get(SHOWN_REFS) for each in kept):
        # Selectors hold patterns; each may take its whole time.
        derived, errors = await to_thread.run_sync(_derive_blocks, kept, now, count)
    else:
        derived, errors = await calculate(_derive_blocks, kept, now, count, size=size)
    for block in derived:
        evidence = by_id[block.refs[0].evidence_id]
        refs = tuple([await resolver.resolve_in(ref, evidence) for ref in block.refs])
        texts = [each.text for each in refs if each.text]
        told += [each.detail for each in refs if each.detail]
        if texts:
            whole = "\n".join(texts)
            text, chars = truncate_with_size(whole, config.max_tokens, count)
            if chars < len(whole):
                told.append(
                    f"{DegradationCode.TEXT_CUT}: {block.block_id} shows chars:0-{chars} of {len(whole)} characters"
                )
            resolved = ResolvedBlock(block=block, text=text, refs=refs)
            notices = settled.notices.get(evidence.evidence_id, ())
            made = _prompt_block(evidence, resolved, notices, len(kept) - len(blocks), count)
            blocks.append(replace(made, uri=evidence_uri(session_id, evidence.evidence_id)))
    return EvidenceBlocks(blocks=tuple(blocks), conflicts=settled.records, degradations=tuple(told), errors=errors)


async def evidence_ids_of(store: Store, session_id: str, entries: Iterable[MemoryEntry]) -> dict[str, str]:
    """Return, by address, the id under which each recalled entry becomes evidence of the session, where that is not its own.

    An entry whose id is that of something else which the session holds is called by its address, so that nothing is
    written over.
    """
    ids: dict[str, str] = {}
    taken: set[str] = set()
    for entry in entries:
        uri = entry_uri(entry)
        for name in chain((entry.entry_id, uri), (f"{uri}#{number}" for number in count_from(2))):
            held = await store.get_evidence(session_id, name)
            if name not in taken and (held is None or held.source.uri == uri):
                break
        taken.add(name)
        if name != entry.entry_id:
            ids[uri] = name
    return ids


def _derive_blocks(
    kept: Sequence[Evidence], now: datetime, count: Callable[[str], int]
) -> tuple[tuple[ContextBlock, ...], tuple[str, ...]]:
    """Return the blocks of all evidences; one that cannot be derived is left out and reported (seed 002 section 18.2)."""
    try:
        return derive_evidence_blocks(kept, now=now, count=count), ()
    except Exception:
        _log.exception("an evidence could not be derived; the others are derived one by one")
    blocks: list[ContextBlock] = []
    errors: list[str] = []
    for each in kept:
        try:
            blocks += derive_evidence_blocks([each], now=now, count=count)
        except Exception as error:
            errors.append(f"evidence {each.evidence_id} was left out: {type(error).__name__}: {error}")
    return tuple(blocks), tuple(errors)


def find_shown_texts(record: TurnRecord | None) -> tuple[Shown, ...]:
    """Return the texts that a turn's prompt held, so that an echo of them is known for one; none before there is a prompt."""
    if record is None or record.prompt is None:
        return ()
    turn = turn_from_record(record, 0)
    sources = {block.block_id: block.refs[0].evidence_id for block in turn.context_blocks if block.refs}
    shown = [Shown(source_id=each.evidence_id, text=each.content) for each in turn.evidences]
    for span in turn.report.spans:
        said = turn.messages[span.message].content[span.start : span.end]
        # What is said is escaped, so every tag that stands here is our own.
        pieces = [unescape(piece) for piece in _TAG.split(said)]
        shown += [Shown(source_id=sources.get(span.block_id, span.block_id), text=piece) for piece in pieces]
    return tuple(each for each in shown if each.text.strip())


@dataclass(frozen=True, kw_only=True, slots=True)
class TakenResult:
    """The evidence that a call's result became (none for an echo), rules that took something out of it, what it said
    again of the prompt, and codes of what had to be done without.
    """

    evidence_ids: tuple[str, ...] = ()
    redacted: tuple[str, ...] = ()
    recalled: tuple[str, ...] = ()
    degradations: tuple[str, ...] = ()


async def take_result(
    store: Store, ingestor: EvidenceIngestor, session_id: str, call: ToolCall, result: str, options: IngestOptions
) -> TakenResult:
    """Take in a call's result against what the waiting turn's prompt showed (else the last one's)."""
    window = await store.window(session_id, message_limit=1)
    record = window.pending or window.previous
    size = size_of(None if record is None else record.prompt)
    shown = await calculate(find_shown_texts, record, size=size)
    done = await ingest_result(ingestor, session_id, call, result, shown=shown, options=options)
    ids = () if done.evidence is None else (done.evidence.evidence_id,)
    rules = done.redaction.rules_applied if done.redaction is not None else ()
    return TakenResult(evidence_ids=ids, redacted=rules, recalled=done.recalled, degradations=done.degradations)


async def ingest_result(
    ingestor: EvidenceIngestor,
    session_id: str,
    call: ToolCall,
    result: str,
    *,
    shown: Iterable[Shown] = (),
    options: IngestOptions | None = None,
) -> Ingested:
    """Take in what a recorded call gave, linked with it and known by its arguments; what the prompt showed is no news."""
    skill = call.type is ToolType.SKILL
    asked = options or IngestOptions()
    metadata: Mapping[str, Any] = {"status": call.status.value, "tool": call.tool}
    return await ingestor.ingest(
        session_id,
        result,
        EvidenceSource(kind=SourceKind.SKILL if skill else SourceKind.TOOL, name=call.tool),
        EvidenceType.SKILL_OUTPUT if skill else EvidenceType.TOOL_RESULT,
        links=EvidenceLinks(tool_call_id=call.tool_call_id),
        metadata=metadata,
        options=replace(
            asked,
            args=asked.args if asked.args is not None else call.args_digest or None,
            shown=(*asked.shown, *shown),
        ),
    )


def _is_result(evidence: Evidence) -> bool:
    return evidence.type in _TYPES and not evidence.source.uri.startswith(OWN_SCHEME)


def _prompt_block(
    evidence: Evidence, resolved: ResolvedBlock, notices: tuple[str, ...], rank: int, count: Callable[[str], int]
) -> PromptBlock:
    attributes = {
        "id": evidence.evidence_id,
        "source": evidence.source.name or evidence.source.kind.value,
        "trust": evidence.trust.value,
    }
    if evidence.created_at is not None:
        attributes["at"] = evidence.created_at.isoformat(timespec="minutes").replace("+00:00", "Z")
    warned = "".join(f"<notice>{escape_text(notice)}</notice>" for notice in notices)
    content = f"{open_tag('result', attributes.items())}{escape_text(resolved.text)}{warned}</result>"
    return PromptBlock(
        block_id=resolved.block.block_id,
        block_type=resolved.block.block_type,
        slot=slot_of(BlockKind.EVIDENCE),
        source=f"{EVIDENCE_SOURCE}{evidence.source.kind.value}",
        content=content,
        priority=resolved.block.priority,
        placement=_PLACEMENT,
        layer=EVIDENCE_LAYER,
        group=f"evidence:{evidence.evidence_id}",
        rank=rank,
        tokens=count(content),
        volatile=True,
        title=evidence.source.name or evidence.type.value,
        refs=resolved.block.refs,
        trust=evidence.trust,
        at=evidence.created_at,
        expires_at=evidence.expires_at,
        sensitivity=sensitivity_of(evidence.metadata),
        kind=BlockKind.EVIDENCE,
    )


def _sentence(record: ConflictRecord) -> str:
    about = f"{record.subject}: " if record.subject else ""
    return f"{about}{record.field_path}: {record.detail}; settled by {record.resolution.value}"

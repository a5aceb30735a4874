"""Results of tools and searches as prompt blocks: what a session's evidence shows in the prompt (seed 002 sections 6.4, 6.6).

`jacquard.pipeline.evidence.candidates` chooses what is shown; here each ref is resolved by its selector and checked against its
hash, and the text is escaped and labelled with its trust. It reads the session and writes nothing; it must not import a concrete
store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from anyio import to_thread

from filament import escape_text, open_tag, show_text
from jacquard.config.sections import EvidenceConfig
from jacquard.core.block_kinds import EVIDENCE_LAYER, EVIDENCE_SOURCE, slot_of
from jacquard.core.blocks import BlockKind, Placement, Position, PromptBlock, sensitivity_of
from jacquard.core.degradations import DegradationCode
from jacquard.core.receipt import CandidateDecision, LeftOut
from jacquard.pipeline.evidence.candidates import NO_QUERY, EvidenceQuery, choose_evidence
from jacquard.pipeline.evidence.context_blocks import DocumentBlocks
from jacquard.pipeline.truncation import truncate_with_size
from mnemosyne.chains.uris import evidence_uri
from mnemosyne.core.masking.call_logs import open_log
from mnemosyne.core.off_loop import calculate
from mnemosyne.evidence.derive import derive_evidence_blocks
from mnemosyne.evidence.ingestor import SHOWN_REFS
from mnemosyne.evidence.redactions import redaction_of
from mnemosyne.evidence.resolve import RefResolver, ResolvedBlock
from mnemosyne.protocols import Clock, Store
from mnemosyne.schema.evidence import ContextBlock, Evidence
from mnemosyne.schema.ingest import ConflictRecord
from mnemosyne.schema.redaction import RedactionRecord

_log = open_log(__name__)
_PLACEMENT = Placement(position=Position.BEFORE_HISTORY, priority=20)


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceBlocks:
    """A session's evidence as blocks, the best last, with what was settled, what had to be done without (`code: detail`),
    what went wrong, and the receipt's lines on all candidates. The context blocks of the session's document are among the
    blocks (`document_ids` are the ids of all of those). `newest` is the mark of the newest candidates.
    """

    blocks: tuple[PromptBlock, ...] = ()
    conflicts: tuple[ConflictRecord, ...] = ()
    degradations: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    decisions: tuple[CandidateDecision, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    document_ids: frozenset[str] = frozenset()
    redactions: tuple[RedactionRecord, ...] = ()
    newest: str = ""

    def with_document(self, document: DocumentBlocks) -> EvidenceBlocks:
        """Return these blocks with those of the session's document."""
        return replace(
            self,
            blocks=(*document.blocks, *self.blocks),
            degradations=(*self.degradations, *document.degradations),
            left_out=(*self.left_out, *document.left_out),
            document_ids=document.ids,
        )


NO_RESULTS = EvidenceBlocks()


async def load_evidence_blocks(
    store: Store,
    clock: Clock,
    session_id: str,
    config: EvidenceConfig,
    count: Callable[[str], int],
    query: EvidenceQuery = NO_QUERY,
    boundary: str = "",
) -> EvidenceBlocks:
    """Return the results of a session's tools and searches that a turn shows as blocks: those that `query` asks for most.

    Memories that a turn recalled are evidence too, but come by recall and not from here. `count` gives the tokens of a text.
    `boundary`: as of `filament.show_text`.
    """
    if not config.enabled:
        return NO_RESULTS
    now = clock.now()
    choice = await choose_evidence(store, session_id, config, query, now)
    kept, settled = choice.chosen, choice.settled
    size = sum(len(each.content) for each in kept)
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
            made = _prompt_block(evidence, resolved, notices, len(kept) - len(blocks), count, boundary)
            blocks.append(replace(made, uri=evidence_uri(session_id, evidence.evidence_id)))
    return EvidenceBlocks(
        blocks=tuple(blocks),
        conflicts=settled.records,
        degradations=tuple(told),
        errors=errors,
        decisions=choice.decisions,
        left_out=choice.left_out,
        redactions=tuple(record for each in kept if (record := redaction_of(each)) is not None),
        newest=choice.newest,
    )


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


def _prompt_block(
    evidence: Evidence,
    resolved: ResolvedBlock,
    notices: tuple[str, ...],
    rank: int,
    count: Callable[[str], int],
    boundary: str,
) -> PromptBlock:
    attributes = {
        "id": evidence.evidence_id,
        "source": evidence.source.name or evidence.source.kind.value,
        "trust": evidence.trust.value,
    }
    if evidence.created_at is not None:
        attributes["at"] = evidence.created_at.isoformat(timespec="minutes").replace("+00:00", "Z")
    warned = "".join(f"<notice>{escape_text(notice)}</notice>" for notice in notices)
    content = f"{open_tag('result', attributes.items())}{show_text(resolved.text, boundary)}{warned}</result>"
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

"""Turns results of tools and searches into prompt blocks.

The module `jacquard.pipeline.evidence.candidates` chooses the results. For each chosen result, this module reads the
text to which a ref points (a ref is a pointer to a part of a result) and compares the text with the hash in the ref.
Then it writes the escaped text into a prompt block. The block also names the trust of the text: its origin, such as
`tool` or `web`. The session is only read. The module must not import a concrete store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from filament import escape_text
from filament.boundaries import show_text
from filament.markup import open_tag
from jacquard.config.sections import EvidenceConfig
from jacquard.core.block_kinds import EVIDENCE_LAYER, EVIDENCE_SOURCE, slot_of
from jacquard.core.blocks import (
    Block,
    BlockKind,
    BlockOrigin,
    BlockPlace,
    Placement,
    Position,
    Sensitivity,
    sensitivity_of,
)
from jacquard.core.degradations import DegradationCode
from jacquard.pipeline.evidence.candidates import (
    NO_QUERY,
    EvidenceChoice,
    EvidenceQuery,
    candidate_filters,
    choose_evidence,
    mark_newest,
)
from jacquard.pipeline.evidence.context_blocks import NO_RESULTS, EvidenceBlocks
from jacquard.pipeline.evidence.rendering import EvidenceParts, default_parts, describe_ingestions
from jacquard.pipeline.truncation import truncate_with_size
from mnemosyne.chains.audience import join_audiences, read_audience
from mnemosyne.chains.uris import evidence_uri
from mnemosyne.evidence.blocks.resolve import ResolvedBlock
from mnemosyne.evidence.redactions import degradations_of, redaction_of
from mnemosyne.evidence.rules import lowest_trust
from mnemosyne.protocols import Clock, Store
from mnemosyne.schema.document import Session, SessionDocument
from mnemosyne.schema.evidence import ContextBlock, Evidence
from mnemosyne.schema.ingest import ConflictRecord

_PLACE = BlockPlace(
    slot=slot_of(BlockKind.EVIDENCE),
    placement=Placement(position=Position.BEFORE_HISTORY, priority=20),
    layer=EVIDENCE_LAYER,
    volatile=True,
)


async def load_evidence_blocks(
    store: Store,
    clock: Clock,
    session_id: str,
    config: EvidenceConfig,
    count: Callable[[str], int],
    query: EvidenceQuery = NO_QUERY,
    parts: EvidenceParts | None = None,
    document: SessionDocument | None = None,
    boundary: str = "",
    listed: Sequence[Sequence[Evidence]] | None = None,
    most: str = Sensitivity.SECRET,
    viewer: str | None = None,
) -> EvidenceBlocks:
    """Return the tool and search results that match `query` best, as prompt blocks with the lines that explain them in
    the receipt.

    Recalled memories are not included, because Stream B adds them to the prompt.

    Args:
        store: store of the session.
        clock: clock of the engine.
        session_id: id of the session.
        config: settings of evidence.
        count: returns the tokens of a text.
        query: words of the turn with their weights, and the time of the last reply.
        parts: parts of the host that derive and render blocks (None: the built-in ones).
        document: the session document that is passed to `parts` (None: an empty one).
        boundary: mark around texts that are shown exactly as written (`filament.show_text`).
        listed: the results to choose from: one list of evidence for each filter of `candidate_filters` (None: these
            lists are read from the store, with the filters for `viewer`).
        viewer: viewer for whom the prompt is made (None: no viewer).
        most: highest sensitivity that the prompt may show.
    """
    with_parts = parts or default_parts(store, clock, count)
    known = document or SessionDocument(session=Session(session_id=session_id))
    if listed is None:
        listed = [
            await store.list_evidences(session_id, where) for where in candidate_filters(viewer) if config.enabled
        ]
    if not config.enabled or not with_parts.options.include_evidences:
        derived, errors = await with_parts.derive(known, ())
        newest = mark_newest(listed) if config.enabled else ""
        return replace(NO_RESULTS, derived=derived, errors=errors, newest=newest)
    choice = await choose_evidence(session_id, listed, config, query, clock.now(), most)
    by_id = {each.evidence_id: each for each in choice.chosen}
    derived, errors = await with_parts.derive(replace(known, evidences=by_id), choice.chosen)
    shown = [block for block in derived if any(ref.evidence_id in by_id for ref in block.refs)]
    resolved = await with_parts.render_all(session_id, shown, by_id)
    blocks, told = _make_blocks(session_id, resolved, choice, config.max_tokens, count, boundary)
    return EvidenceBlocks(
        blocks=tuple(blocks),
        conflicts=choice.settled.records,
        degradations=(
            *map(_sentence, choice.settled.records),
            *told,
            *describe_ingestions((each.evidence_id, degradations_of(each.extra)) for each in choice.chosen),
        ),
        errors=(*errors, *(each.error for each in resolved if each.error)),
        decisions=choice.decisions,
        left_out=choice.left_out,
        redactions=tuple(record for each in choice.chosen if (record := redaction_of(each)) is not None),
        derived=tuple(block for block in derived if block not in shown),
        newest=choice.newest,
        audience=join_audiences(read_audience(each.metadata) for each in choice.chosen),
    )


def _make_blocks(
    session_id: str,
    resolved: Sequence[ResolvedBlock],
    choice: EvidenceChoice,
    limit_tokens: int,
    count: Callable[[str], int],
    boundary: str,
) -> tuple[list[Block], list[str]]:
    """Return a block for each result that has a text, of at most `limit_tokens`, and a code with a sentence for what is cut."""
    by_id = {each.evidence_id: each for each in choice.chosen}
    blocks, told = list[Block](), list[str]()
    for each in resolved:
        told += each.details
        if each.text:
            text, chars = truncate_with_size(each.text, limit_tokens, count)
            if chars < len(each.text):
                size, block_id = len(each.text), each.block.block_id
                told.append(f"{DegradationCode.TEXT_CUT}: {block_id} shows chars:0-{chars} of {size} characters")
            sources = [by_id[ref.evidence_id] for ref in each.block.refs if ref.evidence_id in by_id]
            notices = [notice for one in sources for notice in choice.settled.notices.get(one.evidence_id, ())]
            content = _result_element(sources, text, notices, boundary)
            rank = len(choice.chosen) - len(blocks)
            blocks.append(_block(session_id, sources, each.block, content, rank, count))
    return blocks, told


def _result_element(sources: Sequence[Evidence], text: str, notices: Sequence[str], boundary: str) -> str:
    evidence = sources[0]
    attributes = {
        "id": evidence.evidence_id,
        "source": evidence.source.name or evidence.source.kind.value,
        "trust": lowest_trust(each.trust for each in sources).value,
    }
    if evidence.created_at is not None:
        attributes["at"] = evidence.created_at.isoformat(timespec="minutes").replace("+00:00", "Z")
    warned = "".join(f"<notice>{escape_text(notice)}</notice>" for notice in notices)
    return f"{open_tag('result', attributes.items())}{show_text(text, boundary)}{warned}</result>"


def _block(
    session_id: str,
    sources: Sequence[Evidence],
    derived: ContextBlock,
    content: str,
    rank: int,
    count: Callable[[str], int],
) -> Block:
    evidence = sources[0]
    return Block(
        block_id=derived.block_id,
        kind=BlockKind.EVIDENCE,
        block_type=derived.block_type,
        content=content,
        place=_PLACE,
        origin=BlockOrigin(
            source=f"{EVIDENCE_SOURCE}{evidence.source.kind.value}",
            title=evidence.source.name or evidence.type.value,
            refs=derived.refs,
            trust=lowest_trust(each.trust for each in sources),
            at=evidence.created_at,
            expires_at=evidence.expires_at,
            sensitivity=max((sensitivity_of(each.metadata) for each in sources), key=list(Sensitivity).index),
            uri=evidence_uri(session_id, evidence.evidence_id),
        ),
        priority=derived.priority,
        rank=rank,
        group=f"evidence:{evidence.evidence_id}",
        tokens=count(content),
    )


def _sentence(record: ConflictRecord) -> str:
    about = f"{record.subject}: " if record.subject else ""
    return (
        f"{DegradationCode.CONFLICT}: {about}{record.field_path}: {record.detail}; settled by {record.resolution.value}"
    )

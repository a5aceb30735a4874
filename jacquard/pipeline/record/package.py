"""Builds the ContextPackage 0.1 of a prepared turn, and turns a package into messages. Pure.

A context package has the material of one prompt (blocks, messages, evidence) in a form for hosts that assemble prompts themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from filament import escape_text
from filament.boundaries import split_content
from filament.markup import close_tag, open_tag
from jacquard.config.sections import PackageConfig
from jacquard.core.block_kinds import EVIDENCE_LAYER, KINDS, SUMMARY_SLOT, USER_LAYER, PackagePart, slot_traits
from jacquard.core.blocks import Block, BlockKind, PlacedBlock
from jacquard.core.plan import PlanContext
from jacquard.core.receipt import Action, CandidateDecision, Report
from jacquard.pipeline.evidence.context_blocks import (
    MADE_BY_ENGINE,
    SHOWN_MESSAGES,
    is_of_document,
)
from mnemosyne.chains.audience import audience_field, audience_of_entry
from mnemosyne.chains.uris import EntryAddress, EvidenceAddress, TurnAddress, entry_uri, evidence_uri, parse_uri
from mnemosyne.core.errors import UriError
from mnemosyne.host_parts import HashText, digest_of, hash_with_sha256
from mnemosyne.schema.evidence import (
    BlockType,
    ContextBlock,
    Evidence,
    EvidenceLinks,
    EvidenceSource,
    EvidenceType,
    Priority,
    SourceKind,
)
from mnemosyne.schema.memory import DOCUMENT, DOCUMENT_ID, EMPTY, SECTION_ID, Chain, MemoryEntry
from mnemosyne.schema.package import ContextPackage, EvidenceItem, PackageBlock, PackageMessage
from mnemosyne.schema.query import SIGNAL_NAMES, Signals
from mnemosyne.schema.session import Role
from mnemosyne.values import dataclass

_SCORE_NAMES = {name: "rrf_score" if name == "fused" else f"{name}_score" for name in SIGNAL_NAMES}
"""Names of a candidate's score parts in a package."""

_GROUPS = {"relational": "relational_bundle"}


def evidence_of(
    entry: MemoryEntry, evidence_ids: Mapping[str, str] = EMPTY, hash_text: HashText = hash_with_sha256
) -> Evidence:
    """Return a recalled entry as evidence.

    `evidence_ids` maps the address of the entry to the id of the evidence; without it, the evidence has the id of the
    entry.
    """
    uri = entry_uri(entry)
    audience = audience_of_entry(entry)
    return Evidence(
        evidence_id=evidence_ids.get(uri, entry.entry_id),
        type=EvidenceType.RAG_DOC,
        source=EvidenceSource(kind=SourceKind.RAG, name=entry.chain.value, uri=uri),
        content=entry.text,
        trust=entry.trust,
        content_hash=digest_of(entry.text, hash_text),
        metadata={
            "title": entry.title,
            "kind": entry.kind,
            "tags": list(entry.tags),
            **{name: entry.metadata[name] for name in (DOCUMENT_ID, SECTION_ID) if name in entry.metadata},
            **audience_field(audience),
        },
        links=EvidenceLinks(turn_id=entry.turn_id),
    )


def is_passage(evidence: Evidence) -> bool:
    """Return whether evidence made by `evidence_of` is a passage of a document. The session already has the whole
    document as evidence.
    """
    return evidence.metadata.get("kind") == DOCUMENT and bool(evidence.metadata.get(DOCUMENT_ID))


def context_blocks_of(blocks: Iterable[PlacedBlock]) -> tuple[ContextBlock, ...]:
    """Return prompt blocks in the form of session document 1.0.

    A returned block with refs has no text of its own, unless the text was shortened. Blocks are marked as made by the
    engine, except for blocks that come from the session's document.
    """
    return tuple(
        ContextBlock(
            block_id=block.block_id,
            block_type=block.block_type,
            priority=block.priority,
            token_estimate=tokens,
            content="" if block.origin.refs and not block.shortened else block.content,
            refs=block.origin.refs,
            extra=EMPTY if is_of_document(block) else MADE_BY_ENGINE,
        )
        for block, tokens in [(each.block, each.tokens) for each in blocks]
    )


def conversation_blocks_of(blocks: Iterable[PlacedBlock], turn_id: str) -> tuple[ContextBlock, ...]:
    """Return the context block that stands for the messages of a prompt and is stored with the turn `turn_id`.

    It has no text, because the session has its messages already. It names the first and the last message and their
    number. The result is empty if the prompt shows no messages.
    """
    said = [each for each in blocks if each.block.kind in (BlockKind.MESSAGE, BlockKind.INPUT)]
    ids = [f"{turn_id}.u" if each.block.kind is BlockKind.INPUT else each.block.block_id for each in said]
    if not ids:
        return ()
    shown = {"first": ids[0], "last": ids[-1], "count": len(ids)}
    return (
        ContextBlock(
            block_id=SHOWN_MESSAGES,
            block_type=BlockType.CONVERSATION,
            priority=Priority.HIGH,
            token_estimate=sum([each.tokens for each in said]),
            extra={**MADE_BY_ENGINE, "messages": shown},
        ),
    )


def is_stored_with_turn(block: Block) -> bool:
    """Return whether a block of a prompt is stored as a context block of its turn, with its text or its refs.

    The session stores its conversation as messages, so blocks of the conversation are not stored one by one
    (`conversation_blocks_of`). Blocks from the session's document are stored already. All other blocks are stored with the turn.
    """
    return block.block_type is not BlockType.CONVERSATION and not is_of_document(block)


@dataclass(frozen=True, kw_only=True, slots=True)
class _ShortenedPackage:
    """Evidence and messages within their limits, and how much was left out."""

    items: tuple[EvidenceItem, ...]
    cuts: tuple[DroppedItem, ...]
    snippets_cut: int
    turns: tuple[PackageMessage, ...]
    turns_kept: int
    turns_cut: int


def build_package(
    *,
    report: Report,
    plan: PlanContext,
    blocks: Sequence[PlacedBlock],
    summary: str,
    history: Sequence[PackageMessage],
    user_message: str,
    memories: Sequence[Evidence],
    created_at: datetime,
    limits: PackageConfig,
) -> ContextPackage:
    """Return the context package of a prepared turn.

    `blocks`, `history` and `memories` must be in the prompt. `memories` are results of `evidence_of`, best first. `history` and
    `user_message` have the original texts, not escaped. `summary` is left out if the prompt does not show it. `limits` are the
    limits of the package.
    """
    candidates = {candidate.uri: candidate for candidate in report.stream_b.candidates}
    results = [_result(b.block, report, created_at) for b in blocks if b.block.place.layer == EVIDENCE_LAYER]
    taken = {each.id for each in results}
    items = [_item(each, candidates.get(each.source.uri or ""), taken, report, created_at) for each in memories]
    items += results
    short = _shorten_package(items, history, limits)
    return ContextPackage(
        context_id=report.turn_id,
        session_id=report.session_id,
        created_at=created_at,
        system_blocks=tuple(
            _block(b, created_at) for b in blocks if not _has_own_part(b.block) and not _is_for_developer(b.block)
        ),
        developer_blocks=tuple(_block(b, created_at) for b in blocks if _is_for_developer(b.block)),
        working_summary=summary if any(b.block.place.slot == SUMMARY_SLOT for b in blocks) else "",
        recent_turns=short.turns,
        evidence=short.items,
        user_message=PackageMessage(role=Role.USER.value, content=user_message),
        constraints=_constraints(report, short, limits),
        debug=_debug(report, plan, short),
    )


def _has_own_part(block: Block) -> bool:
    """Return whether a package has another place for a block than its system and developer blocks."""
    return KINDS[block.kind].has_own_part or block.place.slot == SUMMARY_SLOT


def _is_for_developer(block: Block) -> bool:
    return slot_traits(block.place.slot, block.place.section).part is PackagePart.DEVELOPER_BLOCKS


def to_messages(package: ContextPackage, *, developer_role: bool = True) -> tuple[PackageMessage, ...]:
    """Return the package as messages, in this order: system, developer, summary, recent turns, evidence, user.

    Empty parts are left out. If `developer_role` is false, the developer's text is added to the end of the system message.
    Conversation, summary and evidence are escaped, because they are data and not instructions.
    """
    system = "\n\n".join(block.text for block in package.system_blocks)
    developer = "\n\n".join(block.text for block in package.developer_blocks)
    if not developer_role:
        system, developer = "\n\n".join(text for text in (system, developer) if text), ""
    summary = f"Summary:\n{escape_text(package.working_summary)}" if package.working_summary else ""
    evidence = "\n".join(["Evidence:", *(_evidence_text(item) for item in package.evidence)])
    parts = [
        PackageMessage(role="system", content=system),
        PackageMessage(role="developer", content=developer),
        PackageMessage(role="system", content=summary),
        *(replace(message, content=escape_text(message.content)) for message in package.recent_turns),
        PackageMessage(role="system", content=evidence if package.evidence else ""),
    ]
    user = replace(package.user_message, content=escape_text(package.user_message.content))
    return (*(part for part in parts if part.content), user)


def _evidence_text(item: EvidenceItem) -> str:
    attributes = {"id": item.id, "source_uri": item.source_uri, "title": item.title}
    start = open_tag("evidence", [(name, value) for name, value in attributes.items() if value])
    return f"{start}{escape_text(item.snippet)}{close_tag('evidence')}"


def _block(placed: PlacedBlock, created_at: datetime) -> PackageBlock:
    block, place, origin = placed.block, placed.block.place, placed.block.origin
    source = {"block_id": block.block_id}
    if origin.category is not None or block.kind is BlockKind.WORLD_INFO:
        source["memory_item_id"] = _entry_id(block)
    if place.layer == USER_LAYER and isinstance(address := parse_uri(origin.uri), EvidenceAddress):
        source["memory_item_id"] = address.evidence_id
    return PackageBlock(
        type=slot_traits(place.slot, place.section).package_type,
        text=block.content,
        updated_at=origin.at if place.layer == USER_LAYER else created_at if placed.is_volatile else None,
        source=source,
    )


def _entry_id(block: Block) -> str:
    """Return the id of the entry that a block shows; for a scheduled text, the block's own."""
    address = parse_uri(block.origin.uri) if block.origin.uri else None
    return address.entry_id if isinstance(address, EntryAddress) else block.block_id


def _shorten_package(
    items: Sequence[EvidenceItem], history: Sequence[PackageMessage], limits: PackageConfig
) -> _ShortenedPackage:
    kept, cuts = constrain(items, by_document=limits.by_document, by_source=limits.by_source)
    starts = [place for place, message in enumerate(history) if place == 0 or message.role == Role.USER]
    over = max(0, len(starts) - limits.recent_turns_max)
    first = starts[over] if over < len(starts) else len(history)
    return _ShortenedPackage(
        items=tuple(replace(each, snippet=_clip(each.snippet, limits.snippets_max_chars)) for each in kept),
        cuts=cuts,
        snippets_cut=sum(len(each.snippet) > limits.snippets_max_chars for each in kept),
        turns=tuple(history[first:]),
        turns_kept=len(starts) - over,
        turns_cut=over,
    )


def _constraints(report: Report, short: _ShortenedPackage, limits: PackageConfig) -> dict[str, Any]:
    """Return each limit with its effect."""
    documents, sources = Counter(map(document_of, short.items)), Counter(map(source_of, short.items))
    return {
        "token_budget": {"limit": report.budget.limit_tokens, "used_estimate": report.budget.used_tokens},
        "diversity": {
            "by_document": limits.by_document,
            "by_source": limits.by_source,
            "documents": len(documents),
            "sources": len(sources),
            "most_of_one_document": max(documents.values(), default=0),
            "most_of_one_source": max(sources.values(), default=0),
            "cut": len(short.cuts),
        },
        "truncation": {
            "snippets_max_chars": limits.snippets_max_chars,
            "snippets_cut": short.snippets_cut,
            "recent_turns_max": limits.recent_turns_max,
            "recent_turns": short.turns_kept,
            "recent_turns_cut": short.turns_cut,
        },
    }


def _debug(report: Report, plan: PlanContext, short: _ShortenedPackage) -> dict[str, Any]:
    held = {item.source_uri: item.id for item in short.items}
    stream = report.stream_b
    ignored = [f"{d.block_id}: {d.code}: {d.reason}" for d in report.decisions if d.action is not Action.KEPT]
    ignored += [f"world info {a.entry_id}: {a.code}: {a.reason}" for a in report.activation if not a.chosen]
    ignored += [str(cut) for cut in short.cuts]
    if short.turns_cut:
        ignored.append(f"recent_turns: the {short.turns_cut} oldest turns of the window passed recent_turns_max")
    ignored += [f"{d.code}: {d.detail}" for d in report.degradations]
    return {
        "planner": {
            "intent": plan.triage.value,
            "reason": "; ".join(plan.reasons),
            "queries": list(stream.queries),
        },
        "why_selected": [
            f"evidence {held[c.uri]}: score={c.score:.3f}, rank {c.rank} of recall; {c.code}: {c.reason}"
            for c in stream.candidates
            if c.chosen and c.uri in held
        ]
        + [
            f"evidence {item.id}: a result of the session, newest first"
            for item in short.items
            if item.group == RESULTS
        ]
        + [f"world info {each.entry_id}: {each.code}: {each.reason}" for each in report.activation if each.chosen],
        "ignored": ignored,
    }


def _clip(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"


def _item(
    memory: Evidence,
    candidate: CandidateDecision | None,
    taken: Collection[str],
    report: Report,
    created_at: datetime,
) -> EvidenceItem:
    signals = candidate.signals if candidate else Signals()
    parts = {told: getattr(signals, name) for name, told in _SCORE_NAMES.items()}
    uri, about = memory.source.uri or "", memory.metadata
    address = parse_uri(uri)
    ref = {
        "document_id": about.get(DOCUMENT_ID),
        "section_id": about.get(SECTION_ID),
        "turn_id": memory.links.turn_id,
        "memory_item_id": address.entry_id if isinstance(address, EntryAddress) else memory.evidence_id,
    }
    mode = _mode(signals)
    return EvidenceItem(
        # A tool result may have the same id as an entry; ids are unique in a package, so the entry is named by its address.
        id=uri if memory.evidence_id in taken else memory.evidence_id,
        source="resource" if memory.source.name == Chain.LORE else "memory",
        source_uri=uri,
        title=str(about.get("title", "")),
        snippet=memory.content,
        mode=mode,
        score=candidate.score if candidate else 0.0,
        signals={name: value for name, value in parts.items() if value is not None},
        provenance=_provenance(report, created_at),
        ref={name: value for name, value in ref.items() if isinstance(value, str) and value},
        group=_GROUPS.get(mode, f"{mode}_hits"),
    )


def _result(block: Block, report: Report, created_at: datetime) -> EvidenceItem:
    """Return the result of a tool or a search in its form in the prompt, with its notices."""
    evidence_id = block.origin.refs[0].evidence_id
    return EvidenceItem(
        id=block.block_id,
        source="resource",
        source_uri=evidence_uri(report.session_id, evidence_id),
        title=block.origin.title,
        snippet="".join("\n" if each.is_tag else each.text for each in split_content(block.content)).strip(),
        mode="exact",
        score=0.0,
        provenance=_provenance(report, created_at),
        ref={"document_id": evidence_id},
        group=RESULTS,
    )


def _provenance(report: Report, created_at: datetime) -> dict[str, str]:
    return {"request_id": report.turn_id, "plan_version": "0.1", "retrieved_at": created_at.isoformat()}


def _mode(signals: Signals) -> str:
    if signals.graph and signals.fts is None and signals.vector is None:
        return "relational"
    if signals.fts is not None and signals.vector is not None:
        return "hybrid"
    return "semantic" if signals.vector is not None else "exact"


RESULTS = "results"
"""Group of all results of tools and searches in the session."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DroppedItem:
    """Evidence item that was left out of a package.

    `rule` is `by_document` or `by_source`. `name` is the name of the document or source, and `limit` is the number of
    its items that the rule allows.
    """

    item_id: str
    rule: str
    name: str
    limit: int

    def __str__(self) -> str:
        return f"evidence {self.item_id}: diversity.{self.rule}: {self.name} has its {self.limit} already"


def constrain(
    items: Sequence[EvidenceItem], *, by_document: int = 3, by_source: int = 10
) -> tuple[tuple[EvidenceItem, ...], tuple[DroppedItem, ...]]:
    """Return (kept, dropped): the items that stay, in their order, and the items that are left out.

    `items` must be ordered best first. At most `by_document` items of one document stay, and at most `by_source` of one source.
    """
    documents: Counter[tuple[str, str]] = Counter()
    sources: Counter[str] = Counter()
    kept: list[EvidenceItem] = []
    cuts: list[DroppedItem] = []
    for item in items:
        document, source = document_of(item), source_of(item)
        if documents[document] >= by_document:
            cuts.append(DroppedItem(item_id=item.id, rule="by_document", name=document[1], limit=by_document))
        elif sources[source] >= by_source:
            cuts.append(DroppedItem(item_id=item.id, rule="by_source", name=source, limit=by_source))
        else:
            documents[document] += 1
            sources[source] += 1
            kept.append(item)
    return tuple(kept), tuple(cuts)


def document_of(item: EvidenceItem) -> tuple[str, str]:
    """Return (kind, name) of the document to which an item belongs, for the limit `by_document`.

    An item without a document belongs to the turn of its text. An item without both is grouped by its address; without
    an address, it is a group of its own. A document that is a result of a tool or search in the session has its own
    kind, so that it is not confused with another document of the same name.
    """
    if name := item.ref.get("document_id"):
        return (RESULTS if item.group == RESULTS else "document"), name
    if name := item.ref.get("turn_id"):
        return "turn", name
    return ("uri", item.source_uri) if item.source_uri else ("item", item.id)


def source_of(item: EvidenceItem) -> str:
    """Return the name of the source of an item, for the limit `by_source`.

    The source of a memory is its scope and chain (kind of memory). The source of an item with another address is the
    site of the address. The source of an item without an address is its field `source`.
    """
    try:
        address = parse_uri(item.source_uri)
    except UriError:
        return _site(item.source_uri) or item.source
    match address:
        case EntryAddress(scope=scope, chain=chain):
            return f"{scope}/{chain.value}"
        case TurnAddress(session_id=session_id):
            return f"session:{session_id}/turn"
        case EvidenceAddress(session_id=session_id):
            return f"session:{session_id}/evidence"


def _site(uri: str) -> str:
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc}" if parts.scheme else ""

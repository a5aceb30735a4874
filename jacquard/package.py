"""One prepared turn as a ContextPackage 0.1 (seed 000), with the evidence it rests on. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from urllib.parse import quote

from jacquard.plan import PlanContext
from jacquard.report import Action, Report
from jacquard.skein import PromptBlock
from mnemosyne.query import Candidate, Signals
from mnemosyne.schema.evidence import ContextBlock, Evidence, EvidenceSource, EvidenceType, SourceKind
from mnemosyne.schema.memory import MemoryEntry
from mnemosyne.schema.package import ContextPackage, EvidenceItem, PackageBlock, PackageMessage

_SIGNAL_NAMES = {
    "vector": "vector_score",
    "fts": "fts_score",
    "fused": "rrf_score",
    "recency": "recency_score",
    "graph": "graph_score",
    "rerank": "rerank_score",
}
_BLOCK_TYPES = {"persona": "core_profile", "guidance": "goals", "active_quests": "goals", "directive": "policies"}
SNIPPET_MAX_CHARS = 800


def source_uri(entry: MemoryEntry) -> str:
    """Return the address by which the store finds the entry again: `mnemosyne://<scope>/<chain>/<entry id>`."""
    return f"mnemosyne://{quote(entry.scope, safe=':')}/{entry.chain.value}/{quote(entry.entry_id, safe=':')}"


def evidence_of(entry: MemoryEntry) -> Evidence:
    """Return a recalled entry as evidence; its id is the entry's."""
    return Evidence(
        evidence_id=entry.entry_id,
        type=EvidenceType.RAG_DOC,
        source=EvidenceSource(kind=SourceKind.RAG, name=entry.chain.value, uri=source_uri(entry)),
        content=entry.text,
        trust=entry.trust,
        metadata={"title": entry.title, "kind": entry.kind, "tags": list(entry.tags)},
    )


def context_blocks_of(blocks: Sequence[PromptBlock]) -> tuple[ContextBlock, ...]:
    """Return prompt blocks in the form of session document 1.0; blocks with refs carry no text of their own."""
    return tuple(
        ContextBlock(
            block_id=block.block_id,
            block_type=block.block_type,
            priority=block.priority,
            token_estimate=block.tokens,
            content="" if block.refs else block.content,
            refs=block.refs,
        )
        for block in blocks
    )


def build_package(
    *,
    report: Report,
    plan: PlanContext,
    blocks: Sequence[PromptBlock],
    history: Sequence[PackageMessage],
    user_text: str,
    entries: Sequence[MemoryEntry],
    candidates: Sequence[Candidate],
    created_at: datetime,
) -> ContextPackage:
    """Return the package of a prepared turn; `blocks`, `history` and `entries` are what the prompt really holds."""
    found = {candidate.entry_id: candidate for candidate in candidates}
    why = [f"{c.entry_id}: {c.reason}" for c in report.stream_b.candidates if c.chosen]
    ignored = [f"{d.block_id}: {d.code}: {d.reason}" for d in report.decisions if d.action is not Action.KEPT]
    return ContextPackage(
        context_id=report.turn_id,
        session_id=report.session_id,
        created_at=created_at,
        system_blocks=tuple(
            PackageBlock(type=_BLOCK_TYPES.get(b.slot, "other"), text=b.content, source={"block_id": b.block_id})
            for b in blocks
            if b.slot not in ("history", "flesh", "user_input", "summary")
        ),
        working_summary="\n".join(b.content for b in blocks if b.slot == "summary"),
        recent_turns=tuple(history),
        evidence=tuple(_item(entry, found.get(entry.entry_id), report, created_at) for entry in entries),
        user_message=PackageMessage(role="user", content=user_text),
        constraints={
            "token_budget": {"limit": report.budget.limit_tokens, "used_estimate": report.budget.used_tokens},
            "truncation": {"snippets_max_chars": SNIPPET_MAX_CHARS, "recent_turns_max": len(history)},
        },
        debug={
            "planner": {
                "intent": plan.triage.value,
                "reason": "; ".join(plan.reasons),
                "queries": list(report.stream_b.queries),
            },
            "why_selected": why,
            "ignored": ignored,
        },
    )


def _item(entry: MemoryEntry, candidate: Candidate | None, report: Report, created_at: datetime) -> EvidenceItem:
    signals = candidate.signals if candidate else Signals()
    parts = {_SIGNAL_NAMES[name]: getattr(signals, name) for name in _SIGNAL_NAMES}
    ref = {"memory_item_id": entry.entry_id, "turn_id": entry.turn_id or ""}
    return EvidenceItem(
        id=entry.entry_id,
        source="memory",
        source_uri=source_uri(entry),
        title=entry.title,
        snippet=entry.text[:SNIPPET_MAX_CHARS],
        mode=_mode(signals),
        score=candidate.score if candidate else 0.0,
        signals={name: value for name, value in parts.items() if value is not None},
        provenance={"request_id": report.turn_id, "plan_version": "0.1", "retrieved_at": created_at.isoformat()},
        ref={name: value for name, value in ref.items() if value},
    )


def _mode(signals: Signals) -> str:
    if signals.graph and signals.fts is None and signals.vector is None:
        return "relational"
    if signals.fts is not None and signals.vector is not None:
        return "hybrid"
    return "semantic" if signals.vector is not None else "exact"

"""Proposals of models for memory, stored in the log until a person accepts or rejects them.

An item has its entry, or the requested edit, in its metadata, which recall and prompts do not read. A decision is an edit with
its author, time and undo. It must not import a concrete store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from jacquard.memory.verbs.log import ACTION, AFTER, AUTHOR, BEFORE, EDIT_TAG, IS_EDIT, TARGET, edit_of, is_undone
from jacquard.memory.verbs.values import MemoryAction, MemoryEdit
from mnemosyne.chains.audience import audience_field, audience_of_entry
from mnemosyne.core.codec import from_plain, to_plain
from mnemosyne.protocols import Store
from mnemosyne.schema.evidence import Evidence, EvidenceLinks, EvidenceSource, EvidenceType, SourceKind
from mnemosyne.schema.memory import PROPOSED, MemoryEntry, Trust
from mnemosyne.schema.query import EvidenceFilter

LORE = "lore"
DECISIONS = frozenset({MemoryAction.ACCEPT.value, MemoryAction.REJECT.value})


def propose_entry(entry: MemoryEntry, author: str, at: datetime) -> Evidence:
    """Return the proposal to add an entry; the same entry gives the same proposal."""
    told = {TARGET: entry.entry_id, AFTER: entry.text, **audience_field(audience_of_entry(entry))}
    told[PROPOSED] = {"entry": to_plain(entry)}
    return build_proposal(f"{entry.entry_id}.proposal", entry.title or entry.kind, told, author, at, entry.turn_id)


def propose_lore(
    proposal_id: str, entry: MemoryEntry, former: MemoryEntry | None, author: str, at: datetime
) -> Evidence:
    """Return the proposal to add a lore entry to a world, replacing a former one if given."""
    told: dict[str, Any] = {TARGET: entry.entry_id, BEFORE: "" if former is None else former.text, AFTER: entry.text}
    told[PROPOSED] = {LORE: to_plain(entry), "former": None if former is None else to_plain(former)}
    return build_proposal(proposal_id, entry.title or "lore", told, author, at)


def proposed_lore(proposal: Evidence) -> tuple[MemoryEntry, MemoryEntry | None] | None:
    """Return the lore entry of a proposal, and the former one; None for any other proposal."""
    asked = proposal.metadata.get(PROPOSED, {})
    if LORE not in asked:
        return None
    former = asked.get("former")
    return from_plain(asked[LORE], MemoryEntry), None if former is None else from_plain(former, MemoryEntry)


def build_proposal(
    proposal_id: str, title: str, told: Mapping[str, Any], author: str, at: datetime, turn_id: str | None = None
) -> Evidence:
    """Return the item of a proposal; one of a turn is known on the branch of the turn only."""
    return Evidence(
        evidence_id=proposal_id,
        type=EvidenceType.LLM_OUTPUT,
        source=EvidenceSource(kind=SourceKind.LLM, name=title),
        trust=Trust.MODEL,
        metadata={IS_EDIT: "yes", ACTION: MemoryAction.PROPOSE.value, AUTHOR: author, **told},
        links=EvidenceLinks(turn_id=turn_id),
        created_at=at,
    )


async def load_proposals(store: Store, session_id: str, branch_id: str = "") -> tuple[Evidence, ...]:
    """Return all proposals known on a branch ('': the active one), decided or not, oldest first."""
    edits = await store.list_evidences(session_id, EvidenceFilter(tags=EDIT_TAG, branch_id=branch_id))
    return tuple(each for each in edits if is_proposal(each))


async def load_waiting(store: Store, session_id: str) -> tuple[Evidence, ...]:
    """Return the undecided proposals of the active branch, oldest first."""
    edits = await store.list_evidences(session_id, EvidenceFilter(tags=EDIT_TAG, branch_id=""))
    decided = {each.metadata.get(TARGET) for each in edits if is_decision(each)}
    return tuple(each for each in edits if is_proposal(each) and each.evidence_id not in decided)


def is_proposal(evidence: Evidence) -> bool:
    """Return whether an item of the log is a proposal."""
    return evidence.metadata.get(ACTION) == MemoryAction.PROPOSE.value


def is_decision(evidence: Evidence) -> bool:
    """Return whether an item of the log is a valid decision."""
    return evidence.metadata.get(ACTION) in DECISIONS and not is_undone(evidence)


def proposed_entry(proposal: Evidence) -> MemoryEntry | None:
    """Return the entry that a proposal would add; None for one that asks for an edit."""
    told = proposal.metadata.get(PROPOSED, {}).get("entry")
    return None if told is None else from_plain(told, MemoryEntry)


def proposed_entries(proposals: Iterable[Evidence]) -> list[MemoryEntry]:
    """Return the entries that proposals would add."""
    return [entry for each in proposals if (entry := proposed_entry(each)) is not None]


def show_proposals(proposals: Sequence[Evidence]) -> tuple[MemoryEdit, ...]:
    """Return proposals for people: the title states the kind of memory."""
    edits = ((each, edit_of(each)) for each in proposals)
    return tuple(replace(edit, turn_id=each.links.turn_id or "") for each, edit in edits if edit is not None)


def describe_proposal(proposal: Evidence) -> str:
    """Return the text that a proposal would add."""
    return str(proposal.metadata.get(AFTER, "")) or str(proposal.metadata.get(BEFORE, ""))

"""Stores the changes of memory that models propose, until a person accepts or rejects them.

A proposal is an item of the edit log. The metadata of the item contain the proposed entry or the requested edit. Recall
and prompts do not read these metadata. A decision is an edit too, with its author, its time and its undo. This module
must not import a concrete store.
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
"""Key of a proposed lore entry."""
DECISIONS = frozenset({MemoryAction.ACCEPT.value, MemoryAction.REJECT.value})
"""Actions that decide on a proposal."""


def propose_entry(entry: MemoryEntry, author: str, at: datetime) -> Evidence:
    """Return the proposal to add an entry. The same entry always gives a proposal with the same id."""
    told = {TARGET: entry.entry_id, AFTER: entry.text, **audience_field(audience_of_entry(entry))}
    told[PROPOSED] = {"entry": to_plain(entry)}
    return build_proposal(f"{entry.entry_id}.proposal", entry.title or entry.kind, told, author, at, entry.turn_id)


def propose_lore(
    proposal_id: str, entry: MemoryEntry, former: MemoryEntry | None, author: str, at: datetime
) -> Evidence:
    """Return the proposal to add a lore entry to a world. `former` is the entry that the new entry replaces (None: it
    replaces none).
    """
    told: dict[str, Any] = {TARGET: entry.entry_id, BEFORE: "" if former is None else former.text, AFTER: entry.text}
    told[PROPOSED] = {LORE: to_plain(entry), "former": None if former is None else to_plain(former)}
    return build_proposal(proposal_id, entry.title or "lore", told, author, at)


def proposed_lore(proposal: Evidence) -> tuple[MemoryEntry, MemoryEntry | None] | None:
    """Return (entry, former) of a proposal for lore: the proposed entry, and the entry that it replaces (None: it
    replaces none). Return None if the proposal is not for lore.
    """
    asked = proposal.metadata.get(PROPOSED, {})
    if LORE not in asked:
        return None
    former = asked.get("former")
    return from_plain(asked[LORE], MemoryEntry), None if former is None else from_plain(former, MemoryEntry)


def build_proposal(
    proposal_id: str, title: str, told: Mapping[str, Any], author: str, at: datetime, turn_id: str | None = None
) -> Evidence:
    """Return the evidence item of a proposal. `told` are its further metadata. If `turn_id` is given, the proposal is
    known only on the branch of this turn.
    """
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
    """Return all proposals known on a branch ('': the active branch), decided or not, oldest first."""
    edits = await store.list_evidences(session_id, EvidenceFilter(tags=EDIT_TAG, branch_id=branch_id))
    return tuple(each for each in edits if is_proposal(each))


async def load_waiting(store: Store, session_id: str) -> tuple[Evidence, ...]:
    """Return the proposals of the active branch that nobody has decided on, oldest first."""
    edits = await store.list_evidences(session_id, EvidenceFilter(tags=EDIT_TAG, branch_id=""))
    decided = {each.metadata.get(TARGET) for each in edits if is_decision(each)}
    return tuple(each for each in edits if is_proposal(each) and each.evidence_id not in decided)


def is_proposal(evidence: Evidence) -> bool:
    """Return whether an item of the log is a proposal."""
    return evidence.metadata.get(ACTION) == MemoryAction.PROPOSE.value


def is_decision(evidence: Evidence) -> bool:
    """Return whether an item of the log is a decision that was not undone."""
    return evidence.metadata.get(ACTION) in DECISIONS and not is_undone(evidence)


def proposed_entry(proposal: Evidence) -> MemoryEntry | None:
    """Return the entry that a proposal would add. Return None if the proposal asks for an edit or for lore."""
    told = proposal.metadata.get(PROPOSED, {}).get("entry")
    return None if told is None else from_plain(told, MemoryEntry)


def proposed_entries(proposals: Iterable[Evidence]) -> list[MemoryEntry]:
    """Return the entries that proposals would add. Proposals that ask for an edit are left out."""
    return [entry for each in proposals if (entry := proposed_entry(each)) is not None]


def show_proposals(proposals: Sequence[Evidence]) -> tuple[MemoryEdit, ...]:
    """Return proposals as edits that a person can read. The title states the kind of memory."""
    edits = ((each, edit_of(each)) for each in proposals)
    return tuple(replace(edit, turn_id=each.links.turn_id or "") for each, edit in edits if edit is not None)


def describe_proposal(proposal: Evidence) -> str:
    """Return the text that a proposal would add. If it would add none, return the text that it would remove."""
    return str(proposal.metadata.get(AFTER, "")) or str(proposal.metadata.get(BEFORE, ""))

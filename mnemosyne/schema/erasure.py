"""Requests for erasure, and their outcome in a store. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from mnemosyne.schema.memory import EMPTY

ERASED = "[erased]"
"""Replacement of an erased text in a record that stays (a receipt, a prompt, a later summary)."""

PACK_PLACE = "packs/"
"""Prefix of a place in a world pack in `Store.find_text`: packs are the author's, and no erasure changes them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Erasure:
    """One request for erasure of exactly one of: a user, a session, evidence items of a session."""

    at: datetime
    """Time for the audit record."""
    user_id: str | None = None
    """Every session whose `meta.actor.user_id` is the user is deleted entirely; in others, the user's own texts."""
    session_id: str | None = None
    evidence_ids: tuple[str, ...] = ()
    reason: str = ""
    """Reason for the audit record."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErasureOutcome:
    """Result of an erasure in a store. Texts are only for the caller and must not be stored."""

    audit_id: str
    counts: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    """Erased items by kind (messages, entries, evidences, blocks, turns, receipts, summaries, …)."""
    sessions: tuple[str, ...] = ()
    """Sessions that were deleted entirely."""
    entry_ids: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: EMPTY)
    """Entries that the index must drop, by scope."""
    texts: tuple[str, ...] = ()
    """Texts erased from the sessions in `touched`, so that a search can prove that they are gone; without texts that a
    world pack contains too, because packs stay.
    """
    touched: tuple[str, ...] = ()
    """Sessions of which a part was erased."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErasurePreview:
    """Preview of an erasure in a store. Texts are only for the caller and must not be stored."""

    whole: tuple[str, ...] = ()
    """Sessions to be deleted entirely."""
    touched: tuple[str, ...] = ()
    """Sessions of which a part would be erased."""
    messages: int = 0
    """Number of messages to be erased; `evidences` likewise."""
    evidences: int = 0
    texts: tuple[str, ...] = ()
    """Texts of all erased items, each once, without blank ones."""
    scrubbed: tuple[str, ...] = ()
    """Texts to be cut out of the records that stay in the touched sessions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredRow:
    """One stored row with all its text."""

    place: str
    """Name for a reader: `table/session/key`."""
    session_id: str
    """Empty for rows of no session."""
    words: tuple[str, ...] = ()
    """Ids and names, unchanged."""
    bodies: tuple[bytes, ...] = ()
    """JSON, decompressed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditRecord:
    """Record of an erasure: when, for whom (as a hash of the id), why and how much; never the erased text."""

    audit_id: str
    at: datetime
    kind: str
    subject_hash: str
    reason: str = ""
    counts: Mapping[str, int] = field(default_factory=lambda: EMPTY)

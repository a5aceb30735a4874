"""Defines the values of erasures: requests, previews, outcomes and audit records.

An erasure removes the data of one user or session, or single evidence items, from a store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime

from mnemosyne.schema.memory import EMPTY
from mnemosyne.values import dataclass

ERASED = "[erased]"
"""Text that replaces an erased text in records that stay (receipts, prompts, later summaries)."""

PACK_PLACE = "packs/"
"""Prefix of places in world packs among the results of `Store.find_text`. Erasures never change a pack, because it belongs to the
author.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Erasure:
    """One request to erase a user (`user_id`), a session (`session_id`), or evidence items of a session (`session_id` and
    `evidence_ids`).
    """

    at: datetime
    """Time for the audit record."""
    user_id: str | None = None
    """User to erase. Sessions whose `meta.actor.user_id` is this user are deleted entirely. In other sessions, only the user's own
    texts are erased.
    """
    session_id: str | None = None
    evidence_ids: tuple[str, ...] = ()
    reason: str = ""
    """Reason for the audit record."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErasureOutcome:
    """Result of an erasure in a store. `texts` is only for the caller and must not be stored."""

    audit_id: str
    counts: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    """Number of erased items by kind (messages, entries, evidences, blocks, turns, receipts, summaries, …)."""
    sessions: tuple[str, ...] = ()
    """Sessions that were deleted entirely."""
    entry_ids: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: EMPTY)
    """Ids of the entries that the search index must drop, by scope (one session or one world)."""
    texts: tuple[str, ...] = ()
    """Texts that were erased from the sessions in `touched`. The caller searches for them to prove that they are gone. Texts that a
    world pack contains too are left out, because packs stay.
    """
    touched: tuple[str, ...] = ()
    """Sessions of which a part was erased."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErasurePreview:
    """Preview of an erasure in a store. `texts` and `scrubbed` are only for the caller and must not be stored."""

    whole: tuple[str, ...] = ()
    """Sessions that would be deleted entirely."""
    touched: tuple[str, ...] = ()
    """Sessions of which a part would be erased."""
    messages: int = 0
    """Number of messages that would be erased."""
    evidences: int = 0
    """Number of evidence items that would be erased."""
    texts: tuple[str, ...] = ()
    """Texts of all items that would be erased, each once. Blank texts are left out."""
    scrubbed: tuple[str, ...] = ()
    """Texts that would be cut out of records that stay in the sessions of `touched`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredRow:
    """One stored row with all its text, for a search."""

    place: str
    """Name of the row for people: `table/session/key`."""
    session_id: str
    """Session of the row (empty if it belongs to no session)."""
    words: tuple[str, ...] = ()
    """Ids and names in the row, unchanged."""
    bodies: tuple[bytes, ...] = ()
    """JSON values in the row, decompressed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditRecord:
    """Record of an erasure: its time, the hash of the erased id, the reason, and the number of erased items by kind.

    It never contains erased text.
    """

    audit_id: str
    at: datetime
    kind: str
    subject_hash: str
    reason: str = ""
    counts: Mapping[str, int] = field(default_factory=lambda: EMPTY)

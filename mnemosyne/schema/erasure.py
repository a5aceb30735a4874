"""Requests for erasure, and their outcome in a store. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from mnemosyne.schema.memory import EMPTY

ERASED = "[erased]"
"""Replaces a text that was erased from a record that stays (a receipt, a prompt, a later summary)."""

PACK_PLACE = "packs/"
"""The prefix of a place in a world pack in `Store.find_text`: packs are the author's, and no erasure changes them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Erasure:
    """One request for erasure of exactly one of: a user, a session, evidence items of a session.

    `user_id`: every session whose `meta.actor.user_id` is the user is deleted entirely; in others, what the user wrote.
    `reason` and `at` are written into the audit record.
    """

    at: datetime
    user_id: str | None = None
    session_id: str | None = None
    evidence_ids: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErasureOutcome:
    """What a store removed. `counts` are by kind (messages, entries, evidences, blocks, turns, receipts, summaries, …).

    `sessions` were deleted entirely, in `touched` a part was erased. `texts` were removed from those, so that a search can
    prove that they are gone; texts that a world pack contains too are not among them, because packs stay. They are for the
    caller only and must not be stored. `scopes` are those whose index must drop entries; `entry_ids` are by scope.
    """

    audit_id: str
    counts: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    sessions: tuple[str, ...] = ()
    entry_ids: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: EMPTY)
    texts: tuple[str, ...] = ()
    touched: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ErasurePreview:
    """What a store would remove: `whole` sessions, and what is in the others (`touched`) that an erasure concerns.

    `messages` and `evidences` are numbers of erased items. `texts` are those of all of them, each once, without blank ones;
    `scrubbed` are those that are cut out of what stays in the touched sessions. Texts are for the caller only and must not be
    stored.
    """

    whole: tuple[str, ...] = ()
    touched: tuple[str, ...] = ()
    messages: int = 0
    evidences: int = 0
    texts: tuple[str, ...] = ()
    scrubbed: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredRow:
    """One row as a store keeps it: all its text (`words`: ids and names, as they are) and its JSON (`bodies`, decompressed).

    `place` names it to a reader (`table/session/key`); `session_id` is empty for rows of no session.
    """

    place: str
    session_id: str
    words: tuple[str, ...] = ()
    bodies: tuple[bytes, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditRecord:
    """The record of an erasure: when, for whom (as a hash of the id), why and how much; never the erased text."""

    audit_id: str
    at: datetime
    kind: str
    subject_hash: str
    reason: str = ""
    counts: Mapping[str, int] = field(default_factory=lambda: EMPTY)

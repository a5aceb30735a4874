"""What is to be forgotten, and what a store did about it (seed 002 section 13; spec 3.6). Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from mnemosyne.schema.memory import EMPTY

ERASED = "[erased]"
"""Stands in the place of a text that was erased from something that stays (a receipt, a prompt, a later summary)."""

PACK_PLACE = "packs/"
"""How `Store.find_text` begins a place in a world pack: that is the author's, and no erasure changes it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Erasure:
    """One request to forget, by exactly one of user, session, or evidence in a session.

    `user_id`: every session whose `meta.actor.user_id` is the user goes whole; in others, what the user wrote. `reason`
    and `at` stand in the audit record.
    """

    at: datetime
    user_id: str | None = None
    session_id: str | None = None
    evidence_ids: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErasureOutcome:
    """What a store removed. `counts` by kind (messages, entries, evidences, blocks, turns, receipts, summaries, …).

    `sessions` went whole. `texts` are what was removed from sessions that stay, so that a search can prove it gone; what a
    world pack says too is not among them, for that is the author's and stays. They are for the caller's eyes only and never
    stored. `scopes` are those whose index must drop entries, `entry_ids` by scope.
    """

    audit_id: str
    counts: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    sessions: tuple[str, ...] = ()
    entry_ids: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: EMPTY)
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditRecord:
    """That something was erased: when, for whom (as a hash of the id), why and how much; never what it said."""

    audit_id: str
    at: datetime
    kind: str
    subject_hash: str
    reason: str = ""
    counts: Mapping[str, int] = field(default_factory=lambda: EMPTY)

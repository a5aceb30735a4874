"""ContextPackage 0.1: a view of one prepared turn for hosts that assemble by themselves.

Texts are unescaped: a program that builds a prompt from them must escape them
(`jacquard.pipeline.record.package.to_messages` does). Only the texts of system and developer blocks are prompt text
already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mnemosyne.schema.memory import EMPTY

PACKAGE_VERSION = "0.1"
SOURCES = ("memory", "resource")
MODES = ("exact", "semantic", "hybrid", "relational", "associative")


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageBlock:
    """A pinned text. `type`: core_profile, preferences, goals, policies, tooling_rules, format_rules, … or other."""

    type: str
    text: str
    updated_at: datetime | None = None
    source: Mapping[str, str] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageMessage:
    """A message by role."""

    role: str
    content: str


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceItem:
    """One selected memory."""

    id: str
    source: str
    """`memory` or `resource`."""
    source_uri: str
    """Address of its source."""
    title: str
    snippet: str
    mode: str
    """One of MODES."""
    score: float
    """Comparable only within one recall."""
    signals: Mapping[str, float] = field(default_factory=lambda: EMPTY)
    provenance: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    ref: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    """May have `document_id`, `section_id`, `turn_id` and `memory_item_id`."""
    group: str = ""
    """Joins items that belong together (empty: none)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextPackage:
    """The context of one turn as an object. `created_at` is aware; evidence is ordered best first."""

    version: str = PACKAGE_VERSION
    context_id: str = ""
    session_id: str
    created_at: datetime
    system_blocks: tuple[PackageBlock, ...] = ()
    developer_blocks: tuple[PackageBlock, ...] = ()
    working_summary: str = ""
    recent_turns: tuple[PackageMessage, ...] = ()
    evidence: tuple[EvidenceItem, ...] = ()
    user_message: PackageMessage
    constraints: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    debug: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

"""Defines the ContextPackage 0.1: the context of one prepared turn, for hosts that assemble their prompts themselves.

The texts in it are not escaped, except that system and developer blocks are ready for a prompt. A program that builds a
prompt from the other texts must escape them, as `jacquard.pipeline.record.package.to_messages` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Any

from mnemosyne.schema.memory import EMPTY
from mnemosyne.values import dataclass

PACKAGE_VERSION = "0.1"
SOURCES = ("memory", "resource")
MODES = ("exact", "semantic", "hybrid", "relational", "associative")


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageBlock:
    """A text that is always in the prompt. `type` is core_profile, preferences, goals, policies, another kind of fact, or other."""

    type: str
    text: str
    updated_at: datetime | None = None
    source: Mapping[str, str] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageMessage:
    """A message with its role."""

    role: str
    content: str


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceItem:
    """One selected memory."""

    id: str
    source: str
    """`memory` or `resource`."""
    source_uri: str
    """Address of the memory or resource."""
    title: str
    snippet: str
    mode: str
    """Way in which recall found the memory: one of MODES."""
    score: float
    """Score in recall. Scores of different recalls cannot be compared."""
    signals: Mapping[str, float] = field(default_factory=lambda: EMPTY)
    provenance: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    ref: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    """Ids of its source: `document_id`, `section_id`, `turn_id` and `memory_item_id`. Each may be missing."""
    group: str = ""
    """Name that items have in common if they belong together (empty: the item belongs to no group)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextPackage:
    """The context of one prepared turn. `created_at` has a time zone, and `evidence` is ordered best first."""

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

"""Defines the events that an engine emits while it works on a session, for logs and live displays.

The payload of an event has names, counts, codes and times. It has texts only if the engine was configured to capture content.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any

from mnemosyne.schema.memory import EMPTY
from mnemosyne.values import also_named, dataclass


class EventType(StrEnum):
    """Kinds of event."""

    SESSION_LOADED = "SessionLoaded"
    MESSAGE_APPENDED = "MessageAppended"
    SUMMARY_GENERATED = "SummaryGenerated"
    TURN_PLANNED = "TurnPlanned"
    TOOL_CALLED = "ToolCalled"
    TOOL_CALL_COMPLETED = "ToolCallCompleted"
    EVIDENCE_INGESTED = "EvidenceIngested"
    BLOCKS_DERIVED = "BlocksDerived"
    PRUNE_COMPLETED = "PruneCompleted"
    ASSEMBLED = "Assembled"
    ASSISTANT_CHUNK_RECEIVED = "AssistantChunkReceived"
    ASSISTANT_MESSAGE_FINALIZED = "AssistantMessageFinalized"
    PERSISTED = "Persisted"
    ERROR = "Error"
    DEGRADED = "Degraded"


@also_named(ts="at")
@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One event. The ids name the turn, task, tool call or model call that it is about."""

    event_type: EventType
    session_id: str
    at: datetime
    turn_id: str | None = None
    task_id: str | None = None
    tool_call_id: str | None = None
    model_usage_id: str | None = None
    tags: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    """Tags from the configuration, such as the name of an A/B test or a framework."""
    payload: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    """Facts of the event."""

    def __post_init__(self) -> None:
        """Parse a time that is a text. Raises ValueError if it is not an ISO 8601 time."""
        given: datetime | str = self.at
        if isinstance(given, str):
            object.__setattr__(self, "at", datetime.fromisoformat(given))

    @property
    def ts(self) -> str:
        """The time `at` as ISO 8601 text."""
        return self.at.isoformat()

"""Cache of prepared turns that wait for their reply, so that a commit does not read them again.

An entry is valid only while the session has the version that the prepared turn gave it; the caller compares it with the
store's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mnemosyne.schema.record import TurnRecord
from mnemosyne.schema.world import WorldPack

MOST_HELD = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitingTurn:
    """Prepared turn that waits for its reply."""

    record: TurnRecord
    """Needs only the form of the reply from its prompt, and only the tags from its receipt."""
    state: Mapping[str, Any]
    """State before the turn."""
    agent: str
    """Name of the world's agent."""
    version: int
    """Version of the session after the turn was written."""


def agent_of(world: WorldPack) -> str:
    """Return the name of a world's agent."""
    return str(world.persona.get("name") or "assistant")


class WaitingTurns:
    """Last prepared turn of each of the most recently played sessions."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, WaitingTurn] = OrderedDict()

    def keep(self, turn: WaitingTurn) -> None:
        """Store the prepared turn of its session."""
        self._held[turn.record.session_id] = turn
        self._held.move_to_end(turn.record.session_id)
        if len(self._held) > MOST_HELD:
            self._held.popitem(last=False)

    def find(self, session_id: str, turn_id: str | None) -> WaitingTurn | None:
        """Return the prepared turn of a session (`turn_id`: only this one), or None."""
        held = self._held.get(session_id)
        return held if held is not None and turn_id in (None, held.record.turn_id) else None

    def drop(self, session_id: str) -> None:
        """Remove the prepared turn of a session."""
        self._held.pop(session_id, None)

    def clear(self) -> None:
        """Remove all."""
        self._held.clear()

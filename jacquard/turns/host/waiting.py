"""What the engine knows of turns that it prepared and that wait for their reply, so that a commit does not read them again.

It holds only while the session has the version that the prepared turn gave it: whoever asks compares that with the store's.
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
    """A prepared turn: its record, which needs of the prompt only the form of the reply and of the receipt only the tags, the
    state that it started from, the name of the world's agent, and the version of the session after it was written.
    """

    record: TurnRecord
    state: Mapping[str, Any]
    agent: str
    version: int


def agent_of(world: WorldPack) -> str:
    """Return the name of a world's agent."""
    return str(world.persona.get("name") or "assistant")


class WaitingTurns:
    """The last prepared turn of each of the sessions that were played last."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, WaitingTurn] = OrderedDict()

    def keep(self, turn: WaitingTurn) -> None:
        """Keep the prepared turn of its session."""
        self._held[turn.record.session_id] = turn
        self._held.move_to_end(turn.record.session_id)
        if len(self._held) > MOST_HELD:
            self._held.popitem(last=False)

    def find(self, session_id: str, turn_id: str | None) -> WaitingTurn | None:
        """Return the prepared turn of a session (`turn_id`: only this one), or None."""
        held = self._held.get(session_id)
        return held if held is not None and turn_id in (None, held.record.turn_id) else None

    def drop(self, session_id: str) -> None:
        """Forget the prepared turn of a session."""
        self._held.pop(session_id, None)

    def clear(self) -> None:
        """Forget everything."""
        self._held.clear()

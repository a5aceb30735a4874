"""Caches prepared turns that wait for their reply, so that a commit does not read them from the store again.

A cached turn is valid only as long as the session has the version that it had right after the turn was prepared. The
caller must compare `WaitingTurn.version` with the version of the session in the store.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from mnemosyne.schema.record import TurnRecord
from mnemosyne.schema.world import WorldPack
from mnemosyne.values import dataclass

MOST_HELD = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitingTurn:
    """Prepared turn that waits for its reply."""

    record: TurnRecord
    """Record of the turn, reduced to what a commit needs. `prompt` contains only the form of the reply (elements or
    plain text), and `receipt` contains only the tags (labels of the session in events and traces).
    """
    state: Mapping[str, Any]
    """State before the turn."""
    agent: str
    """Name of the world's agent, who speaks the reply."""
    version: int
    """Version of the session right after the prepared turn was written."""


def agent_of(world: WorldPack) -> str:
    """Return the name of the agent in `world`; `assistant` if the world names none."""
    return str(world.persona.get("name") or "assistant")


class WaitingTurns:
    """Holds the last prepared turn of each session, for the `MOST_HELD` sessions that prepared a turn most recently."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, WaitingTurn] = OrderedDict()

    def keep(self, turn: WaitingTurn) -> None:
        """Cache `turn`. It replaces an earlier prepared turn of the same session."""
        # Turns of several sessions are prepared in several threads: each line leaves the cache whole.
        self._held.pop(turn.record.session_id, None)
        self._held[turn.record.session_id] = turn
        if len(self._held) > MOST_HELD:
            self._held.popitem(last=False)

    def find(self, session_id: str, turn_id: str | None) -> WaitingTurn | None:
        """Return the cached turn of a session. Return None if there is none, or if its id is not `turn_id` (None: any
        id).
        """
        held = self._held.get(session_id)
        return held if held is not None and turn_id in (None, held.record.turn_id) else None

    def drop(self, session_id: str) -> None:
        """Remove the cached turn of a session, if there is one."""
        self._held.pop(session_id, None)

    def clear(self) -> None:
        """Remove the prepared turns of all sessions."""
        self._held.clear()

"""Finds the system messages of a session. Every prompt contains them, however old they are.

Turns that the engine prepared have no system messages; such messages come with documents and imports. A process
searches a branch for them only once. After that, it reads only turns that were written since. This module must not
import a concrete store.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from mnemosyne.protocols import Store, combined_reads
from mnemosyne.schema.record import TurnRecord
from mnemosyne.schema.session import Role, SessionHead, WindowMessage
from mnemosyne.values import dataclass

_KEPT = 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class _Scan:
    """Path read up to a turn; contains no text."""

    turn_id: str | None = None
    depth: int = 0
    depths: tuple[int, ...] = ()
    """Depths of its turns with system messages, ascending."""


class SystemMessages:
    """Finds the system messages on the path of a branch, and remembers which turns have them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._scans: OrderedDict[tuple[str, str], _Scan] = OrderedDict()

    async def load(
        self, head: SessionHead, shown: Iterable[WindowMessage], newest: TurnRecord | None = None
    ) -> tuple[WindowMessage, ...]:
        """Return the system messages on the path to `head` (the branch up to this turn) that are not in `shown`, oldest
        first.

        `newest` is the turn at the head, if the caller has it already.
        """
        scan = await self._scan(head, newest)
        seen = {placed.message.message_id for placed in shown}
        found: list[WindowMessage] = []
        for depth in scan.depths:
            for record in await self._read(head, depth, 1):
                found += [
                    WindowMessage(message=each, turn_id=record.turn_id, branch_id=record.branch_id, depth=record.depth)
                    for each in record.messages
                    if each.role is Role.SYSTEM and each.content.strip() and each.message_id not in seen
                ]
        return tuple(found)

    async def _scan(self, head: SessionHead, newest: TurnRecord | None) -> _Scan:
        key = (head.session_id, head.branch_id)
        before = self._scans.pop(key, _Scan())
        new = await self._find_new(head, before, newest)
        if new is None:
            before, new = _Scan(), await self._find_after(head, 0)
        scan = self._scans[key] = _Scan(turn_id=head.turn_id, depth=head.depth, depths=(*before.depths, *new))
        while len(self._scans) > _KEPT:
            self._scans.popitem(last=False)
        return scan

    async def _find_new(self, head: SessionHead, scan: _Scan, newest: TurnRecord | None) -> list[int] | None:
        """Return the depths of new turns with system messages. None: the last turn of the scan is gone.

        This happens if the session was replaced by another one with the same id.
        """
        if scan.depth > head.depth:
            return None
        if scan.depth == head.depth:
            return [] if scan.turn_id == head.turn_id or scan.depth == 0 else None
        if newest is not None and newest.turn_id == head.turn_id and newest.depth == scan.depth + 1:
            return _depths_with_system_messages((newest,)) if newest.parent_id == scan.turn_id else None
        if scan.depth and [each.turn_id for each in await self._read(head, scan.depth, 1)] != [scan.turn_id]:
            return None
        return await self._find_after(head, scan.depth)

    async def _find_after(self, head: SessionHead, depth: int) -> list[int]:
        if depth >= head.depth:
            return []
        found = await combined_reads(self._store).depths_with_system_messages(
            self._store, head.session_id, branch_id=head.branch_id, after_depth=depth
        )
        # Another process may have written more turns meanwhile.
        return [each for each in found if each <= head.depth]

    async def _read(self, head: SessionHead, upto: int, limit: int) -> tuple[TurnRecord, ...]:
        return await self._store.turns(head.session_id, limit=limit, branch_id=head.branch_id, before_depth=upto + 1)


def _depths_with_system_messages(records: Iterable[TurnRecord]) -> list[int]:
    return [record.depth for record in records if any(each.role is Role.SYSTEM for each in record.messages)]

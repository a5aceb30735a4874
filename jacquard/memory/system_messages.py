"""The system messages of a session's path: they are in every prompt, however old they are.

A played turn has none; they come with documents and imports. Where they are is found once for a process and a branch, by reading
the path; later turns read only what was written since. It must not import a concrete store.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from mnemosyne.protocols import Store
from mnemosyne.schema.record import TurnRecord
from mnemosyne.schema.session import Role, SessionHead, WindowMessage

_PAGE = 200
_KEPT = 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class _Scan:
    """A path read up to a turn; `depths` are those of its turns with system messages, ascending. No text is kept."""

    turn_id: str | None = None
    depth: int = 0
    depths: tuple[int, ...] = ()


class SystemMessages:
    """Finds the system messages of paths."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._scans: OrderedDict[tuple[str, str], _Scan] = OrderedDict()

    async def load(self, head: SessionHead, shown: Iterable[WindowMessage]) -> tuple[WindowMessage, ...]:
        """Return the system messages on the path to a head that are not among those shown, oldest first."""
        scan = await self._scan(head)
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

    async def _scan(self, head: SessionHead) -> _Scan:
        key = (head.session_id, head.branch_id)
        scan = self._scans.pop(key, _Scan())
        if scan.depth > head.depth or not await self._is_on_path(head, scan):
            scan = _Scan()
        depths, upto = list(scan.depths), scan.depth
        while upto < head.depth:
            step = min(_PAGE, head.depth - upto)
            for record in await self._read(head, upto + step, step):
                if any(message.role is Role.SYSTEM for message in record.messages):
                    depths.append(record.depth)
            upto += step
        scan = self._scans[key] = _Scan(turn_id=head.turn_id, depth=head.depth, depths=tuple(depths))
        while len(self._scans) > _KEPT:
            self._scans.popitem(last=False)
        return scan

    async def _is_on_path(self, head: SessionHead, scan: _Scan) -> bool:
        """Return whether the turn that was read last is still there: another session may have taken the name."""
        if scan.depth in (0, head.depth):
            return scan.depth == 0 or scan.turn_id == head.turn_id
        return [record.turn_id for record in await self._read(head, scan.depth, 1)] == [scan.turn_id]

    async def _read(self, head: SessionHead, upto: int, limit: int) -> tuple[TurnRecord, ...]:
        return await self._store.turns(head.session_id, limit=limit, branch_id=head.branch_id, before_depth=upto + 1)

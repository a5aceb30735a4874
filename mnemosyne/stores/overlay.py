"""Lets a turn use a store without writing to it, for a turn that is only previewed. Writes stay in memory or are
dropped.

The overlay has the reads of `Store`, and the writes that a turn makes. Any other write raises AttributeError.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from mnemosyne.core.errors import VersionConflictError, WorldNotAdoptedError
from mnemosyne.damage import DamageLog
from mnemosyne.protocols import Store, combined_reads
from mnemosyne.schema.document import ModelUsage
from mnemosyne.schema.evidence import Evidence
from mnemosyne.schema.memory import Chain, MemoryEntry, session_scope, world_scope
from mnemosyne.schema.record import (
    WINDOW_USAGES,
    ChosenInputs,
    PathSummary,
    Prefetch,
    PutResult,
    SequencedEntry,
    SessionStart,
    SessionWindow,
    TurnInputs,
    TurnRecord,
)
from mnemosyne.schema.session import SessionHead
from mnemosyne.stores.sqlite.memory import MemoryStore

T = TypeVar("T")
_PAGE = 1_000
_FARTHEST = 4
"""Entries that were written further apart than this do not count as neighbours in recall."""

_READS = frozenset(
    {
        *("branches", "committed_turns", "find_evidence", "get_evidence", "get_session", "head", "hidden_records"),
        *("list_context_blocks", "list_evidences", "state_at", "tool_call", "turn", "turns"),
    }
)
"""Names of the reads of one session. The session's id is their first argument."""


class OverlayStore:
    """A `Store` over `inner` for one turn of one session. Nothing is written to `inner`.

    A new session and a new world are kept in memory as a whole. If `inner` has the session of the turn, only the summary
    and the model calls of the turn are kept in memory. The record of the turn is dropped.
    """

    def __init__(self, inner: Store) -> None:
        self._inner, self._own = inner, MemoryStore()
        self._sessions, self._worlds = set[str](), set[str]()
        self._summary: PathSummary | None = None
        self._usages: list[ModelUsage] = []

    def own_scopes(self) -> frozenset[str]:
        """Return the scopes (sessions and worlds) whose entries are in memory."""
        return frozenset((*map(session_scope, self._sessions), *map(world_scope, self._worlds)))

    @property
    def damage_log(self) -> DamageLog:
        """The notes on damage of `inner`."""
        return self._inner.damage_log

    def __getattr__(self, name: str) -> Any:
        if name not in _READS:
            raise AttributeError(f"{name} would write, or is not a read of one session; an overlay has no such method.")
        return partial(self._read, name)

    async def _read(self, name: str, session_id: str, *args: Any, **options: Any) -> Any:
        return await getattr(self._of_session(session_id), name)(session_id, *args, **options)

    def _of_session(self, session_id: str) -> Store:
        return self._own if session_id in self._sessions else self._inner

    def _of_world(self, world_id: str) -> Store:
        return self._own if world_id in self._worlds else self._inner

    def _of_scope(self, scope: str) -> Store:
        return self._own if scope in self.own_scopes() else self._inner

    async def window(self, session_id: str, *, message_limit: int, branch_id: str | None = None) -> SessionWindow:
        """Return a window (what a turn needs of a session) that includes the summary and the model calls of this turn."""
        store = self._of_session(session_id)
        return self._add_own(await store.window(session_id, message_limit=message_limit, branch_id=branch_id))

    def _add_own(self, window: SessionWindow) -> SessionWindow:
        if window.head.session_id in self._sessions:
            return window
        usages = (*window.usages, *self._usages)[-WINDOW_USAGES:]
        return replace(window, summary=self._summary or window.summary, usages=usages)

    async def turn_inputs(self, session_id: str, **options: Any) -> TurnInputs:
        """Return everything that a turn reads when it begins."""
        if self.own_scopes():
            return await Store.turn_inputs(self, session_id, **options)
        inputs = await combined_reads(self._inner).turn_inputs(self._inner, session_id, **options)
        return replace(inputs, window=self._add_own(inputs.window))

    async def chosen_inputs(
        self, session_id: str, entry_ids: Mapping[str, Sequence[str]], **options: Any
    ) -> ChosenInputs:
        """Return the data of the memories that were chosen for a turn."""
        if self.own_scopes():
            return await Store.chosen_inputs(self, session_id, entry_ids, **options)
        return await combined_reads(self._inner).chosen_inputs(self._inner, session_id, entry_ids, **options)

    async def depths_with_system_messages(self, session_id: str, **options: Any) -> tuple[int, ...]:
        """Return the depths (numbers on the path) of the turns with a system message."""
        store = self._of_session(session_id)
        return await combined_reads(store).depths_with_system_messages(store, session_id, **options)

    async def worlds(self) -> Mapping[str, str]:
        """Return the digest of the current version of each world."""
        return {**await self._inner.worlds(), **await self._own.worlds()}

    async def world_digest(self, world_id: str) -> str | None:
        """Return the digest of the current version of a world, or None if there is no such world."""
        return await self._of_world(world_id).world_digest(world_id)

    async def pack(self, world_id: str, digest: str) -> Mapping[str, Any] | None:
        """Return the pack of the version `digest` of a world, or None if it is not stored."""
        return await self._of_world(world_id).pack(world_id, digest)

    async def entries(self, scope: str, entry_ids: Sequence[str]) -> tuple[MemoryEntry, ...]:
        """Return the entries with these ids."""
        return await self._of_scope(scope).entries(scope, entry_ids)

    async def entries_after(self, scope: str, chain: Chain, sequence: int, limit: int) -> tuple[SequencedEntry, ...]:
        """Return the entries of a chain that were written after `sequence`, in the order of writing."""
        return await self._of_scope(scope).entries_after(scope, chain, sequence, limit)

    async def gated_entries(self, scopes: Sequence[str]) -> tuple[MemoryEntry, ...]:
        """Return the entries of these scopes that have viewers or conditions, ordered by id."""
        own, inner = self._split(scopes, lambda scope: scope)
        found = (*await self._own.gated_entries(own), *await self._inner.gated_entries(inner))
        return tuple(sorted(found, key=lambda entry: entry.entry_id))

    async def chains_written_after(self, after: Mapping[tuple[str, Chain], int]) -> frozenset[tuple[str, Chain]]:
        """Return the pairs (scope, chain) in which something was written after the sequence in `after`."""
        own, inner = self._split(after, lambda place: place[0])
        found = await self._own.chains_written_after({place: after[place] for place in own})
        return found | await self._inner.chains_written_after({place: after[place] for place in inner})

    def _split(self, places: Iterable[T], scope_of: Callable[[T], str]) -> tuple[list[T], list[T]]:
        known, listed = self.own_scopes(), list(places)
        own = [place for place in listed if scope_of(place) in known]
        return own, [place for place in listed if scope_of(place) not in known]

    async def create_session(self, start: SessionStart) -> SessionHead:
        """Create a session in memory."""
        head = await self._own.create_session(start)
        self._sessions.add(start.session_id)
        return head

    async def adopt_world(self, session_id: str, world_id: str, *_: Any, **__: Any) -> SessionHead:
        """Refuse the call, because it would write the state of every branch. Always raises WorldNotAdoptedError."""
        raise WorldNotAdoptedError(session_id, world_id, "nothing may be written for this turn")

    async def replace_world(
        self, world_id: str, digest: str, lore: Sequence[MemoryEntry], pack: Mapping[str, Any] | None = None
    ) -> int:
        """Keep a version of a world in memory, unless the store has it already. Return the number of changed lore entries."""
        stored = None if world_id in self._worlds else await self._inner.world_digest(world_id)
        if stored == digest:
            known = None if pack is None else await self._inner.pack(world_id, digest)
            if known is not None or pack is None:
                return 0
        if stored is not None:
            # Ranks depend on what was written next to each other: what has not changed keeps its place.
            await self._own.replace_world(world_id, stored, await self._read_lore(world_scope(world_id)))
        changed = await self._own.replace_world(world_id, digest, lore, pack)
        self._worlds.add(world_id)
        return changed

    async def _read_lore(self, scope: str) -> list[MemoryEntry]:
        """Return lore in the order of writing, with gaps for other writes between, and before new entries."""
        found: list[MemoryEntry] = []
        after = last = 0
        while page := await self._inner.entries_after(scope, Chain.LORE, after, _PAGE):
            for item in page:
                if not item.deleted:
                    found += _gap(scope, len(found), item.sequence - last - 1 if last else 0)
                    found.append(item.entry)
                    last = item.sequence
            after = page[-1].sequence
        return [*found, *_gap(scope, len(found), _FARTHEST)]

    async def save_prepared(self, record: TurnRecord, *, expected_version: int, **parts: Any) -> SessionHead:
        """Return the head that the session would have after a prepared turn was written.

        Raises VersionConflictError if the session has another version than `expected_version`.
        """
        if record.session_id in self._sessions:
            return await self._own.save_prepared(record, expected_version=expected_version, **parts)
        head = await self._inner.head(record.session_id, record.branch_id)
        if head.version != expected_version:
            raise VersionConflictError(record.session_id, expected_version, head.version)
        return replace(head, version=head.version + 1)

    async def commit_numerical(
        self, record: TurnRecord, state: Mapping[str, Any], *, expected_version: int, **parts: Any
    ) -> SessionHead:
        """Return the head that the session would have after a numerical turn was committed.

        Raises VersionConflictError if the session has another version than `expected_version`.
        """
        head = await self.save_prepared(record, expected_version=expected_version, **parts)
        return replace(head, turn_id=record.turn_id, depth=record.depth)

    async def save_summary(self, session_id: str, summary: PathSummary) -> None:
        """Keep the summary in memory, for this turn."""
        if session_id in self._sessions:
            await self._own.save_summary(session_id, summary)
        else:
            self._summary = summary

    async def append_model_usage(self, session_id: str, usages: Collection[ModelUsage], **_: Any) -> PutResult:
        """Keep the model calls in memory, for this turn."""
        if session_id not in self._sessions:
            self._usages += usages
        return PutResult(version=(await self._of_session(session_id).head(session_id)).version)

    async def put_evidence(self, session_id: str, evidence: Evidence) -> str:
        """Drop the evidence, and return its id."""
        return evidence.evidence_id

    async def save_prefetch(self, session_id: str, prefetch: Prefetch | None) -> None:
        """Do nothing. `prefetch` is a selection of memories that came too late for its turn; an overlay does not keep it."""


def _gap(scope: str, place: int, size: int) -> list[MemoryEntry]:
    """Return entries that are removed again, in the places of other writes between."""
    return [
        MemoryEntry(entry_id=f"gap-{place}-{number}", scope=scope, chain=Chain.LORE, kind="gap", text="-")
        for number in range(min(size, _FARTHEST))
    ]

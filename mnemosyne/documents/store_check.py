"""Checks all records of a store and lists all damage. Each record is read once, in the same way as in normal use."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import field

from mnemosyne.core.errors import ContextEngineError, DamagedRecordError, StoreError
from mnemosyne.damage import DamageNote, LostTree, note_of
from mnemosyne.protocols import Store, StoreUpkeep
from mnemosyne.schema.memory import Chain, session_scope, world_scope
from mnemosyne.schema.world import BARE_DIGEST
from mnemosyne.values import dataclass

_ALL = 1_000_000
_PAGE = 1_000
_REBUILD = "Export its sessions into a new store"
_REFUSED = "What needs it is refused"


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreCheck:
    """Result of a check: the numbers of sessions, worlds and turns, and all damage in the order in which it was found."""

    sessions: int
    worlds: int
    turns: int
    damage: tuple[DamageNote, ...]


@dataclass(kw_only=True, slots=True)
class _CheckedParts:
    store: Store
    turns: int = 0
    refused: list[DamageNote] = field(default_factory=list)

    @asynccontextmanager
    async def part(self, scope: str, what: str) -> AsyncIterator[None]:
        """Note the error that stops the reading of one part; the others are read all the same."""
        try:
            yield
        except DamagedRecordError as error:
            self.store.damage_log.add(note_of(error, scope, _REFUSED))
        except (ContextEngineError, ValueError, LookupError) as error:
            self.refused.append(DamageNote(scope=scope, what=what, reason=str(error), effect=_REFUSED))


async def check_store(store: Store, report: Callable[[str], None] = lambda line: None) -> StoreCheck:
    """Read all records of a store, and return counts and all damage. Nothing is written.

    `report` is called with the name of each session and world before it is read. Raises StoreError if the store cannot be
    used at all.
    """
    mark, checked = store.damage_log.mark(), _CheckedParts(store=store)
    names = await store.sessions()
    worlds = dict(await store.worlds())
    archived = await store.archived_ids() if isinstance(store, StoreUpkeep) else frozenset()
    for name in names:
        report(session_scope(name))
        if isinstance(store, StoreUpkeep) and name in archived:
            async with checked.part(session_scope(name), f"The archive of session {name!r}"):
                await store.check_archive(name)
        else:
            await _check_session(checked, name)
    for world_id, digest in worlds.items():
        report(world_scope(world_id))
        async with checked.part(world_scope(world_id), f"The pack of world {world_id!r}"):
            if await lacks_pack(store, world_id, digest):
                raise StoreError(f"version {digest} has no pack")
        await _check_entries(checked, world_scope(world_id), (Chain.LORE,))
    async with checked.part("", "The records of erasures"):
        await store.audits()
    async with checked.part("", "The files of the store"):
        for fault in await store.file_faults():
            checked.refused.append(DamageNote(scope="", what="The store", reason=fault, effect=_REBUILD))
    noted = store.damage_log.since(mark)
    return StoreCheck(sessions=len(names), worlds=len(worlds), turns=checked.turns, damage=(*noted, *checked.refused))


async def lacks_pack(store: Store, world_id: str, digest: str) -> bool:
    """Return whether the pack of the version `digest` of a world is missing in the store. A world that never had a pack lacks
    none.

    Raises the same errors as `Store.pack`.
    """
    return digest not in ("", BARE_DIGEST) and await store.pack(world_id, digest) is None


async def _check_session(checked: _CheckedParts, name: str) -> None:
    store, scope = checked.store, session_scope(name)

    def part(what: str) -> AbstractAsyncContextManager[None]:
        return checked.part(scope, f"{what} of session {name!r}")

    async with part("The state before the first turn"):
        await store.state_at(name, None)
    heads: tuple[str | None, ...] = (None,)
    async with part("The list of branches"):
        heads = tuple(head.branch_id for head in await store.branches(name))
    seen: set[str] = set()
    for branch_id in heads:
        async with part(f"The window of branch {branch_id!r}"):
            await store.window(name, message_limit=1, branch_id=branch_id)
        async with part(f"Branch {branch_id!r}"):
            await _check_branch(checked, name, branch_id, seen)
    async with part("The document"):
        await store.get_session(name)
    async with part("What no branch shows"):
        await store.hidden_records(name)
    async with part("The blocks"):
        await store.list_context_blocks(name)
    await _check_entries(checked, scope, (Chain.HISTORY, Chain.EVENT, Chain.NARRATIVE))


async def _check_branch(checked: _CheckedParts, name: str, branch_id: str | None, seen: set[str]) -> None:
    """Read every turn of a branch, with its large parts and the state after it, and record missing turns."""
    store, scope = checked.store, session_scope(name)
    head = await store.head(name, branch_id)
    path = await store.turns(name, limit=_ALL, branch_id=branch_id)
    missing = sorted({*range(1, head.depth + 1)} - {turn.depth for turn in path})
    if missing:
        what = f"The path of branch {head.branch_id!r} of session {name!r}"
        numbers = ", ".join(map(str, missing[:10]))
        checked.refused.append(
            DamageNote(
                scope=scope, what=what, reason=f"no turn can be read at depth {numbers}", effect="They are left out"
            )
        )
    for turn in path:
        if turn.turn_id in seen:
            continue
        seen.add(turn.turn_id)
        checked.turns += 1
        async with checked.part(scope, f"Turn {turn.turn_id!r} of session {name!r}"):
            whole = await store.turn(name, turn.turn_id)
            for lost in (whole.plan, whole.receipt, whole.prompt, whole.report, whole.anchors):
                if isinstance(lost, LostTree):
                    store.damage_log.add(note_of(lost.error, scope))
        if turn.ops:
            async with checked.part(scope, f"The state after turn {turn.turn_id!r} of session {name!r}"):
                await store.state_at(name, turn.turn_id)


async def _check_entries(checked: _CheckedParts, scope: str, chains: tuple[Chain, ...]) -> None:
    for chain in chains:
        async with checked.part(scope, f"The {chain.value} entries of {scope}"):
            sequence = 0
            while page := await checked.store.entries_after(scope, chain, sequence, _PAGE):
                sequence = page[-1].sequence
    async with checked.part(scope, f"The entries of {scope} that not everyone may know"):
        await checked.store.gated_entries((scope,))

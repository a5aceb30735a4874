"""Exports a whole session as one document, and imports the document again.

The document has the messages of one branch, and the turn tree: all turns on all branches. Session document 1.0 has no fields
for branches, states, plans, receipts (why each block is in the prompt) and consolidated memories. An export writes them into
an additional field `turn_tree`; other readers keep it as an unknown field. An import rebuilds the tree by the methods of the
Store protocol.

A document contains neither the world pack with its lore, nor audit records (which belong to the store), nor selections of
memories that came too late for their turn (which are only a cache).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from datetime import datetime
from typing import Any

from mnemosyne.chains.json_patch import replay_ops
from mnemosyne.core.codec import from_plain, to_plain
from mnemosyne.core.errors import (
    CodecError,
    DamagedRecordError,
    SchemaValidationError,
    SessionExistsError,
    SessionNotFoundError,
    StateOpError,
)
from mnemosyne.core.faults import Fault
from mnemosyne.damage import note_of, without_lost
from mnemosyne.documents.document_trust import lower_claims
from mnemosyne.documents.shapes import raise_errors
from mnemosyne.protocols import Store
from mnemosyne.schema.document import Session, SessionDocument, ToolCall
from mnemosyne.schema.evidence import ContextBlock, Evidence
from mnemosyne.schema.memory import EMPTY, Chain, MemoryEntry, session_scope
from mnemosyne.schema.record import HiddenRecords, PathSummary, SessionStart, TurnCommit, TurnRecord
from mnemosyne.schema.session import SessionHead
from mnemosyne.schema.world import BARE_DIGEST
from mnemosyne.values import dataclass

TREE = "turn_tree"
"""Field of a document that contains the turn tree."""

TREE_FORMAT = 1
MAIN_BRANCH = "main"
_LIVED = (Chain.NARRATIVE, Chain.EVENT)
_ALL = 1_000_000_000
_BATCH = 1000
_NOTHING_SAID = "this branch has no messages yet, and a document needs at least one; name another branch"


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeBranch:
    """A branch, and the turn after which it was opened (None: before the first turn)."""

    branch_id: str
    after: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnTree:
    """All data of a session, except the messages of one branch.

    `active` is the id of the session's active branch. `turns` has all committed turns, and `entries` has the consolidated
    memories.
    """

    format: int
    world_id: str
    told: str
    """Id of the branch whose messages are in the document. (The name `told` is part of the stored format.)"""
    active: str
    locale: str = ""
    created_at: datetime | None = None
    state: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    """State before the first turn. The state after each turn follows from the ops of the turns, unless it is in `states`
    (by turn id).
    """
    branches: tuple[TreeBranch, ...] = ()
    """Branches. A branch comes after its parent, and so does a turn in `turns`."""
    turns: tuple[TurnRecord, ...] = ()
    states: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: EMPTY)
    entries: tuple[MemoryEntry, ...] = ()
    summaries: tuple[PathSummary, ...] = ()
    """Summaries of paths. `summaries` and `unsummed` have the same meaning as in `HiddenRecords`."""
    unsummed: tuple[str, ...] = ()
    pending: tuple[TurnRecord, ...] = ()
    """Prepared turns that wait for a reply."""
    abandoned: tuple[TurnRecord, ...] = ()
    """Turns that never got a reply."""
    has_pack: bool | None = None
    """Whether the session is in a world with a pack (None: not recorded)."""
    evidences: tuple[Evidence, ...] = ()
    """Evidence that only turns of other branches found. `tool_calls` and `blocks` also have only those of other branches."""
    tool_calls: tuple[ToolCall, ...] = ()
    blocks: tuple[ContextBlock, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportReport:
    """The result of an import. `left_out` has one sentence for each part that could not be written."""

    session_id: str
    branch_id: str
    version: int
    turns: int
    left_out: tuple[str, ...] = ()


async def export_session(
    store: Store, session_id: str, *, branch_id: str | None = None, linear: bool = False
) -> SessionDocument:
    """Return a session as one document with the messages of `branch_id` (None: the active branch).

    If not `linear`, the document contains the turn tree. The tree is left out if the session has only one branch and no world,
    for example after the import of a linear document.

    Raises:
    - SessionNotFoundError or BranchNotFoundError if the session or the branch does not exist.
    - SchemaValidationError if the branch has no messages, because a document needs at least one.
    """
    document = await store.get_session(session_id, branch_id=branch_id)
    if document is None:
        raise SessionNotFoundError(session_id)
    if not document.session.messages:
        raise SchemaValidationError((f"session.messages: {_NOTHING_SAID}",))
    extra = {name: value for name, value in document.extra.items() if name != TREE}
    if not linear:
        locale = document.meta.locale if document.meta is not None else ""
        created = document.meta.created_at if document.meta is not None else None
        tree = await read_tree(store, session_id, branch_id)
        if tree.world_id or len(tree.turns) > 1 or describe_tree(tree):
            tree = await _with_other_parts(store, session_id, tree, document)
            extra[TREE] = to_plain(replace(tree, locale=locale, created_at=created))
    return replace(document, extra=extra)


async def _with_other_parts(store: Store, session_id: str, tree: TurnTree, document: SessionDocument) -> TurnTree:
    """Return a tree with the evidence, tool calls and blocks of the session that are not in `document`."""
    known = {block.block_id for block in document.context_blocks}
    evidences = [each for each in await store.list_evidences(session_id) if each.evidence_id not in document.evidences]
    named = dict.fromkeys(each.links.tool_call_id for each in evidences if each.links.tool_call_id)
    calls = [await store.tool_call(session_id, name) for name in named]
    return replace(
        tree,
        evidences=tuple(evidences),
        tool_calls=tuple(each for each in calls if each is not None),
        blocks=tuple(e for e in await store.list_context_blocks(session_id) if e.block_id not in known),
    )


async def read_tree(store: Store, session_id: str, branch_id: str | None = None) -> TurnTree:
    """Return the turn tree of a session, for a document with the messages of `branch_id` (None: the active branch).

    Raises SessionNotFoundError or BranchNotFoundError if the session or the branch does not exist.
    """
    told = await store.head(session_id, branch_id)
    heads = await store.branches(session_id)
    paths = {head.branch_id: await store.turns(session_id, limit=_ALL, branch_id=head.branch_id) for head in heads}
    turns = {turn.turn_id: turn for path in paths.values() for turn in path}
    whole = [turn for turn_id in sorted(turns) if (turn := await _read_turn(store, session_id, turn_id)) is not None]
    states: dict[str, Mapping[str, Any]] = {}
    for head in heads:
        states.update(await _find_unexplained_states(store, head, paths[head.branch_id]))
    windows = [await store.window(session_id, message_limit=1, branch_id=head.branch_id) for head in heads]
    pending = [without_lost(window.pending) for window in windows if window.pending is not None]
    aside = await store.hidden_records(session_id)
    return TurnTree(
        format=TREE_FORMAT,
        world_id=told.world_id,
        told=told.branch_id,
        active=heads[0].branch_id,
        state=await _read_state(store, session_id, None) or {},
        branches=_order_branches(heads, paths),
        turns=tuple(sorted(whole, key=lambda turn: turn.depth)),
        states=dict(sorted(states.items())),
        entries=await _read_entries(store, session_id),
        summaries=aside.summaries,
        unsummed=aside.unsummed,
        pending=tuple(sorted(pending, key=lambda turn: turn.turn_id)),
        abandoned=tuple(map(without_lost, aside.abandoned)),
        has_pack=bool(told.world_id) and await store.world_digest(told.world_id) not in (None, BARE_DIGEST),
    )


async def _find_unexplained_states(
    store: Store, head: SessionHead, path: Sequence[TurnRecord]
) -> dict[str, Mapping[str, Any]]:
    """Return, by turn id, the states on a path that do not follow from the ops of its turns. Most paths have none."""
    session_id = head.session_id
    state: Mapping[str, Any] = await _read_state(store, session_id, None) or {}
    with suppress(StateOpError):
        ops = [op for turn in path for op in turn.ops]
        if replay_ops(state, ops) == await _read_state(store, session_id, head.turn_id):
            return {}
    states: dict[str, Mapping[str, Any]] = {}
    for turn in path:
        with suppress(StateOpError):
            state = replay_ops(state, turn.ops)
        found = await _read_state(store, session_id, turn.turn_id)
        if found is not None and state != found:
            states[turn.turn_id] = state = dict(found)
    return states


async def _read_turn(store: Store, session_id: str, turn_id: str) -> TurnRecord | None:
    """Return a turn without its damaged parts. If nothing of it can be read, record the damage and return None."""
    try:
        return without_lost(await store.turn(session_id, turn_id))
    except DamagedRecordError as error:
        store.damage_log.add(note_of(error, session_scope(session_id)))
        return None


async def _read_state(store: Store, session_id: str, turn_id: str | None) -> Mapping[str, Any] | None:
    """Return the state after a turn. If it cannot be rebuilt, record the damage and return None."""
    try:
        return await store.state_at(session_id, turn_id)
    except DamagedRecordError as error:
        effect = (
            f"The state after turn {turn_id!r} was left out"
            if turn_id
            else "The state before the first turn was left out"
        )
        store.damage_log.add(note_of(error, session_scope(session_id), effect))
        return None


def _order_branches(heads: Sequence[SessionHead], paths: Mapping[str, Sequence[TurnRecord]]) -> tuple[TreeBranch, ...]:
    """Return the branches, each after its parent."""
    made = []
    for head in heads:
        before = [turn for turn in paths[head.branch_id] if turn.branch_id != head.branch_id]
        made.append(
            (len(head.lineage), TreeBranch(branch_id=head.branch_id, after=before[-1].turn_id if before else None))
        )
    made.sort(key=lambda each: (each[1].branch_id != MAIN_BRANCH, each[0], each[1].branch_id))
    return tuple(branch for _, branch in made)


async def _read_entries(store: Store, session_id: str) -> tuple[MemoryEntry, ...]:
    found: list[MemoryEntry] = []
    for chain in _LIVED:
        sequence = 0
        while batch := await store.entries_after(session_scope(session_id), chain, sequence, _BATCH):
            found += [each.entry for each in batch if not each.deleted]
            sequence = batch[-1].sequence
    return tuple(found)


def describe_tree(tree: TurnTree) -> tuple[str, ...]:
    """Return a phrase for each kind of data in a turn tree except messages (`3 prompts with their receipts`)."""
    changes = sum(bool(turn.ops) for turn in tree.turns)
    papers = sum(turn.receipt is not None for turn in tree.turns)
    counts = (
        (len(tree.branches) - 1, "other branch", "other branches"),
        (len(tree.entries), "memory of the narrative and event chains", "memories of the narrative and event chains"),
        (changes, "turn that changed the state", "turns that changed the state"),
        (papers, "prompt with its receipt", "prompts with their receipts"),
        (len(tree.pending), "turn that waits for a reply", "turns that wait for a reply"),
        (len(tree.abandoned), "turn that never got a reply", "turns that never got a reply"),
    )
    told = tuple(f"{number} {one if number == 1 else many}" for number, one, many in counts if number > 0)
    return (*(["the state of the world"] if tree.state else []), *told)


def tree_faults(document: SessionDocument) -> tuple[Fault, ...]:
    """Return all faults of a document's turn tree, in order. The result is empty if the document has no turn tree."""
    return _read_tree(document)[1]


def _read_tree(document: SessionDocument) -> tuple[TurnTree | None, tuple[Fault, ...]]:
    told = document.extra.get(TREE)
    if told is None:
        return None, ()
    if isinstance(told, Mapping) and isinstance(told.get("format"), int) and told["format"] > TREE_FORMAT:
        what = f"is {told['format']}, written by a newer release; this one reads {TREE_FORMAT}"
        return None, (Fault(path=f"{TREE}.format", what=what, code="version"),)
    try:
        tree = from_plain(told, TurnTree)
    except CodecError as error:
        return None, (Fault(path=TREE, what=str(error), code="kind"),)
    return tree, _find_faults(tree)


def _find_faults(tree: TurnTree) -> tuple[Fault, ...]:
    faults = []
    branches = {branch.branch_id for branch in tree.branches}
    depths: dict[str | None, int] = {None: 0}
    for place, turn in enumerate(tree.turns):
        where = f"{TREE}.turns[{place}]"
        if turn.parent_id not in depths or turn.depth != depths[turn.parent_id] + 1:
            what = f"turn {turn.turn_id!r} at depth {turn.depth} does not follow {turn.parent_id!r}, or comes before it"
            faults.append(Fault(path=f"{where}.parent_id", what=what, code="dangling"))
        if turn.turn_id in depths:
            faults.append(Fault(path=f"{where}.turn_id", what=f"{turn.turn_id!r} occurs twice", code="duplicate"))
        if turn.branch_id not in branches:
            faults.append(
                Fault(path=f"{where}.branch_id", what=f"there is no branch {turn.branch_id!r}", code="dangling")
            )
        depths[turn.turn_id] = turn.depth
    for place, branch in enumerate(tree.branches):
        if branch.after not in depths:
            what = f"there is no turn {branch.after!r}"
            faults.append(Fault(path=f"{TREE}.branches[{place}].after", what=what, code="dangling"))
    for name, branch_id in (("told", tree.told), ("active", tree.active)):
        if branch_id not in branches:
            faults.append(Fault(path=f"{TREE}.{name}", what=f"there is no branch {branch_id!r}", code="dangling"))
    places = [(f"entries[{n}]", each.turn_id) for n, each in enumerate(tree.entries)]
    places += [(f"summaries[{n}]", each.turn_id) for n, each in enumerate(tree.summaries)]
    places += [(f"unsummed[{n}]", turn_id) for n, turn_id in enumerate(tree.unsummed)]
    for where, turn_id in places:
        if turn_id not in depths:
            faults.append(Fault(path=f"{TREE}.{where}.turn_id", what=f"there is no turn {turn_id!r}", code="dangling"))
    for part, turns in (("pending", tree.pending), ("abandoned", tree.abandoned)):
        for place, turn in enumerate(turns):
            if turn.branch_id not in branches:
                what = f"there is no branch {turn.branch_id!r}"
                faults.append(Fault(path=f"{TREE}.{part}[{place}].branch_id", what=what, code="dangling"))
    return tuple(faults)


async def import_session(store: Store, document: SessionDocument, *, session_id: str | None = None) -> ImportReport:
    """Write a document with its turn tree to a store, as the session `session_id` (None: the id in the document).

    The whole tree is written if the session does not exist, or has only turns of this tree after an interrupted import.
    If the session has turns of its own, only the messages of the document are written, and the session's different
    messages stay on a branch. Raises SchemaValidationError with every fault of the tree, and writes nothing then.
    """
    name = session_id or document.session.session_id
    tree, faults = _read_tree(document)
    raise_errors(faults)
    bare = replace(
        document,
        session=replace(document.session, session_id=name),
        extra={key: value for key, value in document.extra.items() if key != TREE},
    )
    left_out: tuple[str, ...] = ()
    if tree is not None and not await _begin_session(store, name, tree):
        left_out = ("The turn tree was left out: the session exists already and has turns of its own.",)
        tree = None
    bare = lower_claims(bare)
    if tree is None:
        result = await store.put_session(name, bare)
        head = await store.head(name)
        return ImportReport(
            session_id=name, branch_id=head.branch_id, version=result.version, turns=head.depth, left_out=left_out
        )
    await _write_tree(store, name, tree)
    await store.switch(name, tree.told)
    await _write_other_parts(store, name, tree)
    await store.put_session(name, _without_waiting(bare, tree))
    for turn in tree.pending:
        head = await store.head(name, turn.branch_id)
        await store.save_prepared(replace(turn, session_id=name), expected_version=head.version)
    head = await store.switch(name, tree.active)
    return ImportReport(session_id=name, branch_id=head.branch_id, version=head.version, turns=len(tree.turns))


async def _write_other_parts(store: Store, name: str, tree: TurnTree) -> None:
    lowered = lower_claims(
        SessionDocument(
            session=Session(session_id=name),
            evidences={each.evidence_id: each for each in tree.evidences},
            context_blocks=tree.blocks,
        )
    )
    for evidence in lowered.evidences.values():
        await store.put_evidence(name, evidence)
    await store.append_tool_calls(name, tree.tool_calls)
    cited = {ref.evidence_id for block in lowered.context_blocks for ref in block.refs if not ref.remote}
    if cited <= lowered.evidences.keys():
        await store.put_context_blocks(name, lowered.context_blocks)


def _without_waiting(document: SessionDocument, tree: TurnTree) -> SessionDocument:
    """Return a document without the messages of the waiting turn on its branch, because that turn is written as a turn."""
    waiting = tuple(each for turn in tree.pending if turn.branch_id == tree.told for each in turn.messages)
    said = document.session.messages
    if not waiting or said[-len(waiting) :] != waiting:
        return document
    return replace(document, session=replace(document.session, messages=said[: -len(waiting)]))


async def _begin_session(store: Store, name: str, tree: TurnTree) -> bool:
    """Create the session and return True. If it exists already, return whether it is a part of this tree.

    A document does not contain the pack of its world. If the store does not have the pack either, it is recorded as
    missing.
    """
    # An older tree does not record it; but then only a pack can have given the session its first state.
    needs_pack = bool(tree.state) if tree.has_pack is None else tree.has_pack
    if tree.world_id and needs_pack and await store.world_digest(tree.world_id) is None:
        await store.replace_world(tree.world_id, "", ())
    start = SessionStart(
        session_id=name,
        world_id=tree.world_id,
        locale=tree.locale,
        state=tree.state,
        entries=tuple(_entry_of(name, entry) for entry in tree.entries if entry.turn_id is None),
        at=tree.created_at,
    )
    try:
        await store.create_session(start)
    except SessionExistsError:
        ours = {(turn.turn_id, turn.branch_id, turn.depth) for turn in tree.turns}
        for head in await store.branches(name):
            path = await store.turns(name, limit=_ALL, branch_id=head.branch_id)
            if head.world_id != tree.world_id or not {(t.turn_id, t.branch_id, t.depth) for t in path} <= ours:
                return False
    return True


async def _write_tree(store: Store, name: str, tree: TurnTree) -> None:
    """Write branches, turns, memories and summaries. Existing ones are skipped."""
    known = {head.branch_id for head in await store.branches(name)}
    waiting = list(tree.branches)
    grown: set[str | None] = {None}
    while waiting:
        ready = next((branch for branch in waiting if branch.after in grown), waiting[0])
        waiting.remove(ready)
        if ready.branch_id not in known:
            await store.fork(name, ready.after, ready.branch_id)
        for turn in tree.turns:
            if turn.branch_id == ready.branch_id:
                await _write_turn(store, replace(turn, session_id=name), tree.states.get(turn.turn_id))
                grown.add(turn.turn_id)
    placed = [_entry_of(name, entry) for entry in tree.entries if entry.turn_id is not None]
    await store.append_entries(name, placed)
    aside = HiddenRecords(
        abandoned=tuple(replace(turn, session_id=name) for turn in tree.abandoned),
        summaries=tree.summaries,
        unsummed=tree.unsummed,
    )
    await store.save_hidden_records(name, aside)


async def _write_turn(store: Store, turn: TurnRecord, state: Mapping[str, Any] | None) -> None:
    head = await store.head(turn.session_id, turn.branch_id)
    if turn.depth <= head.depth:
        return
    saved = await store.save_prepared(replace(turn, ops=(), report=None), expected_version=head.version)
    commit = TurnCommit(turn_id=turn.turn_id, messages=(), ops=turn.ops, state=state, report=turn.report)
    await store.commit_turn(turn.session_id, commit, expected_version=saved.version)


def _entry_of(name: str, entry: MemoryEntry) -> MemoryEntry:
    return replace(entry, scope=session_scope(name))

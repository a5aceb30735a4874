"""Protocol that every store of sessions implements.

It is long because a store is one contract. It must not import another module of protocols.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from mnemosyne.core.errors import DamagedRecordError, SessionNotFoundError, TurnNotFoundError
from mnemosyne.damage import DamageLog, note_of
from mnemosyne.schema.document import ModelUsage, SessionDocument, Task, ToolCall
from mnemosyne.schema.erasure import AuditRecord, Erasure, ErasureOutcome, ErasurePreview, StoredRow
from mnemosyne.schema.evidence import ContextBlock, Evidence
from mnemosyne.schema.memory import Chain, MemoryEntry, session_scope, world_scope
from mnemosyne.schema.query import BlockFilter, EvidenceFilter
from mnemosyne.schema.record import (
    ChosenInputs,
    HiddenRecords,
    ImportedBranch,
    ImportedTurn,
    PathSummary,
    Prefetch,
    PutResult,
    SequencedEntry,
    SessionStart,
    SessionWindow,
    TurnCommit,
    TurnInputs,
    TurnRecord,
)
from mnemosyne.schema.replies import AddedChunk, ChunkLimits, ReplyChunk, UnfinishedReply
from mnemosyne.schema.session import Message, Role, SessionHead, TurnStatus

_PAGE = 200


class Store(Protocol):
    """Stores the sessions of one tenant. Every method is one transaction, run off the event loop.

    1. Data that a method has written when it returns survives a kill of the process.
    2. A method that raises has changed nothing.
    3. A write with a stale `expected_version` raises VersionConflictError.
    4. The same turn id written twice is written once; the second call returns the result of the first.
    5. The cost of a window does not grow with the length of the session.
    6. Only committed turns on the path to the head are ever in a window or a listing of a branch.
    7. Several processes may use one store at once: writes to a session happen one after the other, and none is lost.
    8. Tenants never see each other.
    9. A session document and the turn tree are two views of the same data: a write to one shows in the other.
    10. Lore and pack of a world belong to one version: `replace_world` writes both or neither.

    Every method that names a session raises SessionNotFoundError for an unknown one, unless its docstring states
    otherwise; every method may raise StoreUnavailableError (the store cannot be used or is closed), StoreBusyError
    (another process holds a lock too long) and DamagedRecordError (a stored record cannot be read). A damaged record
    affects only itself: a read of many records skips it and notes it in `damage_log`; a damaged part of a turn's record
    is a `LostTree`.

    Methods with a body read or write by the other methods; a store may do it faster in one transaction.
    """

    @property
    def damage_log(self) -> DamageLog:
        """Return the notes on damaged records that the reads of this instance have skipped; a store without a log has
        no notes.
        """
        return DamageLog()

    async def file_faults(self) -> tuple[str, ...]:
        """Return sentences on faults of the store's own files and indexes, beyond its records; empty if it has no such
        check. It may read everything.
        """
        return ()

    async def close(self) -> None:
        """Release files and threads; later calls may raise StoreUnavailableError. A second call does nothing."""
        ...

    async def create_session(self, start: SessionStart) -> SessionHead:
        """Create a session with all its initial data; SessionExistsError if there is one with this id."""
        ...

    async def adopt_world(
        self,
        session_id: str,
        world_id: str,
        locale: str,
        state: Mapping[str, Any],
        *,
        instead_of: Collection[str] = ("",),
    ) -> SessionHead:
        """Move a session from one of the worlds `instead_of` (`""`: from none) to another, as if it had begun there.

        Its state becomes `state` on every branch, before the first turn and since. A session of `world_id` is not
        changed.

        Raises:
            WorldNotAdoptedError: if it is in any other world, or if a turn has changed its state.
        """
        ...

    async def append_turns(
        self,
        session_id: str,
        turns: Sequence[ImportedTurn],
        entries: Sequence[MemoryEntry] = (),
        *,
        branch_id: str | None = None,
    ) -> SessionHead:
        """Commit finished turns after the head of the active branch, or of `branch_id` (for imports), and return that head;
        turns whose ids exist already are skipped. BranchNotFoundError.

        A pending turn that is not among them is committed before them, without a reply. The active branch stays.
        """
        ...

    async def add_branches(self, session_id: str, branches: Sequence[ImportedBranch]) -> int:
        """Open branches with finished turns, all at once, and return how many were new; the active branch stays.

        An existing branch is skipped, and so are turns whose ids exist. A branch may follow a turn of one before it.

        Raises:
            TurnNotFoundError: if the turn to follow is not committed.
            ValueError: for an empty name.
        """
        known = await self.branches(session_id)
        names, active, new = {head.branch_id for head in known}, known[0].branch_id, 0
        for branch in branches:
            if branch.branch_id not in names:
                await self.fork(session_id, branch.after, branch.branch_id)
                await self.append_turns(session_id, branch.turns)
                names.add(branch.branch_id)
                new += 1
        if new:
            await self.switch(session_id, active)
        return new

    async def committed_turns(self, session_id: str, turn_ids: Sequence[str]) -> frozenset[str]:
        """Return the ids among these that belong to committed turns, on any branch."""
        found: set[str] = set()
        for turn_id in turn_ids:
            with suppress(TurnNotFoundError):
                if (await self.turn(session_id, turn_id)).status is TurnStatus.COMMITTED:
                    found.add(turn_id)
        return frozenset(found)

    async def sessions(self) -> tuple[str, ...]:
        """Return all session ids, sorted."""
        ...

    async def find_exchanges(self, digests: Sequence[str]) -> frozenset[tuple[str, str]]:
        """Return each of these digests (`mnemosyne.chains.messages.exchanges`) with the sessions that have it on any
        branch; if many have it, some of them.

        Archived sessions have none, and sessions after an erasure only newer ones. A store without such an index finds
        none.
        """
        return frozenset()

    async def head(self, session_id: str, branch_id: str | None = None) -> SessionHead:
        """Return the head of the active branch, or of `branch_id`; SessionNotFoundError, BranchNotFoundError."""
        ...

    async def window(self, session_id: str, *, message_limit: int, branch_id: str | None = None) -> SessionWindow:
        """Return the data for a turn: head, newest messages (at most `message_limit`, oldest first), state, the
        previous and the pending turn. SessionNotFoundError, BranchNotFoundError.
        """
        ...

    async def turn_inputs(
        self,
        session_id: str,
        *,
        message_limit: int,
        branch_id: str | None = None,
        evidences: Sequence[EvidenceFilter] = (),
        blocks: BlockFilter | None = None,
    ) -> TurnInputs:
        """Return everything that a turn reads when it begins: the window as `window` returns it, the evidence items
        that pass each filter, the context blocks that pass, and the entries with viewers or conditions of the session
        and its world.

        SessionNotFoundError, BranchNotFoundError.
        """
        window = await self.window(session_id, message_limit=message_limit, branch_id=branch_id)
        return TurnInputs(
            window=window,
            evidences=tuple(
                [await self.list_evidences(session_id, where.on_branch(window.head.branch_id)) for where in evidences]
            ),
            blocks=await self.list_context_blocks(session_id, blocks),
            gated=await self.gated_entries((world_scope(window.head.world_id), session_scope(session_id))),
        )

    async def chosen_inputs(
        self,
        session_id: str,
        entry_ids: Mapping[str, Sequence[str]],
        *,
        evidence_ids: Collection[str] = (),
        turn_ids: Sequence[str] = (),
    ) -> ChosenInputs:
        """Return the data of the memories that a turn chose: their entries by scope, the evidence items with some ids,
        and the states after some turns.

        Missing records are left out; so is a state that cannot be read, which is noted in `damage_log`.
        """
        states: dict[str, Mapping[str, Any]] = {}
        for turn_id in turn_ids:
            try:
                states[turn_id] = await self.state_at(session_id, turn_id)
            except TurnNotFoundError:
                continue
            except DamagedRecordError as error:
                self.damage_log.add(note_of(error, session_scope(session_id)))
        where = EvidenceFilter(evidence_ids=frozenset(evidence_ids))
        return ChosenInputs(
            entries={scope: await self.entries(scope, ids) for scope, ids in entry_ids.items()},
            evidences=await self.list_evidences(session_id, where) if evidence_ids else (),
            states=states,
        )

    async def save_prepared(
        self,
        record: TurnRecord,
        *,
        expected_version: int,
        evidences: Sequence[Evidence] = (),
        blocks: Sequence[ContextBlock] = (),
        usages: Sequence[ModelUsage] = (),
    ) -> SessionHead:
        """Write a prepared turn (user message, plan, receipt, prompt) at once; it becomes the pending turn of its head.

        A turn that follows the pending turn of the head (its `parent_id`) commits that one first, without a reply and
        with its messages marked as unanswered (`mnemosyne.chains.unanswered_inputs`). A turn that follows the head
        itself takes the place of an older pending turn, which is marked abandoned, unless it is the same turn, which is
        replaced.

        Args:
            evidences: Parts of the turn's prompt, like `blocks`; written or replaced by id in the same transaction.
            usages: The model calls that made the prompt.

        Raises:
            VersionConflictError: if the session has another version.
            ValueError: if the turn follows neither the head nor its pending turn.
        """
        ...

    async def commit_turn(self, session_id: str, commit: TurnCommit, *, expected_version: int) -> SessionHead:
        """Commit a prepared turn: reply, ops, state and entries at once. The head moves to it.

        A turn that is committed already returns its head.

        Raises:
            TurnNotFoundError: if there is no such turn.
            TurnNotPendingError: if it was abandoned or committed without a reply.
            VersionConflictError: if the session has another version.
        """
        ...

    async def commit_numerical(
        self,
        record: TurnRecord,
        state: Mapping[str, Any],
        *,
        expected_version: int,
        evidences: Sequence[Evidence] = (),
        blocks: Sequence[ContextBlock] = (),
        usages: Sequence[ModelUsage] = (),
    ) -> SessionHead:
        """Write and commit a numerical turn in one step; a pending turn is treated as by `save_prepared`.
        VersionConflictError; ValueError when the turn follows neither the head nor its pending turn.
        """
        ...

    async def turn(self, session_id: str, turn_id: str) -> TurnRecord:
        """Return one turn with all its stored data; TurnNotFoundError."""
        ...

    async def turns(
        self, session_id: str, *, limit: int, branch_id: str | None = None, before_depth: int | None = None
    ) -> tuple[TurnRecord, ...]:
        """Return at most `limit` of the newest committed turns on the path to the head (before `before_depth`, if
        given), oldest first, without prompt, receipt and report. BranchNotFoundError.
        """
        ...

    async def depths_with_system_messages(
        self, session_id: str, *, branch_id: str | None = None, after_depth: int = 0
    ) -> tuple[int, ...]:
        """Return the depths of the committed turns on a branch's path, below `after_depth`, that have a system message;
        ascending.

        SessionNotFoundError, BranchNotFoundError.
        """
        head, found, before = await self.head(session_id, branch_id), list[int](), None
        while page := await self.turns(session_id, limit=_PAGE, branch_id=head.branch_id, before_depth=before):
            found += [each.depth for each in page if any(message.role is Role.SYSTEM for message in each.messages)]
            before = page[0].depth
            if before <= after_depth + 1:
                break
        return tuple(sorted(depth for depth in found if depth > after_depth))

    async def branches(self, session_id: str) -> tuple[SessionHead, ...]:
        """Return the head of every branch, the active one first, the others in the order in which they were opened."""
        ...

    async def fork(self, session_id: str, turn_id: str | None, branch_id: str) -> SessionHead:
        """Open a branch whose head is `turn_id` (None: before the first turn) and make it the active one.

        BranchExistsError; TurnNotFoundError, also for a turn that is not committed; ValueError for an empty name.
        """
        ...

    async def switch(self, session_id: str, branch_id: str) -> SessionHead:
        """Make another branch the active one; BranchNotFoundError."""
        ...

    async def state_at(self, session_id: str, turn_id: str | None) -> Mapping[str, Any]:
        """Return the state after a committed turn (None: before the first); TurnNotFoundError."""
        ...

    async def add_chunk(self, session_id: str, chunk: ReplyChunk, limits: ChunkLimits) -> AddedChunk:
        """Add a chunk to an unfinished reply. The version of the session does not change; nothing is added for an outcome other
        than ADDED.

        Chunks may come in any order. NoPendingTurnError, TurnNotFoundError.
        """
        ...

    async def unfinished_reply(self, session_id: str, turn_id: str | None, message_id: str) -> UnfinishedReply | None:
        """Return a reply that is not complete yet, or None.

        `turn_id` None is the only turn with chunks for this message, else the pending turn of the active branch.
        """
        ...

    async def drop_unfinished(self, session_id: str, turn_id: str | None, message_id: str) -> int:
        """Delete the chunks of a reply; return their number. `turn_id` as for `unfinished_reply`."""
        ...

    async def save_prefetch(self, session_id: str, prefetch: Prefetch | None) -> None:
        """Store a late result for the next turn of its branch (one per branch); None deletes those of the session."""
        ...

    async def replace_world(
        self, world_id: str, digest: str, lore: Sequence[MemoryEntry], pack: Mapping[str, Any] | None = None
    ) -> int:
        """Make a version of a world the current one, lore and pack at once; return how many lore entries were added,
        changed or removed.

        `pack` is a JSON value that is stored under its digest; the previous version is deleted. The same digest with
        the same pack, or without one, changes nothing (0). Another digest without a pack leaves the world without one.
        ValueError for an entry that occurs twice or has another scope.
        """
        ...

    async def worlds(self) -> Mapping[str, str]:
        """Return the digest of the current version of every world, by world id, sorted."""
        ...

    async def world_digest(self, world_id: str) -> str | None:
        """Return the digest of the current version of a world: '' if its pack is known to be missing, None if there is
        no such world.
        """
        ...

    async def pack(self, world_id: str, digest: str) -> Mapping[str, Any] | None:
        """Return the stored pack of this version of a world, or None."""
        ...

    async def entries(self, scope: str, entry_ids: Sequence[str]) -> tuple[MemoryEntry, ...]:
        """Return complete entries in the order of `entry_ids`; unknown ids are left out. History entries are messages."""
        ...

    async def gated_entries(self, scopes: Sequence[str]) -> tuple[MemoryEntry, ...]:
        """Return the entries of these scopes that have viewers or conditions, ordered by id."""
        ...

    async def entries_after(self, scope: str, chain: Chain, sequence: int, limit: int) -> tuple[SequencedEntry, ...]:
        """Return at most `limit` entries of committed turns (or lore) written after `sequence`, in the order of
        writing.
        """
        ...

    async def chains_written_after(self, after: Mapping[tuple[str, Chain], int]) -> frozenset[tuple[str, Chain]]:
        """Return the given (scope, chain) pairs in which something was written after their sequence."""
        ...

    async def append_entries(self, session_id: str, entries: Sequence[MemoryEntry]) -> int:
        """Add entries that were made after their turn was committed (summaries, events of consolidation); return how
        many were new.

        Each names a committed turn by `turn_id`, whose branch and depth it takes. Existing entries are skipped; an
        entry with an empty text is removed. A passage of a document (kind `document`) that names no turn belongs to the
        session from its beginning, on all branches; written again with another content it replaces the former. The
        version does not change.

        Raises:
            TurnNotFoundError: for an unknown turn.
            ValueError: for any other entry without a turn, or one of another scope.
        """
        ...

    async def save_summary(self, session_id: str, summary: PathSummary) -> None:
        """Store a rolling summary of a committed turn's path (one per turn, the last counts). The version does not
        change. TurnNotFoundError.
        """
        ...

    async def hidden_records(self, session_id: str) -> HiddenRecords:
        """Return the records that no window shows: abandoned turns with all their data, and every rolling summary."""
        ...

    async def save_hidden_records(self, session_id: str, hidden: HiddenRecords) -> None:
        """Write the hidden records of a session that was copied from another store. The version does not change.

        Turns whose id exists already are skipped; a summary replaces the one of its turn. BranchNotFoundError,
        TurnNotFoundError.
        """
        ...

    async def get_session(self, session_id: str, *, branch_id: str | None = None) -> SessionDocument | None:
        """Return the whole session as a document with its version, or None if there is no session. BranchNotFoundError.

        Its messages are those on the path to the head and of its pending turn; so are evidence found by turns, tool
        calls, and blocks that refer to such evidence.
        """
        ...

    async def put_session(
        self, session_id: str, document: SessionDocument, *, expected_version: int | None = None
    ) -> PutResult:
        """Write a whole document; a session that does not exist is created (without a world; `expected_version` 0 or
        None).

        Messages that continue the head's are appended as one turn. If an older message differs, or newer ones are left
        out, the document becomes a new branch after the last complete turn that both share: no message is lost.
        Everything else is replaced by the document's, except evidence that only turns of other branches found. A
        pending turn of the head stays if the document's messages are those of `get_session`, and is abandoned
        otherwise.

        Raises:
            VersionConflictError: if the session has another version.
            SchemaValidationError: for another `session_id`, a duplicate id, or a ref that is not remote and leads to no
                evidence of the
            document.
            CodecError: for a time without a zone.
        """
        ...

    async def append_messages(
        self,
        session_id: str,
        messages: Sequence[Message],
        *,
        idempotency_key: str | None = None,
        expected_version: int | None = None,
    ) -> PutResult:
        """Commit messages as one turn after the active head; a key that was used before writes nothing. A pending turn
        is committed before them, without a reply.

        Without a key each call is a new turn.

        Raises:
            SessionNotFoundError: if there is no such session.
            VersionConflictError: if the session has another version.
            SchemaValidationError: for a ref to evidence that the session does not have, unless it is remote.
        """
        ...

    async def patch_session(
        self, session_id: str, patch: Mapping[str, Any], *, expected_version: int | None = None
    ) -> PutResult:
        """Apply a JSON merge patch (RFC 7386) to the document, by its JSON names; the result is checked before anything
        is written.

        SchemaValidationError if the result is not a document of this session; VersionConflictError.
        """
        ...

    async def put_evidence(self, session_id: str, evidence: Evidence) -> str:
        """Write or replace an evidence item and return its id; the same item again changes nothing. CodecError for a
        time without a zone.
        """
        ...

    async def get_evidence(self, session_id: str, evidence_id: str) -> Evidence | None:
        """Return an evidence item, or None."""
        ...

    async def find_evidence(self, session_id: str, *, uri: str, content_hash: str) -> Evidence | None:
        """Return the oldest evidence item with this source uri and content hash, or None (for deduplication)."""
        ...

    async def list_evidences(self, session_id: str, where: EvidenceFilter | None = None) -> tuple[Evidence, ...]:
        """Return evidence items in the order of first writing; BranchNotFoundError."""
        ...

    async def put_context_blocks(
        self, session_id: str, blocks: Sequence[ContextBlock], *, expected_version: int | None = None
    ) -> PutResult:
        """Write or replace blocks by id; VersionConflictError; SchemaValidationError for a ref to evidence that the
        session does not have, unless it is remote.
        """
        ...

    async def list_context_blocks(self, session_id: str, where: BlockFilter | None = None) -> tuple[ContextBlock, ...]:
        """Return blocks in the order of first writing."""
        ...

    async def append_tool_calls(
        self, session_id: str, tool_calls: Sequence[ToolCall], *, expected_version: int | None = None
    ) -> PutResult:
        """Append tool calls; one with an existing id replaces the old one in its place (a call that has ended).
        VersionConflictError.
        """
        ...

    async def tool_call(self, session_id: str, tool_call_id: str) -> ToolCall | None:
        """Return a tool call, or None."""
        document = await self.get_session(session_id)
        if document is None:
            raise SessionNotFoundError(session_id)
        calls = () if document.session.tool_state is None else document.session.tool_state.tool_calls
        return next((call for call in calls if call.tool_call_id == tool_call_id), None)

    async def append_model_usage(
        self, session_id: str, usages: Sequence[ModelUsage], *, expected_version: int | None = None
    ) -> PutResult:
        """Append model calls; one with an existing id replaces the old one in its place. VersionConflictError."""
        ...

    async def upsert_tasks(
        self, session_id: str, tasks: Sequence[Task], *, expected_version: int | None = None
    ) -> PutResult:
        """Write or replace tasks by id, new ones at the end; VersionConflictError."""
        ...

    async def erase(self, erasure: Erasure) -> ErasureOutcome:
        """Erase in one transaction, everywhere in the store, and leave an audit record; an unknown subject is allowed.
        ValueError unless the erasure names exactly one subject.

        Copies of an erased memory in other sessions (`copied_from`) are erased too, with their text.
        """
        ...

    async def audits(self) -> tuple[AuditRecord, ...]:
        """Return the audit records, oldest first."""
        ...

    async def preview_erasure(self, erasure: Erasure) -> ErasurePreview:
        """Return what `erase` would remove; nothing is changed. ValueError unless the erasure names exactly one subject."""
        ...

    async def walk_rows(
        self,
        visit: Callable[[StoredRow], bool],
        *,
        sessions: Collection[str] | None = None,
        without: Collection[str] = (),
        likely: Callable[[bytes], bool] | None = None,
    ) -> None:
        """Call `visit` with every row, until it returns False.

        Args:
            visit: Called in another thread, on one state of the store; it must not write.
            sessions: Only rows of these sessions (None: everything).
            without: No rows of these sessions.
            likely: Returns whether raw bytes may contain the wanted text; a store may skip rows that do not.
        """
        ...

    async def find_text(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Return the places (`table/key`, `packs/…` in a world pack; sorted) that contain any of these texts, by the
        rule of `mnemosyne.privacy.runs`, after a search through everything that is stored.
        """
        ...


_COMBINED = ("turn_inputs", "chosen_inputs", "depths_with_system_messages")


def combined_reads(store: Store) -> type[Store]:
    """Return the class whose `turn_inputs`, `chosen_inputs` and `depths_with_system_messages` fit a store.

    It is the store's own class, if it defines or inherits them, else `Store`, whose methods call the store's single
    methods: so the overrides of a wrapper that passes all other calls on count.
    """
    return type(store) if all(hasattr(type(store), name) for name in _COMBINED) else Store

"""Defines the protocol that every store of sessions implements: turns, branches, memory entries, evidence, worlds, erasure.

A session is a tree of turns. A branch is a path through the tree, and its head is the newest committed turn on the
path. A turn is pending once its prompt is prepared, and committed once its reply is stored. A window is the part of a
branch that a turn reads. A scope is one session or one world, and a chain is one kind of memory entries in a scope.

The protocol is long because a store is one contract. This module must not import another module of protocols.
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
from mnemosyne.schema.session import Message, Role, SessionHead, SessionOutline, TurnStatus

_PAGE = 200


class Store(Protocol):
    """Stores the sessions of one tenant. Every method is one transaction, run off the event loop.

    1. Data that a method has written when it returns survives a kill of the process.
    2. A method that raises has changed nothing.
    3. A write whose `expected_version` is not the session's version raises VersionConflictError.
    4. The same turn id written twice is written once; the second call returns the result of the first.
    5. The cost of a window does not grow with the length of the session.
    6. A window, or a list of the turns of a branch, contains only committed turns on the path to the head.
    7. Several processes may use one store at once: writes to a session happen one after the other, and none is lost.
    8. Tenants never see each other.
    9. A session document and the turn tree are two views of the same data: a write to one shows in the other.
    10. The lore and the pack of a world belong to one version: `replace_world` writes both or neither.

    Every method that names a session raises SessionNotFoundError for an unknown session, unless its docstring states
    otherwise. Every method may raise these errors:

    - StoreUnavailableError: the store cannot be used or is closed.
    - StoreBusyError: another process holds a lock too long.
    - DamagedRecordError: a stored record cannot be read.

    A damaged record affects only itself: a read of many records skips the record and notes it in `damage_log`. A
    damaged part of a turn's record is returned as a `LostTree`.

    Methods with a body here call other methods of the protocol. A store may override them to do the same faster, in
    one transaction.
    """

    @property
    def damage_log(self) -> DamageLog:
        """Return the notes on damaged records that the reads of this instance have skipped. A store without a log has
        no notes.
        """
        return DamageLog()

    async def file_faults(self) -> tuple[str, ...]:
        """Return one sentence for each fault of the store's own files and indexes, apart from its records.

        The result is empty if the store has no such check. The check may read everything.
        """
        return ()

    async def close(self) -> None:
        """Release files and threads. A second call does nothing. After it, other methods may raise StoreUnavailableError."""
        ...

    async def create_session(self, start: SessionStart) -> SessionHead:
        """Create a session with all its initial data. Raises SessionExistsError if there is already a session with this id."""
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
        """Move a session to the world `world_id`, as if the session had begun there. The session must be in one of
        the worlds `instead_of` (`""`: in none).

        The state of the session becomes `state` on every branch, before the first turn and since. A session that is
        already in `world_id` is not changed.

        Raises:
            WorldNotAdoptedError: if the session is in any other world, or if a turn has changed its state.
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
        """Commit finished turns after the head of the branch `branch_id` (None: the active branch), and return the new head. This
        is meant for imports.

        Turns whose ids exist already are skipped. A pending turn that is not among `turns` is committed before them,
        without a reply. The active branch stays active. Raises BranchNotFoundError if there is no branch `branch_id`.
        """
        ...

    async def add_branches(self, session_id: str, branches: Sequence[ImportedBranch]) -> int:
        """Open branches with finished turns, all at once, and return how many branches were new. The active branch
        stays active.

        A branch that exists already is skipped, and so are turns whose ids exist. A branch may follow a turn of an
        earlier branch in `branches`.

        Raises:
            TurnNotFoundError: if the turn that a branch follows is not committed.
            ValueError: for an empty branch name.
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
        """Return the ids in `turn_ids` that belong to committed turns, on any branch."""
        found: set[str] = set()
        for turn_id in turn_ids:
            with suppress(TurnNotFoundError):
                if (await self.turn(session_id, turn_id)).status is TurnStatus.COMMITTED:
                    found.add(turn_id)
        return frozenset(found)

    async def sessions(self) -> tuple[str, ...]:
        """Return all session ids, sorted."""
        ...

    async def sessions_by_time(self) -> tuple[str, ...]:
        """Return all session ids, the session with the newest turn first. Archived sessions come last. A store that does not know
        the order returns them sorted by id.
        """
        return await self.sessions()

    async def outlines(self) -> tuple[SessionOutline, ...]:
        """Return an outline of each session, sorted by id. No archived session is opened.

        A store without an index of sessions returns only their ids.
        """
        return tuple(SessionOutline(session_id=name) for name in await self.sessions())

    async def find_exchanges(self, digests: Sequence[str]) -> frozenset[tuple[str, str]]:
        """Return pairs (digest, session id) for the sessions that contain one of `digests`, on any branch.

        A digest identifies a reply or a user message; `mnemosyne.chains.messages.exchanges` computes it. If many
        sessions contain a digest, only some are returned. Archived sessions are not found. In a session after an
        erasure, only newer messages are found. A store without an index of digests returns nothing.
        """
        return frozenset()

    async def head(self, session_id: str, branch_id: str | None = None) -> SessionHead:
        """Return the head of the branch `branch_id` (None: the active branch).

        Raises:
            SessionNotFoundError: if there is no such session.
            BranchNotFoundError: if there is no branch `branch_id`.
        """
        ...

    async def window(self, session_id: str, *, message_limit: int, branch_id: str | None = None) -> SessionWindow:
        """Return the part of a branch that a turn reads: the head, the newest messages, the state, the previous turn
        and the pending turn. There are at most `message_limit` messages, oldest first.

        Raises:
            SessionNotFoundError: if there is no such session.
            BranchNotFoundError: if there is no branch `branch_id`.
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
        """Return everything that a turn reads when it begins:

        - the window, as `window` returns it,
        - for each filter in `evidences`, the evidence items that pass it,
        - the context blocks that pass `blocks`,
        - the entries of the session and of its world that have viewers or conditions.

        Raises:
            SessionNotFoundError: if there is no such session.
            BranchNotFoundError: if there is no branch `branch_id`.
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
        """Return the data of the memories that a turn chose: the entries `entry_ids` of each scope, the evidence
        items `evidence_ids`, and the states after `turn_ids`.

        Missing records are left out. A state that cannot be read is left out too, and noted in `damage_log`.
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
        """Write a prepared turn (user message, plan, receipt, prompt) at once. The turn becomes the pending turn of
        its head.

        A turn may follow the pending turn of the head (its `parent_id`). Then the pending turn is committed first,
        without a reply, and its messages are marked as unanswered (`mnemosyne.chains.unanswered_inputs`). A turn that
        follows the head itself takes the place of an older pending turn. The older turn is marked abandoned, or
        replaced if it has the same id.

        Args:
            evidences: Parts of the turn's prompt, like `blocks`. Both are written, or replaced by id, in the same
                transaction.
            usages: The model calls that made the prompt.

        Raises:
            VersionConflictError: if the session has another version.
            ValueError: if the turn follows neither the head nor its pending turn.
        """
        ...

    async def commit_turn(self, session_id: str, commit: TurnCommit, *, expected_version: int) -> SessionHead:
        """Commit a prepared turn: write its reply, ops (changes of the state), state and entries at once. Return the new head,
        which is at this turn.

        If the turn is committed already, nothing is written, and the head is returned.

        Raises:
            TurnNotFoundError: if there is no such turn.
            TurnNotPendingError: if the turn was abandoned or committed without a reply.
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
        """Write and commit a numerical turn, which changes the state without a model, in one step. A pending turn is
        treated as by `save_prepared`.

        Raises:
            VersionConflictError: if the session has another version.
            ValueError: if the turn follows neither the head nor its pending turn.
        """
        ...

    async def turn(self, session_id: str, turn_id: str) -> TurnRecord:
        """Return one turn with all its stored data. Raises TurnNotFoundError if there is no such turn."""
        ...

    async def turns(
        self, session_id: str, *, limit: int, branch_id: str | None = None, before_depth: int | None = None
    ) -> tuple[TurnRecord, ...]:
        """Return at most `limit` of the newest committed turns on the path to the head, oldest first.

        If `before_depth` is not None, only turns of a smaller depth are returned. Prompt, receipt and report are left out.
        Raises BranchNotFoundError if there is no branch `branch_id`.
        """
        ...

    async def depths_with_system_messages(
        self, session_id: str, *, branch_id: str | None = None, after_depth: int = 0
    ) -> tuple[int, ...]:
        """Return the depths of the committed turns on a branch's path that have a system message, ascending. Only
        depths greater than `after_depth` are returned.

        Raises:
            SessionNotFoundError: if there is no such session.
            BranchNotFoundError: if there is no branch `branch_id`.
        """
        head, found, before = await self.head(session_id, branch_id), list[int](), None
        while page := await self.turns(session_id, limit=_PAGE, branch_id=head.branch_id, before_depth=before):
            found += [each.depth for each in page if any(message.role is Role.SYSTEM for message in each.messages)]
            before = page[0].depth
            if before <= after_depth + 1:
                break
        return tuple(sorted(depth for depth in found if depth > after_depth))

    async def branches(self, session_id: str) -> tuple[SessionHead, ...]:
        """Return the head of every branch: the active branch first, the others in the order in which they were opened."""
        ...

    async def fork(self, session_id: str, turn_id: str | None, branch_id: str) -> SessionHead:
        """Open a branch whose head is `turn_id` (None: before the first turn) and make it the active branch.

        Raises:
            BranchExistsError: if there is already a branch `branch_id`.
            TurnNotFoundError: if there is no such turn, or it is not committed.
            ValueError: for an empty branch name.
        """
        ...

    async def switch(self, session_id: str, branch_id: str) -> SessionHead:
        """Make another branch the active one. Raises BranchNotFoundError if there is no such branch."""
        ...

    async def state_at(self, session_id: str, turn_id: str | None) -> Mapping[str, Any]:
        """Return the state after a committed turn (None: before the first turn). Raises TurnNotFoundError if there is
        no such committed turn.
        """
        ...

    async def add_chunk(self, session_id: str, chunk: ReplyChunk, limits: ChunkLimits) -> AddedChunk:
        """Add a chunk to a reply that is not complete yet. Chunks may come in any order.

        The version of the session does not change. If the outcome is not ADDED, nothing was added.

        Raises:
            NoPendingTurnError: if the chunk names no turn and none is pending.
            TurnNotFoundError: if there is no such turn.
        """
        ...

    async def unfinished_reply(self, session_id: str, turn_id: str | None, message_id: str) -> UnfinishedReply | None:
        """Return a reply that is not complete yet, or None if there is none.

        If `turn_id` is None, the turn is the only one that has chunks for `message_id`, or else the pending turn of
        the active branch.
        """
        ...

    async def drop_unfinished(self, session_id: str, turn_id: str | None, message_id: str) -> int:
        """Delete the chunks of a reply and return their number. If `turn_id` is None, the turn is found as in
        `unfinished_reply`.
        """
        ...

    async def save_prefetch(self, session_id: str, prefetch: Prefetch | None) -> None:
        """Store a selection of memories that was too late for its turn, for the next turn of the branch. Each branch has at
        most one. None deletes all of them in the session.
        """
        ...

    async def replace_world(
        self, world_id: str, digest: str, lore: Sequence[MemoryEntry], pack: Mapping[str, Any] | None = None
    ) -> int:
        """Make a version of a world the current one, its lore and pack at once, and return how many lore entries were
        added, changed or removed.

        `pack`, the JSON value from which the world is built, is stored under `digest`, and the previous version is
        deleted. A call with the current digest and the same pack, or without a pack, changes nothing and returns 0. A
        new digest without a pack leaves the world without a pack.

        Raises ValueError for an entry that occurs twice or has another scope.
        """
        ...

    async def worlds(self) -> Mapping[str, str]:
        """Return the digest of the current version of every world, by world id, in the order of the ids."""
        ...

    async def world_digest(self, world_id: str) -> str | None:
        """Return the digest of the current version of a world. It is '' if the world's pack is known to be missing,
        and None if there is no such world.
        """
        ...

    async def pack(self, world_id: str, digest: str) -> Mapping[str, Any] | None:
        """Return the stored pack of the version `digest` of a world, or None if it is not stored."""
        ...

    async def entries(self, scope: str, entry_ids: Sequence[str]) -> tuple[MemoryEntry, ...]:
        """Return complete entries in the order of `entry_ids`; unknown ids are left out. Entries of the history chain
        are messages.
        """
        ...

    async def gated_entries(self, scopes: Sequence[str]) -> tuple[MemoryEntry, ...]:
        """Return the entries of `scopes` that have viewers or conditions, ordered by id."""
        ...

    async def entries_after(self, scope: str, chain: Chain, sequence: int, limit: int) -> tuple[SequencedEntry, ...]:
        """Return at most `limit` entries with a sequence above `sequence`, in the order of writing. They are lore, or
        entries of committed turns.
        """
        ...

    async def entries_before(
        self, scope: str, chain: Chain, sequence: int | None, limit: int
    ) -> tuple[SequencedEntry, ...]:
        """Return at most `limit` entries with a sequence below `sequence` (None: the newest entries), in the reverse
        order of writing. Deleted entries are left out.
        """
        found, after = list[SequencedEntry](), 0
        while page := await self.entries_after(scope, chain, after, _PAGE):
            found = [*found, *(each for each in page if not each.deleted and _is_before(each, sequence))][-limit:]
            after = page[-1].sequence
        return tuple(reversed(found))

    async def chain_sizes(self, scope: str) -> Mapping[Chain, int]:
        """Return how many entries each chain of a scope has. Deleted entries are not counted, and empty chains are left out."""
        counts: dict[Chain, int] = {}
        for chain in Chain:
            after = 0
            while page := await self.entries_after(scope, chain, after, _PAGE):
                if number := sum(not each.deleted for each in page):
                    counts[chain] = counts.get(chain, 0) + number
                after = page[-1].sequence
        return counts

    async def chains_written_after(self, after: Mapping[tuple[str, Chain], int]) -> frozenset[tuple[str, Chain]]:
        """Return the pairs (scope, chain) of `after` in which an entry was written after the given sequence."""
        ...

    async def append_entries(self, session_id: str, entries: Sequence[MemoryEntry]) -> int:
        """Add entries that were made after their turn was committed (summaries, events of consolidation). Return how
        many were new.

        Each entry names a committed turn by `turn_id` and takes the branch and depth of this turn. Existing entries
        are skipped; an entry with an empty text is removed. A passage of a document (kind `document`) may name no
        turn. Such a passage belongs to the session from its beginning, on all branches. A passage that is written
        again with another text replaces the former one. The version does not change.

        Raises:
            TurnNotFoundError: for an unknown turn.
            ValueError: for any other entry without a turn, or an entry of another scope.
        """
        ...

    async def save_summary(self, session_id: str, summary: PathSummary) -> None:
        """Store a summary of the path to a committed turn. It replaces an earlier summary of the same turn. The version does
        not change.

        Raises TurnNotFoundError if there is no such committed turn.
        """
        ...

    async def hidden_records(self, session_id: str) -> HiddenRecords:
        """Return the records that no window shows: abandoned turns with all their data, and every rolling summary."""
        ...

    async def save_hidden_records(self, session_id: str, hidden: HiddenRecords) -> None:
        """Write the hidden records of a session that was copied from another store. The version does not change.

        Turns whose ids exist already are skipped; a summary replaces the stored summary of its turn.

        Raises:
            BranchNotFoundError: if the session lacks the branch of a record.
            TurnNotFoundError: if the session lacks the turn of a record.
        """
        ...

    async def get_session(self, session_id: str, *, branch_id: str | None = None) -> SessionDocument | None:
        """Return the whole session as a document with its version, or None if there is no such session.

        It has the messages on the path to the head and the messages of its pending turn. Evidence found by turns, tool
        calls, and blocks that refer to such evidence are limited to the same turns. Raises BranchNotFoundError if
        there is no branch `branch_id`.
        """
        ...

    async def put_session(
        self, session_id: str, doc: SessionDocument, *, expected_version: int | None = None
    ) -> PutResult:
        """Write a whole document. A session that does not exist is created, without a world; then `expected_version`
        must be 0 or None.

        Messages that continue the head's are appended as one turn. If an older message differs, or newer ones are
        left out, the document becomes a new branch after the last complete turn that both share: no message is lost.
        Everything else is replaced by the document's data, except evidence that only turns of other branches found. A
        pending turn of the head stays if the document's messages are those of `get_session`; otherwise it is
        abandoned.

        Raises:
            VersionConflictError: if the session has another version.
            SchemaValidationError: for another `session_id`, a duplicate id, or a ref to evidence that the document
                does not have, unless the ref is remote.
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
        """Commit messages as one turn after the active head. A pending turn is committed before them, without a
        reply.

        A call with an `idempotency_key` that was used before writes nothing. Without a key each call is a new turn.

        Raises:
            SessionNotFoundError: if there is no such session.
            VersionConflictError: if the session has another version.
            SchemaValidationError: for a ref to evidence that the session does not have, unless the ref is remote.
        """
        ...

    async def patch_session(
        self, session_id: str, patch: Mapping[str, Any], *, expected_version: int | None = None
    ) -> PutResult:
        """Apply a JSON merge patch (RFC 7386) to the session document, with its JSON field names. The result is
        checked before anything is written.

        Raises:
            SchemaValidationError: if the result is not a document of this session.
            VersionConflictError: if the session has another version.
        """
        ...

    async def put_evidence(self, session_id: str, evidence: Evidence) -> str:
        """Write or replace an evidence item and return its id. Writing the same item again changes nothing. Raises
        CodecError for a time without a zone.
        """
        ...

    async def get_evidence(self, session_id: str, evidence_id: str) -> Evidence | None:
        """Return an evidence item, or None if there is none with this id."""
        ...

    async def find_evidence(self, session_id: str, *, uri: str, content_hash: str) -> Evidence | None:
        """Return the oldest evidence item with the source address `uri` and the hash `content_hash`, or None if there is none.

        It is used to avoid duplicates.
        """
        ...

    async def list_evidences(self, session_id: str, filter: EvidenceFilter | None = None) -> tuple[Evidence, ...]:
        """Return the evidence items that pass `filter` (None: all), in the order of first writing. Raises
        BranchNotFoundError for an unknown branch in `filter`.
        """
        ...

    async def put_context_blocks(
        self, session_id: str, blocks: Sequence[ContextBlock], *, expected_version: int | None = None
    ) -> PutResult:
        """Write or replace blocks by id.

        Raises:
            VersionConflictError: if the session has another version.
            SchemaValidationError: for a ref to evidence that the session does not have, unless the ref is remote.
        """
        ...

    async def list_context_blocks(self, session_id: str, filter: BlockFilter | None = None) -> tuple[ContextBlock, ...]:
        """Return the blocks that pass `filter` (None: all), in the order of first writing."""
        ...

    async def append_tool_calls(
        self, session_id: str, tool_calls: Sequence[ToolCall], *, expected_version: int | None = None
    ) -> PutResult:
        """Append tool calls. A call with an existing id replaces the old call in its place, for example when it has
        ended.

        Raises VersionConflictError if the session has another version.
        """
        ...

    async def tool_call(self, session_id: str, tool_call_id: str) -> ToolCall | None:
        """Return a tool call, or None if the session has none with this id. Raises SessionNotFoundError if there is
        no such session.
        """
        document = await self.get_session(session_id)
        if document is None:
            raise SessionNotFoundError(session_id)
        calls = () if document.session.tool_state is None else document.session.tool_state.tool_calls
        return next((call for call in calls if call.tool_call_id == tool_call_id), None)

    async def append_model_usage(
        self, session_id: str, usages: Sequence[ModelUsage], *, expected_version: int | None = None
    ) -> PutResult:
        """Append records of model calls. A record with an existing id replaces the old record in its place. Raises
        VersionConflictError if the session has another version.
        """
        ...

    async def upsert_tasks(
        self, session_id: str, tasks: Sequence[Task], *, expected_version: int | None = None
    ) -> PutResult:
        """Write or replace tasks by id; new tasks go to the end. Raises VersionConflictError if the session has
        another version.
        """
        ...

    async def erase(self, erasure: Erasure) -> ErasureOutcome:
        """Erase one subject everywhere in the store, in one transaction, and leave an audit record. The subject may
        be unknown to the store.

        Copies of an erased memory in other sessions (`copied_from`) are erased too, with their text. Raises
        ValueError unless `erasure` names exactly one subject.
        """
        ...

    async def audits(self) -> tuple[AuditRecord, ...]:
        """Return the audit records, oldest first."""
        ...

    async def preview_erasure(self, erasure: Erasure) -> ErasurePreview:
        """Return what `erase` would remove, without any change. Raises ValueError unless `erasure` names exactly one subject."""
        ...

    async def walk_rows(
        self,
        visit: Callable[[StoredRow], bool],
        *,
        sessions: Collection[str] | None = None,
        without: Collection[str] = (),
        likely: Callable[[bytes], bool] | None = None,
    ) -> None:
        """Call `visit` with every row, until `visit` returns False.

        Args:
            visit: Called in another thread, on one state of the store; it must not write.
            sessions: Only rows of these sessions (None: everything).
            without: No rows of these sessions.
            likely: Returns whether raw bytes may contain the wanted text. A store may skip rows for which the result is False.
        """
        ...

    async def find_text(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Return the places that contain any of `texts`, sorted, after a search through everything that is stored.

        A place is `table/key`, or `packs/…` in the pack of a world. Texts are compared by the rule of
        `mnemosyne.privacy.runs`.
        """
        ...


def _is_before(entry: SequencedEntry, sequence: int | None) -> bool:
    return sequence is None or entry.sequence < sequence


_COMBINED = ("turn_inputs", "chosen_inputs", "depths_with_system_messages")


def combined_reads(store: Store) -> type[Store]:
    """Return the class from which to call `turn_inputs`, `chosen_inputs` and `depths_with_system_messages` for a
    store.

    If the store's own class has all three methods, the result is this class. Otherwise the result is `Store`, whose methods call
    the simple methods of the store. So a wrapper that overrides only simple methods is not bypassed.
    """
    return type(store) if all(hasattr(type(store), name) for name in _COMBINED) else Store

"""Carries out the manual memory operations of one caller on a runtime: search, remember, edit, pin, forget, lore,
state.

Python, the command line, HTTP and MCP use the same methods.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from anyio import to_thread

from filament.state.changes.sizes import OpLimits
from filament.state.verdicts import Authority
from jacquard.config.input_limits import check_user_message
from jacquard.core.errors import ConfigError, MemoryNotFoundError
from jacquard.memory.story_facts import load_past, load_past_head, load_story_facts, with_story_times
from jacquard.memory.user_facts import ensure_profile_session
from jacquard.memory.verbs.editor import MOST_CHARS, MemoryEditor
from jacquard.memory.verbs.find import find_erasable, find_memory, has_words, kind_of_document, load_documents
from jacquard.memory.verbs.log import ACTION, is_undone, load_edit, load_edits, read_log
from jacquard.memory.verbs.proposals import load_waiting, propose_lore, show_proposals
from jacquard.memory.verbs.values import FoundMemory, Memory, MemoryAction, MemoryEdit, sources_of
from jacquard.pipeline.curation.recall_query import may_recall
from jacquard.wiring.runtime import Runtime
from mnemosyne.chains.audience import may_read, read_audience
from mnemosyne.chains.lore import gated_entries, hidden_entries, may_know
from mnemosyne.chains.state import apply_reply_ops, view_state
from mnemosyne.core.codec import format_time
from mnemosyne.core.errors import SessionNotFoundError
from mnemosyne.host_parts import UuidV4Generator
from mnemosyne.protocols import Clock, IdGenerator
from mnemosyne.schema.erasure import Erasure
from mnemosyne.schema.evidence import readers_of
from mnemosyne.schema.memory import (
    PROPOSED,
    TAKES_FROM_RECALL,
    Chain,
    LoreCategory,
    MemoryEntry,
    StoryFact,
    Trust,
    document_of,
    is_profile_session,
    session_scope,
    world_scope,
    world_session_id,
)
from mnemosyne.schema.query import SIGNAL_NAMES, EntryPlace, RetrievalQuery
from mnemosyne.schema.record import TurnRecord
from mnemosyne.schema.session import SessionHead, TurnKind, TurnStatus
from mnemosyne.schema.world import WorldPack
from mnemosyne.world.pack_json import with_own_digest

MOST_FOUND = 100
_WORD = re.compile(r"[\u3400-\u9fff]{2}|[^\W_]+")


class MemoryVerbs:
    """Manual operations of one caller on the memory of a runtime.

    Args:
        author: name of the caller in the log of edits.
        viewer: the caller sees and edits only memories that this viewer (a character) may know (None: all memories).
        is_model: true if the caller passes on texts of a model. If the settings ask for review, changes of this caller
            become proposals.
        edits_lore: true if the caller may decide on proposals for lore (the author's texts about a world).

    Methods raise SessionNotFoundError if the session is unknown, and MemoryNotFoundError if an id is unknown. They
    raise InputTooLargeError if a text is too long, RedactionError if a text cannot be searched for secrets, and
    ConfigError if the request is impossible.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        author: str = "host",
        viewer: str | None = None,
        is_model: bool = False,
        edits_lore: bool = True,
    ) -> None:
        parts = runtime.engine.parts
        self._runtime, self._store, self._viewer, self._author = runtime, runtime.store, viewer, author
        self._clock: Clock = parts.clock
        self._ids: IdGenerator = UuidV4Generator()
        self._is_host = viewer is None
        self._is_model = is_model
        self._edits_lore = viewer is None and edits_lore
        self._asks_first = is_model and runtime.engine.config.memory.review

    async def sessions(self, query: str = "", *, limit: int = 50) -> tuple[SessionHead, ...]:
        """Return the heads (newest turn and version) of sessions whose id contains the words of `query`, in
        alphabetical order.
        """
        names = [name for name in await self._store.sessions() if not is_profile_session(name)]
        found = [name for name in sorted(names) if has_words(name, query)]
        return tuple([await self._store.head(name) for name in found[:limit]])

    async def search(
        self, session_id: str, text: str, *, limit: int = 10, as_of_turn: int | None = None
    ) -> tuple[FoundMemory, ...]:
        """Return the memories that recall (the search before a turn) finds for `text`, best first, with the reasons for
        the scores.

        Only memories that the caller may know are returned. With `as_of_turn`, the search finds what it would have found
        after the turn with this number of the active branch.
        """
        if not text.strip():
            raise ConfigError("The text is empty; give what to search for.")
        check_user_message(text, self._runtime.engine.config.limits)
        await self._runtime.sync(session_id, change_encoder=False)
        pinned = await self._pinned_entries(session_id)
        query = await self._build_query(session_id, text, max(1, min(limit, MOST_FOUND)), pinned, as_of_turn)
        # Compared with a large world, the few texts of a session have low word scores, which mean little in a small collection.
        own = replace(query, world_id="", weights={**dict.fromkeys(query.weights, 0.0), Chain.LORE: 0.5})
        recalled = [(await self._runtime.retriever.recall(asked)).candidates for asked in (query, own)]
        entries = await self._load_entries([each.place for group in recalled for each in group])
        words = dict.fromkeys(_WORD.findall(text.lower()))
        best = {each.place: each for each in recalled[0]}
        for each in recalled[1]:
            said = entries[each.place].text.lower() if each.place in entries else ""
            score = each.score * sum(word in said for word in words) / max(len(words), 1)
            if each.place not in best or score > best[each.place].score:
                best[each.place] = replace(each, score=score)
        found = sorted(best.values(), key=lambda each: -each.score)[: query.limit]
        own_entries = [entry for each in found if (entry := entries.get(each.place)) is not None]
        documents = await load_documents(self._store, session_id, own_entries)
        return tuple(
            FoundMemory(
                memory_id=document_of(entry) or entry.entry_id,
                kind=kind_of_document(item) if (item := documents.get(document_of(entry) or "")) else entry.kind,
                text=entry.text,
                title=entry.title,
                turn_id=entry.turn_id,
                score=each.score,
                signals={name: value for name in SIGNAL_NAMES if (value := getattr(each.signals, name)) is not None},
                words=tuple(word for word in words if word in entry.text.lower()),
                trust=entry.trust,
                pinned=entry.entry_id in pinned,
                sources=sources_of(entry.metadata),
            )
            for each in found
            if (entry := entries.get(each.place)) is not None
        )

    async def memory(self, session_id: str, memory_id: str) -> Memory:
        """Return the memory with the id `memory_id`."""
        return await find_memory(self._store, session_id, memory_id, self._viewer, all_viewers=self._is_host)

    async def remember(
        self, session_id: str, text: str, *, title: str = "", key: str | None = None, dry_run: bool = False
    ) -> MemoryEdit:
        """Store `text` as a memory of a session, with its author and time. Repeated calls with the same `key` store the
        text once.

        The text is stored as written, except for secrets (keys, cards, passwords); the result lists them in `redacted`.
        If `dry_run` is true, nothing is stored, and the result shows the edit that would be stored. `dry_run` of `edit`
        and `supersede` means the same.
        """
        if self._asks_first and not dry_run:
            return await self._editor().propose(session_id, MemoryAction.REMEMBER, text, title=title, key=key)
        return await self._editor().remember(session_id, text, title=title, key=key, dry_run=dry_run)

    async def edit(self, session_id: str, memory_id: str, text: str, *, dry_run: bool = False) -> MemoryEdit:
        """Correct the text of a memory.

        Use `edit_lore` for lore, and `ContextEngine.edit_message` for messages.
        """
        if self._asks_first and not dry_run:
            return await self._editor().propose(session_id, MemoryAction.EDIT, text, memory_id=memory_id)
        return await self._editor().edit(session_id, memory_id, text, dry_run=dry_run)

    async def supersede(self, session_id: str, memory_id: str, text: str = "", *, dry_run: bool = False) -> MemoryEdit:
        """Mark a memory as no longer true. If `text` is not empty, it is stored as the memory that is true now."""
        if self._asks_first and not dry_run:
            return await self._editor().propose(session_id, MemoryAction.SUPERSEDE, text, memory_id=memory_id)
        return await self._editor().supersede(session_id, memory_id, text, dry_run=dry_run)

    async def pin(self, session_id: str, memory_id: str) -> MemoryEdit:
        """Show a memory in every prompt in which it fits."""
        return await self._editor().pin(session_id, memory_id)

    async def unpin(self, session_id: str, memory_id: str) -> MemoryEdit:
        """Stop showing a memory in every prompt."""
        return await self._editor().unpin(session_id, memory_id)

    async def undo(self, session_id: str, edit_id: str) -> MemoryEdit:
        """Undo an edit; a second call changes nothing. An edit that erased a memory cannot be undone."""
        if not self._is_host and all(edit.edit_id != edit_id for edit in await self.log(session_id)):
            raise MemoryNotFoundError(f"There is no edit {edit_id!r} in session {session_id!r}; the log shows the ids.")
        return await self._editor().undo(await self._log_with(session_id, edit_id), edit_id)

    async def proposals(self, session_id: str) -> tuple[MemoryEdit, ...]:
        """Return the undecided proposals of models on the active branch, oldest first.

        If the caller may edit lore, proposals for the lore of the session's world follow.
        """
        waiting = await load_waiting(self._store, session_id)
        if self._edits_lore:
            with suppress(SessionNotFoundError):
                waiting += await load_waiting(self._store, await self._world_session(session_id))
        return show_proposals([each for each in waiting if self._is_host or may_read(readers_of(each), self._viewer)])

    async def accept(self, session_id: str, proposal_id: str, text: str = "") -> MemoryEdit:
        """Carry out a proposal. If `text` is not empty, it replaces the proposed text."""
        return await self._person().accept(await self._log_with(session_id, proposal_id), proposal_id, text)

    async def reject(self, session_id: str, proposal_id: str) -> MemoryEdit:
        """Refuse a proposal. The same proposal is not made again for the same turns."""
        return await self._person().reject(await self._log_with(session_id, proposal_id), proposal_id)

    async def log(self, session_id: str) -> tuple[MemoryEdit, ...]:
        """Return the edits of a session, oldest first. A caller with a viewer gets only edits of memories that the
        viewer may know.
        """
        if self._is_host:
            return await read_log(self._store, session_id)
        known = {
            each.evidence_id
            for each in await load_edits(self._store, session_id)
            if may_read(read_audience(each.metadata), self._viewer)
        }
        return tuple(edit for edit in await read_log(self._store, session_id) if edit.edit_id in known)

    async def forget(self, session_id: str, memory_id: str, *, reason: str = "") -> tuple[str, ...]:
        """Erase a remembered text or a document permanently, with its corrections and its pins. Return the erased ids.
        `reason` is recorded with the erasure.

        Raises ConfigError if the memory was made of turns or of a world. Instead, `supersede` removes it from recall,
        and an erasure of the session or an edit of the world erases it.
        """
        memory = await find_erasable(self._store, session_id, memory_id, self._viewer, all_viewers=self._is_host)
        chain = await self._chain_of(session_id, memory.memory_id)
        editor = self._editor()
        for edit in await read_log(self._store, session_id):
            if edit.action is MemoryAction.PIN and edit.memory_id in chain and not edit.undone_at:
                await editor.unpin(session_id, edit.memory_id)
        chain = await self._chain_of(session_id, memory.memory_id)
        found = [await self._store.get_evidence(session_id, each) for each in sorted(chain)]
        ids = tuple(each.evidence_id for each in found if each is not None)
        roots = [each for each in chain if each not in ids]
        await self._runtime.forget(
            Erasure(at=datetime.now(UTC), session_id=session_id, evidence_ids=ids, reason=reason or "memory forgotten")
        )
        for root in roots:
            # The text that the erased one had corrected must not come back.
            await editor.supersede(session_id, root)
        return ids

    async def continue_session(
        self,
        session_id: str,
        new_session_id: str,
        *,
        memory_ids: Sequence[str] | None = None,
        query: str = "",
        limit: int = 10,
    ) -> SessionHead:
        """Start the session `new_session_id` with memories of another session, and return its head.

        The copied memories are those in `memory_ids`, or the best `limit` results of a search for `query`. If neither
        is given, all memories are copied. `ContextEngine.continue_session` describes the new session. Raises
        ConfigError if both `memory_ids` and `query` are given.
        """
        if query:
            if memory_ids is not None:
                raise ConfigError("Name the memories to take along, or give words to search for, not both.")
            memory_ids = [each.memory_id for each in await self.search(session_id, query, limit=limit)]
        return await self._runtime.engine.continue_session(
            session_id, new_session_id, memory_ids=memory_ids, author=self._author, viewer=self._viewer
        )

    async def get_state(
        self, session_id: str, *, branch_id: str | None = None, as_of_turn: int | None = None
    ) -> Mapping[str, Any]:
        """Return the current state tree at the end of a branch (`branch_id` None: the active branch). With `as_of_turn`,
        return the state after the turn with this number of the branch.

        Raises ConfigError if the branch has no such turn.
        """
        return (await load_past(self._store, session_id, branch_id, as_of_turn))[1]

    async def facts(
        self,
        session_id: str,
        query: str = "",
        *,
        branch_id: str | None = None,
        as_of_turn: int | None = None,
        limit: int = 50,
    ) -> tuple[StoryFact, ...]:
        """Return the facts of the story on a branch with the turns in which they are valid, newest first: values of the
        state that turns changed, and facts in memories that consolidation made.

        Former facts are among them. With `as_of_turn`, only the facts that were valid after the turn with this number
        are returned. A fact is left out if it does not contain the words of `query`, or if the caller may not know it.
        Raises ConfigError if the branch has no such turn.
        """
        read = await load_story_facts(self._store, session_id, branch_id, viewer=self._viewer, as_of_turn=as_of_turn)
        facts = [each for each in read if has_words(f"{each.subject} {each.attribute} {each.text}", query)]
        paths = (await self._runtime.world_of(session_id)).story_time
        return await with_story_times(self._store, session_id, facts[: -limit - 1 : -1], paths)

    async def set_state(self, session_id: str, changes: Mapping[str, Any]) -> SessionHead:
        """Set values of the state. `changes` maps paths (`hero.health`) to new values. The change is stored as a turn
        without messages. Return the new head.

        Either all values are set or none. Raises StateOpError if the state's declarations do not allow a value. Raises
        ConfigError if `changes` is empty, or while a turn waits for its reply.
        """
        if not changes:
            raise ConfigError("There is nothing to set; give at least one path with its value.")
        window = await self._store.window(session_id, message_limit=1)
        if window.pending is not None:
            raise ConfigError(f"Turn {window.pending.turn_id!r} waits for its reply; commit or abort it first.")
        limits = OpLimits(state_chars=self._runtime.engine.config.limits.state_chars)
        ops = [["SET", path, value] for path, value in changes.items()]
        applied = await to_thread.run_sync(
            partial(apply_reply_ops, window.state, ops, limits=limits, authority=Authority.HOST)
        )
        head = window.head
        record = TurnRecord(
            turn_id=self._ids.generate(),
            session_id=session_id,
            branch_id=head.branch_id,
            depth=head.depth + 1,
            parent_id=head.turn_id,
            kind=TurnKind.NUMERICAL,
            status=TurnStatus.COMMITTED,
            messages=(),
            report={"set_by": self._author},
            ops=tuple(applied.patch),
            created_at=self._clock.now(),
        )
        return await self._store.commit_numerical(record, applied.tree, expected_version=head.version)

    async def lore(self, world_id: str, query: str = "") -> tuple[MemoryEntry, ...]:
        """Return the lore of a world, in the pack's order. Only entries whose title or text contains the words of
        `query` are returned.
        """
        world = await self._world(world_id)
        state = view_state({})
        return tuple(
            entry
            for entry in world.lore
            if has_words(f"{entry.title} {entry.text}", query)
            and (self._is_host or may_know(entry, self._viewer, state))
        )

    async def add_lore(
        self,
        world_id: str,
        text: str,
        *,
        title: str = "",
        keys: tuple[str, ...] = (),
        category: LoreCategory = LoreCategory.ENCYCLOPEDIA,
        viewers: tuple[str, ...] = (),
    ) -> MemoryEntry:
        """Add an entry to the lore of an imported world, and return it. Sessions of the world find it from their next
        turn on.

        If the caller's changes need review, only a proposal is stored.
        """
        world = await self._editable_world(world_id)
        entry = MemoryEntry(
            entry_id=self._ids.generate(),
            scope=world_scope(world_id),
            chain=Chain.LORE,
            kind=category.value,
            text=_checked(text),
            title=title,
            keys=keys,
            viewers=viewers,
            trust=Trust.MODEL if self._is_model else Trust.AUTHORED,
            metadata={"added_by": self._author, "added_at": format_time(self._clock.now())},
        )
        if self._asks_first:
            return await self._propose_lore(entry, None)
        await self._store_lore(world, (*world.lore, entry))
        return entry

    async def edit_lore(
        self, world_id: str, entry_id: str, *, text: str | None = None, title: str | None = None
    ) -> MemoryEntry:
        """Change the text or the title of a lore entry of an imported world, and return the changed entry.

        The former version of the world stays in the store. If the caller's changes need review, only a proposal is
        stored. A `text` or `title` of None stays unchanged.
        """
        world = await self._editable_world(world_id)
        place = next((number for number, entry in enumerate(world.lore) if entry.entry_id == entry_id), None)
        if place is None:
            raise ConfigError(f"World {world_id!r} has no entry {entry_id!r}; list its lore for the ids.")
        old = world.lore[place]
        new = replace(
            old,
            text=old.text if text is None else _checked(text),
            title=old.title if title is None else title,
            trust=Trust.MODEL if self._is_model else old.trust,
            metadata={**old.metadata, "edited_by": self._author, "edited_at": format_time(self._clock.now())},
        )
        if self._asks_first:
            return await self._propose_lore(new, old)
        await self._store_lore(world, (*world.lore[:place], new, *world.lore[place + 1 :]))
        return new

    async def _propose_lore(self, entry: MemoryEntry, former: MemoryEntry | None) -> MemoryEntry:
        """Propose a lore entry for the author's decision; return it in its future form, tagged."""
        name = world_session_id(entry.scope.removeprefix(world_scope("")))
        await ensure_profile_session(self._store, name, self._clock)
        proposal = propose_lore(self._ids.generate(), entry, former, self._author, self._clock.now())
        await self._store.put_evidence(name, proposal)
        return replace(entry, tags=(*entry.tags, PROPOSED))

    async def _write_lore(self, entry: MemoryEntry, wanted: MemoryEntry | None, present: str) -> None:
        world = await self._editable_world(entry.scope.removeprefix(world_scope("")))
        if present != next((each.text for each in world.lore if each.entry_id == entry.entry_id), ""):
            raise ConfigError(f"Entry {entry.entry_id!r} was changed since; edit it by hand (`edit_lore`).")
        if wanted is not None:
            _checked(wanted.text)
        lore = {each.entry_id: each for each in world.lore} | {entry.entry_id: wanted}
        await self._store_lore(world, tuple(each for each in lore.values() if each is not None))

    async def _world_session(self, session_id: str) -> str:
        """Return the session that contains the proposals for the lore of a session's world."""
        return world_session_id((await self._store.head(session_id)).world_id)

    async def _log_with(self, session_id: str, edit_id: str) -> str:
        """Return the session whose log has an edit: the named one, or that of its world's lore."""
        if not self._edits_lore or await load_edit(self._store, session_id, edit_id) is not None:
            return session_id
        name = await self._world_session(session_id)
        return session_id if await load_edit(self._store, name, edit_id) is None else name

    async def _store_lore(self, world: WorldPack, lore: tuple[MemoryEntry, ...]) -> None:
        changed = await to_thread.run_sync(with_own_digest, replace(world, lore=lore))
        await self._runtime.engine.worlds.store_pack(changed)

    async def _world(self, world_id: str) -> WorldPack:
        given = self._runtime.world
        known = {*await self._store.worlds(), *((given.world_id,) if given is not None else ())}
        if world_id not in known:
            raise ConfigError(f"There is no world {world_id!r}; there are: {', '.join(sorted(known)) or 'none'}.")
        return await self._runtime.engine.worlds.world(world_id, write=False)

    async def _editable_world(self, world_id: str) -> WorldPack:
        if self._viewer is not None:
            raise ConfigError("Lore is edited by the author of the world, not by a viewer.")
        world = await self._world(world_id)
        if self._runtime.world is not None and self._runtime.world.world_id == world_id:
            raise ConfigError(
                f"World {world_id!r} is read from a folder (`--world`, or `service.world`), which would take the change back: "
                "edit its files there. Or import the folder once (`jacquard memory import DIR`) and start without it."
            )
        return world

    async def _pinned_entries(self, session_id: str) -> frozenset[str]:
        """Return the ids of pinned entries, which recall leaves out and a search does not."""
        edits = await load_edits(self._store, session_id)
        pins = [each for each in edits if each.metadata.get(ACTION) == MemoryAction.PIN.value and not is_undone(each)]
        return frozenset(name for each in pins for name in each.metadata.get(TAKES_FROM_RECALL, ()))

    async def _build_query(
        self, session_id: str, text: str, limit: int, pinned: frozenset[str], as_of_turn: int | None
    ) -> RetrievalQuery:
        head = await load_past_head(self._store, session_id, None, as_of_turn)
        scopes = (world_scope(head.world_id), session_scope(session_id))
        gated = tuple(
            entry
            for entry in await self._store.gated_entries(scopes)
            if entry.metadata.get(TAKES_FROM_RECALL) not in pinned
        )
        if self._is_host:
            gated = tuple(entry for entry in gated if TAKES_FROM_RECALL in entry.metadata)
            admits = None
            view = view_state({})
        else:
            view = view_state(await self._store.state_at(session_id, head.turn_id))
            most = self._runtime.engine.config.prune.max_sensitivity
            admits = partial(may_recall, viewer=self._viewer, view=view, most=most, now=self._clock.now())
        return RetrievalQuery(
            text=text,
            world_id=head.world_id,
            session_id=session_id,
            lineage=head.lineage,
            depth=head.depth,
            weights=dict.fromkeys((Chain.NARRATIVE, Chain.HISTORY, Chain.LORE, Chain.EVENT), 0.5),
            exclude=hidden_entries(gated_entries(gated), self._viewer, view, head),
            may_know=admits,
            limit=limit,
        )

    async def _load_entries(self, places: list[EntryPlace]) -> dict[EntryPlace, MemoryEntry]:
        found: dict[EntryPlace, MemoryEntry] = {}
        for scope in dict.fromkeys(place.scope for place in places):
            ids = [place.entry_id for place in places if place.scope == scope]
            for entry in await self._store.entries(scope, ids):
                found[EntryPlace(entry.scope, entry.chain, entry.entry_id)] = entry
        return found

    async def _chain_of(self, session_id: str, memory_id: str) -> frozenset[str]:
        """Return the ids of a memory, of all its corrections and corrected memories, and of the edits on them."""
        edits = await read_log(self._store, session_id)
        chain = {memory_id}
        while True:
            more = {
                name
                for edit in edits
                for name in (edit.edit_id, edit.memory_id)
                if {edit.edit_id, edit.memory_id} & chain
            }
            if more <= chain:
                return frozenset(chain)
            chain |= more

    def _person(self) -> MemoryEditor:
        """Return the editor for a person's decisions, whoever passes them on."""
        return self._editor(is_model=False)

    def _editor(self, *, is_model: bool | None = None) -> MemoryEditor:
        return MemoryEditor(
            self._store,
            self._runtime.intake.ingestor,
            self._clock,
            self._ids,
            author=self._author,
            viewer=self._viewer,
            all_viewers=self._is_host,
            is_model=self._is_model if is_model is None else is_model,
            recall=self.search,
            write_lore=self._write_lore if self._edits_lore else None,
        )


def _checked(text: str) -> str:
    if not text.strip():
        raise ConfigError("The text is empty; give the text of the entry.")
    if len(text) > MOST_CHARS:
        raise ConfigError(
            f"The text has {len(text)} characters, and an entry at most {MOST_CHARS}; make several of it."
        )
    return text

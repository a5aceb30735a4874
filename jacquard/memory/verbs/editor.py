"""Edits the memory of a session: remember, edit, supersede, pin, propose, accept, reject and undo.

To supersede a memory means to state that it is no longer true. Each edit is stored in the log of its session
(`jacquard.memory.verbs.log`). This module must not import a concrete store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias

from anyio import to_thread

from jacquard.core.errors import ConfigError, MemoryNotFoundError
from jacquard.memory.story_facts import settle_facts
from jacquard.memory.verbs.find import SENSITIVITY, find_memory
from jacquard.memory.verbs.log import (
    ACTION,
    AFTER,
    AUTHOR,
    BEFORE,
    IS_EDIT,
    TARGET,
    UNDONE_BY,
    edit_of,
    is_undone,
    load_edit,
    load_edits,
    load_pin,
)
from jacquard.memory.verbs.proposals import (
    build_proposal,
    describe_proposal,
    is_decision,
    is_proposal,
    load_proposals,
    proposed_entry,
    proposed_lore,
)
from jacquard.memory.verbs.values import FoundMemory, Memory, MemoryAction, MemoryEdit
from jacquard.pipeline.evidence.context_blocks import UNPINNED
from jacquard.pipeline.record.evidence import find_shown_texts
from mnemosyne.chains.audience import audience_field, may_read, read_audience
from mnemosyne.chains.story_facts import topic_of_fact
from mnemosyne.core.codec import format_time
from mnemosyne.evidence import without_shown
from mnemosyne.evidence.documents import IS_DOCUMENT, remove_passages, write_passages
from mnemosyne.protocols import Clock, EvidenceIngestor, IdGenerator, Store
from mnemosyne.schema.evidence import (
    BlockType,
    ContextBlock,
    Evidence,
    EvidenceSource,
    EvidenceType,
    Priority,
    SourceKind,
    readers_of,
)
from mnemosyne.schema.ingest import IngestOptions, ShownText
from mnemosyne.schema.memory import EMPTY, PROPOSED, TAKES_FROM_RECALL, UNDONE_AT, VALUE, MemoryEntry, Trust

SOURCE = "memory"
"""Source name of a memory that has no title."""
PIN_PREFIX = "pinned:"
"""Beginning of the id of a context block that shows a pinned memory in every prompt."""
PINNED = "pinned_memory"
"""Field of a context block that names the pinned memory which the block shows."""
MADE = "made_edit_id"
"""Field of an edit ACCEPT that names the edit by which the proposal was carried out."""
WAS_PINNED = "memory_was_pinned"
"""Field of an edit that removed a pinned memory. Undoing the edit pins the memory again."""
MOST_CHARS = 20_000
MOST_TITLE_CHARS = 200

WriteLore: TypeAlias = Callable[[MemoryEntry, MemoryEntry | None, str], Awaitable[None]]
"""Replaces a lore entry of a world. Its arguments are (present entry, new entry, expected text).

If the new entry is None, the present entry is removed. Nothing is written unless the text in the world is the expected
text ('': the world has no such entry).
"""
Recall: TypeAlias = Callable[[str, str], Awaitable[tuple[FoundMemory, ...]]]
"""Returns the memories of a session (first argument) that match a text (second argument)."""


class MemoryEditor:
    """Edits the memory of sessions for one caller.

    Args:
        author: author of the edits, kept in the log.
        viewer: if given, only memories that this viewer may know can be edited, and only this viewer may know new
            memories.
        all_viewers: true if the caller may know all memories.
        is_model: true if the texts come from a model. Text that the model's prompt showed, or that `recall` finds, is
            not remembered again. Other text gets the trust label of a model.
        recall: finds the memories that a text repeats.
        write_lore: carries out accepted proposals for lore (None: proposals for lore cannot be accepted).
    """

    def __init__(
        self,
        store: Store,
        ingestor: EvidenceIngestor,
        clock: Clock,
        ids: IdGenerator,
        *,
        author: str,
        viewer: str | None = None,
        all_viewers: bool = True,
        is_model: bool = False,
        recall: Recall | None = None,
        write_lore: WriteLore | None = None,
    ) -> None:
        self._store, self._ingestor, self._clock, self._ids = store, ingestor, clock, ids
        self._author, self._viewer, self._all_viewers, self._is_model = author, viewer, all_viewers, is_model
        self._recall, self._write_lore = recall, write_lore

    async def remember(
        self, session_id: str, text: str, *, title: str = "", key: str | None = None, dry_run: bool = False
    ) -> MemoryEdit:
        """Store `text` as a memory of the session, with its secrets masked. Repeated calls with the same `key` store
        the text only once.

        If `dry_run` is true, nothing is stored and the edit is only shown. `edit` and `supersede` have the same
        parameter.

        Raises ConfigError if the text is empty, is too long, or contains nothing new for a model. Raises RedactionError
        if the text cannot be searched for secrets. Raises SessionNotFoundError if the session does not exist.
        """
        return await self._write(session_id, MemoryAction.REMEMBER, text, title=title, key=key, dry_run=dry_run)

    async def edit(self, session_id: str, memory_id: str, text: str, *, dry_run: bool = False) -> MemoryEdit:
        """Replace the text of a memory: from now on, recall finds the new text and not the old one.

        Raises the errors of `remember`. Raises MemoryNotFoundError if the id is unknown. Raises ConfigError if the
        memory was superseded.
        """
        memory = await self._find(session_id, memory_id)
        return await self._replace(session_id, memory, MemoryAction.EDIT, text, dry_run=dry_run)

    async def supersede(self, session_id: str, memory_id: str, text: str = "", *, dry_run: bool = False) -> MemoryEdit:
        """Mark a memory as no longer true. If `text` is given, it is stored as the memory that is true now.

        Raises the errors of `edit`.
        """
        memory = await self._find(session_id, memory_id)
        return await self._replace(session_id, memory, MemoryAction.SUPERSEDE, text, dry_run=dry_run)

    async def pin(self, session_id: str, memory_id: str) -> MemoryEdit:
        """Show a memory in every prompt in which it fits. Recall leaves out a pinned memory.

        Raises MemoryNotFoundError if the id is unknown. Raises ConfigError if the memory was superseded.
        """
        memory = await self._find(session_id, memory_id)
        pinned = await load_pin(self._store, session_id, memory.memory_id)
        if pinned is not None:
            return _required(pinned)
        made = await self._record(session_id, MemoryAction.PIN, memory, takes=memory.entry_ids)
        await self._show(session_id, memory)
        return _required(made)

    async def unpin(self, session_id: str, memory_id: str) -> MemoryEdit:
        """Stop showing a memory in every prompt. Raises ConfigError if the memory is not pinned."""
        await self._store.head(session_id)
        pinned = await load_pin(self._store, session_id, memory_id)
        viewers = () if pinned is None else read_audience(pinned.metadata)
        if pinned is None or not (self._all_viewers or may_read(viewers, self._viewer)):
            raise ConfigError(f"Memory {memory_id!r} is not pinned.")
        await self._end_pin(session_id, pinned)
        memory = Memory(memory_id=memory_id, kind="", text="", viewers=viewers)
        return _required(await self._record(session_id, MemoryAction.UNPIN, memory))

    async def propose(
        self,
        session_id: str,
        action: MemoryAction,
        text: str,
        *,
        memory_id: str = "",
        title: str = "",
        key: str | None = None,
    ) -> MemoryEdit:
        """Store a model's request (REMEMBER, EDIT or SUPERSEDE) until a person decides on it.

        `text`, `memory_id`, `title` and `key` are the arguments of the requested action. If an equal request waits
        already, this request is returned. Raises the errors of the requested action. Raises ConfigError if an equal
        request was rejected before.
        """
        if action is MemoryAction.REMEMBER:
            seen = await self.remember(session_id, text, title=title, key=key, dry_run=True)
        elif action is MemoryAction.EDIT:
            seen = await self.edit(session_id, memory_id, text, dry_run=True)
        else:
            seen = await self.supersede(session_id, memory_id, text, dry_run=True)
        asked = {"action": action.value, "memory_id": memory_id, "title": title}
        for each in await load_proposals(self._store, session_id):
            if each.metadata.get(PROPOSED) == asked and each.metadata.get(AFTER, "") == seen.after:
                decision = await self._decision_on(session_id, each.evidence_id)
                if decision is not None and decision.metadata[ACTION] == MemoryAction.REJECT.value:
                    raise ConfigError("This was proposed before and rejected.")
                return _required(each)
        told: dict[str, Any] = {AFTER: seen.after, BEFORE: seen.before, PROPOSED: asked}
        if memory_id:
            told |= {TARGET: memory_id, **audience_field((await self._find(session_id, memory_id)).viewers)}
        elif not self._all_viewers and self._viewer is not None:
            told |= audience_field((self._viewer,))
        proposal = build_proposal(self._ids.generate(), title or action.value, told, self._author, self._clock.now())
        await self._store.put_evidence(session_id, proposal)
        return _required(proposal)

    async def accept(self, session_id: str, proposal_id: str, text: str = "") -> MemoryEdit:
        """Carry out a proposal. If `text` is not empty, it replaces the proposed text. A second call changes nothing.

        Raises MemoryNotFoundError if there is no such proposal. Raises ConfigError if the proposal was rejected. Raises
        the errors of the requested action.
        """
        proposal = await self._find_proposal(session_id, proposal_id)
        decision = await self._decision_on(session_id, proposal_id, MemoryAction.ACCEPT)
        if decision is not None:
            return _required(decision)
        wanted = text if text.strip() else str(proposal.metadata.get(AFTER, ""))
        entry = proposed_entry(proposal)
        if entry is not None:
            if text.strip():
                wanted = (await self.remember(session_id, text, dry_run=True)).after
                told = {name: value for name, value in entry.metadata.items() if name != VALUE}
                entry = replace(entry, text=wanted, trust=Trust.USER, metadata=told or EMPTY)
            await self._store.append_entries(session_id, (entry,))
            if topic_of_fact(entry) is not None:
                await settle_facts(self._store, session_id)
            made_id = ""
        else:
            made_id = await self._carry_out(session_id, proposal, wanted)
        return await self._decide(session_id, proposal, MemoryAction.ACCEPT, {AFTER: wanted, MADE: made_id})

    async def reject(self, session_id: str, proposal_id: str) -> MemoryEdit:
        """Reject a proposal. The same proposal is not made again for the same turns.

        Raises MemoryNotFoundError if there is no such proposal. Raises ConfigError if the proposal was accepted.
        """
        proposal = await self._find_proposal(session_id, proposal_id)
        decision = await self._decision_on(session_id, proposal_id, MemoryAction.REJECT)
        if decision is not None:
            return _required(decision)
        return await self._decide(session_id, proposal, MemoryAction.REJECT, {})

    async def _carry_out(self, session_id: str, proposal: Evidence, text: str) -> str:
        asked, lore = proposal.metadata[PROPOSED], proposed_lore(proposal)
        if lore is not None:
            if self._write_lore is None:
                raise ConfigError("Lore is edited by the author of the world, who accepts this proposal.")
            former = "" if lore[1] is None else lore[1].text
            await self._write_lore(lore[0], replace(lore[0], text=text), former)
            return ""
        action, memory_id = MemoryAction(str(asked["action"])), str(asked["memory_id"])
        if action is MemoryAction.REMEMBER:
            done = await self.remember(
                session_id, text, title=str(asked["title"]), key=f"proposal {proposal.evidence_id}"
            )
        elif action is MemoryAction.EDIT:
            done = await self.edit(session_id, memory_id, text)
        else:
            done = await self.supersede(session_id, memory_id, text)
        return done.edit_id

    async def _find_proposal(self, session_id: str, proposal_id: str) -> Evidence:
        proposal = await load_edit(self._store, session_id, proposal_id)
        is_known = proposal is not None and (self._all_viewers or may_read(readers_of(proposal), self._viewer))
        if proposal is None or not is_known or not is_proposal(proposal):
            raise MemoryNotFoundError(f"There is no proposal {proposal_id!r} in session {session_id!r}.")
        return proposal

    async def _decision_on(
        self, session_id: str, proposal_id: str, wanted: MemoryAction | None = None
    ) -> Evidence | None:
        """Return the valid decision on a proposal; raises ConfigError if it is not the `wanted` one."""
        for each in await load_edits(self._store, session_id, proposal_id):
            if is_decision(each):
                if wanted is not None and each.metadata[ACTION] != wanted.value:
                    raise ConfigError(
                        f"Proposal {proposal_id!r} was decided otherwise by edit {each.evidence_id!r}; undo that first."
                    )
                return each
        return None

    async def _decide(
        self, session_id: str, proposal: Evidence, action: MemoryAction, more: Mapping[str, Any]
    ) -> MemoryEdit:
        told = {ACTION: action.value, AUTHOR: self._author, TARGET: proposal.evidence_id}
        told |= {BEFORE: describe_proposal(proposal), **audience_field(readers_of(proposal)), **more}
        edit = build_edit(self._ids.generate(), proposal.source.name, told, self._clock.now())
        await self._store.put_evidence(session_id, edit)
        return _required(edit)

    async def _undo_decision(self, session_id: str, decision: Evidence) -> MemoryEdit:
        """Reopen a proposal. The effect of its acceptance is removed first. Raises ConfigError if a later edit builds
        on it.
        """
        proposal = await load_edit(self._store, session_id, str(decision.metadata[TARGET]))
        entry = None if proposal is None else proposed_entry(proposal)
        lore = None if proposal is None else proposed_lore(proposal)
        if decision.metadata[ACTION] == MemoryAction.ACCEPT.value:
            if made_id := decision.metadata.get(MADE):
                await self.undo(session_id, str(made_id))
            elif entry is not None:
                for later in await load_edits(self._store, session_id, entry.entry_id):
                    if not is_undone(later) and later.metadata.get(ACTION) != MemoryAction.PROPOSE.value:
                        raise ConfigError(
                            f"Edit {later.evidence_id!r} builds on edit {decision.evidence_id!r}; undo that one first."
                        )
                await self._store.append_entries(session_id, (replace(entry, text=""),))
                if topic_of_fact(entry) is not None:
                    await settle_facts(self._store, session_id)
            elif lore is not None and self._write_lore is not None:
                await self._write_lore(*lore, str(decision.metadata[AFTER]))
        return _required(await self._take_back(session_id, decision))

    async def undo(self, session_id: str, edit_id: str) -> MemoryEdit:
        """Undo an edit. A second call changes nothing.

        Raises MemoryNotFoundError if the edit is unknown. Raises ConfigError if a later edit builds on this edit, or if
        its action is CONTINUE or PROPOSE, which cannot be undone.
        """
        evidence = await load_edit(self._store, session_id, edit_id)
        edit = None if evidence is None else edit_of(evidence)
        if evidence is None or edit is None:
            raise MemoryNotFoundError(f"There is no edit {edit_id!r} in session {session_id!r}; the log shows the ids.")
        if is_undone(evidence):
            return edit
        if edit.action is MemoryAction.CONTINUE:
            raise ConfigError(f"Session {edit.memory_id!r} has its memories; erase that session to take them back.")
        if edit.action is MemoryAction.PROPOSE:
            raise ConfigError(f"Edit {edit_id!r} is a proposal, which changed nothing; reject it.")
        if edit.action in (MemoryAction.ACCEPT, MemoryAction.REJECT):
            return await self._undo_decision(session_id, evidence)
        pins: list[Evidence] = []
        if edit.action in (MemoryAction.REMEMBER, MemoryAction.EDIT, MemoryAction.SUPERSEDE):
            for later in await load_edits(self._store, session_id, edit_id):
                if later.metadata.get(ACTION) == MemoryAction.PIN.value and not is_undone(later):
                    pins.append(later)
                elif not is_undone(later) and later.metadata.get(ACTION) != MemoryAction.UNPIN.value:
                    raise ConfigError(f"Edit {later.evidence_id!r} builds on edit {edit_id!r}; undo that one first.")
        for each in pins:
            await self._end_pin(session_id, each)
        if edit.action is MemoryAction.UNPIN:
            await self.pin(session_id, edit.memory_id)
        elif edit.action is MemoryAction.PIN:
            await self._hide(session_id, edit.memory_id)
        done = _required(await self._take_back(session_id, evidence))
        if edit.action is not MemoryAction.REMEMBER and (pins or (WAS_PINNED in evidence.metadata and not edit.after)):
            await self.pin(session_id, edit.memory_id)
        return done

    async def _find(self, session_id: str, memory_id: str) -> Memory:
        return await find_memory(self._store, session_id, memory_id, self._viewer, all_viewers=self._all_viewers)

    async def _replace(
        self, session_id: str, memory: Memory, action: MemoryAction, text: str, *, dry_run: bool
    ) -> MemoryEdit:
        if text.strip() == memory.text.strip():
            raise ConfigError(f"Memory {memory.memory_id!r} has this text already.")
        pinned = None if dry_run else await load_pin(self._store, session_id, memory.memory_id)
        has_successor = bool(text.strip()) or action is not MemoryAction.SUPERSEDE
        if has_successor:
            done = await self._write(session_id, action, text, title=memory.title, replaced=memory, dry_run=dry_run)
        elif dry_run:
            name, before = memory.memory_id, memory.text
            done = MemoryEdit(edit_id="", action=action, memory_id=name, author=self._author, at=None, before=before)
        else:
            more = {} if pinned is None else {WAS_PINNED: "yes"}
            done = _required(await self._record(session_id, action, memory, memory.entry_ids, more))
        if pinned is not None:
            await self._end_pin(session_id, pinned)
            if has_successor:
                await self.pin(session_id, done.edit_id)
        return done

    async def _write(
        self,
        session_id: str,
        action: MemoryAction,
        text: str,
        *,
        title: str = "",
        replaced: Memory | None = None,
        key: str | None = None,
        dry_run: bool = False,
    ) -> MemoryEdit:
        if not text.strip():
            raise ConfigError("The text is empty; give what is to be remembered.")
        if len(text) > MOST_CHARS:
            raise ConfigError(
                f"The text has {len(text)} characters, and a memory at most {MOST_CHARS}; ingest it as a document."
            )
        if len(title) > MOST_TITLE_CHARS:
            raise ConfigError(f"The title has {len(title)} characters, and may have {MOST_TITLE_CHARS}.")
        await self._store.head(session_id)
        done = await self._ingestor.ingest(
            session_id,
            text,
            EvidenceSource(kind=SourceKind.LLM if self._is_model else SourceKind.USER, name=title or SOURCE),
            EvidenceType.USER_INPUT,
            metadata=self._metadata(action, replaced, () if replaced is None else replaced.entry_ids),
            options=IngestOptions(
                dedup=False,
                as_document=True,
                own_words=True,
                dry_run=dry_run,
                trust=self._trust_of(replaced),
                idempotency_key=None if key is None else f"memory {key}",
                shown=await self._find_known(session_id, text, replaced) if self._is_model else (),
            ),
        )
        if done.evidence is None:
            raise ConfigError(
                "Nothing of this text is new: memory or the prompt of the last turn has it. It is not remembered again."
            )
        edit = _required(done.evidence)
        if not dry_run or not done.is_new:
            return edit
        return replace(edit, edit_id="", memory_id="" if replaced is None else replaced.memory_id)

    async def _find_known(self, session_id: str, text: str, replaced: Memory | None) -> tuple[ShownText, ...]:
        """Return the texts that a model knows already: those of its prompt, except the user's latest words, and
        recalled ones.

        Texts of which a part is in the replaced memory are left out, because an edit may repeat them.
        """
        window = await self._store.window(session_id, message_limit=1)
        record = window.pending or window.previous
        known = await to_thread.run_sync(partial(find_shown_texts, record, with_input=False))
        if self._recall is not None:
            now = None if record is None else record.turn_id
            found = await self._recall(session_id, text)
            known += tuple(
                ShownText(source_id=each.memory_id, text=each.text) for each in found if not now or each.turn_id != now
            )
        return known if replaced is None else await to_thread.run_sync(_others, known, replaced.text)

    def _trust_of(self, replaced: Memory | None) -> Trust:
        own = Trust.MODEL if self._is_model else Trust.USER
        # A correction has the trust of its author, and at least that of the corrected text if both have one author.
        return (
            own if replaced is None or self._is_model else replaced.trust if replaced.trust is Trust.AUTHORED else own
        )

    def _metadata(self, action: MemoryAction, memory: Memory | None, takes: tuple[str, ...]) -> dict[str, Any]:
        told: dict[str, Any] = {IS_EDIT: "yes", ACTION: action.value, AUTHOR: self._author}
        if memory is not None:
            told |= {TARGET: memory.memory_id, BEFORE: memory.text, **audience_field(memory.viewers)}
            if memory.sensitivity:
                told[SENSITIVITY] = memory.sensitivity
        elif not self._all_viewers and self._viewer is not None:
            told |= audience_field((self._viewer,))
        if takes:
            told[TAKES_FROM_RECALL] = list(takes)
        return told

    async def _record(
        self,
        session_id: str,
        action: MemoryAction,
        memory: Memory,
        takes: tuple[str, ...] = (),
        more: Mapping[str, Any] = EMPTY,
    ) -> Evidence:
        told = {**self._metadata(action, memory, takes), **more}
        evidence = build_edit(self._ids.generate(), memory.title, told, self._clock.now())
        await self._store.put_evidence(session_id, evidence)
        await write_passages(self._store, session_id, evidence)
        return evidence

    async def _take_back(self, session_id: str, evidence: Evidence) -> Evidence:
        """Mark an edit as undone. Its passages are removed first, so that a half-done undo is still in the log and can
        be repeated.
        """
        await remove_passages(self._store, session_id, evidence)
        undone: Mapping[str, Any] = {UNDONE_AT: format_time(self._clock.now()), UNDONE_BY: self._author}
        marked = replace(evidence, metadata={**evidence.metadata, **undone})
        await self._store.put_evidence(session_id, marked)
        return marked

    async def _end_pin(self, session_id: str, pinned: Evidence) -> None:
        await self._take_back(session_id, pinned)
        await self._hide(session_id, str(pinned.metadata[TARGET]))

    async def _show(self, session_id: str, memory: Memory) -> None:
        await self._store.put_context_blocks(session_id, (build_pin(memory),))

    async def _hide(self, session_id: str, memory_id: str) -> None:
        block = _build_block(memory_id, "", {PINNED: memory_id, UNPINNED: True})
        await self._store.put_context_blocks(session_id, (block,))


def build_edit(edit_id: str, title: str, metadata: Mapping[str, Any], at: datetime) -> Evidence:
    """Return the evidence item of an edit that has no text of its own."""
    return Evidence(
        evidence_id=edit_id,
        type=EvidenceType.OTHER,
        source=EvidenceSource(kind=SourceKind.SYSTEM, name=title or SOURCE),
        trust=Trust.USER,
        metadata={IS_DOCUMENT: True, IS_EDIT: "yes", **metadata},
        created_at=at,
    )


def build_pin(memory: Memory) -> ContextBlock:
    """Return the context block that shows a memory in every prompt."""
    extra: dict[str, Any] = {PINNED: memory.memory_id, "trust": memory.trust.value, **audience_field(memory.viewers)}
    if memory.sensitivity:
        extra[SENSITIVITY] = memory.sensitivity
    return _build_block(memory.memory_id, memory.text, extra)


def _build_block(memory_id: str, text: str, extra: Mapping[str, Any]) -> ContextBlock:
    return ContextBlock(
        block_id=f"{PIN_PREFIX}{memory_id}",
        block_type=BlockType.MEMORY,
        priority=Priority.HIGH,
        content=text,
        extra=extra,
    )


def _others(known: tuple[ShownText, ...], text: str) -> tuple[ShownText, ...]:
    """Return the known texts of which no part is in `text`."""
    return tuple(each for each in known if not without_shown(text, (each,)).sources)


def _required(evidence: Evidence) -> MemoryEdit:
    edit = edit_of(evidence)
    if edit is None:
        raise ConfigError(f"Evidence {evidence.evidence_id!r} is not an edit of memory; give another key.")
    return edit

"""Starts a session with the memories of an old session: remembered texts, memories of the old turns, and a summary.

The new session begins with the initial state of its world. Each memory is a copy that names its source, so that an
erasure of the source finds the copy. First a note about the new session is written to the memory log of the old
session. Then the new session is written in one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from jacquard.adapters.prompts.templates import find_text_language
from jacquard.config.sections import RuntimeConfig
from jacquard.core.errors import ConfigError
from jacquard.core.names import NameDictionary
from jacquard.memory.consolidate.spans import TURN_SUMMARY
from jacquard.memory.path_entries import find_unsummarized_turns, load_path_entries
from jacquard.memory.summarize.roller import SummaryRoller
from jacquard.memory.threads import THREAD_KEPT, open_threads
from jacquard.memory.verbs.editor import WAS_PINNED, build_edit, build_pin
from jacquard.memory.verbs.find import WITH_TEXT, find_memory, memory_of_entry, memory_of_evidence
from jacquard.memory.verbs.log import ACTION, AUTHOR, BEFORE, IS_EDIT, TARGET, is_undone, load_edits
from jacquard.memory.verbs.values import Memory, MemoryAction
from jacquard.pipeline.worlds import name_of_speaker, party_names
from jacquard.templating.profiles import PROFILE
from mnemosyne.chains.audience import (
    Audience,
    audience_field,
    audience_of_entry,
    audience_of_messages,
    may_read,
    read_audience,
    told_messages,
)
from mnemosyne.chains.session_start import session_start
from mnemosyne.chains.story_facts import find_endings
from mnemosyne.core.errors import SessionExistsError, SessionNotFoundError
from mnemosyne.evidence.documents import IS_DOCUMENT, document_entries, is_document
from mnemosyne.protocols import Store
from mnemosyne.schema.document import Summary
from mnemosyne.schema.evidence import (
    ContextBlock,
    Evidence,
    EvidenceLinks,
    EvidenceSource,
    EvidenceType,
    SourceKind,
    readers_of,
)
from mnemosyne.schema.memory import (
    CONTINUED_IN,
    COPIED_FROM,
    FACT_ENDED,
    TAKES_FROM_RECALL,
    THREAD,
    Chain,
    MemoryEntry,
    Trust,
    copied_from,
    session_scope,
)
from mnemosyne.schema.query import EvidenceFilter
from mnemosyne.schema.record import SessionStart, SessionWindow, TurnRecord
from mnemosyne.schema.session import Role, SessionHead
from mnemosyne.schema.world import WorldPack
from mnemosyne.values import dataclass

TOLD_TURN = "turn"
"""Kind of a narrative entry that consists of the messages of one turn of another session."""

CONTINUED_FROM = "continued_from"
"""Metadata field of a session that names the session it continues, and the requested memories."""

_IDS = UUID("5b1d8a7e-6a0c-5d0f-8f7e-2f6d3c9b4e11")
_SUMMARY = "summary"
_HEADS = {"en": "What happened before, in session {session}:", "zh": "此前的故事（会话 {session}）："}
_TITLES = {"en": "The story so far", "zh": "前情"}
_OF_ONE_SESSION = frozenset({TARGET, BEFORE, TAKES_FROM_RECALL, WAS_PINNED, "from_turn", "to_turn"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Continuation:
    """Request to continue the session `session_id` in the new session `new_session_id`."""

    session_id: str
    new_session_id: str
    memory_ids: tuple[str, ...] | None = None
    """Ids of the memories to copy (None: all)."""
    author: str = "host"
    viewer: str | None = None
    """Copy only memories that this character may know."""

    def may_know(self, audience: Audience) -> bool:
        """Return whether the viewer of this request may know a text with this `audience`. Without a viewer, return
        True.
        """
        return self.viewer is None or may_read(audience, self.viewer)

    def field(self) -> dict[str, Any]:
        """Return the metadata field of the new session that states this request."""
        asked = None if self.memory_ids is None else sorted(set(self.memory_ids))
        return {CONTINUED_FROM: {"session_id": self.session_id, "memory_ids": asked, "viewer": self.viewer}}


async def find_continued(store: Store, asked: Continuation) -> SessionHead | None:
    """Return the head of the new session, if an equal request created it before. Return None if the new id is free.

    Raises SessionExistsError if another session has the new id. Raises ConfigError if the new id is empty.
    """
    if not asked.new_session_id.strip():
        raise ConfigError("The id of the new session is empty; give it one.")
    try:
        window = await store.window(asked.new_session_id, message_limit=1)
    except SessionNotFoundError:
        return None
    made_by = None if window.meta is None else window.meta.extra.get(CONTINUED_FROM)
    if made_by != asked.field()[CONTINUED_FROM]:
        raise SessionExistsError(asked.new_session_id)
    return window.head


async def continue_session(
    store: Store, roller: SummaryRoller, config: RuntimeConfig, world: WorldPack, asked: Continuation, at: datetime
) -> SessionHead:
    """Create the new session and return its head. The caller holds the lock of the old session.

    `world` is the world of both sessions, `roller` makes the summary, and `at` is the present time. Raises
    SessionNotFoundError if the old session does not exist. Raises MemoryNotFoundError if a requested memory is unknown.
    Raises SessionExistsError if the new id is taken. Raises ConfigError if a requested memory is superseded.
    """
    window = await store.window(asked.session_id, message_limit=6)
    copies = _Copies(asked, world, at)
    await _copy_memories(store, window.head, asked, copies)
    copies.add_summary(await roller.tell_whole(window, config), "".join(m.message.content for m in window.messages))
    for pinned in await load_edits(store, asked.session_id):
        if pinned.metadata.get(ACTION) == MemoryAction.PIN.value and not is_undone(pinned):
            copies.pin(str(pinned.metadata[TARGET]))
    told = {ACTION: MemoryAction.CONTINUE.value, AUTHOR: asked.author, TARGET: asked.new_session_id}
    note = build_edit(copies.id_of(CONTINUED_IN), "", {**told, CONTINUED_IN: asked.new_session_id}, at)
    await store.put_evidence(asked.session_id, note)
    return await store.create_session(copies.start_of(window))


async def _copy_memories(store: Store, head: SessionHead, asked: Continuation, copies: _Copies) -> None:
    replaced = {
        name
        for edit in await load_edits(store, asked.session_id)
        if not is_undone(edit) and edit.metadata.get(ACTION) != MemoryAction.PIN.value
        for name in edit.metadata.get(TAKES_FROM_RECALL, ())
    }
    evidences = await store.list_evidences(asked.session_id, EvidenceFilter(branch_id=head.branch_id))
    documents = {each.evidence_id: each for each in evidences if _is_memory(asked, each, replaced)}
    narratives = await load_path_entries(store, head, Chain.NARRATIVE)
    events = await load_path_entries(store, head, Chain.EVENT)
    threads = {each.entry_id for each in open_threads(events)} - replaced
    replaced |= {*find_endings(events, head.lineage)}
    entries = {
        each.entry_id: each
        for each in (*narratives, *events)
        if each.entry_id not in replaced
        and (each.kind not in (THREAD, THREAD_KEPT, FACT_ENDED) or each.entry_id in threads)
    }
    summarized = {each.turn_id for each in narratives if each.kind == TURN_SUMMARY}
    turns = {each.turn_id: each for each in await find_unsummarized_turns(store, head, (), head.depth)}
    if asked.memory_ids is None:
        chosen: list[str] = [*documents, *entries, *(name for name in turns if name not in summarized)]
    else:
        chosen = [*threads, *[await _name_of(store, asked, memory_id) for memory_id in asked.memory_ids]]
    for name in dict.fromkeys(chosen):
        if name in documents:
            copies.add_document(documents[name])
        elif name in entries:
            copies.add_entry(entries[name])
        elif name in turns:
            copies.add_turn(turns[name])


async def _name_of(store: Store, asked: Continuation, memory_id: str) -> str:
    """Return the id under which a requested memory is copied.

    A message is copied with its whole turn, so that a question keeps its answer. Raises MemoryNotFoundError, and
    ConfigError for a superseded memory.
    """
    memory = await find_memory(store, asked.session_id, memory_id, asked.viewer, all_viewers=asked.viewer is None)
    for entry in await store.entries(session_scope(asked.session_id), memory.entry_ids[:1]):
        if entry.chain is Chain.HISTORY:
            return str(entry.turn_id)
    return memory.memory_id


def _is_memory(asked: Continuation, evidence: Evidence, replaced: set[str]) -> bool:
    """Return whether an evidence item is a valid document or remembered text that the caller may know."""
    if not is_document(evidence) or is_undone(evidence) or not evidence.content:
        return False
    passages = memory_of_evidence(asked.session_id, evidence).entry_ids
    return asked.may_know(readers_of(evidence)) and not replaced.issuperset(passages)


@dataclass(slots=True)
class _Copies:
    """Copies made so far."""

    asked: Continuation
    world: WorldPack
    at: datetime
    evidences: list[Evidence] = field(default_factory=list)
    entries: list[MemoryEntry] = field(default_factory=list)
    blocks: list[ContextBlock] = field(default_factory=list)
    memories: dict[str, tuple[Memory, Mapping[str, Any]]] = field(default_factory=dict)
    """Memory in the new session and its fields, by the id of its source."""

    def id_of(self, memory_id: str) -> str:
        """Return the id of a memory's copy; equal requests give equal ids."""
        return str(uuid5(_IDS, "\0".join((self.asked.session_id, self.asked.new_session_id, memory_id))))

    def _source(
        self, memory_id: str, extra: Mapping[str, Any], turn_id: str | None, depth: int | None
    ) -> dict[str, Any]:
        told = {"session_id": self.asked.session_id, "memory_id": memory_id, "turn_id": turn_id, "depth": depth}
        source = {name: value for name, value in told.items() if value}
        return {COPIED_FROM: [*copied_from(extra), source]}

    def add_document(self, evidence: Evidence) -> None:
        """Copy a document or a remembered text."""
        told = {name: value for name, value in evidence.metadata.items() if name not in _OF_ONE_SESSION}
        if told.get(ACTION) in WITH_TEXT:
            told[ACTION] = MemoryAction.REMEMBER.value
        told |= self._source(evidence.evidence_id, evidence.metadata, evidence.links.turn_id, None)
        links = EvidenceLinks(viewer=evidence.links.viewer)
        self._keep(evidence.evidence_id, replace(evidence, evidence_id="", metadata=told, links=links))

    def add_entry(self, entry: MemoryEntry) -> None:
        """Copy an entry that was made of turns."""
        if not self.asked.may_know(audience_of_entry(entry)):
            return
        told = {name: value for name, value in entry.metadata.items() if name not in _OF_ONE_SESSION}
        told |= self._source(entry.entry_id, entry.metadata, entry.turn_id, entry.depth)
        copied = replace(
            entry,
            entry_id=self.id_of(entry.entry_id),
            scope=session_scope(self.asked.new_session_id),
            turn_id=None,
            branch_id=None,
            depth=0,
            metadata=told,
        )
        self.entries.append(copied)
        self.memories[entry.entry_id] = memory_of_entry(copied), told

    def add_turn(self, turn: TurnRecord) -> None:
        """Copy the messages of a turn as one narrative."""
        messages = [
            each for each in told_messages(turn.messages) if each.role is not Role.SYSTEM and each.content.strip()
        ]
        names = party_names(self.world)
        text = "\n".join(f"{name_of_speaker(each, names)}: {each.content}" for each in messages)
        found = NameDictionary(self.world.entities).find(text)
        entry = MemoryEntry(
            entry_id=turn.turn_id,
            scope=session_scope(turn.session_id),
            chain=Chain.NARRATIVE,
            kind=TOLD_TURN,
            text=text,
            at=turn.created_at,
            turn_id=turn.turn_id,
            depth=turn.depth,
            entities=tuple(dict.fromkeys(name for match in found for name in match.entity_ids)),
            trust=Trust.MODEL,
            metadata=audience_field(audience_of_messages(messages)),
        )
        if text:
            self.add_entry(entry)

    def add_summary(self, summary: Summary | None, said: str) -> None:
        """Add the summary of the old session, shown in every prompt."""
        if summary is None or not self.asked.may_know(read_audience(summary.extra)):
            return
        language = "zh" if find_text_language(summary.content or said).startswith("zh") else "en"
        told = {IS_DOCUMENT: True, IS_EDIT: "yes", ACTION: MemoryAction.REMEMBER.value, AUTHOR: self.asked.author}
        told |= {**audience_field(read_audience(summary.extra)), **self._source(_SUMMARY, {}, None, None)}
        evidence = Evidence(
            evidence_id="",
            type=EvidenceType.USER_INPUT,
            source=EvidenceSource(kind=SourceKind.LLM, name=_TITLES[language]),
            content=f"{_HEADS[language].format(session=self.asked.session_id)}\n{summary.content}",
            trust=Trust.MODEL,
            metadata=told,
            created_at=self.at,
        )
        self._keep(_SUMMARY, evidence)
        self.pin(_SUMMARY)

    def _keep(self, source_id: str, evidence: Evidence) -> None:
        kept = replace(evidence, evidence_id=self.id_of(source_id))
        self.evidences.append(kept)
        self.entries += document_entries(self.asked.new_session_id, kept)
        self.memories[source_id] = memory_of_evidence(self.asked.new_session_id, kept), kept.metadata

    def pin(self, source_id: str) -> None:
        """Show a copy in every prompt."""
        if source_id not in self.memories:
            return
        memory, told = self.memories[source_id]
        source = {COPIED_FROM: told[COPIED_FROM]}
        edit: dict[str, Any] = {
            ACTION: MemoryAction.PIN.value,
            AUTHOR: self.asked.author,
            TARGET: memory.memory_id,
            BEFORE: memory.text,
        }
        edit |= {**audience_field(memory.viewers), TAKES_FROM_RECALL: list(memory.entry_ids), **source}
        evidence = build_edit(self.id_of(f"pin\0{source_id}"), memory.title, edit, self.at)
        block = build_pin(memory)
        self.evidences.append(evidence)
        self.entries += document_entries(self.asked.new_session_id, evidence)
        self.blocks.append(replace(block, extra={**block.extra, **source}))

    def start_of(self, window: SessionWindow) -> SessionStart:
        """Return the new session: its world's initial state, the owner and profile of the old one, and the copies."""
        extra = {} if window.meta is None else {k: v for k, v in window.meta.extra.items() if k == PROFILE}
        start = session_start(self.asked.new_session_id, self.world, self.at, extra={**extra, **self.asked.field()})
        return replace(
            start,
            locale=("" if window.meta is None else window.meta.locale) or start.locale,
            turns=(),
            entries=tuple(self.entries),
            evidences=tuple(self.evidences),
            blocks=tuple(self.blocks),
            actor=None if window.meta is None else window.meta.actor,
        )

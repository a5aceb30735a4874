"""Makes sessions, turns and entries for the tests of a store, with short functions that play them.

The module imports the schema and the Store protocol, never a store.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mnemosyne.chains.unanswered_inputs import head_after
from mnemosyne.protocols import Store
from mnemosyne.schema.document import (
    Actor,
    AgentInfo,
    MessageIndexRange,
    Meta,
    ModelUsage,
    Session,
    SessionDocument,
    Summary,
    Task,
    TaskState,
    TaskStatus,
    TodoList,
    ToolCall,
    ToolState,
)
from mnemosyne.schema.evidence import (
    BlockType,
    ContextBlock,
    Evidence,
    EvidenceSource,
    EvidenceType,
    Priority,
    SourceKind,
)
from mnemosyne.schema.memory import Chain, MemoryEntry, session_scope, world_scope
from mnemosyne.schema.record import ImportedTurn, SessionStart, TurnCommit, TurnRecord
from mnemosyne.schema.session import (
    Message,
    Ref,
    Role,
    SessionHead,
    TurnKind,
    TurnStatus,
)

AT = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
SESSION = "s1"
SCOPE = session_scope(SESSION)
WORLD_SCOPE = world_scope("w1")
STATE: dict[str, Any] = {"hero": {"gold": 0}}


def user_message(text: str, role: Role = Role.USER, **fields: Any) -> Message:
    """Return a message with the role `role`, by default the user's."""
    return Message(role=role, content=text, **fields)


def reply_message(text: str) -> Message:
    """Return an assistant's message."""
    return user_message(text, Role.ASSISTANT)


def imported_turn(turn_id: str, text: str | None = None) -> ImportedTurn:
    """Return a finished turn of two messages."""
    words = text or turn_id
    return ImportedTurn(turn_id=turn_id, messages=(user_message(f"ask {words}"), reply_message(f"tell {words}")))


def start(*turns: ImportedTurn, entries: tuple[MemoryEntry, ...] = (), session_id: str = SESSION) -> SessionStart:
    """Return the start of a session with these turns and entries."""
    return SessionStart(
        session_id=session_id, world_id="w1", locale="en", state=STATE, turns=turns, entries=entries, at=AT
    )


def prepared_turn(head: SessionHead, turn_id: str, text: str = "hello", **fields: Any) -> TurnRecord:
    """Return a prepared turn that follows `head`."""
    given_fields: dict[str, Any] = {
        "messages": (user_message(text),),
        "fingerprint": f"f-{turn_id}",
        "created_at": AT,
    } | fields
    return TurnRecord(
        turn_id=turn_id,
        session_id=head.session_id,
        branch_id=head.branch_id,
        depth=head.depth + 1,
        parent_id=head.turn_id,
        kind=TurnKind.NARRATIVE,
        status=TurnStatus.PREPARED,
        **given_fields,
    )


def gold_state(amount: int) -> dict[str, Any]:
    """Return the state in which the hero has `amount` gold."""
    return {"hero": {"gold": amount}}


def gold_commit(turn_id: str, amount: int, **fields: Any) -> TurnCommit:
    """Return a commit of the turn `turn_id` that sets the gold to `amount`."""
    return TurnCommit(
        turn_id=turn_id,
        messages=(reply_message(f"reply {turn_id}"),),
        ops=({"op": "replace", "path": "/hero/gold", "value": amount},),
        state=gold_state(amount),
        **fields,
    )


def memory(entry_id: str, **fields: Any) -> MemoryEntry:
    """Return an event entry of the session."""
    return MemoryEntry(
        **({"entry_id": entry_id, "scope": SCOPE, "chain": Chain.EVENT, "kind": "fact", "text": entry_id} | fields)
    )


def lore(entry_id: str, text: str = "lore", **fields: Any) -> MemoryEntry:
    """Return a lore entry of the world."""
    return MemoryEntry(entry_id=entry_id, scope=WORLD_SCOPE, chain=Chain.LORE, kind="encyclopedia", text=text, **fields)


def document_of(*messages: Message, session_id: str = SESSION, **fields: Any) -> SessionDocument:
    """Return a session document with `messages`; `fields` are further fields of the document."""
    return SessionDocument(session=Session(session_id=session_id, messages=messages), **fields)


def full_document(session_id: str = SESSION) -> SessionDocument:
    """Return a document with a value in every field."""
    ref = Ref(evidence_id="e2", selector="char:0-2", hash="ab", extra={"note": 1})
    bare = document_of(
        user_message("钥匙在哪里？", message_id="m1", at=AT, extra={"mood": ["😟", None, 1.5]}),
        user_message("In the <well>.", Role.ASSISTANT, message_id="m2", refs=(ref,)),
        session_id=session_id,
    )
    session = replace(
        bare.session,
        summary=Summary(
            content="They look for a key.",
            updated_at=AT,
            message_index_range=MessageIndexRange(from_index=1, to_index=1, extra={"x": {}}),
        ),
        task_state=TaskState(
            todo_list=TodoList(
                tasks=(Task(task_id="b", name="find it"), Task(task_id="a", status=TaskStatus.FAILED, error="lost")),
                extra={"open": True},
            )
        ),
        tool_state=ToolState(
            tool_calls=(ToolCall(tool_call_id="c1", tool="dig", called_at=AT, args_digest={"deep": [1]}),),
            extra={"kept": "yes"},
        ),
        model_usage=(ModelUsage(model_usage_id="u1", model="m", params={"t": 0.5}, total_tokens=7),),
        extra={"chapter": 3},
    )
    return replace(
        bare,
        meta=Meta(
            locale="zh",
            created_at=AT,
            updated_at=AT,
            actor=Actor(user_id="lin", user_role="player", agent=AgentInfo(agent_id="dm", extra={"v": 1})),
            extra={"source": "test"},
        ),
        session=session,
        evidences={each.evidence_id: each for each in (evidence("e2", "a rope", created_at=AT), evidence("e1"))},
        context_blocks=(block("k2", content="deep", refs=(ref,)), block("k1", extra={"n": 1})),
        extra={"app": {"build": 9}},
    )


MEMORY_SOURCE = EvidenceSource(kind=SourceKind.RAG, name="history", uri="mnemosyne://session:s1/history/m")
"""Source of a memory that a turn recalled."""


def evidence(evidence_id: str, content: str = "", **fields: Any) -> Evidence:
    """Return an evidence item whose source is a document."""
    source = EvidenceSource(kind=SourceKind.RAG, name="lib", uri=f"doc://{evidence_id}")
    given: dict[str, Any] = {"type": EvidenceType.RAG_DOC, "source": source, "content": content or evidence_id} | fields
    return Evidence(evidence_id=evidence_id, **given)


def block(block_id: str, **fields: Any) -> ContextBlock:
    """Return an evidence block of medium priority."""
    given: dict[str, Any] = {"block_type": BlockType.EVIDENCE, "priority": Priority.MEDIUM} | fields
    return ContextBlock(block_id=block_id, **given)


async def read_everything(store: Store, session_id: str = SESSION) -> tuple[Any, ...]:
    """Return all that can be read of a session, so that a test can check that nothing has changed."""
    heads = await store.branches(session_id)
    windows = [await store.window(session_id, message_limit=1000, branch_id=head.branch_id) for head in heads]
    documents = [await store.get_session(session_id, branch_id=head.branch_id) for head in heads]
    chains = [await store.entries_after(session_scope(session_id), chain, 0, 1000) for chain in Chain]
    return heads, windows, documents, chains, await store.sessions(), await store.audits()


async def head_to_follow(store: Store, head: SessionHead) -> SessionHead:
    """Return the head that the next turn follows. If a turn is pending, that turn is the next turn's parent."""
    pending = (await store.window(head.session_id, message_limit=1, branch_id=head.branch_id)).pending
    return head if pending is None else head_after(head, pending)


async def play(store: Store, turn_id: str, amount: int | None = None, text: str = "hello") -> SessionHead:
    """Prepare and commit a turn on the active branch."""
    head = await store.head(SESSION)
    head = await store.save_prepared(prepared_turn(head, turn_id, text), expected_version=head.version)
    commit = TurnCommit(turn_id=turn_id, messages=(reply_message(f"reply {turn_id}"),))
    if amount is not None:
        commit = gold_commit(turn_id, amount)
    return await store.commit_turn(SESSION, commit, expected_version=head.version)


class StoreTests:
    """Base of all groups of tests: creates and opens stores."""

    persistent = True

    async def make_store(self, folder: Path, tenant: str = "default") -> Store:
        """Return a store of `tenant` that keeps its data below `folder`."""
        raise TypeError(
            f"{type(self).__name__} must define how to create its store: async def make_store(self, folder, tenant='default')"
        )

    @asynccontextmanager
    async def open_empty(self, folder: Path, tenant: str = "default") -> AsyncIterator[Store]:
        """Yield an empty store made by `make_store`, and close it afterwards."""
        store = await self.make_store(folder, tenant)
        try:
            yield store
        finally:
            await store.close()

    @asynccontextmanager
    async def open_session(self, folder: Path, *turns: ImportedTurn) -> AsyncIterator[Store]:
        """Yield a store with one session of `turns`, and close it afterwards."""
        async with self.open_empty(folder) as store:
            await store.create_session(start(*turns))
            yield store

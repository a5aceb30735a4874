"""Random sessions for the attack on erasure: who said what, and what was made of it.

Several users talk in several sessions; what one says is quoted in replies, evidence, originals, summaries, plans, receipts,
prompts, state, tool calls and selections; sessions may share a prologue and have branches. Everything that was put in is
noted, by session and author, so that it is known what must be gone after an erasure and what others hold in their own right.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any
from xml.sax.saxutils import escape

from mnemosyne import (
    Actor,
    Author,
    AuthorKind,
    BlockType,
    Chain,
    ContextBlock,
    Evidence,
    EvidenceSource,
    EvidenceType,
    MemoryEntry,
    Message,
    Meta,
    Priority,
    Ref,
    Role,
    SessionStart,
    SourceKind,
    Store,
    Summary,
    Task,
    ToolCall,
)
from mnemosyne.evidence import FolderVault
from mnemosyne.schema.memory import Trust, session_scope
from mnemosyne.schema.record import ImportedTurn, PathSummary, Prefetch, TurnCommit, TurnRecord
from mnemosyne.schema.session import TurnKind, TurnStatus

AT = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
USERS = ("lin", "kai", "mo")
ENGLISH = """Ottoline ledger brewery quicksilver Harrowgate ferry copper lantern seven gatehouse orchard bishop marsh
    thistle candle winter harbour gannet barrel lamp oil miller daughter chapel amber bell wardens northern pass silver key
    seldom whispered beneath the of and with never always tomorrow behind it's "door" <wall> & \\path café"""
CHINESE = """水银 账册 酿酒坊 夹墙 摆渡人 铜钱 灯笼 第七 城门 姐姐 河边 夜里 没有人 知道 守钟人 琥珀 北方 山口 从不 告诉 外人
    旧磨坊"""
SHORT = ("ok", "wait", "It is 4711.", "好的", "go on", "kept")


@dataclass(frozen=True, kw_only=True)
class Said:
    """A text that was put into a session. `user` is its author, None for everybody else (replies, tools, models)."""

    session_id: str
    text: str
    user: str | None = None
    evidence_id: str | None = None


@dataclass(kw_only=True)
class Case:
    """What was put into a store. `owners` by session; `spoken` are the turns (session, turn id) in which each user spoke."""

    chance: Random
    said: list[Said] = field(default_factory=list)
    owners: dict[str, str | None] = field(default_factory=dict)
    spoken: dict[str, set[tuple[str, str]]] = field(default_factory=dict)

    def text(self) -> str:
        """Return something that a person might say: English, Chinese, both, short, or with a line of dashes."""
        chance = self.chance
        kind = chance.random()
        if kind < 0.12:
            return chance.choice(SHORT)
        english = " ".join(chance.choices(ENGLISH.split(), k=chance.randint(3, 30)))
        chinese = "".join(chance.choices(CHINESE.split(), k=chance.randint(3, 20))) + "。"
        if kind < 0.55:
            return english
        if kind < 0.8:
            return chinese
        return chance.choice(
            (f"{english} {chinese}", f"{chinese}\n{english}", f"{english}\n{'-' * 40}\n{english[:60]}")
        )

    def quote(self, session_id: str) -> str:
        """Return a text that quotes something said in a session, whole or in part, in one of the forms of prompts and tools."""
        chance = self.chance
        here = [each.text for each in self.said if each.session_id == session_id] or [self.text()]
        text = chance.choice(here)
        if chance.random() < 0.5:
            begin = chance.randint(0, max(0, len(text) - 20))
            text = text[begin : begin + chance.randint(10, 90)]
        written = chance.choice(
            (text, text, escape(text), json.dumps({"q": text}), json.dumps([text], ensure_ascii=False))
        )
        return f"{chance.choice(('Noted: ', 'She said ', '据说', ''))}{written}{chance.choice((' …', '', '!'))}"

    def note(self, session_id: str, text: str, user: str | None = None, evidence_id: str | None = None) -> str:
        """Note that a text was put into a session, and return it."""
        self.said.append(Said(session_id=session_id, text=text, user=user, evidence_id=evidence_id))
        return text


def by(user: str, text: str) -> Message:
    """Return a user's message."""
    return Message(role=Role.USER, content=text, author=Author(kind=AuthorKind.USER, id=user), at=AT)


def reply(text: str) -> Message:
    """Return an assistant's message."""
    return Message(role=Role.ASSISTANT, content=text, at=AT)


def words_of(text: str, chance: Random) -> list[str]:
    """Return some words of a text, as a planner takes them for keywords."""
    return [word for word in text.split() if chance.random() < 0.4][:6]


async def fill(case: Case, store: Store, vault: FolderVault | None) -> None:
    """Make two to four sessions."""
    prologue = [case.text() for _ in range(case.chance.randint(0, 3))]
    for number in range(case.chance.randint(2, 4)):
        session_id = f"session-{number}"
        owner = case.chance.choice((None, None, *USERS))
        case.owners[session_id] = owner
        await _begin(case, store, session_id, prologue if case.chance.random() < 0.6 else [])
        if owner is not None:
            await store.patch_session(session_id, {"meta": {"actor": {"user_id": owner}}})
        await _add_evidence(case, store, vault, session_id)
        for turn in range(case.chance.randint(1, 2)):
            await _play(case, store, session_id, f"{session_id}-t{turn}", commit=True)
        await _add_parts(case, store, session_id)
        if case.chance.random() < 0.5:
            await store.fork(session_id, f"{session_id}-t0", "side")
            await _play(case, store, session_id, f"{session_id}-side", commit=case.chance.random() < 0.5)


async def _begin(case: Case, store: Store, session_id: str, prologue: list[str]) -> None:
    turns, entries = [], []
    for place in range(len(prologue) + case.chance.randint(1, 4)):
        turn_id = f"p{place:03}"
        if place < len(prologue):
            user, text = case.chance.choice(USERS), prologue[place]
        else:
            user, text = case.chance.choice(USERS), case.text()
        case.note(session_id, text, user)
        case.spoken.setdefault(user, set()).add((session_id, turn_id))
        answer = case.note(session_id, case.quote(session_id))
        turns.append(ImportedTurn(turn_id=turn_id, messages=(by(user, text), reply(answer))))
        if case.chance.random() < 0.5:
            entries.append(
                MemoryEntry(
                    entry_id=f"{session_id}.{turn_id}.summary",
                    scope=session_scope(session_id),
                    chain=Chain.NARRATIVE,
                    kind="turn_summary",
                    text=case.note(session_id, case.quote(session_id)),
                    title=case.note(session_id, text[:60]),
                    keys=tuple(words_of(text, case.chance)),
                    metadata={"of": case.note(session_id, case.quote(session_id))},
                    turn_id=turn_id,
                    branch_id="main",
                    depth=place + 1,
                )
            )
    await store.create_session(
        SessionStart(
            session_id=session_id, world_id="w1", locale="en", state={}, turns=tuple(turns), entries=tuple(entries)
        )
    )


async def _play(case: Case, store: Store, session_id: str, turn_id: str, *, commit: bool) -> None:
    """Prepare a turn whose records quote what was said, and perhaps commit it."""
    chance, head = case.chance, await store.head(session_id)
    user = chance.choice(USERS)
    text = case.note(session_id, case.text(), user)
    case.spoken.setdefault(user, set()).add((session_id, turn_id))
    words = words_of(text, chance)
    plan = {
        "current_goal": case.note(session_id, case.quote(session_id)),
        "search_intent": {"enabled": True, "focus_keywords": words},
        "reasons": [f"the input names {', '.join(words)}"],
        "entities": words[:1],
    }
    record = TurnRecord(
        turn_id=turn_id,
        session_id=session_id,
        branch_id=head.branch_id,
        depth=head.depth + 1,
        parent_id=head.turn_id,
        kind=TurnKind.NARRATIVE,
        status=TurnStatus.PREPARED,
        messages=(by(user, text),),
        plan=plan,
        receipt={
            "plan": plan,
            "stream_b": {"queries": [text], "candidates": [{"preview": case.note(session_id, case.quote(session_id))}]},
        },
        prompt={"text": f"<user>{escape(text)}</user>{case.note(session_id, case.quote(session_id))}" * 3},
        anchors={"bag": "/hero/bag"},
    )
    head = await store.save_prepared(record, expected_version=head.version)
    if not commit:
        return
    note = case.note(session_id, case.quote(session_id))
    answer = TurnCommit(
        turn_id=turn_id,
        messages=(reply(case.note(session_id, case.quote(session_id))),),
        ops=({"op": "add", "path": "/note", "value": note},),
        state={"note": note},
        report={"reply": case.note(session_id, case.quote(session_id))},
    )
    head = await store.commit_turn(session_id, answer, expected_version=head.version)
    if chance.random() < 0.5:
        prefetch = Prefetch(
            turn_id=turn_id,
            branch_id=head.branch_id,
            depth=head.depth,
            focus_quest_id=None,
            keywords=tuple(words),
            value={"text": case.note(session_id, case.quote(session_id)), "rationale": " ".join(words)},
        )
        await store.save_prefetch(session_id, prefetch)
    if chance.random() < 0.5:
        summary = Summary(content=case.note(session_id, case.quote(session_id)), updated_at=AT)
        await store.save_summary(
            session_id, PathSummary(turn_id=turn_id, branch_id=head.branch_id, depth=head.depth, summary=summary)
        )


async def _add_evidence(case: Case, store: Store, vault: FolderVault | None, session_id: str) -> None:
    """Add evidence that quotes what was said and other evidence; an original may say more than what is stored."""
    for number in range(case.chance.randint(1, 4)):
        evidence_id = f"{session_id}-e{number}"
        content = case.chance.choice((case.text, lambda: case.quote(session_id)))()
        case.note(session_id, content, evidence_id=evidence_id)
        query = case.note(session_id, case.quote(session_id)) if case.chance.random() < 0.3 else "a"
        evidence = Evidence(
            evidence_id=evidence_id,
            type=EvidenceType.TOOL_RESULT,
            source=EvidenceSource(kind=SourceKind.TOOL, name="scribe", uri=f"https://tool.example/?q={query}"),
            content=content,
            trust=case.chance.choice((Trust.TOOL, Trust.WEB, Trust.USER)),
            metadata={"of": case.note(session_id, case.quote(session_id))},
        )
        await store.put_evidence(session_id, evidence)
        if vault is not None and case.chance.random() < 0.7:
            said = case.note(session_id, f"{case.quote(session_id)} 13800138000 {content}", evidence_id=evidence_id)
            await vault.put(session_id, evidence_id, said)


async def _add_parts(case: Case, store: Store, session_id: str) -> None:
    """Add blocks, tasks, tool calls and fields of the document that quote what was said."""

    def quote() -> str:
        return case.note(session_id, case.quote(session_id))

    ref = Ref(evidence_id=f"{session_id}-e0")
    blocks = (
        ContextBlock(block_id="b0", block_type=BlockType.EVIDENCE, priority=Priority.LOW, content=quote(), refs=(ref,)),
        ContextBlock(block_id="b1", block_type=BlockType.MEMORY, priority=Priority.LOW, content=quote()),
    )
    await store.put_context_blocks(session_id, blocks)
    await store.upsert_tasks(session_id, (Task(task_id="a", name=quote(), error=quote()),))
    digest: dict[str, Any] = {"q": [quote()], case.note(session_id, quote()[:70]): 1}
    await store.append_tool_calls(session_id, (ToolCall(tool_call_id="c", tool="search", args_digest=digest),))
    if case.chance.random() < 0.3:
        document = await store.get_session(session_id)
        assert document is not None
        meta = Meta(actor=Actor(user_id=case.owners[session_id] or ""), extra={"note": quote()})
        await store.patch_session(
            session_id, {"meta": {"actor": {"user_id": case.owners[session_id] or ""}, "note": meta.extra["note"]}}
        )

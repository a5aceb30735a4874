"""A whole session out into one document and in again: any tree of turns, on every store."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemosyne import (
    Chain,
    Evidence,
    EvidenceSource,
    EvidenceType,
    MemoryEntry,
    MemoryStore,
    Message,
    MessageIndexRange,
    ModelUsage,
    Role,
    SchemaValidationError,
    SessionStart,
    SourceKind,
    SqliteStore,
    Summary,
    document_from_json,
    document_to_json,
    export_session,
    import_session,
)
from mnemosyne.chains.json_patch import replay_ops
from mnemosyne.core.json_text import json_text
from mnemosyne.documents.archive import TREE, describe_tree, read_tree
from mnemosyne.schema.memory import Trust, session_scope
from mnemosyne.schema.record import ImportedTurn, PathSummary, TurnCommit, TurnRecord
from mnemosyne.schema.session import TurnKind, TurnStatus

pytestmark = pytest.mark.anyio
AT = datetime(2026, 2, 1, 9, tzinfo=UTC)
STATE = {"hero": {"id": "hero", "gold": 1}, "quests": {}}

steps = st.lists(
    st.one_of(
        st.tuples(st.just("tell"), st.booleans()),
        st.tuples(st.just("count"), st.integers(0, 9)),
        st.tuples(st.just("overwrite"), st.integers(0, 9)),
        st.tuples(st.just("fork"), st.integers(0, 20)),
        st.tuples(st.just("switch"), st.integers(0, 20)),
        st.tuples(st.just("prepare"), st.just(0)),
        st.tuples(st.just("remember"), st.integers(0, 20)),
        st.tuples(st.just("summarise"), st.integers(0, 20)),
    ),
    max_size=14,
)


async def played(store: Any, actions: list[tuple[str, Any]]) -> None:
    """Play a session: prologue, turns with and without ops, forks, memories, summaries, a turn that waits."""
    prologue = ImportedTurn(
        turn_id="p001", messages=(Message(role=Role.USER, content="一 \ud83d", message_id="p001.u"),)
    )
    entry = MemoryEntry(
        entry_id="p001.summary",
        scope=session_scope("s"),
        chain=Chain.NARRATIVE,
        kind="turn_summary",
        text="begin",
        turn_id="p001",
        depth=1,
    )
    start = SessionStart(
        session_id="s", world_id="w", locale="zh-CN", state=STATE, turns=(prologue,), entries=(entry,), at=AT
    )
    await store.create_session(start)
    for number, (action, value) in enumerate(actions):
        head = await store.head("s")
        if action in ("tell", "count", "overwrite", "prepare"):
            await play(store, head, action, value, f"t{number}")
        elif action == "fork":
            path = [None, *(turn.turn_id for turn in await store.turns("s", limit=100))]
            await store.fork("s", path[value % len(path)], f"b{number}")
        elif action == "switch":
            branches = sorted(each.branch_id for each in await store.branches("s"))
            await store.switch("s", branches[value % len(branches)])
        elif head.turn_id is not None:
            turn = (await store.turns("s", limit=100))[value % head.depth]
            if action == "remember":
                await store.append_entries("s", [replace(entry, entry_id=f"e{number}", turn_id=turn.turn_id)])
            else:
                told = Summary(
                    content=f"sum {number}",
                    updated_at=AT,
                    message_index_range=MessageIndexRange(from_index=1, to_index=turn.depth),
                )
                path_summary = PathSummary(
                    turn_id=turn.turn_id, branch_id=turn.branch_id, depth=turn.depth, summary=told
                )
                await store.save_summary("s", path_summary)
    await store.append_model_usage("s", [ModelUsage(model_usage_id="u1", model="m")])
    kept = Evidence(
        evidence_id="e",
        type=EvidenceType.OTHER,
        source=EvidenceSource(kind=SourceKind.SYSTEM),
        trust=Trust.USER,
        content="kept",
    )
    await store.put_evidence("s", kept)


async def play(store: Any, head: Any, action: str, value: Any, turn_id: str) -> None:
    record = TurnRecord(
        turn_id=turn_id,
        session_id="s",
        branch_id=head.branch_id,
        depth=head.depth + 1,
        parent_id=head.turn_id,
        kind=TurnKind.NUMERICAL if action == "count" else TurnKind.NARRATIVE,
        status=TurnStatus.PREPARED,
        messages=(Message(role=Role.USER, content=f"say {value}", message_id=f"{turn_id}.u", at=AT),),
        fingerprint="f",
        plan={"goal": value},
        receipt={"why": [turn_id]},
        prompt={"messages": [], "history_start": None},
        anchors={"hero": "/hero"},
        created_at=AT,
    )
    state = (await store.window("s", message_limit=1)).state
    ops = ({"op": "replace", "path": "/hero/gold", "value": value},)
    if action == "count":
        counted = replace(record, ops=ops)
        await store.commit_numerical(counted, replay_ops(state, ops), expected_version=head.version)
        return
    saved = await store.save_prepared(record, expected_version=head.version)
    if action == "prepare":
        return
    reply = Message(role=Role.ASSISTANT, content="ok", message_id=f"{turn_id}.a")
    own = {"state": {**state, "written": value}} if action == "overwrite" else {}
    if value is True:
        own = {"ops": ops, "state": replay_ops(state, ops)}
    commit = TurnCommit(turn_id=turn_id, messages=(reply,), report={"raw": "ok"}, **own)
    await store.commit_turn("s", commit, expected_version=saved.version)


async def everything(store: Any, name: str = "s") -> dict[str, Any]:
    """Return all that a store tells of a session, but for versions and superseded papers."""
    heads = await store.branches(name)
    told: dict[str, Any] = {"branches": {h.branch_id: (h.turn_id, h.depth, h.lineage) for h in heads}}
    told["active"] = heads[0].branch_id
    for head in heads:
        window = await store.window(name, message_limit=50, branch_id=head.branch_id)
        path = await store.turns(name, limit=100, branch_id=head.branch_id)
        turns = [await store.turn(name, turn.turn_id) for turn in path]
        told[f"turns {head.branch_id}"] = [replace(turn, session_id="") for turn in turns]
        told[f"states {head.branch_id}"] = [await store.state_at(name, turn.turn_id) for turn in path]
        pending = window.pending and replace(window.pending, session_id="")
        told[f"window {head.branch_id}"] = (window.messages, window.state, window.summary, pending)
        document = await store.get_session(name, branch_id=head.branch_id)
        told[f"document {head.branch_id}"] = replace(document, session=replace(document.session, session_id=""))
    for chain in (Chain.NARRATIVE, Chain.EVENT, Chain.HISTORY):
        entries = [each.entry for each in await store.entries_after(session_scope(name), chain, 0, 1000)]
        told[chain] = sorted((replace(e, scope="") for e in entries), key=lambda e: e.entry_id)
    aside = await store.hidden_records(name)
    told["aside"] = replace(aside, abandoned=tuple(replace(turn, session_id="") for turn in aside.abandoned))
    return told


@settings(max_examples=40)
@given(steps, st.booleans())
def test_whatever_was_played_comes_back_whole(actions: list[tuple[str, Any]], again: bool) -> None:
    async def work() -> None:
        one, two = MemoryStore(), MemoryStore()
        await played(one, actions)
        head = await one.head("s")
        is_silent = not head.depth and (await one.window("s", message_limit=1)).pending is None
        if is_silent:
            with pytest.raises(SchemaValidationError, match="this branch has no messages yet"):
                await export_session(one, "s")
        branch = "main" if is_silent else head.branch_id
        document = await export_session(one, "s", branch_id=branch)
        wire = json_text(document_to_json(document))
        told = document_from_json(json.loads(wire))
        assert document_to_json(told) == json.loads(wire)
        done = await import_session(two, told)
        if again:
            assert (await import_session(two, told)).left_out == ()
        before, after = await everything(one), await everything(two)
        assert after == before
        assert done.turns == len((await read_tree(one, "s")).turns)
        assert json_text(document_to_json(await export_session(two, "s", branch_id=branch))) == wire

    anyio.run(work)


async def test_a_session_moves_between_kinds_of_store_and_names(tmp_path) -> None:
    actions = [("tell", True), ("fork", 1), ("count", 7), ("tell", False), ("summarise", 2), ("prepare", 0)]
    one, two = MemoryStore(), SqliteStore(tmp_path / "two.db")
    await played(one, actions)
    done = await import_session(two, await export_session(one, "s", branch_id="main"), session_id="other")
    assert done.session_id == "other"
    assert await everything(two, "other") == await everything(one)
    await two.close()


async def test_an_import_that_was_broken_off_is_taken_up_again() -> None:
    actions = [("tell", True), ("fork", 1), ("count", 7), ("tell", False), ("remember", 1)]
    one, two = MemoryStore(), MemoryStore()
    await played(one, actions)
    document = await export_session(one, "s")
    tree = document.extra[TREE]
    half = {
        **tree,
        "turns": [turn for turn in tree["turns"] if turn["branch_id"] == "main"],
        "branches": [branch for branch in tree["branches"] if branch["branch_id"] == "main"],
        "entries": [],
        "active": "main",
        "told": "main",
    }
    on_main = await one.get_session("s", branch_id="main")
    assert on_main is not None
    await import_session(two, replace(on_main, extra={TREE: half}))
    await import_session(two, document)
    assert await everything(two) == await everything(one)


async def test_a_session_that_was_played_on_keeps_its_own_turns() -> None:
    one = MemoryStore()
    await played(one, [("tell", True)])
    document = await export_session(one, "s")
    await play(one, await one.head("s"), "tell", False, "later")
    done = await import_session(one, document)
    assert "has turns of its own" in done.left_out[0]
    assert (await one.turn("s", "later")).messages[-1].content == "ok"


async def test_what_a_line_leaves_out_is_told() -> None:
    store = MemoryStore()
    await played(store, [("tell", True), ("fork", 1), ("prepare", 0)])
    linear = await export_session(store, "s", linear=True)
    assert TREE not in linear.extra
    missing = describe_tree(await read_tree(store, "s"))
    assert missing == (
        "the state of the world",
        "1 other branch",
        "1 memory of the narrative and event chains",
        "1 turn that changed the state",
        "1 prompt with its receipt",
        "1 turn that waits for a reply",
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"format": 2}, "turn_tree.format: is 2, written by a newer release"),
        ({"told": "gone"}, "turn_tree.told: there is no branch 'gone'"),
        ({"turns": 7}, "turn_tree: "),
        ({"branches": []}, "turn_tree.turns[0].branch_id: there is no branch 'main'"),
        ({"turns": []}, "turn_tree.entries[0].turn_id: there is no turn 'p001'"),
    ],
)
async def test_a_broken_tree_is_refused_and_nothing_is_written(change: dict[str, Any], told: str) -> None:
    one, two = MemoryStore(), MemoryStore()
    await played(one, [("tell", True)])
    document = await export_session(one, "s")
    broken = replace(document, extra={TREE: {**document.extra[TREE], **change}})
    with pytest.raises(SchemaValidationError) as caught:
        await import_session(two, broken)
    assert any(told in fault for fault in caught.value.faults)
    assert await two.sessions() == ()

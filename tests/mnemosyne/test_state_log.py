"""The log of a state: whatever ops were played in whatever order, on whatever branch, any past state is rebuilt as it was.

The ops are real ones in both spellings, judged by the rules; stores keep snapshots and JSON Patch. What a turn saw live is
what `state_at` gives later, to the order of keys, on each store alike.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from filament import collect_anchors, with_anchors
from mnemosyne import MemoryStore, Message, Role, SessionStart, SqliteStore, Store
from mnemosyne.chains.state import judge_reply_ops
from mnemosyne.schema.record import TurnCommit, TurnRecord
from mnemosyne.schema.session import TurnKind, TurnStatus

pytestmark = pytest.mark.anyio

STATE: dict[str, Any] = {
    "hero": {
        "id": "hero",
        "health": [85, "受伤状态"],
        "gold": 10,
        "tags": ["brave", "tired"],
        "$meta": {
            "limits": {"health": [0, 100], "gold": [0, None]},
            "lists": ["tags"],
            "necessary": ["health"],
            "descriptions": {"health": [[0, "濒死"], [50, "受伤状态"], [100, "安好"]]},
        },
    },
    "bag": {
        "_anchor": "bag",
        "items": [{"id": "rope", "name": "绳", "count": 1}, {"name": "灯"}],
        "$meta": {"template": {"name": "?", "count": 1, "$meta": {"limits": {"count": [0, 9]}}}},
    },
    "people": {"$meta": {"template": {"trust": [50, "so so"]}}, "a/b~": {"id": "reed", "trust": [72, "well"]}},
    "law": {"gravity": 9.8, "$meta": {"updatable": False}},
    "0": [1, 2, 3],
}
NAMES = st.sampled_from(["rope", "item_1", "item_2", "item_3", "lamp", "reed", "hero", "bag"])
FIELDS = st.sampled_from(["count", "name", "gold", "health", "trust", "tags", "new", "id", "0", "items"])
VALUES = st.one_of(
    st.integers(-20, 120),
    st.sampled_from(["x", "油", None, True, 0.1]),
    st.tuples(st.integers(0, 9), st.sampled_from(["a", "b"])).map(list),
    st.lists(st.sampled_from(["p", "q"]), max_size=3),
    st.fixed_dictionaries({"name": st.sampled_from(["油", "盐"])}, optional={"count": st.integers(0, 12)}),
)
PATHS = st.one_of(
    st.tuples(NAMES, FIELDS).map(".".join),
    NAMES,
    st.sampled_from(["/hero/gold", "/bag/items/0", "/bag/items/1/name", "/0/1", "/people/a~1b~0/trust"]),
)
OPS = st.one_of(
    st.tuples(st.sampled_from(["SET", "ADD", "SUB", "MUL", "PUSH", "POP"]), PATHS, VALUES).map(list),
    st.tuples(st.sampled_from(["POP", "DELETE"]), PATHS).map(list),
    st.builds(
        lambda op, path, value: {"op": op, "path": path, "value": value},
        st.sampled_from(["add", "replace"]),
        PATHS,
        VALUES,
    ),
    st.builds(lambda path: {"op": "remove", "path": path}, PATHS),
    st.sampled_from(
        [
            ["PUSH", "bag", {"name": "盐"}],
            ["SUB", "hero.gold", 1],
            ["SET", "hero.health", 100],
            ["POP", "bag"],
            ["PUSH", "hero.tags", "wet"],
        ]
    ),
)
MOVES = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 99), st.lists(OPS, min_size=1, max_size=3)), min_size=4, max_size=25
)


def opened(kind: str) -> Callable[[], Any]:
    @asynccontextmanager
    async def open_store() -> AsyncIterator[Store]:
        with tempfile.TemporaryDirectory() as folder:
            store: Store = MemoryStore() if kind == "memory" else SqliteStore(Path(folder) / "store.db")
            try:
                yield store
            finally:
                await store.close()

    return open_store


async def run_moves(store: Store, moves: list[tuple[int, int, list[Any]]]) -> None:
    """Commit turns with ops and fork at random; then ask for every state again."""
    await store.create_session(SessionStart(session_id="s", world_id="w", locale="en", state=STATE))
    seen: dict[str | None, str] = {None: written(STATE)}
    applied = 0
    for number, (move, choice, ops) in enumerate(moves):
        known = [None, *[turn_id for turn_id in seen if turn_id is not None]]
        if move == 0:
            await store.fork("s", known[choice % len(known)], f"b{number}")
            continue
        window = await store.window("s", message_limit=1)
        assert written(window.state) == seen[window.head.turn_id]
        shown = collect_anchors(with_anchors(window.state))
        judged = judge_reply_ops(window.state, ops, shown)
        applied += bool(judged.patch)
        assert judged.patch == () or judged.refused is None
        await commit(store, f"t{number}", judged.tree if judged.patch else None, judged.patch, move == 1)
        seen[f"t{number}"] = written(judged.tree)
    for turn_id, state in seen.items():
        assert written(await store.state_at("s", turn_id)) == state
    for head in await store.branches("s"):
        window = await store.window("s", message_limit=1, branch_id=head.branch_id)
        assert written(window.state) == seen[head.turn_id]


async def commit(store: Store, turn_id: str, state: Any, patch: tuple[Any, ...], numerical: bool) -> None:
    head = await store.head("s")
    record = TurnRecord(
        turn_id=turn_id,
        session_id="s",
        branch_id=head.branch_id,
        depth=head.depth + 1,
        parent_id=head.turn_id,
        kind=TurnKind.NUMERICAL if numerical else TurnKind.NARRATIVE,
        status=TurnStatus.COMMITTED if numerical else TurnStatus.PREPARED,
        messages=(Message(role=Role.USER, content="?"),),
        ops=tuple(patch) if numerical else (),
    )
    if numerical:
        now = (await store.window("s", message_limit=1)).state if state is None else state
        await store.commit_numerical(record, now, expected_version=head.version)
        return
    head = await store.save_prepared(record, expected_version=head.version)
    said = (Message(role=Role.ASSISTANT, content="!"),)
    await store.commit_turn(
        "s", TurnCommit(turn_id=turn_id, messages=said, ops=tuple(patch), state=state), expected_version=head.version
    )


def written(tree: Any) -> str:
    return json.dumps(tree, ensure_ascii=False)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@given(moves=MOVES)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
async def test_any_past_state_is_rebuilt_as_it_was_seen(kind: str, moves: list[Any]) -> None:
    async with opened(kind)() as store:
        await run_moves(store, moves)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@given(moves=MOVES)
@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
async def test_any_past_state_is_rebuilt_at_length(kind: str, moves: list[Any]) -> None:
    async with opened(kind)() as store:
        await run_moves(store, moves)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_long_line_is_rebuilt_from_its_snapshots(kind: str) -> None:
    async with opened(kind)() as store:
        await store.create_session(SessionStart(session_id="s", world_id="w", locale="en", state=STATE))
        seen = {}
        for number in range(130):
            window = await store.window("s", message_limit=1)
            op = ["PUSH", "bag", {"name": f"{number}"}] if number % 3 else ["ADD", "hero.gold", 1]
            judged = judge_reply_ops(window.state, [op])
            await commit(store, f"t{number}", judged.tree, judged.patch, False)
            seen[f"t{number}"] = written(judged.tree)
        for turn_id, state in seen.items():
            assert written(await store.state_at("s", turn_id)) == state

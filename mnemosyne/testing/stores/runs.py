"""Tests the branches and states of a Store, and compares long random runs of calls with a simple model of the turn tree."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mnemosyne.core.errors import (
    VersionConflictError,
    WorldNotAdoptedError,
)
from mnemosyne.protocols import Store
from mnemosyne.schema.record import ImportedTurn, SessionStart, TurnCommit
from mnemosyne.schema.session import (
    BranchSpan,
    TurnStatus,
)
from mnemosyne.testing.stores.samples import (
    SCOPE,
    SESSION,
    STATE,
    StoreTests,
    gold_commit,
    gold_state,
    head_to_follow,
    imported_turn,
    memory,
    play,
    prepared_turn,
    reply_message,
    user_message,
)
from mnemosyne.testing.stores.tree import ModelTree


class StoreRuns(StoreTests):
    """Tests branches, states, any text, and any sequence of calls."""

    async def test_lineage_names_the_ancestors(self, tmp_path: Path) -> None:
        """A branch of a branch has three spans (stretches of its path); a fork before the first turn has only its own."""
        async with self.open_session(tmp_path, *(imported_turn(f"p{n}") for n in range(1, 5))) as store:
            await store.fork(SESSION, "p3", "b")
            await play(store, "t1")
            await play(store, "t2")
            head = await store.fork(SESSION, "t1", "c")
            assert head.lineage == (
                BranchSpan(branch_id="c", upto_depth=4),
                BranchSpan(branch_id="b", upto_depth=4),
                BranchSpan(branch_id="main", upto_depth=3),
            )
            assert (head.turn_id, head.depth) == ("t1", 4)
            sibling = await store.fork(SESSION, "p2", "d")
            assert sibling.lineage == (
                BranchSpan(branch_id="d", upto_depth=2),
                BranchSpan(branch_id="main", upto_depth=2),
            )
            fresh = await store.fork(SESSION, None, "e")
            assert (fresh.turn_id, fresh.depth) == (None, 0)
            assert [span.branch_id for span in fresh.lineage] == ["e"]
            assert [head.branch_id for head in await store.branches(SESSION)] == ["e", "main", "b", "c", "d"]
            back = await store.switch(SESSION, "c")
            assert await store.head(SESSION) == back
            assert [t.turn_id for t in await store.turns(SESSION, limit=2)] == ["p3", "t1"]
            assert [t.turn_id for t in await store.turns(SESSION, limit=2, before_depth=4)] == ["p2", "p3"]

    async def test_a_session_without_a_world_is_given_one(self, tmp_path: Path) -> None:
        """The state of an adopted world applies on every branch, from before the first turn.

        A session that has a world or a changed state is refused.
        """
        async with self.open_session(tmp_path, imported_turn("p001"), imported_turn("p002")) as store:
            await store.create_session(SessionStart(session_id="bare", world_id="", locale="en", state={}))
            await store.append_turns("bare", [imported_turn("p001"), imported_turn("p002")])
            await store.fork("bare", "p001", "side")
            assert (await store.window("bare", message_limit=1)).state == {}
            before = await store.head("bare")
            given = await store.adopt_world("bare", "forest", "zh", gold_state(3))
            assert (given.world_id, given.version, given.branch_id) == ("forest", before.version + 1, "side")
            assert await store.adopt_world("bare", "forest", "zh", gold_state(9)) == given == await store.head("bare")
            for branch in ("main", "side"):
                assert (await store.window("bare", message_limit=1, branch_id=branch)).state == gold_state(3)
            for turn in (None, "p001", "p002"):
                assert await store.state_at("bare", turn) == gold_state(3)
            with pytest.raises(WorldNotAdoptedError, match="in world 'forest'"):
                await store.adopt_world("bare", "desert", "en", {})
            moved = await store.adopt_world("bare", "desert", "en", gold_state(4), instead_of=("", "forest"))
            assert moved.world_id == "desert"
            await play(store, "t1", 7)
            world = (await store.head(SESSION)).world_id
            with pytest.raises(WorldNotAdoptedError, match="has been changed"):
                await store.adopt_world(SESSION, "desert", "en", {}, instead_of=(world,))
            assert (await store.window(SESSION, message_limit=1)).state == gold_state(7)

    async def test_state_follows_the_branch(self, tmp_path: Path) -> None:
        """Any past state can be rebuilt, and a fork continues from the state of its turn."""
        async with self.open_session(tmp_path, imported_turn("p001")) as store:
            for n in range(1, 121):
                await play(store, f"t{n}", n if n % 3 else None)
            for n in (0, 1, 3, 49, 50, 51, 100, 120):
                expected = max((k for k in range(1, n + 1) if k % 3), default=0)
                assert await store.state_at(SESSION, f"t{n}" if n else "p001") == gold_state(expected)
            assert await store.state_at(SESSION, None) == STATE
            await store.fork(SESSION, "t70", "b")
            assert (await store.window(SESSION, message_limit=1)).state == gold_state(70)
            await play(store, "b1", 1000)
            assert await store.state_at(SESSION, "b1") == gold_state(1000)
            assert (await store.window(SESSION, message_limit=1, branch_id="main")).state == gold_state(119)

    async def test_a_state_that_the_ops_do_not_lead_to_is_kept_all_the_same(self, tmp_path: Path) -> None:
        """The state in a commit counts, even if the ops do not lead to it. Ops of an unknown form are stored with it."""
        async with self.open_session(tmp_path) as store:
            for turn_id, amount in (("t1", 1), ("t2", 2)):
                head = await store.head(SESSION)
                head = await store.save_prepared(prepared_turn(head, turn_id), expected_version=head.version)
                strange = TurnCommit(
                    turn_id=turn_id,
                    messages=(reply_message("r"),),
                    ops=({"op": "conjure", "path": "x"},),
                    state=gold_state(amount),
                )
                await store.commit_turn(SESSION, strange, expected_version=head.version)
            await play(store, "t3", 3)
            for turn_id, amount in (("t1", 1), ("t2", 2), ("t3", 3)):
                assert await store.state_at(SESSION, turn_id) == gold_state(amount)

    @given(words=st.text(alphabet=st.characters(exclude_categories=()), max_size=40))
    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    async def test_any_text_comes_back_as_it_was(self, words: str) -> None:
        """Control characters, markup and half surrogate pairs in a text are stored unchanged."""
        with tempfile.TemporaryDirectory() as folder:
            async with self.open_session(Path(folder)) as store:
                turn = ImportedTurn(turn_id="t1", messages=(user_message(words), reply_message(words)))
                await store.append_turns(SESSION, (turn,), (memory("e", text=words, metadata={words: words}),))
                head = await store.head(SESSION)
                record = prepared_turn(head, "t2", words, plan={"goal": words}, receipt={words: [words]})
                await store.save_prepared(record, expected_version=head.version)
                window = await store.window(SESSION, message_limit=9)
                assert [placed.message.content for placed in window.messages] == [words, words]
                assert window.pending is not None
                assert window.pending.plan == {"goal": words}
                assert window.pending.messages[0].content == words
                assert window.pending.receipt == {words: [words]}
                (entry,) = await store.entries(SCOPE, ("e",))
                assert (entry.text, entry.metadata) == (words, {words: words})

    @given(
        moves=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 999), st.integers(0, 999)), min_size=5, max_size=60)
    )
    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    async def test_any_run_of_moves_agrees_with_the_plain_tree(self, moves: list[tuple[int, int, int]]) -> None:
        """Any sequence of prepare, commit, append, numbers, fork, switch and stale writes has the same result as in
        the model.
        """
        tree = ModelTree()
        with tempfile.TemporaryDirectory() as folder:
            async with self.open_session(Path(folder)) as store:
                for step, (move, first, second) in enumerate(moves):
                    await _move(store, tree, step, (move, first, second))
                    head = await store.head(SESSION)
                    assert (head.branch_id, head.version) == (tree.active, tree.version)
                await assert_agreement(store, tree)


async def _move(store: Store, tree: ModelTree, step: int, choice: tuple[int, int, int]) -> None:
    """Make one move on the store and on the tree."""
    move, first, second = choice
    branch_id = sorted(tree.branches)[first % len(tree.branches)]
    branch = tree.branches[branch_id]
    head = await store.head(SESSION, branch_id)
    turn_id, text = f"t{step}", f"text {second}"
    if move == 0:
        if second % 2:
            head = await head_to_follow(store, head)
            tree.close(branch_id)
        reused = sorted(tree.abandoned)[second % len(tree.abandoned)] if tree.abandoned and second % 3 == 0 else turn_id
        await store.save_prepared(prepared_turn(head, reused, text), expected_version=head.version)
        tree.prepare(branch_id, reused, text)
    elif move == 1 and branch.pending is not None:
        gain = second % 5
        amount = tree.state(branch.path)["hero"]["gold"] + gain
        commit = gold_commit(branch.pending, amount)
        await store.commit_turn(SESSION, commit, expected_version=head.version)
        tree.commit(branch_id, branch.pending, commit.messages[0].content, gain)
    elif move == 2:
        await store.append_turns(SESSION, (imported_turn(turn_id, text),))
        tree.close(tree.active)
        tree.append(tree.active, turn_id, (f"ask {text}", f"tell {text}"), 0)
    elif move == 3:
        amount = tree.state(branch.path)["hero"]["gold"] + 1
        record = prepared_turn(head, turn_id, text, ops=({"op": "replace", "path": "/hero/gold", "value": amount},))
        await store.commit_numerical(record, gold_state(amount), expected_version=head.version)
        tree.append(branch_id, turn_id, (text,), 1)
    elif move == 4:
        known = [None, *sorted(tree.committed)]
        after = known[second % len(known)]
        await store.fork(SESSION, after, f"b{step}")
        tree.fork(after, f"b{step}")
    elif move == 5:
        await store.switch(SESSION, branch_id)
        tree.switch(branch_id)
    elif move == 6:
        with pytest.raises(VersionConflictError):
            await store.save_prepared(prepared_turn(head, turn_id, text), expected_version=head.version - 1)


async def assert_agreement(store: Store, tree: ModelTree) -> None:
    """Assert that everything in the store is the same as in the model."""
    heads = {head.branch_id: head for head in await store.branches(SESSION)}
    assert set(heads) == set(tree.branches)
    places: dict[str, tuple[str, int]] = {}
    for branch_id, branch in tree.branches.items():
        window = await store.window(SESSION, message_limit=10_000, branch_id=branch_id)
        assert window.head == heads[branch_id]
        assert (window.head.turn_id, window.head.depth) == (branch.path[-1] if branch.path else None, len(branch.path))
        assert [placed.message.content for placed in window.messages] == tree.contents(branch_id)
        assert window.state == tree.state(branch.path)
        assert (window.pending.turn_id if window.pending else None) == branch.pending
        listed = await store.turns(SESSION, limit=10_000, branch_id=branch_id)
        assert [record.turn_id for record in listed] == branch.path
        assert [record.parent_id for record in listed] == [None, *branch.path][: len(listed)]
        short = await store.window(SESSION, message_limit=3, branch_id=branch_id)
        assert short.messages == window.messages[-3:]
        places |= {record.turn_id: (record.branch_id, record.depth) for record in listed}
    for branch_id, branch in tree.branches.items():
        spans = heads[branch_id].lineage
        ancestors = {
            turn_id
            for turn_id, (on, depth) in places.items()
            if any(span.branch_id == on and depth <= span.upto_depth for span in spans)
        }
        assert ancestors == set(branch.path)
        for count, turn_id in enumerate(branch.path, start=1):
            assert await store.state_at(SESSION, turn_id) == tree.state(branch.path[:count])
    for turn_id in tree.abandoned:
        assert (await store.turn(SESSION, turn_id)).status is TurnStatus.ABANDONED

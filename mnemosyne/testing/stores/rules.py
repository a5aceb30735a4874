"""Tests the numbered rules of the Store protocol, and the methods of a Store for turns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mnemosyne.chains.unanswered_inputs import head_after, is_unanswered
from mnemosyne.core.errors import (
    BranchExistsError,
    BranchNotFoundError,
    EntryConflictError,
    SessionExistsError,
    SessionNotFoundError,
    TurnNotFoundError,
    TurnNotPendingError,
    VersionConflictError,
)
from mnemosyne.protocols import Store
from mnemosyne.schema.document import SessionDocument
from mnemosyne.schema.memory import Chain, session_scope
from mnemosyne.schema.record import ImportedBranch, ImportedTurn, TurnCommit
from mnemosyne.schema.session import (
    Author,
    AuthorKind,
    Message,
    Role,
    TurnStatus,
)
from mnemosyne.testing.stores.samples import (
    AT,
    SCOPE,
    SESSION,
    StoreTests,
    gold_commit,
    gold_state,
    head_to_follow,
    imported_turn,
    memory,
    play,
    prepared_turn,
    read_everything,
    reply_message,
    start,
    user_message,
)


class StoreRules(StoreTests):
    """Tests each rule, and the life of one turn."""

    async def test_rule_1_what_was_returned_is_there_after_reopening(self, tmp_path: Path) -> None:
        """Everything that a write has acknowledged is there after the store is reopened."""
        if not self.persistent:
            pytest.skip("this store keeps nothing")
        async with self.open_session(tmp_path, imported_turn("p001")) as store:
            await play(store, "t1", 5)
            await store.fork(SESSION, "p001", "other")
            head = await store.head(SESSION)
            await store.save_prepared(
                prepared_turn(head, "t2", receipt={"why": ["x"]}, prompt={"text": "…"}, plan={"goal": "钥匙"}),
                expected_version=head.version,
            )
            before = await read_everything(store)
        store = await self.make_store(tmp_path)
        try:
            assert await read_everything(store) == before
        finally:
            await store.close()

    async def test_rule_2_a_method_that_raises_has_changed_nothing(self, tmp_path: Path) -> None:
        """After each refused call, everything reads the same as before."""
        async with self.open_session(tmp_path, imported_turn("p001"), imported_turn("p002")) as store:
            await play(store, "t1", 5)
            head = await store.head(SESSION)
            head = await store.save_prepared(prepared_turn(head, "t2"), expected_version=head.version)
            head = await store.save_prepared(prepared_turn(head, "t3"), expected_version=head.version)
            before = await read_everything(store)
            wrong = {"op": "replace", "path": "/hero/no/such", "value": 1}
            with pytest.raises(SessionExistsError):
                await store.create_session(start())
            with pytest.raises(TurnNotPendingError):
                await store.commit_turn(SESSION, gold_commit("t2", 1), expected_version=head.version)
            with pytest.raises(TurnNotFoundError):
                await store.commit_turn(SESSION, gold_commit("t9", 1), expected_version=head.version)
            with pytest.raises(EntryConflictError):
                await store.append_turns(SESSION, (imported_turn("t4"),), (memory("e"), memory("e", depth=0, text="2")))
            with pytest.raises(Exception, match="/hero/no/such"):
                await store.commit_turn(
                    SESSION, TurnCommit(turn_id="t3", messages=(), ops=(wrong,)), expected_version=head.version
                )
            with pytest.raises(BranchExistsError):
                await store.fork(SESSION, "t1", "main")
            with pytest.raises(TurnNotFoundError):
                await store.fork(SESSION, "t3", "b")
            with pytest.raises(BranchNotFoundError):
                await store.switch(SESSION, "nowhere")
            assert await read_everything(store) == before

    async def test_rule_3_a_stale_version_is_refused(self, tmp_path: Path) -> None:
        """Each method that takes a version refuses a stale one."""
        async with self.open_session(tmp_path) as store:
            old = await store.head(SESSION)
            head = await store.save_prepared(prepared_turn(old, "t1"), expected_version=old.version)
            assert head.version == old.version + 1
            before = await read_everything(store)
            with pytest.raises(VersionConflictError) as caught:
                await store.save_prepared(prepared_turn(old, "t2"), expected_version=old.version)
            assert (caught.value.expected, caught.value.found) == (old.version, head.version)
            with pytest.raises(VersionConflictError):
                await store.commit_turn(SESSION, gold_commit("t1", 1), expected_version=old.version)
            with pytest.raises(VersionConflictError):
                await store.commit_numerical(prepared_turn(old, "n1"), gold_state(1), expected_version=old.version)
            assert await read_everything(store) == before

    async def test_rule_4_the_same_turn_twice_is_written_once(self, tmp_path: Path) -> None:
        """A second call that writes the same turn returns the version of the first call, for each method that writes a turn."""
        async with self.open_session(tmp_path, imported_turn("p001")) as store:
            old = await store.head(SESSION)
            record = prepared_turn(old, "t1")
            head = await store.save_prepared(record, expected_version=old.version)
            assert await store.save_prepared(record, expected_version=old.version) == head
            done = await store.commit_turn(SESSION, gold_commit("t1", 7), expected_version=head.version)
            before = await read_everything(store)
            assert await store.commit_turn(SESSION, gold_commit("t1", 7), expected_version=head.version) == done
            assert await store.save_prepared(record, expected_version=old.version) == done
            assert await store.append_turns(SESSION, (imported_turn("p001"), imported_turn("t1"))) == done
            assert await read_everything(store) == before
            numerical = prepared_turn(done, "n1")
            after = await store.commit_numerical(numerical, gold_state(8), expected_version=done.version)
            assert await store.commit_numerical(numerical, gold_state(8), expected_version=done.version) == after

    async def test_rule_5_a_window_holds_only_what_was_asked_for(self, tmp_path: Path) -> None:
        """A window has only the newest messages and the last turn, whatever the length of the session."""
        async with self.open_session(tmp_path, *(imported_turn(f"p{n:03}") for n in range(1, 61))) as store:
            window = await store.window(SESSION, message_limit=5)
            assert [placed.message.message_id for placed in window.messages] == [
                "p058.a",
                "p059.u",
                "p059.a",
                "p060.u",
                "p060.a",
            ]
            assert [placed.depth for placed in window.messages] == [58, 59, 59, 60, 60]
            assert window.previous is not None
            assert window.previous.turn_id == "p060"
            assert (await store.window(SESSION, message_limit=0)).messages == ()

    async def test_rule_6_only_committed_ancestors_are_listed(self, tmp_path: Path) -> None:
        """Pending turns, abandoned turns and turns of other branches are not in windows and listings."""
        async with self.open_session(tmp_path, imported_turn("p001"), imported_turn("p002")) as store:
            head = await store.head(SESSION)
            head = await store.save_prepared(prepared_turn(head, "t1", "first try"), expected_version=head.version)
            await store.save_prepared(prepared_turn(head, "t2", "second try"), expected_version=head.version)
            await store.fork(SESSION, "p001", "side")
            await play(store, "t3", text="on the side")
            main = await store.window(SESSION, message_limit=50, branch_id="main")
            side = await store.window(SESSION, message_limit=50)
            assert [m.message.content for m in main.messages] == ["ask p001", "tell p001", "ask p002", "tell p002"]
            assert [m.message.content for m in side.messages] == ["ask p001", "tell p001", "on the side", "reply t3"]
            assert main.pending is not None
            assert main.pending.turn_id == "t2"
            assert side.pending is None
            assert [t.turn_id for t in await store.turns(SESSION, limit=9, branch_id="main")] == ["p001", "p002"]
            assert [t.turn_id for t in await store.turns(SESSION, limit=9)] == ["p001", "t3"]
            listed = await store.entries_after(SCOPE, Chain.HISTORY, 0, 99)
            assert {found.entry.turn_id for found in listed} == {"p001", "p002", "t3"}
            assert (await store.turn(SESSION, "t1")).status is TurnStatus.ABANDONED

    async def test_unknown_names_are_errors(self, tmp_path: Path) -> None:
        """Each method raises an error that names what does not exist."""
        async with self.open_session(tmp_path) as store:
            for call in (store.head, store.branches):
                with pytest.raises(SessionNotFoundError):
                    await call("nobody")
            with pytest.raises(SessionNotFoundError):
                await store.window("nobody", message_limit=3)
            with pytest.raises(SessionNotFoundError):
                await store.turn("nobody", "t1")
            with pytest.raises(SessionNotFoundError):
                await store.turns("nobody", limit=1)
            with pytest.raises(SessionNotFoundError):
                await store.state_at("nobody", None)
            with pytest.raises(SessionNotFoundError):
                await store.append_turns("nobody", (imported_turn("t1"),))
            with pytest.raises(SessionNotFoundError):
                await store.fork("nobody", None, "b")
            with pytest.raises(SessionNotFoundError):
                await store.save_prefetch("nobody", None)
            with pytest.raises(BranchNotFoundError):
                await store.head(SESSION, "nowhere")
            with pytest.raises(TurnNotFoundError):
                await store.turn(SESSION, "t1")
            with pytest.raises(TurnNotFoundError):
                await store.state_at(SESSION, "t1")
            assert await store.entries(SCOPE, ("nothing",)) == ()
            assert await store.entries_after(session_scope("nobody"), Chain.HISTORY, 0, 9) == ()

    async def test_a_turn_comes_back_whole(self, tmp_path: Path) -> None:
        """`turn` returns the saved turn; `window` has the complete previous and pending turn."""
        async with self.open_session(tmp_path) as store:
            head = await store.head(SESSION)
            first = Message(
                role=Role.USER, content="那把<钥匙>\u0000?", author=Author(kind=AuthorKind.USER, id="Lin"), at=AT
            )
            record = prepared_turn(
                head,
                "t1",
                messages=(first,),
                plan={"goal": "key"},
                receipt={"kept": [1, 2.5, None]},
                prompt={"messages": ["…"]},
                anchors={"hero": "/hero"},
            )
            head = await store.save_prepared(record, expected_version=head.version)
            whole = replace(record, messages=(replace(first, message_id="t1.u"),))
            assert await store.turn(SESSION, "t1") == whole
            assert (await store.window(SESSION, message_limit=9)).pending == whole
            commit = gold_commit("t1", 3, report={"thought": "hm"})
            await store.commit_turn(SESSION, commit, expected_version=head.version)
            done = replace(
                whole,
                status=TurnStatus.COMMITTED,
                messages=(*whole.messages, replace(reply_message("reply t1"), message_id="t1.a")),
                ops=commit.ops,
                report={"thought": "hm"},
            )
            window = await store.window(SESSION, message_limit=9)
            assert await store.turn(SESSION, "t1") == done == window.previous
            assert window.pending is None
            assert window.state == gold_state(3)
            assert await store.turns(SESSION, limit=3) == (replace(done, receipt=None, prompt=None, report=None),)

    async def test_system_messages_are_found_on_their_path(self, tmp_path: Path) -> None:
        """The depths of turns with a system message are those on the branch's path after the named depth, ascending."""
        rule = ImportedTurn(turn_id="p002", messages=(user_message("Be kind.", role=Role.SYSTEM), user_message("ask")))
        aside = ImportedTurn(turn_id="side1", messages=(user_message("Be brief.", role=Role.SYSTEM),))
        turns = (imported_turn("p001"), rule, imported_turn("p003"))
        async with self.open_session(tmp_path, *turns) as store:
            await store.add_branches(SESSION, (ImportedBranch(branch_id="side", after="p003", turns=(aside,)),))
            assert await store.depths_with_system_messages(SESSION, branch_id="main") == (2,)
            assert await store.depths_with_system_messages(SESSION, branch_id="main", after_depth=2) == ()
            assert await store.depths_with_system_messages(SESSION, branch_id="side") == (2, 4)
            assert await store.depths_with_system_messages(SESSION, branch_id="side", after_depth=2) == (4,)

    async def test_an_input_after_the_pending_one_leaves_it_unanswered(self, tmp_path: Path) -> None:
        """A prepared or numerical turn that follows the pending turn commits it. Its message is marked, listed and recalled."""
        async with self.open_session(tmp_path) as store:
            head = await store.head(SESSION)
            first = await store.save_prepared(prepared_turn(head, "t1", "one"), expected_version=head.version)
            assert [said.content for said in (await self.document(store)).session.messages] == ["one"]
            second = prepared_turn(await head_to_follow(store, first), "t2", "two")
            for _ in range(2):
                head = await store.save_prepared(second, expected_version=first.version)
            assert (head.turn_id, head.depth, head.version) == ("t1", 1, first.version + 1)
            assert head == await store.head(SESSION)
            window = await store.window(SESSION, message_limit=9)
            assert [(said.message.content, is_unanswered(said.message)) for said in window.messages] == [("one", True)]
            assert (window.previous and window.previous.turn_id, window.pending and window.pending.turn_id) == (
                "t1",
                "t2",
            )
            assert [said.content for said in (await self.document(store)).session.messages] == ["one", "two"]
            with pytest.raises(TurnNotPendingError):
                await store.commit_turn(SESSION, gold_commit("t1", 1), expected_version=head.version)
            third = prepared_turn(await head_to_follow(store, head), "n1", "three")
            head = await store.commit_numerical(third, gold_state(1), expected_version=head.version)
            assert (head.turn_id, head.depth) == ("n1", 3)
            listed = await store.entries_after(SCOPE, Chain.HISTORY, 0, 99)
            assert [found.entry.text for found in listed] == ["one", "two"]
            await store.fork(SESSION, "t1", "side")
            assert (await self.document(store)).session.messages[0].content == "one"
            with pytest.raises(ValueError, match="claims to follow"):
                await store.save_prepared(
                    prepared_turn(head_after(head, third), "t9"), expected_version=(await store.head(SESSION)).version
                )

    async def document(self, store: Store) -> SessionDocument:
        """Return the session as a document."""
        document = await store.get_session(SESSION)
        assert document is not None
        return document

    async def test_a_newer_input_takes_the_place_of_the_pending_one(self, tmp_path: Path) -> None:
        """If two turns are prepared at one head, the newer abandons the older.

        A turn with the same id replaces the pending one.
        """
        async with self.open_session(tmp_path) as store:
            head = await store.head(SESSION)
            head = await store.save_prepared(prepared_turn(head, "t1", "one"), expected_version=head.version)
            head = await store.save_prepared(
                prepared_turn(head, "t1", "two", fingerprint="new"), expected_version=head.version
            )
            assert (await store.turn(SESSION, "t1")).messages[0].content == "two"
            head = await store.save_prepared(prepared_turn(head, "t2", "three"), expected_version=head.version)
            assert (await store.turn(SESSION, "t1")).status is TurnStatus.ABANDONED
            head = await store.save_prepared(prepared_turn(head, "t1", "four"), expected_version=head.version)
            assert (await store.turn(SESSION, "t2")).status is TurnStatus.ABANDONED
            head = await store.append_turns(SESSION, (imported_turn("x1"),))
            with pytest.raises(TurnNotPendingError):
                await store.commit_turn(SESSION, gold_commit("t1", 1), expected_version=head.version)
            assert head.depth == 2
            head = await store.save_prepared(prepared_turn(head, "t3"), expected_version=head.version)
            head = await store.commit_numerical(prepared_turn(head, "n1"), gold_state(1), expected_version=head.version)
            assert (await store.window(SESSION, message_limit=9)).pending is None
            assert (await store.turn(SESSION, "t3")).status is TurnStatus.ABANDONED
            assert head.turn_id == "n1"

    async def test_turns_are_appended_to_a_named_branch(self, tmp_path: Path) -> None:
        """`append_turns` with a branch moves the head of that branch; the active branch stays."""
        async with self.open_session(tmp_path, imported_turn("p001"), imported_turn("p002")) as store:
            await store.fork(SESSION, "p001", "other")
            await store.switch(SESSION, "main")
            head = await store.append_turns(SESSION, (imported_turn("p003"),), branch_id="other")
            assert (head.branch_id, head.turn_id, head.depth) == ("other", "p003", 2)
            assert head == await store.head(SESSION, "other")
            active = await store.head(SESSION)
            assert (active.branch_id, active.turn_id, active.depth) == ("main", "p002", 2)
            again = await store.append_turns(SESSION, (imported_turn("p003"),), branch_id="other")
            assert again == head, "a turn that exists changes nothing"
            with pytest.raises(BranchNotFoundError):
                await store.append_turns(SESSION, (imported_turn("p004"),), branch_id="nowhere")

    async def test_branches_are_added_with_their_turns(self, tmp_path: Path) -> None:
        """`add_branches` adds all branches at once and skips existing ones. The active branch stays."""
        first = ImportedBranch(branch_id="b1", after="p001", turns=(imported_turn("x1"), imported_turn("x2")))
        second = ImportedBranch(branch_id="b2", after="x1", turns=(imported_turn("y1"),))
        third = ImportedBranch(branch_id="b3", after=None, turns=(imported_turn("z1"),))
        async with self.open_session(tmp_path, imported_turn("p001"), imported_turn("p002")) as store:
            assert await store.add_branches(SESSION, (first, second)) == 2
            assert await store.add_branches(SESSION, (first, second, third)) == 1
            before = await read_everything(store)
            assert await store.add_branches(SESSION, (first, second, third)) == 0
            assert await store.add_branches(SESSION, ()) == 0
            assert await read_everything(store) == before
            heads = {head.branch_id: head for head in await store.branches(SESSION)}
            assert [*heads] == ["main", "b1", "b2", "b3"]
            assert {name: (head.turn_id, head.depth) for name, head in heads.items()} == {
                "main": ("p002", 2),
                "b1": ("x2", 3),
                "b2": ("y1", 3),
                "b3": ("z1", 1),
            }
            said = await store.window(SESSION, message_limit=10, branch_id="b2")
            assert [each.message.content for each in said.messages] == [
                *("ask p001", "tell p001"),
                *("ask x1", "tell x1"),
                *("ask y1", "tell y1"),
            ]
            assert (await store.turn(SESSION, "y1")).parent_id == "x1"

    async def test_branches_are_added_all_or_none(self, tmp_path: Path) -> None:
        """If one branch cannot be added, `add_branches` adds none."""
        good = ImportedBranch(branch_id="b1", after="p001", turns=(imported_turn("x1"),))
        async with self.open_session(tmp_path, imported_turn("p001")) as store:
            before = await read_everything(store)
            with pytest.raises(TurnNotFoundError):
                await store.add_branches(SESSION, (good, replace(good, branch_id="b2", after="nothing")))
            with pytest.raises(ValueError, match="name"):
                await store.add_branches(SESSION, (good, replace(good, branch_id="")))
            with pytest.raises(SessionNotFoundError):
                await store.add_branches("unknown", (good,))
            assert await read_everything(store) == before

    async def test_committed_turns_are_found_by_id(self, tmp_path: Path) -> None:
        """`committed_turns` finds turns on any branch, but not a pending turn."""
        async with self.open_session(tmp_path, imported_turn("p001")) as store:
            await store.add_branches(
                SESSION, (ImportedBranch(branch_id="b", after=None, turns=(imported_turn("x1"),)),)
            )
            head = await store.head(SESSION)
            await store.save_prepared(prepared_turn(head, "t1"), expected_version=head.version)
            asked = ["x1", "p001", "t1", "nothing", "p001"]
            assert await store.committed_turns(SESSION, asked) == {"x1", "p001"}
            assert await store.committed_turns(SESSION, ()) == frozenset()
            with pytest.raises(SessionNotFoundError):
                await store.committed_turns("unknown", asked)

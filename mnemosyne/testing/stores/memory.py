"""Tests the memory of a Store: messages, entries, lore, restricted entries and late results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mnemosyne.chains.messages.exchanges import exchange_digests
from mnemosyne.core.errors import (
    BranchNotFoundError,
    EntryConflictError,
)
from mnemosyne.protocols import Store
from mnemosyne.schema.erasure import Erasure
from mnemosyne.schema.memory import Chain, Comparison, Condition, session_scope
from mnemosyne.schema.record import ImportedTurn, Prefetch
from mnemosyne.schema.session import (
    Author,
    AuthorKind,
    Role,
    TurnKind,
)
from mnemosyne.testing.stores.samples import (
    AT,
    SCOPE,
    SESSION,
    WORLD_SCOPE,
    StoreTests,
    gold_commit,
    imported_turn,
    lore,
    memory,
    play,
    prepared_turn,
    reply_message,
    start,
    user_message,
)


class StoreMemory(StoreTests):
    """Tests the reads that recall needs."""

    async def test_exchanges_are_found_in_all_sessions(self, tmp_path: Path) -> None:
        """A reply, and a user's message with its reply, are found by digests of their words, on all branches until an
        erasure.
        """
        async with self.open_session(tmp_path, imported_turn("p001")) as store:
            await store.create_session(start(imported_turn("p001"), session_id="s2"))
            await play(store, "t1")
            await store.fork(SESSION, "p001", "side")
            await play(store, "t2", text="HELLO,  *you*")
            (_, both), (_, reply) = sorted(exchange_digests((user_message("Ask, p001!"), reply_message("tell p001"))))
            (_, first), _ = sorted(exchange_digests((user_message("hello"), reply_message("reply t1"))))
            (_, second), _ = sorted(exchange_digests((user_message("hello you"), reply_message("reply t2"))))
            found = {
                (both, SESSION),
                (both, "s2"),
                (reply, SESSION),
                (reply, "s2"),
                (first, SESSION),
                (second, SESSION),
            }
            assert await store.find_exchanges((both, reply, first, second, "unknown")) == found
            assert await store.find_exchanges(()) == frozenset()
            await store.erase(Erasure(at=AT, session_id=SESSION))
            assert await store.find_exchanges((both, reply, first, second)) == {(both, "s2"), (reply, "s2")}
        if self.persistent:
            async with self.open_empty(tmp_path, "other") as store:
                assert await store.find_exchanges((both, reply)) == frozenset()

    async def test_message_ids(self, tmp_path: Path) -> None:
        """Missing ids are filled in, and an id that is in use is replaced on a retry."""
        async with self.open_session(tmp_path) as store:
            turn = ImportedTurn(
                turn_id="t1",
                messages=(
                    user_message("a"),
                    reply_message("b"),
                    user_message("c"),
                    user_message("d", message_id="mine"),
                    user_message("e", Role.TOOL),
                ),
            )
            await store.append_turns(SESSION, (turn,))
            record = await store.turn(SESSION, "t1")
            assert [m.message_id for m in record.messages] == ["t1.u", "t1.a", "t1.m3", "mine", "t1.m5"]
            await store.fork(SESSION, None, "again")
            await store.append_turns(SESSION, (replace(turn, turn_id="t2"),))
            retried = await store.turn(SESSION, "t2")
            ids = [m.message_id for m in retried.messages]
            assert ids == ["t2.u", "t2.a", "t2.m3", "t2.m4", "t2.m5"]
            found = await store.entries(SCOPE, ("mine", "t2.m4"))
            assert [(entry.turn_id, entry.branch_id, entry.text) for entry in found] == [
                ("t1", "main", "d"),
                ("t2", "again", "d"),
            ]

    async def test_entries_are_listed_from_the_newest_and_counted(self, tmp_path: Path) -> None:
        """A page before a sequence has the newest entries first, and neither the list nor the counts have deleted ones."""
        async with self.open_session(tmp_path, imported_turn("p001"), imported_turn("p002")) as store:
            made = [memory(f"m{number}", turn_id="p001") for number in range(3)]
            await store.append_entries(SESSION, made)
            await store.append_entries(SESSION, (replace(made[1], text=""),))
            chain = made[0].chain
            listed = await store.entries_before(SCOPE, chain, None, 9)
            assert [each.entry.entry_id for each in listed] == ["m2", "m0"]
            assert await store.entries_before(SCOPE, chain, None, 1) == listed[:1]
            assert await store.entries_before(SCOPE, chain, listed[0].sequence, 9) == listed[1:]
            said = await store.entries_before(SCOPE, Chain.HISTORY, None, 3)
            assert [each.entry.entry_id for each in said] == ["p002.a", "p002.u", "p001.a"]
            assert await store.chain_sizes(SCOPE) == {chain: 2, Chain.HISTORY: 4}
            assert await Store.chain_sizes(store, SCOPE) == await store.chain_sizes(SCOPE)
            assert await Store.entries_before(store, SCOPE, chain, None, 9) == listed
            assert (
                await store.chain_sizes("session:none"),
                await store.entries_before("session:none", chain, None, 9),
            ) == (
                {},
                (),
            )

    async def test_messages_are_entries_of_the_history_chain(self, tmp_path: Path) -> None:
        """The history chain has only those user and assistant messages of narrative turns that are not blank."""
        async with self.open_session(tmp_path) as store:
            lin = Author(kind=AuthorKind.USER, id="Lin")
            turn = ImportedTurn(
                turn_id="t1",
                messages=(
                    user_message("be kind", Role.SYSTEM),
                    user_message("where is the key?", author=lin, at=AT),
                    user_message("{}", Role.TOOL),
                    reply_message("in the well"),
                    reply_message(" \n"),
                ),
            )
            numbers = ImportedTurn(
                turn_id="t2", messages=(user_message("drink"), reply_message("+5")), kind=TurnKind.NUMERICAL
            )
            await store.append_turns(SESSION, (turn, numbers))
            listed = await store.entries_after(SCOPE, Chain.HISTORY, 0, 99)
            assert [(s.entry.entry_id, s.entry.kind, s.entry.title, s.entry.text) for s in listed] == [
                ("t1.u", "message", "Lin", "where is the key?"),
                ("t1.a", "message", "assistant", "in the well"),
            ]
            entry = listed[0].entry
            assert (entry.at, entry.turn_id, entry.branch_id, entry.depth) == (AT, "t1", "main", 1)
            assert await store.entries(SCOPE, ("t1.a", "t2.u", "t1.u")) == (listed[1].entry, entry)
            assert await store.entries_after(SCOPE, Chain.HISTORY, listed[0].sequence, 1) == (listed[1],)
            history, nowhere = (SCOPE, Chain.HISTORY), (session_scope("nobody"), Chain.HISTORY)
            assert await store.chains_written_after(
                {history: listed[0].sequence, nowhere: 0, (SCOPE, Chain.EVENT): 0}
            ) == {history}
            assert await store.chains_written_after({history: listed[-1].sequence}) == frozenset()
            assert await store.chains_written_after({}) == frozenset()
            window = await store.window(SESSION, message_limit=99)
            assert [placed.turn_id for placed in window.messages] == ["t1"] * 5 + ["t2"] * 2

    async def test_what_is_committed_late_comes_after_what_was_seen(self, tmp_path: Path) -> None:
        """A turn is committed after newer turns. A caller that has read all entries up to a sequence still gets the
        entries of this turn, because their sequences are higher.
        """
        async with self.open_session(tmp_path, imported_turn("p001")) as store:
            head = await store.head(SESSION)
            await store.save_prepared(prepared_turn(head, "slow"), expected_version=head.version)
            await store.fork(SESSION, "p001", "b")
            await play(store, "quick")
            seen = (await store.entries_after(SCOPE, Chain.HISTORY, 0, 99))[-1].sequence
            head = await store.switch(SESSION, "main")
            await store.commit_turn(SESSION, gold_commit("slow", 1), expected_version=head.version)
            later = await store.entries_after(SCOPE, Chain.HISTORY, seen, 99)
            assert [found.entry.entry_id for found in later] == ["slow.u", "slow.a"]

    async def test_entries_have_a_place_and_are_never_overwritten_by_another_turn(self, tmp_path: Path) -> None:
        """Entries of a commit are placed at its turn; imported ones at the turn or depth that they name, else at the head."""
        async with self.open_session(tmp_path, imported_turn("p001"), imported_turn("p002")) as store:
            summary = memory("p001.summary", chain=Chain.NARRATIVE, turn_id="p001", kind="turn_summary")
            early, loose = memory("e1", depth=1), memory("e2", at=AT, entities=("key",), metadata={"n": [1]})
            head = await store.append_turns(SESSION, (), (summary, early, loose))
            assert await store.append_turns(SESSION, (), (summary, early, loose)) == head
            found = await store.entries(SCOPE, ("e2", "e1", "p001.summary", "nothing"))
            assert [(e.entry_id, e.branch_id, e.depth) for e in found] == [
                ("e2", "main", 2),
                ("e1", "main", 1),
                ("p001.summary", "main", 1),
            ]
            assert replace(found[0], branch_id=None, depth=None, turn_id=None) == loose
            head = await store.save_prepared(prepared_turn(head, "t1"), expected_version=head.version)
            await store.commit_turn(
                SESSION, gold_commit("t1", 1, entries=(memory("t1.e"),)), expected_version=head.version
            )
            (placed,) = await store.entries(SCOPE, ("t1.e",))
            assert (placed.turn_id, placed.branch_id, placed.depth) == ("t1", "main", 3)
            changed = await store.append_turns(SESSION, (), (replace(summary, text="better"),))
            assert changed.version == (await store.head(SESSION)).version
            (later,) = await store.entries_after(SCOPE, Chain.NARRATIVE, 0, 9)
            assert later.entry.text == "better"
            head = await store.fork(SESSION, "p002", "b")
            head = await store.save_prepared(prepared_turn(head, "t2"), expected_version=head.version)
            with pytest.raises(EntryConflictError):
                await store.commit_turn(
                    SESSION, gold_commit("t2", 1, entries=(memory("t1.e"),)), expected_version=head.version
                )

    async def test_lore_follows_its_world(self, tmp_path: Path) -> None:
        """`replace_world` writes the differences. A removed entry leaves a mark, and the same digest changes nothing."""
        async with self.open_session(tmp_path) as store:
            assert await store.replace_world("w1", "d1", (lore("a"), lore("b"), lore("c"))) == 3
            assert await store.replace_world("w1", "d1", ()) == 0
            seen = (await store.entries_after(WORLD_SCOPE, Chain.LORE, 0, 99))[-1].sequence
            place = WORLD_SCOPE, Chain.LORE
            assert await store.chains_written_after({place: seen}) == frozenset()
            assert await store.replace_world("w1", "d2", (lore("a"), lore("b", "new"), lore("d"))) == 3
            later = await store.entries_after(WORLD_SCOPE, Chain.LORE, seen, 99)
            assert {(s.entry.entry_id, s.entry.text, s.deleted) for s in later} == {
                ("b", "new", False),
                ("c", "lore", True),
                ("d", "lore", False),
            }
            assert [e.entry_id for e in await store.entries(WORLD_SCOPE, ("d", "c", "a"))] == ["d", "a"]
            assert await store.replace_world("w1", "d3", (lore("a"), lore("b", "new"), lore("c"), lore("d"))) == 1
            assert len(await store.entries(WORLD_SCOPE, ("c",))) == 1
            assert await store.replace_world("w1", "d4", ()) == 4
            assert await store.entries(WORLD_SCOPE, ("a",)) == ()

    async def test_restricted_entries_are_listed(self, tmp_path: Path) -> None:
        """The entries with viewers or conditions in all requested scopes are listed by id."""
        async with self.open_session(tmp_path) as store:
            gate = Condition(path="hero.gold", op=Comparison.GT, value=3)
            await store.replace_world("w1", "d", (lore("b", viewers=("npc",)), lore("a"), lore("z", when=(gate,))))
            await store.append_turns(SESSION, (), (memory("m", viewers=("Lin",)), memory("n")))
            found = await store.gated_entries((WORLD_SCOPE, SCOPE))
            assert [entry.entry_id for entry in found] == ["b", "m", "z"]
            assert found[2].when == (gate,)
            assert [entry.entry_id for entry in await store.gated_entries((SCOPE,))] == ["m"]
            await store.replace_world("w1", "d2", ())
            assert [entry.entry_id for entry in await store.gated_entries((WORLD_SCOPE, SCOPE))] == ["m"]

    async def test_one_late_result_a_branch(self, tmp_path: Path) -> None:
        """Each branch keeps its newest prefetch, a selection that was made too late for its turn. Saving None deletes
        those of all branches. The version of the session does not change.
        """
        async with self.open_session(tmp_path, imported_turn("p001")) as store:
            late = Prefetch(
                turn_id="t1", branch_id="main", depth=2, focus_quest_id="q", keywords=("钥匙",), value={"ids": ["a"]}
            )
            version = (await store.head(SESSION)).version
            await store.save_prefetch(SESSION, late)
            await store.save_prefetch(SESSION, replace(late, turn_id="t0", depth=1))
            assert (await store.window(SESSION, message_limit=1)).prefetch == late
            newer = replace(late, turn_id="t2", depth=3)
            await store.save_prefetch(SESSION, newer)
            assert (await store.window(SESSION, message_limit=1)).prefetch == newer
            assert (await store.head(SESSION)).version == version
            await store.fork(SESSION, "p001", "b")
            assert (await store.window(SESSION, message_limit=1)).prefetch is None
            with pytest.raises(BranchNotFoundError):
                await store.save_prefetch(SESSION, replace(late, branch_id="nowhere"))
            await store.save_prefetch(SESSION, None)
            assert (await store.window(SESSION, message_limit=1, branch_id="main")).prefetch is None

    async def test_sessions_are_apart(self, tmp_path: Path) -> None:
        """The same ids of turns and entries in two sessions are independent."""
        async with self.open_session(tmp_path, imported_turn("p001", "one")) as store:
            await store.create_session(start(imported_turn("p001", "two"), session_id="s0"))
            assert await store.sessions() == ("s0", SESSION)
            assert (await store.turn("s0", "p001")).messages[0].content == "ask two"
            assert (await store.turn(SESSION, "p001")).messages[0].content == "ask one"
            listed = await store.entries_after(session_scope("s0"), Chain.HISTORY, 0, 9)
            assert [found.entry.text for found in listed] == ["ask two", "tell two"]

"""Tests that a Store returns evidence that a turn has found only for branches with this turn, and only for viewers who may know
the evidence.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from mnemosyne.protocols import Store
from mnemosyne.schema.document import ToolCall
from mnemosyne.schema.evidence import Evidence, EvidenceLinks
from mnemosyne.schema.query import EvidenceFilter
from mnemosyne.schema.session import Ref
from mnemosyne.testing.stores.samples import (
    SESSION,
    StoreTests,
    block,
    evidence,
    imported_turn,
    play,
    prepared_turn,
    user_message,
)

KNOWN = EvidenceFilter(branch_id="", limit=9, newest=True, without_memories=True)


def found_in(evidence_id: str, turn_id: str | None, viewer: str | None = None, **fields: Any) -> Evidence:
    """Return an evidence item that the turn `turn_id` found."""
    return evidence(evidence_id, links=EvidenceLinks(turn_id=turn_id, viewer=viewer), **fields)


async def known_ids(store: Store, where: EvidenceFilter = KNOWN, branch_id: str | None = None) -> list[str]:
    """Return the ids of the evidence that a turn on a branch reads; they must equal those in a list of that branch."""
    head = await store.head(SESSION, branch_id)
    inputs = await store.turn_inputs(SESSION, message_limit=1, branch_id=branch_id, evidences=(where,))
    listed = await store.list_evidences(SESSION, where.on_branch(head.branch_id))
    assert inputs.evidences == (listed,)
    return [each.evidence_id for each in listed]


class StoreLineage(StoreTests):
    """Tests that the evidence of a turn is known on its branch, while the turn waits, and in its copies, but not elsewhere."""

    async def test_evidence_goes_with_its_turn(self, tmp_path: Path) -> None:
        """A fork has the evidence of its ancestors. Going back hides the evidence of later turns.

        Evidence of no turn is known everywhere.
        """
        async with self.open_session(tmp_path, imported_turn("p001"), imported_turn("p002")) as store:
            for each in (
                evidence("all"),
                found_in("own", ""),
                found_in("one", "p001"),
                found_in("two", "p002"),
                found_in("brought", "turn of another store"),
            ):
                await store.put_evidence(SESSION, each)
            assert await known_ids(store) == ["all", "own", "one", "two", "brought"]
            await store.fork(SESSION, "p001", "side")
            assert await known_ids(store) == ["all", "own", "one", "brought"]
            await play(store, "t1")
            await store.put_evidence(SESSION, found_in("aside", "t1"))
            assert await known_ids(store) == ["all", "own", "one", "brought", "aside"]
            assert await known_ids(store, branch_id="main") == ["all", "own", "one", "two", "brought"]
            await store.fork(SESSION, None, "bare")
            assert await known_ids(store) == ["all", "own", "brought"]
            assert await known_ids(store, replace(KNOWN, limit=1)) == ["brought"]
            everything = await store.list_evidences(SESSION)
            assert [each.evidence_id for each in everything] == ["all", "own", "one", "two", "brought", "aside"]
            of_turns = EvidenceFilter(turn_ids=frozenset({"p002", "t1", "nothing"}))
            assert [each.evidence_id for each in await store.list_evidences(SESSION, of_turns)] == ["two", "aside"]

    async def test_evidence_of_a_turn_that_is_replaced_is_gone(self, tmp_path: Path) -> None:
        """The evidence of a turn that waits is known on its branch, until another turn takes its place."""
        async with self.open_session(tmp_path, imported_turn("p001")) as store:
            await store.fork(SESSION, "p001", "side")
            await store.switch(SESSION, "main")
            head = await store.head(SESSION)
            saved = await store.save_prepared(prepared_turn(head, "t1"), expected_version=head.version)
            await store.put_evidence(SESSION, found_in("waits", "t1"))
            assert await known_ids(store) == ["waits"]
            assert await known_ids(store, branch_id="side") == []
            now = replace(saved, version=(await store.head(SESSION)).version)
            await store.save_prepared(prepared_turn(now, "t2"), expected_version=now.version)
            assert await known_ids(store) == []

    async def test_a_copy_of_a_turn_knows_what_the_turn_found(self, tmp_path: Path) -> None:
        """An edit copies turns to another branch, and the evidence that they found is known there too."""
        async with self.open_session(tmp_path, imported_turn("p001")) as store:
            await play(store, "t1")
            await store.put_evidence(SESSION, found_in("seen", "t1"))
            head = await store.fork(SESSION, "p001", "edit")
            assert await known_ids(store) == []
            copy = prepared_turn(head, "t1-copy", origin_id="t1")
            saved = await store.save_prepared(copy, expected_version=head.version)
            assert (await store.turn(SESSION, "t1-copy")).origin_id == "t1"
            assert await known_ids(store) == ["seen"]
            await store.save_prepared(prepared_turn(head, "t9"), expected_version=saved.version)
            assert await known_ids(store) == []
            assert await known_ids(store, branch_id="main") == ["seen"]

    async def test_evidence_is_for_those_who_may_know_it(self, tmp_path: Path) -> None:
        """Viewers are checked before the limit counts.

        The result of a call that belongs to no known turn is not for viewers.
        """
        async with self.open_session(tmp_path, imported_turn("p001")) as store:
            old = evidence("old", links=EvidenceLinks(tool_call_id="c1"))
            for each in (
                evidence("all"),
                old,
                found_in("lin", "p001", "lin"),
                found_in("guarded", "p001", "lin", metadata={"viewers": ["lin", "mara"]}),
                *(found_in(f"m{number}", "p001", "mara") for number in range(3)),
            ):
                await store.put_evidence(SESSION, each)
            for viewers, limit, expected in (
                (frozenset[str](), 9, ["all", "old"]),
                (frozenset({"lin"}), 9, ["all", "lin", "guarded"]),
                (frozenset({"lin"}), 1, ["guarded"]),
                (frozenset({"mara"}), 9, ["all", "guarded", "m0", "m1", "m2"]),
                (frozenset({"nobody"}), 9, ["all"]),
                (None, 9, ["all", "old", "lin", "guarded", "m0", "m1", "m2"]),
            ):
                assert await known_ids(store, replace(KNOWN, known_to=viewers, limit=limit)) == expected

    async def test_what_was_read_follows_the_turns(self, tmp_path: Path) -> None:
        """A list of evidence that a store keeps from turn to turn is always that of the branch and of the viewer."""
        async with self.open_session(tmp_path, imported_turn("p001")) as store:
            mine = replace(KNOWN, known_to=frozenset({"lin"}))
            await store.put_evidence(SESSION, found_in("p", "p001", "lin"))
            for number in range(3):
                assert await known_ids(store, mine) == ["p"]
                assert await known_ids(store) == ["p"]
                assert await known_ids(store, replace(KNOWN, known_to=frozenset())) == []
                await play(store, f"t{number}")
            await store.fork(SESSION, None, "side")
            for number in range(2):
                assert await known_ids(store, mine) == []
                assert await known_ids(store, mine, "main") == ["p"]
                await play(store, f"s{number}")

    async def test_rule_9_a_document_has_what_its_branch_found(self, tmp_path: Path) -> None:
        """A document does not contain the evidence, calls and blocks of other branches, and writing it does not change them."""
        async with self.open_session(tmp_path, imported_turn("p001"), imported_turn("p002")) as store:
            calls = [ToolCall(tool_call_id=f"c-{turn}", extra={"turn_id": turn}) for turn in ("p001", "p002")]
            await store.append_tool_calls(SESSION, (*calls, ToolCall(tool_call_id="c-all")))
            items = (found_in("one", "p001"), found_in("two", "p002"), evidence("all"))
            for each in items:
                await store.put_evidence(SESSION, each)
            blocks = tuple(block(f"k-{e.evidence_id}", refs=(Ref(evidence_id=e.evidence_id),)) for e in items)
            await store.put_context_blocks(SESSION, blocks)
            main = await store.get_session(SESSION)
            await store.fork(SESSION, "p001", "side")
            side = await store.get_session(SESSION)
            assert main is not None
            assert side is not None
            assert side.session.tool_state is not None
            assert (list(side.evidences), [each.block_id for each in side.context_blocks]) == (
                ["one", "all"],
                ["k-one", "k-all"],
            )
            assert [each.tool_call_id for each in side.session.tool_state.tool_calls] == ["c-p001", "c-all"]
            assert (await store.put_session(SESSION, side)).version == (await store.head(SESSION)).version
            assert await store.get_session(SESSION) == side
            assert await store.get_session(SESSION, branch_id="main") == main
            kept = {name: each for name, each in side.evidences.items() if name == "one"}
            await store.put_session(SESSION, replace(side, evidences=kept, context_blocks=()))
            left = await store.get_session(SESSION, branch_id="main")
            assert left is not None
            assert (list(left.evidences), [each.block_id for each in left.context_blocks]) == (
                ["one", "two"],
                ["k-two"],
            )

    async def test_a_message_keeps_what_it_refers_to(self, tmp_path: Path) -> None:
        """A document with a ref to evidence of another branch contains that evidence, so that the document can be
        written again.
        """
        async with self.open_session(tmp_path, imported_turn("p001")) as store:
            await store.put_evidence(SESSION, found_in("one", "p001"))
            await store.fork(SESSION, None, "side")
            said = user_message("as I saw", refs=(Ref(evidence_id="one"),))
            await store.append_messages(SESSION, (said,))
            document = await store.get_session(SESSION)
            assert document is not None
            assert list(document.evidences) == ["one"]
            await store.put_session(SESSION, document)
            assert await store.get_session(SESSION) == document

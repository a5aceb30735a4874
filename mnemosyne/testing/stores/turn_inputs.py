"""Tests the reads of a Store that return everything for one turn: after every write they equal the single methods' results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mnemosyne.core.errors import BranchNotFoundError, SessionNotFoundError
from mnemosyne.protocols import Store
from mnemosyne.schema.evidence import EvidenceType
from mnemosyne.schema.memory import Chain
from mnemosyne.schema.query import BlockFilter, EvidenceFilter
from mnemosyne.schema.record import ImportedTurn, TurnInputs
from mnemosyne.testing.stores.samples import (
    SCOPE,
    SESSION,
    WORLD_SCOPE,
    StoreTests,
    block,
    evidence,
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

_DOCUMENTS = EvidenceFilter(types=frozenset({EvidenceType.RAG_DOC}), limit=3, newest=True)
_RESULTS = EvidenceFilter(types=frozenset({EvidenceType.TOOL_RESULT, EvidenceType.OTHER}), limit=3, newest=True)
_BLOCKS = BlockFilter(without_prefixes=("made:",))


async def read_inputs(store: Store, branch_id: str | None = None) -> TurnInputs:
    """Return the inputs of a turn, after comparing them with the results of the single methods."""
    given = {"message_limit": 3, "branch_id": branch_id, "evidences": (_DOCUMENTS, _RESULTS), "blocks": _BLOCKS}
    found = await store.turn_inputs(SESSION, **given)  # type: ignore[arg-type]
    assert replace(found, written=None) == await Store.turn_inputs(store, SESSION, **given)  # type: ignore[arg-type]
    for (scope, chain), newest in (found.written or {}).items():
        rows = await store.entries_after(scope, chain, 0, 1000)
        assert newest == (rows[-1].sequence if rows else 0), (scope, chain)
    return found


class StoreTurnInputs(StoreTests):
    """Tests the reads at the beginning of a turn, and those once the turn's memories are chosen."""

    async def test_turn_inputs_are_what_the_single_methods_return(self, tmp_path: Path) -> None:
        """The inputs of a turn equal the results of the single methods on every branch.

        They are the window, filtered evidence and blocks, the entries with viewers or conditions of session and
        world, and how far each chain was written.
        """
        async with self.open_empty(tmp_path) as store:
            await store.replace_world("w1", "d1", (lore("open"), lore("secret", viewers=("gm",))))
            turns = (imported_turn("t1"), imported_turn("t2"))
            guarded = memory("m", turn_id="t1", viewers=("gm",))
            await store.create_session(start(*turns, entries=(guarded, memory("free", turn_id="t1"))))
            assert [each.entry_id for each in (await read_inputs(store)).gated] == ["m", "secret"]
            await store.put_evidence(SESSION, evidence("e1"))
            await store.put_context_blocks(
                SESSION, (block("mine", content="kept"), block("made:1", content="left out"))
            )
            await store.fork(SESSION, "t1", "other")
            await play(store, "t3", 5)
            assert (await read_inputs(store)).window.head.branch_id == "other"
            main = await read_inputs(store, "main")
            assert [each.message.content for each in main.window.messages][-1] == "tell t2"
            assert [each.block_id for each in main.blocks] == ["mine"]

    async def test_turn_inputs_follow_every_write(self, tmp_path: Path) -> None:
        """Evidence that a turn, a caller or a document wrote or replaced is in the next inputs, in its place."""

        def newest(found: TurnInputs) -> list[list[str]]:
            return [[f"{each.evidence_id}={each.content}" for each in listed] for listed in found.evidences]

        async with self.open_session(tmp_path) as store:
            assert newest(await read_inputs(store)) == [[], []]
            result = evidence("r1", "a rope", type=EvidenceType.TOOL_RESULT)
            writes: tuple[tuple[Callable[[], Awaitable[object]], list[list[str]]], ...] = (
                (lambda: store.put_evidence(SESSION, result), [[], ["r1=a rope"]]),
                (lambda: _prepare(store, "t1", "a", "b"), [["a=a", "b=b"], ["r1=a rope"]]),
                (
                    lambda: _prepare(store, "t1", "b", "c", text="again"),
                    [["a=a", "b=b again", "c=c again"], ["r1=a rope"]],
                ),
                (
                    lambda: _commit(store, "t1"),
                    [["a=a", "b=b again", "c=c again"], ["r1=a rope"]],
                ),
                (lambda: _prepare(store, "t2", "d", "a"), [["b=b again", "c=c again", "d=d"], ["r1=a rope"]]),
                (
                    lambda: _prepare(store, "t3", "r1", type=EvidenceType.OTHER),
                    [["b=b again", "c=c again", "d=d"], ["r1=r1"]],
                ),
                (
                    lambda: store.put_evidence(SESSION, evidence("b", "moved", type=EvidenceType.OTHER)),
                    [["a=a", "c=c again", "d=d"], ["r1=r1", "b=moved"]],
                ),
            )
            for number, (write, expected) in enumerate(writes):
                await write()
                assert newest(await read_inputs(store)) == expected, number
            document = await store.get_session(SESSION)
            assert document is not None
            left = {name: each for name, each in document.evidences.items() if name != "c"}
            await store.put_session(SESSION, replace(document, evidences=left, context_blocks=()))
            assert newest(await read_inputs(store)) == [["a=a", "d=d"], ["r1=r1", "b=moved"]]

    async def test_chosen_inputs_are_what_the_single_methods_return(self, tmp_path: Path) -> None:
        """Entries are read by scope, evidence by id, and states by turn. What does not exist is left out."""
        async with self.open_empty(tmp_path) as store:
            await store.replace_world("w1", "d1", (lore("l1"), lore("l2")))
            await store.create_session(
                start(ImportedTurn(turn_id="t0", messages=(user_message("hi"), reply_message("ho"))))
            )
            for number in range(1, 5):
                await play(store, f"t{number}", number)
            await store.put_evidence(SESSION, evidence("e1"))
            for turn_id in ("t5", "t6"):
                wanted = {WORLD_SCOPE: ("l2", "unknown", "l1"), SCOPE: ("t2.u",)}
                asked = {"evidence_ids": ("e1", "e9"), "turn_ids": ("t3", "t1", "unknown")}
                found = await store.chosen_inputs(SESSION, wanted, **asked)
                assert found == await Store.chosen_inputs(store, SESSION, wanted, **asked)
                assert [each.entry_id for each in found.entries[WORLD_SCOPE]] == ["l2", "l1"]
                assert [each.chain for each in found.entries[SCOPE]] == [Chain.HISTORY]
                assert [each.evidence_id for each in found.evidences] == ["e1"]
                assert {name: state["hero"] for name, state in found.states.items()} == {
                    "t3": {"gold": 3},
                    "t1": {"gold": 1},
                }
                await play(store, turn_id, 9)

    async def test_inputs_of_an_unknown_session_or_branch_are_refused(self, tmp_path: Path) -> None:
        """Unknown names raise SessionNotFoundError or BranchNotFoundError."""
        async with self.open_session(tmp_path) as store:
            with pytest.raises(SessionNotFoundError):
                await store.turn_inputs("nobody", message_limit=1)
            with pytest.raises(BranchNotFoundError):
                await store.turn_inputs(SESSION, message_limit=1, branch_id="nowhere")


async def _prepare(
    store: Store, turn_id: str, *names: str, text: str = "", type: EvidenceType = EvidenceType.RAG_DOC
) -> None:
    head = await store.head(SESSION)
    record = prepared_turn(head, turn_id, text or "hello")
    items = tuple(evidence(name, f"{name} {text}".strip(), type=type) for name in names)
    await store.save_prepared(record, expected_version=head.version, evidences=items)


async def _commit(store: Store, turn_id: str) -> None:
    head = await store.head(SESSION)
    await store.commit_turn(SESSION, gold_commit(turn_id, 2), expected_version=head.version)

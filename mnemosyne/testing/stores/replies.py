"""Tests how a Store keeps the chunks of a reply that is still arriving."""

from __future__ import annotations

from datetime import timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from mnemosyne.core.errors import NoPendingTurnError, SessionNotFoundError, TurnNotFoundError
from mnemosyne.protocols import Store
from mnemosyne.schema.erasure import Erasure
from mnemosyne.schema.replies import AddedChunk, ChunkLimits, ChunkOutcome, ReplyChunk
from mnemosyne.testing.stores.samples import (
    AT,
    SESSION,
    StoreTests,
    evidence,
    imported_turn,
    prepared_turn,
    start,
)

SECRET = "the mill at Harrowgate hides him"


async def add(store: Store, index: int, text: str, session_id: str = SESSION, **fields: Any) -> AddedChunk:
    """Add one chunk of a reply."""
    limits = ChunkLimits(
        chars=fields.pop("chars", 100), replies=3, expired_before=fields.get("at", AT) - timedelta(minutes=1)
    )
    chunk = ReplyChunk(**{"turn_id": "t1", "index": index, "text": text, "at": AT, **fields})
    return await store.add_chunk(session_id, chunk, limits)


async def text_of(store: Store, turn_id: str | None = "t1", message_id: str = "", session_id: str = SESSION) -> str:
    """Return the chunks of a reply so far, joined; '-' if there are none."""
    reply = await store.unfinished_reply(session_id, turn_id, message_id)
    return "-" if reply is None else "".join(text for _, text in sorted(reply.chunks.items()))


async def prepare(store: Store, turn_id: str = "t1", session_id: str = SESSION) -> None:
    """Write the turn `turn_id`, which waits for its reply."""
    head = await store.head(session_id)
    await store.save_prepared(prepared_turn(head, turn_id), expected_version=head.version)


class StoreReplies(StoreTests):
    """Tests that an unfinished reply can be finished by any process."""

    async def test_chunks_in_any_order_and_more_than_once_are_one_reply(self, tmp_path: Path) -> None:
        """Each index has one text, and the version does not change. Another instance of the store sees the chunks."""
        async with self.open_session(tmp_path) as store:
            await prepare(store)
            version = (await store.head(SESSION)).version
            parts = ("他说:", "", "\U0001f511 and \x00")
            for number, order in enumerate(permutations(range(3))):
                for index in (*order, order[0]):
                    added = await add(store, index, parts[index], message_id=f"m{number}")
                assert added.outcome is ChunkOutcome.REPEATED
                assert added.chars == len("".join(parts))
                assert await text_of(store, "t1", f"m{number}") == "".join(parts)
                assert await store.drop_unfinished(SESSION, "t1", f"m{number}") == 3
                assert await store.drop_unfinished(SESSION, "t1", f"m{number}") == 0
            await add(store, 1, "b")
            assert (await store.head(SESSION)).version == version
            if self.persistent:
                await store.close()
                other = await self.make_store(tmp_path)
                reply = await other.unfinished_reply(SESSION, None, "")
                assert reply is not None
                assert (reply.turn_id, reply.changed_at, dict(reply.chunks)) == ("t1", AT, {1: "b"})
                await other.close()

    async def test_a_refused_chunk_changes_nothing(self, tmp_path: Path) -> None:
        """Another text for a known index is refused, and so is a text that makes the reply too long. Earlier chunks stay."""
        async with self.open_session(tmp_path) as store:
            await prepare(store)
            assert (await add(store, 0, "x" * 101)).outcome is ChunkOutcome.TOO_LONG
            assert await text_of(store) == "-"
            await add(store, 0, "a" * 60)
            refused = await add(store, 1, "b" * 41)
            assert (refused.outcome, refused.chars) == (ChunkOutcome.TOO_LONG, 101)
            assert (await add(store, 0, "other")).outcome is ChunkOutcome.CONFLICTING
            assert (await add(store, 0, "a" * 60)).outcome is ChunkOutcome.REPEATED
            assert (await add(store, 1, "b" * 40)).chars == 100
            assert await text_of(store) == "a" * 60 + "b" * 40

    async def test_the_turn_of_a_chunk_is_known_or_found(self, tmp_path: Path) -> None:
        """A chunk without a turn belongs to the only turn with chunks for the message, else to the pending turn.

        Unknown names are errors.
        """
        async with self.open_session(tmp_path) as store:
            for call in (add(store, 0, "a", turn_id=None), add(store, 0, "a", turn_id="t9")):
                with pytest.raises(TurnNotFoundError):
                    await call
            with pytest.raises(NoPendingTurnError):
                await add(store, 0, "a", turn_id=None)
            with pytest.raises(SessionNotFoundError):
                await add(store, 0, "a", "nobody")
            assert await store.unfinished_reply(SESSION, None, "") is None
            await prepare(store)
            assert (await add(store, 0, "first", turn_id=None)).turn_id == "t1"
            await prepare(store, "t2")
            assert (await add(store, 1, " still", turn_id=None)).turn_id == "t1"
            await add(store, 0, "second", turn_id="t2")
            assert (await add(store, 1, " now", turn_id=None)).turn_id == "t2"
            assert [await text_of(store, each) for each in (None, "t1", "t2")] == [
                "second now",
                "first still",
                "second now",
            ]

    async def test_old_replies_make_room_for_new_ones(self, tmp_path: Path) -> None:
        """Replies that have expired or exceed the limit are dropped. Other sessions keep theirs."""
        async with self.open_session(tmp_path) as store:
            await store.create_session(start(imported_turn("p001"), session_id="s2"))
            for session_id in (SESSION, "s2"):
                await prepare(store, session_id=session_id)
                await add(store, 0, "a", session_id, message_id="m0")
            for number in range(1, 4):
                await add(store, number, "a", message_id="m0", at=AT + timedelta(seconds=number))
                dropped = (await add(store, 0, "b", message_id=f"m{number}", at=AT + timedelta(seconds=number))).dropped
            assert dropped == (("t1", "m1"),)
            assert await text_of(store, "t1", "m0") == "aaaa"
            late = await add(store, 9, "new", message_id="m0", at=AT + timedelta(seconds=90))
            assert late.dropped == (("t1", "m2"), ("t1", "m0"), ("t1", "m3"))
            assert (await text_of(store, "t1", "m0"), await text_of(store, "t1", "m0", "s2")) == ("new", "a")

    async def test_an_erasure_drops_unfinished_replies(self, tmp_path: Path) -> None:
        """All chunks of a session that an erasure concerns are dropped, because an erased text may be spread over
        several chunks.
        """
        async with self.open_session(tmp_path) as store:
            await store.create_session(start(imported_turn("p001"), session_id="s2"))
            for session_id in (SESSION, "s2"):
                await prepare(store, session_id=session_id)
                for index, text in enumerate((SECRET[:9], SECRET[9:], SECRET)):
                    await add(store, index, text, session_id)
            assert len(await store.find_text((SECRET,))) == 2
            await store.put_evidence(SESSION, evidence("e1", SECRET))
            done = await store.erase(Erasure(at=AT, session_id=SESSION, evidence_ids=("e1",)))
            assert done.counts["chunks"] == 3
            assert await text_of(store) == "-"
            assert (await store.erase(Erasure(at=AT, session_id="s2"))).counts["chunks"] == 3
            assert await store.find_text((SECRET,)) == ()

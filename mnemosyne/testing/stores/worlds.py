"""Tests the worlds of a Store: lore and pack (the author's definition of the world) always belong to one version."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mnemosyne.schema.erasure import PACK_PLACE, Erasure
from mnemosyne.schema.memory import Chain
from mnemosyne.schema.record import ImportedTurn
from mnemosyne.schema.session import Author, AuthorKind
from mnemosyne.testing.stores.samples import SESSION, WORLD_SCOPE, StoreTests, imported_turn, lore, user_message

LINE = "the miller counts his sacks aloud, twice, before the gate is shut"
PACK: dict[str, Any] = {
    "format": 1,
    "pack": {
        "title": "The Mill",
        "numbers": [0, -1, 2**63 - 1, 0.1, 1e300, 1.0],
        "nothing": None,
        "texts": ["磨坊", "a\x00b", "half \ud800", '"quoted"\n</tag>', ""],
        "order": {"z": 1, "a": {"m": True}, "k": []},
        "prologue": LINE,
    },
}


class StoreWorlds(StoreTests):
    """Tests that packs are stored by world and digest, and that a digest identifies one version of lore and pack."""

    async def test_rule_10_lore_and_pack_are_of_one_version(self, tmp_path: Path) -> None:
        """One call writes both, another version replaces both, and the same version changes nothing."""
        async with self.open_session(tmp_path) as store:
            assert await store.world_digest("w1") is None
            assert await store.worlds() == {}
            assert await store.replace_world("w1", "d1", (lore("a"), lore("b")), PACK) == 2
            assert await store.world_digest("w1") == "d1"
            kept = await store.pack("w1", "d1")
            assert kept == PACK
            assert [*kept["pack"]] == [*PACK["pack"]], "keys stay in their order"
            assert [type(each) for each in kept["pack"]["numbers"]] == [int, int, int, float, float, float]
            assert await store.replace_world("w1", "d1", (lore("a"), lore("b")), PACK) == 0
            assert await store.replace_world("w1", "d1", ()) == 0, "without a pack the same digest is no work"
            assert await store.pack("w1", "d1") == PACK
            assert await store.replace_world("w1", "d2", (lore("a"),), {"other": 1}) == 1
            assert (await store.world_digest("w1"), await store.pack("w1", "d2")) == ("d2", {"other": 1})
            assert await store.pack("w1", "d1") is None, "of the version before nothing is kept"
            assert [entry.entry_id for entry in await store.entries(WORLD_SCOPE, ("a", "b"))] == ["a"]

    async def test_rule_10_a_call_that_fails_changes_neither(self, tmp_path: Path) -> None:
        """If lore cannot be written, the previous version stays, including its pack."""
        async with self.open_session(tmp_path) as store:
            await store.replace_world("w1", "d1", (lore("a"),), PACK)
            with pytest.raises(ValueError, match="twice"):
                await store.replace_world("w1", "d2", (lore("b"), lore("b")), {"other": 1})
            assert await store.worlds() == {"w1": "d1"}
            assert (await store.pack("w1", "d1"), await store.pack("w1", "d2")) == (PACK, None)
            assert [entry.entry_id for entry in await store.entries(WORLD_SCOPE, ("a", "b"))] == ["a"]

    async def test_a_pack_comes_to_lore_that_is_there(self, tmp_path: Path) -> None:
        """The same digest adds the pack to lore that an older release wrote without one, and no entry changes."""
        async with self.open_session(tmp_path) as store:
            await store.replace_world("w1", "d1", (lore("a"),))
            assert (await store.world_digest("w1"), await store.pack("w1", "d1")) == ("d1", None)
            seen = await store.entries_after(WORLD_SCOPE, Chain.LORE, 0, 9)
            assert await store.replace_world("w1", "d1", (lore("a"),), PACK) == 0
            assert await store.pack("w1", "d1") == PACK
            assert await store.entries_after(WORLD_SCOPE, Chain.LORE, 0, 9) == seen

    async def test_one_digest_for_two_packs(self, tmp_path: Path) -> None:
        """If a host gives all its packs the same digest, the last pack counts, with its lore."""
        async with self.open_session(tmp_path) as store:
            await store.replace_world("w1", "d", (lore("a"),), PACK)
            assert await store.replace_world("w1", "d", (lore("b"),), {"other": 1}) == 2
            assert await store.pack("w1", "d") == {"other": 1}
            assert [entry.entry_id for entry in await store.entries(WORLD_SCOPE, ("a", "b"))] == ["b"]

    async def test_lore_without_a_pack_leaves_none(self, tmp_path: Path) -> None:
        """Lore with another digest and no pack removes the old pack, because it would belong to another version."""
        async with self.open_session(tmp_path) as store:
            await store.replace_world("w1", "d1", (), PACK)
            await store.replace_world("w1", "d2", (lore("a"),))
            assert (await store.pack("w1", "d1"), await store.pack("w1", "d2")) == (None, None)
            assert await store.worlds() == {"w1": "d2"}

    async def test_worlds_are_apart(self, tmp_path: Path) -> None:
        """The same digest in two worlds or two tenants is independent, and worlds are listed sorted."""
        async with self.open_empty(tmp_path, "red") as red:
            await red.replace_world("w2", "d", (), {"of": "w2"})
            await red.replace_world("w1", "d", (lore("a"),), {"of": "w1"})
            await red.replace_world("w:1 é", "e", (), PACK)
            assert await red.pack("w1", "d") == {"of": "w1"}
            assert await red.pack("w2", "d") == {"of": "w2"}
            assert await red.pack("nowhere", "d") is None
            assert list((await red.worlds()).items()) == [("w1", "d"), ("w2", "d"), ("w:1 é", "e")]
            async with self.open_empty(tmp_path, "blue") as blue:
                assert await blue.worlds() == {}
                assert (await blue.world_digest("w1"), await blue.pack("w1", "d")) == (None, None)

    async def test_rule_1_packs_last(self, tmp_path: Path) -> None:
        """After the store is reopened, the current version is there."""
        if not self.persistent:
            pytest.skip("this store keeps nothing")
        async with self.open_empty(tmp_path) as store:
            await store.replace_world("w1", "d0", (lore("z"),))
            await store.replace_world("w1", "d1", (lore("a"),), {"old": LINE})
            await store.replace_world("w1", "d2", (lore("b"),), PACK)
        async with self.open_empty(tmp_path) as store:
            assert await store.worlds() == {"w1": "d2"}
            assert (await store.pack("w1", "d1"), await store.pack("w1", "d2")) == (None, PACK)
            assert len(await store.gated_entries((WORLD_SCOPE,))) == 0
            assert [entry.entry_id for entry in await store.entries(WORLD_SCOPE, ("a", "b", "z"))] == ["b"]

    async def test_a_pack_is_searched_and_outlives_an_erasure(self, tmp_path: Path) -> None:
        """The author's text stays when a user with the same words is erased, and does not count as left over."""
        own = "my own words, which no author of a world ever wrote"
        lin = Author(kind=AuthorKind.USER, id="lin")
        said = ImportedTurn(turn_id="p001", messages=(user_message(LINE, author=lin), user_message(own, author=lin)))
        async with self.open_session(tmp_path, said, imported_turn("p002")) as store:
            await store.replace_world("w1", "d1", (), PACK)
            places = await store.find_text((LINE,))
            assert any(place.startswith(PACK_PLACE) and "w1" in place for place in places)
            assert any("p001" in place for place in places)
            done = await store.erase(Erasure(at=datetime(2026, 1, 31, tzinfo=UTC), user_id="lin"))
            assert done.texts == (own,)
            assert await store.pack("w1", "d1") == PACK
            (left,) = await store.find_text((LINE, own))
            assert left.startswith(PACK_PLACE)
            await store.erase(Erasure(at=datetime(2026, 1, 31, tzinfo=UTC), session_id=SESSION))
            assert await store.worlds() == {"w1": "d1"}

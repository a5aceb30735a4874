"""Gates come before recall: what a viewer may not know, or what the story has not reached, is no candidate on any engine.

The secrets here are what recall would like best: they answer the question word for word, stand beside what is found, belong
to the focused quest and to the entities of the input.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from recall_parts import SESSION, WORLD, LetterEmbedder, entry, question, said

from mnemosyne import (
    CalibratedEstimator,
    Chain,
    MemoryEntry,
    Recall,
)
from mnemosyne.chains.lore import hidden_entries
from mnemosyne.protocols import Index
from mnemosyne.retrieval.engines.tables.memory import MemoryIndex
from mnemosyne.retrieval.engines.tiered_index import TieredIndex
from mnemosyne.retrieval.recall.arms import ALL_ARMS
from mnemosyne.retrieval.recall.entry_list import EntryList
from mnemosyne.retrieval.recall.hybrid import HybridRetriever
from mnemosyne.schema.memory import Comparison, Condition

pytestmark = pytest.mark.anyio

OPENED = Condition(path="gate.open", op=Comparison.EQ, value=True)
LORE = [
    entry("key", "The silver key opens the temple gate.", entities=("temple",)),
    entry("secret", "The silver key of the temple gate is a forgery.", viewers=("abbot",), entities=("temple",)),
    entry("later", "Behind the temple gate the silver key turns to ash.", when=(OPENED,), entities=("temple",)),
    entry("ferry", "The ferryman takes two coins."),
    entry("钥匙", "银钥匙能打开神庙的大门。"),
    entry("秘密", "银钥匙是假的,神庙的大门打不开。", viewers=("abbot",)),
]
PLAYED = [
    said("m1", "Mara", "Where is the silver key?", 1),
    said("m2", "Ilvane", "Under the temple gate, I think.", 1),
    entry(
        "whisper", "The silver key was sold.", Chain.EVENT, viewers=("abbot",), quest_id="q1", depth=1, branch_id="main"
    ),
    entry("told", "Mara hid the silver key.", Chain.EVENT, quest_id="q1", depth=1, branch_id="main"),
    entry("omen", "The temple fell.", Chain.NARRATIVE, when=(OPENED,), depth=1, branch_id="main", kind="macro"),
]
EVERYTHING = [*LORE, *PLAYED]
ASKED = ("Is the silver key of the temple gate a forgery?", "银钥匙是假的吗？神庙的大门打得开吗？")


@pytest.fixture(params=["memory", "tiered", "big"])
async def index(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Index]:
    made: dict[str, Callable[[], Index]] = {
        "memory": MemoryIndex,
        "tiered": lambda: TieredIndex(tmp_path / "index"),
        "big": lambda: TieredIndex(tmp_path / "index", memory_rows=-1),
    }
    one = made[request.param]()
    yield one
    await one.close()


async def asked(
    index: Index, text: str, viewer: str | None, state: Mapping[str, Any], arms: frozenset[str] = ALL_ARMS
) -> Recall:
    hidden = hidden_entries([one for one in EVERYTHING if one.viewers or one.when], viewer, state)
    recalling = HybridRetriever(EntryList(EVERYTHING), index, LetterEmbedder(), CalibratedEstimator(), arms=arms)
    await recalling.sync(WORLD)
    await recalling.sync(SESSION)
    near = {"quest_distances": {"q1": 0}, "entities": ("temple",)}
    return await recalling.recall(question(text, exclude=hidden, **near))


def ids(recall: Recall) -> set[str]:
    return {each.entry_id for each in recall.candidates}


@pytest.mark.parametrize("text", ASKED)
@pytest.mark.parametrize("arms", [frozenset({"bm25"}), frozenset({"vector"}), ALL_ARMS])
async def test_no_secret_reaches_the_candidates(index: Index, text: str, arms: frozenset[str]) -> None:
    outsider = await asked(index, text, None, {"gate": {"open": False}}, arms)
    assert outsider.candidates
    assert not ids(outsider) & {"secret", "秘密", "whisper", "later", "omen"}
    other = await asked(index, text, "Mara", {"gate": {"open": False}}, arms)
    assert ids(other) == ids(outsider)


async def test_the_one_who_may_know_and_the_story_that_has_come_open_the_gates(index: Index) -> None:
    abbot = await asked(index, ASKED[0], "abbot", {"gate": {"open": False}})
    assert {"secret", "whisper"} <= ids(abbot)
    assert not ids(abbot) & {"later", "omen"}
    opened = await asked(index, ASKED[0], None, {"gate": {"open": True}})
    assert {"later", "omen"} <= ids(opened)
    assert not ids(opened) & {"secret", "whisper"}


async def test_a_hidden_secret_moves_no_score_of_a_word() -> None:
    """In memory counts are those of what may be seen: words weigh as they would if the secret had never been written."""
    with_secrets = await asked(MemoryIndex(), ASKED[0], None, {"gate": {"open": False}})
    seen = [one for one in EVERYTHING if not one.viewers and not one.when]
    source = EntryList(seen)
    alone = HybridRetriever(source, MemoryIndex(), LetterEmbedder(), CalibratedEstimator())
    await alone.sync(WORLD)
    await alone.sync(SESSION)
    near = {"quest_distances": {"q1": 0}, "entities": ("temple",)}
    without = await alone.recall(question(ASKED[0], **near))
    assert words(with_secrets) == pytest.approx(words(without))


def words(recall: Recall) -> dict[str, float]:
    return {each.entry_id: each.signals.fts or 0.0 for each in recall.candidates}


def gated() -> list[MemoryEntry]:
    return [one for one in EVERYTHING if one.viewers or one.when]


def test_the_secrets_of_these_tests_are_gated() -> None:
    assert {one.entry_id for one in gated()} == {"secret", "秘密", "whisper", "later", "omen"}

"""Words for times and dates move what recall brings, in both languages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mnemosyne import CalibratedEstimator, Chain, MemoryEntry, RetrievalQuery
from mnemosyne.retrieval.engines.tables.memory import MemoryIndex
from mnemosyne.retrieval.recall.entry_list import EntryList
from mnemosyne.retrieval.recall.hybrid import HybridRetriever
from mnemosyne.schema.memory import session_scope
from mnemosyne.schema.session import BranchSpan

pytestmark = pytest.mark.anyio

SCOPE = session_scope("s")
FIRST = datetime(2024, 5, 1, 12, tzinfo=UTC)


async def found(texts: list[str], question: str) -> list[str]:
    """Return the ids of messages said a day apart, `d1` on the first of May, as a question brings them."""
    entries = [
        MemoryEntry(
            entry_id=f"d{day}",
            scope=SCOPE,
            chain=Chain.HISTORY,
            kind="message",
            title="Mara",
            speaker="Mara",
            text=text,
            depth=day,
            branch_id="main",
            at=FIRST + timedelta(days=day - 1),
        )
        for day, text in enumerate(texts, start=1)
    ]
    recalling = HybridRetriever(EntryList(entries), MemoryIndex(), None, CalibratedEstimator())
    line = (BranchSpan(branch_id="main", upto_depth=len(texts)),)
    query = RetrievalQuery(text=question, world_id="", session_id="s", lineage=line, depth=len(texts) + 1)
    return [each.entry_id for each in (await recalling.recall(query)).candidates]


@pytest.mark.parametrize("day", [3, 17, 24])
async def test_a_date_brings_what_was_said_on_that_day(day):
    english = [f"We spoke about the ferry and the toll, number {word}." for word in "abcdefghijklmnopqrstuvwxyz"]
    assert (await found(english, f"What did we say about the ferry on {day} May 2024?"))[0] == f"d{day}"
    chinese = [f"我们谈起渡船和船费，记号{word}。" for word in "甲乙丙丁戊己庚辛壬癸子丑寅卯辰巳午未申酉戌亥东西南北"]
    assert (await found(chinese, f"2024年5月{day}日我们说了渡船的什么？"))[0] == f"d{day}"


async def test_when_is_answered_by_what_tells_a_time():
    english = ["The ferryman lost his boat at the bridge.", "The ferryman lost his boat two weeks ago, on a Monday."]
    assert (await found([*english, "The smith sleeps."], "When did the ferryman lose his boat?"))[0] == "d2"
    chinese = ["摆渡人在老桥边丢了船。", "摆渡人上周丢了船，是星期一。"]
    assert (await found([*chinese, "铁匠睡了。"], "摆渡人什么时候丢了船？"))[0] == "d2"

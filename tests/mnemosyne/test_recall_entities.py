"""Recall that follows persons and things: names and aliases, what a pronoun means, and several moments of a talk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from recall_parts import SESSION, WORLD, entry, question, said, written

from mnemosyne import CalibratedEstimator, MemoryEntry, RetrievalQuery
from mnemosyne.retrieval.engines.rows import name_persons, row_batch
from mnemosyne.retrieval.engines.tables.memory import MemoryIndex
from mnemosyne.retrieval.recall.entities import (
    TALK_CHARS,
    asks_for_several,
    find_bridges,
    find_subject_shares,
    name_terms,
    spread_moments,
)
from mnemosyne.retrieval.recall.entry_list import EntryList
from mnemosyne.retrieval.recall.hybrid import HybridRetriever
from mnemosyne.retrieval.recall.query_features import find_query_features, lexical_terms
from mnemosyne.retrieval.text.names import MOST_UNITS, find_phrases, subject_names
from mnemosyne.retrieval.text.persons import Spoken, find_persons, find_relation

pytestmark = pytest.mark.anyio

PERSONS = [
    entry(
        "angelica", "She gathers silver moss at night.", title="Angelica Reed", keys=("the herbalist",), kind="agent"
    ),
    entry("garrick", "He forges iron nails.", title="Garrick", keys=("the smith",), kind="agent"),
    entry("tower", "It has ninety steps.", title="Fogwatch Tower", kind="encyclopedia"),
    entry("白芷", "夜里上山采药。", title="白芷", keys=("药师",), kind="agent"),
    entry("霍岩", "打铁三十年。", title="霍岩", keys=("铁匠",), kind="agent"),
    entry("望雾塔", "有九十级台阶。", title="望雾塔", kind="encyclopedia"),
]


def subjects_of(query: RetrievalQuery, entries: Sequence[MemoryEntry] = PERSONS) -> list[str]:
    """Return the ids of the entries whose subject a query is about, the surest first."""
    shares = find_subject_shares(query, entries)
    order = sorted(range(len(entries)), key=lambda place: -shares[place])
    return [entries[place].entry_id for place in order if shares[place] > 0.0]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Where does the herbalist sleep?", ["angelica"]),
        ("药师住在哪里？", ["白芷"]),
        ("铁匠和药师认识吗？", ["白芷", "霍岩"]),
        ("望雾塔有多高？", ["望雾塔"]),
    ],
)
def test_an_alias_means_its_subject(text: str, found: list[str]) -> None:
    assert subjects_of(question(text)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("What does Angelica sell?", "angelica"),
        ("Is Reed at home?", "angelica"),
        ("I ask Mrs. Reed for help.", "angelica"),
        ("Is Master Garrick's forge cold?", "garrick"),
        ("白大夫今天在吗？", "白芷"),
        ("老霍今天在吗？", "霍岩"),
    ],
)
def test_a_first_name_and_a_title_with_a_name_mean_the_full_name(text: str, found: str) -> None:
    assert subjects_of(question(text)) == [found]


@pytest.mark.parametrize(
    ("text", "recent", "found"),
    [
        ("where was she born?", ("I met Garrick.", "Then Angelica came.", "We stood by Fogwatch Tower."), "angelica"),
        ("how high is it?", ("We stood by Fogwatch Tower.", "Then Angelica came."), "tower"),
        ("她是哪里人？", ("我去找白芷。", "后来到了望雾塔。"), "白芷"),
        ("它有多高？", ("后来到了望雾塔。", "我去找白芷。"), "望雾塔"),
    ],
)
def test_a_pronoun_means_the_subject_of_the_fitting_kind_that_was_named_last(
    text: str, recent: tuple[str, ...], found: str
) -> None:
    own = [replace(each, scope=SESSION) for each in PERSONS]
    assert subjects_of(question(text, recent=recent), own)[0] == found
    assert subjects_of(question(text, earlier=recent), own)[0] == found


def test_an_input_without_a_name_means_the_last_subject_only_among_the_lore_of_its_session() -> None:
    own = [entry("a", "故宫，地址：东城区。", scope=SESSION), entry("b", "天坛，地址：东城区。", scope=SESSION)]
    asked = question("几点开门？", recent=("天坛好玩吗？", "还是故宫好玩。"))
    assert subjects_of(asked, own) == ["a", "b"]
    assert subjects_of(question("几点开门？", recent=("我去找白芷。",))) == []


def test_a_question_that_names_something_does_not_look_back() -> None:
    recent = ("Angelica came.",)
    assert subjects_of(question("What did she give to Garrick?", recent=recent)) == ["garrick"]
    assert subjects_of(question("Did he come?", recent=recent, entities=("garrick",))) == []
    assert len(name_terms(question("Who was the first King of Denmark?", recent=recent))) < len(
        name_terms(question("Who was she?", recent=recent))
    ) + len(find_phrases("Who was the first King of Denmark?"))


def test_names_are_read_without_additions_and_dots() -> None:
    assert subject_names("", (), "恋恋笔记本（美国2004年爱情片），主演：高斯林") == ("恋恋笔记本",)
    assert subject_names("", (), "莱昂纳多·迪卡普里奥，别名：小李子")[0] == "莱昂纳多迪卡普里奥"
    assert "莱昂纳多" in subject_names("", (), "莱昂纳多·迪卡普里奥：演员")
    assert subject_names("Mr. Fitzwilliam Darcy", (), "") == ("fitzwilliam_darcy", "fitzwilliam", "darcy")
    assert subject_names("", (), "In far bygone days, in the North, there lived a farmer: Tom.") == ()


async def recall_ids(entries: Sequence[MemoryEntry], query: RetrievalQuery, *, page: int = 1_000) -> list[str]:
    """Return the ids that a recall by words finds, the best first. The index is filled `page` entries at a time."""
    source, index = EntryList(), MemoryIndex()
    recalling = HybridRetriever(source, index, None, CalibratedEstimator())
    for place in range(0, len(entries), page):
        source.append(entries[place : place + page])
        for scope in (WORLD, SESSION):
            await recalling.sync(scope)
    return [each.entry_id for each in (await recalling.recall(query)).candidates]


def attractions(count: int) -> list[MemoryEntry]:
    """Return three entries about each of `count` attractions: address, opening time, price."""
    return [
        entry(f"{place}.{name}", f"景点{chr(0x4E00 + place)}园，{name}：{value}{place}。", scope=SESSION)
        for place in range(count)
        for name, value in (("地址", "东街"), ("开放时间", "早上"), ("门票", "元"))
    ]


async def test_recall_finds_all_entries_about_the_subject_of_the_talk() -> None:
    """The talk names the subject, and the input has no word of the entry."""
    wanted = f"景点{chr(0x4E00 + 7)}园"
    found = await recall_ids(
        attractions(60), question("几点开门？", recent=(f"{wanted}好玩吗？", "很好玩。"), limit=10)
    )
    assert set(found[:3]) == {"7.地址", "7.开放时间", "7.门票"}


async def test_an_index_that_grew_has_the_names_of_one_that_was_rebuilt() -> None:
    asked = question("多少钱？", recent=(f"景点{chr(0x4E00 + 9)}园好玩吗？",), limit=20)
    grown = await recall_ids(attractions(40), asked, page=7)
    assert grown == await recall_ids(attractions(40), asked)
    rows = row_batch(written(attractions(40)), None, None, "").rows
    assert all(any(token.startswith("name=") for token in row.tokens) for row in rows)


async def test_the_cost_of_names_does_not_grow_with_the_memory() -> None:
    """The terms depend on the talk only, and at most fifty entries are read in addition."""

    class Counting(EntryList):
        read = 0

        async def entries(self, scope: str, entry_ids: Sequence[str]) -> tuple[MemoryEntry, ...]:
            self.read += len(entry_ids)
            return await super().entries(scope, entry_ids)

    asked = question("多少钱？", recent=("景点好玩吗？" * 200,), earlier=("景点好玩吗？" * 200,), limit=10)
    assert len(name_terms(asked)) <= (TALK_CHARS + len(asked.text)) * MOST_UNITS
    read = []
    for count in (100, 2_000):
        source, index = Counting(), MemoryIndex()
        same = [entry(f"s{place}", f"景点：{place}", scope=SESSION) for place in range(count)]
        source.append([*attractions(count), *same])
        recalling = HybridRetriever(source, index, None, CalibratedEstimator())
        await recalling.sync(SESSION)
        await recalling.recall(asked)
        read.append(source.read)
    assert read[0] == read[1] <= 2 * 10 + 50


@pytest.mark.parametrize(
    ("text", "several"),
    [
        ("What books has Tim read?", True),
        ("Where has Melanie camped?", True),
        ("How many times has Tim moved?", True),
        ("What sports does John like?", True),
        ("他去过哪些地方？", True),
        ("When did Melanie paint a sunrise?", False),
        ("What did Caroline say about the vase?", False),
        ("他昨天去了哪里？", False),
    ],
)
def test_a_question_for_several_moments_is_recognised(text: str, several: bool) -> None:
    query = question(text)
    assert asks_for_several(find_query_features(query, lexical_terms(query)), text) is several


def test_a_question_for_several_moments_gets_messages_of_several_moments() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    first = [said(f"a{n}", "Tim", "I read a book.", n, at=start) for n in range(3)]
    later = said("b", "Tim", "I read another book.", 40, at=start + timedelta(days=9))
    order = spread_moments([*first, later], scores := np.array([1.0, 0.99, 0.98, 0.95]))
    assert [name for _, name in sorted(zip(-order, ["a0", "a1", "a2", "b"], strict=True))][:2] == ["a0", "b"]
    untimed = [said(f"a{n}", "Tim", "I read a book.", n) for n in range(4)]
    assert (spread_moments(untimed, scores) == scores).all()


@pytest.mark.parametrize(
    ("message", "before", "meant"),
    [
        (("GM", "She left him the key."), [("GM", "Wren walked to the door.")], ("Wren",)),
        (("Ann", "Where does he live?"), [("Tim", "My brother moved.")], ("Tim's brother",)),
        (("Ann", "Does your mom know?"), [("Tim", "My brother moved.")], ("Tim's mother",)),
        (("Ann", "She is kind."), [("Tim", "My brother moved.")], ()),
        (("Tim", "They love it."), [("Tim", "I took the kids, I mean my kids, to the sea.")], ("Tim's children",)),
        (("旁白", "她把钥匙给了他。"), [("旁白", "白芷说今天不去。")], ("白芷",)),
        (("旁白", "他病了。"), [("旁白", "老霍来了。")], ("老霍", "霍")),
        (("小明", "我弟弟住在杭州。"), [], ("小明的弟弟",)),
        (("小红", "他喜欢什么？"), [("小明", "我弟弟住在杭州。")], ("小明的弟弟",)),
        (("小红", "她们走了。"), [("小明", "我弟弟住在杭州。")], ()),
        (("user", "He plays the cello."), [("user", "My brother Tom moved.")], ("user's brother", "Tom")),
        (("user", "She works."), [("user", "Mara is my cousin.")], ("user's cousin", "Mara")),
        (("user", "他在拉大提琴。"), [("user", "我弟弟叫小明，他住在成都。")], ("user的弟弟", "小明")),
        (("user", "她摔了一跤。"), [("user", "王芳是我表姐。")], ("user的表姐", "王芳")),
        (("user", "他走了。"), [("user", "我弟弟叫我回家。")], ("user的弟弟",)),
    ],
)
def test_a_message_means_persons_without_naming_them(
    message: Spoken, before: list[Spoken], meant: tuple[str, ...]
) -> None:
    assert find_persons(message, before) == meant


def test_those_who_talk_and_words_at_the_begin_of_a_sentence_are_not_meant_by_a_pronoun() -> None:
    assert find_persons(("Tim", "She is kind."), [("Ann", "Hey Tim! Everything is fine, Tim.")]) == ()
    assert find_persons(("Tim", "He is kind."), [("Ann", "Painting calms. On Monday, Maria sang.")]) == ("Maria",)


def story(count: int, *, chinese: bool = False) -> list[MemoryEntry]:
    """Return `count` messages about the weather, and two messages of which the second means a person of the first."""
    weather = "雨下得很大，路上没有人。" if chinese else "Rain fell on the road and nobody went out."
    named, meant = (
        ("老霍推开了门。", "他把银钥匙埋在井边。") if chinese else ("Then Wren opened the door.", "She buried a coin.")
    )
    return [
        *[said(f"w{place}", "GM", f"{weather} {place}", place) for place in range(count)],
        said("named", "GM", named, count),
        said("meant", "GM", meant, count + 1),
        *[said(f"v{place}", "GM", f"{weather} {place}", count + 2 + place) for place in range(count)],
    ]


@pytest.mark.parametrize(("text", "chinese"), [("What about Wren?", False), ("老霍怎么了？", True)])
async def test_a_message_that_means_a_person_by_a_pronoun_is_found_under_the_name(text: str, chinese: bool) -> None:
    found = await recall_ids(story(30, chinese=chinese), question(text, limit=10, depth=100))
    assert set(found[:2]) == {"named", "meant"}
    rows = row_batch(written([name_persons(each, ()) for each in story(3)]), None, None, "").rows
    assert not any(token.startswith("name=") for row in rows for token in row.tokens)


async def test_persons_whom_only_the_talk_names_are_the_same_in_an_index_that_grew() -> None:
    asked = question("Did she hide it?", recent=("Then Wren opened the door.",), limit=20, depth=100)
    for page in (1, 2, 3):
        assert await recall_ids(story(20), asked, page=page) == await recall_ids(story(20), asked)


async def test_what_is_said_of_a_relative_of_a_speaker_is_joined_over_time() -> None:
    talk = [
        *story(10),
        said("one", "Tim", "My brother moved.", 40),
        said("two", "Ann", "He sounds like a kind man.", 41),
        *[said(f"x{place}", "GM", f"Rain fell. {place}", 42 + place) for place in range(20)],
        said("three", "Tim", "My brother bakes bread.", 70),
    ]
    found = await recall_ids(talk, question("What about Tim's brother?", limit=10, depth=100))
    assert set(found[:3]) == {"one", "two", "three"}


HOPS = [
    ("Where does Wren's brother live?", "Wren's brother Tom sings.", "Tom has a house in Oslo, where he will live."),
    ("Where does Wren's brother live?", "Tom is Wren's brother.", "Tom has a house in Oslo, where he will live."),
    ("王明的弟弟住在哪里？", "王明的弟弟叫小刚。", "小刚住在杭州。"),
]


@pytest.mark.parametrize(("text", "first", "second"), HOPS)
async def test_a_question_by_a_relation_finds_what_is_said_under_the_name(text: str, first: str, second: str) -> None:
    others = [
        said(f"o{place}", "GM", f"Somebody will live by the sea. 有人住在海边。{place}", 20 + place)
        for place in range(20)
    ]
    talk = [said("first", "GM", first, 1), *others, said("second", "GM", second, 90)]
    found = await recall_ids(talk, question(text, limit=10, depth=100))
    assert set(found[:2]) == {"first", "second"}


async def test_a_name_by_a_relation_comes_only_from_what_the_viewer_may_know() -> None:
    talk = [
        said("first", "GM", "Wren's brother Tom sings.", 0),
        *story(5),
        said("second", "GM", "Tom left at noon.", 90),
    ]
    asked = question("Where does Wren's brother live?", limit=20, depth=100)
    assert "second" in await recall_ids(talk, asked)
    asked = replace(asked, may_know=lambda entry: entry.entry_id != "first")
    assert "second" not in await recall_ids(talk, asked)


async def test_a_question_whose_words_an_entry_has_is_not_followed() -> None:
    query = question("Where does Wren's brother live?")
    entries = [said("a", "GM", "Wren's brother Tom sings.", 1), said("b", "GM", "Wren's brother lives in Oslo.", 2)]
    assert (relation := find_relation(query.text)) is not None
    assert find_bridges(query, relation, entries) == ()
    assert find_bridges(query, relation, entries[:1]) == ("Tom",)
    assert find_relation("Where does Wren live?") is None
    assert find_relation("Where does my brother live?") is None
    assert find_relation("Where does my brother live?", "Wren") == relation
    own = said("c", "Wren", "My brother is called Tom.", 3)
    assert find_bridges(query, relation, [own]) == ("Tom",)
    other = replace(own, speaker="Ann", title="Ann", text="My brother, Wren, is called Ned. My brother Ned sings.")
    assert find_bridges(query, relation, [other]) == ()


class OneName:
    """Finds one name, as a model would."""

    name = "test-1"

    def find(self, text: str) -> tuple[str, ...]:
        """Return the name if the text has it."""
        return ("白芷",) if "白芷" in text else ()


async def test_a_finder_of_names_adds_persons_and_an_index_says_which_finder_it_had() -> None:
    talk = [said("a", "旁白", "昨天白芷去山上采药。", 1), said("b", "旁白", "她遇见了一只狐狸。", 2)]
    source, index = EntryList(), MemoryIndex()
    source.append([*talk, *[said(f"w{place}", "旁白", "雨下得很大。", 10 + place) for place in range(20)]])
    plain = HybridRetriever(source, index, None, CalibratedEstimator())
    await plain.sync(SESSION)
    assert not (await plain.rebuild(SESSION)).rebuilt
    named = HybridRetriever(source, index, None, CalibratedEstimator(), persons=OneName())
    assert (await named.rebuild(SESSION)).rebuilt
    assert not (await named.rebuild(SESSION)).rebuilt
    found = await named.recall(question("白芷怎么了？", limit=10, depth=100))
    assert {each.entry_id for each in found.candidates[:2]} == {"a", "b"}
    assert (await plain.rebuild(SESSION)).rebuilt

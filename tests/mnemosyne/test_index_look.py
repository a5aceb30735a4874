"""The second look: what the text of a fetched entry adds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recall_parts import entry, question, said

from mnemosyne import MemoryEntry
from mnemosyne.retrieval.recall.fusion import WEIGHTS
from mnemosyne.retrieval.recall.query_features import find_query_features, lexical_terms
from mnemosyne.retrieval.recall.rerank_features import add_rerank_features, score_runs
from mnemosyne.retrieval.text.lexical import K1, B, inverse_frequency


def looks(text: str, *entries: MemoryEntry, **more: object) -> list[float]:
    query = question(text, **more)
    return add_rerank_features(query, find_query_features(query, lexical_terms(query)), entries, WEIGHTS).tolist()


def test_who_is_asked_about_counts_where_he_speaks() -> None:
    mara, wen = said("1", "Mara", "By the mill.", 1), said("2", "Wen", "By the mill.", 1)
    first, second = looks("What did Mara say?", mara, wen)
    assert first == pytest.approx(second + WEIGHTS.speaker)


def test_a_turn_that_only_asks_counts_less_than_one_that_tells() -> None:
    asks, tells = said("1", "Wen", "Where is the lantern now?", 1), said("2", "Wen", "Here is the lantern now.", 1)
    first, second = looks("the lantern", asks, tells)
    assert first == pytest.approx(second + WEIGHTS.asking)
    zh = looks("灯笼", said("1", "文", "灯笼现在在哪里？", 1), said("2", "文", "灯笼现在在这里。", 1))
    assert zh[0] < zh[1]


def test_a_question_wants_the_longer_messages_of_a_conversation_in_short_ones() -> None:
    lines = ["Yes.", "The lantern hangs in the mill by the door.", "Is the lantern still in the mill?"]
    talk = [said(str(place), "Wen", line, 1) for place, line in enumerate(lines)]
    short, told, asks = looks("Where is the lantern?", *talk)
    plain_short, plain_told, plain_asks = looks("the lantern", *talk)
    assert told - short > plain_told - plain_short > 0.0
    assert told - asks > plain_told - plain_asks > 0.0
    assert short + told + asks == pytest.approx(plain_short + plain_told + plain_asks)
    long = [
        said(str(place), "Wen", f"{line} So it is. I know. You know. We know.", 1) for place, line in enumerate(lines)
    ]
    assert looks("Where is the lantern?", *long) == pytest.approx(looks("the lantern", *long))


@pytest.mark.parametrize(
    ("text", "told", "untold"),
    [
        ("When did we meet?", "We met last summer.", "We met her."),
        ("我们什么时候见的面？", "我们去年见过面。", "我们见过一面。"),
    ],
)
def test_a_time_counts_where_one_is_asked_for(text: str, told: str, untold: str) -> None:
    with_time, without = looks(text, entry("a", told), entry("b", untold))
    assert with_time > without
    again = looks("Whom did we meet?", entry("a", "We met last summer."), entry("b", "We met her."))
    assert again == [0.0, 0.0]


def test_words_that_follow_one_another_count_more_than_words_apart() -> None:
    together, apart = looks("the silver key", entry("a", "A Silver Key it was."), entry("b", "A key, all silver."))
    assert together == pytest.approx(WEIGHTS.pair / 3)
    assert apart == 0.0


def test_single_characters_tell_chinese_entries_apart() -> None:
    near, far = looks("谁把庙门的钥匙弄丢了", entry("a", "钥丢于庙"), entry("b", "河边有一座桥"))
    assert near > far == 0.0


def test_long_names_of_the_talk_count_when_the_query_leans_on_it() -> None:
    recent = ("我们刚才说到了恋恋笔记本这本书",)
    named, other = looks("作者呢", entry("a", "恋恋笔记本的写者"), entry("b", "笔记里本来写者"), recent=recent)
    assert named > other


@settings(max_examples=100)
@given(st.text(max_size=60), st.lists(st.text(max_size=60), max_size=4), st.lists(st.text(max_size=30), max_size=2))
def test_any_text_may_be_looked_at(text: str, texts: list[str], recent: list[str]) -> None:
    found = looks(text, *(said(str(place), "Ann", each, 1) for place, each in enumerate(texts)), recent=tuple(recent))
    assert len(found) == len(texts)
    assert all(-2.0 < each < 3.0 for each in found)


def counted_one_by_one(asked: dict[str, float], documents: list[str], size: int) -> list[float]:
    windows = [[run[at : at + size] for run in each.split() for at in range(len(run) - size + 1)] for each in documents]
    mean = max(sum(map(len, windows)) / len(windows), 1e-9)
    found = [0.0] * len(windows)
    for run, weight in asked.items():
        worth = weight * inverse_frequency(len(windows), sum(run in each for each in windows)) * (K1 + 1.0)
        for place, each in enumerate(windows):
            norm = K1 * (1.0 - B + B * len(each) / mean)
            found[place] += worth * each.count(run) / (each.count(run) + norm)
    return [each / max(found) for each in found] if max(found) > 0.0 else found


HAN = st.text("钥匙神庙𠀀", min_size=1, max_size=8)


@pytest.mark.parametrize("size", [1, 3])
@given(data=st.data())
def test_runs_of_characters_score_as_if_counted_one_by_one(size: int, data: st.DataObject) -> None:
    run = st.text("钥匙神庙𠀀", min_size=size, max_size=size)
    asked = data.draw(st.dictionaries(run, st.floats(0.1, 3.0), max_size=5))
    documents = data.draw(st.lists(st.lists(HAN, max_size=3).map(" ".join), min_size=1, max_size=5))
    assert score_runs(asked, documents, size).tolist() == pytest.approx(
        counted_one_by_one(asked, documents, size), abs=1e-6
    )

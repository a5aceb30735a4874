"""Which texts a query's vector is made of."""

import pytest

from mnemosyne import RetrievalQuery
from mnemosyne.retrieval.recall.query_features import (
    ASKED_TALK,
    RECENT_CHARS,
    SAID_TALK,
    is_self_contained,
    recent_text,
    vector_texts,
)

TALK = ("The ferry is late again.", "我们在渡口等着。")


def asked(text: str, *keywords: str) -> RetrievalQuery:
    return RetrievalQuery(text=text, world_id="w", keywords=keywords, recent=TALK)


@pytest.mark.parametrize(
    "query",
    [
        asked("When did Caroline go to the fair?"),
        asked("What did Caroline realize after her race?"),
        asked("铁匠为什么离开了村子？", "铁匠"),
        asked("who forged the iron key?", "iron key"),
    ],
)
def test_a_question_that_names_its_thing_stands_alone(query: RetrievalQuery) -> None:
    assert is_self_contained(query)
    assert vector_texts(query) == {query.text: 1.0}


@pytest.mark.parametrize(
    "query",
    [
        asked("What did he say about Caroline?"),
        asked("What is that book Caroline read?", "book"),
        asked("I walk on to the mill with Caroline."),
        asked("And what then?"),
        asked("他后来去了铁匠铺吗？", "铁匠铺"),
        asked("后来怎么样了？"),
        asked("who forged it?"),
    ],
)
def test_for_what_leans_on_the_talk_the_talk_is_embedded_too_by_itself(query: RetrievalQuery) -> None:
    weight = ASKED_TALK if query.text.endswith(("?", "？")) else SAID_TALK
    assert vector_texts(query) == {"\n".join(TALK): weight, query.text: 1.0}


def test_of_the_talk_the_newest_words_are_taken_and_no_empty_ones() -> None:
    assert recent_text(["a" * RECENT_CHARS, " ", " b "]) == "a" * (RECENT_CHARS - 2) + "\nb"
    assert recent_text([" ", ""]) == ""
    assert vector_texts(RetrievalQuery(text="go on", world_id="w", recent=(" ",))) == {"go on": 1.0}


def test_without_talk_there_is_one_text_and_without_words_none() -> None:
    assert vector_texts(RetrievalQuery(text=" So it goes. ", world_id="w")) == {"So it goes.": 1.0}
    assert vector_texts(RetrievalQuery(text=" ", world_id="w", recent=TALK)) == {}

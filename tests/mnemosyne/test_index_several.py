"""Inputs that ask several things."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne import Chain, MemoryEntry, RetrievalQuery
from mnemosyne.retrieval.recall.multi_query import split_query
from mnemosyne.retrieval.recall.recall_state import RankedEntries, merge_rankings


def asked(text: str, *keywords: str) -> tuple[str, ...]:
    query = RetrievalQuery(text=text, world_id="w", keywords=keywords, recent=("They walked on.",))
    parts = split_query(query)
    assert all(part.recent == query.recent for part in parts)
    assert all(set(part.keywords) <= set(keywords) for part in parts)
    return tuple(part.text for part in parts)


@pytest.mark.parametrize(
    ("text", "keywords", "parts"),
    [
        (
            "When did Mara leave the mill? What did old Tobin forge for Wen?",
            (),
            ("When did Mara leave the mill?", "What did old Tobin forge for Wen?"),
        ),
        (
            "铁匠去年打了什么？！渡口的钟是谁敲的？！！",
            ("铁匠", "渡口"),
            ("铁匠去年打了什么？", "渡口的钟是谁敲的？"),
        ),
        ("铁匠去年打了什么？渡口的钟是谁敲的？", ("铁匠", "渡口"), ("铁匠去年打了什么？", "渡口的钟是谁敲的？")),
        ("I sat by the fire. Who built the mill for Mara? Where did Wen hide the lamp?", (), None),
    ],
)
def test_whole_questions_are_asked_one_by_one(
    text: str, keywords: tuple[str, ...], parts: tuple[str, ...] | None
) -> None:
    found = asked(text, *keywords)
    assert found == (parts or ("I sat by the fire. Who built the mill for Mara?", "Where did Wen hide the lamp?"))


@pytest.mark.parametrize(
    "text",
    [
        "When did Mara leave the mill?",
        "When did Mara leave the mill? And what did she take along?",
        "Where is Mara? Where is Wen?" * 2,
        "what does iron do to them, and what about grasproot",
        "Really? Truly?",
        "What areas of the U.S. has John been to?",
        "Would Tim enjoy reading books by C. S. Lewis or J. R. Smith?",
        "Does Mr. Holt like e.g. Dr. Marsh of St. Ives?",
        "后来呢？他去哪里了？",
        "",
    ],
)
def test_what_is_one_question_stays_one(text: str) -> None:
    assert asked(text) == (text,)


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("When did Mara leave the mill? Tell me of old Tobin.", "When did Mara leave the mill?"),
        ("I sit down. What was the name of the miller's dog?", "What was the name of the miller's dog?"),
        ("先回灯塔，把药给梁伯。保险箱的密码是多少来着？", "保险箱的密码是多少来着？"),
    ],
)
def test_what_is_asked_beside_something_else_is_searched_for_by_itself_too(text: str, question: str) -> None:
    assert asked(text) == (text, question)


def test_questions_within_a_scene_of_several_speakers_are_not_searched_for_by_themselves() -> None:
    scene = (
        "Wen: The urn is cold. Mara: I lift the lid. Does it smell of pitch?\nTobin: It does. Wen: I run. We all run."
    )
    assert asked(scene) == (scene,)


names = st.sampled_from("abcdef")


def ranking(scores: dict[str, float]) -> RankedEntries:
    found = dict(sorted(scores.items(), key=lambda item: -item[1]))
    return RankedEntries(
        entries=[
            MemoryEntry(entry_id=name, scope="session:s", chain=Chain.HISTORY, kind="message", title="", text=name)
            for name in found
        ],
        scores=[*found.values()],
        fused=[*found.values()],
        recencies=[None] * len(found),
        near=[0.0] * len(found),
        persons=[0.0] * len(found),
        by_arm={},
    )


rankings = st.dictionaries(names, st.floats(0.0, 9.0), max_size=6).map(ranking)


@given(st.lists(rankings, min_size=2, max_size=3), st.integers(3, 8))
def test_the_best_of_each_question_is_kept(found: list[RankedEntries], limit: int) -> None:
    made = merge_rankings(found, limit)
    ids, scores = [each.entries[place].entry_id for _, each, place in made], [score for score, _, _ in made]
    assert len(ids) == len(set(ids)) <= limit
    assert all(0.0 <= score <= 1.0 for score in scores)
    assert scores == sorted(scores, reverse=True)
    for each in found:
        if each.scores and each.scores[0] > 0.0:
            pairs = zip(each.entries, each.scores, strict=True)
            tied = {entry.entry_id for entry, score in pairs if score == each.scores[0]}
            assert tied & set(ids) or scores.count(1.0) == limit

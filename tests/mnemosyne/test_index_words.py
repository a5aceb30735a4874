from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.retrieval.text.words import has_cjk, word_tokens


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The keys of the Temple", ["key", "templ"]),
        (
            "那把钥匙是不是开启神庙的?",
            ["那把", "把钥", "钥匙", "匙是", "是不", "不是", "是开", "开启", "启神", "神庙", "庙的"],
        ),
        ("Mara去了神庙,2018年", ["mara", "去了", "了神", "神庙", "2018", "年"]),
        ("ＡＢＣ １２", ["abc", "12"]),
        ("don’t isn't Mara's", ["mara"]),
        ("naïve café", ["naïv", "café"]),
        ("", []),
        ("?!… \n\t", []),
        ("锁", ["锁"]),
    ],
)
def test_tokens_of_both_languages(text: str, found: list[str]) -> None:
    assert word_tokens(text) == found


def test_one_word_in_many_forms_is_one_token() -> None:
    assert word_tokens("guard guards guarding guarded") == ["guard"] * 4


@given(st.text())
def test_tokens_hold_no_white_space_and_are_never_empty(text: str) -> None:
    assert all(token and not any(character.isspace() for character in token) for token in word_tokens(text))


@given(st.text())
def test_case_does_not_matter(text: str) -> None:
    assert word_tokens(text.lower()) == word_tokens(text.lower().lower())


def test_threads_do_not_mix_their_words() -> None:
    words = [f"running{number} bakeries{number} guarding{number}" for number in range(400)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(word_tokens, words)) == [word_tokens(word) for word in words]


def test_has_cjk() -> None:
    assert has_cjk("Mara 去")
    assert has_cjk("한국")
    assert not has_cjk("Mara, naïve Привет")

"""The two trees of the guide have the same pages, and no Chinese page is older than its English twin by more than a release."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from docs.translation import DOCS, digest_page, list_pages, read_front_matter

LINK_TO_ENGLISH = re.compile(r"\]\(((?:\.\./)+en/)([^)#\s]+)")


def test_both_trees_have_the_same_pages() -> None:
    assert list_pages("en") == list_pages("zh"), "a new page comes in both languages"


GENERATED = ("settings.md", "operations.md", "erasure_places.md")
"""Pages that the code writes in both languages (test_generated_pages.py)."""


@pytest.mark.parametrize("name", sorted(list_pages("zh")))
def test_a_chinese_page_is_as_new_as_its_english_twin(name: str) -> None:
    version = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    told = read_front_matter(DOCS / "zh" / name)
    if told.get("english") == "generated":
        assert name in GENERATED, f"docs/zh/{name} is written by hand: run `python docs/translation.py {name}`"
    elif told.get("english") == digest_page(DOCS / "en" / name):
        assert "behind" not in told, f"docs/zh/{name} is current; strike `behind`"
    else:
        assert told.get("behind") == version, (
            f"docs/en/{name} has other headings or code blocks than docs/zh/{name} was written for: bring docs/zh/{name} up to "
            f"date and run `python docs/translation.py {name}`, or add `behind: {version}` to its front matter (one release)"
        )


@pytest.mark.parametrize("name", sorted(list_pages("zh")))
def test_a_chinese_page_links_chinese_pages_if_there_are_any(name: str) -> None:
    text = (DOCS / "zh" / name).read_text(encoding="utf-8")
    assert [page for _, page in LINK_TO_ENGLISH.findall(text) if (DOCS / "zh" / page).is_file()] == []


@pytest.mark.parametrize("name", sorted(list_pages("en")))
def test_an_english_page_links_no_chinese_page(name: str) -> None:
    assert "../zh/" not in (DOCS / "en" / name).read_text(encoding="utf-8")


ROOT = DOCS.parent
HAN = "[\u3400-\u9fff]"
WIDE = "[\u3000-\u303f\u3400-\u9fff\uff00-\uffef]"
CODE = re.compile(r"^ *```.*?^ *```[^\n]*$|^    [^-*\n][^\n]*$", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`[^`\n]+`|(?<=\])\([^)\n]*\)|https?://[^\s，。；：）」]+|<[^>\n]*>|!(?=\[)")
ANOTHER_BLOCK = r"(?:[-*+] |\d+\. |[|#>\s]|!\[)"
STYLES = {
    "half-width punctuation in a Chinese sentence": re.compile(
        rf"{HAN}[*_]*[,;:?!(]|[,;:?!)][*_]*{WIDE}|{WIDE}[*_]*[,;]"
    ),
    "a half-width full stop": re.compile(rf"{HAN}\.(?=\s|$)", re.MULTILINE),
    "quotation marks other than 「」": re.compile(rf"[“”]|{HAN}\"|\"{HAN}"),
    "a space next to full-width punctuation": re.compile(
        r"[，。；：？！、（「」）] +[^|\s→-]|[^|\s→.*-] +[，。；：？！、）」]"
    ),
    "a line that breaks in a sentence: browsers show a space": re.compile(
        rf"^(?!\|| *#).*{WIDE}\n(?!{ANOTHER_BLOCK})(?={WIDE}|\[)", re.MULTILINE
    ),
    "no space between Chinese and a Latin word, number or code": re.compile(
        rf"{HAN}[A-Za-z0-9\ue000]|[A-Za-z0-9%\ue000]{HAN}"
    ),
}
CHINESE_PAGES = [*sorted((DOCS / "zh").rglob("*.md")), ROOT / "README.zh-CN.md"]


@pytest.mark.parametrize("page", CHINESE_PAGES, ids=lambda page: page.name)
def test_chinese_pages_have_one_punctuation(page: Path) -> None:
    assert find_slips(page.read_text(encoding="utf-8")) == []


def find_slips(text: str) -> list[str]:
    """Return the places outside of code at which a Chinese page leaves the one style of punctuation."""
    prose = SPAN.sub(lambda span: "\ue000" if span[0].startswith("`") else "", CODE.sub("\n", text))
    return [
        f"{form}: {prose[max(0, slip.start() - 12) : slip.end() + 12]!r}"
        for form, pattern in STYLES.items()
        for slip in pattern.finditer(prose)
    ]


def test_slips_of_punctuation_are_found() -> None:
    slips = ["存储,索引", "`a`,再看", "名字(英文)", "完成.", "“引号”", "一半\n另一半", "用`a`", "用 a ，b"]
    assert [slip for slip in slips if not find_slips(slip)] == []
    assert (
        find_slips("见 [存储](stores.md)：`a`、`b`（约 1,000 个）。\n\n- 「那把钥匙」在哪里？\n- 12:30，a, b 和 c。")
        == []
    )


ONE_WORD = {
    "你": "您",
    "收据": "回执",
    "视角": "观察者",
    "擦除": "彻底删除|抹除",
    "换一个回复": "换一条回复|换一个回答|重掷",
    "待定记忆": "待定提议",
    "原文库": "保险库",
    "智能体框架": "代理框架",
    "标注集": "评测集",
    "哈希": "散列",
    "源码目录": "代码目录",
    "用户事实": "用户信息",
    "词元": r"[\u3400-\u9fff] ?tokens?(?!\w)",
}
"""The Chinese word of the glossary, and words that were used for the same thing."""
CHINESE_TEXTS = [*ROOT.glob("jacquard/studio/texts/*.toml"), *ROOT.glob("jacquard/core/sentences/*.toml")]


def test_pages_studio_and_sentences_use_one_word_for_one_thing() -> None:
    texts = {page.name: SPAN.sub("", CODE.sub("", page.read_text(encoding="utf-8"))) for page in CHINESE_PAGES}
    del texts["glossary.md"]  # names the English words
    texts |= {
        file.name: "\n".join(re.findall(r'zh = "(.*)"', file.read_text(encoding="utf-8"))) for file in CHINESE_TEXTS
    }
    found = [
        f"{name}: {slip[0]} is {word} elsewhere"
        for name, text in texts.items()
        for word, others in ONE_WORD.items()
        for slip in re.finditer(others, re.sub(r"\{[^}]*\}", "", text))
    ]
    assert found == []


def test_both_glossaries_have_the_same_words() -> None:
    rows = {
        language: re.findall(
            r"^\| (.*?) \| (.*?) \| .* \|$", (DOCS / language / "glossary.md").read_text("utf-8"), re.MULTILINE
        )
        for language in ("en", "zh")
    }
    words = {language: [row for row in rows[language] if row[0] not in ("English", "中文")] for language in rows}
    assert [row[::-1] for row in words["zh"]] == words["en"]

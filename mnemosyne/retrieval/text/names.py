"""Finds the names of what an entry is about, and the phrases of a text that may be such names. Uses rules, no model.

Names are compared in a normal form: NFKC, lower case, `_` between words, nothing next to a Chinese character, and no dot
within a Chinese spelling of a foreign name. This module must not import an engine or an embedder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from mnemosyne.core.lazy_patterns import lazy_pattern
from mnemosyne.core.normal_forms import normal_form
from mnemosyne.retrieval.text.words import STOP_WORDS

MOST_UNITS = 10
"""Maximum length of a name, in Chinese characters and words of other languages together."""
_MOST_WORDS = 4
_FIRST_CHINESE, _LAST_CHINESE = "\u3400", "\u9fff"
_MOST_CHARS = 80
_LEAST_LETTERS = 3
_TOKEN = lazy_pattern(r"([\u3400-\u9fff]|(?:(?![\u3400-\u9fff])[^\W_])+(?:'(?!s\b)[a-z]+)?)(?:'s\b)?")
_BRACKET = lazy_pattern(r"[（(【\[].*")
_LEAD = lazy_pattern(
    r"\s{0,4}([^：:，,。.!！?？;；\n（(]{1,24})(?:[（(][^）)\n]{0,40}[）)])?\s?(?:[：:]|[，,][^：:，,。\n]{1,20}[：:])"
)
"""Begin of a text such as `Name: …`, `故宫（北京）：…` or `故宫，地址：…`."""
_BEFORE = lazy_pattern(r"^\s*(?:the|an?|mr\.?|mrs\.?|ms\.?|dr\.?|st\.?)\s", re.IGNORECASE)
"""An article or a short title before a name."""
_JOINTS = frozenset(("", " ", "-", "·", "・", "•", "‧"))
"""Characters between two parts of a name."""
_TITLE_WORDS = """mr mrs ms miss dr sir lady lord master mistress captain king queen prince princess professor saint father
    mother brother sister uncle aunt old young"""
_TITLES = frozenset(_TITLE_WORDS.split())
"""Words before a name that are not a name by themselves."""
_HONORIFIC_WORDS = (
    "先生 小姐 姑娘 大夫 医生 掌柜 老板 师傅 师父 大人 夫人 公子 将军 老师 婆婆 大娘 大叔 大爷 队长 船长 教授"
)
_HONORIFICS = frozenset(_HONORIFIC_WORDS.split())
_FAMILIAR = frozenset("老小阿")

NAME_FACET = "name="
"""Begin of the term under which every entry about a name is indexed. No word of a text can be equal to such a term."""


Phrase = tuple[int, int, str]
"""A part of a text that may be a name: begin and end, counted in Chinese characters and other words of the text, and the name."""
_Unit = tuple[str, bool]
"""A Chinese character or another word, and whether it is a Chinese character."""


@lru_cache(maxsize=1 << 14)
def subject_names(title: str, keys: tuple[str, ...], text: str, *, is_person: bool = False) -> tuple[str, ...]:
    """Return the names of the subject of an entry in normal form, each once.

    These are its title, its keys, and if it has no title the name with which its text begins (`Name: …`). An addition in brackets
    is not part of a name. The parts of a name count, too: each word of an English name except titles (`Mr. Darcy`), and each
    part of a foreign name in Chinese. Of a person with a Chinese name, the surname counts (for `白大夫`, `老白`).
    """
    lead = None if title else _LEAD.match(text)
    found: dict[str, None] = {}
    for each in (title or (lead[1] if lead else ""), *keys):
        plain = _BEFORE.sub("", _BRACKET.sub("", normal_form("NFKC", each[:_MOST_CHARS])))
        runs = _read_runs(plain)
        name = _join_name(runs[0]) if len(runs) == 1 else ""
        if not name:
            continue
        found[name] = None
        found.update(dict.fromkeys(_find_parts(plain)))
        if is_person and len(found) == 1 and 2 <= len(name) <= 3 and runs[0][0][1]:
            found[name[0]] = None
    return tuple(found)


@lru_cache(maxsize=1 << 10)
def find_phrases(text: str) -> tuple[Phrase, ...]:
    """Return the phrases of a text that may be names, by their begins, and for each begin the longest phrase first.

    The result is cached, because the messages before an input are read turn after turn.
    """
    found: list[Phrase] = []
    first = 0
    for run in _read_runs(normal_form("NFKC", text)):
        size = len(run)
        if False not in [chinese for _, chinese in run]:
            line = "".join([word for word, _ in run])
            for begin in range(size):
                for end in range(min(begin + MOST_UNITS, size), begin + 1, -1):
                    found.append((first + begin, first + end, line[begin:end]))
        else:
            for begin in range(size):
                found += _phrases_from(run, begin, first)
        first += size
    shortened = [
        (begin, end, name[0] if name[1:] in _HONORIFICS else name[1])
        for begin, end, name in found
        if name[1:] in _HONORIFICS or (len(name) == 2 and name[0] in _FAMILIAR)
    ]
    return tuple(sorted([*found, *shortened], key=_order_phrase) if shortened else found)


def _order_phrase(phrase: Phrase) -> tuple[int, int]:
    return phrase[0], -phrase[1]


def _phrases_from(run: Sequence[_Unit], begin: int, first: int) -> list[Phrase]:
    if run[begin][0] in STOP_WORDS:
        return []
    phrases: list[Phrase] = []
    name, words, was_chinese = "", 0, True
    for place, (word, chinese) in enumerate(run[begin : begin + MOST_UNITS], begin):
        words += not chinese
        if words > _MOST_WORDS:
            break
        name += word if chinese or was_chinese else f"_{word}"
        was_chinese = chinese
        if word not in STOP_WORDS and len(name) >= (2 if run[begin][1] else _LEAST_LETTERS):
            phrases.append((first + begin, first + place + 1, name))
    return phrases[::-1]


def _read_runs(plain: str) -> list[list[_Unit]]:
    """Return the Chinese characters and words of a text in normal form NFKC, one list for each run without punctuation."""
    runs: list[list[_Unit]] = []
    last, text = -1, plain.lower().replace("\u2019", "'")
    for match in _TOKEN.finditer(text):
        if last < 0 or text[last : match.start()] not in _JOINTS:
            runs.append([])
        word = match[1]
        runs[-1].append((word, _FIRST_CHINESE <= word[0] <= _LAST_CHINESE))
        last = match.end()
    return runs


def _join_name(run: Sequence[_Unit]) -> str:
    """Return the normal form of a whole run, or '' if it is too long or too short for a name."""
    if not run or len(run) > MOST_UNITS or run[0][0] in STOP_WORDS or run[-1][0] in STOP_WORDS:
        return ""
    name, was_chinese = "", True
    for word, chinese in run:
        name += word if chinese or was_chinese else f"_{word}"
        was_chinese = chinese
    return name if len(name) >= (2 if run[0][1] else _LEAST_LETTERS) else ""


def _find_parts(plain: str) -> Iterator[str]:
    """Yield the parts of a name of several words."""
    parts = plain.replace("・", "·").split("·") if "·" in plain or "・" in plain else plain.split()
    if len(parts) < 2 or not all(part[0].isupper() or part[0] >= _FIRST_CHINESE for part in parts if part):
        return
    for part in parts:
        run = [unit for each in _read_runs(part) for unit in each]
        if run and run[0][0] not in _TITLES and (name := _join_name(run)):
            yield name

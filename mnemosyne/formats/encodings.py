"""Guesses the encoding of a text that is not UTF-8, for a hint in the error message.

A wrong hint is worse than no hint, because a user who follows it saves garbled text. So each encoding has its own test: a
property that texts in its language have, and that bytes of another encoding seldom have when they are decoded with it.
"""

from __future__ import annotations

import codecs
import itertools
import re
from collections.abc import Callable, Sequence

_MOST_BYTES = 8_000
_LIKELY = 0.85
_LEAST_KANA = 0.15
_KOREAN = "이다는을를에의가고은도로하지"
"""Syllables that hardly any Korean sentence lacks. Chinese bytes that read as Korean ones seldom give them."""
_WORD = re.compile(r"[^\W\d_]+")
_CYRILLIC_WORD = re.compile(r"[Ѐ-ӿ][а-яёіїєґ]*")
_FREQUENT_CYRILLIC = frozenset("оеаинтсрвлОЕАИНТСРВЛ")
_LEAST_CYRILLIC, _LEAST_FREQUENT = 12, 0.5
_WESTERN = frozenset("àâäáãåæçéèêëíìîïñóòôöõøœúùûüýÿßÀÂÄÁÃÅÆÇÉÈÊËÍÌÎÏÑÓÒÔÖÕØŒÚÙÛÜ‘’“”«»‹›„…–—·¿¡°§©®€£ªº\xa0")


def encoding_hint(data: bytes) -> str:
    """Return ` (it looks like ENCODING)` for bytes that are not UTF-8. The result is empty if no encoding is likely."""
    head = data[:_MOST_BYTES]
    if b"\0" in head:
        evens, odds = head[::2].count(0), head[1::2].count(0)
        return f" (it looks like UTF-16-{'LE' if odds > evens else 'BE'})"
    scores = {name: _score(head, codec, score, len(head) < len(data)) for name, codec, score in _ENCODINGS}
    name = max(scores, key=lambda each: scores[each])
    if scores[name] < _LIKELY:
        return ""
    return f" (it looks like {name})" if name != "CP1252" else " (it may be CP1252 or another Western code page)"


def _score(data: bytes, codec: str, score: Callable[[Sequence[str], str], float], is_cut: bool) -> float:
    """Return a number from 0 to 1: how usual the text is in an encoding. It is 0 if the encoding does not allow the bytes."""
    try:
        text = codecs.getincrementaldecoder(codec)().decode(data, final=not is_cut)
    except UnicodeDecodeError:
        return 0
    letters = [char for char in text if not char.isascii() and (char.isalpha() or char >= "\ue000")]
    return score(letters, text) if letters else 0


def _share(letters: Sequence[str], is_usual: Callable[[str], bool]) -> float:
    return sum(map(is_usual, letters)) / len(letters)


def _first_byte(char: str, codec: str) -> int:
    try:
        encoded = char.encode(codec)
    except UnicodeEncodeError:
        return 0
    return encoded[0] if len(encoded) == 2 else 0


def _simplified(letters: Sequence[str], text: str) -> float:
    # Rows 0xB0 to 0xD7 of GB 2312 have the 3,755 common characters.
    return _share(letters, lambda char: 0xB0 <= _first_byte(char, "gb2312") <= 0xD7)


def _traditional(letters: Sequence[str], text: str) -> float:
    # Rows 0xA4 to 0xC6 of Big5 have the 5,401 common characters.
    return _share(letters, lambda char: 0xA4 <= _first_byte(char, "big5") <= 0xC6)


def _japanese(letters: Sequence[str], text: str) -> float:
    if _share(letters, _is_kana) < _LEAST_KANA:
        return 0
    return _share(letters, lambda char: _is_kana(char) or "\u4e00" <= char <= "\u9fff")


def _is_kana(char: str) -> bool:
    return "\u3041" <= char <= "\u30fe"


def _korean(letters: Sequence[str], text: str) -> float:
    share = _share(letters, lambda char: _first_byte(char, "euc_kr") in range(0xB0, 0xC9))
    # The same bytes are common Chinese characters too: one of these syllables decides for Korean.
    return share + 0.01 if any(char in _KOREAN for char in letters) else 0


def _russian(letters: Sequence[str], text: str) -> float:
    # Greek, Hebrew and Thai bytes read as Cyrillic letters too, but seldom as these ten, which are two thirds of Russian texts.
    words = [word for word in _WORD.findall(text) if not word.isascii()]
    if len(letters) < _LEAST_CYRILLIC or _share(letters, _FREQUENT_CYRILLIC.__contains__) < _LEAST_FREQUENT:
        return 0
    return sum(bool(_CYRILLIC_WORD.fullmatch(word)) for word in words) / len(words)


def _western(letters: Sequence[str], text: str) -> float:
    beyond = [char for char in text if not char.isascii()]
    in_runs = sum(not one.isascii() and not other.isascii() for one, other in itertools.pairwise(text))
    return _share(beyond, _WESTERN.__contains__) if in_runs <= len(beyond) // 3 else 0


_ENCODINGS: tuple[tuple[str, str, Callable[[Sequence[str], str], float]], ...] = (
    ("GB18030", "gb18030", _simplified),
    ("Big5", "big5", _traditional),
    ("Shift-JIS", "cp932", _japanese),
    ("EUC-JP", "euc_jp", _japanese),
    ("EUC-KR", "cp949", _korean),
    ("CP1251", "cp1251", _russian),
    ("CP1252", "cp1252", _western),
)

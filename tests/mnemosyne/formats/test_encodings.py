"""Hints at the encoding of a text that is not UTF-8: right, or none."""

from __future__ import annotations

import pytest

from mnemosyne.formats.encodings import encoding_hint

TEXTS = [
    ("守夜人在等你。", "gbk", "GB18030"),
    ("灯塔", "gbk", "GB18030"),
    ("港口的灯塔看守人每天夜里都数船。", "gb18030", "GB18030"),
    ("港口的燈塔看守人每天夜裡都數船。", "big5", "Big5"),
    ("鍵は時計の裏にある。", "cp932", "Shift-JIS"),
    ("鍵は時計の裏にある。", "euc_jp", "EUC-JP"),
    ("보트 열쇠는 시계 뒤에 있다.", "cp949", "EUC-KR"),
    ("Сторож маяка считает корабли каждую ночь.", "cp1251", "CP1251"),
    ("La clé est derrière l’horloge.", "cp1252", "CP1252"),
    ("守夜人在等你。", "utf-16-le", "UTF-16-LE"),
    ("守夜人在等你。", "utf-16-be", "UTF-16-BE"),
]
UNCLEAR = [
    ("Klucz wisi za zegarem, żółty łódź", "cp1250"),
    ("Příliš žluťoučký kůň", "cp1250"),
    ("ο φύλακας του φάρου μετράει τα πλοία", "cp1253"),
    ("שומר המגדלור סופר את הספינות בכל לילה", "cp1255"),
    ("حارس المنارة يعد السفن كل ليلة", "cp1256"),
    ("ผู้ดูแลประภาคารนับเรือทุกคืน", "cp874"),
    ("ключ за часами", "cp866"),
]


@pytest.mark.parametrize(("text", "codec", "name"), TEXTS)
@pytest.mark.parametrize("copies", [1, 3000])
def test_a_likely_encoding_is_named(text: str, codec: str, name: str, copies: int) -> None:
    assert name in encoding_hint(f'{{"content": "{text * copies}"}}'.encode(codec))


@pytest.mark.parametrize(("text", "codec"), UNCLEAR)
def test_an_encoding_that_cannot_be_told_gets_no_hint(text: str, codec: str) -> None:
    assert encoding_hint(f'{{"content": "{text}"}}'.encode(codec)) == ""

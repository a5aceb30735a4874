"""Finds the persons that a message means without naming them: by a pronoun, or as relatives of its speaker.

Uses rules for English and Chinese, no model and no list of known persons. The names of a message depend only on the message and on
the messages directly before it, so that an index that grew is equal to one that was rebuilt.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple, Protocol

from mnemosyne.core.lazy_patterns import lazy_pattern
from mnemosyne.retrieval.text.words import STOP_WORDS, has_cjk

Spoken = tuple[str, str]
"""Speaker ('' if unknown) and text of a message."""

_MOST_CHARS = 2_000
_MOST_NAMES = 12
_SHE, _HE, _THEY = "she", "he", "they"
_MY, _YOUR = "my", "your"
_SAME_KIN = (
    (_SHE, "mother", "mom", "mum", "mama"),
    (_HE, "father", "dad", "papa"),
    (_SHE, "sister"),
    (_HE, "brother"),
    (_HE, "son"),
    (_SHE, "daughter"),
    (_HE, "husband"),
    (_SHE, "wife"),
    (_SHE, "grandmother", "grandma", "granny"),
    (_HE, "grandfather", "grandpa"),
    (_SHE, "aunt", "auntie"),
    (_HE, "uncle"),
    (_SHE, "niece"),
    (_HE, "nephew"),
    (_HE, "boyfriend"),
    (_SHE, "girlfriend"),
    (_THEY, "parents"),
    (_THEY, "children", "kids"),
    ("", "cousin"),
    ("", "partner"),
    ("", "boss"),
    ("", "teacher", "mentor"),
    ("", "master"),
    ("", "apprentice"),
    ("", "neighbour", "neighbor"),
    (_SHE, "妈妈", "母亲", "妈", "娘"),
    (_HE, "爸爸", "父亲", "爸", "爹"),
    (_SHE, "姐姐"),
    (_SHE, "妹妹"),
    (_HE, "哥哥"),
    (_HE, "弟弟"),
    (_HE, "儿子"),
    (_SHE, "女儿"),
    (_HE, "丈夫", "老公"),
    (_SHE, "妻子", "老婆"),
    (_SHE, "奶奶"),
    (_SHE, "外婆", "姥姥"),
    (_HE, "爷爷"),
    (_HE, "外公", "姥爷"),
    (_HE, "叔叔"),
    (_SHE, "阿姨"),
    (_SHE, "女朋友"),
    (_HE, "男朋友"),
    ("", "师父"),
    ("", "徒弟"),
    ("", "老板"),
    ("", "邻居"),
    (_SHE, "表姐"),
    (_SHE, "表妹"),
    (_HE, "表哥"),
    (_HE, "表弟"),
    (_SHE, "堂姐"),
    (_SHE, "堂妹"),
    (_HE, "堂哥"),
    (_HE, "堂弟"),
    ("", "同桌"),
    (_THEY, "父母"),
    (_THEY, "孩子"),
)
_KIN = {word: (kind, words) for kind, *words in _SAME_KIN for word in words}
_ENGLISH_KIN = "|".join(word for word in _KIN if word.isascii())
_CHINESE_KIN = "|".join(sorted((word for word in _KIN if not word.isascii()), key=len, reverse=True))
_SURNAMES = (
    "王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗梁宋郑谢韩唐冯董萧程曹袁邓许傅沈曾彭吕苏卢蒋蔡贾丁魏薛叶阎余潘杜戴夏"
    "钟汪田任姜范石姚谭廖邹熊陆郝孔崔康毛邱秦史顾侯邵孟龙万段雷钱汤尹黎易武乔贺赖龚霍苗柳白"
)
_HONORIFICS = "先生|小姐|姑娘|大夫|医生|掌柜|老板|师傅|师父|大人|夫人|公子|将军|老师|婆婆|大娘|大叔|大爷|队长|船长|教授"
_NO_NAME_WORDS = """monday tuesday wednesday thursday friday saturday sunday january february march april may june july august
    september october november december mr mrs ms miss dr sir lady lord king queen god hey hi hello yeah yes okay thanks thank
    wow congrats christmas english french chinese american spanish german internet please well also maybe sure"""
_NO_NAMES = frozenset(_NO_NAME_WORDS.split())
_ENGLISH = lazy_pattern(
    r"(?P<my>\b(?:(?P<who>[A-Z][a-z]{2,})\s(?:is|was)\s)?(?i:my)\s(?:[a-z]+\s)?(?P<kin_my>"
    + _ENGLISH_KIN
    + r")\b(?:(?:,\s|\s)(?:(?:is|was)\s)?(?:(?:called|named)\s)?(?P<called>[A-Z][a-z]{2,})\b)?)"
    r"|\b(?P<of>[A-Z][a-z]+)['\u2019]s\s(?:[a-z]+\s)?(?P<kin_of>" + _ENGLISH_KIN + r")\b"
    r"|(?P<your>\b(?i:your)\s(?:[a-z]+\s)?(?P<kin_your>" + _ENGLISH_KIN + r")\b)"
    r"|(?P<she>\b(?i:she|her|hers|herself)\b)|(?P<he>\b(?i:he|him|his|himself)\b)|(?P<they>\b(?i:they|them|their)\b)"
    r"|(?P<place>\b(?:in|at|the|a|an|from|(?:trip|went|go|going|gone|been|move|moved|moving|back|come|came|way)\sto)\s(?=[A-Z]))?(?P<name>\b[A-Z][a-z]{2,}(?:\s[A-Z][a-z]{2,}){0,2})\b"
)
_CHINESE = lazy_pattern(
    r"(?P<my>(?:(?<![\u4e00-\u9fff])(?P<who>[\u4e00-\u9fff]{2,3})是)?我(?:的|家)?(?P<kin_my>"
    + _CHINESE_KIN
    + r")(?:(?:名叫|叫做?)(?P<called>(?![我你您他她])[\u4e00-\u9fff]{1,4}?)(?=[，。！？；、,.!?\s]|$))?)"
    r"|(?P<your>[你您](?:的|家)?(?P<kin_your>" + _CHINESE_KIN + r"))"
    r"|(?P<they>[他她]们)|(?P<she>她)|(?P<he>(?<![其吉])他)"
    r"|(?P<title>["
    + _SURNAMES
    + r"](?:"
    + _HONORIFICS
    + r"))|(?P<familiar>(?<![\u4e00-\u9fff])[老小阿]["
    + _SURNAMES
    + r"])"
    r"|(?<![\u4e00-\u9fff])(?P<name>["
    + _SURNAMES
    + r"][\u4e00-\u9fff]{1,2}?)(?=说|道[：，]|问|笑|答|喊|把|给|去|来|是|在|住|点|摇|走|也|的)"
)
_STARTS = lazy_pattern(r"(?:^|[.!?:;\n\u201c\"(*]\s*)$")
_VERB = lazy_pattern(
    r"(?:['\u2019]s)?\s(?:is|was|has|had|[a-z]{2,}(?:ed|es|s)|went|came|left|gave|told|took|got|and\s[A-Z])\b"
)


class PersonFinder(Hashable, Protocol):
    """Finds names of persons in Chinese texts, next to the rules."""

    @property
    def name(self) -> str:
        """Name and version. Every indexed message of which the names were found with it says so."""
        ...

    def find(self, text: str) -> Sequence[str]:
        """Return the names of persons in a text, in order. The same text must always have the same names."""
        ...


class _Person(NamedTuple):
    names: tuple[str, ...]
    kind: str


class _Mark(NamedTuple):
    """A place of a text that names or means a person: the person, or the kind of the pronoun, or the words of a relative."""

    place: int
    person: _Person | None = None
    pronoun: str = ""
    whose: str = ""
    kin: str = ""
    called: str = ""


def find_persons(message: Spoken, before: Sequence[Spoken] = (), finder: PersonFinder | None = None) -> tuple[str, ...]:
    """Return the names of the persons that a message means without naming them, each once.

    A pronoun of the third person means the last person of a fitting kind in the message, else in the messages `before` it (the
    newest is last). `my brother` means the brother of the speaker, `your brother` that of the speaker before. Persons who take
    part in the talk are not meant by a pronoun. A relative with a name (`my brother Tom`, `王芳是我表姐`) is one person with two
    names. `finder` finds more names in Chinese texts.
    """
    seen: list[_Person] = []
    start, other, speaker = 0, "", ""
    speakers = [each for each, _ in (*before, message) if each]
    present = frozenset([part.lower() for each in speakers for part in (each, *each.split())])
    for said_by, text in (*before, message):
        other = speaker if speaker and said_by != speaker else other
        speaker, start = said_by, len(seen)
        for mark in _read_marks(text[:_MOST_CHARS], finder):
            person = mark.person
            if mark.pronoun:
                person = _last_of_kind(seen, mark.pronoun)
            elif mark.kin:
                person = _relative_of({_MY: speaker, _YOUR: other}.get(mark.whose, mark.whose), mark)
            if person is not None and not any(each.startswith(person.names[0].lower()) for each in present):
                seen.append(person)
    named = dict.fromkeys([name for each in seen[start:] for name in each.names])
    return tuple([name for name in named if name not in message[1]])[:_MOST_NAMES]


def find_named(text: str) -> tuple[str, ...]:
    """Return the parts of a text that may name persons, or relatives by their relation, in order."""
    return tuple([match[0] for match in _NAMED.finditer(text[:_MOST_CHARS])])


@lru_cache(maxsize=1 << 10)
def _read_marks(text: str, finder: PersonFinder | None) -> tuple[_Mark, ...]:
    """Return the places of a text that name or mean persons, in order. A text is read up to three times, with the messages
    after it, so the result is cached.
    """
    marks: list[_Mark] = []
    for match in _ENGLISH.finditer(text):
        group = "of" if match["of"] else match.lastgroup or ""
        if group in (_SHE, _HE, _THEY):
            marks.append(_Mark(match.start(), pronoun=group))
        elif group in (_MY, _YOUR, "of"):
            whose = match["of"] if group == "of" else group
            kin = match[f"kin_{group}"].lower()
            marks.append(_Mark(match.start(), whose=whose, kin=kin, called=match["called"] or match["who"] or ""))
        elif not match["place"] and (name := _read_name(match, text)):
            marks.append(_Mark(match.start(), person=_Person((name,), "")))
    if not has_cjk(text):
        return tuple(marks)
    for match in _CHINESE.finditer(text):
        group = match.lastgroup or ""
        if group in (_SHE, _HE, _THEY):
            marks.append(_Mark(match.start(), pronoun=group))
        elif group in (_MY, _YOUR):
            kin = match[f"kin_{group}"]
            marks.append(_Mark(match.start(), whose=group, kin=kin, called=match["called"] or match["who"] or ""))
        else:
            surname = {"title": match[0][0], "familiar": match[0][-1]}.get(group)
            marks.append(_Mark(match.start(), person=_Person((match[0], surname) if surname else (match[0],), "")))
    for name in () if finder is None else finder.find(text):
        marks.append(_Mark(max(text.find(name), 0), person=_Person((name,), "")))
    return tuple(sorted(marks, key=itemgetter(0)))


def _last_of_kind(persons: Sequence[_Person], kind: str) -> _Person | None:
    """Return the person that was named last and may be meant by a pronoun; a name fits each pronoun of one person."""
    return next((each for each in reversed(persons) if each.kind == kind or (not each.kind and kind != _THEY)), None)


def _relative_of(person: str, mark: _Mark) -> _Person | None:
    if not person:
        return None
    names = (_name_relative(person, mark.kin), mark.called)
    return _Person(names if mark.called else names[:1], _KIN[mark.kin][0])


def _name_relative(person: str, word: str) -> str:
    """Return the name of a relative; words with the same meaning (`mom`, `mother`) give the same name."""
    main = _KIN[word][1][0]
    return f"{person}'s {main}" if word.isascii() else f"{person}的{main}"


def _read_name(match: re.Match[str], text: str) -> str:
    """Return capitalised words without words that are not a name, if they are within a sentence or before a verb, else ''."""
    words, (begin, end) = match["name"].split(), match.span("name")
    is_first = begin == 0 or _STARTS.search(text, max(begin - 4, 0), begin) is not None
    kept = [word for word in words if word.lower() not in STOP_WORDS and word.lower() not in _NO_NAMES]
    if not kept or kept[0].endswith("ing"):
        return ""
    return " ".join(kept) if len(kept) < len(words) or not is_first or _VERB.match(text, end) else ""


_RELATION = lazy_pattern(
    r"\b(?:(?P<of>[A-Z][\w-]+)['\u2019]s|(?i:my))\s(?:[a-z]+\s)?(?P<kin>" + _ENGLISH_KIN + r")\b"
    r"|(?:我(?:的|家)?|(?P<of_zh>[\u4e00-\u9fff]{2,4}?)的?)(?P<kin_zh>" + _CHINESE_KIN + r")"
)
_NAMED = lazy_pattern(
    r"\b[A-Z][a-z]+\b|\b(?:"
    + _ENGLISH_KIN
    + r")\b|"
    + _CHINESE_KIN
    + r"|[老小阿"
    + _SURNAMES
    + r"][\u4e00-\u9fff]{1,2}"
)
_NAME = r"(?P<name{0}>[A-Z][a-z]+(?:\s[A-Z][a-z]+)?)"


class Relation(NamedTuple):
    """A person by a relation to another: the other person, words for the relation, and the name under which messages about the
    person are indexed.
    """

    person: str
    words: tuple[str, ...]
    name: str


@lru_cache(maxsize=1 << 8)
def find_relation(text: str, speaker: str = "") -> Relation | None:
    """Return the relation by which a question means somebody (`Wren's brother`; `my brother`, if `speaker` asks), or None."""
    if (found := _RELATION.search(text)) is None:
        return None
    person, word = found["of"] or found["of_zh"] or speaker, found["kin"] or found["kin_zh"]
    if not person:
        return None
    return Relation(person, tuple(_KIN[word][1]), _name_relative(person, word))


def find_related(text: str, person: str, words: Sequence[str], *, is_own: bool) -> tuple[str, ...]:
    """Return the names that a text gives to a relative of a person (`Wren's brother Tom`, `小明的弟弟叫小刚`).

    If `is_own`, the person speaks, and `my brother` counts, too.
    """
    kin, owner = "|".join(map(re.escape, words)), re.escape(person)
    if words[0].isascii():
        whose = rf"(?:{owner}['\u2019]s|(?i:his|her){'|(?i:my)' if is_own else ''})\s(?:[a-z]+\s)?(?:{kin})"
        pattern = (
            rf"\b{whose}(?:,\s|\s(?:(?:is|was)\s)?(?:(?:called|named)\s)?){_NAME.format(1)}"
            rf"|\b{_NAME.format(2)}(?:,\s|\s(?:is|was)\s){whose}\b"
        )
    else:
        whose = rf"(?:{owner}{'|我' if is_own else ''}|[他她])(?:的|家)?(?:{kin})"
        pattern = (
            rf"{whose}(?:名叫|叫做?|是)(?P<name1>[\u4e00-\u9fff]{{1,4}}?)(?=[，。！？；、,.!?\s]|$)"
            rf"|(?:^|[，。！？；、\s])(?P<name2>[\u4e00-\u9fff]{{1,4}}?)是{whose}"
        )
    return tuple(dict.fromkeys(mark["name1"] or mark["name2"] for mark in re.finditer(pattern, text[:_MOST_CHARS])))

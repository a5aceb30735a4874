"""Finds the persons that a message is about: those that it names, those that its pronouns mean, and relatives of its speaker.

Uses rules for English and Chinese, no model and no list of known persons. The names of a message depend only on the message and on
the messages directly before it, so that an index that grew is equal to one that was rebuilt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain

from mnemosyne.core.lazy_patterns import lazy_pattern
from mnemosyne.retrieval.text.words import STOP_WORDS
from mnemosyne.values import dataclass

Spoken = tuple[str, str]
"""Speaker ('' if unknown) and text of a message."""

_MOST_CHARS = 2_000
_MOST_NAMES = 12
_SHE, _HE, _THEY = "she", "he", "they"
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
_NO_NAMES = frozenset(
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september "
    "october november december mr mrs ms miss dr sir lady lord king queen god hey hi hello yeah yes okay thanks thank wow "
    "congrats christmas english french chinese american spanish german internet please well also maybe sure".split()
)
_ENGLISH = lazy_pattern(
    r"(?P<own>\b(?i:my)\s(?:[a-z]+\s)?(?P<kin>" + _ENGLISH_KIN + r")\b)"
    r"|(?P<of>\b[A-Z][a-z]+)['\u2019]s\s(?:[a-z]+\s)?(?P<kin_of>" + _ENGLISH_KIN + r")\b"
    r"|(?P<your>\b(?i:your)\s(?:[a-z]+\s)?(?P<kin_your>" + _ENGLISH_KIN + r")\b)"
    r"|(?P<she>\b(?i:she|her|hers|herself)\b)|(?P<he>\b(?i:he|him|his|himself)\b)|(?P<they>\b(?i:they|them|their)\b)"
    r"|(?P<place>\b(?:in|at|the|a|an)\s(?=[A-Z]))?(?P<name>\b[A-Z][a-z]{2,}(?:\s[A-Z][a-z]{2,}){0,2})\b"
)
_CHINESE = lazy_pattern(
    r"(?P<own>我(?:的|家)?(?P<kin>" + _CHINESE_KIN + r"))|(?P<your>[你您](?:的|家)?(?P<kin_your>" + _CHINESE_KIN + r"))"
    r"|(?P<they>[他她]们)|(?P<she>她)|(?P<he>(?<![其吉])他)"
    r"|(?P<title>[" + _SURNAMES + r"](?:" + _HONORIFICS + r"))|(?P<familiar>(?<![\u4e00-\u9fff])[老小阿][" + _SURNAMES + r"])"
    r"|(?<![\u4e00-\u9fff])(?P<name>[" + _SURNAMES + r"][\u4e00-\u9fff]{1,2}?)(?=说|道[：，]|问|笑|答|喊|把|给|去|来|是|在|住|点|摇|走|也|的)"
)
_STARTS = lazy_pattern(r"(?:^|[.!?:;\n\u201c\"(*]\s*)$")
_VERB = lazy_pattern(r"(?:['\u2019]s)?\s(?:is|was|has|had|[a-z]{2,}(?:ed|es|s)|went|came|left|gave|told|took|got|and\s[A-Z])\b")


@dataclass(frozen=True, slots=True)
class _Person:
    names: tuple[str, ...]
    kind: str


def find_persons(message: Spoken, before: Sequence[Spoken] = ()) -> tuple[str, ...]:
    """Return the names of the persons that a message is about, without its speaker, each once.

    A pronoun of the third person means the last person of a fitting kind in the message, else in the messages `before` it (the
    newest is last). `my brother` means the brother of the speaker, `your brother` that of the speaker before. Persons who take
    part in the talk are not meant by a pronoun.
    """
    line = [*before, message]
    known: list[_Person] = []
    found: list[_Person] = []
    speakers = [speaker for speaker, _ in line]
    present = frozenset(part.lower() for speaker in speakers for part in (speaker, *speaker.split()))
    for place, (speaker, text) in enumerate(line):
        other = next((each for each in reversed(speakers[:place]) if each and each != speaker), "")
        found = [*_read_persons(speaker, text[:_MOST_CHARS], other, known, present)]
        known += found
    return tuple(dict.fromkeys(chain.from_iterable(each.names for each in found)))[:_MOST_NAMES]


def _read_persons(
    speaker: str, text: str, other: str, before: Sequence[_Person], present: frozenset[str]
) -> Iterator[_Person]:
    seen = [*before]
    marks = [*_ENGLISH.finditer(text), *_CHINESE.finditer(text)]
    for mark in sorted(marks, key=_order_mark):
        group = mark.lastgroup or ""
        parts = mark.groupdict()
        person: _Person | None = None
        if parts["own"]:
            person = _relative_of(speaker, parts["kin"])
        elif parts["your"]:
            person = _relative_of(other, parts["kin_your"])
        elif parts.get("of"):
            person = _relative_of(parts["of"], parts["kin_of"])
        elif group in (_SHE, _HE, _THEY):
            person = _last_of_kind(seen, group)
        elif parts.get("name") and not parts.get("place") and _is_name(mark, text):
            person = _Person((mark["name"],), "")
        elif parts.get("title") or parts.get("familiar"):
            person = _Person((mark[0], mark[0][0] if parts["title"] else mark[0][1]), "")
        if person is not None and not any(each.startswith(person.names[0].lower()) for each in present):
            seen.append(person)
            yield person


def _order_mark(mark: re.Match[str]) -> int:
    return mark.start()


def _last_of_kind(persons: Sequence[_Person], kind: str) -> _Person | None:
    """Return the person that was named last and may be meant by a pronoun; a name fits each pronoun of one person."""
    return next((each for each in reversed(persons) if each.kind == kind or (not each.kind and kind != _THEY)), None)


def _relative_of(speaker: str, word: str) -> _Person | None:
    if not speaker:
        return None
    kind, words = _KIN[word]
    if word.isascii():
        names = tuple(f"{speaker}'s {each}" for each in words)
    else:
        names = tuple(f"{speaker}{joint}{each}" for each in words for joint in ("的", ""))
    return _Person(names, kind)


def _is_name(mark: re.Match[str], text: str) -> bool:
    """Return whether a capitalised word is a name: within a sentence, or before a verb at the begin of one."""
    first = mark["name"].split()[0]
    if not first.isascii():
        return True
    if first.lower() in STOP_WORDS or first.lower() in _NO_NAMES:
        return False
    begin, end = mark.span("name")
    if first.endswith("ing"):
        return False
    return _STARTS.search(text, max(begin - 4, 0), begin) is None and begin > 0 or _VERB.match(text, end) is not None


_RELATION = lazy_pattern(
    r"\b(?P<of>[A-Z][\w-]+)['\u2019]s\s(?:[a-z]+\s)?(?P<kin>" + _ENGLISH_KIN + r")\b"
    r"|(?P<of_zh>[\u4e00-\u9fff]{2,4}?)的?(?P<kin_zh>" + _CHINESE_KIN + r")"
)
_NAME = r"(?P<name{0}>[A-Z][a-z]+(?:\s[A-Z][a-z]+)?)"


@lru_cache(maxsize=1 << 8)
def find_relation(text: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the person and the words of the relation by which a question means somebody (`Wren's brother`), or None."""
    if (found := _RELATION.search(text)) is None:
        return None
    return found["of"] or found["of_zh"], tuple(_KIN[found["kin"] or found["kin_zh"]][1])


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

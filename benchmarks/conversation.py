"""Talk of any length, made up by a seeded generator: two people in a game, English and Chinese mixed.

The vocabulary grows with the talk as that of people does (few names often, many rarely), so that word lists and vectors
are of a life-like size. The same seed gives the same talk on every machine. Pure.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import accumulate, islice
from random import Random

from mnemosyne import Author, AuthorKind, Chain, MemoryEntry, Message, Role, SessionStart
from mnemosyne.schema.memory import LoreCategory
from mnemosyne.schema.record import ImportedTurn

PLAYER, GUIDE = "Wen", "Mara"
CHINESE_SHARE = 0.5
_NAMES = 20_000
_START = datetime(2024, 1, 1, 8, tzinfo=UTC)

_ONSETS = ("b", "br", "d", "dr", "f", "g", "gl", "h", "k", "l", "m", "n", "p", "r", "s", "sk", "t", "th", "v", "w")
_RHYMES = ("a", "ael", "an", "ar", "e", "el", "en", "er", "i", "il", "in", "ir", "o", "ol", "on", "or", "u", "un", "ur")
_SYLLABLES = (
    "阿白苍辰楚丹笛渡飞枫歌谷寒河鸿槐寂江锦靖兰岚黎凌流龙鹿洛茫梅墨南宁盘霈青秋荣若山霜松溪霞萧星絮雪烟杨夜亦影云昭竹紫"
)

_ENGLISH = (
    "I met {a} near {b} and we spoke about the {thing}.",
    "Do you remember what {a} said when the {thing} broke at {b}?",
    "{a} wants {number} coins for the {thing}, but {c} offered less.",
    "We walked from {b} to {d} before dark; {a} carried the {thing}.",
    "The {thing} that {a} lost lies under the old bridge of {b}, I believe.",
    "Tell {a} that the road to {d} is closed until {c} returns with the {thing}.",
    "I dreamt of {d} again: {a} stood there, {number} ravens around the {thing}.",
    "If {c} asks, we never saw the {thing}, and {a} was in {b} all week.",
)
_CHINESE = (
    "我在{b}附近遇到了{a}，我们谈起那{thing}。",
    "你还记得{thing}在{b}坏掉的时候{a}说了什么吗？",
    "{a}要{number}枚金币才肯卖{thing}，不过{c}出价更低。",
    "天黑之前我们从{b}走到了{d}，{a}一路背着{thing}。",
    "{a}丢的{thing}应该就埋在{b}的老桥下面。",
    "告诉{a}，去{d}的路要等{c}带着{thing}回来才会开。",
    "我又梦见{d}了：{a}站在那里，{number}只乌鸦围着{thing}。",
    "要是{c}问起来，就说我们没见过{thing}，{a}整个星期都在{b}。",
)
_THINGS = (
    ("lantern", "灯笼"), ("silver key", "银钥匙"), ("map", "地图"), ("sealed letter", "密信"), ("bell", "铜钟"),
    ("herb satchel", "草药包"), ("cracked mirror", "裂镜"), ("crown", "王冠"), ("boat", "小船"), ("ledger", "账本"),
    ("wolf pelt", "狼皮"), ("amulet", "护身符"), ("harp", "竖琴"), ("iron gate", "铁门"), ("well", "古井"),
    ("granary", "粮仓"), ("mill wheel", "水车"), ("falcon", "猎鹰"), ("sword", "长剑"), ("shrine", "神龛"),
)  # fmt: skip


_ASKED = (
    "Where is the {thing} that {a} spoke of, is it still in {b}?",
    "And what did {a} want with the {thing}?",
    "Who else in {b} has seen the {thing} of {a}?",
    "Let us ask {a} about the {thing} once more.",
)
_ASKED_ZH = (
    "{a}之前提到的{thing}现在在哪里？是不是还在{b}？",
    "那么{a}要{thing}做什么？",
    "{b}还有谁见过{a}的{thing}？",
    "我们再去问问{a}那{thing}的事吧。",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Names:
    """Made-up names in both scripts and how often each is drawn (as 1/rank)."""

    pairs: Sequence[tuple[str, str]]
    weights: Sequence[float]

    def draw(self, random: Random) -> tuple[str, str]:
        return self.pairs[bisect(self.weights, random.random() * self.weights[-1])]


def session_of(messages: int, *, seed: int = 7, session_id: str | None = None) -> SessionStart:
    """Return a session of `messages` messages, two a turn, ready for `Store.create_session`."""
    said = list(utterances(messages, seed))
    turns = tuple(_turn(number, said[at : at + 2]) for number, at in enumerate(range(0, len(said), 2), start=1))
    return SessionStart(
        session_id=session_id or f"talk-{messages}", world_id="", locale="en", state={}, turns=turns, at=_START
    )


def utterances(count: int, seed: int) -> Iterator[str]:
    """Yield `count` texts; each pair is in one language."""
    random, names = Random(seed), _names(seed)
    chinese = False
    for place in range(count):
        if place % 2 == 0:
            chinese = random.random() < CHINESE_SHARE
        yield _sentence(random, names, chinese=chinese)


def questions(count: int, seed: int) -> Iterator[str]:
    """Yield inputs for turns on such a session: they ask after names and things that the talk is full of."""
    random, names = Random(seed * 31 + 1), _names(seed)
    for _ in range(count):
        a, b = names.draw(random), names.draw(random)
        english, chinese = random.choice(_THINGS)
        if random.random() < CHINESE_SHARE:
            yield f"{a[1]}之前提到的{chinese}现在在哪里？是不是还在{b[1]}？"
        else:
            yield f"Where is the {english} that {a[0]} spoke of, is it still in {b[0]}?"


def scenes(count: int, seed: int, player: int = 0) -> Iterator[str]:
    """Yield inputs for turns that stay with a subject for one to four of them, as players do; each player has his own."""
    random, names = Random(seed * 37 + 2 + player * 1009), _names(seed)
    left = 0
    for _ in range(count):
        if left == 0:
            left, script = random.randint(1, 4), int(random.random() < CHINESE_SHARE)
            a, b = names.draw(random)[script], names.draw(random)[script]
            thing = random.choice(_THINGS)[script]
        left -= 1
        yield random.choice(_ASKED_ZH if script else _ASKED).format(a=a, b=b, thing=thing)


def lore_of_things(scope: str, seed: int) -> Iterator[MemoryEntry]:
    """Yield an entry of lore about each thing of the talk, found by its name in both languages."""
    said = utterances(20 * len(_THINGS), seed)
    for number, (english, chinese) in enumerate(_THINGS):
        story = " ".join(each for each in islice(said, 10) if each.isascii())
        yield MemoryEntry(
            entry_id=f"thing_{number:02}",
            scope=scope,
            chain=Chain.LORE,
            kind=LoreCategory.ENCYCLOPEDIA,
            title=english,
            text=f"The {english} ({chinese}). {story}",
            keys=(english, chinese),
        )


def _sentence(random: Random, names: _Names, *, chinese: bool) -> str:
    form = random.choice(_CHINESE if chinese else _ENGLISH)
    script = int(chinese)
    drawn = [names.draw(random)[script] for _ in range(4)]
    thing = random.choice(_THINGS)[script]
    return form.format(a=drawn[0], b=drawn[1], c=drawn[2], d=drawn[3], thing=thing, number=random.randint(2, 99))


@lru_cache(maxsize=4)
def _names(seed: int) -> _Names:
    random = Random(seed)
    made: dict[str, str] = {}
    while len(made) < _NAMES:
        latin = "".join(random.choice(_ONSETS) + random.choice(_RHYMES) for _ in range(random.randint(2, 3)))
        made.setdefault(latin.capitalize(), "".join(random.choices(_SYLLABLES, k=random.randint(2, 3))))
    weights = tuple(accumulate(1.0 / rank for rank in range(1, _NAMES + 1)))
    return _Names(pairs=tuple(made.items()), weights=weights)


def _turn(number: int, said: Sequence[str]) -> ImportedTurn:
    at = _START + timedelta(minutes=number)
    voices = ((Role.USER, AuthorKind.USER, PLAYER), (Role.ASSISTANT, AuthorKind.AGENT, GUIDE))
    return ImportedTurn(
        turn_id=f"t{number:06d}",
        messages=tuple(
            Message(role=role, content=text, author=Author(kind=kind, id=name), at=at)
            for (role, kind, name), text in zip(voices, said, strict=False)
        ),
    )

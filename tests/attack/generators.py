"""Hostile and random texts of any length, for every test that feeds texts to this product. Deterministic.

`GENERATORS` maps a name to a function of the size: the same name and size give the same text everywhere. Each text has
exactly the size asked for, in characters. `mixture(number)` draws a short text from several of them.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

Make = Callable[[int], str]

_ENGLISH = (
    "the old door to Wren's tower is open and nobody remembers who went in before the lamb slept by the well then she said "
    "yesterday I asked Lena of the key two weeks ago while we fight at the gate last Friday tell me what happened at home"
)
_CHINESE = (
    "昨天我在老井边遇见了莉娜她说钥匙在塔里可是没有人记得上周五谁走进去不得不再问一次三天前的夜里羊睡着了门还开着"
)
_SIGNS = "<>&\"'`[]{}()（）「」『』“”《》【】|\\/:;,.!?。！？…~@#$%^*+=-_ \t\n"
_MARKS = "\u0301\u0316\u0323\u0344\u0345\u05b0\u064b\u0e38\u0f71\u0f73\u3099\uff9e\U0001d165"
_UNSEEN = (
    "\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202e\u2066\u2067\u2069\ufeff\u00ad\u0085\u2028\u2029\x9b\x1b\x07\x00"
)
_ASTRAL = "😀🏰𝔘𝟙𠀀🀄️👩‍👧\U0010fffd"


def repeat(part: str, *, head: str = "", tail: str = "") -> Make:
    """Return a generator that repeats a part between a head and a tail."""

    def make(size: int) -> str:
        room = size - len(head) - len(tail)
        if room <= 0:
            return (head + tail)[:size]
        return head + (part * (room // len(part) + 1))[:room] + tail

    return make


def nest(left: str, middle: str, right: str) -> Make:
    """Return a generator that opens and closes the same thing as deep as the size allows."""

    def make(size: int) -> str:
        depth = max(0, (size - len(middle)) // (len(left) + len(right)))
        text = left * depth + middle + right * depth
        return (text + " " * size)[:size]

    return make


def random_of(characters: str, seed: int) -> Make:
    """Return a generator of random characters."""
    return lambda size: "".join(Random(f"{seed}:{size}").choices(characters, k=size))


def words_of(words: list[str], glue: str, seed: int) -> Make:
    """Return a generator of random words."""

    def make(size: int) -> str:
        shortest = max(1, min(map(len, words)) + len(glue))
        return glue.join(Random(f"{seed}:{size}").choices(words, k=size // shortest + 1))[:size]

    return make


def distinct(form: str) -> Make:
    """Return a generator whose parts are all different and whole, with blanks behind them; `form` holds `%d`."""

    def make(size: int) -> str:
        parts, chars, part = list[str](), 0, form % 0
        while chars + len(part) <= size:
            parts.append(part)
            chars += len(part)
            part = form % len(parts)
        return "".join(parts) + " " * (size - chars)

    return make


_TAGS = [
    "<content>", "</content>", "<thought>", "</thought>", "<state_update>", "</state_update>", "<filament_output>",
    "[redacted:email]", "```json", "```", '[["ADD","hero.gold",1]]', '{"ops":[', "]}", "&lt;", "&#x41;", "&amp", "<b>",
    "She waits. ",
]  # fmt: skip
_REGEX = [*r".*+?|()[]{}^$\\", r"\w+", r"(?:", r"(?P<a>", "{1,9}", "[^a]", r"\b", "(a+)+", "a"]
_JSON = [
    '{"id":',
    '"lore_1"',
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "null",
    "1e9",
    "-0",
    '"\\u00e9"',
    '"\\',
    "'",
    " ",
    "\n",
    "selected",
]
_TEMPLATE = [
    "{{",
    "}}",
    "{%",
    "%}",
    "{#",
    "#}",
    " for x in y ",
    " if ",
    " endif ",
    "x",
    "|upper",
    "\n",
    "'",
    '"',
    "(",
    ")",
]
_YAML = [
    "- ",
    "key: ",
    "\n",
    "  ",
    "? ",
    "|",
    ">",
    "&a ",
    "*a ",
    "!!str ",
    "'",
    '"',
    "{",
    "}",
    "[",
    "]",
    "#",
    "---\n",
    "x",
]
_PERSONAL = [
    "a@b.co", "+49 30 1234567", "4111 1111 1111 1111", "sk-" + "a1B2" * 9, "password=", "10.0.0.1", "DE89370400440532013000",
    "11010519491231002X", "Bearer ", "eyJhbGciOi", "-----BEGIN PRIVATE KEY-----", "http://u:p@h/", "密码：", " ", "\n", "0",
]  # fmt: skip
_DATES = [
    "yesterday",
    "two weeks ago",
    "last Friday",
    "上周五",
    "三天前",
    "去年夏天",
    "the day before yesterday",
    "in",
    "of",
    "年",
    "前",
]

GENERATORS: dict[str, Make] = {
    # repeated parts, each of which once cost more than its length, or is built so that a careless search would
    "one letter": repeat("a"),
    "capitals": repeat("The "),
    "capitals behind signs": repeat(" The", head="!" * 400 + "x"),
    "capitals behind half of it": lambda size: ("!" * (size // 2) + "x" + " The" * size)[:size],
    "signs": repeat("!?…"),
    "underscores": repeat("_"),
    "blanks": repeat(" ", head="The", tail="x"),
    "wide blanks": repeat("\u3000\u00a0\u2003", head="a", tail="x"),
    "newlines": repeat("\n", head="```", tail="x"),
    "carriage returns": repeat("\r\n\r", tail="x"),
    "blanks and newlines": repeat(" \n", head="[", tail="x"),
    "tabs": repeat("\t", head=">", tail="x"),
    "marks on one letter": repeat("\u0316\u0301", head="a"),
    "marks on many letters": repeat("a" + "\u0316\u0301" * 40),
    "marks without a class": repeat("\u0f73\u0f40", head="x"),
    "letters that grow": repeat("ﷺ㍿ﬃ"),
    "jamo": repeat("\u1100\u1161\u11a8"),
    "halfwidth": repeat("ｶﾞ１２Ａ"),
    "quotes that nobody closes": repeat("「“『《"),
    "quotes that nobody opened": repeat("」”』》"),
    "straight quotes": repeat('"'),
    "quoted words": repeat('“a!” b. "c?" 「d。」'),
    "single quotes": repeat(" 'a"),
    "backticks": repeat("`"),
    "fences": repeat("```json\n[]\n```\n"),
    "open fences": repeat("```\n"),
    "brackets": repeat("["),
    "closing brackets": repeat("]"),
    "round brackets": repeat("(("),
    "remarks out of character": repeat("(ooc "),
    "chinese remarks": repeat("（场外"),
    "labels": repeat("Wren (Joss): "),
    "labels on lines": repeat("\nWren (Jo"),
    "signs of tags": repeat("<"),
    "signs of closing tags": repeat("</"),
    "half tags": repeat("<state_update a=' "),
    "updates": repeat("<state_update>["),
    "updates of nothing": repeat('<state_update>[["ADD","hero.gold",1]]</state_update>   ', head="<content>x</content>"),
    "ops in one block": repeat(',["ADD","hero.gold",1]', head='<state_update>[["ADD","hero.gold",1]', tail="]</state_update>"),
    "updates without a tag": repeat('\n[["ADD","hero.gold",1]]', head="<content>x</content>"),
    "beginnings of updates": repeat('\n[["AD'),
    "fenced updates": repeat("```json\n<state_update>[]</state_update>\n```\n"),
    "brackets in an update": repeat("[", head="<state_update>"),
    "thoughts": repeat("<think>"),
    "thoughts in content": repeat("<thought><content>"),
    "contents": repeat("<content>a</content> "),
    "entities": repeat("&lt"),
    "numeric entities": repeat("&#x1F600;&#60"),
    "comments": repeat("<!-- "),
    "possessives": repeat("Ann's "),
    "weapons that hit nobody": repeat("throw a sword to the "),
    "negations of nothing": repeat("不得不"),
    "numerals": repeat("一"),
    "numerals with units": repeat("三百万"),
    "digits": repeat("7"),
    "digits and signs": repeat("1-2.3,4 "),
    "sums": repeat("1 + (", head="{"),
    "years": repeat("上上个年前"),
    "agos": repeat("a couple of "),
    "addresses": repeat("a@b.co "),
    "ats": repeat("a@"),
    "dots": repeat("a."),
    "hyphens": repeat("a-"),
    "keys": repeat("password: "),
    "escaped quotes": repeat('\\"', head='"'),
    "escaped texts": repeat('"x\\n" a@b.co '),
    "backslashes": repeat("\\"),
    "placeholders": repeat("[redacted:email] a@b.co "),
    "links": repeat("http://a:b@c/?d=e&"),
    "base64": repeat("aGVsbG8gd29ybGQ"),
    "rules": repeat("-"),
    "colons": repeat("a:"),
    "claims": repeat("name: value\n"),
    "templates": repeat("{{ "),
    "statements": repeat("{% if x %}"),
    "repeats in repeats": repeat("(a+)+", tail="!"),
    "percent": repeat("%s%(x)"),
    "format marks": repeat("{0.__class__}"),
    "unseen": repeat(_UNSEEN),
    "joiners": repeat("👩\u200d"),
    "bidirectional": repeat("\u202eabc\u2066"),
    "controls": repeat("\x1b[31m\x9b\x07"),
    "replacement characters": repeat("\ufffd"),
    "astral": repeat(_ASTRAL),
    "halves of pairs": repeat("\ud83d"),
    # nested and distinct
    "nested lists": nest("[", "1", "]"),
    "nested objects": nest('{"a":', "1", "}"),
    "nested tags": nest("<b>", "x", "</b>"),
    "nested quotes": nest("「『", "x", "』」"),
    "nested brackets": nest("(", "ooc", ")"),
    "distinct words": distinct("word%d "),
    "distinct names": distinct("Name%d said. "),
    "distinct tags": distinct("<t%d>"),
    "distinct lines": distinct("line %d: a\n"),
    "distinct quotes": distinct("“quote %d” "),
    "distinct fields": distinct('{"f%d":1},'),
    "distinct chinese": lambda size: "".join(chr(0x4E00 + (7 * place) % 20_000) for place in range(size)),
    "a list of objects": repeat('{"id":"x","n":1},', head="[", tail='{"id":"y"}]'),
    "a list of texts": repeat('"lore_1",', head="[", tail='""]'),
    # random
    "english": words_of(_ENGLISH.split(), " ", 1),
    "english sentences": words_of([*_ENGLISH.split(), "end.", "No!", "Why?", "\n"], " ", 2),
    "chinese": random_of(_CHINESE + "，。", 3),
    "mixed": words_of([*_ENGLISH.split(), *_CHINESE], "", 4),
    "random signs": random_of(_SIGNS, 5),
    "random marks": random_of("aé가" + _MARKS, 6),
    "random unseen": random_of("ab1@." + _UNSEEN, 7),
    "random tags": words_of(_TAGS, "", 8),
    "random json": words_of(_JSON, "", 9),
    "random regex": words_of(_REGEX, "", 10),
    "random templates": words_of(_TEMPLATE, "", 11),
    "random yaml": words_of(_YAML, "", 12),
    "random secrets": words_of(_PERSONAL, "", 13),
    "random dates": words_of(_DATES, " ", 14),
    "random astral": random_of(_ASTRAL + "a ", 15),
    "random everything": lambda size: "".join(
        chr(code if code < 0xD800 else code + 0x800)
        for code in Random(f"16:{size}").choices(range(0x110000 - 0x800), k=size)
    ),
    "random latin": lambda size: "".join(map(chr, Random(f"17:{size}").choices(range(0x250), k=size))),
}  # fmt: skip

NAMES = tuple(GENERATORS)
_PARTS = [*_TAGS, *_REGEX, *_JSON, *_TEMPLATE, *_YAML, *_PERSONAL, *_DATES, *_ENGLISH.split(), *_CHINESE]
_CHARACTERS = _SIGNS + _MARKS + _UNSEEN + _ASTRAL


def mixture(number: int) -> str:
    """Return the text of a case: 1 to 4 pieces, each of a generator, of random parts or of random characters.

    Mostly 10 to 400 characters, for one case in 200 up to 4,000.
    """
    random = Random(f"texts:{number}")
    size = random.randrange(400, 4_000) if random.random() < 1 / 200 else random.randrange(10, 400)
    pieces = []
    for _ in range(random.choice((1, 1, 2, 3, 4))):
        room = random.randrange(1, size + 1)
        kind = random.random()
        if kind < 0.4:
            pieces.append(GENERATORS[random.choice(NAMES)](room))
        elif kind < 0.85:
            pieces.append(random.choice(("", "", " ", "\n")).join(random.choices(_PARTS, k=room // 5 + 1)))
        else:
            pieces.append("".join(random.choices(_CHARACTERS, k=room // 2 + 1)))
    random.shuffle(pieces)
    return "".join(pieces)[:size]

"""Makes the books, chats and settings on which activation is compared, English and Chinese, from random numbers."""

from __future__ import annotations

import random
from typing import Any

from mnemosyne.world.activation.values import BookSource

WORDS = (
    "lamp",
    "Lamp",
    "red lamp",
    "fog",
    "harbour",
    "storm",
    "boat",
    "caf",
    "café",
    "灯塔",
    "红色的灯塔",
    "雾",
    "暴风雨",
    "小船",
    "a.b",
    "x_y",
)
PATTERNS = (
    "/la(m|n)p/i",
    "/^lamp/",
    "/lamp$/m",
    r"/\bfog\b/",
    "/灯.?塔/",
    "/[/",
    "/a/b/",
    r"/a\/b/",
    r"/\w+塔/",
    "/storm|boat/gi",
    r"/\d{2}/",
    r"/\p{Script=Han}+/u",
    "/(?<lamp>灯)塔/",
    "/(?<=红色的)灯/",
    "/(?i)lamp/",
    r"/la\mp/",
    "/fog{,2}/",
    "/a++/",
    "/lamp/y",
    r"/\s灯/",
    r"/[^\x00-\x7f]/",
)
FILLER = (
    "the",
    "old",
    "at night",
    "says",
    "很",
    "在",
    "我们",
    "12",
    "lamps",
    "foggy",
    "LAMP",
    "boats",
    "a/b",
    ",",
    "。",
)
SOURCES = {"G": BookSource.GLOBAL, "C": BookSource.CHARACTER, "H": BookSource.CHAT}
FEATURES: dict[str, tuple[str, ...]] = {
    "plain keys": (),
    "whole words and case": ("matchWholeWords", "caseSensitive"),
    "expressions": ("patterns",),
    "secondary keys": ("keysecondary",),
    "recursion": ("recursion",),
    "groups": ("group",),
    "chance": ("probability",),
    "sticky, cooldown, delay": ("timed",),
    "budget": ("budget",),
    "least activations": ("min",),
    "filters and triggers": ("filter",),
    "decorators": ("decorators",),
    "further texts": ("fields",),
    "all together": (
        "matchWholeWords",
        "caseSensitive",
        "patterns",
        "keysecondary",
        "recursion",
        "group",
        "probability",
        "timed",
        "budget",
        "min",
        "filter",
        "decorators",
        "fields",
    ),
}


def make_case(dice: random.Random, feature: str) -> dict[str, Any]:
    """Return one case: books, a chat that grows, settings."""
    parts = FEATURES[feature]
    uids = iter(range(1000))
    books: dict[str, dict[str, Any]] = {
        name: {
            str(uid): {"uid": uid, **make_entry(dice, parts)}
            for uid in (next(uids) for _ in range(dice.randint(0, 9 if name == "C" else 5)))
        }
        for name in SOURCES
    }
    told = [f"{dice.choice(('Ann', '小明', 'Tom'))}: {make_text(dice)}" for _ in range(dice.randint(1, 8))]
    chats = [list(reversed(told))]
    for _ in range(dice.randint(0, 5) if "timed" in parts else 0):
        told = [*told, f"Ann: {make_text(dice)}"] if dice.random() < 0.8 else told[: max(1, len(told) - 1)]
        chats.append(list(reversed(told)))
    return {
        "feature": feature,
        "books": books,
        "chats": chats,
        "context_tokens": dice.choice((100, 300)) if "budget" in parts else 100_000,
        "settings": make_settings(dice, parts),
        "rolls": [dice.random()],
        "effects": {"sticky": {}, "cooldown": {}},
        "character_file": dice.choice(("Mira", "Joss")),
        "character_tags": dice.sample(("brave", "old", "sea"), dice.randint(0, 2)),
        "trigger": dice.choice(("normal", "swipe")) if "filter" in parts else "normal",
        "fields": {"scenario": make_text(dice), "characterDescription": make_text(dice)} if "fields" in parts else {},
    }


def make_settings(dice: random.Random, parts: tuple[str, ...]) -> dict[str, Any]:
    return {
        "world_info_depth": dice.choice((0, 1, 2, 2, 4)),
        "world_info_budget": dice.choice((25, 50)),
        "world_info_budget_cap": dice.choice((0, 60)) if "budget" in parts else 0,
        "world_info_include_names": True,
        "world_info_recursive": dice.random() < 0.7,
        "world_info_case_sensitive": "caseSensitive" in parts and dice.random() < 0.3,
        "world_info_match_whole_words": dice.random() < 0.6,
        "world_info_use_group_scoring": "group" in parts and dice.random() < 0.4,
        "world_info_character_strategy": dice.choice((0, 1, 2)),
        "world_info_min_activations": dice.choice((0, 3)) if "min" in parts else 0,
        "world_info_min_activations_depth_max": dice.choice((0, 4)) if "min" in parts else 0,
        "world_info_max_recursion_steps": dice.choice((0, 0, 1, 2)) if "recursion" in parts else 0,
    }


def make_entry(dice: random.Random, parts: tuple[str, ...]) -> dict[str, Any]:
    """Return an entry with random fields, and the random fields of a feature."""

    def some(share: float) -> bool:
        return dice.random() < share

    keys = dice.sample(WORDS, dice.randint(1, 3))
    if "patterns" in parts and some(0.5):
        keys[0] = dice.choice(PATTERNS)
    entry: dict[str, Any] = {
        "key": keys,
        "keysecondary": [],
        "content": make_text(dice),
        "constant": some(0.1),
        "disable": some(0.05),
        "order": dice.choice((1, 50, 100, 100, 200)),
        "selective": True,
    }
    if "matchWholeWords" in parts:
        entry |= {
            "matchWholeWords": dice.choice((None, True, False)),
            "caseSensitive": dice.choice((None, True, False)),
        }
    if "keysecondary" in parts and some(0.7):
        entry |= {"keysecondary": dice.sample(WORDS, dice.randint(1, 2)), "selectiveLogic": dice.randrange(4)}
    if "recursion" in parts:
        entry |= {
            "preventRecursion": some(0.2),
            "excludeRecursion": some(0.2),
            "delayUntilRecursion": dice.choice((0, 0, 0, 1, 2)),
            "scanDepth": dice.choice((None, None, 0, 1, 5)),
        }
    if "group" in parts and some(0.6):
        entry |= {
            "group": dice.choice(("one", "two", "one, two", "1", "")),
            "groupWeight": dice.choice((1, 50, 100)),
            "groupOverride": some(0.15),
            "useGroupScoring": dice.choice((None, None, True, False)),
        }
    if "probability" in parts:
        entry |= {"probability": dice.choice((0, 30, 60, 100)), "useProbability": some(0.8)}
    if "timed" in parts:
        entry |= {
            "sticky": dice.choice((None, 0, 2)),
            "cooldown": dice.choice((None, 2)),
            "delay": dice.choice((None, None, 3)),
        }
    if "budget" in parts:
        entry["ignoreBudget"] = some(0.15)
    if "filter" in parts and some(0.5):
        entry["triggers"] = dice.choice(([], ["normal"], ["swipe", "continue"]))
        entry["characterFilter"] = {
            "names": dice.choice(([], ["Mira"])),
            "tags": dice.choice(([], ["sea"])),
            "isExclude": some(0.4),
        }
    if "decorators" in parts and some(0.4):
        top = dice.choice(
            ("@@activate", "@@dont_activate", "@@depth 3\n@@@activate", "@@activate\n@@role user", "@@@activate")
        )
        entry["content"] = f"{top}\n{entry['content']}"
    if "fields" in parts:
        entry |= {"matchScenario": some(0.3), "matchCharacterDescription": some(0.3)}
    return entry


def make_text(dice: random.Random) -> str:
    words = [dice.choice(WORDS if dice.random() < 0.3 else FILLER) for _ in range(dice.randint(1, 9))]
    return dice.choice((" ", "")).join(words)


FAST_TAVERN = {
    "plain keys": ("plain keys", False),
    "secondary keys": ("secondary keys", False),
    "recursion": ("recursion", True),
    "secondary keys, recursion": ("secondary keys", True),
    "excluded from recursion": ("recursion", True),
}
"""The features of fast-tavern: whose cases they are, and whether entries wake others."""


def make_fast_tavern_case(dice: random.Random, feature: str) -> dict[str, Any]:
    """Return a case with nothing in it that fast-tavern does not know."""
    of, is_recursive = FAST_TAVERN[feature]
    case = make_case(dice, of)
    case["feature"] = feature
    depth = max(1, case["settings"]["world_info_depth"])
    case["settings"] |= {
        "world_info_depth": depth,
        "world_info_recursive": is_recursive,
        "world_info_match_whole_words": False,
        "world_info_max_recursion_steps": 0,
    }
    unknown = {"delayUntilRecursion", "scanDepth", *(() if feature.startswith("excluded") else ("excludeRecursion",))}
    for book in case["books"].values():
        for uid, entry in book.items():
            book[uid] = {name: value for name, value in entry.items() if name not in unknown}
            if not is_recursive:  # Its limit of 0 still lets an entry wake those after it.
                book[uid]["preventRecursion"] = True
    return case

"""Compares our activation of world info with SillyTavern's own code, on generated books and chats.

    python tests/acceptance/world_info/compare.py --package FOLDER [--cases 1000] [--seed 1]

Prints a table by feature, and the first cases that differ. Exit code 1 where one differs.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from mnemosyne.world.activation.entries import read_entry
from mnemosyne.world.activation.scan import scan
from mnemosyne.world.activation.values import (
    BookSource,
    InsertionStrategy,
    ScanContext,
    ScannedMessage,
    TimedEffects,
    WorldInfoSettings,
)

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


def run_ours(case: dict[str, Any]) -> list[list[str]]:
    """Return what ours sets off in each chat of a case, in order."""
    settings, effects = case["settings"], TimedEffects()
    entries = [
        read_entry(fields, world=book, uid=str(fields["uid"]), source=SOURCES[book])
        for book, held in case["books"].items()
        for fields in held.values()
    ]
    found = []
    for chat in case["chats"]:
        result = scan(
            entries,
            ScanContext(
                messages=tuple(ScannedMessage(name="", text=text) for text in chat),
                character_file=case["character_file"],
                character_tags=tuple(case["character_tags"]),
                fields={
                    "scenario": case["fields"].get("scenario", ""),
                    "character_description": case["fields"].get("characterDescription", ""),
                },
                trigger=case["trigger"],
                effects=effects,
            ),
            WorldInfoSettings(
                scan_depth=settings["world_info_depth"],
                context_tokens=case["context_tokens"],
                budget_percent=settings["world_info_budget"],
                budget_cap=settings["world_info_budget_cap"],
                recursive=settings["world_info_recursive"],
                case_sensitive=settings["world_info_case_sensitive"],
                match_whole_words=settings["world_info_match_whole_words"],
                use_group_scoring=settings["world_info_use_group_scoring"],
                min_activations=settings["world_info_min_activations"],
                min_activations_depth_max=settings["world_info_min_activations_depth_max"],
                max_recursion_steps=settings["world_info_max_recursion_steps"],
                insertion_strategy=InsertionStrategy(settings["world_info_character_strategy"]),
            ),
            count_tokens=lambda text: len(text.encode("utf-16-le")) // 2,
            roll=lambda purpose, name: case["rolls"][0],
        )
        effects = result.effects
        found.append([f"{each.entry.world}.{each.entry.uid}" for each in result.active])
    return found


def run_theirs(cases: list[dict[str, Any]], package: Path) -> list[list[list[str]]]:
    """Return what SillyTavern sets off in each chat of each case, in order."""
    command = [
        "node",
        "--experimental-vm-modules",
        "--no-warnings",
        str(Path(__file__).with_name("oracle.mjs")),
        str(package),
    ]
    lines = "".join(f"{json.dumps(case)}\n" for case in cases)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"SillyTavern's code could not be run: {done.stderr[:2000]}")
    return [[answer["active"] for answer in json.loads(line)] for line in done.stdout.splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--package", type=Path, required=True)
    parser.add_argument("--cases", type=int, default=1400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=5)
    chosen = parser.parse_args()
    features = list(FEATURES)
    cases = [
        make_case(random.Random(f"{chosen.seed}.{number}"), features[number % len(features)])
        for number in range(chosen.cases)
    ]
    theirs = run_theirs(cases, chosen.package)
    counts: Counter[tuple[str, str]] = Counter()
    shown = 0
    for case, wanted in zip(cases, theirs, strict=True):
        found = run_ours(case)
        scans = list(zip(found, wanted, strict=True))
        counts[case["feature"], "scans"] += len(scans)
        counts[case["feature"], "same order"] += sum(mine == other for mine, other in scans)
        counts[case["feature"], "same entries"] += sum(set(mine) == set(other) for mine, other in scans)
        counts[case["feature"], "entries"] += sum(len(other) for _, other in scans)
        if found != wanted and shown < chosen.show:
            shown += 1
            print(
                f"differs ({case['feature']}): ours {found}, SillyTavern {wanted}\n{json.dumps(case, ensure_ascii=False)}"
            )
    version = json.loads((chosen.package / "package.json").read_text(encoding="utf-8"))["version"]
    print(f"SillyTavern {version}, {chosen.cases} cases, seed {chosen.seed}")
    print(f"{'feature':26} {'scans':>7} {'set off':>8} {'same entries':>13} {'same order':>11}")
    for feature in features:
        row = [counts[feature, name] for name in ("scans", "entries", "same entries", "same order")]
        print(f"{feature:26} {row[0]:7} {row[1]:8} {row[2]:13} {row[3]:11}")
    different = sum(counts[feature, "scans"] - counts[feature, "same order"] for feature in features)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())

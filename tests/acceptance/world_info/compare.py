"""Compares our activation of world info with that of another program, on generated books and chats.

    python tests/acceptance/world_info/compare.py --package FOLDER [--with sillytavern] [--cases 1000] [--seed 1]

`sillytavern` is its own module in node, `browser` its own page in Chromium, `fast-tavern` the npm package of that name. Prints a
table by feature, and the first cases that differ. Exit code 1 where one differs from SillyTavern.
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

from cases import FAST_TAVERN, FEATURES, SOURCES, make_case, make_fast_tavern_case

from mnemosyne.world.activation.entries import read_entry
from mnemosyne.world.activation.scan import scan
from mnemosyne.world.activation.values import (
    InsertionStrategy,
    ScanContext,
    ScannedMessage,
    TimedEffects,
    WorldInfoSettings,
)

PROGRAMS = {
    "sillytavern": ("--experimental-vm-modules", "--no-warnings", "oracle.mjs"),
    "browser": ("browser.mjs",),
    "fast-tavern": ("fast_tavern.mjs",),
}


def count_chars(text: str) -> int:
    """Return how many units of UTF-16 a text has, as the length of a text in JavaScript."""
    return len(text.encode("utf-16-le")) // 2


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
            count_tokens=count_chars,
            roll=lambda purpose, name: case["rolls"][0],
        )
        effects = result.effects
        found.append([f"{each.entry.world}.{each.entry.uid}" for each in result.active])
    return found


def run_theirs(cases: list[dict[str, Any]], program: str, package: Path) -> list[list[list[str]]]:
    """Return what the other program sets off in each chat of each case, in order."""
    *options, script = PROGRAMS[program]
    command = ["node", *options, str(Path(__file__).with_name(script)), str(package)]
    lines = "".join(f"{json.dumps(case)}\n" for case in cases)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{program} could not be run: {done.stderr[:2000]}")
    return [[answer["active"] for answer in json.loads(line)] for line in done.stdout.splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--package", type=Path, required=True)
    parser.add_argument("--with", dest="program", choices=PROGRAMS, default="sillytavern")
    parser.add_argument("--cases", type=int, default=1400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=5)
    chosen = parser.parse_args()
    is_tavern = chosen.program == "fast-tavern"
    features, make = (list(FAST_TAVERN), make_fast_tavern_case) if is_tavern else (list(FEATURES), make_case)
    cases = [
        make(random.Random(f"{chosen.seed}.{number}"), features[number % len(features)])
        for number in range(chosen.cases)
    ]
    theirs = run_theirs(cases, chosen.program, chosen.package)
    counts: Counter[tuple[str, str]] = Counter()
    shown = 0
    for case, wanted in zip(cases, theirs, strict=True):
        found = run_ours(case)
        scans = list(zip(found, wanted, strict=True))
        same = [set(mine) == set(other) for mine, other in scans]
        counts[case["feature"], "scans"] += len(scans)
        counts[case["feature"], "same order"] += sum(mine == other for mine, other in scans)
        counts[case["feature"], "same entries"] += sum(same)
        counts[case["feature"], "entries"] += sum(len(other) for _, other in scans)
        if not (all(same) if is_tavern else found == wanted) and shown < chosen.show:
            shown += 1
            print(f"differs ({case['feature']}): ours {found}, theirs {wanted}\n{json.dumps(case, ensure_ascii=False)}")
    version = json.loads((chosen.package / "package.json").read_text(encoding="utf-8"))["version"]
    print(f"{chosen.program} {version}, {chosen.cases} cases, seed {chosen.seed}")
    columns = ("scans", "entries", "same entries", *(() if is_tavern else ("same order",)))
    print(f"{'feature':26}{''.join(f'{name:>14}' for name in columns)}")
    for feature in features:
        print(f"{feature:26}{''.join(f'{counts[feature, name]:14}' for name in columns)}")
    different = sum(counts[feature, "scans"] - counts[feature, "same order"] for feature in features)
    return 1 if different and not is_tavern else 0


if __name__ == "__main__":
    sys.exit(main())

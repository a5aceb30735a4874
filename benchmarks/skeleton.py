"""Tokens of each block of the skeleton in the example world, next to those of an earlier run.

One turn of each language is prepared and nothing is written. The conversation, the summary and the memories are not counted,
because they do not depend on templates. Tokens only, no clock: the same code gives the same figures everywhere.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from evals.errors import SetupError
from evals.reporting.progress import OnProgress
from jacquard import open_runtime
from mnemosyne import load_world

QUESTIONS = {
    "en": "Does that key open the temple? I remember it being mentioned before.",
    "zh": "那把钥匙是不是开启神庙的?我记得之前提到过。",
}
WORLDS = Path(__file__).parents[1] / "examples" / "whispering_forest"
_NOT_COUNTED = frozenset({"summary", "user_input"})
FORMER: Mapping[str, Mapping[str, int]] = {
    "en": {
        "instruction": 688,
        "persona": 78,
        "axioms": 257,
        "status": 876,
        "limits": 254,
        "active_quests": 198,
        "guidance": 86,
        "lore_dir_keys": 100,
        "lore_dir_end_on_object": 58,
    },
    "zh": {
        "instruction": 790,
        "persona": 91,
        "axioms": 281,
        "status": 909,
        "limits": 254,
        "active_quests": 212,
        "guidance": 92,
        "lore_dir_keys": 113,
        "lore_dir_end_on_object": 69,
    },
}
"""Figures of the release of November 2026."""


async def run(before_file: Path | None, say: Callable[[str], None], progress: OnProgress) -> dict[str, Any]:
    """Return the tokens of the skeleton's blocks by language, before and after."""
    before = FORMER if before_file is None else _read_figures(before_file)
    after = {}
    for language in QUESTIONS:
        say(f"{language}: preparing a turn of the example world")
        after[language] = await _count_blocks(language)
        progress("languages", len(after), len(QUESTIONS))
    return {"before": {name: dict(figures) for name, figures in before.items()}, "after": after}


def _read_figures(file: Path) -> Mapping[str, Mapping[str, int]]:
    try:
        figures: Mapping[str, Mapping[str, int]] = json.loads(file.read_text(encoding="utf-8"))["after"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise SetupError(f"{file}: these are not the figures of a former run (--json): {error}") from error
    return figures


async def _count_blocks(language: str) -> dict[str, int]:
    """Return the tokens of the blocks that templates write, in the order of the prompt."""
    with tempfile.TemporaryDirectory() as folder:
        async with open_runtime(folder, world=WORLDS / language, embedder="none") as runtime:
            await runtime.engine.start_session("skeleton", load_world(WORLDS / language))
            turn = await runtime.engine.prepare_turn("skeleton", QUESTIONS[language], dry_run=True)
    written = {each.block_id for each in turn.report.decisions if each.source.startswith("automation:")} - _NOT_COUNTED
    tokens: dict[str, int] = {}
    for span in turn.report.spans:
        if span.block_id in written:
            tokens[span.block_id] = tokens.get(span.block_id, 0) + span.tokens
    return tokens


def show(figures: Mapping[str, Any], out: Console) -> None:
    """Print the tokens of each block, before and after, and their sums."""
    for language, after in figures["after"].items():
        before = figures["before"].get(language, {})
        table = Table(
            "block", *("before", "after", "change"), title=f"Skeleton of the example world ({language}), tokens"
        )
        rows = [(name, before.get(name, 0), after.get(name, 0)) for name in dict.fromkeys([*before, *after])]
        for name, old, new in [*rows, ("all", sum(before.values()), sum(after.values()))]:
            change = f"{(new - old) / old:+.1%}" if old else "new"
            table.add_row(name, f"{old:,}", f"{new:,}", change)
        out.print(table)

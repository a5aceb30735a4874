"""Our estimate of tokens against exact counts, on the lore of the example world in English and Chinese.

Only counters whose packages are installed are compared. The same versions give the same figures everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from anyio import to_thread
from rich.console import Console
from rich.table import Column, Table

from jacquard import ConfigError, RuntimeConfig
from jacquard.wiring.runtime import open_token_estimator
from mnemosyne import CalibratedEstimator, load_world

WORLD = Path(__file__).parents[1] / "examples" / "whispering_forest"
LANGUAGES = ("en", "zh")
COUNTERS = (
    "tiktoken:o200k_base",
    "tiktoken:cl100k_base",
    "tokenizer:qwen-max",
    "tokenizer:qwen3.6-27b",
    "tokenizer:deepseek-chat",
)


async def run(say: Callable[[str], None], progress: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Return the characters and the estimated tokens by language, and of each counter its tokens and the ratio to them."""
    texts = {name: [entry.text for entry in load_world(WORLD / name).lore] for name in LANGUAGES}
    ours = {name: sum(map(CalibratedEstimator().estimate, texts[name])) for name in LANGUAGES}
    counters: dict[str, Any] = {}
    for done, counter in enumerate(COUNTERS, start=1):
        progress("counters", done, len(COUNTERS))
        try:
            exact = await to_thread.run_sync(open_token_estimator, RuntimeConfig(token_estimator=counter))
        except ConfigError as error:
            say(f"{counter}: {error}")
            continue
        counted = {name: sum(map(exact.estimate, texts[name])) for name in LANGUAGES}
        counters[counter] = {
            name: {"tokens": counted[name], "ratio": round(ours[name] / counted[name], 3)} for name in LANGUAGES
        }
    return {
        "chars": {name: sum(map(len, texts[name])) for name in LANGUAGES},
        "estimate": ours,
        "counters": counters,
    }


def show(figures: Mapping[str, Any], console: Console) -> None:
    """Print the counts and the ratios as a table."""
    columns = [each for name in LANGUAGES for each in (f"tokens, {name}", f"ratio, {name}")]
    table = Table(Column("counter", no_wrap=True), *columns, title="lore of the example world: estimate / count")
    table.add_row("estimate", *(each for name in LANGUAGES for each in (f"{figures['estimate'][name]:,}", "")))
    for counter, found in figures["counters"].items():
        cells = (each for name in LANGUAGES for each in (f"{found[name]['tokens']:,}", f"{found[name]['ratio']:.2f}"))
        table.add_row(counter, *cells)
    console.print(table)

"""Tables of the comparison, with ratios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.rivals.figures import ratio
from benchmarks.rivals.names import OURS
from evals.metrics import TOKEN_METRICS


def show(figures: Mapping[str, Any], console: Console) -> None:
    """Print every part that was run, and what was left out."""
    where, busy = figures["machine"], figures["load"]
    console.print(
        Text(
            f"{where['cpu']}, {where['cores']} cores, {where['memory_gb']} GB, Python {where['python']}, load {busy['before']} to "
            f"{busy['after']}; embedder {figures['config']['embedder']} for all; ratio: how many times as long as ours"
        )
    )
    for name, setup in figures["setups"].items():
        console.print(Text(f"\n{name}: {setup['how']}", style="bold"))
        _setup(setup, console)
    for what, why in figures["left_out"].items():
        console.print(Text(f"left out: {what}: {why}"))
    for name, reached in figures["network"].items():
        console.print(Text(f"{name} reached for the network: {', '.join(sorted(set(reached)))}", style="bold"))


def _setup(figures: Mapping[str, Any], console: Console) -> None:
    if figures["turns"]:
        _turns(figures, console)
        if figures["played"]:
            _played(figures["played"], "the set", console)
        _quality(figures, console)
    if figures["rate"]:
        _rates(figures, console)
    for size, found in figures["sizes"].items():
        _size(int(size), found, console)
    for what, why in figures["left_out"].items():
        console.print(Text(f"left out: {what}: {why}"))


def sentence(best: Mapping[str, Any] | None, where: str) -> str:
    """Return the line that sets ours against the fastest framework; empty if there is none."""
    if best is None:
        return ""
    return (
        f"{where}: the fastest framework is {best['stack']}; its turn takes {_times(best['ratio'])} times as long as ours "
        f"(p95 {_times(best['ratio_p95'])}, beyond the embedding {_times(best['ratio_beyond'])}, processor "
        f"{_times(best['ratio_processor'])})"
    )


def _turns(figures: Mapping[str, Any], console: Console) -> None:
    ours = figures["turns"].get(OURS)
    rows = []
    for name, found in figures["turns"].items():
        rows.append(
            (
                name,
                _pair(found, "ms"),
                _against(found, ours, "ms_p50"),
                _pair(found, "beyond_ms"),
                _against(found, ours, "beyond_ms_p50"),
                f"{found['embed_ms_p50']:.1f}",
                f"{found['processor_ms_p50']:.1f}",
                _against(found, ours, "processor_ms_p50"),
                f"{figures['memory_mb'].get(name, 0.0):.0f}",
            )
        )
    heads = ("stack", "turn ms", "ratio", "beyond embedding ms", "ratio", "embedding", "processor", "ratio", "MB")
    _table(console, "turns asked at one place, without model time: five memories, p50 (p95)", heads, rows)
    if ours is not None and "steps_ms_p50" in ours:
        steps = sorted(ours["steps_ms_p50"].items(), key=lambda item: -item[1])
        console.print(Text("of ours, p50 ms: " + ", ".join(f"{name} {value:.1f}" for name, value in steps[:10])))
    console.print(Text(sentence(figures["fastest_framework"], "turns on the set")), style="bold")


def _played(played: Mapping[str, Any], where: str, console: Console) -> None:
    ours = played.get(OURS, {})
    rows = []
    for name, found in played.items():
        real, fixed, at_once = (found.get(kind) for kind in ("real", "fixed", "at_once"))
        if real is None or fixed is None or at_once is None:
            continue
        rows.append(
            (
                name,
                _pair(real, "ms"),
                _against(real, ours.get("real"), "ms_p50"),
                f"{real['processor_ms_p50']:.1f}",
                _against(real, ours.get("real"), "processor_ms_p50"),
                _pair(found, "commit_ms"),
                f"{found['commit_behind_ms_p50']:.1f}",
                f"{found['whole_processor_ms_p50']:.1f}",
                _against(found, ours, "whole_processor_ms_p50"),
                _pair(fixed, "ms"),
                _times(found["real_to_fixed"]),
                _times(found["real_to_fixed_processor"]),
                f"{at_once['ms_p50']:.1f}",
            )
        )
    heads = ("stack", "real turn", "ratio", "processor", "ratio", "commit", "behind", "all, processor", "ratio")
    more = ("at one place", "real to that", "processor", "right after")
    title = (
        f"real turns on {where}, ms: a commit before each; what goes on behind the commit; the processor time of turn and "
        "commit; turns asked at one place; turns right after a commit"
    )
    _table(console, title, (*heads, *more), rows)
    for name, found in played.items():
        if found["not_in_prompt"]:
            console.print(Text(f"{name}: {found['not_in_prompt']} texts should stand in a prompt and did not"))


def _quality(figures: Mapping[str, Any], console: Console) -> None:
    names = ("recall@5", "ndcg@5", "recall@50", *TOKEN_METRICS, "prompt_recall@5")
    rows = [
        (name, *(f"{100 * found[each]:.1f}" for each in names), f"{found['prompt_tokens']:.0f}")
        for name, found in figures["quality"].items()
    ]
    counted = next(iter(figures["quality"].values()))["scored"]
    title = f"percent over {counted} labelled queries; …tok and prompt: evidence that stands in the prompt"
    _table(console, title, ("stack", *names, "prompt tokens"), rows)
    for name, found in figures["quality"].items():
        if found["not_in_prompt"]:
            console.print(Text(f"{name}: {found['not_in_prompt']} texts were said to stand in a prompt and did not"))


def _rates(figures: Mapping[str, Any], console: Console) -> None:
    rows = [
        (
            name,
            f"{found['documents_a_second']:.1f}",
            f"{found['bare_documents_a_second']:.1f}",
            f"{found['share_of_bare']:.2f}",
        )
        for name, found in figures["rate"].items()
    ]
    _table(console, "indexing, documents a second", ("stack", "indexed", "embedder alone", "share"), rows)


def _size(size: int, found: Mapping[str, Any], console: Console) -> None:
    stacks = found["stacks"]
    ours = stacks.get(OURS, {})
    rows = []
    for name, each in stacks.items():
        if (recall := each["recall"]) is None:
            continue
        rows.append(
            (
                name,
                _pair(recall, "ms"),
                _against(recall, ours.get("recall"), "ms_p50"),
                f"{recall['processor_ms_p50']:.1f}",
                f"{each['index_seconds']:.1f}",
                f"{each['memory_mb']:.0f}",
            )
        )
    heads = ("stack", "recall ms", "ratio", "processor", "index s", "MB")
    title = f"{size:,} entries, vectors made up: recall without the query's embedding, p50 (p95)"
    _table(console, title, heads, rows)
    if found["played"]:
        _played(found["played"], f"{size:,} entries", console)
    console.print(Text(sentence(found["fastest_framework"], f"real turns among {size:,}")), style="bold")


def _table(console: Console, title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(title=title, title_justify="left")
    for place, head in enumerate(heads):
        table.add_column(head, justify="right" if place else "left")
    for row in rows:
        table.add_row(*map(Text, row), style="bold" if row[0] == OURS else "")
    console.print(table)


def _pair(found: Mapping[str, Any], name: str) -> str:
    return f"{found[f'{name}_p50']:.1f} ({found[f'{name}_p95']:.1f})"


def _against(found: Mapping[str, Any], ours: Mapping[str, Any] | None, name: str) -> str:
    return "-" if not ours else _times(ratio(found[name], ours[name]))


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"

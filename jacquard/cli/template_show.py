"""Prints results of the template commands for people: rendered prompts, differences of prompts, and golden cases."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from jacquard.authoring.golden import GoldenResult, Verdict
from jacquard.authoring.render import BlockChange, Rendering, TurnChange, sum_changes
from jacquard.cli.command_parts import clean, out, show, tell
from jacquard.cli.language import speak
from jacquard.cli.show import show_messages, style_of
from jacquard.core.block_kinds import HISTORY_SLOT, HISTORY_SOURCE

_VERDICTS = {
    Verdict.PASSED: "green",
    Verdict.WRITTEN: "green",
    Verdict.CHANGED: "yellow",
    Verdict.NEW: "yellow",
    Verdict.FAILED: "red",
}


def show_rendering(rendering: Rendering, *, text: bool) -> None:
    """Print a table with the tokens of each block of a rendered prompt. If `text` is true, first print the text of the
    prompt, coloured by the source of each block.
    """
    sources = {row.block_id: row.source for row in rendering.rows}
    if text:
        assembled = rendering.prompt.assembled
        show_messages(assembled.messages, assembled.spans, sources)
        out.rule(style="dim")
    tell(f"{rendering.label} · template {rendering.template_id} · layout {rendering.layout}")
    table = Table(title=speak("tokens by block"), title_justify="left", box=None, pad_edge=False)
    table.add_column(speak("tokens"), justify="right")
    table.add_column(speak("block"))
    table.add_column(speak("slot"))
    table.add_column(speak("source"))
    messages = [row for row in rendering.rows if row.slot == HISTORY_SLOT and row.kept]
    for row in rendering.rows:
        if row.slot == HISTORY_SLOT and row.kept:
            if row is messages[0]:
                label = Text(speak(f"history  {len(messages)} messages"), style=style_of(HISTORY_SOURCE))
                table.add_row(str(sum(each.tokens for each in messages)), label, Text(row.slot), Text(row.source))
            continue
        name = f"{row.block_id}  {row.title}" if row.title and row.title != row.block_id else row.block_id
        style = style_of(row.source) if row.kept else "dim strike"
        shown = name if row.kept else speak(f"{name} (dropped)")
        table.add_row(str(row.tokens), Text(clean(shown), style=style), Text(row.slot), Text(row.source))
    table.add_row(
        str(rendering.frame_tokens),
        Text(speak("frame"), style="dim"),
        Text(""),
        Text(speak("tags, message overhead"), style="dim"),
    )
    table.add_row(str(rendering.tokens), Text(speak("prompt"), style="bold"), Text(""), Text(""))
    out.print(table)


def show_change(change: TurnChange) -> None:
    """Print the differences between two renderings of one turn, block by block, with the change in tokens."""
    templates = (
        change.new_template
        if change.old_template == change.new_template
        else f"{change.old_template} → {change.new_template}"
    )
    out.rule(
        Text(clean(f"{change.label} · {templates} · {_format_delta(change.old_tokens, change.new_tokens)}")),
        align="left",
    )
    for each in change.changes:
        tell(f"{each.block_id}: {_describe_block_change(each)}", "bold")
        for line in each.lines:
            style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "dim")
            show(f"  {line}", style)


def show_totals(changes: Sequence[TurnChange]) -> None:
    """Print the totals of `changes`: for each block, the number of turns in which it changed and its change in tokens;
    then the same for all blocks together.
    """
    sums = sum_changes(changes)
    by_block: dict[str, list[int]] = {}
    for change in changes:
        for each in change.changes:
            by_block.setdefault(each.block_id, []).append((each.new_tokens or 0) - (each.old_tokens or 0))
    for name, deltas in by_block.items():
        tell(f"{name}: changed in {len(deltas)} of {sums['turns']} turns, {sum(deltas):+d} tokens in all", "dim")
    label = f"{sums['changed']} of {sums['turns']} turns change"
    tell(f"{label}: {_format_delta(sums['old_tokens'], sums['new_tokens'])}", "bold")


def show_golden(result: GoldenResult) -> None:
    """Print the result of one golden case (a prompt compared with its expected text): verdict, name, tokens, and
    changed lines.
    """
    tell(f"{result.verdict.value:8} {result.name} · {result.tokens} tokens", _VERDICTS[result.verdict])
    for line in result.lines:
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        show(f"    {line if style else speak(line)}", style)


def _describe_block_change(change: BlockChange) -> str:
    if change.old_tokens is None:
        return f"new, {change.new_tokens} tokens"
    if change.new_tokens is None:
        return f"gone, {change.old_tokens} tokens"
    return _format_delta(change.old_tokens, change.new_tokens)


def _format_delta(old: int, new: int) -> str:
    share = f" ({100 * (new - old) / old:+.1f} %)" if old else ""
    return f"{old} → {new} tokens, {new - old:+d}{share}"

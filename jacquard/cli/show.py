"""Prints prompts, receipts and states for people: blocks coloured by source, with tokens by block.

A receipt contains the reasons why blocks and memories are, or are not, in a prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from filament import display, dump_yaml
from jacquard.cli.command_parts import clean, out, show, tell
from jacquard.cli.language import speak
from jacquard.core.block_kinds import WORLD_INFO_SOURCE, Subject, subject_of
from jacquard.core.blocks import FRAME
from jacquard.core.receipt import Action, BlockSpan, CandidateDecision, Report, SentPrompt
from jacquard.pipeline.record.prepared_turn import PreparedTurn
from jacquard.pipeline.weaving.assemble import PromptMessage
from mnemosyne.schema.query import SIGNAL_NAMES

_STYLES = {
    Subject.NONE: "",
    Subject.WORLD: "cyan",
    Subject.DIRECTIVE: "bright_magenta",
    Subject.STATE: "green",
    Subject.GUIDANCE: "magenta",
    Subject.MEMORIES: "yellow",
    Subject.TALK: "blue",
    Subject.INPUT: "bold",
}
_LEGEND = "world cyan · state green · guidance magenta · memories yellow · talk blue · input bold"


def style_of(source: str) -> str:
    """Return the colour for a block's source (such as `automation:chat/status.j2`, `curation:lore` or `history`)."""
    return _STYLES[subject_of(source)]


def show_turn(turn: PreparedTurn) -> None:
    """Print the prompt of a turn, coloured by source, and its receipt.

    A turn that a numerical action answered has no prompt; its answer is printed instead.
    """
    if turn.reply is not None:
        tell(f"numerical action {turn.plan.action_id}: applied, no model is called", "bold")
        show(turn.reply)
        return
    sources = {d.block_id: d.source for d in turn.report.decisions}
    show_messages(turn.messages, turn.report.spans, sources)
    out.rule(Text(speak("receipt")), align="left", style="dim")
    show_receipt(turn.report)


def show_messages(messages: Sequence[PromptMessage], spans: Sequence[BlockSpan], sources: Mapping[str, str]) -> None:
    """Print the messages of a prompt, each with its number of tokens.

    `spans` are the places of blocks in the messages. `sources` maps the id of each block to its source, which decides
    the colour of the block.
    """
    for place, message in enumerate(messages):
        own = [span for span in spans if span.message == place]
        tokens = sum(span.tokens for span in own)
        out.rule(Text(speak(f"{message.role} · {tokens} tokens")), align="left", style="dim")
        line = Text()
        for span in own:
            style = "dim" if span.block_id == FRAME else style_of(sources.get(span.block_id, ""))
            line.append(clean(message.content[span.start : span.end]), style=style)
        show(line)


def show_receipt(report: Report) -> None:
    """Print a receipt: all decisions about the prompt of one turn, each with its reason."""
    tell(f"turn {report.turn_id} · template {report.template_id} · layout {report.layout}")
    stream = report.stream_b
    model = f" · model {stream.model}" if stream.model else ""
    tell(f"stream B: {stream.path.value}{model} · {stream.reason}", "bold")
    asked, answered = (stream.counts.get(name) for name in ("prompt_tokens", "completion_tokens"))
    if asked is not None:
        tell(f"its call: {asked} tokens asked, {answered or 0} answered")
    if stream.rationale:
        tell(f"its reason: {stream.rationale}")
    if stream.prefetch_refused:
        tell(f"a late result was at hand but not used: {stream.prefetch_refused}")
    if stream.lease_refused:
        tell(f"an earlier choice was at hand but not used again: {stream.lease_refused}")
    places = {name: place for place, name in enumerate(stream.selected)}
    chosen = sorted((c for c in stream.candidates if c.chosen), key=lambda c: places.get(c.entry_id, len(places)))
    floor = f", relevance floor {stream.relevance_floor:.0%}" if stream.relevance_floor else ""
    tell(f"candidates: {len(stream.candidates)} recalled, {len(chosen)} chosen{floor}")
    for candidate in chosen:
        tell(f"  {candidate.entry_id} ({candidate.chain}, rank {candidate.rank}): {candidate.reason}", "yellow")
    _show_activation(report)
    results = [each for each in report.evidence if not each.chosen]
    if report.evidence:
        tell(f"evidence: {len(report.evidence)} candidates, {len(report.evidence) - len(results)} chosen")
    for each in results:
        tell(f"  not {each.entry_id} ({each.title or each.kind}): {each.code}: {each.reason}", "dim")
    for removed in report.redactions:
        counts = ", ".join(f"{name} ×{number}" for name, number in removed.counts.items())
        tell(
            f"redacted: {removed.block_id or removed.evidence_id}: {counts or ', '.join(removed.rules_applied)}", "dim"
        )
    _show_blocks(report)
    for gone in report.left_out:
        last = f" to {gone.last}" if gone.last not in ("", gone.first) else ""
        place = f" {gone.first}{last}" if gone.first else ""
        tell(f"not in the prompt: {gone.what}{place} ({gone.code}): {gone.reason}", "dim")
    budget, prefix = report.budget, report.prefix
    if report.sent is not None:
        _show_sent(report.sent, budget.counter)
    else:
        tell(f"budget: {budget.used_tokens} of {budget.limit_tokens} tokens (counted by: {budget.counter})")
    if report.sent is None and (prefix.shared_tokens or prefix.first_break):
        broken = f", first break in {prefix.first_break}" if prefix.first_break else ""
        tell(f"prefix shared with the turn before: {prefix.shared_tokens} of {prefix.total_tokens} tokens{broken}")
    tell("timings: " + " · ".join(f"{name} {ms:.1f} ms" for name, ms in report.timings_ms.items()))
    for item in report.degradations:
        tell(f"done without: {item.code}: {item.detail}", "red")


def _show_sent(sent: SentPrompt, counter: str) -> None:
    """Print the messages of a proxied call in their order: the client's own, and ours."""
    sums = f"{sent.client_tokens} tokens of the client's own, {sent.our_tokens} of ours (counted by: {counter})"
    table = Table(title=speak(f"sent: {sums}"), title_justify="left", box=None, pad_edge=False)
    _add_columns(table, "message · tokens · role · whose · what", numbers=2)
    for each in sent.texts:
        whose, what = ("ours", ", ".join(each.blocks)) if each.is_ours else ("client's", each.digest)
        table.add_row(str(each.message), str(each.tokens), Text(clean(each.role)), speak(whose), Text(clean(what)))
    out.print(table)
    for sentence in sent.alignment:
        tell(f"conversation: {sentence}")


def _show_activation(report: Report) -> None:
    """Print the world info entries that the rules activated or rejected."""
    if not report.activation:
        return
    shown = sum(each.chosen for each in report.activation)
    tell(f"world info: {len(report.activation)} entries set off, {shown} shown")
    for each in report.activation:
        name = f"{each.entry_id}  {each.title}" if each.title and each.title != each.entry_id else each.entry_id
        place = f" [{each.position}]" if each.position else ""
        if each.chosen:
            tell(f"  {name}{place}: {each.code}: {speak(each.reason)}", style_of(WORLD_INFO_SOURCE))
        else:
            tell(f"  not {name}: {each.code}: {each.reason}", "dim")


def _show_blocks(report: Report) -> None:
    table = Table(
        title=speak("tokens by block"), title_justify="left", box=None, pad_edge=False, caption=speak(_LEGEND)
    )
    _add_columns(table, "tokens · block · source · decision", numbers=1)
    frame = sum(span.tokens for span in report.spans if span.block_id == FRAME)
    for d in report.decisions:
        style = style_of(d.source) if d.action is Action.KEPT else "dim strike"
        name = f"{d.block_id}  {d.title}" if d.title and d.title != d.block_id else d.block_id
        decision = (
            f"{d.action.value} ({d.code})" if d.action is Action.KEPT else f"{d.action.value} ({d.code}): {d.reason}"
        )
        table.add_row(str(d.tokens), Text(clean(name), style=style), Text(d.source), Text(clean(speak(decision))))
    table.add_row(
        str(frame),
        Text(speak("frame"), style="dim"),
        Text(""),
        Text(speak("tags, blank lines, message overhead"), style="dim"),
    )
    out.print(table)


def _add_columns(table: Table, names: str, numbers: int) -> None:
    """Add the columns `names` in the chosen language; the first `numbers` of them contain numbers."""
    for place, name in enumerate(speak(names).split(" · ")):
        table.add_column(name, justify="right" if place < numbers else "left")


def show_candidates(candidates: Iterable[CandidateDecision]) -> None:
    """Print every candidate with the parts of its score, and the reason why it was or was not chosen."""
    table = Table(title=speak("candidates, best first"), title_justify="left", box=None, pad_edge=False)
    _add_columns(table, "rank · score · entry · chain · signals · decision", numbers=2)
    for c in candidates:
        parts = {name: getattr(c.signals, name) for name in SIGNAL_NAMES}
        signals = " ".join(f"{name}={value:.2f}" for name, value in parts.items() if value is not None)
        style = "bold yellow" if c.chosen else "dim"
        name = f"{c.entry_id}  {c.title}" if c.title else c.entry_id
        table.add_row(
            str(c.rank),
            f"{c.score:.3f}",
            Text(clean(name), style=style),
            c.chain,
            signals,
            Text(clean(f"{c.code}: {speak(c.reason)}")),
        )
    out.print(table)


def show_tree(tree: Mapping[str, Any]) -> None:
    """Print a state in the form in which the model sees it."""
    show(dump_yaml(display(tree)))

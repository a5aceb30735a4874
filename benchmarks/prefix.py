"""Share of each prompt that a provider's prefix cache would use again, turn by turn, and the block that broke it.

A conversation is played turn by turn in each layout: one party's words are the input, the other's the reply. Only the
text before the volatile tail counts, up to the last message of the history: in `cache_first` it should change only by
growing, until the window moves on. Tokens only, no clock: the same conversation gives the same figures everywhere.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice, pairwise
from pathlib import Path
from typing import Any

from anyio import to_thread
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.conversation import lore_of_things, questions, scenes, utterances
from evals.errors import SetupError
from filament import escape_text
from jacquard import PreparedTurn, Runtime, RuntimeConfig, open_runtime
from jacquard.pipeline.worlds import build_bare_world
from mnemosyne import SessionStart, load_world
from mnemosyne.formats.corpora.corpus import corpus_file, read_corpus
from mnemosyne.schema.memory import world_scope
from mnemosyne.schema.world import WorldPack

LAYOUTS = ("classic", "cache_first", "cache_append")
SEED = 23
LORE_CHAT = "lore-chat"
CACHE_LEAST_TOKENS, CACHE_STEP_TOKENS = 1024, 128
"""Providers that cache by themselves do so from a least length on, in steps; others to the token. Both are printed."""
TOLERANCE = 0.002

Say = Callable[[str], None]
Progress = Callable[[str, int, int], None]
Exchange = tuple[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One turn."""

    turn: int
    total: int
    """Tokens of its prompt."""
    before_tail: int
    """Tokens before its tail."""
    shared: int
    """Tokens shared with the prompt before."""
    broken: str
    """Block at which they part."""
    kind: str
    """Kind of that block: `new talk` (the history grew), `window` (it moved on), else its template or stream."""

    @property
    def reused(self) -> int:
        """Return the share of the text before the tail that is used again."""
        return min(self.shared, self.before_tail)

    @property
    def stepped(self) -> int:
        """Return the share that a cache with a least length and steps would use again."""
        return 0 if self.shared < CACHE_LEAST_TOKENS else self.shared // CACHE_STEP_TOKENS * CACHE_STEP_TOKENS


def exchanges_of(folder: Path, session: str | None) -> tuple[str, list[Exchange]]:
    """Return the name and the exchanges of a conversation of a set (None: its longest): what one party said, what came back.

    Messages that follow one another from one party are one. SetupError if there are none.
    """
    corpus = read_corpus(corpus_file(folder))
    talks: dict[str, list[tuple[str, str]]] = {}
    for document in corpus.documents:
        if document.session is not None and document.speaker is not None and document.text.strip():
            talks.setdefault(document.session, []).append((document.speaker, document.text))
    if not talks or (session is not None and session not in talks):
        known = ", ".join(sorted(talks)[:8]) or "none"
        raise SetupError(f"{folder}: no conversation {session or ''} with speakers in it; there are: {known}.")
    name = session or max(talks, key=lambda each: (len(talks[each]), each))
    said = [
        (speaker, "\n".join(text for _, text in run)) for speaker, run in groupby(talks[name], key=lambda row: row[0])
    ]
    user = said[0][0]
    pairs: list[Exchange] = []
    for (speaker, text), (_, answer) in pairwise(said):
        if speaker == user:
            pairs.append((text, answer))
    return name, pairs


def make_exchanges(world: WorldPack, turns: int) -> Iterator[Exchange]:
    """Yield made-up exchanges for a world: they ask after its things, and every third reply changes its numbers."""
    answers = utterances(turns, SEED)
    names = [entity.name for entity in world.entities] or ["it"]
    number = _number_path(world.state)
    for place, (asked, answer) in enumerate(zip(questions(turns, SEED), answers, strict=True)):
        text = f"{names[place * 7 % len(names)]}? {asked}"
        ops = f'<state_update>[["ADD", "{number}", 1]]</state_update>' if number and place % 3 == 0 else ""
        yield text, f"{answer}{ops}"


def make_lore_chat(turns: int) -> tuple[WorldPack, list[Exchange]]:
    """Return a world without state, with lore, and made-up exchanges that ask after it: a plain chat, of four sentences a reply."""
    said = utterances(4 * turns, SEED)
    replies = [" ".join(islice(said, 4)) for _ in range(turns)]
    lore = tuple(lore_of_things(world_scope(LORE_CHAT), SEED))
    return replace(build_bare_world(LORE_CHAT), lore=lore, digest=LORE_CHAT), list(
        zip(scenes(turns, SEED), replies, strict=True)
    )


def _number_path(state: Mapping[str, Any]) -> str:
    """Return the path of a number that may grow, or an empty text."""
    for key, value in state.items():
        for name, each in value.items() if isinstance(value, Mapping) else ():
            if isinstance(each, int) and not isinstance(each, bool) and not str(name).startswith(("$", "_")):
                return f"{key}.{name}"
    return ""


async def measure(
    runtime: Runtime, session_id: str, pairs: Sequence[Exchange], layout: str, progress: Progress
) -> list[Sample]:
    """Play the exchanges in one layout and return a sample for each turn but the first, which has nothing before it."""
    config = RuntimeConfig(layout=layout)
    samples: list[Sample] = []
    for place, (text, answer) in enumerate(pairs):
        prepared = await runtime.engine.prepare_turn(session_id, text, config)
        if prepared.reply is None:
            content, mark, ops = answer.partition("<state_update>")
            reply = f"<content>{escape_text(content)}</content>{mark}{ops}"
            await runtime.engine.commit_assistant_message(session_id, reply, turn_id=prepared.turn_id)
            if place:
                samples.append(sample_of(prepared, place + 1))
        progress(layout, place + 1, len(pairs))
    return samples


def sample_of(turn: PreparedTurn, number: int) -> Sample:
    """Return what a prepared turn shares with the one before."""
    report = turn.report
    sources = {decision.block_id: decision.source for decision in report.decisions}
    last = max((n for n, span in enumerate(report.spans) if sources.get(span.block_id) == "history"), default=-1)
    if last < 0:
        last = max((n for n, span in enumerate(report.spans) if span.message == 0), default=-1)
    shown = [span.block_id for span in report.spans if sources.get(span.block_id) == "history"]
    broken = report.prefix.first_break or ""
    kind = sources.get(broken, "none")
    if kind == "history":
        kind = "window" if shown and broken == shown[0] else "new talk"
    elif kind == "user":
        kind = "new talk"
    return Sample(
        turn=number,
        total=report.prefix.total_tokens,
        before_tail=sum(span.tokens for span in report.spans[: last + 1]),
        shared=report.prefix.shared_tokens,
        broken=broken,
        kind=kind,
    )


def sum_samples(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return the shares of a run (0..1, by tokens over all turns), what broke prefixes, and each turn."""
    total, before = sum(s.total for s in samples), sum(s.before_tail for s in samples)
    lost: Counter[str] = Counter()
    for each in samples:
        lost[each.kind] += each.before_tail - each.reused
    shares = sorted(each.shared / each.total for each in samples)
    return {
        "turns": len(samples) + 1,
        "share_of_prompt": sum(s.shared for s in samples) / total if total else 0.0,
        "share_of_prompt_in_steps": sum(s.stepped for s in samples) / total if total else 0.0,
        "share_before_tail": sum(s.reused for s in samples) / before if before else 0.0,
        "median_share_of_prompt": shares[len(shares) // 2] if shares else 0.0,
        "least_share_of_prompt": shares[0] if shares else 0.0,
        "prompt_tokens": total,
        "new_tokens": total - sum(s.shared for s in samples),
        "before_tail_tokens": before,
        "broken_by": {
            kind: {"turns": count, "tokens_lost_before_tail": lost[kind]}
            for kind, count in Counter(each.kind for each in samples).most_common()
        },
        "by_turn": [
            {
                "turn": s.turn,
                "total": s.total,
                "before_tail": s.before_tail,
                "shared": s.shared,
                "share": round(s.shared / s.total, 4),
                "broken": s.broken,
                "kind": s.kind,
            }
            for s in samples
        ],
    }


async def run(
    data: Path | None, world: Path | None, session: str | None, turns: int, embedder: str, say: Say, progress: Progress
) -> dict[str, Any]:
    """Play the conversation in every layout, each in a store of its own, and return the figures; without one, a chat with lore."""
    pack = None if world is None else await to_thread.run_sync(load_world, world)
    if pack is not None:
        name, pairs = pack.world_id, list(make_exchanges(pack, turns))
    elif data is not None:
        name, pairs = await to_thread.run_sync(exchanges_of, data, session)
        pairs = list(islice(pairs, turns))
    else:
        (pack, pairs), name = make_lore_chat(turns), LORE_CHAT
    figures: dict[str, Any] = {"conversation": name, "embedder": embedder, "layouts": {}}
    for layout in LAYOUTS:
        say(f"playing {len(pairs)} turns of {name} in layout {layout}")
        with tempfile.TemporaryDirectory(prefix="jacquard-bench-") as folder:
            async with open_runtime(folder, world=pack, embedder=embedder) as runtime:
                if pack is not None:
                    await runtime.engine.start_session(name, pack)
                else:
                    start = SessionStart(session_id=name, world_id="", locale="en", state={})
                    await runtime.import_session(start)
                await runtime.warm()
                await runtime.sync(name)
                samples = await measure(runtime, name, pairs, layout, progress)
        figures["layouts"][layout] = sum_samples(samples)
    return figures


def find_drops(figures: Mapping[str, Any], baseline: Mapping[str, float]) -> list[str]:
    """Return a sentence for each layout whose share before the tail fell below its baseline."""
    drops = []
    for layout, before in baseline.items():
        now = figures["layouts"][layout]["share_before_tail"]
        if now < before - TOLERANCE:
            drops.append(f"{layout}: {now:.1%} of the tokens before the tail are used again; it was {before:.1%}.")
    return drops


def baseline_of(figures: Mapping[str, Any]) -> dict[str, float]:
    """Return what `find_drops` compares with."""
    return {layout: round(row["share_before_tail"], 4) for layout, row in figures["layouts"].items()}


def read_baseline(file: Path) -> dict[str, float]:
    """Return a baseline that was written before; SetupError if it is not one."""
    try:
        shares = json.loads(file.read_text(encoding="utf-8"))
        return {str(layout): float(share) for layout, share in shares.items()}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise SetupError(
            f"{file}: is not a baseline of this benchmark ({error}); write one with --write-baseline."
        ) from error


def show(figures: Mapping[str, Any], console: Console) -> None:
    """Print the figures side by side."""
    layouts = figures["layouts"]
    table = Table(title=f"what a prefix cache uses again: {figures['conversation']}", title_justify="left")
    table.add_column("of")
    for layout in layouts:
        table.add_column(layout, justify="right")
    for title, key in (
        ("tokens before the tail", "share_before_tail"),
        ("all prompt tokens", "share_of_prompt"),
        (f"in steps of {CACHE_STEP_TOKENS}, from {CACHE_LEAST_TOKENS}", "share_of_prompt_in_steps"),
        ("median turn", "median_share_of_prompt"),
        ("worst turn", "least_share_of_prompt"),
    ):
        table.add_row(
            title, *(f"{row[key]:.1%}" for row in layouts.values()), style="bold" if key == "share_before_tail" else ""
        )
    table.add_row("turns", *(str(row["turns"]) for row in layouts.values()))
    for title, key in (("prompt tokens", "prompt_tokens"), ("of these not used again", "new_tokens")):
        table.add_row(title, *(f"{row[key]:,}" for row in layouts.values()))
    console.print(table)
    for layout, row in layouts.items():
        for kind, broken in row["broken_by"].items():
            lost = broken["tokens_lost_before_tail"]
            console.print(Text(f"{layout}: {kind} broke {broken['turns']} turns, {lost:,} tokens before the tail lost"))


def show_turns(figures: Mapping[str, Any], console: Console) -> None:
    """Print the share of each turn in each layout, and the block that broke it."""
    layouts = figures["layouts"]
    table = Table(title="by turn", title_justify="left")
    table.add_column("turn", justify="right")
    for layout in layouts:
        table.add_column(layout, justify="right")
        table.add_column("broken by")
    rows: dict[int, dict[str, Mapping[str, Any]]] = {}
    for layout, figures_of_layout in layouts.items():
        for row in figures_of_layout["by_turn"]:
            rows.setdefault(row["turn"], {})[layout] = row
    for turn, by_layout in sorted(rows.items()):
        cells = [str(turn)]
        for layout in layouts:
            row = by_layout.get(layout)
            cells += ["", ""] if row is None else [f"{row['share']:.0%}", f"{row['broken']} ({row['kind']})"]
        table.add_row(*map(Text, cells))
    console.print(table)

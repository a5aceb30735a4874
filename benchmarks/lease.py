"""What a lease on the selector's choice saves and what it loses: one made-up talk played with and without it, over real HTTP.

The labelled inputs of the example worlds are put in an order in which those that share evidence stand together, as a scene;
players nod and say "go on" in between. The model server chooses what the labels say (an oracle) and takes a fixed time for
it, so that what the lease keeps is measured against the best choice there is, turn by turn.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

from anyio import to_thread
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.deadline.server import ServerProcess
from evals.dataset import LabelledQuery, read_queries
from evals.reporting.figures import percentiles
from evals.reporting.machine import load, machine
from jacquard import CurationConfig, Report, Runtime, RuntimeConfig, SelectorConfig, open_runtime

SEED = 17
SCENE_INPUTS = 4
PATIENCE_MS = 60_000
SETS = Path(__file__).parents[1] / "evals" / "sets"
WORLDS = Path(__file__).parents[1] / "examples" / "whispering_forest"
LANGUAGES = ("en", "zh")
SMALL_TALK = {
    "en": ("Go on.", "I nod.", "I wait and listen.", "Tell me more.", "I say nothing."),
    "zh": ("继续。", "我点点头。", "我静静听着。", "然后呢?", "我没有说话。"),
}
ARMS = {"rules": "no model", "asked": "asked every turn", "lease": "with a lease"}
REPLIES = {
    "en": "<content>A while goes by, and nobody speaks.</content>",
    "zh": "<content>过了一会儿,没有人说话。</content>",
}
_KINDS = {
    "names": "something is named for the first time",
    "fits this turn better": "something else fits better",
    "is recalled any more": "nothing of it is recalled any more",
    "speaks of the": "the input speaks of another time",
    "template changed": "the template changed",
    "focus moved": "the focus moved",
    "turns ago": "its turns are over",
    "viewer": "another viewer",
}
"""Why leases end, by words of the receipt's sentence."""
_COLUMNS = ("", "turns", "calls", "tokens", "p50 ms", "p95 ms", "kept %", "apt %", "prefix %", "leased", "astray")
_LEGEND = (
    "tokens: of the calls · kept: of what the labels would choose out of this turn's candidates · apt: of what was chosen · "
    "prefix: shared with the turn before · leased: leases used of those at hand · astray: used over the end of a scene"
)

Say = Callable[[str], None]
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What is played: inputs in each of the languages, the lease, the share of inputs that only nod, and the embedder."""

    turns: int = 100
    lease_turns: int = 4
    margin: float = 1.25
    small_talk: float = 0.5
    languages: tuple[str, ...] = LANGUAGES
    embedder: str = "none"


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One input of the talk, with what it wants (best first), its scene, and who reads the answer."""

    text: str
    wanted: tuple[str, ...]
    scene: int
    viewer: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PlayedTurn:
    """One turn of it: `best` of what was wanted could be chosen, `kept` of that was."""

    line: Line
    report: Report
    wall_ms: float
    best: int
    kept: int
    carried_over: bool


def select_talk(queries: Sequence[LabelledQuery], language: str, settings: Settings) -> tuple[Line, ...]:
    """Return the talk: scenes of up to four inputs that share evidence, in the order of the file, with nods in between.

    A nod wants what the input before it wanted.
    """
    random, lines = Random(SEED), list[Line]()
    for number, scene in enumerate(scenes_of(queries)):
        for query in scene:
            wanted = tuple(
                sorted((name for name, grade in query.relevant.items() if grade), key=_order_by_grade(query))
            )
            line = Line(text=query.text, wanted=wanted, scene=number, viewer=query.viewer)
            lines.append(line)
            if random.random() < settings.small_talk:
                lines.append(replace(line, text=random.choice(SMALL_TALK[language])))
    return tuple(lines[: settings.turns])


def scenes_of(queries: Sequence[LabelledQuery]) -> Iterator[tuple[LabelledQuery, ...]]:
    """Yield the scenes; each query that wants anything is in one of them."""
    left = [query for query in queries if any(query.relevant.values())]
    while left:
        scene, about = [left.pop(0)], set[str]()
        for query in tuple(left):
            about |= set(scene[-1].relevant)
            if len(scene) < SCENE_INPUTS and query.viewer == scene[0].viewer and about & set(query.relevant):
                scene.append(query)
                left.remove(query)
        yield tuple(scene)


async def run(settings: Settings, say: Say, progress: Progress) -> dict[str, Any]:
    """Play each talk by rules alone, asked every turn, and with the lease; return the figures with a row a turn."""
    before, arms = load(), dict[str, Any]()
    with tempfile.TemporaryDirectory(prefix="jacquard-bench-") as name:
        for language in settings.languages:
            file = SETS / f"whispering_forest_{language}.jsonl"
            lines = select_talk(await to_thread.run_sync(read_queries, file), language, settings)
            for arm, turns in (("rules", None), ("asked", 0), ("lease", settings.lease_turns)):
                say(f"{language}: {len(lines)} turns, {ARMS[arm]}")
                folder = Path(name) / f"{language}-{arm}"
                folder.mkdir()
                report = _prefix_progress(f"{language} {arm}", progress)
                played, requests = await _play(folder, language, lines, settings, turns, report)
                arms[f"{language} {arm}"] = {**_figures(played, requests), "rows": [_row(each) for each in played]}
    return {
        "settings": {name: getattr(settings, name) for name in Settings.__dataclass_fields__},
        "arms": arms,
        "machine": await to_thread.run_sync(machine),
        "load": {"before": before, "after": load()},
    }


async def _play(
    folder: Path, language: str, lines: Sequence[Line], settings: Settings, lease_turns: int | None, progress: Progress
) -> tuple[list[PlayedTurn], list[dict[str, Any]]]:
    played: list[PlayedTurn] = []
    async with ServerProcess(folder / "requests.jsonl", SEED) as server:
        config = RuntimeConfig(
            curation=CurationConfig(
                deadline_ms=PATIENCE_MS, lease_turns=lease_turns or 0, lease_margin=settings.margin
            ),
            selector=SelectorConfig(model=None if lease_turns is None else "openai/oracle", api_base=server.api_base),
        )
        world = WORLDS / language
        async with open_runtime(folder / "store", world=world, embedder=settings.embedder, config=config) as runtime:
            await runtime.ensure_session("s")
            await runtime.warm(lines[0].text)
            scene_of_turn: dict[str, int] = {}
            for line in lines:
                await server.put(f"choose {json.dumps(line.wanted)}")
                one = await _turn(runtime, line, replace(config, viewer=line.viewer), scene_of_turn)
                await runtime.engine.commit_assistant_message("s", REPLIES[language])
                played.append(one)
                progress("turns", len(played), len(lines))
        return played, await server.requests()


async def _turn(runtime: Runtime, line: Line, config: RuntimeConfig, scenes: dict[str, int]) -> PlayedTurn:
    began = perf_counter()
    turn = await runtime.engine.prepare_turn("s", line.text, config)
    wall_ms = (perf_counter() - began) * 1000
    scenes[turn.turn_id] = line.scene
    stream = turn.report.stream_b
    there = {each.entry_id for each in stream.candidates}
    best = [name for name in line.wanted if name in there][: config.curation.select_limit]
    return PlayedTurn(
        line=line,
        report=turn.report,
        wall_ms=wall_ms,
        best=len(best),
        kept=len(set(best) & set(stream.selected)),
        carried_over=stream.path.value == "leased" and scenes[stream.chosen_for] != line.scene,
    )


def _figures(played: Sequence[PlayedTurn], requests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    streams = [each.report.stream_b for each in played]
    used = sum(each.path.value == "leased" for each in streams)
    refused = Counter(_kind(each.lease_refused) for each in streams if each.lease_refused)
    chosen = sum(len(each.selected) for each in streams)
    best, kept = sum(each.best for each in played), sum(each.kept for each in played)
    prefixes = [each.report.prefix for each in played[1:]]
    return {
        "turns": len(played),
        "calls": len(requests),
        "tokens": sum(int(each["tokens"]) for each in requests),
        "prepare_ms": _spread([each.wall_ms for each in played]),
        "recall_ms": _spread([float(each.report.timings_ms.get("recall", 0.0)) for each in played]),
        "by_road_ms": {
            path: _spread([each.wall_ms for each, stream in zip(played, streams, strict=True) if stream.path == path])
            for path in sorted({stream.path for stream in streams})
        },
        "paths": dict(Counter(each.path.value for each in streams)),
        "best": best,
        "kept": kept,
        "chosen": chosen,
        "shared_prefix": sum(each.shared_tokens for each in prefixes)
        / max(1, sum(each.total_tokens for each in prefixes)),
        "lease": {"offered": used + sum(refused.values()), "used": used, "ended": dict(refused.most_common())},
        "carried_over": sum(each.carried_over for each in played),
    }


def _kind(refused: str) -> str:
    return next((kind for words, kind in _KINDS.items() if words in refused), refused)


def _spread(values: Sequence[float]) -> dict[str, float]:
    p50, p95 = percentiles(values, 50, 95)
    return {"p50": round(p50, 1), "p95": round(p95, 1)}


def _row(played: PlayedTurn) -> dict[str, Any]:
    stream = played.report.stream_b
    return {
        "text": played.line.text,
        "scene": played.line.scene,
        "path": stream.path.value,
        "reason": stream.reason,
        "refused": stream.lease_refused,
        "wanted": list(played.line.wanted),
        "selected": list(stream.selected),
        "best": played.best,
        "kept": played.kept,
        "wall_ms": round(played.wall_ms, 1),
    }


def show(figures: Mapping[str, Any], console: Console) -> None:
    """Print the table and why leases ended."""
    table = Table(title="a talk with and without a lease on the selector's choice", title_justify="left", box=None)
    for name in _COLUMNS:
        table.add_column(name, justify="right" if name else "left")
    for name, arm in figures["arms"].items():
        offered, used = arm["lease"]["offered"], arm["lease"]["used"]
        table.add_row(
            name,
            str(arm["turns"]),
            str(arm["calls"]),
            f"{arm['tokens']:,}",
            f"{arm['prepare_ms']['p50']:.0f}",
            f"{arm['prepare_ms']['p95']:.0f}",
            f"{100 * arm['kept'] / max(1, arm['best']):.1f}",
            f"{100 * arm['kept'] / max(1, arm['chosen']):.1f}",
            f"{100 * arm['shared_prefix']:.1f}",
            f"{used} of {offered}" if offered else "-",
            str(arm["carried_over"]),
        )
    console.print(table)
    for name, arm in figures["arms"].items():
        if "leased" in (roads := arm["by_road_ms"]):
            times = ", ".join(f"{road} {spread['p50']:.0f} / {spread['p95']:.0f} ms" for road, spread in roads.items())
            console.print(Text(f"  {name}: prepare p50 / p95 by road, in one run: {times}"))
        for why, count in arm["lease"]["ended"].items():
            console.print(Text(f"  {name}: {count} ended: {why}"))
    console.print(Text(_LEGEND, style="dim"))
    console.print(Text(f"load of the machine: {figures['load']['before']} before, {figures['load']['after']} after"))


def _order_by_grade(query: LabelledQuery) -> Callable[[str], int]:
    return lambda name: -query.relevant[name]


def _prefix_progress(name: str, progress: Progress) -> Progress:
    return lambda what, done, total: progress(f"{name}: {what}", done, total)

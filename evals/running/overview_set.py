"""Run on labelled overviews: every input is a turn of the example world whose earlier turns are in no window and no
summary.

The set is a folder with one file of JSON lines a language; `sets/overview/README.md` explains its fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from rich.console import Console
from rich.table import Table
from rich.text import Text

from evals.dataset import read_by_language
from evals.running.gate import EXAMPLE_PREFIX, find_world
from jacquard import CurationConfig, HistoryConfig, Runtime, RuntimeConfig, SummaryConfig, open_runtime
from mnemosyne import Chain, MemoryEntry
from mnemosyne.schema.memory import session_scope, world_scope

LANGUAGES = ("zh", "en")
HALVES = ("tune", "gate")
_WORLD = f"{EXAMPLE_PREFIX}whispering_forest"
_SESSION = "played"
_PATIENCE_MS = 600_000
_SHOWN_MESSAGES = 8
_BATCH = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledOverview:
    """One line of the set."""

    input_id: str
    language: str
    half: str
    text: str
    scopes: tuple[str, ...]
    """Accepted scopes (none: the input does not ask for an overview)."""
    expected: tuple[frozenset[int | str], ...]
    """Memories that are expected, each as alternatives."""
    belongs: frozenset[int | str] | None
    """Memories that may be shown (None: everything): turns, and ids of entries."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OverviewRow:
    """An input with what came of it: its scope (None: no overview), and how many expected memories were found, and how many of the
    chosen ones belong.
    """

    labelled: LabelledOverview
    scope: str | None
    found: int
    chosen: int
    fitting: int

    @property
    def is_right(self) -> bool:
        """Whether the scope is an accepted one."""
        return self.scope in self.labelled.scopes if self.labelled.scopes else self.scope is None


def read_overviews(folder: Path) -> tuple[LabelledOverview, ...]:
    """Read the set; DatasetError, with file and line, for a line that is none."""
    return read_by_language(folder, LANGUAGES, _read_line, "labelled overview")


def _read_line(value: Mapping[str, Any], language: str) -> LabelledOverview:
    if value["half"] not in HALVES:
        raise ValueError(f"half {value['half']!r} is unknown")
    return LabelledOverview(
        input_id=value["id"],
        language=language,
        half=value["half"],
        text=value["input"],
        scopes=tuple(value["scopes"]),
        expected=tuple(frozenset(each) for each in value["expected"]),
        belongs=None if value["belongs"] == "all" else frozenset(value["belongs"]),
    )


async def run_overviews(
    folder: Path, embedder: str = "auto", progress: Callable[[str, int, int], None] = lambda what, done, total: None
) -> tuple[OverviewRow, ...]:
    """Prepare a turn for every input of the set, in its order."""
    inputs, rows = await anyio.to_thread.run_sync(read_overviews, folder), []
    config = RuntimeConfig(
        history=HistoryConfig(max_messages=_SHOWN_MESSAGES),
        summary=SummaryConfig(enabled=False),
        curation=CurationConfig(deadline_ms=_PATIENCE_MS),
    )
    for language in LANGUAGES:
        world = await anyio.to_thread.run_sync(find_world, folder, f"{_WORLD}/{language}")
        async with open_runtime("memory:", world=world, embedder=embedder, config=config) as runtime:
            head = await runtime.ensure_session(_SESSION)
            known = await _read_entries(runtime, (world_scope(head.world_id), session_scope(_SESSION)))
            for each in inputs:
                if each.language == language:
                    # A branch for each, because an input without a reply would belong to the session of the next.
                    await runtime.store.fork(_SESSION, head.turn_id, each.input_id)
                    rows.append(await _play(runtime, each, known))
                    progress("inputs", len(rows), len(inputs))
    return tuple(rows)


async def _read_entries(runtime: Runtime, scopes: Iterable[str]) -> Mapping[str, MemoryEntry]:
    found = [
        each.entry
        for scope in scopes
        for chain in Chain
        for each in await runtime.store.entries_after(scope, chain, 0, _BATCH)
    ]
    return {entry.entry_id: entry for entry in found}


async def _play(runtime: Runtime, labelled: LabelledOverview, known: Mapping[str, MemoryEntry]) -> OverviewRow:
    prepared = await runtime.engine.prepare_turn(_SESSION, labelled.text)
    overview = prepared.plan.search_intent.overview
    told = [_told_by(name, known) for name in prepared.report.stream_b.selected]
    everything = frozenset().union(*told)
    belongs = labelled.belongs
    return OverviewRow(
        labelled=labelled,
        scope=None if overview is None else overview.value,
        found=sum(not each.isdisjoint(everything) for each in labelled.expected),
        chosen=len(told),
        fitting=sum(belongs is None or not each.isdisjoint(belongs) for each in told),
    )


def _told_by(name: str, known: Mapping[str, MemoryEntry]) -> frozenset[int | str]:
    """Return the content of a memory: its own id, and its turn or turns."""
    entry = known.get(name)
    if entry is None or entry.depth is None:
        return frozenset({name})
    first = entry.metadata.get("from_turn", entry.depth)
    return frozenset({name, *range(first, entry.depth + 1)})


def overviews_json(rows: Sequence[OverviewRow]) -> dict[str, Any]:
    """Return the scores by half and language, and what was missed in the half `tune`; the misses of `gate` are never listed."""
    halves = {half: [row for row in rows if row.labelled.half == half] for half in HALVES}
    return {
        "inputs": len(rows),
        "halves": {
            half: {
                "both": _score(own),
                **{name: _score([row for row in own if row.labelled.language == name]) for name in LANGUAGES},
            }
            for half, own in halves.items()
        },
        "misses": [
            {
                "id": row.labelled.input_id,
                "input": row.labelled.text,
                "scope": row.scope,
                "wanted": list(row.labelled.scopes),
                "found": f"{row.found}/{len(row.labelled.expected)}",
                "fitting": f"{row.fitting}/{row.chosen}",
            }
            for row in halves["tune"]
            if not row.is_right
            or (row.labelled.scopes and (row.found < len(row.labelled.expected) or row.fitting < row.chosen))
        ],
    }


def _score(rows: Sequence[OverviewRow]) -> dict[str, int | float]:
    """Return shares (0..1) of recognised overviews, false ones, expected memories found, and chosen ones that belong; counts."""
    wanted = [row for row in rows if row.labelled.scopes]
    others = [row for row in rows if not row.labelled.scopes]
    expected, chosen = sum(len(row.labelled.expected) for row in wanted), sum(row.chosen for row in wanted)
    return {
        "recognised": _share(sum(row.is_right for row in wanted), len(wanted)),
        "false": _share(sum(not row.is_right for row in others), len(others)),
        "recall": _share(sum(row.found for row in wanted), expected),
        "precision": _share(sum(row.fitting for row in wanted), chosen),
        "expected": expected,
        "found": sum(row.found for row in wanted),
        "chosen": chosen,
        "inputs": len(rows),
    }


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


def find_falls(report: Mapping[str, Any], kept: Mapping[str, Mapping[str, float]], tolerance: float) -> list[str]:
    """Return a sentence for each share of the half `gate` that is worse than the one that was kept; `tolerance` in points."""
    faults = []
    for language, least in kept.items():
        now = report["halves"]["gate"][language]
        for name, share in least.items():
            fall = 100 * ((now[name] - share) if name == "false" else (share - now[name]))
            if fall > tolerance:
                faults.append(
                    f"overviews, {language}: {name} is {100 * now[name]:.1f} %; it was {100 * share:.1f} %; {tolerance:g} "
                    "are allowed"
                )
    return faults


def kept_shares(report: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return what a gate keeps of a report."""
    shares = ("recognised", "false", "recall", "precision")
    found = report["halves"]["gate"]
    return {language: {name: found[language][name] for name in shares} for language in LANGUAGES}


def print_overviews(report: Mapping[str, Any], console: Console, *, misses: bool = False) -> None:
    """Print the scores as a table."""
    columns = ("recognised", "false overviews", "found of expected", "precision")
    table = Table("half", "language", *columns, title=f"overviews, {report['inputs']} inputs")
    for half, found in report["halves"].items():
        for name, score in found.items():
            table.add_row(
                half,
                name,
                f"{100 * score['recognised']:.1f} %",
                f"{100 * score['false']:.1f} %",
                f"{100 * score['recall']:.1f} % ({score['found']}/{score['expected']})",
                f"{100 * score['precision']:.1f} % of {score['chosen']}",
            )
    console.print(table)
    for miss in report["misses"] if misses else ():
        console.print(
            Text(
                f"{miss['id']}: {miss['input']!r}: {miss['scope']}, not {miss['wanted']}; found {miss['found']}, "
                f"belong {miss['fitting']}"
            )
        )

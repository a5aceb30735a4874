"""Run of planner tier 0 on labelled inputs: every input is planned only by the rules, and each label is compared.

The set is a folder with one file of JSON lines a language, and a file of pairs: the same input in both languages under one
label. `sets/planner/README.md` explains the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from evals.dataset import read_by_language, read_items
from evals.running.gate import EXAMPLE_PREFIX, find_world
from jacquard import PlanContext
from jacquard.core.plan import Temporal, Triage, plan_to_json
from jacquard.pipeline.planning.rules import RulePlanner
from jacquard.pipeline.worlds import build_bare_world
from mnemosyne import Message, Role, load_world
from mnemosyne.schema.record import SessionWindow, TurnRecord
from mnemosyne.schema.session import SessionHead, TurnKind, TurnStatus, WindowMessage
from mnemosyne.schema.world import WorldPack
from mnemosyne.world.scaffold import write_scaffold

LANGUAGES = ("zh", "en")
HALVES = ("tune", "gate", "later")
PAIRS_FILE = "pairs.jsonl"
PAIR_HALVES = ("tune", "gate", "practice")
HELD_OUT = ("gate", "later")
LABELS = ("triage", "template", "temporal", "search")
WORLDS = ("forest", "lighthouse", "shop", "plain")


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledInput:
    """One line of the set. `templates` and `temporal` are the accepted values; `search` is None if both are right.
    `history` are the messages before the input, oldest first, as (role, content).
    """

    input_id: str
    language: str
    category: str
    half: str
    world: str
    text: str
    triage: str
    templates: tuple[str, ...]
    temporal: tuple[str, ...]
    search: bool | None = None
    history: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedInput:
    """An input with what was planned; `right` says of each label that applies to it whether the plan agrees."""

    labelled: LabelledInput
    planned: Mapping[str, Any]
    right: Mapping[str, bool]


def read_inputs(folder: Path) -> tuple[LabelledInput, ...]:
    """Read the set; DatasetError, with file and line, for a line that is none."""
    return read_by_language(folder, LANGUAGES, _read_line, "labelled input")


def _read_line(value: Mapping[str, Any], language: str) -> LabelledInput:
    labelled = LabelledInput(
        input_id=value["id"],
        language=language,
        category=value["category"],
        half=value["half"],
        world=value["world"],
        text=value["input"],
        triage=Triage(value["triage"]).value,
        templates=tuple(value["templates"]),
        temporal=tuple(Temporal(each).value for each in value["temporal"]),
        search=value.get("search"),
        history=tuple((each["role"], each["content"]) for each in value.get("history", ())),
    )
    if labelled.half not in (*HALVES, *PAIR_HALVES) or labelled.world not in WORLDS:
        raise ValueError(f"half {labelled.half!r} or world {labelled.world!r} is unknown")
    return labelled


def read_pairs(folder: Path) -> tuple[tuple[LabelledInput, ...], ...]:
    """Read the pairs: each is one input in every language of `LANGUAGES`, with the same labels. DatasetError, with file and
    line, for a line that is none.
    """
    return read_items(folder / PAIRS_FILE, _read_pair, "pair of labelled inputs")


def _read_pair(value: Mapping[str, Any]) -> tuple[LabelledInput, ...]:
    return tuple(
        _read_line({**value, "id": f"{value['id']}_{name}", "input": value["inputs"][name]}, name) for name in LANGUAGES
    )


def load_worlds(folder: Path) -> dict[tuple[str, str], WorldPack]:
    """Return the worlds of the set, by name and language."""
    worlds: dict[tuple[str, str], WorldPack] = {}
    with TemporaryDirectory() as temporary:
        for language in LANGUAGES:
            starter = Path(temporary) / language
            write_scaffold(starter, language)
            worlds |= {
                ("forest", language): load_world(find_world(folder, f"{EXAMPLE_PREFIX}whispering_forest/{language}")),
                ("lighthouse", language): load_world(starter),
                ("shop", language): load_world(folder / f"shop_{language}"),
                ("plain", language): build_bare_world("plain"),
            }
    return worlds


def run_planner(
    folder: Path, progress: Callable[[str, int, int], None] = lambda what, done, total: None
) -> tuple[PlannedInput, ...]:
    """Plan every input of the set, in its order."""
    inputs, worlds, planner = read_inputs(folder), load_worlds(folder), RulePlanner()
    rows = []
    for count, each in enumerate(inputs, start=1):
        world = worlds[each.world, each.language]
        rows.append(_compare(each, planner.plan(each.text, _window(each, world, planner), world)))
        progress("inputs", count, len(inputs))
    return tuple(rows)


def run_pairs(folder: Path) -> tuple[tuple[PlannedInput, ...], ...]:
    """Plan every pair of the set, in its order."""
    worlds, planner = load_worlds(folder), RulePlanner()

    def plan(each: LabelledInput) -> PlannedInput:
        world = worlds[each.world, each.language]
        return _compare(each, planner.plan(each.text, _window(each, world, planner), world))

    return tuple(tuple(plan(each) for each in pair) for pair in read_pairs(folder))


def _window(labelled: LabelledInput, world: WorldPack, planner: RulePlanner) -> SessionWindow:
    """Return the session before the input: with a history, its last user message was planned as the turn before."""
    head = SessionHead(
        session_id="planned", world_id=world.world_id, branch_id="main", turn_id=None, depth=0, lineage=(), version=0
    )
    messages = tuple(
        WindowMessage(
            message=Message(message_id=f"m{place}", role=Role(role), content=content),
            turn_id=f"t{place // 2}",
            branch_id="main",
            depth=1 + place // 2,
        )
        for place, (role, content) in enumerate(labelled.history)
    )
    window = SessionWindow(head=head, messages=messages, state=world.state)
    said = [content for role, content in labelled.history if role == Role.USER]
    if not said:
        return window
    previous = TurnRecord(
        turn_id="t0",
        session_id=head.session_id,
        branch_id="main",
        depth=1,
        parent_id=None,
        kind=TurnKind.NARRATIVE,
        status=TurnStatus.COMMITTED,
        messages=(),
        plan=plan_to_json(planner.plan(said[-1], window, world)),
    )
    return replace(window, previous=previous)


def _compare(labelled: LabelledInput, plan: PlanContext) -> PlannedInput:
    temporal, search = plan.search_intent.temporal_context.value, plan.search_intent.enabled
    right = {"triage": plan.triage.value == labelled.triage}
    # A numerical turn is answered by its action: no template shows it, and it has no time.
    if labelled.triage == Triage.NARRATIVE:
        right |= {"template": plan.template_id in labelled.templates, "temporal": temporal in labelled.temporal}
    if labelled.search is not None:
        right["search"] = search is labelled.search
    planned = {"triage": plan.triage.value, "template": plan.template_id, "temporal": temporal, "search": search}
    return PlannedInput(labelled=labelled, planned=planned, right=right)


def score_inputs(rows: Iterable[PlannedInput]) -> dict[str, dict[str, float | int]]:
    """Return of each label how many inputs have it (`count`), how many plans agree (`right`) and their `share`, 0..1."""
    found = [row.right for row in rows]
    scores: dict[str, dict[str, float | int]] = {}
    for label in LABELS:
        marks = [right[label] for right in found if label in right]
        share = round(sum(marks) / len(marks), 4) if marks else 1.0
        scores[label] = {"count": len(marks), "right": sum(marks), "share": share}
    return scores


def score_pairs(pairs: Iterable[Sequence[PlannedInput]]) -> dict[str, Any]:
    """Return how many pairs there are (`count`), how many are planned the same in all languages (`agree`), how many have every
    label right in one language (`right`, by language), and how many are both (`both`; `share` is their part, 0..1).
    """
    found = list(pairs)
    right = [[all(row.right.values()) for row in pair] for pair in found]
    agree = [all(row.planned == pair[0].planned for row in pair) for pair in found]
    both = sum(same and all(each) for same, each in zip(agree, right, strict=True))
    return {
        "count": len(found),
        "agree": sum(agree),
        "right": {name: sum(each[place] for each in right) for place, name in enumerate(LANGUAGES)},
        "both": both,
        "share": round(both / len(found), 4) if found else 1.0,
    }


def planner_json(rows: Sequence[PlannedInput], pairs: Sequence[Sequence[PlannedInput]] = ()) -> dict[str, Any]:
    """Return the scores by half, by half and language, and by half and category, the agreement of the languages on `pairs`,
    and the misses of all halves that are not held out.

    Misses of the halves of HELD_OUT are never listed, so that nobody writes rules for them.
    """
    report: dict[str, Any] = {"inputs": len(rows), "halves": {}}
    for half in HALVES:
        own = [row for row in rows if row.labelled.half == half]
        categories = dict.fromkeys(row.labelled.category for row in own)
        report["halves"][half] = {
            "scores": score_inputs(own),
            "languages": {
                name: score_inputs(row for row in own if row.labelled.language == name) for name in LANGUAGES
            },
            "categories": {
                name: score_inputs(row for row in own if row.labelled.category == name) for name in categories
            },
        }
    report["pairs"] = {
        half: score_pairs(pair for pair in pairs if pair[0].labelled.half == half) for half in PAIR_HALVES
    }
    tried = (*rows, *(row for pair in pairs for row in pair))
    report["misses"] = [
        _miss(row) for row in tried if row.labelled.half not in HELD_OUT and not all(row.right.values())
    ]
    return report


def _miss(row: PlannedInput) -> dict[str, Any]:
    labelled = row.labelled
    wanted = {
        "triage": [labelled.triage],
        "template": list(labelled.templates),
        "temporal": list(labelled.temporal),
        "search": [labelled.search],
    }
    return {
        "id": labelled.input_id,
        "category": labelled.category,
        "world": labelled.world,
        "input": labelled.text,
        "wrong": {
            label: {"planned": row.planned[label], "wanted": wanted[label]}
            for label, right in row.right.items()
            if not right
        },
    }


def print_planner(report: Mapping[str, Any], console: Console, *, misses: bool = False) -> None:
    """Print the scores as tables: all halves and their languages, the categories of `tune`, then the pairs."""
    table = Table("half", "language", *LABELS, title=f"planner tier 0, {report['inputs']} inputs")
    for half, found in report["halves"].items():
        for name, scores in (("both", found["scores"]), *found["languages"].items()):
            table.add_row(half, name, *(_share(scores[label]) for label in LABELS))
    console.print(table)
    table = Table("category", *LABELS, title="by category, half tune")
    for name, scores in report["halves"]["tune"]["categories"].items():
        table.add_row(name, *(_share(scores[label]) for label in LABELS))
    console.print(table)
    table = Table(
        "half",
        "planned the same",
        *(f"right in {name}" for name in LANGUAGES),
        "both",
        title="the same in both languages",
    )
    for half, score in report["pairs"].items():
        shown = (score["agree"], *score["right"].values(), score["both"])
        table.add_row(
            half, *(f"{100 * each / (score['count'] or 1):.0f} % ({each}/{score['count']})" for each in shown)
        )
    console.print(table)
    for miss in report["misses"] if misses else ():
        wrong = "; ".join(
            f"{label} {each['planned']}, not {' or '.join(map(str, each['wanted']))}"
            for label, each in miss["wrong"].items()
        )
        console.print(Text(f"{miss['id']} {miss['category']} ({miss['world']}): {miss['input']!r}: {wrong}"))


def _share(score: Mapping[str, float | int]) -> str:
    return f"{100 * score['share']:.1f} % ({score['right']}/{score['count']})" if score["count"] else "-"

"""Gate: runs checked-in sets and reports whether anything fell below the kept baseline, or leaked.

A gate is one JSON file: `tolerance` (points that a mean may fall), `sets` (each a `name` with `world` and `queries`, or
with `data`, paths relative to the file), `overviews` (the folder of labelled overviews, if they are run too) and the
`baseline` that `--update` writes. A world `example:NAME` is one that comes with the project. A set with `data` may name
a `retriever` and a `selector`, as `run` does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

from anyio import to_thread

from evals.compare import compare
from evals.dataset import read_set
from evals.errors import DatasetError
from evals.reporting.report import Result, result_json
from evals.running.parts import Arm, Choice
from evals.running.run import DEFAULT_CACHE, Options, run_set
from evals.running.world_set import run_world
from jacquard.authoring.reports import KEPT_OUT, METRICS, Comparison

Progress = Callable[[str, int, int], None]
EXAMPLE_PREFIX = "example:"
_KEYS = frozenset({"data", "name", "queries", "retriever", "selector", "world"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Gate:
    """A gate file as read: `baseline` maps the name of a set to the report kept of it. `overviews` is a folder ('': none), of whose
    report `overviews_kept` are the shares that were kept.
    """

    file: Path
    tolerance: float
    sets: tuple[Mapping[str, str], ...]
    baseline: Mapping[str, Mapping[str, Any]]
    overviews: str = ""
    overviews_kept: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class GateResult:
    """Result of one set: the comparison with the baseline (None: there is none yet) and the faults, as sentences."""

    name: str
    report: Mapping[str, Any]
    comparison: Comparison | None
    faults: tuple[str, ...]


def read_gate(file: Path) -> Gate:
    """Read a gate file; DatasetError when it is none."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        sets = tuple({str(key): str(value) for key, value in each.items()} for each in found["sets"])
        gate = Gate(
            file=file,
            tolerance=float(found["tolerance"]),
            sets=sets,
            baseline=found.get("baseline", {}),
            overviews=str(found.get("overviews", "")),
            overviews_kept=found.get("overviews_baseline", {}),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DatasetError(
            f"{file}: cannot be read as a gate ({error}). It needs `tolerance` and `sets`, a list of "
            "{name, world, queries} or {name, data}."
        ) from error
    for each in sets:
        if unknown := set(each) - _KEYS:
            known = ", ".join(sorted(_KEYS))
            raise DatasetError(
                f"{file}: a set has {', '.join(sorted(unknown))}, which no set has; it may have {known}."
            )
        if "data" not in each and (parts := {"selector", "retriever"} & set(each)):
            raise DatasetError(f"{file}: {', '.join(sorted(parts))} of {each.get('name', '')} needs a set with `data`.")
        if "name" not in each or not ("data" in each or {"world", "queries"} <= set(each)):
            raise DatasetError(
                f"{file}: a set needs `name` and either `data` or `world` and `queries`; this has {each}."
            )
    return gate


async def run_gate(
    gate: Gate, embedder: str = "auto", progress: Progress = lambda what, done, total: None
) -> list[GateResult]:
    """Run every set and judge it; what was measured is in the verdicts, good or bad."""
    verdicts = []
    for each in gate.sets:
        name = each["name"]
        report = result_json(await _run(gate.file.parent, each, embedder, _prefix_progress(name, progress)))
        kept = gate.baseline.get(name)
        found = None if kept is None else compare(kept, report)
        verdicts.append(
            GateResult(name=name, report=report, comparison=found, faults=_faults(report, found, gate.tolerance))
        )
    return verdicts


def update_baseline(
    gate: Gate, verdicts: list[GateResult], overviews: Mapping[str, Mapping[str, float]] = MappingProxyType({})
) -> str:
    """Return the text of the gate file with what was measured as its baseline; `overviews`: the shares to keep of those."""
    value = {
        "tolerance": gate.tolerance,
        "sets": list(gate.sets),
        **({"overviews": gate.overviews, "overviews_baseline": overviews} if gate.overviews else {}),
        "baseline": {each.name: _select_baseline(each.report) for each in verdicts},
    }
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def _select_baseline(report: Mapping[str, Any]) -> dict[str, Any]:
    rows = [
        {
            "id": row["id"],
            "category": row["category"],
            "relevant": row["relevant"],
            "metrics": {
                name: round(row["metrics"][name], 6) for name in (*METRICS, KEPT_OUT) if name in row["metrics"]
            },
        }
        for row in report["queries"]
        if row["metrics"] is not None
    ]
    return {"embedder": report["config"]["embedder"], "queries": rows}


async def _run(folder: Path, each: Mapping[str, str], embedder: str, progress: Progress) -> Result:
    if "data" in each:
        labelled = await to_thread.run_sync(read_set, folder / each["data"])
        options = Options(
            retriever=each.get("retriever", Arm.HYBRID),
            selector=each.get("selector", Choice.HEURISTIC),
            embedder=embedder,
            cache=DEFAULT_CACHE,
        )
        return await run_set(labelled, options, progress)
    world = await to_thread.run_sync(find_world, folder, each["world"])
    return await run_world(world, folder / each["queries"], embedder=embedder, progress=progress)


def find_world(folder: Path, name: str) -> Path:
    """Return the folder of a world: next to the file, or `example:NAME`, which is in the installed package or else in the
    repository of this source. DatasetError if there is no such example.
    """
    if not name.startswith(EXAMPLE_PREFIX):
        return folder / name
    package, example = Path(str(resources.files("evals"))), name.removeprefix(EXAMPLE_PREFIX)
    for place in (package / "_examples", package.parent / "examples"):
        if (place / example).is_dir():
            return place / example
    raise DatasetError(f"There is no example world {example!r} in {package}; install jacquard-context again.")


def _faults(report: Mapping[str, Any], found: Comparison | None, tolerance: float) -> tuple[str, ...]:
    faults = []
    if report["leaks"]["queries"]:
        faults.append(
            f"{report['leaks']['queries']} queries leaked what their viewer may not know: {report['leaks']['ids']}"
        )
    if found is None:
        faults.append("there is no baseline for this set; look at the figures and keep them with --update")
    else:
        faults += [
            f"{each.metric} fell by {-100 * each.delta:.1f} points ({100 * each.a:.1f} → {100 * each.b:.1f}); "
            f"{tolerance:g} are allowed"
            for each in found.differences[""]
            if -100 * each.delta > tolerance
        ]
    return tuple(faults)


def _prefix_progress(name: str, progress: Progress) -> Progress:
    return lambda what, done, total: progress(f"{name}: {what}", done, total)

"""Rows of measurements to the figures that are shown: percentiles, ratios against ours, scores. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.rivals.names import ENTRANTS, OURS
from evals.metrics import TOKEN_METRICS, Outcome, judge, mean
from evals.reporting.figures import percentiles

Rows = Sequence[Mapping[str, Any]]
_SHOWN = ("recall@5", "recall@50", "ndcg@5")


def sum_figures(rows: Rows, facts: Rows) -> dict[str, Any]:
    """Return `turns`, `played`, `quality`, `rate` and `sizes`, each by stack in the order of the entrants; empty if not
    run.
    """
    asked = ("narrow", "wide")
    on_set = [row for row in rows if row["part"] == "set" and row["kind"] in asked]
    sizes = sorted({row["size"] for row in facts if row["part"] == "size"})
    return {
        "turns": _group_by_stack([row for row in on_set if row["kind"] == "narrow"], times),
        "played": sum_played([row for row in rows if row["part"] == "set" and row["kind"] not in asked]),
        "wide_turns": _group_by_stack([row for row in on_set if row["kind"] == "wide"], times),
        "quality": _group_by_stack(on_set, quality),
        "rate": {row["stack"]: _rate(row) for row in facts if row["part"] == "rate"},
        "memory_mb": _memory(rows, facts),
        "sizes": {str(size): _summarize_size(size, rows, facts) for size in sizes},
        "fastest_framework": find_fastest([row for row in on_set if row["kind"] == "narrow"]),
    }


def sum_played(rows: Rows) -> dict[str, Any]:
    """Return figures of real turns, by stack.

    `real`, `fixed` and `at_once` as `times`; the time of a commit; the processor time of a turn and its commit, with
    the work after it; and the ratio of a real turn to one asked at one place.
    """
    return _group_by_stack(rows, _sum_played)


def _sum_played(rows: Rows) -> dict[str, Any]:
    kinds = {kind: [row for row in rows if row["kind"] == kind] for kind in ("commit", "real", "fixed", "at_once")}
    found: dict[str, Any] = {kind: times(kinds[kind]) for kind in ("real", "fixed", "at_once") if kinds[kind]}
    for name in ("ms", "behind_ms"):
        values = [row[name] for row in kinds["commit"]]
        found[f"commit_{name}_p50"], found[f"commit_{name}_p95"] = percentiles(values, 50, 95)
    pairs = [*zip(kinds["commit"], kinds["real"], strict=False)]
    found["whole_ms_p50"] = percentiles([one["ms"] + two["ms"] for one, two in pairs], 50)[0]
    found["whole_processor_ms_p50"] = percentiles(
        [one["processor_ms"] + two["processor_ms"] for one, two in pairs], 50
    )[0]
    if "fixed" in found:
        found["real_to_fixed"] = ratio(found["real"]["ms_p50"], found["fixed"]["ms_p50"])
        found["real_to_fixed_processor"] = ratio(found["real"]["processor_ms_p50"], found["fixed"]["processor_ms_p50"])
    found["not_in_prompt"] = sum(
        len(row["not_in_prompt"]) + len(row["talk_not_in_prompt"]) for row in rows if row["kind"] != "commit"
    )
    return found


def times(rows: Rows) -> dict[str, Any]:
    """Return p50 and p95 of the whole, of what is beyond the query's embedding, of the embedding; processor time p50."""
    whole = [row["ms"] for row in rows]
    embed = [row.get("embed_ms", 0.0) for row in rows]
    beyond = [max(one - two, 0.0) for one, two in zip(whole, embed, strict=True)]
    found: dict[str, Any] = {"count": len(rows)}
    for name, values in (("ms", whole), ("beyond_ms", beyond), ("embed_ms", embed)):
        found[f"{name}_p50"], found[f"{name}_p95"] = percentiles(values, 50, 95)
    found["processor_ms_p50"] = percentiles([row["processor_ms"] for row in rows], 50)[0]
    steps = sorted({name for row in rows for name in row.get("steps_ms", {})})
    if steps:
        found["steps_ms_p50"] = {
            name: percentiles([row.get("steps_ms", {}).get(name, 0.0) for row in rows], 50)[0] for name in steps
        }
    return found


def quality(rows: Rows) -> dict[str, Any]:
    """Return scores: of the ranking, of the prompt by tokens, and of the five in the narrow prompt."""
    wide = [row for row in rows if row["kind"] == "wide"]
    narrow = [row for row in rows if row["kind"] == "narrow"]
    ranking = judge([_outcome(row, row["ranked"]) for row in wide])
    prompt = judge([_outcome(row, [name for name, _ in row["evidence"]], row["evidence"]) for row in wide])
    few = judge([_outcome(row, [name for name, _ in row["evidence"]]) for row in narrow])
    scores, tokens, five = mean(ranking.values()), mean(prompt.values()), mean(few.values())
    return {
        "scored": len(ranking),
        **{name: scores.get(name, 0.0) for name in _SHOWN},
        **{name: tokens.get(name, 0.0) for name in TOKEN_METRICS},
        "prompt_recall@5": five.get("recall@5", 0.0),
        "prompt_tokens": percentiles([row["prompt_tokens"] for row in narrow], 50)[0],
        "not_in_prompt": sum(len(row["not_in_prompt"]) + len(row["talk_not_in_prompt"]) for row in rows),
    }


def quality_json(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scores of a run without its times, 0..1: by setup and stack, with the data, the model and the versions."""
    config = figures["config"]
    return {
        "data": config["data"],
        "session": config["session"],
        "embedder": config["embedder"],
        "versions": figures["versions"],
        "setups": {
            name: {
                stack: {metric: round(value, 5) for metric, value in found.items()}
                for stack, found in setup["quality"].items()
            }
            for name, setup in figures["setups"].items()
            if setup["quality"]
        },
    }


def find_fastest(rows: Rows) -> dict[str, Any] | None:
    """Return the framework stack whose turn is fastest (p50), and how many times as long as ours it takes; None without."""
    by_name = _group_by_stack(rows, times)
    frameworks = [each.name for each in ENTRANTS if each.framework and each.name in by_name]
    if not frameworks or OURS not in by_name:
        return None
    best = min(frameworks, key=lambda name: float(by_name[name]["ms_p50"]))
    ours, theirs = by_name[OURS], by_name[best]
    return {
        "stack": best,
        "ratio": ratio(theirs["ms_p50"], ours["ms_p50"]),
        "ratio_p95": ratio(theirs["ms_p95"], ours["ms_p95"]),
        "ratio_beyond": ratio(theirs["beyond_ms_p50"], ours["beyond_ms_p50"]),
        "ratio_processor": ratio(theirs["processor_ms_p50"], ours["processor_ms_p50"]),
    }


def ratio(theirs: float, ours: float) -> float | None:
    """Return the ratio of their time to ours; None if ours is 0."""
    return theirs / ours if ours > 0 else None


def _outcome(row: Mapping[str, Any], found: Sequence[str], costs: Sequence[Sequence[Any]] = ()) -> Outcome:
    return Outcome(
        query_id=row["query"],
        category=row["category"],
        relevant=row["relevant"],
        retrieved=tuple(found),
        selected=(),
        tokens=tuple(int(cost) for _, cost in costs),
    )


def _group_by_stack(rows: Rows, what: Any) -> dict[str, Any]:
    found = {}
    for each in ENTRANTS:
        own = [row for row in rows if row["stack"] == each.name]
        if own:
            found[each.name] = what(own)
    return found


def _rate(row: Mapping[str, Any]) -> dict[str, float]:
    return {
        "documents_a_second": row["documents"] / row["seconds"],
        "bare_documents_a_second": row["documents"] / row["bare_seconds"],
        "share_of_bare": row["bare_seconds"] / row["seconds"],
    }


def _memory(rows: Rows, facts: Rows) -> dict[str, float]:
    """Return the most that each stack's process held on the set."""
    found: dict[str, float] = {}
    for row in (*rows, *facts):
        if row["part"] == "set":
            found[row["stack"]] = max(found.get(row["stack"], 0.0), float(row["memory_mb"]))
    return found


def _summarize_size(size: int, rows: Rows, facts: Rows) -> dict[str, Any]:
    own = [row for row in rows if row["part"] == "size" and row["size"] == size]
    recalls = _group_by_stack([row for row in own if row["kind"] == "recall"], times)
    played = sum_played([row for row in own if row["kind"] != "recall"])
    filled = {row["stack"]: row for row in facts if row["part"] == "size" and row["size"] == size}
    stacks = {
        name: {
            "recall": recalls.get(name),
            "index_seconds": fact["seconds"],
            "memory_mb": max(
                [fact["memory_mb"], *(row["memory_mb"] for row in own if row["stack"] == name)], default=0.0
            ),
        }
        for name, fact in filled.items()
    }
    return {
        "stacks": stacks,
        "played": played,
        "fastest_framework": find_fastest([row for row in own if row["kind"] == "real"]),
    }

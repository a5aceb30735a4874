"""The figures of pages are those of the stored results of this release (docs/measurements/*.json, figures without data)."""

from __future__ import annotations

import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MEASUREMENTS = ROOT / "docs" / "measurements"


def stored(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((MEASUREMENTS / name).read_text(encoding="utf-8"))
    return found


LOCOMO = stored("locomo.json")["locomo"]
ARMS = stored("arms.json")
RIVALS = stored("rivals.json")
NAMES = {"hybrid": "ours", "bm25": "our words alone", "rank-bm25": "BM25 (rank-bm25)"}
UNITS = (
    ("document@5", "document@10", "document@50"),
    ("group_any@1", "group_any@3", "group_any@5", "group_any@10"),
    ("group_all@1", "group_all@3", "group_all@5", "group_all@10"),
)
CATEGORY_METRICS = ("document@5", "document@10", "group_any@5", "group_all@5")


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def with_ends(value: float, low: float, high: float, sign: str = "") -> str:
    return f"{100 * value:{sign}.1f} ({100 * low:{sign}.1f} {100 * high:{sign}.1f})".replace("-", "−")


def rows_of_units() -> list[str]:
    """Return the rows of the page: each retriever in each unit, then what ours gains."""
    rows = []
    for metrics in UNITS:
        for name, found in LOCOMO["retrievers"].items():
            cells = [with_ends(found["means"][metric], *found["intervals"][metric]) for metric in metrics]
            rows.append(f"| {NAMES[name]} | {' | '.join(cells)} |")
        for name, found in LOCOMO["differences"].items():
            gains = found["all"]["metrics"]
            cells = [
                with_ends(gains[metric]["delta"], gains[metric]["low"], gains[metric]["high"], "+")
                for metric in metrics
            ]
            rows.append(f"| ours less {NAMES[name]} | {' | '.join(cells)} |")
    return rows


def rows_of_categories() -> list[str]:
    """Return a row a category: its number of questions, then ours / BM25 in four metrics."""
    ours, other = (LOCOMO["retrievers"][name]["by_category"] for name in ("hybrid", "rank-bm25"))
    return [
        f"| {kind}, {values['queries']} | "
        + " | ".join(f"{percent(values[metric])} / {percent(other[kind][metric])}" for metric in CATEGORY_METRICS)
        + " |"
        for kind, values in ours.items()
    ]


@pytest.mark.parametrize("row", [*rows_of_units(), *rows_of_categories()])
def test_the_page_on_locomo_has_the_stored_figures(row: str) -> None:
    assert row in (ROOT / "docs" / "measurements" / "locomo.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md"])
def test_the_readmes_have_the_stored_figures(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    ours, other = (LOCOMO["retrievers"][each]["means"] for each in ("hybrid", "rank-bm25"))
    for metric in ("document@5", "group_any@5", "group_all@5"):
        assert f" | {percent(ours[metric])} | {percent(other[metric])} |\n" in text
    assert f"{LOCOMO['queries']:,}" in text


RANKED = ("recall@5", "recall@10", "recall@25", "recall@50", "all@10", "ndcg@5")
WITHIN = ("recall@250tok", "recall@500tok", "recall@1000tok", "recall@2000tok")
GAINS = ("recall@5", "recall@10", "recall@50", "ndcg@5")


def gain(found: dict[str, float]) -> str:
    return with_ends(found["delta"], found["low"], found["high"], "+")


def rows_of_arms() -> list[str]:
    """Return two rows a set: the scores of ours, and what ours gains over its parts."""
    rows = []
    for name, found in ARMS.items():
        ours = found["means"]["hybrid"]
        ranked, within = (" / ".join(percent(ours[metric]) for metric in metrics) for metrics in (RANKED, WITHIN))
        rows.append(f"| {name}, {found['queries']:,} | {ranked} | {within} |")
        parts = " / ".join(percent(found["means"][arm]["recall@5"]) for arm in ("bm25", "vector", "rrf"))
        gains = [gain(found["to_best"][metric]) for metric in GAINS]
        rows.append(f"| {name} | {parts} | {' | '.join(gains)} | {gain(found['to_rrf']['recall@5'])} |")
    return rows


@pytest.mark.parametrize("row", rows_of_arms())
def test_the_page_on_fusion_has_the_stored_figures(row: str) -> None:
    assert row in (MEASUREMENTS / "fusion.md").read_text(encoding="utf-8")


SCORES = (
    *("recall@5", "ndcg@5", "recall@50", "recall@250tok", "recall@500tok", "recall@1000tok", "recall@2000tok"),
    "prompt_recall@5",
)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("setup", RIVALS["setups"])
def test_the_comparison_with_other_stacks_has_the_stored_scores(setup: str, language: str) -> None:
    page = (ROOT / "docs" / language / "bench.md").read_text(encoding="utf-8")
    (table,) = re.findall(rf"<!-- table: quality {setup} -->\n(.*?)<!-- end -->", page, re.DOTALL)
    for stack, found in RIVALS["setups"][setup].items():
        cells = [*(percent(found[name]) for name in SCORES), f"{found['prompt_tokens']:.0f}"]
        assert f"| {stack} | {' | '.join(cells)} |\n" in table


@pytest.mark.parametrize("language", ["zh", "en"])
def test_the_page_has_the_overviews_that_the_gate_keeps(language: str) -> None:
    kept = json.loads((ROOT / "evals" / "sets" / "gate.json").read_text(encoding="utf-8"))["overviews_baseline"][
        language
    ]
    text = (ROOT / "docs" / "measurements" / "evaluation.md").read_text(encoding="utf-8")
    (row,) = (line for line in text.splitlines() if line.startswith(f"| gate | {language} | "))
    shown = [cell.split(" %")[0].strip() for cell in row.split("|")[3:7]]
    wanted = [kept[name] for name in ("recognised", "false", "recall", "precision")]
    assert [float(each) for each in shown] == pytest.approx([100 * each for each in wanted], abs=0.05)


def test_stored_results_are_of_this_release_and_hold_no_data() -> None:
    for found in (LOCOMO, RIVALS, *ARMS.values()):
        assert found["versions"]["jacquard-context"] == version("jacquard-context")
    assert LOCOMO["queries"] == sum(each["queries"] for each in LOCOMO["retrievers"]["hybrid"]["by_category"].values())
    for name in ("locomo.json", "arms.json", "rivals.json"):
        text = (MEASUREMENTS / name).read_text(encoding="utf-8")
        assert "retrieved" not in text.replace("retrievers", "")
        assert '"rows"' not in text
    assert "conv-" not in json.dumps(LOCOMO)

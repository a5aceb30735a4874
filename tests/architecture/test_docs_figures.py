"""The figures of pages are those of the stored results of this release (docs/measurements/*.json, figures without data)."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCOMO = json.loads((ROOT / "docs" / "measurements" / "locomo.json").read_text(encoding="utf-8"))["locomo"]
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
    assert LOCOMO["versions"]["jacquard-context"] == version("jacquard-context")
    assert LOCOMO["queries"] == sum(each["queries"] for each in LOCOMO["retrievers"]["hybrid"]["by_category"].values())
    text = json.dumps(LOCOMO)
    assert "retrieved" not in text.replace("retrievers", "")
    assert "conv-" not in text

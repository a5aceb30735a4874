"""The tutorial of a selector of one's own is lived in both languages: what each version delivers, the gate, and the engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lived_pages import Walk

ROOT = Path(__file__).parents[2]
PAGES = {"en": "The boat key is in the clock now.", "zh": "船钥匙现在在座钟里。"}


@pytest.mark.parametrize("language", PAGES)
def test_the_tutorial_is_lived(language: str, tmp_path: Path) -> None:
    with Walk(folder=tmp_path) as walk:
        walk.live(ROOT / "docs" / language / "tutorials" / "own-selector.md")
        used = walk.find_output("use.py")
    reference = json.loads((tmp_path / "out" / "bm25.json").read_text())
    assert reference["config"]["retriever"] == "rank-bm25"
    reports = {name: json.loads((tmp_path / "out" / f"{name}.json").read_text()) for name in ("shipped", "own")}
    assert reports["own"]["config"]["selector"] == "own:NewestOfTheBest"
    chosen = {name: {row["id"]: row["selected"] for row in report["queries"]} for name, report in reports.items()}
    assert all(len(ids) == 1 for ids in chosen["own"].values())
    assert any(len(ids) > 1 for ids in chosen["shipped"].values())
    gate = json.loads((tmp_path / "gate.json").read_text(encoding="utf-8"))
    assert gate["sets"][0]["selector"] == "own:NewestOfTheBest"
    # The gate ran the selector that it names: its rows keep out what is no longer true.
    kept = [row["metrics"]["kept_out"] for row in gate["baseline"]["notes"]["queries"] if "kept_out" in row["metrics"]]
    assert kept == [1.0] * 4
    assert PAGES[language] in used
    assert "第三块石头" not in used
    assert "third stone" not in used

"""The gate of plays: plays short ones and says whether any figure is worse than the one that was kept.

`gate.json` in the folder of plays maps names of plays to their kept figures.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evals.errors import DatasetError
from evals.play.scores.figures import PlayFigures

LESS_IS_BETTER = ("failed", "mismatched", "missing", "wrong", "lost", "irrelevant", "off_topic_evidence", "late")
MORE_IS_BETTER = ("facts", "asked", "answered", "key_facts", "key_told")
"""Facts and questions count too, so that a figure cannot improve by asking less."""
GATE_FILE = "gate.json"


def read_plays_gate(file: Path) -> dict[str, dict[str, int]]:
    """Return the kept figures by the name of a play; DatasetError when the file is not a gate."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return {
            str(name): {key: int(kept[key]) for key in (*LESS_IS_BETTER, *MORE_IS_BETTER)}
            for name, kept in found.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DatasetError(
            f"{file}: cannot be read as a gate of plays ({error}). It maps names of plays to figures; "
            "write them with --gate --update."
        ) from error


def kept_figures(figures: PlayFigures) -> dict[str, int]:
    """Return the figures of a play that a gate keeps."""
    return {name: getattr(figures, name) for name in (*LESS_IS_BETTER, *MORE_IS_BETTER)}


def find_regressions(name: str, kept: Mapping[str, int], figures: PlayFigures) -> list[str]:
    """Return a sentence for every figure that is worse than the kept one."""
    now = kept_figures(figures)
    worse = [key for key in LESS_IS_BETTER if now[key] > kept[key]] + [
        key for key in MORE_IS_BETTER if now[key] < kept[key]
    ]
    return [f"{name}: {key} is {now[key]}; it was {kept[key]}" for key in worse]


def write_gate(file: Path, figures: Mapping[str, PlayFigures], kept: Mapping[str, Any]) -> None:
    """Keep the figures of plays in place of those that were kept of them."""
    value = {**kept, **{name: kept_figures(each) for name, each in figures.items()}}
    file.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")

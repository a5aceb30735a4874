"""The short form of the soak: every fault once, in two parts, with nothing lost. How flat it is, only the long one can say."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from benchmarks.soak import figures, soak
from benchmarks.soak.faults import FAULTS

pytestmark = pytest.mark.anyio


def ignore(*said: object) -> None:
    """Take what is said of the progress."""


async def test_a_soak_goes_on_in_a_second_part_and_loses_nothing(tmp_path):
    half = len(FAULTS)
    settings = soak.Settings(turns=2 * half, sessions=3, fault_each=2, window=half)
    begun = await soak.run(replace(settings, minutes=0.0), tmp_path / "soak", ignore, ignore)
    assert [(row["part"], row["turns"]) for row in begun["rows"]] == [(1, half)]
    done = await soak.run(settings, tmp_path / "soak", ignore, ignore)
    assert done["failures"] == []
    assert [(row["part"], row["turns"]) for row in done["rows"]] == [(1, half), (2, 2 * half)]
    assert {name for row in done["rows"] for name in row["faults"]} == set(FAULTS)
    assert all(row["memory_mb"] > row["open_mb"] > 0 for row in done["rows"])


def test_sessions_are_of_many_lengths_at_any_time():
    settings = soak.Settings(turns=10_000, sessions=20)
    played = Counter(soak.order_of(settings)[:5_000])
    assert sum(played.values()) == 5_000
    assert 1.5 < max(played.values()) / min(played.values()) < 4.5
    assert soak.order_of(settings)[:20] == list(range(20))


def test_memory_that_grows_is_named():
    rows = [
        {
            "part": 1,
            "turns": 10 * turn,
            **dict.fromkeys((*figures.FLAT, *figures.GROWING), 7.0),
            "rest_mb": 100.0 + turn,
        }
        for turn in range(40)
    ]
    found = {each["name"]: each["flat"] for each in figures.figures_of(rows, {}, [])["drifts"]}
    assert [name for name, is_flat in found.items() if not is_flat] == ["rest_mb"]

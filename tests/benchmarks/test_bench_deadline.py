"""The deadline run: its laws hold on a short one, and a breach of them is seen. Nothing is said of how late anything is."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.conversation import scenes
from benchmarks.deadline.deadline import CYCLE, find_mood
from benchmarks.deadline.figures import Change, Run, Sample, Settings, faults_of, figures_of
from mnemosyne.retrieval.text.words import word_tokens

SETTINGS = Settings(turns=2, reset_seconds=3.0)
LATE = Sample(
    session="a",
    turn_id="t1",
    text="Where is the lantern of Kael?",
    mood="random",
    at=1.0,
    wall_ms=1540.0,
    stream_ms=1501.0,
    path="timeout",
    code="deadline",
)
USED = Sample(
    session="a",
    turn_id="t2",
    text="Who else saw the lantern?",
    mood="random",
    at=4.0,
    wall_ms=30.0,
    stream_ms=1.0,
    path="prefetched",
    code="prefetched",
    reason="Chosen for turn t1, which could not wait for it. Both turns are about lantern.",
    selected=("m1",),
)


def outcome(*samples: Sample, changes: tuple[Change, ...] = (), calls: int = 0) -> Run:
    return Run(
        samples=samples, changes=changes, requests=[{"at": 0.0, "mood": "quick"}] * calls, stalls_ms=[0.1], queued_ms=[]
    )


def test_forty_turns_break_no_law(tmp_path) -> None:
    file = tmp_path / "figures.json"
    short = ("--turns", 40, "--sessions", 8, "--messages", 100, "--deadline-ms", 250, "--think-seconds", 0.1)
    done = CliRunner().invoke(app, [*map(str, ("deadline", *short, "--reset-seconds", 0.3, "--json", file))])
    assert done.exit_code == 0, done.output
    assert "every road is a legal one" in done.stdout
    figures = json.loads(file.read_text(encoding="utf-8"))
    assert figures["faults"] == []
    assert len(figures["rows"]) == 40
    assert len({row["turn_id"] for row in figures["rows"]}) == 40
    assert sum(figures["paths"].values()) == 40
    assert {row["mood"] for row in figures["rows"]} == {mood for mood, _ in CYCLE}
    assert figures["paths"]["skipped"] >= 4
    assert figures["server"]["calls"] > 0
    assert figures["prefetch"]["offered"] == figures["prefetch"]["used"] + figures["prefetch"]["guarded_out"]


def test_a_run_goes_through_every_mood_in_its_order() -> None:
    moods = [find_mood(turn, 2000) for turn in range(2000)]
    assert moods[:400] == moods[400:800]
    assert set(moods) == {mood for mood, _ in CYCLE}
    assert moods[0] == "quick"
    assert moods.count("random") == 800
    assert {find_mood(turn, 40) for turn in range(40)} == set(moods)


def test_players_stay_with_a_subject_for_a_while() -> None:
    said = list(scenes(200, 3))
    assert said == list(scenes(200, 3))
    assert said != list(scenes(200, 3, player=1))
    near = [bool(set(word_tokens(a)) & set(word_tokens(b))) for a, b in pairwise(said)]
    assert 0.4 < sum(near) / len(near) < 0.9


def test_a_lawful_run_has_no_faults_and_lateness_starts_at_the_deadline() -> None:
    run = outcome(LATE, USED, calls=1)
    assert list(faults_of(run, SETTINGS)) == []
    figures = figures_of(run, SETTINGS, seconds=5.0)
    assert figures["lateness_ms"]["stream_at_deadline"]["max"] == pytest.approx(1.0)
    assert figures["lateness_ms"]["stream"]["p50"] == pytest.approx(0.5)
    assert figures["prefetch"] == {"offered": 1, "used": 1, "guarded_out": 0, "guards": {}}


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (outcome(LATE, replace(USED, code="internal")), "illegal road"),
        (outcome(LATE, replace(USED, path="fallback", code="selected")), "illegal road"),
        (outcome(LATE, replace(USED, session="b")), "predecessor"),
        (outcome(LATE, replace(USED, reason="Chosen for turn t0, which could not wait.")), "predecessor"),
        (outcome(replace(LATE, path="selected", code="selected"), USED), "not late"),
        (outcome(LATE, replace(USED, text="Good morning!")), "another scene"),
        (outcome(LATE, replace(USED, selected=())), "holds nothing"),
        (outcome(LATE, USED, calls=2), "2 calls reached the server for 1 turns"),
        (outcome(LATE, changes=(Change(at=1.0, what="opened", failures=2),)), "after 2 failures"),
        (
            outcome(
                LATE, changes=(Change(at=1.0, what="opened", failures=3), Change(at=3.9, what="trial", failures=3))
            ),
            "tried again after 2.90 s",
        ),
        (
            outcome(
                LATE, changes=(Change(at=1.0, what="closed", failures=3), Change(at=9.0, what="trial", failures=0))
            ),
            "trial after it had closed",
        ),
    ],
)
def test_a_breach_is_seen(run: Run, words: str) -> None:
    assert any(words in fault for fault in faults_of(run, SETTINGS))

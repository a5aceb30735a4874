"""A run that was stopped goes on where it was, and only if it is the same run."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import anyio
import pytest

from evals.dataset import read_set
from evals.running.run import Options, run_set
from jacquard.pipeline.curation.selectors.heuristic import HeuristicSelector

OPTIONS = Options(embedder="none")


class StoppedError(Exception):
    """Somebody pressed a key."""


@pytest.fixture
def labelled(tmp_path):
    names = ("kite", "boat", "lute", "mill", "well")
    turns = [
        {"id": f"{session}:{n}", "chain": "history", "session": session, "turn": n, "text": f"{session} has a {name}."}
        for session in ("a", "b")
        for n, name in enumerate(names)
    ]
    asked = [
        {"id": f"{each['id']}:q", "session": each["session"], "query": f"Who has a {names[each['turn']]}?",
         "relevant": {each["id"]: 1}, "category": "c"}
        for each in turns
    ]  # fmt: skip
    for name, lines in (("corpus", turns), ("queries", asked)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return read_set(tmp_path)


def run(labelled, journal, *, options=OPTIONS, until=None):
    """Run a set; break off before query number `until`. Return the result and the queries that were asked."""
    asked = []

    class Counting(HeuristicSelector):
        async def select(self, request, context=None):
            if len(asked) == until:
                raise StoppedError
            asked.append(request.user_message)
            return await super().select(request)

    @asynccontextmanager
    async def selectors():
        yield lambda relevant: Counting()

    result = None
    try:
        result = anyio.run(run_set, labelled, options, None, selectors(), journal)
    except* StoppedError:
        pass
    return result, asked


def scores(result):
    return [(row.outcome, row.tokens) for row in result.rows]


@pytest.mark.parametrize("until", [0, 3, 5, 7])
def test_it_goes_on_and_comes_to_the_same(labelled, tmp_path, until):
    journal = tmp_path / "report.json.part"
    whole, _ = run(labelled, None)
    assert run(labelled, journal, until=until)[0] is None
    with journal.open("ab") as stream:
        stream.write(b'{"outcome": {"query')
    result, asked = run(labelled, journal)
    assert len(asked) == 10 - until
    assert scores(result) == scores(whole)
    assert result.counts["resumed"] == until
    assert not journal.exists()


def test_another_run_begins_anew(labelled, tmp_path):
    journal = tmp_path / "report.json.part"
    run(labelled, journal, until=4)
    _, asked = run(labelled, journal, options=Options(embedder="none", recall_limit=7))
    assert len(asked) == 10

"""Runs with a small model as selector, over real HTTP to a scripted server."""

from __future__ import annotations

import json

import pytest
from servers.openai_server import OpenAiServer
from typer.testing import CliRunner

from evals.app import app

FACTS = ["The key is red.", "The key is small.", "The key opens the cellar.", "A key was lost.", "The key hangs high."]


@pytest.fixture
def folder(tmp_path):
    documents = [{"id": f"d{n}", "chain": "lore", "session": None, "text": text} for n, text in enumerate(FACTS)]
    query = {"id": "q1", "query": "What does the key open?", "relevant": {"d2": 1, "d1": 1}}
    queries = [query, {**query, "id": "q2"}]
    for name, rows in (("corpus.jsonl", documents), ("queries.jsonl", queries)):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return tmp_path


def report(folder, server):
    file = folder / "report.json"
    arguments = ["run", "--data", str(folder), "--retriever", "bm25", "--selector", "flash", "--json", str(file)]
    done = CliRunner().invoke(app, [*arguments, "--model", "openai/scripted", "--api-base", server.api_base])
    assert done.exit_code == 0, done.output
    return json.loads(file.read_text(encoding="utf-8"))


def test_a_model_chooses_and_its_tokens_are_counted(folder):
    with OpenAiServer("match:cellar") as server:
        found = report(folder, server)
    assert [row["selected"] for row in found["queries"]] == [["d2"], ["d2"]]
    assert found["metrics"]["precision@5"] == pytest.approx(0.2)
    assert found["tokens"]["selector_prompt_tokens"] > 0
    assert found["config"]["model"] == "openai/scripted"


def test_a_model_that_fails_is_a_row_with_an_error_and_chooses_nothing(folder):
    with OpenAiServer("rubbish", "match:cellar") as server:
        found = report(folder, server)
    first, second = found["queries"]
    assert first["selected"] == []
    assert first["error"].startswith("unreadable")
    assert first["metrics"]["precision@5"] == 0.0
    assert second["selected"] == ["d2"]
    assert found["problems"]["selector_errors"] == {"unreadable": 1}

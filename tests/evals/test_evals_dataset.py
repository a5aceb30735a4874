"""Reading labelled sets: what is wrong is named with file, line and field."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evals.dataset import read_set
from evals.errors import DatasetError

DOCUMENTS = [
    {
        "id": "s1:1",
        "chain": "history",
        "session": "s1",
        "turn": 0,
        "speaker": "Ann",
        "text": "The key is under the mat.",
    },
    {"id": "s1:2", "chain": "history", "session": "s1", "turn": 1, "speaker": "Bob", "text": "Which mat?"},
    {"id": "s2:1", "chain": "narrative", "session": "s2", "text": "他们在河边找到了一把钥匙。"},
    {"id": "all:1", "chain": "lore", "session": None, "text": "Keys open doors."},
]
QUERIES = [
    {
        "id": "q1",
        "session": "s1",
        "query": "Where is the key?",
        "history": [],
        "relevant": {"s1:1": 2},
        "category": "a",
    },
    {"id": "q2", "session": "s2", "query": "钥匙在哪里？", "relevant": {"s2:1": 1, "all:1": 1}, "category": "b"},
    {
        "id": "q3",
        "session": "s9",
        "query": "What do keys do?",
        "history": [{"speaker": "Ann", "text": "I have one."}],
        "relevant": {"all:1": 1},
    },
]


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "corpus.jsonl", DOCUMENTS)
    write(tmp_path / "queries.jsonl", QUERIES)
    return tmp_path


def write(file: Path, rows: list[dict]) -> None:
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def test_each_session_is_a_pool_and_the_rest_share_one(folder):
    labelled = read_set(folder)
    pools = {pool.session: pool for pool in labelled.pools()}
    assert set(pools) == {"s1", "s2", None}
    assert pools["s1"].ids == {"s1:1", "s1:2", "all:1"}
    assert pools["s2"].ids == {"s2:1", "all:1"}
    assert pools[None].ids == {"all:1"}
    assert [query.query_id for query in pools[None].queries] == ["q3"]


def test_what_was_said_before_keeps_its_order_and_speakers(folder):
    query = read_set(folder).queries[2]
    assert [said.line for said in query.history] == ["Ann: I have one."]
    assert query.category == ""


def test_set_json_says_whose_data_it_is(folder):
    (folder / "set.json").write_text('{"name": "keys", "licence": "MIT", "part": "dev"}', encoding="utf-8")
    labelled = read_set(folder)
    assert labelled.name == folder.name
    assert labelled.licence == "MIT"


def test_several_corpora_and_label_fields_join(folder):
    write(folder / "corpus_more.jsonl", [{"id": "more:1", "chain": "event", "session": "s3", "text": "A door opened."}])
    rows = [{**row, "relevant_more": {"more:1": 1}} for row in QUERIES]
    write(folder / "queries.jsonl", rows)
    labelled = read_set(folder, corpora=["corpus.jsonl", "corpus_more.jsonl"], labels=["relevant", "relevant_more"])
    assert len(labelled.corpus.documents) == 5
    assert labelled.corpus.sessions == ("s1", "s2", "s3")
    assert labelled.queries[0].relevant == {"s1:1": 2, "more:1": 1}


def test_an_id_in_two_corpora_is_named(folder):
    write(folder / "corpus_more.jsonl", [DOCUMENTS[0]])
    with pytest.raises(DatasetError, match=r"corpus_more\.jsonl:1: id: 's1:1' is used already in .*corpus\.jsonl"):
        read_set(folder, corpora=["corpus.jsonl", "corpus_more.jsonl"])


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 10, 11, None])
def test_a_sample_is_spread_over_the_file(folder, limit):
    write(folder / "queries.jsonl", [{**QUERIES[0], "id": f"q{place}"} for place in range(10)])
    sampled = [query.query_id for query in read_set(folder).sample(limit).queries]
    assert len(sampled) == min(limit or 10, 10)
    assert sampled == sorted(set(sampled))
    if limit == 2:
        assert sampled == ["q0", "q5"]


def test_another_field_may_name_the_category(folder):
    write(folder / "queries.jsonl", [{**QUERIES[0], "repeat": False}, {**QUERIES[1], "repeat": None}])
    assert [query.category for query in read_set(folder, by="repeat").queries] == ["false", ""]


@pytest.mark.parametrize(
    ("line", "field", "said"),
    [
        ('{"id": "q2", "query": "x"', "", "is not JSON at character"),
        ("[1]", "", "is a list"),
        ('{"query": "x", "relevant": {}}', "id: ", "is missing"),
        ('{"id": "q1", "query": "x", "relevant": {}}', "id: ", "is used already on line 1"),
        ('{"id": "q2", "relevant": {}}', "query: ", "is missing"),
        ('{"id": "q2", "query": "  ", "relevant": {}}', "query: ", "is empty"),
        ('{"id": "q2", "query": 7, "relevant": {}}', "query: ", "is a number"),
        ('{"id": "q2", "query": "x"}', "relevant: ", "is missing"),
        ('{"id": "q2", "query": "x", "relevant": ["d"]}', "relevant: ", "is a list"),
        ('{"id": "q2", "query": "x", "relevant": {"d": -1}}', "relevant.d: ", "is -1"),
        ('{"id": "q2", "query": "x", "relevant": {"d": true}}', "relevant.d: ", "is True"),
        ('{"id": "q2", "query": "x", "relevant": {}, "session": 3}', "session: ", "is a number"),
        ('{"id": "q2", "query": "x", "relevant": {}, "history": "y"}', "history: ", "is text"),
        ('{"id": "q2", "query": "x", "relevant": {}, "history": ["y"]}', "history[0]: ", "is text"),
        ('{"id": "q2", "query": "x", "relevant": {}, "history": [{"speaker": "A"}]}', "history[0].text: ", "is null"),
        ('{"id": "q2", "query": "x", "relevant": {}, "category": []}', "category: ", "is a list"),
    ],
)
def test_a_broken_query_is_named(folder, line, field, said):
    file = folder / "queries.jsonl"
    file.write_text(json.dumps(QUERIES[0]) + "\n\n" + line + "\n", encoding="utf-8")
    with pytest.raises(DatasetError) as caught:
        read_set(folder)
    assert f"{file}:3: {field}" in str(caught.value)
    assert said in str(caught.value)


def test_a_broken_document_is_named(folder):
    file = folder / "corpus.jsonl"
    file.write_text(json.dumps(DOCUMENTS[0]) + '\n{"id": "x", "chain": "lor", "text": "y"}\n', encoding="utf-8")
    with pytest.raises(DatasetError, match=r"corpus\.jsonl:2: chain: is 'lor'"):
        read_set(folder)


@pytest.mark.parametrize("missing", ["corpus.jsonl", "queries.jsonl"])
def test_a_missing_file_is_named(folder, missing):
    (folder / missing).unlink()
    with pytest.raises(DatasetError, match=missing):
        read_set(folder)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(DatasetError, match="no such folder"):
        read_set(tmp_path / "nowhere")


def test_a_file_without_queries_is_named(folder):
    (folder / "queries.jsonl").write_text("\n\n", encoding="utf-8")
    with pytest.raises(DatasetError, match="holds no query"):
        read_set(folder)


def test_a_line_that_is_not_utf8_is_named(folder):
    (folder / "queries.jsonl").write_bytes(json.dumps(QUERIES[0]).encode() + b'\n{"id": "\xff"}\n')
    with pytest.raises(DatasetError, match=r"queries\.jsonl:2: is not UTF-8 at byte 9"):
        read_set(folder)


def test_broken_set_json_is_named(folder):
    (folder / "set.json").write_text("{", encoding="utf-8")
    with pytest.raises(DatasetError, match=r"set\.json"):
        read_set(folder)

"""Whether the gold answer stands in the prompt: what counts as the same text, as the same date, and in which report it is."""

from __future__ import annotations

import json
from datetime import date

import pytest
from typer.testing import CliRunner

from evals.__main__ import app
from evals.answers.answer_scores import Evidence, cut_tokens, holds_text, score_answer
from evals.answers.date_spans import gives_date, read_answer_date, read_dates

YESTERDAY = "I went to the harbour yesterday."


def words(text: str) -> int:
    return len(text.split())


@pytest.mark.parametrize(
    ("text", "answer", "found"),
    [
        ("She keeps a Blue\n lantern.", "blue lantern", True),
        ("ＢＬＵＥ lantern", "blue LANTERN", True),
        ("The lukewarm tea", "UK", False),
        ("He flew to the UK.", "UK", True),
        ("钥匙在第三块石头下面。", "第三块石头", True),
        ("钥匙在石头下面。", "第三块石头", False),
        ("anything", " ", False),
    ],
)
def test_an_answer_stands_literally(text, answer, found):
    assert holds_text(text, answer) is found


@pytest.mark.parametrize(
    ("answer", "first", "last"),
    [
        ("7 May 2023", "2023-05-07", "2023-05-07"),
        ("May 7th, 2023", "2023-05-07", "2023-05-07"),
        ("The week before 9 June 2023", "2023-06-02", "2023-06-08"),
        ("The sunday before 25 May 2023", "2023-05-21", "2023-05-21"),
        ("two weekends before 17 July 2023", "2023-07-08", "2023-07-09"),
        ("Saturday after 11 September, 2023.", "2023-09-16", "2023-09-16"),
        ("first weekend of August 2023", "2023-08-05", "2023-08-06"),
        ("last week of September 2023", "2023-09-24", "2023-09-30"),
        ("end of October 2023", "2023-10-21", "2023-10-31"),
        ("On the night of October 30 to 31, 2022", "2022-10-30", "2022-10-31"),
        ("summer 2023", "2023-06-01", "2023-08-31"),
        ("winter 2023", "2023-12-01", "2024-02-29"),
        ("In 2013", "2013-01-01", "2013-12-31"),
        ("2023年5月7日", "2023-05-07", "2023-05-07"),
        ("2023年6月9日前一周", "2023-06-02", "2023-06-08"),
        ("2023年6月9日之前的周五", "2023-06-02", "2023-06-02"),
        ("2023年6月底", "2023-06-21", "2023-06-30"),
        ("2022年夏天", "2022-06-01", "2022-08-31"),
    ],
)
def test_an_answer_that_means_a_date(answer, first, last):
    assert read_answer_date(answer) == (date.fromisoformat(first), date.fromisoformat(last))


@pytest.mark.parametrize(
    "answer", ["4 years", "her mother", "30 February 2023", "13 August", "Max died in 2022", "May"]
)
def test_an_answer_that_means_something_else(answer):
    assert read_answer_date(answer) is None


@pytest.mark.parametrize(
    ("text", "wanted", "given"),
    [
        ('at="2023-05-08T13:56Z"', "8 May 2023", True),
        ('at="2023-05-08T13:56Z"', "7 May 2023", False),
        ('at="2023-05-08T13:56Z"', "May 2023", True),
        ("it was in May 2023", "7 May 2023", False),
        ('dates="last week=2023-05-29..2023-06-04"', "The week before 9 June 2023", True),
        ('dates="last week=2023-05-29..2023-06-04"', "9 June 2023", False),
        ("2023年5月7日", "7 May 2023", True),
        ("room 2023-45", "2023", False),
    ],
)
def test_a_prompt_gives_a_date(text, wanted, given):
    meant = read_answer_date(wanted)
    assert meant is not None
    assert gives_date(text, meant) is given


def test_days_that_no_calendar_has_are_not_read():
    assert read_dates("2023-02-30, 2023年13月, 31 June 2023, 0000-01-01") == []


def test_the_scores_of_a_query():
    gold = Evidence(text="The key is <jade>.", written="<memory>The key is &lt;jade&gt;.</memory>")
    other = Evidence(text="No.", written="<memory>No.</memory>")
    scores = score_answer("<JADE>", gold=[gold], recalled=[other, gold], prompt=[other.written], count=words)
    assert scores == {"answer@500tok": 0.0, "answer_fits@500tok": 1.0, "answer_recalled": 1.0}
    scores = score_answer("<JADE>", gold=[gold], recalled=[gold], prompt=[gold.written], count=words)
    assert scores["answer@500tok"] == 1.0


def test_what_comes_after_the_budget_does_not_count():
    gold = Evidence(text="jade", written="jade")
    prompt = [" ".join(["word"] * 500), "jade"]
    assert score_answer("jade", gold=[gold], recalled=[], prompt=prompt, count=words)["answer@500tok"] == 0.0
    assert cut_tokens("one two three", 2, words).split() == ["one", "two"]


def test_figures_that_do_not_apply_are_left_out():
    gold = Evidence(text=YESTERDAY, written=YESTERDAY)
    dated = score_answer("7 May 2023", gold=[gold], recalled=[], prompt=[], count=words)
    assert sorted(dated) == ["date@500tok", "date_fits@500tok", "date_recalled"]
    assert score_answer("Bob", gold=[gold], recalled=[], prompt=[], count=words) == {}
    assert score_answer(None, gold=[gold], recalled=[], prompt=[], count=words) == {}
    assert score_answer("harbour", gold=[], recalled=[gold], prompt=[YESTERDAY], count=words) == {}


def test_report_comparison_and_page_show_them(tmp_path):
    lines = [
        {
            "id": "d1",
            "chain": "history",
            "session": "s",
            "at": "2023-05-08T10:00:00",
            "speaker": "Ann",
            "text": YESTERDAY,
        },
        {
            "id": "d2",
            "chain": "history",
            "session": "s",
            "at": "2023-05-08T10:01:00",
            "speaker": "Bob",
            "text": "The lamp is blue.",
        },
    ]
    queries = [
        {
            "id": "q1",
            "session": "s",
            "query": "Which colour is the lamp?",
            "relevant": {"d2": 1},
            "category": "a",
            "answer": "Blue",
        },
        {
            "id": "q2",
            "session": "s",
            "query": "When was the lamp seen?",
            "relevant": {"d2": 1},
            "category": "b",
            "answer": "8 May 2023",
        },
        {"id": "q3", "session": "s", "query": "How many lamps?", "relevant": {"d2": 1}, "category": "b", "answer": 4},
    ]
    for name, rows in (("corpus.jsonl", lines), ("queries.jsonl", queries)):
        (tmp_path / name).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    file, page = tmp_path / "r.json", tmp_path / "page.html"
    command = ["run", "--data", str(tmp_path), "--embedder", "none", "--json", str(file)]
    ran = CliRunner().invoke(app, command)
    assert ran.exit_code == 0, ran.output
    assert "gold answer in the prompt" in ran.stdout
    report = json.loads(file.read_text(encoding="utf-8"))
    assert report["answers"]["all"]["answer@500tok"] == {"queries": 1, "mean": 1.0, "low": 1.0, "high": 1.0}
    assert report["answers"]["by_category"]["b"]["date@500tok"]["mean"] == 1.0
    assert [sorted(row.get("answers", {}))[:1] for row in report["queries"]] == [["answer@500tok"], ["date@500tok"], []]
    compared = CliRunner().invoke(app, ["compare", str(file), str(file), "--json", "-"])
    assert json.loads(compared.stdout)["all"]["metrics"]["answer@500tok"]["delta"] == 0.0
    assert CliRunner().invoke(app, ["report", str(file), "--out", str(page)]).exit_code == 0
    assert "Gold answer in the prompt" in page.read_text(encoding="utf-8")

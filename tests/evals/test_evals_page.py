"""The page of a run: one file that loads nothing, shows hostile names as text, and is the same for the same reports."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import pytest
from typer.testing import CliRunner

from evals.app import app
from evals.errors import DatasetError
from evals.metrics import Outcome
from evals.reporting.page import page
from evals.reporting.report import Result, Row, result_json

HOSTILE = '<script>alert("x")</script> & $\\alpha$ {{ 7*7 }}'


def report(name="set", selected=("a",)):
    rows = tuple(
        Row(
            outcome=Outcome(
                query_id=f"q{number}",
                category=HOSTILE,
                relevant={"a": 1, "b": 1, "c": 1},
                retrieved=("a", "b"),
                selected=selected,
                tokens=(100, 300),
            ),
            session=None,
            recall_ms=float(number + 1),
            select_ms=1.0,
            tokens=100,
            unreachable=("c",),
        )
        for number in range(5)
    )
    config = {
        "retriever": "hybrid",
        "selector": "heuristic",
        "embedder": "none",
        "data": {"name": name, "licence": "own"},
        "machine": {"cpu": "a processor", "cores": 2},
        "load": {"before": 0.0, "after": 0.0},
    }
    made = result_json(Result(rows=rows, config=config, counts={"documents": 3, "pools": 1}))
    return json.loads(json.dumps(made))


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_a_page_holds_all_plots_and_loads_nothing():
    text = page({"one": report(), "two": report(selected=("a", "b"))})
    tags = Tags()
    tags.feed(text)
    names = [tag for tag, _ in tags.found]
    assert names.count("svg") == 4
    assert not {"script", "img", "iframe", "link", "object"} & set(names)
    assert not [attrs for _, attrs in tags.found if any("http" in str(attrs.get(key)) for key in ("src", "href"))]
    for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(svg)
    assert "mathdefault" not in text


def test_names_are_text():
    text = page({HOSTILE: report(name=HOSTILE)})
    assert "<script>" not in text
    assert "{{ 7*7 }}" in text
    assert "$\\alpha$" in text


def test_the_same_reports_make_the_same_page():
    assert page({"one": report()}) == page({"one": report()})


def test_an_older_report_is_refused():
    old = report()
    del old["evidence"]
    with pytest.raises(DatasetError, match="make it anew"):
        page({"old": old})


def test_the_command_writes_the_page_and_refuses_a_folder(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(report()))
    done = CliRunner().invoke(app, ["report", str(tmp_path / "a.json"), "--out", str(tmp_path / "out" / "page.html")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out" / "page.html").read_text().startswith("<!doctype html>")
    refused = CliRunner().invoke(app, ["report", str(tmp_path / "a.json"), "--out", str(tmp_path)])
    assert refused.exit_code == 1
    assert "is a folder" in refused.output


def test_figures_are_files_with_intervals_and_the_same_for_the_same_reports(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(report()))
    for folder in ("one", "two"):
        done = CliRunner().invoke(app, ["report", str(tmp_path / "a.json"), "--figures", str(tmp_path / folder)])
        assert done.exit_code == 0, done.output
    names = ("losses", "recall_by_candidates", "recall_by_tokens", "recall_time")
    files = sorted((tmp_path / "one").iterdir())
    assert [each.name for each in files] == [f"{name}.{form}" for name in names for form in ("pdf", "svg")]
    for each in files:
        data = each.read_bytes()
        assert data == (tmp_path / "two" / each.name).read_bytes()
        assert data.startswith(b"%PDF" if each.suffix == ".pdf" else b"<?xml")
    points = (tmp_path / "one" / "recall_by_candidates.svg").read_text(encoding="utf-8")
    assert "LineCollection" in points, "the bars of the intervals"
    assert not (tmp_path / "report.html").exists()
    ElementTree.fromstring(points)

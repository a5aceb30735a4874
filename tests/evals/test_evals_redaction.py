"""Redaction on the labelled set: the aims hold on the half that no rule was written for, and only misses of parts that rules were
written from are shown."""

from __future__ import annotations

import json
from collections import Counter

import anyio
import pytest
from typer.testing import CliRunner

from evals.app import REDACTION_SET, app
from evals.errors import DatasetError
from evals.running.redaction_set import LISTED, read_texts, redaction_json, run_redaction
from mnemosyne import RedactResult
from mnemosyne.privacy.redact import RegexRedactor


@pytest.fixture(scope="module")
def report():
    return redaction_json(anyio.run(run_redaction, REDACTION_SET, RegexRedactor()))


def test_the_set_has_two_languages_in_two_halves_with_the_same_classes():
    texts = [each for each in read_texts(REDACTION_SET) if each.half in ("tune", "held_out")]
    assert len({each.text_id for each in texts}) == len(texts)
    assert min(Counter(each.kind for each in texts).values()) >= 400
    halves = {
        half: {(each.language, each.name) for each in texts if each.half == half} for half in ("tune", "held_out")
    }
    assert halves["tune"] == halves["held_out"]


def test_the_aims_hold_on_the_held_out_half(report):
    found = report["halves"]["held_out"]
    for language in ("both", "en", "zh"):
        assert found["sensitive"]["structured"][language]["share"] >= 0.95
        assert found["sensitive"]["name"][language]["share"] >= 0.85
        assert found["harmless"]["all"][language]["share"] <= 0.02
    for name in ("id_card", "phone", "ssn", "card"):
        assert found["sensitive"][name]["both"]["share"] >= 0.95


@pytest.mark.parametrize(
    ("half", "names", "touched"), [("later", 20, 0), ("fresh", 40, 0), ("unseen", 40, 2), ("last", 27, 1)]
)
def test_texts_written_after_the_rules_keep_what_was_found_in_them(report, half, names, touched):
    found = report["halves"][half]
    assert found["sensitive"]["structured"]["both"]["share"] >= 0.95
    assert found["sensitive"]["name"]["both"]["right"] >= names
    assert found["sensitive"]["name"]["both"]["share"] >= 0.85
    harmless = found["harmless"]["all"]["both"]
    assert harmless["count"] - harmless["right"] <= touched


ROWS = {
    "structured classes": ("sensitive", "structured"),
    "labelled names": ("sensitive", "name"),
    "addresses": ("sensitive", "address"),
    "passwords": ("sensitive", "password"),
    "harmless texts touched": ("harmless", "all"),
}


@pytest.mark.parametrize("row", ROWS)
def test_the_page_has_the_figures_of_now(report, row):
    kind, name = ROWS[row]
    held_out, last = (report["halves"][half][kind][name] for half in ("held_out", "last"))
    cells = [
        f"{100 * each['share']:.1f} % ({each['right'] if kind == 'sensitive' else each['count'] - each['right']}/{each['count']})"
        for each in (held_out["both"], held_out["en"], held_out["zh"], last["both"])
    ]
    page = REDACTION_SET.parents[2] / "docs" / "measurements" / "evaluation.md"
    assert f"| {row} | {' | '.join(cells)} |" in page.read_text(encoding="utf-8")


NUMBERS = ("id_card", "messenger", "bank_account", "device", "ssn", "key", "backup_code", "password")


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_and_passwords_are_found_in_every_form_in_which_they_are_written(report, name):
    found = report["halves"]["forms"]["sensitive"][name]
    for language in ("en", "zh"):
        assert found[language]["right"] == found[language]["count"]


def test_versions_orders_and_codes_of_games_are_left_alone(report):
    harmless = report["halves"]["forms"]["harmless"]["all"]["both"]
    assert harmless["count"] >= 200
    assert harmless["right"] == harmless["count"]


def test_only_misses_of_halves_that_rules_were_written_from_are_listed(report):
    halves = {each.text_id: each.half for each in read_texts(REDACTION_SET)}
    assert {halves[miss["id"]] for miss in report["misses"]} <= set(LISTED)


class FixedRedactor:
    """Returns one text whatever it is given."""

    def __init__(self, text):
        self.text = text

    async def redact(self, text, rules=None):
        return RedactResult(redacted_text=self.text)


def test_what_is_left_of_a_mark_is_a_miss_and_what_goes_beside_it_is_counted(tmp_path):
    line = {
        "id": "x",
        "kind": "sensitive",
        "class": "name",
        "half": "tune",
        "text": "Name: ⟦Ann Lee⟧ of Harrowgate ~~a~b",
    }
    for name in ("en", "zh"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    assert read_texts(tmp_path)[0].text == "Name: Ann Lee of Harrowgate ~ab"

    for result, right, beside in (
        ("Name: [redacted:name] of Harrowgate ~ab", True, 0),
        ("Name: Ann [redacted:name] of Harrowgate ~ab", False, 0),
        ("Name: [redacted:name] Harrowgate ~ab", True, 2),
        ("[redacted:name]", True, 18),
    ):
        rows = anyio.run(run_redaction, tmp_path, FixedRedactor(result))
        assert (rows[0].right, rows[0].beside) == (right, beside)


def test_the_command_prints_tables_and_json():
    shown = CliRunner().invoke(app, ["redaction"])
    assert shown.exit_code == 0
    assert "held_out" in shown.stdout
    alone = CliRunner().invoke(app, ["redaction", "--json", "-"])
    assert json.loads(alone.stdout)["texts"] == len(read_texts(REDACTION_SET))


def test_a_line_that_is_no_labelled_text_is_named(tmp_path):
    for name in ("en.jsonl", "zh.jsonl"):
        (tmp_path / name).write_text('{"id": "x"}\n', encoding="utf-8")
    with pytest.raises(DatasetError, match=r"en\.jsonl:1: is no labelled text"):
        read_texts(tmp_path)

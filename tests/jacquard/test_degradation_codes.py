"""The list of degradation codes: each has a sentence, the page on observability has the list, and no code is written elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jacquard.core.degradations import SENTENCES, DegradationCode, degradation_table, describe_degradation
from mnemosyne.evidence.blocks.resolve import RefFault

ROOT = Path(__file__).parents[2]
REPORTED = re.compile(
    r"""(?:\.add_degradation\(|degradations\.append\(|reason=)"([a-z0-9_]+)"|["'](?:\w+_late|\w+_cut|conflict): """
)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_docs_hold_the_table(language: str) -> None:
    assert degradation_table(language) in (ROOT / "docs" / language / "observability.md").read_text(encoding="utf-8")


def test_every_code_has_a_sentence() -> None:
    assert set(SENTENCES) == set(DegradationCode)
    assert all(sentence.endswith(".") for sentence in SENTENCES.values())


def test_what_mnemosyne_reports_is_known() -> None:
    reported = {fault.value for fault in RefFault}
    for file in (ROOT / "mnemosyne").rglob("*.py"):
        reported.update(code for code in REPORTED.findall(file.read_text(encoding="utf-8")) if code)
    assert len(reported) >= 15
    assert reported <= {code.value for code in DegradationCode}


def test_jacquard_writes_codes_in_one_module() -> None:
    found = {
        (str(file.relative_to(ROOT)), code.value)
        for file in (ROOT / "jacquard").rglob("*.py")
        if file.name != "degradations.py"
        for code in DegradationCode
        if re.search(rf"""["']{code.value}(?:["']|: )""", file.read_text(encoding="utf-8"))
    }
    assert found == set()


@pytest.mark.parametrize(
    ("written", "code", "detail"),
    [
        ("no_embedder", "no_embedder", SENTENCES[DegradationCode.NO_EMBEDDER]),
        ("conflict: two prices", "conflict", "two prices"),
        ("planner_tier1: timeout: 800 ms", "planner_tier1", "timeout: 800 ms"),
        ("a_code_of_a_host", "a_code_of_a_host", "a code of a host"),
    ],
)
def test_a_code_is_described(written: str, code: str, detail: str) -> None:
    described = describe_degradation(written)
    assert (described.code, described.detail) == (code, detail)
    assert type(described.code) is str

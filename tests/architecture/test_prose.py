"""Docstrings, comments and docs keep to plain words: phrases that readers stumbled over do not come back. The list grows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("benchmarks", "docs", "evals", "jacquard")
BANNED = re.compile(
    r"rooms? exists?|\bthis room\b|\bone room\b|\brooms? of\b|\bbrothers\b|turn's back|\bthe house\b|\bthe road of\b"
    r"|behind a committed turn|\bby one door\b|\bthe same sooner\b|\bis let be\b|\bso many of the newest\b"
    r"|\bmood of the moment\b|\bat its orders\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_banned_phrase(folder: str) -> None:
    found = [
        f"{file.relative_to(ROOT)}:{number}: {match[0]}"
        for file in sorted((ROOT / folder).rglob("*"))
        if file.suffix in {".py", ".md"}
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if (match := BANNED.search(line)) is not None
    ]
    assert found == []

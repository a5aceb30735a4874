"""What the fuzzers found worth keeping is read in every run of the suite; atheris itself is not needed for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz_targets import TARGETS

CORPORA = Path(__file__).parent / "corpora"


@pytest.mark.parametrize("name", TARGETS)
def test_every_kept_input_is_read(name):
    files = sorted((CORPORA / name).iterdir())
    assert files
    for file in files:
        try:
            TARGETS[name](file.read_bytes())
        except Exception as error:
            raise AssertionError(f"{file.name}: {error}") from error

"""A browser for the tutorials that lead into the studio."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "studio"))
sys.path.insert(0, str(Path(__file__).parents[1] / "jacquard" / "service"))

from walks import open_browser


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened

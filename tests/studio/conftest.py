"""A service with the studio, and a real browser that walks through it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "jacquard" / "service"))

from walks import Walker, open_browser, play_demo, serve_studio


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    """The address of a studio with a conversation in each language (`demo-en`, `demo-zh`)."""
    folder = tmp_path_factory.mktemp("studio")
    for language in ("en", "zh"):
        play_demo(folder / "store", language)
    with serve_studio(folder / "store") as address:
        yield address


@pytest.fixture(params=["en", "zh"])
def walker(request, browser, studio):
    """A person who reads English or Chinese. At the end the browser must have had nothing to complain about."""
    with Walker.enter(browser, studio, request.param) as walker:
        yield walker

"""What every test may use."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import settings

# A deadline is a wall-clock limit: it says how busy the machine is, not whether a law holds.
settings.register_profile("house", deadline=None)
settings.load_profile("house")

sys.path.insert(0, str(Path(__file__).with_name("mnemosyne")))
pytest_plugins = ["postgres_server"]


@pytest.fixture
def anyio_backend():
    return "asyncio"

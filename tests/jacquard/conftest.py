"""What every test of jacquard may use."""

from __future__ import annotations

import pytest
from deadline_parts import StoppableLoop


@pytest.fixture
def anyio_backend():
    """An event loop whose time `deadline_by_hand` stops."""
    return "asyncio", {"loop_factory": StoppableLoop}

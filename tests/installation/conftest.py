"""The wheel, built once for all tests of what it holds and how it installs."""

from __future__ import annotations

import subprocess
import sys

import pytest
from environments import ROOT


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """Return the wheel; the sdist of which it was built lies beside it, as an installer without a wheel makes it."""
    home = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(home), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (built,) = home.glob("*.whl")
    return built

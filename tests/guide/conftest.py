"""Lets the tests of the guide serve applications as the tests of the service do."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "jacquard" / "service"))

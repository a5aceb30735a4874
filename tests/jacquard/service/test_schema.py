"""The running application keeps to its published description: all checks of schemathesis, with few examples.

The full form is in docs/en/service.md.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from calendar import monthrange
from datetime import date
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jacquard.remote.operations import OPERATIONS
from jacquard.service.http.openapi import build_openapi

HERE = Path(__file__).parent
WORLD = HERE.parents[2] / "examples" / "whispering_forest" / "en"


def test_every_operation_is_described_once():
    described = build_openapi(OPERATIONS, "1")
    names = [each["operationId"] for methods in described["paths"].values() for each in methods.values()]
    assert sorted(names) == sorted({each.name for each in OPERATIONS})
    assert len(names) == len(OPERATIONS)


def test_names_in_the_description_lead_to_schemas():
    text = json.dumps(build_openapi(OPERATIONS, "1"))
    named = build_openapi(OPERATIONS, "1")["components"]["schemas"]
    used = {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}
    assert used <= set(named)


@given(st.dates(date(1000, 1, 1), date(2999, 12, 31)), st.integers(1, 31))
@example(date(2024, 2, 1), 29)
@example(date(2026, 2, 1), 29)
def test_the_description_of_a_time_has_the_days_that_exist(day, other):
    """A description that lacked the last days of the months was broken by each answer on these days."""
    pattern = build_openapi(OPERATIONS, "1")["components"]["schemas"]["MetricsPoint"]["properties"]["at"]["pattern"]
    assert re.search(pattern, f"{day.isoformat()}T23:59:59Z")
    exists = other <= monthrange(day.year, day.month)[1]
    assert bool(re.search(pattern, f"{day:%Y-%m}-{other:02}T00:00:00.5+02:00")) is exists


@pytest.mark.parametrize("phase", ["coverage", "fuzzing"])
def test_the_application_keeps_to_its_description(service_process, phase):
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(HERE / "schemathesis.toml"), "run"]
    command += [f"{service_process.address}/openapi.json", "--exclude-path-regex", "events$", "--phases", phase]
    # A busy machine is no fault of the application.
    command += ["--request-timeout", "600", "--max-examples", "4", "--seed", "1", "--workers", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]

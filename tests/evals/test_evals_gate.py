"""A gate says of each key of a set that it would otherwise ignore."""

from __future__ import annotations

import json
import re

import pytest

from evals.errors import DatasetError
from evals.running.gate import read_gate


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"selektor": "oracle"}, "a set has selektor, which no set has; it may have data, name, queries"),
        ({"world": "w", "queries": "q", "selector": "oracle"}, "selector of one needs a set with `data`"),
    ],
)
def test_a_gate_refuses_what_it_would_ignore(tmp_path, changed, said):
    file = tmp_path / "gate.json"
    file.write_text(json.dumps({"tolerance": 1, "sets": [{"name": "one", **changed}]}), encoding="utf-8")
    with pytest.raises(DatasetError, match=re.escape(said)):
        read_gate(file)

"""`python -m benchmarks tokens`: our estimate of tokens beside each exact counter that is installed."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app


def test_the_estimate_is_compared_with_each_installed_counter_in_both_languages(tmp_path):
    if find_spec("tiktoken") is None or find_spec("litellm") is None:
        pytest.skip("the wheel of litellm carries the encodings")
    file = tmp_path / "tokens.json"
    result = CliRunner().invoke(app, ["tokens", "--json", str(file)])
    assert result.exit_code == 0, result.output
    figures = json.loads(file.read_text(encoding="utf-8"))
    counted = figures["counters"]["tiktoken:o200k_base"]
    for language in ("en", "zh"):
        assert 0.9 < counted[language]["ratio"] < 1.1
        assert counted[language]["ratio"] == round(figures["estimate"][language] / counted[language]["tokens"], 3)
    assert "tiktoken:o200k_base" in result.stdout

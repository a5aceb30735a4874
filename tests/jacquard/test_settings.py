"""Settings from code, YAML and the environment: one place each, every fault told by name."""

from __future__ import annotations

import pytest

from jacquard import BudgetConfig, ConfigError, RuntimeConfig, config_from_yaml, load_config
from jacquard.config.service import load_settings
from jacquard.config.settings import config_from_environment, config_from_mapping
from jacquard.pipeline.record.prepared_turn import request_fingerprint


def test_a_file_and_the_environment_over_it(tmp_path):
    file = tmp_path / "engine.yaml"
    file.write_text(
        "layout: cache_first\nbudget: {max_input_tokens: 4096, reserved_reply_tokens: 512}\n", encoding="utf-8"
    )
    config = load_config(file, {"JACQUARD_BUDGET__MAX_INPUT_TOKENS": "2048", "HOME": "/x", "JACQUARD_VIEWER": "42"})
    assert config.layout == "cache_first"
    assert config.budget == BudgetConfig(max_input_tokens=2048, reserved_reply_tokens=512)
    assert config.viewer == "42"
    assert config.curation == RuntimeConfig().curation


def test_values_over_a_base_keep_the_rest():
    base = RuntimeConfig(layout="cache_first", budget=BudgetConfig(max_input_tokens=100, reserved_reply_tokens=50))
    config = config_from_mapping({"budget": {"reserved_reply_tokens": 7}}, base)
    assert (config.layout, config.budget.max_input_tokens, config.budget.reserved_reply_tokens) == (
        "cache_first",
        100,
        7,
    )


def test_lists_mappings_and_nested_values():
    text = "prune: {must_keep_priorities: [must, high], ttl_seconds: {low: 3600}}\nredaction: {rules: {patterns: ['a+']}}\n"
    config = config_from_yaml(text)
    assert config.prune.must_keep_priorities == ("must", "high")
    assert config.prune.ttl_seconds == {"low": 3600.0}
    assert config.redaction.rules is not None
    assert config.redaction.rules.patterns == ("a+",)


def test_the_faults_of_a_file_and_of_variables_for_turns_and_for_the_service_are_told_at_once(tmp_path):
    file = tmp_path / "engine.yaml"
    file.write_text("layot: cache_first\nservice: {port: eighty}\n")
    variables = {"JACQUARD_BUDGET__MAX_INPUT_TOKENS": "none", "JACQUARD_SERVICE__WORKERS": "0"}
    with pytest.raises(ConfigError) as refused:
        load_settings(file, variables)
    for told in ("engine.yaml:1: layot: ", "engine.yaml:2: service.port: ", *(f"{name}: " for name in variables)):
        assert told in str(refused.value)


def test_every_fault_is_told_at_once_with_file_line_key_and_a_hint():
    text = "layot: x\nbudget:\n  max_input_token: 5\n  reserved_reply_tokens: -3\nplanner: {timeout_ms: '5'}\ndeadline_ms: 4\n"
    with pytest.raises(ConfigError) as caught:
        config_from_yaml(text, file="engine.yaml")
    told = str(caught.value).splitlines()
    assert "engine.yaml:1: layot: is no setting; did you mean 'layout'?" in told
    assert "engine.yaml:3: budget.max_input_token: is no setting; did you mean 'max_input_tokens'?" in told
    assert "engine.yaml:4: budget.reserved_reply_tokens: is -3; it must be 0 or more" in told
    assert "engine.yaml:5: planner.timeout_ms: is '5', but must be a whole number" in told
    assert "engine.yaml:6: deadline_ms: is no setting; did you mean 'curation.deadline_ms'?" in told


@pytest.mark.parametrize(
    ("variables", "fault"),
    [
        ({"JACQUARD_BUDGT__X": "1"}, "JACQUARD_BUDGT__X: is no setting; did you mean 'budget'?"),
        ({"JACQUARD_BUDGET__MAX_INPUT_TOKENS": "many"}, "is 'many', but must be a whole number"),
        ({"JACQUARD_BUDGET": "[1"}, "JACQUARD_BUDGET: cannot be read"),
        ({"JACQUARD_CURATION__ENABLED": "1"}, "must be true or false"),
    ],
)
def test_a_variable_that_cannot_be_is_refused_by_its_name(variables, fault):
    with pytest.raises(ConfigError) as caught:
        config_from_environment(variables)
    assert fault in str(caught.value)


def test_a_file_that_is_none_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "nowhere.yaml", {})
    with pytest.raises(ConfigError, match="must be a mapping"):
        config_from_yaml("- 1\n")
    with pytest.raises(ConfigError, match=":2: "):
        config_from_yaml("a: 1\n\tb: 2\n", file="x")


def test_code_is_held_to_the_same_bounds():
    with pytest.raises(ConfigError, match=r"BudgetConfig.max_input_tokens: is 0; it must be 1 or more"):
        BudgetConfig(max_input_tokens=0)


def test_settings_that_do_not_go_together_are_refused_with_their_place():
    text = "layout: classic\nbudget: {max_input_tokens: 900}\nselector: {model: a/b, reranker: /x}\n"
    with pytest.raises(ConfigError) as caught:
        config_from_yaml(text, file="engine.yaml")
    first, second = str(caught.value).splitlines()
    assert first.startswith(
        "engine.yaml:2: budget: max_input_tokens 900 leaves nothing for the prompt, as 1024 are kept"
    )
    assert second == "engine.yaml:3: selector: name a model or a reranker; only one of them can select"
    with pytest.raises(ConfigError, match="BudgetConfig: max_input_tokens 100 leaves nothing"):
        BudgetConfig(max_input_tokens=100, reserved_reply_tokens=60, reserved_tail_tokens=40)


def test_priorities_and_types_that_are_none_are_refused_by_name():
    text = """\
budget:
  tier_tokens: {high: 5, hgh: 5}
prune:
  must_keep_priorities: [must, mst]
  ttl_seconds: {low: -1}
  max_sensitivity: secretive
evidence: {ttl_seconds: {tool: 5}}
"""
    with pytest.raises(ConfigError) as caught:
        config_from_yaml(text, file="e.yaml")
    told = str(caught.value).splitlines()
    assert "e.yaml:2: budget.tier_tokens.hgh: is no setting; there are must, high, medium, low" in told
    assert "e.yaml:4: prune.must_keep_priorities: is 'mst', but must be one of must, high, medium, low" in told
    assert "e.yaml:5: prune.ttl_seconds.low: is -1.0; it must be 0 or more" in told
    assert any(line.startswith("e.yaml:6: prune.max_sensitivity: is 'secretive', but must be one of") for line in told)
    assert any(
        line.startswith("e.yaml:7: evidence.ttl_seconds.tool: is no setting; there are rag_doc,") for line in told
    )


def test_what_only_watches_a_turn_does_not_change_it():
    plain = request_fingerprint("hi", RuntimeConfig(), "d")
    watched = config_from_mapping(
        {
            "observability": {"metrics": True},
            "tags": {"arm": "b"},
            "locks": {"wait_seconds": 1.0},
            "selector": {"api_key": "k"},
        }
    )
    assert request_fingerprint("hi", watched, "d") == plain
    assert request_fingerprint("hi", config_from_mapping({"viewer": "gm"}), "d") != plain

"""What a call of the service may set: every setting of a turn, by every kind of caller. A new setting is closed by default."""

from __future__ import annotations

import dataclasses
from functools import reduce

import pytest

from jacquard import ConfigError, RuntimeConfig
from jacquard.config.experiments import with_viewer
from jacquard.config.fields import ANY, LOWER
from jacquard.config.per_call import read_call_settings
from jacquard.config.reference import settings_of
from jacquard.config.sections import ArmConfig, list_credentials
from jacquard.config.settings import config_from_mapping
from jacquard.remote.operations import OPERATIONS
from mnemosyne.core.codec import to_plain

SETTINGS = {".".join(each.path): each for each in settings_of() if each.path[:2] != ("redaction", "rules")}
NEVER = {
    *(".".join(path) for path in list_credentials()),
    *(
        name
        for name in SETTINGS
        if name.split(".")[0] in ["observability", "limits", "locks", "redaction", "snapshots", "chunks"]
    ),
    "experiments",
    "selector.model",
    "selector.reranker",
    "planner.model",
    "summary.model",
    "consolidation.model",
    "evidence.store_content",
}
"""What is the operator's to decide, whatever the definitions of settings say."""

BASE = config_from_mapping(
    {
        "prune": {"max_sensitivity": "internal", "ttl_seconds": {"low": 60.0}},
        "evidence": {"ttl_seconds": {"tool_result": 60.0}},
        "curation": {"recall_limit": 500},
    }
)


def nest(path, value):
    return reduce(lambda inner, name: {name: inner}, reversed(path), value)


def value_of(config, path):
    return to_plain(reduce(getattr, path, config))


def higher_value(own, setting):
    """A value that is higher than the service's own, and than every number that a call may set."""
    if isinstance(own, dict):
        return {}
    if isinstance(own, str):
        return setting.field.rules["words"][-1]
    return True if isinstance(own, bool) else setting.field.rules.get("high") or 10**9


@pytest.mark.parametrize("name", SETTINGS)
def test_a_call_sets_what_the_definition_of_a_setting_opens(name):
    setting = SETTINGS[name]
    own = value_of(BASE, setting.path)
    call = setting.field.rules.get("call")
    sent = nest(setting.path, own)
    if call is None:
        for value in (own, None, "http://evil.example", {}):
            with pytest.raises(ConfigError, match=f"{name}: a call cannot set this"):
                read_call_settings(nest(setting.path, value), BASE)
        return
    assert name not in NEVER
    assert read_call_settings(sent, BASE) == BASE
    if call != ANY and not (isinstance(own, bool) and own):
        with pytest.raises(ConfigError, match=name):
            read_call_settings(nest(setting.path, higher_value(own, setting)), BASE)
    if isinstance(own, bool):
        read_call_settings(nest(setting.path, False), BASE)
    if call == LOWER and isinstance(own, int | float) and not isinstance(own, bool):
        assert value_of(read_call_settings(nest(setting.path, 0), BASE), setting.path) == 0


def test_a_setting_without_a_word_about_calls_is_closed():
    for each in SETTINGS.values():
        assert each.field.rules.get("call") is None or isinstance(each.field.rules["call"], int | float)
    assert {name for name, each in SETTINGS.items() if each.field.rules.get("call") is None} | {
        "redaction.rules"
    } >= NEVER


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"curation": {"deadline_ms": 10**7}}, "curation.deadline_ms: is 10000000; a call can set at most 1500"),
        ({"prune": {"max_sensitivity": "secret"}}, "is 'secret'; in a call it can be public, internal"),
        ({"prune": {"ttl_seconds": {"low": 61.0}}}, "must have at most the numbers of the service: {'low': 60.0}"),
        ({"prune": {"ttl_seconds": {"high": 1.0}}}, "prune.ttl_seconds"),
        ({"curation": {"recall_limit": 501}}, "a call can set at most 500"),
        ({"budget": {"max_input_tokens": 10**12}}, "a call can set at most 2000000"),
        ({"layout": 5}, "layout: is 5"),
        ({"nothing": 5}, "nothing: is no setting"),
        ({"budget": 5}, "must be a mapping"),
    ],
)
def test_what_is_wrong_is_said_by_name_value_and_bound(given, sentence):
    with pytest.raises(ConfigError) as caught:
        read_call_settings(given, BASE)
    assert sentence in str(caught.value)


def test_at_most_ten_faults_are_named():
    given = to_plain(RuntimeConfig())
    with pytest.raises(ConfigError) as caught:
        read_call_settings(given, BASE)
    lines = str(caught.value).splitlines()
    assert len(lines) == 11
    assert lines[-1].startswith("and ")


def test_no_arm_of_the_services_own_experiments_sets_another_viewer():
    arm = ArmConfig(config={"viewer": "chief", "layout": "classic"})
    config = with_viewer(RuntimeConfig(experiments={"e": {"only": arm}}), "s", "stranger")
    assert (config.viewer, config.layout, dict(config.tags)) == ("stranger", "classic", {"ab.e": "only"})
    assert not config.experiments


def test_settings_come_by_the_operations_that_prepare_a_prompt_and_by_no_other():
    bodies = {each.name: each.body for each in OPERATIONS if each.body is not None}
    with_settings = {
        name for name, body in bodies.items() if any(field.name == "config" for field in dataclasses.fields(body))
    }
    assert with_settings == {"prepare_turn", "swipe", "retry", "what_if"}

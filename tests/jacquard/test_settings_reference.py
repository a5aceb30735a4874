"""What is published about the settings is what the types say."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from jacquard import ConfigError, RuntimeConfig, load_config
from jacquard.config.reference import (
    PAGE,
    SCHEMA_FILE,
    page_text,
    publish,
    schema_text,
    settings_of,
    settings_schema,
)
from jacquard.config.service import ServiceSettings, load_service_settings
from jacquard.config.settings import config_from_environment, config_from_mapping

DOCS = Path(__file__).parents[2] / "docs"
SERVICE = tuple(settings_of(ServiceSettings, ("service",)))
RENEW = "run `python -m jacquard.config.reference docs`"


def test_the_page_and_the_schema_are_current(tmp_path: Path) -> None:
    assert (DOCS / "en" / PAGE).read_text(encoding="utf-8") == page_text(), RENEW
    assert (DOCS / SCHEMA_FILE).read_text(encoding="utf-8") == schema_text(), RENEW
    publish(tmp_path)
    assert (tmp_path / "en" / PAGE).read_text(encoding="utf-8") == page_text()
    assert (tmp_path / SCHEMA_FILE).read_text(encoding="utf-8") == schema_text()


def test_every_setting_is_named_with_a_sentence() -> None:
    page = page_text()
    assert len(list(settings_of())) > 80
    for each in (*settings_of(), *SERVICE):
        assert f"| `{'.'.join(each.path)}` |" in page
        assert f"`{each.variable}`" in page
        assert each.field.doc.endswith("."), each.path


def test_no_field_of_any_section_is_left_out() -> None:
    named = {each.path for each in settings_of()}
    config = RuntimeConfig()
    for each in fields(config):
        section = getattr(config, each.name)
        below = fields(section) if is_dataclass(section) else ()
        assert {(each.name, field.name) for field in below} <= named
        assert below or (each.name,) in named


def test_the_defaults_are_valid_and_are_read_as_the_defaults() -> None:
    tree: dict[str, object] = {}
    for each in settings_of():
        here = tree
        if len(each.path) > 2:  # a part of a value that is absent by default
            continue
        for step in each.path[:-1]:
            here = here.setdefault(step, {})  # type: ignore[assignment]
        here[each.path[-1]] = each.field.default
    validator = Draft202012Validator(settings_schema())
    Draft202012Validator.check_schema(settings_schema())
    assert not list(validator.iter_errors(tree))
    assert config_from_mapping(tree) == RuntimeConfig()


def test_one_file_has_the_settings_of_turns_and_of_the_service(tmp_path: Path) -> None:
    defaults: dict[str, object] = {"proxy": {}, "limits": {}, "each_tenant": {}, "housekeeping": {}}
    for each in SERVICE:
        section = defaults if len(each.path) == 2 else defaults[each.path[1]]
        section[each.path[-1]] = each.field.default  # type: ignore[index]
    whole = {"budget": {"max_input_tokens": 9_000}, "service": defaults}
    assert Draft202012Validator(settings_schema()).is_valid(whole)
    file = tmp_path / "settings.json"
    file.write_text(json.dumps(whole), encoding="utf-8")
    assert load_config(file, {}).budget.max_input_tokens == 9_000
    assert load_service_settings(file, {}) == ServiceSettings()


@pytest.mark.parametrize(
    "wrong",
    [{"port": 0}, {"ports": 1}, {"limits": {"at_once": "many"}}, {"proxy": {"enabled": 1}}],
)
def test_the_schema_refuses_a_section_of_the_service_that_the_reader_refuses(
    wrong: dict[str, object], tmp_path: Path
) -> None:
    assert not Draft202012Validator(settings_schema()).is_valid({"service": wrong})
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({"service": wrong}), encoding="utf-8")
    with pytest.raises(ConfigError):
        load_service_settings(file, {})


@pytest.mark.parametrize(
    "wrong",
    [
        {"budgets": {}},
        {"budget": {"max_input_tokens": 0}},
        {"budget": {"tier_tokens": {"sometimes": 1}}},
        {"curation": {"enabled": "yes"}},
        {"redaction": {"mode": "keep"}},
        {"prune": {"must_keep_priorities": ["all"]}},
        {"experiments": {"e": {"a": {"config": {"tags": {"x": "y"}}}}}},
        {"experiments": {"e": {"a": {"config": {"service": {}}}}}},
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(wrong: dict[str, object]) -> None:
    assert not Draft202012Validator(settings_schema()).is_valid(wrong)
    with pytest.raises(ConfigError):
        config_from_mapping(wrong)


def test_a_part_of_the_redaction_rules_has_its_variable() -> None:
    config = config_from_environment({"JACQUARD_REDACTION__RULES__DICTIONARIES": "[secrets]"})
    assert config.redaction.rules is not None
    assert config.redaction.rules.dictionaries == ("secrets",)
    assert "redaction.rules.dictionaries" in page_text()
    assert json.loads(schema_text())["$defs"]["RedactionRules"]["properties"]["dictionaries"]["type"] == "array"

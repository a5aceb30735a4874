"""The reference has every command, option, event, metric, degradation code, error and name of the template language."""

from __future__ import annotations

import importlib

import pytest

from docs.reference import PACKAGES, cell, list_errors, make_light_pages, walk_commands
from jacquard.adapters.observe.prometheus import PrometheusMetrics
from jacquard.authoring.linting.shapes import build_variable_shapes
from jacquard.core.degradations import SENTENCES
from jacquard.templating import language
from mnemosyne.plugins import IMPORTERS
from mnemosyne.schema.event import EventType


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {path.removeprefix("reference/").removesuffix(".md"): text for path, text in make_light_pages().items()}


def test_every_command_and_option_has_a_sentence(pages: dict[str, str]) -> None:
    missing = []
    commands = "\n".join(text for name, text in pages.items() if name.startswith("commands/"))
    for path, command in walk_commands():
        section = commands.partition(f"## {path}\n")[2].partition("\n## ")[0]
        words = [each.opts[0] for each in command.params if each.opts[0].startswith("--") and not each.hidden]
        missing += [f"{path} {word}" for word in words if word != "--help" and f"`{word}`" not in section]
        missing += [path] if not section.strip() else []
    assert missing == []


def test_every_event_metric_and_code_is_there(pages: dict[str, str]) -> None:
    names = [each.value for each in EventType] + [each.value for each in SENTENCES]
    names += [each.name for each in PrometheusMetrics().registry.collect()]
    assert [name for name in names if f"`{name}`" not in pages["codes"]] == []


def test_every_public_error_has_a_sentence(pages: dict[str, str]) -> None:
    public = [
        name
        for package in PACKAGES
        for name in importlib.import_module(package).__all__
        if name.endswith("Error") and isinstance(getattr(importlib.import_module(package), name), type)
    ]
    assert [name for name in public if f"| `{name}` |" not in pages["errors"]] == []
    assert [name for _, name, kind in list_errors() if not kind.__doc__] == []


def test_every_name_of_the_template_language_is_there(pages: dict[str, str]) -> None:
    names = [
        *build_variable_shapes(None),
        *language.OWN_FILTERS,
        *language.BUILTIN_FILTERS,
        *language.TESTS,
        *language.FUNCTIONS,
    ]
    names += [*language.TEXT_METHODS, *language.MAPPING_METHODS, *language.LIST_METHODS]
    assert [name for name in names if f"`{name}`" not in pages["template-language"]] == []


def test_every_format_is_there(pages: dict[str, str]) -> None:
    assert [name for name in IMPORTERS.built_in if f"`{name}`" not in pages["file-formats"]] == []
    for schema in ("session-1.0", "context-package-0.1", "settings", "world-pack.schema"):
        assert f"{schema}.json" in pages["file-formats"]


def test_texts_of_the_code_are_never_markup() -> None:
    assert cell("a <b> `<c>` | d") == "a &lt;b> `<c>` \\| d"

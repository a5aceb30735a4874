"""The reference has every command, option, event, metric, degradation code, error and name of the template language."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import get_type_hints

import pytest

from docs.reference import ALIASES, PACKAGES, cell, list_errors, make_light_pages, make_pages, walk_commands
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


DESIGN = (
    *(
        "PruneDecision",
        "prune_decisions",
        "token_budget",
        "token_used",
        "PrepareResult",
        "session_version",
        "tier_budgets",
    ),
    *("must_keep_priorities", "ts", "doc", "filter", "Migrator", "MigrateResult", "SummarizeConfig", "ParsedSelector"),
    "CommitResult.success",
)
"""Names that the design of the SDK uses, and for which the product's own names are different or longer."""


def resolve(path: str) -> object:
    """Return what a name of `ALIASES` is: a public name, a member of its class (by its type), or a parameter of a method."""
    package, name, *members = path.split(".")
    module = importlib.import_module(package)
    assert name in module.__all__, path
    found = getattr(module, name)
    for member in members:
        if inspect.isfunction(found):
            found = inspect.signature(found).parameters[member]
        elif member in (types := get_type_hints(found)):
            found = types[member]
        else:
            found = getattr(found, member)
    return found


def test_every_name_of_the_design_is_in_the_reference(pages: dict[str, str]) -> None:
    assert [name for name in DESIGN if not re.search(rf"`(?:[\w.]+\.)?{re.escape(name)}`", pages["names"])] == []
    (chinese,) = (text for path, text in make_light_pages("zh").items() if path.endswith("names.md"))
    assert "| `PruneDecision` | `BlockDecision` 的另一个名称 | `jacquard` | 上下文 SDK |" in chinese


@pytest.mark.parametrize(("name", "target", "document"), ALIASES)
def test_a_name_of_the_design_and_the_name_that_it_stands_for_exist(name: str, target: str, document: str) -> None:
    assert document
    assert resolve(name) is not None
    assert resolve(target) is not None
    if isinstance(resolve(name), type) and name.count(".") == 1:
        assert resolve(name) is resolve(target)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_of_a_name_says_of_what_it_is_another_name(language: str) -> None:
    pytest.importorskip("griffe")
    text = "\n".join(make_pages(language).values())
    told = {
        "en": "`Report.token_used` is another name of `Report.budget.used_tokens` (context SDK).",
        "zh": "`Report.token_used` 是 `Report.budget.used_tokens` 的另一个名称（上下文 SDK）。",
    }
    assert told[language] in text


def test_every_format_is_there(pages: dict[str, str]) -> None:
    assert [name for name in IMPORTERS.built_in if f"`{name}`" not in pages["file-formats"]] == []
    for schema in ("session-1.0", "context-package-0.1", "settings", "world-pack.schema"):
        assert f"{schema}.json" in pages["file-formats"]


def test_texts_of_the_code_are_never_markup() -> None:
    assert cell("a <b> `<c>` | d") == "a &lt;b> `<c>` \\| d"

"""The pages of the service name every operation and every setting, in both languages alike."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from jacquard.config.service import ServiceLimits, ServiceSettings
from jacquard.config.tenant_sections import HousekeepingSettings, TenantSettings
from jacquard.service.http.routes import OPERATIONS
from jacquard.service.values import Scope

DOCS = Path(__file__).parents[3] / "docs"
SECTIONS = {"limits": ServiceLimits(), "each_tenant": TenantSettings(), "housekeeping": HousekeepingSettings()}
PAGES = ["service.md", "service.zh-CN.md"]
MARKS = {Scope.PLAY: "", Scope.AUTHOR: "¹", Scope.ADMIN: "²"}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_every_operation_with_its_scope(page):
    table = "".join(re.findall(r"^\|.*$", (DOCS / page).read_text(encoding="utf-8"), re.M))
    named = set()
    for methods, path in re.findall(r"`([A-Z¹², ]+) (/\S+)`", table):
        named |= {(method.strip(), f"/api/v1{path}") for method in methods.split(",")}
    assert named == {(f"{each.method}{MARKS[each.scope]}", each.path) for each in OPERATIONS}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_every_setting_with_its_default(page):
    rows = dict(
        re.findall(r"^\| `([a-z_.]+)` \| (?:`([^`]*)`|\S+) \|", (DOCS / page).read_text(encoding="utf-8"), re.M)
    )
    given = {each.name: getattr(ServiceSettings(), each.name) for each in fields(ServiceSettings)}
    given = {name: value for name, value in given.items() if name not in (*SECTIONS, "proxy", "by_tenant")}
    for name, section in SECTIONS.items():
        given |= {f"{name}.{each.name}": getattr(section, each.name) for each in fields(section)}
    told = {name: show(value) for name, value in given.items()}
    assert {name: rows.get(name) for name in told} == told


def show(value):
    """A default as a page writes it; none is no code."""
    if value is None:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value).replace("False", "false")

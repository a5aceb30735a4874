"""The pages of the service name every operation and every setting, in both languages alike."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from jacquard.config.service import ServiceLimits, ServiceSettings
from jacquard.config.tenant_sections import HousekeepingSettings, TenantSettings
from jacquard.remote.operations import OPERATIONS
from jacquard.remote.reference import PAGE, render_page

DOCS = Path(__file__).parents[3] / "docs"
SECTIONS = {"limits": ServiceLimits(), "each_tenant": TenantSettings(), "housekeeping": HousekeepingSettings()}
PAGES = ["en/service.md", "zh/service.md"]


def test_the_page_of_operations_is_made_of_the_table():
    assert (DOCS / "en" / PAGE).read_text(encoding="utf-8") == render_page(), (
        "run python -m jacquard.remote.reference docs"
    )


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_operations_that_there_are(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `([A-Z]+) (/\S+)` \|", text, re.M))
    assert len(named) >= 10
    assert named <= {(each.method, each.below) for each in OPERATIONS}


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

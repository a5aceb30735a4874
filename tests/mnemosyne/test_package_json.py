"""ContextPackage 0.1 as JSON: what its specification shows is read, what it does not know is ignored and listed."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from document_parts import STRUCTURE, objects, trees
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from mnemosyne import SchemaValidationError
from mnemosyne.core.faults import Severity
from mnemosyne.documents.json_schema import package_schema
from mnemosyne.documents.package_json import package_faults, package_from_json, package_to_json
from mnemosyne.schema.package import ContextPackage

VALIDATOR = Draft202012Validator(package_schema())
slow = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)

EXAMPLE: dict[str, Any] = {
    "version": "0.1",
    "context_id": "uuid",
    "session_id": "string",
    "created_at": "2026-02-20T12:00:00Z",
    "system_blocks": [
        {
            "type": "core_profile",
            "text": "string",
            "updated_at": "2026-02-20T00:00:00Z",
            "source": {"turn_id": "...", "memory_item_id": "..."},
        }
    ],
    "developer_blocks": [{"type": "tooling_rules", "text": "Answer from evidence."}],
    "working_summary": "",
    "recent_turns": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}],
    "evidence": [
        {
            "id": "string",
            "source": "memory",
            "source_uri": "smartbrain://turn/7",
            "title": "string",
            "snippet": "string",
            "mode": "hybrid",
            "score": 0.5,
            "signals": {"rerank_score": 0.0, "rrf_score": 0.0, "vector_score": 0.0, "fts_score": 0.0},
            "provenance": {"request_id": "uuid", "plan_version": "0.1", "retrieved_at": "2026-02-20T12:00:00Z"},
            "ref": {"document_id": "...", "section_id": "...", "turn_id": "...", "memory_item_id": "..."},
            "group": "exact_hits",
        }
    ],
    "user_message": {"role": "user", "content": "..."},
    "constraints": {
        "token_budget": {"limit": 8000, "used_estimate": 6120},
        "diversity": {"by_document": 3, "by_source": 10},
        "truncation": {"snippets_max_chars": 800, "recent_turns_max": 8},
    },
    "debug": {
        "planner": {"intent": "qa", "reason": "user asked for ...", "queries": ["..."]},
        "why_selected": ["evidence#5 rerank_score=0.91, covers key entity X"],
        "ignored": ["filter time_range not supported by backend, skipped"],
    },
}


def test_the_specification_s_package_comes_back_whole() -> None:
    package, ignored = package_from_json(EXAMPLE)
    assert ignored == ()
    assert package_to_json(package) == EXAMPLE
    assert VALIDATOR.is_valid(EXAMPLE)
    assert package.evidence[0].ref["section_id"] == "..."
    assert package.system_blocks[0].updated_at is not None


def test_the_least_package() -> None:
    least = {name: EXAMPLE[name] for name in ("version", "session_id", "created_at", "user_message")}
    package, ignored = package_from_json(least)
    assert ignored == ("context_id: is missing; this package cannot be distinguished from others",)
    out = package_to_json(package)
    assert out["evidence"] == []
    assert out["debug"] == {"ignored": list(ignored)}
    for name in least:
        with pytest.raises(SchemaValidationError, match=name):
            package_from_json({key: each for key, each in least.items() if key != name})


def test_unknown_fields_are_ignored_and_listed() -> None:
    data = copy.deepcopy(EXAMPLE)
    data["mood"] = 1
    data["evidence"][0]["colour"] = "red"
    data["evidence"][0]["mode"] = "psychic"
    data["user_message"]["name"] = "A"
    data["system_blocks"][0]["updated_at"] = "yesterday"
    package, ignored = package_from_json(data)
    assert [line.split(":")[0] for line in ignored] == [
        "evidence[0].colour",
        "user_message.name",
        "mood",
        "system_blocks[0].updated_at",
        "evidence[0].mode",
    ]
    assert package.debug["ignored"] == [*EXAMPLE["debug"]["ignored"], *ignored]
    again, left = package_from_json(package_to_json(package))
    assert [line.split(":")[0] for line in left] == ["evidence[0].mode"]
    assert again == package


def test_later_minor_versions_are_read_and_major_ones_refused() -> None:
    package, ignored = package_from_json({**EXAMPLE, "version": "0.7", "news": []})
    assert package.version == "0.1"
    assert len(ignored) == 2
    assert VALIDATOR.is_valid({**EXAMPLE, "version": "0.7"})
    with pytest.raises(SchemaValidationError, match=r"'1\.0' cannot be read here"):
        package_from_json({**EXAMPLE, "version": "1.0"})
    assert not VALIDATOR.is_valid({**EXAMPLE, "version": "1.0"})


def test_all_faults_of_a_package_come_at_once() -> None:
    data = copy.deepcopy(EXAMPLE)
    data["created_at"] = "yesterday"
    data["evidence"][0]["signals"]["x"] = "high"
    del data["evidence"][0]["source_uri"]
    data["recent_turns"] = {}
    with pytest.raises(SchemaValidationError) as caught:
        package_from_json(data)
    assert sorted(fault.split(":")[0] for fault in caught.value.faults) == [
        "created_at",
        "evidence[0].signals.x",
        "evidence[0].source_uri",
        "recent_turns",
    ]


@pytest.mark.parametrize("debug", [{"ignored": "one"}, {"ignored": None}, {}])
def test_a_list_of_what_was_ignored_is_made_of_anything(debug: dict[str, Any]) -> None:
    package, ignored = package_from_json({**EXAMPLE, "debug": debug, "x": 1})
    assert package.debug["ignored"][-1] == ignored[0]


@slow
@given(objects(ContextPackage))
def test_a_package_comes_back_from_its_json(package: ContextPackage) -> None:
    data = json.loads(json.dumps(package_to_json(package)))
    if package.version == "0.1":
        assert package_from_json(data)[0].evidence == package.evidence
    assert VALIDATOR.is_valid({**data, "version": "0.1"})
    assert (
        package_to_json(package_from_json({**data, "version": "0.1", "debug": {}})[0])["evidence"] == data["evidence"]
    )


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(data, dict | list):
        for step, each in data.items() if isinstance(data, dict) else enumerate(data):
            found += places(each, (*path, step))
    return found


@slow
@given(st.data())
def test_check_and_schema_agree(data: st.DataObject) -> None:
    package = copy.deepcopy(EXAMPLE)
    path = data.draw(st.sampled_from([place for place in places(package) if place]))
    node: Any = package
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = data.draw(trees)
    wrong = [f for f in package_faults(package) if f.code in STRUCTURE and f.severity is Severity.ERROR]
    if path != ("created_at",):
        assert VALIDATOR.is_valid(package) == (not wrong), wrong
    if wrong:
        with pytest.raises(SchemaValidationError):
            package_from_json(package)
    else:
        package_from_json(package)


@slow
@given(trees)
def test_any_json_is_read_or_refused(data: Any) -> None:
    with pytest.raises(SchemaValidationError):
        package_from_json(data)

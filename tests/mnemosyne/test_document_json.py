"""The session document 1.0: its JSON comes in and goes out without loss, and every fault is told with its path."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from document_parts import EXAMPLES, STRUCTURE, documents, raw_documents, smallest, trees
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from mnemosyne import (
    EvidenceType,
    Role,
    SchemaValidationError,
    SessionDocument,
    Task,
    TaskStatus,
    ToolCallStatus,
    document_from_json,
    document_to_json,
)
from mnemosyne.core import codec
from mnemosyne.core.faults import Severity
from mnemosyne.documents.json_schema import (
    PACKAGE_FILE,
    SESSION_FILE,
    package_schema,
    publish,
    session_schema,
)
from mnemosyne.documents.session_json import document_faults
from mnemosyne.schema.memory import Trust
from mnemosyne.shapes import schema_document

DOCS = Path(__file__).parents[2] / "docs" / "schema"
RENEW = "run `python -m mnemosyne.documents.json_schema docs/schema`"
VALIDATOR = Draft202012Validator(session_schema())
slow = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def told(data: Any) -> dict[str, str]:
    """Return `path: code` of every error."""
    return {fault.path: fault.code for fault in document_faults(data) if fault.severity is Severity.ERROR}


def warned(data: Any) -> dict[str, str]:
    """Return `path: code` of every warning."""
    return {fault.path: fault.code for fault in document_faults(data) if fault.severity is Severity.WARNING}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_the_specification_load_and_come_out_again(name: str) -> None:
    data = EXAMPLES[name]
    before = copy.deepcopy(data)
    doc = document_from_json(data)
    again = document_to_json(doc)
    assert json.dumps(again, sort_keys=True, ensure_ascii=False) == json.dumps(
        before, sort_keys=True, ensure_ascii=False
    )
    assert data == before
    assert document_from_json(again) == doc
    assert told(data) == {}
    assert VALIDATOR.is_valid(data)
    assert codec.decode(codec.encode(doc), SessionDocument) == doc


def test_what_the_examples_say_is_read() -> None:
    doc = document_from_json(EXAMPLES["full"])
    assert doc.meta is not None
    assert doc.meta.created_at == datetime(2026, 1, 20, 10, tzinfo=UTC)
    assert doc.meta.actor is not None
    assert doc.meta.actor.agent is not None
    assert doc.meta.actor.agent.agent_id == "agent-001"
    answer = doc.session.messages[2]
    assert answer.role is Role.ASSISTANT
    assert answer.refs[0].selector == "lines:12-18,chars:120-260"
    assert doc.session.summary is not None
    assert doc.session.summary.message_index_range is not None
    assert doc.session.summary.message_index_range.to_index == 18
    assert doc.session.task_state.todo_list.tasks[0].status is TaskStatus.PENDING
    assert doc.session.tool_state is not None
    assert doc.session.tool_state.tool_calls[0].provider is not None
    assert doc.session.model_usage is not None
    assert doc.session.model_usage[0].params == {"temperature": 0.2}
    assert doc.evidences["uuid"].confidence == 0.92
    assert doc.evidences["uuid"].links.tool_call_id == "uuid"
    assert doc.context_blocks[0].token_estimate == 350


def test_placeholders_are_kept_read_as_their_first_word_and_told() -> None:
    warnings = warned(EXAMPLES["full"])
    assert warnings["session.tool_state.tool_calls[0].status"] == "placeholder"
    assert warnings["session.tool_state.tool_calls[0].called_at"] == "placeholder"
    assert warnings["evidences.uuid.type"] == "placeholder"
    assert warnings["session.summary.message_index_range"] == "range"
    doc = document_from_json(EXAMPLES["full"])
    assert doc.session.tool_state is not None
    call = doc.session.tool_state.tool_calls[0]
    assert (call.status, call.called_at) == (ToolCallStatus.SUCCESS, None)
    assert call.extra["called_at"] == "…"
    assert doc.evidences["uuid"].type is EvidenceType.RAG_DOC


def test_a_later_change_wins_over_the_kept_spelling() -> None:
    doc = document_from_json(EXAMPLES["full"])
    state = doc.session.tool_state
    assert state is not None
    at = datetime(2026, 2, 10, 12, tzinfo=UTC)
    call = replace(state.tool_calls[0], status=ToolCallStatus.TIMEOUT, called_at=at, duration_ms=7)
    changed = replace(doc, session=replace(doc.session, tool_state=replace(state, tool_calls=(call,))))
    out = document_to_json(changed)["session"]["tool_state"]["tool_calls"][0]
    assert (out["status"], out["called_at"], out["duration_ms"]) == ("timeout", "2026-02-10T12:00:00Z", 7)
    assert out["type"] == "tool|skill|function_call"
    assert document_to_json(document_from_json(document_to_json(changed))) == document_to_json(changed)


def test_other_spellings_come_back_as_they_were() -> None:
    data = smallest()
    data["session"]["messages"] = [
        {"role": "developer", "content": "Be brief.", "at": "20260120T100000+0000", "refs": None},
        {"role": "user", "content": "", "at": "2026-01-20T18:00:00+08:00", "refs": [], "author": None},
    ]
    data["session"]["model_usage"] = [
        {"model_usage_id": "u", "prompt_tokens": 3.0, "first_token_latency_ms": None, "status": "success"}
    ]
    doc = document_from_json(data)
    assert doc.session.messages[0].role is Role.SYSTEM
    assert doc.session.messages[0].at == doc.session.messages[1].at
    assert json.dumps(document_to_json(doc), sort_keys=True) == json.dumps(data, sort_keys=True)
    assert warned(data) == {"session.messages[0].role": "alias"}


def test_what_was_absent_stays_absent_and_what_is_required_is_always_there() -> None:
    assert document_to_json(document_from_json(smallest())) == smallest()
    made = document_to_json(replace(document_from_json(smallest()), extra={"x": [1]}))
    assert made["x"] == [1]
    assert made["session"]["task_state"] == {"todo_list": {"tasks": []}}


def test_evidence_that_does_not_say_its_trust_is_trusted_as_its_source_is() -> None:
    data = smallest()
    for kind in ("rag", "tool", "skill", "llm", "user", "system"):
        data["evidences"][kind] = {"evidence_id": kind, "type": "other", "source": {"kind": kind}}
    data["evidences"]["said"] = {"evidence_id": "said", "type": "other", "source": {"kind": "llm"}, "trust": "web"}
    doc = document_from_json(data)
    trusts = {key: each.trust for key, each in doc.evidences.items()}
    assert trusts == {
        "rag": Trust.TOOL,
        "tool": Trust.TOOL,
        "skill": Trust.TOOL,
        "llm": Trust.MODEL,
        "user": Trust.USER,
        "system": Trust.AUTHORED,
        "said": Trust.WEB,
    }
    assert document_to_json(doc) == data


def test_all_faults_come_at_once_with_their_paths() -> None:
    data = {
        "session": {
            "session_id": "",
            "messages": [{"role": "usr", "content": 5}, {"role": "user"}, 7],
            "task_state": {"todo_list": {}},
            "model_usage": [{"model_usage_id": "u", "total_tokens": -1, "latency_ms": 1.5}],
        },
        "evidences": {"a.b": {"evidence_id": "a.b", "type": "rag_doc", "source": {}, "confidence": 2}},
        "context_blocks": {},
        "meta": {"actor": {"agent": {"name": "x"}}},
    }
    with pytest.raises(SchemaValidationError) as caught:
        document_from_json(data)
    assert set(caught.value.faults) == {
        "schema_version: is missing; add it",
        "meta.actor.agent.agent_id: is missing; add it",
        "session.session_id: is empty; it must name something",
        "session.messages[0].role: 'usr' is none of system, user, assistant, tool",
        "session.messages[0].content: is a number, not text; write it in quotes",
        "session.messages[1].content: is missing; add it",
        "session.messages[2]: is a number, not an object",
        "session.task_state.todo_list.tasks: is missing; add it",
        "session.model_usage[0].total_tokens: is -1, less than 0",
        "session.model_usage[0].latency_ms: is 1.5, not a whole number; round it",
        'evidences["a.b"].source.kind: is missing; add it',
        'evidences["a.b"].confidence: is 2, more than 1',
        "context_blocks: is an object, not a list",
    }
    assert not VALIDATOR.is_valid(data)


REQUIRED = [
    ["schema_version"],
    ["session"],
    ["session", "session_id"],
    ["session", "messages"],
    ["session", "messages", 0, "role"],
    ["session", "messages", 0, "content"],
    ["session", "task_state"],
    ["session", "task_state", "todo_list"],
    ["session", "task_state", "todo_list", "tasks"],
    ["evidences"],
    ["evidences", "uuid", "evidence_id"],
    ["evidences", "uuid", "type"],
    ["evidences", "uuid", "source", "kind"],
    ["context_blocks"],
    ["context_blocks", 0, "block_id"],
    ["context_blocks", 0, "block_type"],
    ["context_blocks", 0, "priority"],
    ["meta", "actor", "agent", "agent_id"],
]
OPTIONAL = [
    ["meta"],
    ["meta", "actor", "agent"],
    ["session", "messages", 0, "author"],
    ["session", "messages", 0, "at"],
    ["session", "summary"],
    ["session", "tool_state"],
    ["session", "model_usage"],
    ["evidences", "uuid", "source", "name"],
    ["evidences", "uuid", "content"],
    ["context_blocks", 0, "token_estimate"],
    ["context_blocks", 0, "content"],
    ["context_blocks", 0, "refs"],
]


def without(path: list[Any]) -> dict[str, Any]:
    data = copy.deepcopy(EXAMPLES["full"])
    node = data
    for step in path[:-1]:
        node = node[step]
    del node[path[-1]]
    return data


@pytest.mark.parametrize("path", REQUIRED, ids=str)
def test_the_required_fields_of_the_table(path: list[Any]) -> None:
    data = without(path)
    assert "missing" in told(data).values()
    assert not VALIDATOR.is_valid(data)


@pytest.mark.parametrize("path", OPTIONAL, ids=str)
def test_the_optional_fields_of_the_table(path: list[Any]) -> None:
    data = without(path)
    assert told(data) == {}
    assert VALIDATOR.is_valid(data)
    assert document_to_json(document_from_json(data)) == data


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (["session", "messages"], "empty"),
        (["session", "task_state"], "missing"),
        (["session", "task_state", "todo_list", "tasks"], None),
        (["evidences"], None),
        (["context_blocks"], None),
        (["session"], "missing"),
    ],
    ids=str,
)
def test_what_may_be_empty(path: list[str], code: str | None) -> None:
    data = smallest()
    node: Any = data
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = type(node[path[-1]])()
    assert (code in told(data).values()) if code else told(data) == {}


def broken(**parts: Any) -> dict[str, Any]:
    """Return a good document with tasks, calls, usages, evidences, blocks or messages put in."""
    data = smallest()
    session = data["session"]
    session["task_state"]["todo_list"]["tasks"] = parts.get("tasks", [])
    session["tool_state"] = {"tool_calls": parts.get("calls", [])}
    session["model_usage"] = parts.get("usages", [])
    session["messages"] = parts.get("messages", session["messages"])
    if "span" in parts:
        session["summary"] = {"content": "so far", "message_index_range": parts["span"]}
    data["evidences"] = parts.get("evidences", {})
    data["context_blocks"] = parts.get("blocks", [])
    return data


def evidence(name: str = "e", **more: Any) -> dict[str, Any]:
    return {"evidence_id": name, "type": "rag_doc", "source": {"kind": "rag"}, **more}


def block(name: str = "b", **more: Any) -> dict[str, Any]:
    return {"block_id": name, "block_type": "memory", "priority": "low", **more}


@pytest.mark.parametrize(
    ("data", "errors", "warnings"),
    [
        (broken(blocks=[block(), block()]), {"context_blocks[1].block_id": "duplicate"}, {}),
        (
            broken(tasks=[{"task_id": "t"}, {"task_id": "t"}]),
            {"session.task_state.todo_list.tasks[1].task_id": "duplicate"},
            {},
        ),
        (
            broken(calls=[{"tool_call_id": "c"}, {"tool_call_id": "c"}]),
            {"session.tool_state.tool_calls[1].tool_call_id": "duplicate"},
            {},
        ),
        (
            broken(usages=[{"model_usage_id": "u"}, {"model_usage_id": "u"}]),
            {"session.model_usage[1].model_usage_id": "duplicate"},
            {},
        ),
        (
            broken(messages=[{"role": "user", "content": "a", "message_id": "m"}] * 2),
            {"session.messages[1].message_id": "duplicate"},
            {},
        ),
        (
            broken(blocks=[block(refs=[{"evidence_id": "gone"}])]),
            {"context_blocks[0].refs[0].evidence_id": "dangling"},
            {},
        ),
        (broken(blocks=[block(refs=[{"evidence_id": "gone", "remote": True}])]), {}, {}),
        (
            broken(messages=[{"role": "user", "content": "a", "refs": [{"evidence_id": "gone"}]}]),
            {"session.messages[0].refs[0].evidence_id": "dangling"},
            {},
        ),
        (broken(evidences={"k": evidence("e")}), {}, {"evidences.k.evidence_id": "key"}),
        (
            broken(evidences={"e": evidence("e"), "k": evidence("e")}),
            {"evidences.k.evidence_id": "duplicate"},
            {"evidences.k.evidence_id": "key"},
        ),
        (
            broken(evidences={"k": evidence("e")}, blocks=[block(refs=[{"evidence_id": "k"}])]),
            {"context_blocks[0].refs[0].evidence_id": "dangling"},
            {"evidences.k.evidence_id": "key"},
        ),
        (
            broken(span={"from": 5, "to": 2}),
            {"session.summary.message_index_range": "range"},
            {},
        ),
        (broken(span={"from": 1, "to": 2}), {}, {"session.summary.message_index_range": "range"}),
        (broken(span={"from": 0, "to": 1}), {}, {"session.summary.message_index_range": "range"}),
        (broken(span={"from": 1, "to": 1}), {}, {}),
        (broken(span={"from": 0, "to": 0}), {}, {}),
        (
            broken(tasks=[{"task_id": "a", "depends_on": ["b"]}, {"task_id": "b", "depends_on": ["a"]}]),
            {"session.task_state.todo_list.tasks": "cycle"},
            {},
        ),
        (
            broken(tasks=[{"task_id": "a", "depends_on": ["a"]}]),
            {"session.task_state.todo_list.tasks": "cycle"},
            {},
        ),
        (
            broken(tasks=[{"task_id": "a", "depends_on": ["z"], "result_evidence_ids": ["e"]}]),
            {},
            {
                "session.task_state.todo_list.tasks[0].depends_on[0]": "dangling",
                "session.task_state.todo_list.tasks[0].result_evidence_ids[0]": "dangling",
            },
        ),
        (
            broken(calls=[{"tool_call_id": "c", "task_id": "t"}]),
            {},
            {"session.tool_state.tool_calls[0].task_id": "dangling"},
        ),
        (
            broken(usages=[{"model_usage_id": "u", "prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 7}]),
            {},
            {"session.model_usage[0].total_tokens": "sum"},
        ),
        (
            broken(evidences={"e": evidence(links={"tool_call_id": "c", "model_usage_id": "u"})}),
            {},
            {"evidences.e.links.tool_call_id": "dangling", "evidences.e.links.model_usage_id": "dangling"},
        ),
        (
            broken(evidences={"e": evidence()}, calls=[{"tool_call_id": "c", "result_evidence_ids": ["e"]}]),
            {},
            {"evidences.e.links": "unlinked"},
        ),
        (
            broken(evidences={"e": evidence(type="llm_output")}, usages=[{"model_usage_id": "u"}]),
            {},
            {"evidences.e.links": "unlinked"},
        ),
    ],
)
def test_invariants(data: dict[str, Any], errors: dict[str, str], warnings: dict[str, str]) -> None:
    assert told(data) == errors
    assert warned(data) == warnings
    assert VALIDATOR.is_valid(data)
    if errors:
        with pytest.raises(SchemaValidationError):
            document_from_json(data)


def test_a_document_of_another_version_is_refused() -> None:
    with pytest.raises(SchemaValidationError, match="only documents of"):
        document_from_json({**smallest(), "schema_version": "0.9"})
    with pytest.raises(SchemaValidationError, match="a newer release wrote it"):
        document_from_json({**smallest(), "schema_version": "1.1"})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**64, {1: 2}, object()])
def test_what_json_cannot_hold_is_refused_with_its_path(value: Any) -> None:
    with pytest.raises(SchemaValidationError, match=r"^x\[0\]"):
        document_from_json({**smallest(), "x": [value]})


def test_half_a_surrogate_pair_that_was_said_stays() -> None:
    data = smallest()
    data["session"]["messages"][0]["content"] = "broken \ud83d"
    assert document_to_json(document_from_json(data)) == data


def test_a_document_shares_nothing_with_its_json() -> None:
    data = {**smallest(), "x": {"y": [1]}}
    doc = document_from_json(data)
    data["x"]["y"].append(2)
    out = document_to_json(doc)
    assert out["x"] == {"y": [1]}
    out["x"]["y"].append(3)
    assert document_to_json(doc)["x"] == {"y": [1]}


def test_a_naive_time_is_never_written() -> None:
    doc = document_from_json(smallest())
    message = replace(doc.session.messages[0], at=datetime(2026, 1, 1))
    with pytest.raises(ValueError, match="no time zone"):
        document_to_json(replace(doc, session=replace(doc.session, messages=(message,))))


def test_a_task_that_is_done_says_so() -> None:
    doc = document_from_json(broken(tasks=[{"task_id": "t", "status": "pending"}]))
    listed = doc.session.task_state.todo_list
    done = replace(listed.tasks[0], status=TaskStatus.COMPLETED)
    state = replace(doc.session.task_state, todo_list=replace(listed, tasks=(done, Task(task_id="n"))))
    out = document_to_json(replace(doc, session=replace(doc.session, task_state=state)))
    tasks = out["session"]["task_state"]["todo_list"]["tasks"]
    assert tasks == [{"task_id": "t", "status": "completed"}, {"task_id": "n"}]


@slow
@given(documents)
def test_a_document_comes_back_from_its_json(doc: SessionDocument) -> None:
    data = document_to_json(doc)
    assert document_from_json(json.loads(json.dumps(data))) == doc
    assert VALIDATOR.is_valid(data)


@slow
@given(raw_documents)
def test_json_comes_back_from_its_document(data: dict[str, Any]) -> None:
    before = json.dumps(data, sort_keys=True)
    assert json.dumps(document_to_json(document_from_json(data)), sort_keys=True) == before
    assert json.dumps(data, sort_keys=True) == before


@slow
@given(raw_documents)
def test_the_store_s_codec_keeps_a_document_with_all_its_spellings(data: dict[str, Any]) -> None:
    doc = document_from_json(data)
    assert document_to_json(codec.decode(codec.encode(doc), SessionDocument)) == data


@slow
@given(trees)
def test_any_json_is_read_or_refused(data: Any) -> None:
    with pytest.raises(SchemaValidationError):
        document_from_json(data)


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(data, dict | list):
        items = data.items() if isinstance(data, dict) else enumerate(data)
        for step, each in items:
            found += places(each, (*path, step))
    return found


@slow
@given(st.sampled_from(sorted(EXAMPLES)), st.data())
def test_check_and_schema_agree_on_every_broken_structure(name: str, data: st.DataObject) -> None:
    doc = copy.deepcopy(EXAMPLES[name])
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from([place for place in places(doc) if place]))
        node: Any = doc
        for step in path[:-1]:
            node = node[step]
        if data.draw(st.booleans()):
            node[path[-1]] = data.draw(trees)
        else:
            del node[path[-1]]
    wrong = [fault for fault in document_faults(doc) if fault.code in STRUCTURE and fault.severity is Severity.ERROR]
    assert VALIDATOR.is_valid(doc) == (not wrong), wrong
    errors = [fault for fault in document_faults(doc) if fault.severity is Severity.ERROR]
    if errors:
        with pytest.raises(SchemaValidationError):
            document_from_json(doc)
    else:
        assert document_to_json(document_from_json(doc)) == doc


def test_the_published_schemas_are_current_and_are_schemas(tmp_path: Path) -> None:
    for name, schema in ((SESSION_FILE, session_schema()), (PACKAGE_FILE, package_schema())):
        assert (DOCS / name).read_text(encoding="utf-8") == schema_document(schema), RENEW
        Draft202012Validator.check_schema(schema)
    publish(tmp_path / "new")
    assert (tmp_path / "new" / SESSION_FILE).read_text(encoding="utf-8") == schema_document(session_schema())


def test_the_schema_names_what_the_specification_names() -> None:
    schema = session_schema()
    assert schema["required"] == ["schema_version", "session", "evidences", "context_blocks"]
    assert set(schema["$defs"]["MessageIndexRange"]["properties"]) == {"from", "to"}
    assert schema["$defs"]["Session"]["required"] == ["session_id", "messages", "task_state"]


def test_a_session_is_named_in_one_place_and_no_setting_of_the_runtime_is_in_a_document() -> None:
    schema = session_schema()
    told = set(schema["properties"]) | set(schema["$defs"]["Meta"]["properties"])
    assert "session_id" in schema["$defs"]["Session"]["properties"]
    assert not told & {"conversation_id", "session_id", "policy", "execution", "runtime", "prompt_layers", "snapshots"}

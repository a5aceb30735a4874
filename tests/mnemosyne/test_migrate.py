"""Older documents come to the present version whole or not at all, and every change is told."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from document_parts import EXAMPLES, trees
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemosyne import MigrationError, document_to_json
from mnemosyne.documents.migrate import STEPS, can_migrate, current_version, migrate, version_of


def draft() -> dict[str, Any]:
    """Return a document of the draft: every name that version 1.0 gave up."""
    return {
        "meta": {"conversation_id": "c-7", "locale": "zh-CN", "policy": {"tone": "计划"}},
        "session": {
            "messages": [{"role": "user", "content": "钥匙在哪里?", "at": "2026-01-20T10:00:00Z"}],
            "dialog_state": {"intent": "find"},
        },
        "evidences": {"e1": {"type": "rag_doc", "source": {"kind": "rag"}, "content": "line\n" * 9}, "e2": {
            "evidence_id": "e2", "type": "tool_result", "source": {"kind": "tool"}}},
        "context_blocks": [
            {"block_id": "b1", "block_type": "evidence", "priority": "high", "content_ref": "e1#lines:2-3",
             "evidence_ids": ["e1", "e2"]},
            {"block_id": "b2", "block_type": "memory", "priority": "low", "content_ref": "inline:7"},
            {"block_id": "b3", "block_type": "memory", "priority": "low",
             "content_ref": {"evidence_id": "e2", "selector": "json:$.a"}},
        ],
        "prompt_layers": ["persona"],
        "snapshots": [1],
        "execution": {"step": 1},
        "runtime": {},
    }  # fmt: skip


def test_a_draft_comes_to_the_present_with_a_log_of_every_change() -> None:
    data = draft()
    result = migrate(data)
    assert data == draft()
    assert (result.from_version, result.to_version) == ("0.9", "1.0")
    out = document_to_json(result.doc)
    assert out["session"]["session_id"] == "c-7"
    assert "conversation_id" not in out["meta"]
    assert out["session"]["task_state"] == {"todo_list": {"tasks": []}}
    assert out["evidences"]["e1"]["evidence_id"] == "e1"
    blocks = out["context_blocks"]
    assert blocks[0]["refs"] == [{"evidence_id": "e1", "selector": "lines:2-3"}, {"evidence_id": "e2"}]
    assert blocks[1]["content_ref"] == "inline:7"
    assert blocks[2]["refs"] == [{"evidence_id": "e2", "selector": "json:$.a"}]
    for kept in ("prompt_layers", "snapshots", "execution", "runtime"):
        assert out[kept] == draft()[kept]
    assert out["meta"]["policy"] == {"tone": "计划"}
    assert set(result.changes) == {
        "renamed meta.conversation_id to session.session_id",
        "added default for session.task_state",
        "added default for session.task_state.todo_list",
        "added default for session.task_state.todo_list.tasks",
        "added evidences.e1.evidence_id from its key",
        "renamed context_blocks[0].content_ref and context_blocks[0].evidence_ids to context_blocks[0].refs",
        "kept context_blocks[1].content_ref unread: it names no evidence of the document",
        "renamed context_blocks[2].content_ref to context_blocks[2].refs",
        "kept prompt_layers unread: 1.0 has no such field",
        "kept snapshots unread: 1.0 has no such field",
        "kept execution unread: 1.0 has no such field",
        "kept runtime unread: 1.0 has no such field",
        "kept meta.policy unread: 1.0 has no such field",
        "kept session.dialog_state unread: 1.0 has no such field",
        "set schema_version to 1.0",
    }


@pytest.mark.parametrize(
    ("session", "meta", "kept", "change"),
    [
        ({"id": "a"}, {}, "a", "renamed session.id to session.session_id"),
        ({"session_id": "a", "id": "a"}, {}, "a", "removed session.id: session.session_id says the same"),
        (
            {"session_id": "a"},
            {"conversation_id": "b"},
            "a",
            "kept meta.conversation_id unread: it differs from session.session_id",
        ),
    ],
)
def test_a_session_has_one_id(session: dict[str, Any], meta: dict[str, Any], kept: str, change: str) -> None:
    data = draft()
    data["meta"] = meta
    data["session"].update(session)
    result = migrate(data)
    assert result.doc.session.session_id == kept
    assert change in result.changes


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_present_document_stays_as_it_is(name: str) -> None:
    result = migrate(EXAMPLES[name])
    assert (result.from_version, result.to_version, result.changes) == ("1.0", "1.0", ())
    assert document_to_json(result.doc) == EXAMPLES[name]


@pytest.mark.parametrize("version", ["1.1", "2.0", "10.0", "1.0.1"])
def test_a_newer_document_is_refused_by_both_versions(version: str) -> None:
    with pytest.raises(MigrationError, match=rf"version {version} .*version 1\.0: it was written by a newer") as caught:
        migrate({**EXAMPLES["smallest"], "schema_version": version})
    assert (caught.value.from_version, caught.value.to_version) == (version, "1.0")


@pytest.mark.parametrize("version", ["0.5", "one", "", 1, None])
def test_an_unknown_version_is_refused(version: Any) -> None:
    with pytest.raises(MigrationError, match=r"documents of 0\.9, 1\.0 can be read"):
        migrate({**EXAMPLES["smallest"], "schema_version": version})


def test_a_caller_may_say_the_version() -> None:
    data = {key: each for key, each in EXAMPLES["smallest"].items() if key != "schema_version"}
    assert migrate(data, "1.0").changes == ()
    assert version_of(data) == "0.9"


def test_every_step_leads_on_to_the_present() -> None:
    assert can_migrate(current_version())
    for step in STEPS:
        assert can_migrate(step.from_version)
        assert can_migrate(step.to_version)
    assert not can_migrate("3.0")


def test_a_broken_draft_is_refused_with_every_fault_and_stays_as_it_was() -> None:
    data = draft()
    data["session"]["messages"] = [{"role": "narrator", "content": "x"}]
    data["context_blocks"][0]["evidence_ids"] = ["gone"]
    before = copy.deepcopy(data)
    with pytest.raises(MigrationError) as caught:
        migrate(data)
    assert data == before
    assert [fault.split(":")[0] for fault in caught.value.faults] == [
        "session.messages[0].role",
        "context_blocks[0].refs[1].evidence_id",
    ]


@pytest.mark.parametrize("data", [None, [], "x", 3])
def test_what_is_no_document_at_all_is_refused(data: Any) -> None:
    with pytest.raises(MigrationError, match="not an object"):
        migrate(data)


def test_refs_that_are_no_list_are_told_not_tripped_over() -> None:
    data = draft()
    data["context_blocks"][0]["refs"] = 7
    with pytest.raises(MigrationError, match=r"context_blocks\[0\]\.refs: is a number, not a list"):
        migrate(data)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_is_done_to_a_draft_it_comes_over_whole_or_not_at_all(data: st.DataObject) -> None:
    doc = draft()
    for _ in range(data.draw(st.integers(1, 3))):
        node: Any = doc
        while True:
            keys = list(node) if isinstance(node, dict) else list(range(len(node)))
            if not keys:
                break
            key = data.draw(st.sampled_from(keys))
            inner = node[key]
            if isinstance(inner, dict | list) and inner and data.draw(st.booleans()):
                node = inner
                continue
            node[key] = data.draw(trees)
            break
    before = copy.deepcopy(doc)
    try:
        result = migrate(doc)
    except MigrationError:
        pass
    else:
        assert migrate(document_to_json(result.doc)).changes == ()
    assert doc == before

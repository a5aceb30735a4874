"""What a program in the same process can do, a client can do over HTTP: each public method has its operation, or a reason."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest

from jacquard import ContextEngine, MemoryVerbs, Runtime
from jacquard.client.verbs import RemoteVerbs
from jacquard.remote.operations import OPERATIONS
from jacquard.service.http.handlers import HANDLERS
from mnemosyne import Store

TURN = "a turn writes it: prepare_turn and commit_assistant_message"
IMPORT = (
    "a conversation from elsewhere comes by put_document or adopt_messages; files of others by `jacquard memory import`"
)
INDEX = "what the index reads; a client asks it by search_memory"
INSIDE = "the service's own work, which a client does not see"
COMMAND = "upkeep of a store: a command on its machine"
DOCUMENT = "get_document has it with the whole session"

RUNTIME = {
    "world_of": "get_session_head get_world",
    "ensure_session": "start_session",
    "plan_erasure": "erase",
    "forget": "erase",
    "import_world": "put_world",
    "reload_world": "put_world_files",
    "archive_session": "archive_session",
    "open_archived": "open_archived",
    "archived_sessions": "list_archived",
}
RUNTIME_REASONS = {
    "sweep": COMMAND,
    "import_session": IMPORT,
    "sync": INSIDE,
    "warm": INSIDE,
    "overlay": "prepare_turn with dry_run",
    "action": "prepare_turn answers an action itself",
}
STORE = {
    "create_session": "start_session",
    "sessions": "list_sessions",
    "head": "get_session_head",
    "window": "list_messages",
    "turn": "get_turn",
    "turns": "list_turns",
    "branches": "branches",
    "fork": "fork",
    "switch": "switch",
    "state_at": "get_state",
    "replace_world": "put_world",
    "worlds": "list_worlds",
    "world_digest": "list_worlds",
    "pack": "get_world",
    "entries": "get_memory list_lore",
    "entries_before": "browse_memory",
    "chain_sizes": "browse_memory",
    "sessions_by_time": "list_conversations",
    "get_session": "get_document",
    "put_session": "put_document",
    "put_evidence": "ingest",
    "get_evidence": "get_evidence",
    "list_evidences": "list_evidences",
    "append_tool_calls": "record_tool_call",
    "append_model_usage": "record_model_usage",
    "append_messages": "adopt_messages",
    "upsert_tasks": "upsert_tasks",
    "erase": "erase",
    "preview_erasure": "erase",
    "audits": "list_audits",
}
STORE_REASONS = {
    "file_faults": COMMAND,
    "walk_rows": COMMAND,
    "find_text": COMMAND,
    "close": INSIDE,
    "adopt_world": "a turn adopts a changed pack; put_world changes it",
    "append_turns": IMPORT,
    "add_branches": IMPORT,
    "committed_turns": INSIDE,
    "outlines": "list_users reads them",
    "find_exchanges": INSIDE,
    "save_prepared": TURN,
    "commit_turn": TURN,
    "commit_numerical": TURN,
    "save_prefetch": TURN,
    "add_chunk": "commit_assistant_chunk",
    "unfinished_reply": "finalize_assistant_message reads it",
    "drop_unfinished": "abort_assistant_message",
    "save_summary": "summarize writes it",
    "turn_inputs": TURN,
    "chosen_inputs": TURN,
    "depths_with_system_messages": INSIDE,
    "gated_entries": INDEX,
    "entries_after": INDEX,
    "chains_written_after": INDEX,
    "append_entries": "remember_memory, add_lore and consolidate write entries",
    "hidden_records": INSIDE,
    "save_hidden_records": "supersede_memory and forget_memory hide records",
    "patch_session": "put_document with a version",
    "find_evidence": "ingest finds evidence that is there already",
    "put_context_blocks": TURN,
    "list_context_blocks": DOCUMENT,
    "tool_call": DOCUMENT,
}
CASES = {
    MemoryVerbs: (
        {each.python.removeprefix("MemoryVerbs."): each.name for each in OPERATIONS if "MemoryVerbs" in each.python},
        {},
    ),
    Runtime: (RUNTIME, RUNTIME_REASONS),
    Store: (STORE, STORE_REASONS),
}


OWNERS = {each.__name__: each for each in (ContextEngine, Runtime, MemoryVerbs)}


def public_methods(kind: type) -> set[str]:
    return {name for name, each in vars(kind).items() if not name.startswith("_") and inspect.isfunction(each)}


@pytest.mark.parametrize("kind", CASES)
def test_every_public_method_has_its_operation_or_a_reason(kind):
    operations, reasons = CASES[kind]
    assert public_methods(kind) == {*operations, *reasons}
    assert not set(operations) & set(reasons)
    known = {each.name for each in OPERATIONS}
    for name, called in operations.items():
        assert set(called.split()) <= known, name


def test_the_table_names_methods_that_there_are():
    for each in OPERATIONS:
        owner, _, method = each.python.partition(".")
        assert not owner or hasattr(OWNERS[owner], method), each.name
        assert owner or each.name in HANDLERS, each.name


def test_a_call_without_a_handler_has_the_parameters_of_its_method():
    for each in OPERATIONS:
        if each.name not in HANDLERS:
            owner, _, method = each.python.partition(".")
            sent = [field.name for field in fields(each.body)] if each.body is not None else []
            asked = [query.name for query in each.query if query.name not in ("author", "viewer")]
            signature = inspect.signature(getattr(OWNERS[owner], method))
            signature.bind(None, *each.path_ids, **dict.fromkeys([*sent, *asked]))
            assert list(signature.parameters)[1 : len(each.path_ids) + 1] == list(each.path_ids), each.name


def test_every_verb_is_there_for_a_client_with_its_parameters():
    for name in public_methods(MemoryVerbs):
        here, there = (inspect.signature(getattr(kind, name)) for kind in (MemoryVerbs, RemoteVerbs))
        assert list(here.parameters.values()) == list(there.parameters.values()), name

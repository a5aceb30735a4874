"""What a program in the same process can do, a client can do over HTTP: each public method has its operation, or a reason."""

from __future__ import annotations

import inspect

import pytest

from jacquard import MemoryVerbs, Runtime
from jacquard.client.verbs import RemoteVerbs
from jacquard.service.http.routes import OPERATIONS
from mnemosyne import Store

TURN = "a turn writes it: prepare_turn and commit_assistant_message"
IMPORT = (
    "a conversation from elsewhere comes by put_document or adopt_messages; files of others by `jacquard memory import`"
)
INDEX = "what the index reads; a client asks it by search_memory"
INSIDE = "the service's own work, which a client does not see"
COMMAND = "upkeep of a store: a command on its machine"
DOCUMENT = "get_document has it with the whole session"

VERBS = {
    "sessions": "list_sessions",
    "search": "search_memory",
    "memory": "get_memory",
    "remember": "remember_memory",
    "edit": "edit_memory",
    "supersede": "supersede_memory",
    "pin": "pin_memory",
    "unpin": "unpin_memory",
    "undo": "undo_memory_edit",
    "log": "memory_log",
    "forget": "forget_memory",
    "continue_session": "continue_session",
    "proposals": "memory_proposals",
    "accept": "accept_proposal",
    "reject": "reject_proposal",
    "get_state": "get_state",
    "set_state": "set_state",
    "lore": "list_lore",
    "add_lore": "add_lore",
    "edit_lore": "edit_lore",
}
RUNTIME = {
    "world_of": "get_session_head get_world",
    "ensure_session": "start_session",
    "plan_erasure": "erase",
    "forget": "erase",
    "import_world": "put_world",
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
    "find_exchanges": INSIDE,
    "save_prepared": TURN,
    "commit_turn": TURN,
    "commit_numerical": TURN,
    "save_prefetch": TURN,
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
    MemoryVerbs: (VERBS, {}),
    Runtime: (RUNTIME, RUNTIME_REASONS),
    Store: (STORE, STORE_REASONS),
}


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


def test_every_verb_is_there_for_a_client_with_its_parameters():
    for name in public_methods(MemoryVerbs):
        here, there = (inspect.signature(getattr(kind, name)) for kind in (MemoryVerbs, RemoteVerbs))
        assert list(here.parameters.values()) == list(there.parameters.values()), name

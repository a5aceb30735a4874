"""Names that the design gives to values, fields, enumerations, events, errors and defaults are those of the packages."""

from __future__ import annotations

import dataclasses
import enum
import inspect
from typing import Any

import pytest

import jacquard
import mnemosyne
from jacquard import RuntimeConfig
from mnemosyne.schema.event import EventType

ENUMERATIONS = {
    "Role": "system user assistant tool",
    "AuthorKind": "user agent tool system",
    "EvidenceType": "rag_doc tool_result skill_output llm_output user_input other",
    "SourceKind": "rag tool skill llm user system",
    "BlockType": "instruction conversation state plan evidence memory",
    "Priority": "must high medium low",
    "ToolCallStatus": "success timeout forbidden not_found error",
    "ProviderKind": "builtin mcp other",
    "ToolType": "tool skill function_call",
    "ModelUsageStage": "route plan tool_call answer summarize other",
    "ModelUsageStatus": "success error",
    "TaskStatus": "pending in_progress completed failed cancelled",
}
FIELDS = {
    "Author": "kind id",
    "Ref": "evidence_id selector",
    "Message": "role content author at refs",
    "MessageIndexRange": "from_index to_index",
    "Summary": "content updated_at message_index_range",
    "Task": "task_id name status depends_on result_evidence_ids error",
    "ToolProvider": "kind name uri",
    "ToolCall": "tool_call_id tool provider type called_at args_digest status duration_ms result_evidence_ids task_id",
    "ModelUsage": "model_usage_id provider model stage params prompt_tokens completion_tokens total_tokens"
    " first_token_latency_ms latency_ms status error task_id",
    "Session": "session_id messages summary task_state tool_state model_usage",
    "EvidenceSource": "kind name uri",
    "EvidenceLinks": "model_usage_id tool_call_id",
    "Evidence": "evidence_id type source content confidence metadata links",
    "ContextBlock": "block_id block_type priority token_estimate content refs",
    "AgentInfo": "agent_id name version",
    "Actor": "user_id user_role agent",
    "Meta": "locale created_at updated_at actor",
    "SessionDocument": "schema_version session evidences context_blocks meta",
    "PutResult": "success version error",
    "RenderedBlock": "block_id block_type priority rendered_content token_estimate",
    "MessagePart": "role content",
    "AssembledInput": "parts text total_tokens",
    "PruneDecision": "block_id action reason token_estimate",
    "ConflictRecord": "evidence_ids field_path resolution detail",
    "RedactionRecord": "evidence_id rules_applied fields_redacted",
    "Report": "turn_id new_evidence_ids new_block_ids prune_decisions conflicts redactions token_budget token_used"
    " degradations errors",
    "PrepareResult": "assembled_input report session_version",
    "EvidenceFilter": "types source_kinds since until tags limit",
    "BlockFilter": "block_types priorities min_priority limit",
    "IngestOptions": "redact dedup confidence",
    "DeriveOptions": "include_conversation include_state include_evidences custom_instructions",
    "PruneBudget": "max_tokens tier_budgets",
    "PruneRules": "must_keep_priorities ttl_seconds now",
    "PruneResult": "kept dropped decisions",
    "RenderHints": "max_chars format",
    "RedactionRules": "patterns field_paths dictionaries",
    "RedactResult": "redacted_text applied_rules has_sensitive",
    "MigrateResult": "doc from_version to_version changes",
    "SummarizeConfig": "max_summary_tokens trigger_message_count trigger_token_threshold preserve_recent_messages",
    "LlmRequest": "messages model max_tokens temperature",
    "LlmResponse": "content model prompt_tokens completion_tokens total_tokens latency_ms",
    "Event": "event_type session_id turn_id task_id tool_call_id model_usage_id ts tags payload",
    "RuntimeConfig": "model_hint provider_hint budget prune redaction observability summary",
}
METHODS = {
    "Store": "get_session put_session append_messages patch_session put_evidence get_evidence list_evidences"
    " put_context_blocks list_context_blocks append_tool_calls append_model_usage upsert_tasks",
    "ContextEngine": "prepare_turn commit_assistant_message commit_assistant_chunk finalize_assistant_message"
    " record_tool_call record_model_usage",
    "EventBus": "emit on off on_all",
    "Migrator": "current_version can_migrate migrate",
    "RefSelector": "parse extract",
}
EVENTS = (
    "SessionLoaded MessageAppended SummaryGenerated ToolCalled ToolCallCompleted EvidenceIngested BlocksDerived"
    " PruneCompleted Assembled AssistantChunkReceived AssistantMessageFinalized Persisted Error Degraded"
)
DEFAULTS: dict[str, Any] = {
    "budget.max_input_tokens": 8192,
    "budget.reserved_reply_tokens": 1024,
    "prune.must_keep_priorities": ("must",),
    "redaction.enabled": True,
    "redaction.mode": "store_redacted_only",
    "observability.emit_events": True,
    "observability.include_reports_in_store": True,
    "summary.enabled": True,
    "summary.trigger_message_count": 20,
    "summary.trigger_token_threshold": 4096,
    "summary.preserve_recent_messages": 5,
}
ASYNC = {
    "EvidenceIngestor": "ingest",
    "Renderer": "render_block",
    "Summarizer": "summarize",
    "Redactor": "redact",
    "LlmAdapter": "generate",
    "EventBus": "emit",
    "Store": "get_session",
    "ContextEngine": "prepare_turn",
}
SYNC = {
    "TokenEstimator": "estimate",
    "Pruner": "prune",
    "Assembler": "assemble",
    "RefSelector": "extract",
    "IdGenerator": "generate",
    "Clock": "now",
    "Hasher": "digest",
}


def find(name: str) -> Any:
    return getattr(jacquard if name in jacquard.__all__ else mnemosyne, name)


@pytest.mark.parametrize("name", ENUMERATIONS)
def test_an_enumeration_has_the_values_of_the_design(name: str) -> None:
    kind = find(name)
    assert issubclass(kind, enum.Enum)
    further = {"running"} if name == "ToolCallStatus" else set()
    assert {each.value for each in kind} == set(ENUMERATIONS[name].split()) | further


@pytest.mark.parametrize("name", FIELDS)
def test_a_value_has_the_fields_of_the_design(name: str) -> None:
    kind = find(name)
    fields = {each.name for each in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set()
    assert [each for each in FIELDS[name].split() if each not in fields and not hasattr(kind, each)] == []


@pytest.mark.parametrize("name", METHODS)
def test_a_part_has_the_methods_of_the_design(name: str) -> None:
    assert [each for each in METHODS[name].split() if not callable(getattr(find(name), each, None))] == []


def test_every_event_of_the_design_exists() -> None:
    assert set(EVENTS.split()) <= {each.value for each in EventType}


@pytest.mark.parametrize("path", DEFAULTS)
def test_a_default_is_that_of_the_design(path: str) -> None:
    value: Any = RuntimeConfig()
    for step in path.split("."):
        value = getattr(value, step)
    assert value == DEFAULTS[path]


def test_what_waits_is_async_and_what_calculates_is_not() -> None:
    assert [
        name for name, method in ASYNC.items() if not inspect.iscoroutinefunction(getattr(find(name), method))
    ] == []
    assert [name for name, method in SYNC.items() if inspect.iscoroutinefunction(getattr(find(name), method))] == []

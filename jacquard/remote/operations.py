"""Table of operations: routes, access rules, `/openapi.json`, client, MCP tools and `docs/operations.md` are made of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jacquard.authoring.replay.provenance import Origin
from jacquard.authoring.why_not import Absence
from jacquard.core.errors import (
    BudgetExceededError,
    ChunkConflictError,
    ConfigError,
    InputTooLargeError,
    MemoryNotFoundError,
    MissingChunksError,
    SummarizerError,
    TemplateError,
    ToolPairError,
    WorldUnavailableError,
)
from jacquard.memory.consolidate.consolidator import ConsolidationResult
from jacquard.memory.verbs.values import FoundMemory, Memory, MemoryEdit
from jacquard.pipeline.record.commit import CommitResult
from jacquard.remote.bodies import (
    AbortAnswer,
    AbortRequest,
    AcceptRequest,
    AdoptRequest,
    AgainRequest,
    AuditedCall,
    BranchRequest,
    ChunkRequest,
    ConsolidateRequest,
    ContinueRequest,
    DocumentRequest,
    EditRequest,
    ErasureAnswer,
    ErasureRequest,
    EstimateAnswer,
    EstimateRequest,
    EvidenceRequest,
    FactsRequest,
    FinalizeRequest,
    ForgottenMemory,
    ForkRequest,
    LoreChange,
    LorePage,
    LoreRequest,
    MemoryTextRequest,
    PromptAnswer,
    ReceiptAnswer,
    RememberRequest,
    RepairRequest,
    ReplayAnswer,
    ReplyRequest,
    RollbackRequest,
    SearchRequest,
    SessionPage,
    SessionRequest,
    StateRequest,
    SwitchRequest,
    TailRequest,
    TasksRequest,
    TokenAnswer,
    TokenRecord,
    TokenRequest,
    ToolCallRequest,
    TurnPage,
    TurnRequest,
    UsageRequest,
    WorldDocument,
    WorldName,
    WorldRequest,
)
from jacquard.remote.operation import Operation, Query, Scope, Tool
from jacquard.remote.wire import ALL, PARTS, SentTurn
from jacquard.turns.writing.repair import RepairResult
from mnemosyne.core.errors import (
    BranchExistsError,
    BranchNotFoundError,
    DamagedRecordError,
    EvidenceNotFoundError,
    RedactionError,
    SchemaValidationError,
    SessionExistsError,
    SessionNotFoundError,
    StateOpError,
    TurnNotFoundError,
    TurnNotPendingError,
    VersionConflictError,
    WorldPackError,
)
from mnemosyne.protocols import ArchivedSession
from mnemosyne.schema.document import Summary, Task
from mnemosyne.schema.erasure import AuditRecord
from mnemosyne.schema.event import Event
from mnemosyne.schema.evidence import Evidence
from mnemosyne.schema.ingest import IngestResult
from mnemosyne.schema.memory import MemoryEntry, UserFact
from mnemosyne.schema.record import PutResult
from mnemosyne.schema.session import Message, SessionHead

VIEWER = Query("viewer", "See and edit what this character may know; with a token of a viewer it is that one.")
AUTHOR = Query("author", "Who makes the edit, in a service without tenants; with tenants it is the token.")
INCLUDE = Query(
    "include",
    "Parts of the turn to send with its messages, its ids and its short report.",
    kind=tuple,
    default=(),
    names=(*PARTS, ALL),
)
_BRANCH = Query("branch", "A branch other than the active one.")
_AFTER = Query("after", "Only ids behind this one.", default="")


def _limit(default: int, most: int) -> Query:
    return Query("limit", "At most so many.", kind=int, default=default, least=1, most=most)


_SESSION = "/sessions/{session_id}"
_TURN = f"{_SESSION}/turns/{{turn_id}}"
_ONE = f"{_SESSION}/memory/{{memory_id}}"
_WORLD = "/worlds/{world_id}"
_HEAD = frozenset({"lineage", "version"})
_ENTRY = frozenset(
    {"scope", "when", "chain", "branch_id", "depth", "turn_id", "priority", "metadata", "trust", "at", "speaker"}
)
_REPLY = frozenset({"thought", "ops", "verdicts", "version", "set_aside"})
_ORIGIN = frozenset({"message", "start", "end", "span", "refs", "evidences", "digest"})

# fmt: off
OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "list_sessions", "GET", "/sessions", "MemoryVerbs.sessions", answer=SessionPage,
        query=(Query("query", "Only ids that contain these words.", default=""), _AFTER, _limit(50, 200)),
        doc="List the ids of sessions, in order.",
        tool=Tool("List session ids."),
    ),
    Operation(
        "start_session", "POST", "/sessions", "ContextEngine.start_session", body=SessionRequest, answer=SessionHead, status=201,
        open_to_viewers=True, once=True, errors=(SessionExistsError, SessionNotFoundError),
        doc="Start a session; in the world of the service, an existing one is returned.",
        tool=Tool("Start a session, or find it.", omit=_HEAD, is_idempotent=True),
    ),
    Operation(
        "get_session_head", "GET", _SESSION, "", answer=SessionHead, open_to_viewers=True, query=(_BRANCH,),
        errors=(SessionNotFoundError, BranchNotFoundError),
        doc="Return the head of a session: its active branch, its newest turn, its version.",
    ),
    Operation(
        "get_document", "GET", f"{_SESSION}/document", "", answer=dict[str, Any], is_audited=True, query=(_BRANCH,),
        errors=(SessionNotFoundError, BranchNotFoundError),
        doc="Return a session as a document of version 1.0 (docs/documents.md).",
    ),
    Operation(
        "put_document", "PUT", f"{_SESSION}/document", "", body=DocumentRequest, answer=PutResult, scope=Scope.AUTHOR,
        errors=(VersionConflictError, SchemaValidationError),
        doc="Write a session as a document of version 1.0; a version other than the expected one is a conflict.",
    ),
    Operation(
        "list_turns", "GET", f"{_SESSION}/turns", "", answer=TurnPage, open_to_viewers=True,
        query=(_BRANCH, Query("before", "Only turns before this depth.", kind=int, least=1, most=10**12), _limit(20, 200)),
        errors=(SessionNotFoundError, BranchNotFoundError),
        doc="List committed turns of a branch, the newest page first.",
    ),
    Operation(
        "list_messages", "GET", f"{_SESSION}/messages", "", answer=tuple[Message, ...], open_to_viewers=True,
        query=(_BRANCH, _limit(50, 2_000)), errors=(SessionNotFoundError, BranchNotFoundError),
        doc="List the newest messages of a branch, oldest first.",
    ),
    Operation(
        "edit_message", "PATCH", f"{_SESSION}/messages/{{message_id}}", "ContextEngine.edit_message", body=EditRequest,
        answer=SessionHead, once=True, errors=(SessionNotFoundError, ConfigError, InputTooLargeError),
        doc="Give a message another text, on a new branch that keeps all later messages.",
    ),
    Operation(
        "adopt_messages", "POST", f"{_SESSION}/adopt", "ContextEngine.adopt_messages", body=AdoptRequest, answer=SessionHead,
        errors=(ConfigError, InputTooLargeError),
        doc="Take in messages that were exchanged elsewhere; the same messages again change nothing.",
    ),
    Operation(
        "archive_session", "PUT", f"{_SESSION}/archive", "Runtime.archive_session", answer=ArchivedSession,
        scope=Scope.AUTHOR, errors=(SessionNotFoundError, ConfigError),
        doc="Pack the rows of a session and drop its index; its next turn opens it again. An archived session is not changed.",
    ),
    Operation(
        "open_archived", "DELETE", f"{_SESSION}/archive", "Runtime.open_archived", scope=Scope.AUTHOR,
        errors=(SessionNotFoundError, ConfigError, DamagedRecordError),
        doc="Open an archived session, as its next turn would; an open one is not changed.",
    ),
    Operation(
        "list_archived", "GET", "/archives", "Runtime.archived_sessions", answer=tuple[ArchivedSession, ...],
        query=(_AFTER, _limit(50, 1_000)), errors=(ConfigError,),
        doc="List archived sessions by their ids: when each was archived, and its size before and after.",
    ),
    Operation(
        "branches", "GET", f"{_SESSION}/branches", "ContextEngine.branches", answer=tuple[SessionHead, ...], open_to_viewers=True,
        errors=(SessionNotFoundError,),
        doc="List the heads of all branches, the active one first.",
    ),
    Operation(
        "fork", "POST", f"{_SESSION}/fork", "ContextEngine.fork", body=ForkRequest, answer=SessionHead, open_to_viewers=True,
        errors=(SessionNotFoundError, TurnNotFoundError, BranchExistsError),
        doc="Open a branch after a committed turn and make it the active one.",
    ),
    Operation(
        "switch", "POST", f"{_SESSION}/switch", "ContextEngine.switch", body=SwitchRequest, answer=SessionHead,
        open_to_viewers=True, errors=(SessionNotFoundError, BranchNotFoundError),
        doc="Make another branch the active one.",
    ),
    Operation(
        "rollback", "POST", f"{_SESSION}/rollback", "ContextEngine.rollback", body=RollbackRequest, answer=SessionHead,
        open_to_viewers=True, is_repeatable=False, once=True, errors=(SessionNotFoundError, TurnNotFoundError),
        doc="Go back to a committed turn; what follows it stays on its branch.",
    ),
    Operation(
        "summarize", "POST", f"{_SESSION}/summarize", "ContextEngine.summarize", body=BranchRequest, answer=Summary | None,
        errors=(SessionNotFoundError, SummarizerError),
        doc="Sum up a branch now, all but its newest messages; null if nothing is new.",
    ),
    Operation(
        "consolidate", "POST", f"{_SESSION}/consolidate", "ContextEngine.consolidate", body=ConsolidateRequest,
        answer=ConsolidationResult, errors=(SessionNotFoundError, ConfigError),
        doc="Turn what was played on a branch into memory: turn summaries, events, narratives over many turns.",
    ),
    Operation(
        "repair_state", "POST", f"{_SESSION}/repair", "ContextEngine.repair_state", body=RepairRequest, answer=RepairResult,
        scope=Scope.AUTHOR, is_repeatable=False, once=True,
        errors=(SessionNotFoundError, StateOpError, VersionConflictError),
        doc="Apply ops to the state by the host's own hand, all or none, as a turn without messages.",
    ),
    Operation(
        "get_state", "GET", f"{_SESSION}/state", "MemoryVerbs.get_state", answer=dict[str, Any],
        query=(_BRANCH, Query("turn", "After this turn (default: the newest).")),
        errors=(SessionNotFoundError, TurnNotFoundError, BranchNotFoundError),
        doc="Return the state of a session, at present or after any turn.",
        tool=Tool("Read the state."),
    ),
    Operation(
        "tasks", "GET", f"{_SESSION}/tasks", "ContextEngine.tasks", answer=tuple[Task, ...], errors=(SessionNotFoundError,),
        doc="List the tasks of a session.",
    ),
    Operation(
        "upsert_tasks", "PUT", f"{_SESSION}/tasks", "ContextEngine.upsert_tasks", body=TasksRequest, answer=PutResult,
        errors=(SessionNotFoundError, ConfigError),
        doc="Write or replace tasks by id.",
    ),
    Operation(
        "prepare_turn", "POST", f"{_SESSION}/turns", "ContextEngine.prepare_turn", body=TurnRequest, answer=SentTurn,
        open_to_viewers=True,
        query=(INCLUDE, Query("dry_run", "As `dry_run` of the body: nothing is written.", kind=bool, default=False)),
        errors=(SessionNotFoundError, WorldUnavailableError, InputTooLargeError, BudgetExceededError),
        doc="Prepare a turn: the prompt for the main model, with a short report.",
        tool=Tool("Give the user's message; get the prompt with relevant memory. Answer from it, then commit the answer.",
                  only=("message", "turn_id", "dry_run"), is_idempotent=True),
    ),
    Operation(
        "swipe", "POST", f"{_SESSION}/swipe", "ContextEngine.swipe", body=AgainRequest, answer=SentTurn, open_to_viewers=True,
        is_repeatable=False, once=True, query=(INCLUDE,),
        errors=(TurnNotFoundError, SessionNotFoundError, WorldUnavailableError, InputTooLargeError, BudgetExceededError),
        doc="Prepare the input of a committed turn once more, on a new branch, for another reply.",
    ),
    Operation(
        "retry", "POST", f"{_SESSION}/retry", "ContextEngine.retry", body=AgainRequest, answer=SentTurn, open_to_viewers=True,
        once=True, query=(INCLUDE,),
        errors=(TurnNotFoundError, SessionNotFoundError, WorldUnavailableError, InputTooLargeError, BudgetExceededError),
        doc="Prepare the newest input again: that of the turn that waits for its reply, or else as `swipe` does.",
    ),
    Operation(
        "assemble", "POST", f"{_TURN}/assemble", "ContextEngine.assemble", body=TailRequest, answer=PromptAnswer,
        errors=(TurnNotFoundError, ToolPairError, BudgetExceededError),
        doc="Return the prompt of a prepared turn again, followed by the host's own tool calls and results.",
    ),
    Operation(
        "commit_assistant_message", "POST", f"{_SESSION}/reply", "ContextEngine.commit_assistant_message", body=ReplyRequest,
        answer=CommitResult, open_to_viewers=True,
        errors=(TurnNotFoundError, TurnNotPendingError, EvidenceNotFoundError, InputTooLargeError),
        doc="Commit the reply of the main model: its text, and its state ops all or none.",
        tool=Tool("Store your answer to the prepared turn, word for word.", only=("message", "turn_id"), omit=_REPLY),
    ),
    Operation(
        "commit_assistant_chunk", "POST", f"{_SESSION}/reply/chunks", "ContextEngine.commit_assistant_chunk", body=ChunkRequest,
        open_to_viewers=True, errors=(ChunkConflictError, TurnNotFoundError, InputTooLargeError),
        doc="Store a chunk of the reply; the turn does not contain it before the reply is finished.",
    ),
    Operation(
        "finalize_assistant_message", "POST", f"{_SESSION}/reply/finalize", "ContextEngine.finalize_assistant_message",
        body=FinalizeRequest, answer=CommitResult, open_to_viewers=True,
        errors=(MissingChunksError, TurnNotFoundError, TurnNotPendingError, EvidenceNotFoundError, InputTooLargeError),
        doc="Join the chunks of a reply and commit it.",
    ),
    Operation(
        "abort_assistant_message", "POST", f"{_SESSION}/reply/abort", "ContextEngine.abort_assistant_message", body=AbortRequest,
        answer=AbortAnswer, open_to_viewers=True, errors=(TurnNotFoundError,),
        doc="Forget the chunks of a reply; the turn stays pending.",
    ),
    Operation(
        "record_tool_call", "POST", f"{_SESSION}/tool-calls", "ContextEngine.record_tool_call", body=ToolCallRequest,
        answer=PutResult, errors=(SessionNotFoundError, EvidenceNotFoundError, InputTooLargeError),
        doc="Write a tool call, linked both ways with the evidence of its results.",
    ),
    Operation(
        "record_model_usage", "POST", f"{_SESSION}/model-usages", "ContextEngine.record_model_usage", body=UsageRequest,
        answer=PutResult, errors=(SessionNotFoundError, EvidenceNotFoundError, TurnNotFoundError),
        doc="Write a call of a model; what the provider reported corrects the token estimate of later turns.",
    ),
    Operation(
        "get_turn", "GET", _TURN, "", answer=SentTurn, query=(INCLUDE,),
        errors=(SessionNotFoundError, TurnNotFoundError, ConfigError, DamagedRecordError),
        doc="Return a prepared turn from its record.",
    ),
    Operation(
        "get_receipt", "GET", f"{_TURN}/receipt", "", answer=ReceiptAnswer,
        errors=(SessionNotFoundError, TurnNotFoundError, ConfigError, DamagedRecordError),
        doc="Return the receipt of a turn: why each candidate and block is, or is not, in its prompt.",
    ),
    Operation(
        "get_page", "GET", f"{_TURN}/page", "", answer=str,
        errors=(SessionNotFoundError, TurnNotFoundError, ConfigError, DamagedRecordError),
        doc="Return a page (HTML) that shows a turn's prompt block by block, and all that was left out.",
    ),
    Operation(
        "replay", "GET", f"{_TURN}/replay", "", answer=ReplayAnswer,
        errors=(SessionNotFoundError, TurnNotFoundError, ConfigError, DamagedRecordError),
        doc="Make a recorded prompt again, only from its record, and compare it byte for byte.",
    ),
    Operation(
        "explain", "GET", f"{_TURN}/explain", "", answer=tuple[Origin, ...],
        query=(Query("text", "Words that stand in the prompt.", default=""),),
        errors=(SessionNotFoundError, TurnNotFoundError, ConfigError, DamagedRecordError),
        doc="Trace a text of a prompt to its block, its evidence and its source.",
        tool=Tool("Say where a text of a turn's prompt comes from.", omit=_ORIGIN),
    ),
    Operation(
        "why_not", "GET", f"{_TURN}/why-not", "", answer=tuple[Absence, ...], scope=Scope.AUTHOR,
        query=(Query("text", "The id of an entry, or words of it.", default=""),),
        errors=(SessionNotFoundError, TurnNotFoundError, ConfigError, DamagedRecordError, MemoryNotFoundError),
        doc="Explain why an entry is not in a prompt: hidden, not recalled, not chosen, over the budget; or name its place in it.",
        tool=Tool("Say why a memory is not in a turn's prompt."),
    ),
    Operation(
        "ingest", "POST", f"{_SESSION}/evidence", "ContextEngine.ingestor_of", body=EvidenceRequest, answer=IngestResult,
        errors=(SessionNotFoundError, RedactionError, InputTooLargeError),
        doc="Take a text from outside into a session as evidence; secrets are redacted first.",
    ),
    Operation(
        "list_evidences", "GET", f"{_SESSION}/evidence", "", answer=tuple[Evidence, ...], is_audited=True,
        query=(Query("type", "Only evidence of this type."), _limit(50, 200)), errors=(SessionNotFoundError,),
        doc="List the newest evidence of a session, in the order of writing.",
    ),
    Operation(
        "get_evidence", "GET", f"{_SESSION}/evidence/{{evidence_id}}", "", answer=Evidence, is_audited=True,
        errors=(SessionNotFoundError, EvidenceNotFoundError),
        doc="Return one item of evidence.",
    ),
    Operation(
        "remember", "POST", "/users/{user_id}/facts", "ContextEngine.remember", body=FactsRequest, answer=tuple[UserFact, ...],
        errors=(ConfigError, RedactionError, InputTooLargeError),
        doc="Store facts about a user, which the prompts of all their sessions show.",
    ),
    Operation(
        "user_facts", "GET", "/users/{user_id}/facts", "ContextEngine.user_facts", answer=tuple[UserFact, ...],
        query=(Query("at", "A time as ISO 8601 with its zone."),), errors=(ConfigError,),
        doc="List facts about a user: all of them with the times of their validity, or those that were valid at a time.",
    ),
    Operation(
        "list_worlds", "GET", "/worlds", "", answer=tuple[WorldName, ...], open_to_viewers=True,
        doc="List the worlds of the store.",
        tool=Tool("List worlds."),
    ),
    Operation(
        "get_world", "GET", _WORLD, "", answer=WorldDocument, scope=Scope.AUTHOR, is_audited=True,
        errors=(WorldUnavailableError,),
        doc="Return the present pack of a world.",
    ),
    Operation(
        "put_world", "PUT", _WORLD, "", body=WorldRequest, described_body=WorldDocument, answer=WorldName,
        scope=Scope.AUTHOR, errors=(ConfigError, TemplateError, WorldPackError),
        doc="Make a pack the present version of a world; sessions of the world continue with it. It takes what "
        "`get_world` gives, and checks it as `jacquard validate` does.",
    ),
    Operation(
        "list_lore", "GET", f"{_WORLD}/lore", "MemoryVerbs.lore", answer=LorePage, scope=Scope.AUTHOR, is_audited=True,
        query=(
            Query("query", "Only entries whose title and text contain these words.", default=""), VIEWER,
            Query("offset", "Begin behind so many.", kind=int, default=0, least=0, most=10**9), _limit(50, 200),
        ),
        errors=(WorldUnavailableError,),
        doc="List the lore of a world.",
        tool=Tool("List lore.", omit=_ENTRY),
    ),
    Operation(
        "erase", "POST", "/erasures", "", body=ErasureRequest, answer=ErasureAnswer, scope=Scope.ADMIN, is_audited=True,
        errors=(SessionNotFoundError, ConfigError),
        doc="Erase a user, a session or evidence, and prove it by a search; with `dry_run`, only list what would be erased.",
    ),
    Operation(
        "list_audits", "GET", "/audits", "", answer=tuple[AuditRecord, ...], scope=Scope.ADMIN,
        doc="List the records of erasures.",
    ),
    Operation(
        "estimate_messages", "POST", "/estimate", "ContextEngine.estimate_messages", body=EstimateRequest, answer=EstimateAnswer,
        open_to_viewers=True, errors=(ConfigError, InputTooLargeError),
        doc="Return the number of tokens of messages.",
    ),
    Operation(
        "create_token", "POST", "/tokens", "", body=TokenRequest, answer=TokenAnswer, status=201, scope=Scope.ADMIN,
        is_repeatable=False, errors=(ConfigError,),
        doc="Make a token for the own tenant; only this answer shows it. A call that is made again makes another one.",
    ),
    Operation(
        "list_tokens", "GET", "/tokens", "", answer=tuple[TokenRecord, ...], scope=Scope.ADMIN, errors=(ConfigError,),
        doc="List the records of the own tenant's tokens, in the order in which they were made.",
    ),
    Operation(
        "revoke_token", "DELETE", "/tokens/{token_id}", "", answer=TokenRecord, scope=Scope.ADMIN, errors=(ConfigError,),
        doc="Revoke a token of the own tenant; every process refuses it within two seconds.",
    ),
    Operation(
        "list_audited_calls", "GET", "/audits/calls", "", answer=tuple[AuditedCall, ...], scope=Scope.ADMIN,
        query=(_limit(50, 1_000),), errors=(ConfigError,),
        doc="List who of the own tenant has read what only the host may see, or erased: the newest calls, oldest first.",
    ),
    Operation(
        "search_memory", "POST", f"{_SESSION}/memory/search", "MemoryVerbs.search", body=SearchRequest,
        answer=tuple[FoundMemory, ...], open_to_viewers=True, query=(VIEWER,),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="Return the memories that recall finds for a text, best first, and why.",
        tool=Tool("Find memories, and why each was found.", reads=True),
    ),
    Operation(
        "get_memory", "GET", _ONE, "MemoryVerbs.memory", answer=Memory, open_to_viewers=True, query=(VIEWER,),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="Return one memory.",
        tool=Tool("Read one memory.", omit=frozenset({"entry_ids"})),
    ),
    Operation(
        "remember_memory", "POST", f"{_SESSION}/memory", "MemoryVerbs.remember", body=RememberRequest, answer=MemoryEdit,
        status=201, open_to_viewers=True, query=(AUTHOR, VIEWER),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="Store a text as a memory of the session; the same idempotency key stores it once.",
        tool=Tool("Remember a new fact; never what a search or a prompt has shown."),
    ),
    Operation(
        "edit_memory", "PATCH", _ONE, "MemoryVerbs.edit", body=MemoryTextRequest, answer=MemoryEdit, open_to_viewers=True,
        once=True, query=(AUTHOR, VIEWER), errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="Correct a memory: recall then finds the new text and not the old one.",
        tool=Tool("Correct the text of a memory.", destroys=True),
    ),
    Operation(
        "supersede_memory", "POST", f"{_ONE}/supersede", "MemoryVerbs.supersede", body=MemoryTextRequest, answer=MemoryEdit,
        open_to_viewers=True, is_repeatable=False, once=True, query=(AUTHOR, VIEWER),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="Mark a memory as no longer true, with the text that replaces it, if there is one.",
        tool=Tool("A memory holds no longer; text: what holds now, if anything.", destroys=True),
    ),
    Operation(
        "pin_memory", "POST", f"{_ONE}/pin", "MemoryVerbs.pin", answer=MemoryEdit, open_to_viewers=True, query=(AUTHOR, VIEWER),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="Show a memory in every prompt while it fits.",
        tool=Tool("Show a memory in every prompt.", is_idempotent=True),
    ),
    Operation(
        "unpin_memory", "POST", f"{_ONE}/unpin", "MemoryVerbs.unpin", answer=MemoryEdit, open_to_viewers=True,
        is_repeatable=False, once=True, query=(AUTHOR, VIEWER),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="Stop showing a memory in every prompt.",
        tool=Tool("Undo pin_memory."),
    ),
    Operation(
        "forget_memory", "DELETE", _ONE, "MemoryVerbs.forget", answer=ForgottenMemory, open_to_viewers=True, is_audited=True,
        once=True, query=(AUTHOR, VIEWER, Query("reason", "Why; the record of the erasure keeps it.", default="")),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="Erase a remembered memory or a document for good, with its corrections and pins.",
        tool=Tool("Erase a memory for good. Ask the user first.", destroys=True),
    ),
    Operation(
        "memory_proposals", "GET", f"{_SESSION}/memory-proposals", "MemoryVerbs.proposals", answer=tuple[MemoryEdit, ...],
        open_to_viewers=True, query=(VIEWER,),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="List memories that models propose and that wait for a decision, oldest first (`memory.review`).",
        tool=Tool("List what waits for the user's yes.", for_review=True),
    ),
    Operation(
        "accept_proposal", "POST", f"{_SESSION}/memory-proposals/{{proposal_id}}/accept", "MemoryVerbs.accept",
        body=AcceptRequest, answer=MemoryEdit, open_to_viewers=True, query=(AUTHOR, VIEWER),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="Carry out a proposal, with another text if one is given; a second call changes nothing.",
        tool=Tool("Carry out a proposal. Ask the user first.", destroys=True, for_review=True),
    ),
    Operation(
        "reject_proposal", "POST", f"{_SESSION}/memory-proposals/{{proposal_id}}/reject", "MemoryVerbs.reject",
        answer=MemoryEdit, open_to_viewers=True, query=(AUTHOR, VIEWER),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="Refuse a proposal; it is not made again for the same turns.",
        tool=Tool("Refuse a proposal. Ask the user first.", destroys=True, for_review=True),
    ),
    Operation(
        "memory_log", "GET", f"{_SESSION}/memory-log", "MemoryVerbs.log", answer=tuple[MemoryEdit, ...], open_to_viewers=True,
        query=(VIEWER,), errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="Return the edits of a session, oldest first.",
        tool=Tool("List edits of memory."),
    ),
    Operation(
        "undo_memory_edit", "POST", f"{_SESSION}/memory-log/{{edit_id}}/undo", "MemoryVerbs.undo", answer=MemoryEdit,
        open_to_viewers=True, query=(AUTHOR, VIEWER),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="Undo an edit; a second call changes nothing.",
        tool=Tool("Undo an edit of memory_log.", destroys=True, is_idempotent=True),
    ),
    Operation(
        "continue_session", "POST", f"{_SESSION}/continue", "MemoryVerbs.continue_session", body=ContinueRequest,
        answer=SessionHead, status=201, open_to_viewers=True, query=(AUTHOR, VIEWER),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError, SessionExistsError),
        doc="Start a session with the memories of another one; the same call again returns the session that it made.",
        tool=Tool("Start a session with another's memories; query: only those.",
                  only=("new_session_id", "query"), omit=_HEAD, is_idempotent=True),
    ),
    Operation(
        "set_state", "PUT", f"{_SESSION}/state", "MemoryVerbs.set_state", body=StateRequest, answer=SessionHead,
        scope=Scope.AUTHOR, once=True, query=(AUTHOR,),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError, StateOpError, VersionConflictError),
        doc="Set values of the state by their flat paths, all or none.",
        tool=Tool("Set values of the state by path, as hero.health.", omit=_HEAD, destroys=True),
    ),
    Operation(
        "add_lore", "POST", f"{_WORLD}/lore", "MemoryVerbs.add_lore", body=LoreRequest, answer=MemoryEntry, status=201,
        scope=Scope.AUTHOR, once=True, query=(AUTHOR,),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="Add an entry to a world that was imported.",
        tool=Tool("Add an entry of lore.", omit=_ENTRY),
    ),
    Operation(
        "edit_lore", "PATCH", f"{_WORLD}/lore/{{entry_id}}", "MemoryVerbs.edit_lore", body=LoreChange, answer=MemoryEntry,
        scope=Scope.AUTHOR, query=(AUTHOR,),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="Change the text or the title of an entry of a world that was imported.",
        tool=Tool("Change an entry of lore.", omit=_ENTRY, destroys=True, is_idempotent=True),
    ),
    Operation(
        "stream_events", "GET", f"{_SESSION}/events", "", answer=Event, scope=Scope.AUTHOR, in_one_process=True,
        errors=(SessionNotFoundError,),
        doc="Stream the events of a session from now on (Server-Sent Events: `event` is the type, `data` the event as JSON).",
    ),
)
# fmt: on

BY_NAME: Mapping[str, Operation] = {each.name: each for each in OPERATIONS}

BY_PYTHON: Mapping[str, Operation] = {each.python: each for each in OPERATIONS if each.python}
"""Operations by the names of their methods in Python."""

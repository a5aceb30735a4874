"""Lists all operations (calls) of the service in one table.

The HTTP routes, the access rules, `/openapi.json`, the client, the MCP tools and `docs/en/operations.md` are made from the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jacquard.authoring.golden import GoldenResult
from jacquard.authoring.marks import TurnMark
from jacquard.authoring.replay.provenance import Origin
from jacquard.authoring.reports import KEPT_OUT, METRICS
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
from jacquard.memory.verbs.browse import MemoryPage, MemoryUses
from jacquard.memory.verbs.values import FoundMemory, Memory, MemoryEdit
from jacquard.pipeline.record.commit import CommitResult
from jacquard.remote.bodies import (
    AbortAnswer,
    AbortRequest,
    AcceptRequest,
    AdoptRequest,
    AgainRequest,
    AnswerRequest,
    AuditedCall,
    BranchRequest,
    BulkAnswer,
    BulkRequest,
    ChunkRequest,
    ConsolidateRequest,
    ContinueRequest,
    ConversationPage,
    DocumentRequest,
    EditRequest,
    ErasureAnswer,
    ErasureRequest,
    EstimateAnswer,
    EstimateRequest,
    Evaluation,
    EvaluationComparison,
    EvaluationFigures,
    EvaluationPage,
    EvaluationRequest,
    EvidenceRequest,
    FactsRequest,
    FinalizeRequest,
    ForgottenMemory,
    ForkRequest,
    GoldenCaseAnswer,
    GoldenCaseRequest,
    GoldenRequest,
    HealthAnswer,
    ImportAnswer,
    ImportFiles,
    LintAnswer,
    LintRequest,
    LoreChange,
    LoreMatches,
    LorePage,
    LoreRequest,
    MarkRequest,
    MatchRequest,
    MemoryTextRequest,
    MetricsAnswer,
    PreviewAnswer,
    PreviewRequest,
    PromptAnswer,
    QuestionPage,
    ReceiptAnswer,
    RememberRequest,
    RepairRequest,
    ReplayAnswer,
    ReplyRequest,
    RollbackRequest,
    SearchRequest,
    SessionPage,
    SessionRequest,
    SettingInForce,
    StateRequest,
    SwitchRequest,
    TailRequest,
    TasksRequest,
    TokenAnswer,
    TokenRecord,
    TokenRequest,
    ToolCallRequest,
    TurnChanges,
    TurnPage,
    TurnRequest,
    UpstreamState,
    UsageRequest,
    UserPage,
    WhatIfAnswer,
    WhatIfRequest,
    WorldDocument,
    WorldFile,
    WorldFiles,
    WorldFilesRequest,
    WorldName,
    WorldRequest,
)
from jacquard.remote.operation import Operation, Query, Scope, Tool
from jacquard.remote.wire import ALL, PARTS, SentTurn
from jacquard.turns.writing.repair import RepairResult
from mnemosyne.core.errors import (
    BranchExistsError,
    BranchNotFoundError,
    CorpusError,
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
from mnemosyne.schema.memory import MemoryEntry, StoryFact, UserFact
from mnemosyne.schema.record import PutResult
from mnemosyne.schema.session import Message, SessionHead

VIEWER = Query(
    "viewer", "Act on what this character may know. If the token is bound to a viewer, that viewer is always used."
)
AUTHOR = Query("author", "Name of the editor. If the service has tenants, the token names the editor instead.")
INCLUDE = Query(
    "include",
    "Parts of the turn to send in addition to its ids, its messages and its short report.",
    kind=tuple,
    default=(),
    names=(*PARTS, ALL),
)
_BRANCH = Query("branch", "The branch to read (default: the active branch).")
_AFTER = Query("after", "Only ids that come after this id.", default="")


def _limit(default: int, most: int) -> Query:
    return Query("limit", "Maximum number of items to return.", kind=int, default=default, least=1, most=most)


_OFFSET = Query("offset", "Number of items to skip.", kind=int, default=0, least=0, most=10**9)
_AS_OF_TURN = Query(
    "as_of_turn", "The data as they were after the turn with this number of the branch.", kind=int, least=0, most=10**9
)
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
        doc="List session ids, in order.",
        tool=Tool("List session ids."),
    ),
    Operation(
        "list_conversations", "GET", "/conversations", "", answer=ConversationPage,
        query=(
            Query("query", "Only sessions whose ids or first messages contain these words.", default=""),
            Query("after", "Only sessions that come after this one.", default=""), _limit(20, 100),
        ),
        doc="List sessions with their first and newest messages, newest first.",
    ),
    Operation(
        "get_upstream", "GET", "/upstream", "", answer=UpstreamState, scope=Scope.ADMIN,
        doc="Ask the model server of the proxy for its models, and return them, or why it does not answer.",
    ),
    Operation(
        "start_session", "POST", "/sessions", "ContextEngine.start_session", body=SessionRequest, answer=SessionHead, status=201,
        open_to_viewers=True, once=True, errors=(SessionExistsError, SessionNotFoundError),
        doc="Start a session. Without `world_id`, it starts in the service's own world, or is returned if it exists there already.",
        tool=Tool("Start a session, or find it.", omit=_HEAD, is_idempotent=True),
    ),
    Operation(
        "get_session_head", "GET", _SESSION, "", answer=SessionHead, open_to_viewers=True, query=(_BRANCH,),
        errors=(SessionNotFoundError, BranchNotFoundError),
        doc="Return the head of a session: a branch (default: the active one), its newest turn, and the session's version.",
    ),
    Operation(
        "get_document", "GET", f"{_SESSION}/document", "", answer=dict[str, Any], is_audited=True, query=(_BRANCH,),
        errors=(SessionNotFoundError, BranchNotFoundError),
        doc="Return a session as a session document 1.0 (docs/en/documents.md).",
    ),
    Operation(
        "put_document", "PUT", f"{_SESSION}/document", "", body=DocumentRequest, answer=PutResult, scope=Scope.AUTHOR,
        errors=(VersionConflictError, SchemaValidationError),
        doc="Write a session from a session document 1.0. If the stored version is not the expected one, it is a conflict.",
    ),
    Operation(
        "list_turns", "GET", f"{_SESSION}/turns", "", answer=TurnPage, open_to_viewers=True,
        query=(_BRANCH, Query("before", "Only turns before this depth.", kind=int, least=1, most=10**12), _limit(20, 200)),
        errors=(SessionNotFoundError, BranchNotFoundError),
        doc="List committed turns of a branch, oldest first. The first page has the newest turns.",
    ),
    Operation(
        "list_messages", "GET", f"{_SESSION}/messages", "", answer=tuple[Message, ...], open_to_viewers=True,
        query=(_BRANCH, _limit(50, 2_000)), errors=(SessionNotFoundError, BranchNotFoundError),
        doc="List the newest messages of a branch, oldest first.",
    ),
    Operation(
        "edit_message", "PATCH", f"{_SESSION}/messages/{{message_id}}", "ContextEngine.edit_message", body=EditRequest,
        answer=SessionHead, once=True, errors=(SessionNotFoundError, ConfigError, InputTooLargeError),
        doc="Change the text of a message. The change and all later messages are on a new branch.",
    ),
    Operation(
        "adopt_messages", "POST", f"{_SESSION}/adopt", "ContextEngine.adopt_messages", body=AdoptRequest, answer=SessionHead,
        errors=(ConfigError, InputTooLargeError),
        doc="Add messages that were exchanged elsewhere. A second call with the same messages changes nothing.",
    ),
    Operation(
        "archive_session", "PUT", f"{_SESSION}/archive", "Runtime.archive_session", answer=ArchivedSession,
        scope=Scope.AUTHOR, errors=(SessionNotFoundError, ConfigError),
        doc="Pack the rows of a session and drop its index. Its next turn opens it again. An archived session stays unchanged.",
    ),
    Operation(
        "open_archived", "DELETE", f"{_SESSION}/archive", "Runtime.open_archived", scope=Scope.AUTHOR,
        errors=(SessionNotFoundError, ConfigError, DamagedRecordError),
        doc="Open an archived session, as its next turn would. An open session stays unchanged.",
    ),
    Operation(
        "list_archived", "GET", "/archives", "Runtime.archived_sessions", answer=tuple[ArchivedSession, ...],
        query=(_AFTER, _limit(50, 1_000)), errors=(ConfigError,),
        doc="List archived sessions in order of id, with the time of archiving and the sizes before and after.",
    ),
    Operation(
        "branches", "GET", f"{_SESSION}/branches", "ContextEngine.branches", answer=tuple[SessionHead, ...], open_to_viewers=True,
        errors=(SessionNotFoundError,),
        doc="List the heads of all branches, the active one first.",
    ),
    Operation(
        "fork", "POST", f"{_SESSION}/fork", "ContextEngine.fork", body=ForkRequest, answer=SessionHead, open_to_viewers=True,
        errors=(SessionNotFoundError, TurnNotFoundError, BranchExistsError),
        doc="Open a branch after a committed turn, and make it the active branch.",
    ),
    Operation(
        "switch", "POST", f"{_SESSION}/switch", "ContextEngine.switch", body=SwitchRequest, answer=SessionHead,
        open_to_viewers=True, errors=(SessionNotFoundError, BranchNotFoundError),
        doc="Make another branch the active branch.",
    ),
    Operation(
        "rollback", "POST", f"{_SESSION}/rollback", "ContextEngine.rollback", body=RollbackRequest, answer=SessionHead,
        open_to_viewers=True, is_repeatable=False, once=True, errors=(SessionNotFoundError, TurnNotFoundError),
        doc="Go back to a committed turn. The turns after it stay on their branch.",
    ),
    Operation(
        "summarize", "POST", f"{_SESSION}/summarize", "ContextEngine.summarize", body=BranchRequest, answer=Summary | None,
        errors=(SessionNotFoundError, SummarizerError),
        doc="Summarize a branch now, except for its newest messages. Returns null if there is nothing new to summarize.",
    ),
    Operation(
        "consolidate", "POST", f"{_SESSION}/consolidate", "ContextEngine.consolidate", body=ConsolidateRequest,
        answer=ConsolidationResult, errors=(SessionNotFoundError, ConfigError),
        doc="Make memories from the turns of a branch: turn summaries, events, and narratives over many turns.",
    ),
    Operation(
        "repair_state", "POST", f"{_SESSION}/repair", "ContextEngine.repair_state", body=RepairRequest, answer=RepairResult,
        scope=Scope.AUTHOR, is_repeatable=False, once=True,
        errors=(SessionNotFoundError, StateOpError, VersionConflictError),
        doc="Apply the host's own ops (changes of the state), all or none, as a turn without messages.",
    ),
    Operation(
        "get_state", "GET", f"{_SESSION}/state", "MemoryVerbs.get_state", answer=dict[str, Any],
        query=(_BRANCH, Query("turn", "The state after this turn (default: the newest turn)."), _AS_OF_TURN),
        errors=(SessionNotFoundError, TurnNotFoundError, BranchNotFoundError, ConfigError),
        doc="Return the state of a session: the current state, or the state after a given turn.",
        tool=Tool("Read the state."),
    ),
    Operation(
        "tasks", "GET", f"{_SESSION}/tasks", "ContextEngine.tasks", answer=tuple[Task, ...], errors=(SessionNotFoundError,),
        doc="List the tasks of a session.",
    ),
    Operation(
        "upsert_tasks", "PUT", f"{_SESSION}/tasks", "ContextEngine.upsert_tasks", body=TasksRequest, answer=PutResult,
        errors=(SessionNotFoundError, ConfigError),
        doc="Write tasks. A task replaces the stored task with the same id.",
    ),
    Operation(
        "prepare_turn", "POST", f"{_SESSION}/turns", "ContextEngine.prepare_turn", body=TurnRequest, answer=SentTurn,
        open_to_viewers=True,
        query=(INCLUDE, Query("dry_run", "Same as `dry_run` in the body: nothing is written.", kind=bool, default=False)),
        errors=(SessionNotFoundError, WorldUnavailableError, InputTooLargeError, BudgetExceededError),
        doc="Prepare a turn. Returns the prompt for the main model, with a short report.",
        tool=Tool("Give the user's message; get the prompt with relevant memory. Answer from it, then commit the answer.",
                  only=("message", "turn_id", "dry_run"), is_idempotent=True),
    ),
    Operation(
        "swipe", "POST", f"{_SESSION}/swipe", "ContextEngine.swipe", body=AgainRequest, answer=SentTurn, open_to_viewers=True,
        is_repeatable=False, once=True, query=(INCLUDE,),
        errors=(TurnNotFoundError, SessionNotFoundError, WorldUnavailableError, InputTooLargeError, BudgetExceededError),
        doc="Prepare the input of a committed turn again, on a new branch, to get another reply.",
    ),
    Operation(
        "retry", "POST", f"{_SESSION}/retry", "ContextEngine.retry", body=AgainRequest, answer=SentTurn, open_to_viewers=True,
        once=True, query=(INCLUDE,),
        errors=(TurnNotFoundError, SessionNotFoundError, WorldUnavailableError, InputTooLargeError, BudgetExceededError),
        doc="Prepare again the input of the turn that waits for its reply. If no turn waits, do the same as `swipe`.",
    ),
    Operation(
        "answer_turn", "POST", f"{_TURN}/answer", "", body=AnswerRequest, answer=str, is_repeatable=False, once=True,
        errors=(SessionNotFoundError, TurnNotFoundError, TurnNotPendingError, ConfigError, DamagedRecordError),
        doc="Send the prompt of a waiting turn to the model server of the service, and commit the reply. The answer is streamed as "
        "the model server sends it (OpenAI API, Server-Sent Events). If the caller disconnects, what came is committed.",
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
        doc="Commit the reply of the main model. Its ops (changes of the state) are applied all or none.",
        tool=Tool("Store your answer to the prepared turn, word for word.", only=("message", "turn_id"), omit=_REPLY),
    ),
    Operation(
        "commit_assistant_chunk", "POST", f"{_SESSION}/reply/chunks", "ContextEngine.commit_assistant_chunk", body=ChunkRequest,
        open_to_viewers=True, errors=(ChunkConflictError, TurnNotFoundError, InputTooLargeError),
        doc="Store a chunk of the reply. The reply becomes part of the turn when it is finalized.",
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
        doc="Drop the chunks of a reply. The turn still waits for its reply.",
    ),
    Operation(
        "record_tool_call", "POST", f"{_SESSION}/tool-calls", "ContextEngine.record_tool_call", body=ToolCallRequest,
        answer=PutResult, errors=(SessionNotFoundError, EvidenceNotFoundError, InputTooLargeError),
        doc="Record a tool call. It is linked in both directions with the evidence items that contain its results.",
    ),
    Operation(
        "record_model_usage", "POST", f"{_SESSION}/model-usages", "ContextEngine.record_model_usage", body=UsageRequest,
        answer=PutResult, errors=(SessionNotFoundError, EvidenceNotFoundError, TurnNotFoundError),
        doc="Record a model call. The token counts in it correct the token estimates of later turns.",
    ),
    Operation(
        "get_turn", "GET", _TURN, "", answer=SentTurn, query=(INCLUDE,),
        errors=(SessionNotFoundError, TurnNotFoundError, ConfigError, DamagedRecordError),
        doc="Return a prepared turn from its record.",
    ),
    Operation(
        "get_changes", "GET", f"{_TURN}/changes", "", answer=TurnChanges, has_sentences=True,
        errors=(SessionNotFoundError, TurnNotFoundError, DamagedRecordError),
        doc="Return the values of the state that a turn changed, and the verdict on each op of its reply.",
    ),
    Operation(
        "get_receipt", "GET", f"{_TURN}/receipt", "", answer=ReceiptAnswer, has_sentences=True,
        errors=(SessionNotFoundError, TurnNotFoundError, ConfigError, DamagedRecordError),
        doc="Return the receipt of a turn. It states why each candidate and block is, or is not, in the prompt.",
    ),
    Operation(
        "get_page", "GET", f"{_TURN}/page", "", answer=str,
        errors=(SessionNotFoundError, TurnNotFoundError, ConfigError, DamagedRecordError),
        doc="Return an HTML page that shows a turn's prompt block by block, and everything that was left out.",
    ),
    Operation(
        "replay", "GET", f"{_TURN}/replay", "", answer=ReplayAnswer,
        errors=(SessionNotFoundError, TurnNotFoundError, ConfigError, DamagedRecordError),
        doc="Make a recorded prompt again from its record only, and compare both byte for byte.",
    ),
    Operation(
        "what_if", "POST", f"{_TURN}/what-if", "", body=WhatIfRequest, answer=WhatIfAnswer,
        errors=(SessionNotFoundError, TurnNotFoundError, ConfigError, BudgetExceededError, TemplateError, DamagedRecordError),
        doc="Render a recorded turn under other settings, and compare both prompts block by block. Nothing is written.",
    ),
    Operation(
        "explain", "GET", f"{_TURN}/explain", "", answer=tuple[Origin, ...], has_sentences=True,
        query=(
            Query("text", "Words from the prompt.", default=""),
            Query("at", "Instead of words: the position of a character, counted over all messages.", kind=int, least=0, most=10**9),
        ),
        errors=(SessionNotFoundError, TurnNotFoundError, ConfigError, DamagedRecordError),
        doc="Return the block, the evidence and the source of a text in a prompt.",
        tool=Tool("Find the source of a text in a turn's prompt.", only=("text",), omit=_ORIGIN),
    ),
    Operation(
        "why_not", "GET", f"{_TURN}/why-not", "", answer=tuple[Absence, ...], scope=Scope.AUTHOR, has_sentences=True,
        query=(Query("text", "The id of an entry, or words from its text.", default=""),),
        errors=(SessionNotFoundError, TurnNotFoundError, ConfigError, DamagedRecordError, MemoryNotFoundError),
        doc="Return why an entry is not in a prompt: hidden, not recalled, not chosen, or over the budget. "
        "If the entry is in the prompt, return its place.",
        tool=Tool("Explain why a memory is not in a turn's prompt."),
    ),
    Operation(
        "ingest", "POST", f"{_SESSION}/evidence", "ContextEngine.ingestor_of", body=EvidenceRequest, answer=IngestResult,
        errors=(SessionNotFoundError, RedactionError, InputTooLargeError),
        doc="Store a text from outside in a session as evidence. Secrets are redacted first.",
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
        doc="Store facts about a user. The prompts of all sessions of the user show them.",
    ),
    Operation(
        "user_facts", "GET", "/users/{user_id}/facts", "ContextEngine.user_facts", answer=tuple[UserFact, ...],
        query=(Query("at", "Only facts that are valid at this time (ISO 8601 with a zone)."),), errors=(ConfigError,),
        doc="List the facts about a user and the times of their validity; with `at`, only the facts that are valid at that time.",
    ),
    Operation(
        "list_users", "GET", "/users", "", answer=UserPage, scope=Scope.ADMIN,
        query=(Query("query", "Only ids that contain these words.", default=""), _AFTER, _limit(50, 200)),
        doc="List the users who have sessions or stored facts, in order of their ids.",
    ),
    Operation(
        "list_worlds", "GET", "/worlds", "", answer=tuple[WorldName, ...], open_to_viewers=True,
        doc="List the worlds of the store.",
        tool=Tool("List worlds."),
    ),
    Operation(
        "get_world", "GET", _WORLD, "", answer=WorldDocument, scope=Scope.AUTHOR, is_audited=True,
        errors=(WorldUnavailableError,),
        doc="Return the current pack of a world.",
    ),
    Operation(
        "put_world", "PUT", _WORLD, "", body=WorldRequest, described_body=WorldDocument, answer=WorldName,
        scope=Scope.AUTHOR, errors=(ConfigError, TemplateError, WorldPackError),
        doc="Store a pack as the current version of a world. Sessions of the world continue with it. The body has the same form as "
        "the answer of `get_world`, and is checked as by `jacquard validate`.",
    ),
    Operation(
        "list_lore", "GET", f"{_WORLD}/lore", "MemoryVerbs.lore", answer=LorePage, scope=Scope.AUTHOR, is_audited=True,
        query=(
            Query("query", "Only entries whose title and text contain these words.", default=""), VIEWER,
            Query("offset", "Number of entries to skip.", kind=int, default=0, least=0, most=10**9), _limit(50, 200),
        ),
        errors=(WorldUnavailableError,),
        doc="List the lore of a world.",
        tool=Tool("List lore.", omit=_ENTRY),
    ),
    Operation(
        "list_world_files", "GET", f"{_WORLD}/files", "", answer=WorldFiles, scope=Scope.AUTHOR,
        errors=(WorldUnavailableError, TemplateError),
        doc="List the names of the files of a world: all files of its pack if it is read from a folder, else its templates.",
    ),
    Operation(
        "get_world_file", "GET", f"{_WORLD}/files/{{file_name}}", "", answer=WorldFile, scope=Scope.AUTHOR, is_audited=True,
        errors=(WorldUnavailableError, TemplateError),
        doc="Return the text of a file of a world, or of the shipped template that a file of this name would replace.",
    ),
    Operation(
        "put_world_files", "PUT", f"{_WORLD}/files", "", body=WorldFilesRequest, answer=WorldName, scope=Scope.AUTHOR,
        errors=(WorldUnavailableError, ConfigError, TemplateError, WorldPackError),
        doc="Store, replace or remove files of a world, all or none. Nothing is stored if the world would have a fault. Sessions "
        "of the world continue with it. Files of a folder can be changed in a service without tenants that is one process.",
    ),
    Operation(
        "lint_world_files", "POST", f"{_WORLD}/lint", "", body=LintRequest, answer=LintAnswer, scope=Scope.AUTHOR,
        has_sentences=True, errors=(WorldUnavailableError, ConfigError, TemplateError),
        doc="Find all faults of the files of a world, with unsaved texts, without rendering a turn.",
    ),
    Operation(
        "run_golden_cases", "POST", f"{_WORLD}/golden", "", body=GoldenRequest, answer=tuple[GoldenResult, ...],
        scope=Scope.AUTHOR, is_repeatable=False, errors=(WorldUnavailableError, ConfigError, TemplateError, WorldPackError),
        doc="Render the golden cases in the folder of a world, and compare each with its approved prompt, or approve it.",
    ),
    Operation(
        "add_golden_case", "POST", f"{_TURN}/golden", "", body=GoldenCaseRequest, answer=GoldenCaseAnswer, status=201,
        scope=Scope.AUTHOR, is_repeatable=False,
        errors=(SessionNotFoundError, TurnNotFoundError, ConfigError, TemplateError, WorldPackError, DamagedRecordError),
        doc="Save a recorded turn as a golden case in the folder of its world, and approve the prompt that the case has now.",
    ),
    Operation(
        "preview_templates", "POST", f"{_TURN}/preview", "", body=PreviewRequest, answer=PreviewAnswer, scope=Scope.AUTHOR,
        errors=(SessionNotFoundError, TurnNotFoundError, ConfigError, BudgetExceededError, TemplateError, DamagedRecordError),
        doc="Render a recorded turn with today's files of its world and unsaved texts, and compare it with what was sent.",
    ),
    Operation(
        "match_lore", "POST", f"{_SESSION}/lore-match", "", body=MatchRequest, answer=LoreMatches, scope=Scope.AUTHOR,
        errors=(SessionNotFoundError, BranchNotFoundError, ConfigError, WorldUnavailableError),
        doc="List the lore that a text would wake in a session: by which keys, and whether its conditions are true now.",
    ),
    Operation(
        "mark_memory", "PUT", f"{_TURN}/marks/{{memory_id}}", "", body=MarkRequest, answer=TurnMark | None, scope=Scope.AUTHOR,
        errors=(SessionNotFoundError, TurnNotFoundError, MemoryNotFoundError, ConfigError),
        doc="Mark a memory as one that the prompt of a turn should have had, or should not have had.",
    ),
    Operation(
        "list_marks", "GET", f"{_SESSION}/marks", "", answer=tuple[TurnMark, ...], scope=Scope.AUTHOR,
        errors=(SessionNotFoundError,),
        doc="List the marks of a session, in the order of writing.",
    ),
    Operation(
        "export_marks", "GET", f"{_SESSION}/marks/export", "", answer=bytes, scope=Scope.AUTHOR, is_audited=True,
        errors=(SessionNotFoundError, ConfigError),
        doc="Return the marks of a session as a labelled set: a ZIP file, unpacked a folder for `python -m evals run --data`.",
    ),
    Operation(
        "run_evaluation", "POST", f"{_SESSION}/evaluations", "", body=EvaluationRequest, answer=Evaluation, scope=Scope.AUTHOR,
        is_repeatable=False, errors=(SessionNotFoundError, ConfigError),
        doc="Score recall and selection on the marks of a session, by `python -m evals run` in a process of its own, and keep the "
        "report. If the time does not suffice, the same call continues the run.",
    ),
    Operation(
        "list_evaluations", "GET", "/evaluations", "", answer=EvaluationPage, scope=Scope.AUTHOR, query=(_OFFSET, _limit(20, 50)),
        errors=(ConfigError,),
        doc="List the reports of runs and plays in the folder `reports` next to the index of the store, newest first.",
    ),
    Operation(
        "get_evaluation", "GET", "/evaluations/{run_id}", "", answer=EvaluationFigures, scope=Scope.AUTHOR, errors=(ConfigError,),
        doc="Return the figures of a report, with intervals.",
    ),
    Operation(
        "list_questions", "GET", "/evaluations/{run_id}/questions", "", answer=QuestionPage, scope=Scope.AUTHOR, is_audited=True,
        query=(
            Query("lost", "Only questions for which a wanted memory was not selected, or an unwanted one was.", kind=bool,
                  default=False),
            Query("category", "Only questions of this category."), _OFFSET, _limit(10, 50),
        ),
        errors=(ConfigError,),
        doc="List the questions of a run: the memories that were expected, and those that were recalled.",
    ),
    Operation(
        "compare_evaluations", "GET", "/evaluations/{run_id}/compare/{other_id}", "", answer=EvaluationComparison,
        scope=Scope.AUTHOR, is_audited=True,
        query=(
            Query("metric", f"The metric by which questions are listed: {', '.join((*METRICS, KEPT_OUT))}.", default="precision@5"),
            _OFFSET, _limit(10, 50),
        ),
        errors=(ConfigError,),
        doc="Compare two runs of the same questions: paired differences with intervals and p-values, and question by question.",
    ),
    Operation(
        "import_files", "POST", "/imports", "", body=ImportFiles, answer=ImportAnswer, scope=Scope.AUTHOR, is_repeatable=False,
        has_sentences=True, errors=(CorpusError, ConfigError, TemplateError, WorldPackError, InputTooLargeError),
        doc="Import files of other programs or world packs, as `jacquard memory import` does. The same files again change nothing.",
    ),
    Operation(
        "export_session", "GET", f"{_SESSION}/export", "", answer=bytes, scope=Scope.AUTHOR, is_audited=True,
        query=(
            Query("format", "`chat`, `card`, `card-png` or `world-info`.", default="chat"),
            Query("name", "The book or the character, if there are several."), _BRANCH,
        ),
        errors=(SessionNotFoundError, BranchNotFoundError, WorldUnavailableError, CorpusError, ConfigError),
        doc="Return the conversation, the character or the lore of a session as a file for SillyTavern.",
    ),
    Operation(
        "erase", "POST", "/erasures", "", body=ErasureRequest, answer=ErasureAnswer, scope=Scope.ADMIN, is_audited=True,
        errors=(SessionNotFoundError, ConfigError),
        doc="Erase a user, a session or evidence, then search for the erased texts as a proof. With `dry_run`, only list what "
        "would be erased.",
    ),
    Operation(
        "list_audits", "GET", "/audits", "", answer=tuple[AuditRecord, ...], scope=Scope.ADMIN,
        doc="List the records of erasures.",
    ),
    Operation(
        "estimate_messages", "POST", "/estimate", "ContextEngine.estimate_messages", body=EstimateRequest, answer=EstimateAnswer,
        open_to_viewers=True, errors=(ConfigError, InputTooLargeError),
        doc="Return how many tokens messages have.",
    ),
    Operation(
        "list_settings", "GET", "/settings", "", answer=tuple[SettingInForce, ...], scope=Scope.ADMIN, errors=(ConfigError,),
        doc="List the settings in force: each value without secrets, and its source. A tenant gets the settings of its "
        "turns and its own quotas, without places of the host.",
    ),
    Operation(
        "check_health", "GET", "/health", "", answer=HealthAnswer, scope=Scope.ADMIN, errors=(ConfigError,), has_sentences=True,
        doc="Check the store as `jacquard operate doctor` does: what is wrong, and what to do. A tenant gets the findings about "
        "its own data, without places of the host.",
    ),
    Operation(
        "get_metrics", "GET", "/metrics", "", answer=MetricsAnswer, scope=Scope.ADMIN,
        query=(Query("minutes", "Length of the time up to now.", kind=int, default=60, least=1, most=1_440),),
        doc="Return the figures of the caller's tenant in the last minutes: requests, turns, times, paths and degradations.",
    ),
    Operation(
        "create_token", "POST", "/tokens", "", body=TokenRequest, answer=TokenAnswer, status=201, scope=Scope.ADMIN,
        is_repeatable=False, errors=(ConfigError,),
        doc="Make a token for the caller's tenant. Only this answer shows the token. A second call makes another token.",
    ),
    Operation(
        "list_tokens", "GET", "/tokens", "", answer=tuple[TokenRecord, ...], scope=Scope.ADMIN, errors=(ConfigError,),
        doc="List the records of the tokens of the caller's tenant, oldest first.",
    ),
    Operation(
        "revoke_token", "DELETE", "/tokens/{token_id}", "", answer=TokenRecord, scope=Scope.ADMIN, errors=(ConfigError,),
        doc="Revoke a token of the caller's tenant. Every process refuses it within two seconds.",
    ),
    Operation(
        "list_audited_calls", "GET", "/audits/calls", "", answer=tuple[AuditedCall, ...], scope=Scope.ADMIN,
        query=(_limit(50, 1_000),), errors=(ConfigError,),
        doc="List the newest calls in the caller's tenant that erased data or read data reserved for the host, oldest first.",
    ),
    Operation(
        "search_memory", "POST", f"{_SESSION}/memory/search", "MemoryVerbs.search", body=SearchRequest,
        answer=tuple[FoundMemory, ...], open_to_viewers=True, query=(VIEWER,),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="Return the memories that recall finds for a text, best first, and why each was found.",
        tool=Tool("Search memories; also returns why each was found.", only=("text", "limit"), reads=True),
    ),
    Operation(
        "change_memories", "POST", f"{_SESSION}/memory/bulk", "", body=BulkRequest, answer=BulkAnswer, open_to_viewers=True,
        is_audited=True, is_repeatable=False, once=True, query=(AUTHOR, VIEWER),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="Forget, pin or unpin several memories. All of them are checked before the first is changed.",
    ),
    Operation(
        "get_memory", "GET", _ONE, "MemoryVerbs.memory", answer=Memory, open_to_viewers=True, query=(VIEWER,),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="Return one memory.",
        tool=Tool("Read one memory.", omit=frozenset({"entry_ids"})),
    ),
    Operation(
        "browse_memory", "GET", f"{_SESSION}/memory", "", answer=MemoryPage, open_to_viewers=True,
        query=(
            _BRANCH, _AS_OF_TURN,
            Query("chain", "Only this chain: `lore` (remembered texts and documents), `narrative`, `event` or `history`."),
            Query("kind", "Only this kind: `remembered`, `document`, `turn_summary`, `message` …"),
            Query("by", "Only memories of this author or speaker."),
            Query("pinned", "Only memories that are pinned, or that are not.", kind=bool),
            Query("superseded", "Only memories that were superseded, or that were not.", kind=bool),
            Query("query", "Only memories whose title and text contain these words.", default=""),
            Query("cursor", "`next` of the page before.", default=""), _limit(50, 200), VIEWER,
        ),
        errors=(SessionNotFoundError, BranchNotFoundError, ConfigError),
        doc="List the memories of a session page by page: chain by chain, the newest first.",
    ),
    Operation(
        "list_facts", "GET", f"{_SESSION}/facts", "MemoryVerbs.facts", answer=tuple[StoryFact, ...], open_to_viewers=True,
        query=(
            Query("query", "Only facts that contain these words.", default=""), _BRANCH, _AS_OF_TURN, _limit(50, 1_000), VIEWER,
        ),
        errors=(SessionNotFoundError, BranchNotFoundError, WorldUnavailableError, ConfigError),
        doc="List the facts of the story on a branch, newest first: values of the state that turns changed, and facts in "
        "memories, each with the turns in which it is valid.",
        tool=Tool("List facts and when they are valid.", only=("query", "as_of_turn")),
    ),
    Operation(
        "memory_uses", "GET", f"{_ONE}/uses", "", answer=MemoryUses, open_to_viewers=True,
        query=(Query("before", "Only turns before this depth.", kind=int, least=1, most=10**12), VIEWER),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, DamagedRecordError),
        doc="List the turns whose prompts had a memory, newest first. One call searches up to 50 turns.",
    ),
    Operation(
        "remember_memory", "POST", f"{_SESSION}/memory", "MemoryVerbs.remember", body=RememberRequest, answer=MemoryEdit,
        status=201, open_to_viewers=True, query=(AUTHOR, VIEWER),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="Store a text as a memory of the session. Calls with the same idempotency key store it only once.",
        tool=Tool("Remember a new fact. Never store what a search or a prompt has shown."),
    ),
    Operation(
        "edit_memory", "PATCH", _ONE, "MemoryVerbs.edit", body=MemoryTextRequest, answer=MemoryEdit, open_to_viewers=True,
        once=True, query=(AUTHOR, VIEWER), errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="Correct the text of a memory. Recall then finds the new text and no longer the old text.",
        tool=Tool("Correct the text of a memory.", destroys=True),
    ),
    Operation(
        "supersede_memory", "POST", f"{_ONE}/supersede", "MemoryVerbs.supersede", body=MemoryTextRequest, answer=MemoryEdit,
        open_to_viewers=True, is_repeatable=False, once=True, query=(AUTHOR, VIEWER),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="Mark a memory as no longer true. The optional text states what is true now.",
        tool=Tool("Mark a memory as no longer true; text: what is true now, if anything.", destroys=True),
    ),
    Operation(
        "pin_memory", "POST", f"{_ONE}/pin", "MemoryVerbs.pin", answer=MemoryEdit, open_to_viewers=True, query=(AUTHOR, VIEWER),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="Show a memory in every prompt in which it fits.",
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
        once=True, query=(AUTHOR, VIEWER, Query("reason", "Reason, which is stored in the record of the erasure.", default="")),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="Erase a remembered memory or a document permanently, with its corrections and pins.",
        tool=Tool("Erase a memory permanently. Ask the user first.", destroys=True),
    ),
    Operation(
        "memory_proposals", "GET", f"{_SESSION}/memory-proposals", "MemoryVerbs.proposals", answer=tuple[MemoryEdit, ...],
        open_to_viewers=True, query=(VIEWER,),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="List the changes of memory that models proposed and that wait for a decision, oldest first (see `memory.review`).",
        tool=Tool("List proposals that wait for the user's decision.", for_review=True),
    ),
    Operation(
        "accept_proposal", "POST", f"{_SESSION}/memory-proposals/{{proposal_id}}/accept", "MemoryVerbs.accept",
        body=AcceptRequest, answer=MemoryEdit, open_to_viewers=True, query=(AUTHOR, VIEWER),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="Carry out a proposal, with the given text instead of the proposed one if there is one. A second call changes nothing.",
        tool=Tool("Carry out a proposal. Ask the user first.", destroys=True, for_review=True),
    ),
    Operation(
        "reject_proposal", "POST", f"{_SESSION}/memory-proposals/{{proposal_id}}/reject", "MemoryVerbs.reject",
        answer=MemoryEdit, open_to_viewers=True, query=(AUTHOR, VIEWER),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="Refuse a proposal. It is not proposed again for the same turns.",
        tool=Tool("Refuse a proposal. Ask the user first.", destroys=True, for_review=True),
    ),
    Operation(
        "memory_log", "GET", f"{_SESSION}/memory-log", "MemoryVerbs.log", answer=tuple[MemoryEdit, ...], open_to_viewers=True,
        query=(VIEWER,), errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="List the edits of a session's memory, oldest first.",
        tool=Tool("List edits of memory."),
    ),
    Operation(
        "undo_memory_edit", "POST", f"{_SESSION}/memory-log/{{edit_id}}/undo", "MemoryVerbs.undo", answer=MemoryEdit,
        open_to_viewers=True, query=(AUTHOR, VIEWER),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="Undo an edit of memory. A second call changes nothing.",
        tool=Tool("Undo an edit of memory_log.", destroys=True, is_idempotent=True),
    ),
    Operation(
        "continue_session", "POST", f"{_SESSION}/continue", "MemoryVerbs.continue_session", body=ContinueRequest,
        answer=SessionHead, status=201, open_to_viewers=True, query=(AUTHOR, VIEWER),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError, SessionExistsError),
        doc="Start a session with the memories of another session. A second call returns the session that the first call started.",
        tool=Tool("Start a session with another session's memories; query: only memories that match it.",
                  only=("new_session_id", "query"), omit=_HEAD, is_idempotent=True),
    ),
    Operation(
        "set_state", "PUT", f"{_SESSION}/state", "MemoryVerbs.set_state", body=StateRequest, answer=SessionHead,
        scope=Scope.AUTHOR, once=True, query=(AUTHOR,),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError, StateOpError, VersionConflictError),
        doc="Set values of the state by their flat paths (`hero.health`), all or none.",
        tool=Tool("Set values of the state by path (hero.health).", omit=_HEAD, destroys=True),
    ),
    Operation(
        "add_lore", "POST", f"{_WORLD}/lore", "MemoryVerbs.add_lore", body=LoreRequest, answer=MemoryEntry, status=201,
        scope=Scope.AUTHOR, once=True, query=(AUTHOR,),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="Add a lore entry to an imported world.",
        tool=Tool("Add an entry of lore.", omit=_ENTRY),
    ),
    Operation(
        "edit_lore", "PATCH", f"{_WORLD}/lore/{{entry_id}}", "MemoryVerbs.edit_lore", body=LoreChange, answer=MemoryEntry,
        scope=Scope.AUTHOR, query=(AUTHOR,),
        errors=(SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError),
        doc="Change the text or the title of a lore entry of an imported world.",
        tool=Tool("Change an entry of lore.", omit=_ENTRY, destroys=True, is_idempotent=True),
    ),
    Operation(
        "stream_events", "GET", f"{_SESSION}/events", "", answer=Event, scope=Scope.AUTHOR, in_one_process=True,
        errors=(SessionNotFoundError,),
        doc="Stream the new events of a session as Server-Sent Events: `event` is the type, `data` is the event as JSON.",
    ),
)
# fmt: on

BY_NAME: Mapping[str, Operation] = {each.name: each for each in OPERATIONS}

BY_PYTHON: Mapping[str, Operation] = {each.python: each for each in OPERATIONS if each.python}
"""Operations by the names of their Python methods (`MemoryVerbs.pin`)."""

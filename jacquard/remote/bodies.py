"""Defines request bodies and answers of the service, for operations whose values are not classes of the engine already.

`check_sizes` refuses a request body of which a part is too large. Everything here is pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from dataclasses import field, fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from filament.state.verdicts import OpVerdict
from jacquard.authoring.findings import Finding
from jacquard.authoring.lore_comparison import Verdict
from jacquard.authoring.render import BlockChange, BlockRow
from jacquard.authoring.replay.replay import DecisionChange
from jacquard.authoring.reports import Difference, PlayReport
from jacquard.authoring.state_changes import StateChange
from jacquard.core.errors import ConfigError
from jacquard.core.receipt import Report
from jacquard.memory.verbs.values import Memory
from jacquard.remote.operation import Scope
from jacquard.remote.wire import SentMessage
from mnemosyne.schema.document import ModelUsage, Task, ToolCall
from mnemosyne.schema.evidence import EvidenceLinks, EvidenceSource, EvidenceType
from mnemosyne.schema.imported_files import FieldFate
from mnemosyne.schema.ingest import IngestOptions
from mnemosyne.schema.memory import EMPTY, Comparison, LoreCategory, MemoryEntry, UserFact
from mnemosyne.schema.session import Message, Ref, TurnKind, TurnStatus
from mnemosyne.schema.world import WorldPack
from mnemosyne.values import dataclass
from mnemosyne.world.pack_json import PACK_FORMAT

MOST = "most"
"""Key in a field's metadata. Its value is the field's own limit, which replaces MOST_ENTRIES."""

MOST_MESSAGES = 25_000
"""Maximum number of messages of a conversation in a request."""

MOST_ENTRIES = 1_000
"""Maximum number of entries of any other list or mapping in a request."""
MOST_CHARS = 20_000
"""Maximum characters of a name, a reason or another text that is not content."""

_CONTENTS = frozenset({"content", "text", "result", "chunk", "message", "messages"})
"""Fields whose texts may be longer than MOST_CHARS, because the settings of the engine limit them."""

SentChatMessage = str | dict[str, Any]
"""A message: its text, the object of a chat API (`role`, `content`, `tool_calls`…), or a stored message with all its fields."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionRequest:
    """A session to start. `world_id` names a world of the store; if it is null, the session begins in the service's own world."""

    session_id: str
    world_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionPage:
    """One page of session ids, in order. Send `next` as `after` to get the next page; it is null on the last page."""

    items: tuple[str, ...]
    next: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """A session as people know it. Texts are shortened to one line."""

    session_id: str
    world_id: str
    title: str
    """The first message of the user on the active branch; '' if there is none."""
    last: str
    """The newest message of the active branch; '' if there is none."""
    last_role: str
    at: datetime | None
    """Time of the newest message; None if it is unknown."""
    turns: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversationPage:
    """Conversations, newest first. Send `next` as `after` to continue the list; it is null at the end. With words, a page may be
    short or empty although there are more.
    """

    items: tuple[Conversation, ...]
    next: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class UpstreamState:
    """The model server of the proxy. `address` has no credentials and is '' if the settings name no server; `fault` is a
    sentence about why it cannot be reached, '' if it can. `models` are the names of its models.
    """

    address: str
    fault: str
    models: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PastTurn:
    """A committed turn of the history. Its prompt and its receipt (why each block is in the prompt) are not included."""

    turn_id: str
    branch_id: str
    depth: int
    kind: TurnKind
    status: TurnStatus
    messages: tuple[Message, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnPage:
    """One page of turns, oldest first. Send `before` to get the page of older turns; it is null if there are no older turns."""

    items: tuple[PastTurn, ...]
    before: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnChanges:
    """Values of the state that a turn changed, and the verdicts on the ops of its reply, including refused ops."""

    turn_id: str
    changes: tuple[StateChange, ...]
    verdicts: tuple[OpVerdict, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentRequest:
    """A session document (version 1.0) to write. It replaces the stored session only if that has `expected_version`."""

    document: dict[str, Any]
    expected_version: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class EditRequest:
    """The new text of a message of the active branch, and the id of the branch to open (null: one is chosen)."""

    content: str
    branch_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AdoptRequest:
    """Messages that were exchanged elsewhere, oldest first."""

    messages: tuple[SentChatMessage, ...] = field(metadata={MOST: MOST_MESSAGES})


@dataclass(frozen=True, kw_only=True, slots=True)
class ForkRequest:
    """A branch to open after a committed turn (null: before the first)."""

    turn_id: str | None = None
    branch_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SwitchRequest:
    """The branch that becomes the active branch."""

    branch_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RollbackRequest:
    """The committed turn to go back to (null: before the first)."""

    turn_id: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchRequest:
    """The branch to work on (null: the active branch)."""

    branch_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsolidateRequest:
    """The branch whose turns are turned into memory. `chapter_ends` is true if a chapter ends with its newest turn."""

    branch_id: str | None = None
    chapter_ends: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class RepairRequest:
    """Ops (changes of the state) that the host makes itself, in the form in which a model writes them.

    Either all of them are applied or none.
    """

    ops: tuple[list[Any] | dict[str, Any], ...]
    reason: str = ""
    branch_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TasksRequest:
    """Tasks to write. A task replaces the stored task with the same id."""

    tasks: tuple[Task, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnRequest:
    """Input of a turn. `config` overrides settings of the service for this turn; it is nested like the settings file.

    With `dry_run` nothing is written. `files` are unsaved texts of files of the session's world by name (null leaves a file out),
    for a dry run by a token of scope author.
    """

    message: SentChatMessage
    config: dict[str, Any] | None = None
    turn_id: str | None = None
    branch_id: str | None = None
    dry_run: bool = False
    files: dict[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class AgainRequest:
    """Asks to prepare the input of a turn again, for another reply.

    `turn_id` names the turn (null: the newest turn). `retry` accepts only null.
    """

    config: dict[str, Any] | None = None
    turn_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerRequest:
    """Asks the service's model server for the reply to a prepared turn. `model` is the name of the model for that server.

    `texts` replace the texts of the messages of the prompt, in their order (null: the prompt is sent unchanged). A message whose
    text is empty is not sent. The receipt of the turn then has the sent texts, and names those that were edited.
    """

    model: str = ""
    texts: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TailRequest:
    """The host's own tool calls and their results, as messages of the OpenAI API. They follow the prompt of the turn."""

    tail: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptAnswer:
    """A prompt as messages of the OpenAI API."""

    messages: list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplyRequest:
    """A reply to the turn `turn_id` (null: the turn that waits for its reply)."""

    message: SentChatMessage
    refs: tuple[Ref, ...] | None = None
    turn_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkRequest:
    """One chunk of a reply. `chunk_index` is its number, from 0."""

    chunk: str
    chunk_index: int
    turn_id: str | None = None
    message_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class FinalizeRequest:
    """States that all chunks of a reply were sent."""

    refs: tuple[Ref, ...] | None = None
    turn_id: str | None = None
    message_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class AbortRequest:
    """The unfinished reply whose chunks are to be dropped."""

    turn_id: str | None = None
    message_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class AbortAnswer:
    """Number of chunks that were dropped."""

    chunks: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCallRequest:
    """A tool call, and its result: either as ids of stored evidence (`result_evidence_ids`) or as text (`result`)."""

    tool_call: ToolCall
    result_evidence_ids: tuple[str, ...] | None = None
    result: str | None = None
    options: IngestOptions | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageRequest:
    """A call of a model. `llm_output_evidence_id` is the id of the evidence item that contains its answer."""

    model_usage: ModelUsage
    llm_output_evidence_id: str | None = None
    turn_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReceiptAnswer:
    """The receipt of a turn: its report, the tokens of each block in the sent prompt, and its model calls, oldest first."""

    turn_id: str
    report: Report
    tokens_by_block: dict[str, int]
    calls: tuple[ModelUsage, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayAnswer:
    """The result of making a prompt again from its record.

    `differences` are sentences. It is empty if the new prompt has the same bytes as the recorded prompt.
    """

    turn_id: str
    differences: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class WhatIfRequest:
    """Settings under which a recorded turn is rendered again. They override those of the turn, nested like the settings file."""

    config: dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderedPrompt:
    """A prompt with its blocks in reading order, the dropped blocks last.

    The tokens of the kept blocks and `frame_tokens` (tags and blank lines between blocks) add up to `tokens`.
    """

    template_id: str
    layout: str
    tokens: int
    frame_tokens: int
    blocks: tuple[BlockRow, ...]
    messages: tuple[SentMessage, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class WhatIfAnswer:
    """A recorded prompt (`before`), and the same turn under other settings (`after`). Nothing was written.

    - `changes`: blocks whose text differs, with the lines of a diff. `decisions`: blocks whose decision or tokens differ.
    - `moved`: true if the prompts do not have the same blocks in the same order and messages.
    - `applied`: the changed settings that were applied. `ignored`: those that a recorded turn cannot show, because its plan
      and its memories stay unchanged; a turn with `dry_run` shows them.
    """

    turn_id: str
    before: RenderedPrompt
    after: RenderedPrompt
    changes: tuple[BlockChange, ...]
    decisions: tuple[DecisionChange, ...]
    moved: bool
    applied: tuple[str, ...]
    ignored: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceRequest:
    """A text from outside, to be stored in a session as evidence."""

    content: str
    source: EvidenceSource
    evidence_type: EvidenceType
    links: EvidenceLinks | None = None
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    options: IngestOptions | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FactsRequest:
    """Facts about a user. With `dry_run` nothing is stored."""

    facts: tuple[UserFact, ...]
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldName:
    """A world of the store, and the digest of its current version."""

    world_id: str
    digest: str


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldDocument:
    """A world pack with the version of its format. A GET returns it in the same form in which a PUT accepts it."""

    pack: WorldPack
    format: int = PACK_FORMAT


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldRequest:
    """A `WorldDocument` to store. If it has faults, all of them are reported, not only the first."""

    pack: dict[str, Any]
    format: int = PACK_FORMAT


@dataclass(frozen=True, kw_only=True, slots=True)
class LorePage:
    """One page of lore entries, in the order of the pack. `next` is the `offset` of the next page (null on the last page)."""

    items: tuple[MemoryEntry, ...]
    next: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldFiles:
    """Names of the files of a world (`world.yaml`, `templates/combat/guidance.j2`), and of the `shipped` templates, which files of
    the same name replace.

    `is_folder` is true if the world is read from a folder; otherwise its only files are templates. `is_editable` is false if the
    folder cannot be changed here.
    """

    files: tuple[str, ...]
    shipped: tuple[str, ...]
    is_folder: bool
    is_editable: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldFile:
    """Text of a file. `is_shipped` is true if the world has no such file, so that the text is that of the shipped template.

    `digest` identifies the text.
    """

    name: str
    text: str
    digest: str
    is_shipped: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldFilesRequest:
    """New texts of files by name. Null removes a file.

    `read` has the digests of the texts that the caller read, by name. If one of these files has another text now, nothing is
    stored.
    """

    files: dict[str, str | None]
    read: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class LintRequest:
    """Unsaved texts of files by name, which replace the stored ones for this check. Null leaves a file out."""

    files: dict[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class LintAnswer:
    """Faults of a world's files, sorted by file, line and column, and the names of the checked files."""

    files: tuple[str, ...]
    errors: int
    findings: tuple[Finding, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PreviewRequest:
    """Files for the preview of a recorded turn.

    `files` are unsaved texts by name. `template_id` and `layout` replace those of the turn.
    """

    files: dict[str, str | None] = field(default_factory=dict)
    template_id: str | None = None
    layout: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PreviewAnswer:
    """A recorded prompt (`before`), and the same turn with the given files (`after`), with the differing blocks.

    `is_same` is true if `after` is the recorded prompt, byte for byte.
    """

    before: RenderedPrompt
    after: RenderedPrompt
    changes: tuple[BlockChange, ...]
    is_same: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenRequest:
    """The golden case to run (null: all). With `accept`, the prompts as they are now become the approved ones."""

    case: str | None = None
    accept: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenCaseRequest:
    """The name of a new golden case (a file name without its ending)."""

    case: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenCaseAnswer:
    """A new golden case, with its approved prompt.

    `left_out` are the ids of memories of the turn that a case cannot have, because they are not in the pack.
    """

    case: str
    file: str
    tokens: int
    left_out: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class MatchRequest:
    """The text whose lore is to be found, as the next input of a branch (null: the active branch)."""

    text: str
    branch_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ConditionValue:
    """A condition of a lore entry, with the value that the state has now, and whether the condition is true."""

    path: str
    op: Comparison
    value: Any
    present: Any
    holds: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class LoreMatch:
    """A lore entry of which a key is in the text, or on which the rules of its book or recall decide.

    `found_keys` are its keys in the text. `sillytavern` and `recall` are the decisions of both ways (null: it is not an entry of
    an imported book, or neither way considers it).
    """

    entry_id: str
    title: str
    category: str
    text: str
    keys: tuple[str, ...]
    found_keys: tuple[str, ...]
    conditions: tuple[ConditionValue, ...]
    viewers: tuple[str, ...]
    sillytavern: Verdict | None
    recall: Verdict | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LoreMatches:
    """The lore that a text would wake. `activation` is the way that the turns of the session use: `recall` or `sillytavern`."""

    activation: str
    items: tuple[LoreMatch, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationRequest:
    """Options of an evaluation of a session's marks: how memories are recalled (`hybrid`, `bm25`, `vector`, `rrf`), who selects
    (`heuristic`, `oracle`), and the minimum probability of relevance (0 to 1) of a memory that the heuristic selects (null: 0).

    `name` is the name of the run ('': made of the options). A run with the name of an earlier one replaces it.
    """

    name: str = ""
    retriever: str = "hybrid"
    selector: str = "heuristic"
    floor: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """One report of an evaluation. `kind` is `run` or `plays`; '' if the file cannot be read, for the reason in `fault`.

    `metrics` are means (0 to 1) over the scored questions.
    """

    run_id: str
    kind: str
    at: datetime
    fault: str = ""
    data: str = ""
    retriever: str = ""
    selector: str = ""
    embedder: str = ""
    floor: float = 0.0
    questions: int = 0
    scored: int = 0
    metrics: Mapping[str, float] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationPage:
    """Reports of evaluations, the newest first. `next` is the number of reports to skip for the next page (null at the end)."""

    items: tuple[Evaluation, ...]
    next: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredMetric:
    """Mean of a metric (0 to 1) over `questions`, with the ends of its 95 % bootstrap interval."""

    metric: str
    mean: float
    low: float
    high: float
    questions: int


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationFigures:
    """Figures of one report. `metrics` are those of a run by category; '' stands for all questions.

    `evidence` counts the relevant documents by the stage at which they were lost. `answered` is the share of the questions of
    plays whose answer the prompt had.
    """

    evaluation: Evaluation
    metrics: Mapping[str, tuple[ScoredMetric, ...]] = field(default_factory=lambda: EMPTY)
    evidence: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    latency_ms: Mapping[str, float] = field(default_factory=lambda: EMPTY)
    plays: tuple[PlayReport, ...] = ()
    answered: ScoredMetric | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluatedMemory:
    """A memory in the ranking of a question, or one that was expected there.

    `grade` is the label: 1 and more is wanted, 0 is not wanted, null is unlabelled. `rank` is null if it was not recalled.
    `text` is '' if the memory is not stored in the caller's store.
    """

    document_id: str
    text: str
    grade: int | None
    rank: int | None
    selected: bool
    stage: str = ""
    """Stage at which an expected memory was lost, or `delivered`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluatedQuestion:
    """One question of a run. `session_id` and `turn_id` are '' if the question is not a turn of the caller's store."""

    question_id: str
    category: str
    session_id: str
    turn_id: str
    text: str
    metrics: Mapping[str, float] | None
    error: str
    expected: tuple[EvaluatedMemory, ...]
    recalled: tuple[EvaluatedMemory, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionPage:
    """Questions of a run. `next` is the number of questions to skip for the next page (null at the end)."""

    items: tuple[EvaluatedQuestion, ...]
    total: int
    next: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedQuestion:
    """Scores (0 to 1) of one question in both runs, with the memories that only one of them selected."""

    question_id: str
    session_id: str
    turn_id: str
    text: str
    a: float
    b: float
    only_a: tuple[EvaluatedMemory, ...]
    only_b: tuple[EvaluatedMemory, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationComparison:
    """Two runs of the same questions. `differences` are B minus A by category; '' stands for all questions.

    `items` are the questions on which `metric` differs, the largest difference first. `next` is the number of questions to
    skip for the next page (null at the end).
    """

    a: Evaluation
    b: Evaluation
    differences: Mapping[str, tuple[Difference, ...]]
    metric: str
    items: tuple[ComparedQuestion, ...]
    total: int
    next: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkRequest:
    """Whether the prompt of the turn should have had the memory. Null takes the mark back."""

    wanted: bool | None


@dataclass(frozen=True, kw_only=True, slots=True)
class SentFile:
    """A file to import. `content` has its bytes in base64.

    `name` decides about the format only if the content does not. A name with slashes (`notes/boat.md`) puts the file into a
    folder, which is imported as a whole. So is a zip archive that no importer reads itself.
    """

    name: str
    content: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportFiles:
    """Files of other programs to import into one world and its sessions: cards, books, chats, notes, memories. A folder with a
    `world.yaml` is a world pack, which becomes the present version of its world.

    - `session_id`: the session of everything (null: each chat gets a session with its name).
    - `for_clients`: chats get the sessions in which the proxy looks for them, so that a chat program goes on with them.
    - `format`: the format of all files (null: it is found by the content).
    - `user`: the name of the speaker who is the user. `locale` and `activation` are of a new world.

    With `dry_run` the answer states what would become of each field, and nothing is written.
    """

    files: tuple[SentFile, ...]
    session_id: str | None = None
    format: str | None = None
    user: str = ""
    locale: str = ""
    activation: str = ""
    for_clients: bool = False
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadFile:
    """Content of a file to import: its cards, its books with their numbers of entries, its chats with their numbers of turns.

    `fields` states what becomes of each field.
    """

    name: str
    format: str
    cards: tuple[str, ...]
    books: Mapping[str, int]
    chats: Mapping[str, int]
    memories: int
    fields: tuple[FieldFate, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedTurns:
    """Number of turns of a session after an import, and how many of them are new."""

    turns: int
    new: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportAnswer:
    """Result of an import. `written` is false for a dry run; then `sessions` has no turns yet, only the names.

    `world_id` is the world of the sessions (empty: they have none), `lore_changed` the number of changed lore entries, and
    `memories` the number of added memories.
    """

    files: tuple[ReadFile, ...]
    written: bool
    sessions: Mapping[str, ImportedTurns]
    world_id: str = ""
    lore_changed: int = 0
    memories: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ErasureRequest:
    """The target of an erasure. Name a user, or a session, or a session with ids of its evidence.

    With `dry_run` nothing is changed.
    """

    user_id: str | None = None
    session_id: str | None = None
    evidence_ids: tuple[str, ...] = ()
    reason: str = ""
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ErasureAnswer:
    """The data that an erasure removed, or would remove (`dry_run`). It contains none of the erased text.

    - `done`: true if everything is gone and a search has proved it.
    - `counts`: the number of removed items of each kind; empty if there was nothing to remove.
    - `sessions`: the sessions that are erased as a whole. `touched`: the sessions of which a part is erased.
    - `remains`: rows and files that still contain an erased text. `faults`: items that could not be erased.
    - `mentions`: rows of other sessions or users that contain the erased id as a word.
    - `not_covered`: data that an erasure never removes, by its rules.
    """

    dry_run: bool
    done: bool
    kind: str
    sessions: tuple[str, ...]
    touched: tuple[str, ...]
    messages: int
    evidences: int
    originals: int
    counts: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    audit_id: str = ""
    remains: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    mentions: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class EstimateRequest:
    """Messages to count. `model_hint` names the model to count for (null: the model of the settings)."""

    messages: tuple[dict[str, Any], ...] = field(metadata={MOST: MOST_MESSAGES})
    model_hint: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class EstimateAnswer:
    """The number of tokens of messages."""

    tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SettingInForce:
    """A setting of the service: its path with dots, its value without secrets, and its source.

    The source is `default`, the name of an environment variable (with the file that it names: `NAME_FILE (PATH)`), the settings
    file with the line (`FILE:LINE`), or `start` (an option of the command). For a tenant it is `default` or `start`.
    """

    name: str
    value: Any
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class HealthFinding:
    """A fault of the store or its surroundings. `what` states the fault and `do` states the fix. `code` is for programs.

    The severity is `wrong` (something does not work, or soon will not) or `stale` (it works, but slower or worse than possible).
    """

    code: str
    severity: str
    what: str
    do: str


@dataclass(frozen=True, kw_only=True, slots=True)
class HealthAnswer:
    """Result of a health check. `is_well` is true if no finding is `wrong`.

    `packages` has the installed version of each package, empty if it is not installed.
    """

    is_well: bool
    store: str
    kind: str
    embedder: str
    packages: Mapping[str, str]
    findings: tuple[HealthFinding, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class UserOutline:
    """A user of whom facts or sessions are stored: the number of sessions, and the time of the newest one."""

    user_id: str
    sessions: int
    at: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class UserPage:
    """Users in order of their ids; `next` continues the list (null at its end)."""

    items: tuple[UserOutline, ...]
    next: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTimes:
    """Number of measured times of a step of `prepare_turn`, their median and their 95th percentile (up to 20 % too high)."""

    count: int
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricsPoint:
    """Figures of a time that begins at `at`.

    - `refused`: the number of requests that were answered with an error.
    - `tokens`: the number of tokens of all prompts. `shared_tokens`: how many of them the prompt before had in its beginning.
    - `paths`: the number of turns by the path of Stream B (`llm`, `fallback`, `timeout` …).
    """

    at: datetime
    requests: int
    refused: int
    turns: int
    tokens: int
    shared_tokens: int
    paths: Mapping[str, int]
    degradations: Mapping[str, int]
    steps: Mapping[str, StepTimes]


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricsAnswer:
    """Figures of the caller's tenant in the last `minutes`, of the process that answers (one of `processes`), since its start.

    `points` are the parts of this time, each of `point_minutes` minutes, oldest first. `total` is their sum.
    """

    minutes: int
    point_minutes: int
    processes: int
    total: MetricsPoint
    points: tuple[MetricsPoint, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenRequest:
    """A token to make for the caller's tenant: its scope, the viewer that it is bound to, and the time when it expires."""

    scope: Scope = Scope.PLAY
    viewer: str | None = None
    note: str = ""
    expires_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenAnswer:
    """A new token and its record. The token is never shown again."""

    token: str
    record: TokenRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchRequest:
    """Text to search for. `limit` is the maximum number of memories to return (1 to 100). With `as_of_turn`, the search
    finds what it would have found after the turn with this number.
    """

    text: str
    limit: int = 10
    as_of_turn: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RememberRequest:
    """A text to remember. With `dry_run` nothing is stored."""

    text: str
    title: str = ""
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryTextRequest:
    """New text for a memory. Only `supersede_memory` accepts an empty text. With `dry_run` nothing is stored."""

    text: str = ""
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptRequest:
    """The text to remember instead of the proposed text. If it is empty, the proposed text is remembered."""

    text: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ForgottenMemory:
    """The ids of the evidence that was erased."""

    evidence_ids: tuple[str, ...]


class BulkAction(StrEnum):
    """Change that is made to many memories at once."""

    FORGET = "forget"
    PIN = "pin"
    UNPIN = "unpin"


@dataclass(frozen=True, kw_only=True, slots=True)
class BulkRequest:
    """A change of several memories. If it is impossible for one of them, none is changed.

    `reason` is stored in the records of the erasures. With `dry_run` nothing is changed.
    """

    action: BulkAction
    memory_ids: tuple[str, ...] = field(metadata={MOST: 200})
    reason: str = ""
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class BulkAnswer:
    """The memories that were changed, or would be changed (`dry_run`), as they were before."""

    action: BulkAction
    dry_run: bool
    memories: tuple[Memory, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ContinueRequest:
    """A session to start with memories of another session.

    The new session gets the memories in `memory_ids`, or the best `limit` memories that a search for `query` finds. If neither is
    given, it gets all memories.
    """

    new_session_id: str
    memory_ids: tuple[str, ...] | None = None
    query: str = ""
    limit: int = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class StateRequest:
    """Values of the state to set, by their flat paths (`hero.health`). Either all of them are set or none."""

    changes: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class LoreRequest:
    """A new lore entry. Only `viewers` may know it (empty: everyone)."""

    text: str
    title: str = ""
    keys: tuple[str, ...] = ()
    category: LoreCategory = LoreCategory.ENCYCLOPEDIA
    viewers: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class LoreChange:
    """New text and title of a lore entry. A field that is null is not changed."""

    text: str | None = None
    title: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditedCall:
    """One audited call: its time (with a zone), its token, its operation and the id of its request."""

    at: datetime | None
    token_id: str
    operation: str
    request_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenRecord:
    """The record of a token: its id, its rights and its times (with a zone). It does not contain the token itself.

    `token_id` is not a secret.
    """

    token_id: str
    tenant: str
    scope: Scope
    viewer: str | None = None
    note: str = ""
    created_at: datetime | None = None
    expires_at: datetime | None = None
    revoked: bool = False


def check_sizes(body: Any, place: str = "") -> None:
    """Check the sizes of the lists and texts in a request body. `place` is the path of `body` in error messages.

    Raises ConfigError for the first part that is larger than its field allows. The values inside of free mappings and of
    messages of a chat API are not checked, because the setting `limits.body_bytes` limits them.
    """
    for each in fields(body):
        value, named = getattr(body, each.name), f"{place}{each.name}"
        is_list = isinstance(value, Sized) and not isinstance(value, str)
        most = each.metadata.get(MOST, MOST_ENTRIES)
        if is_list and len(value) > most:
            raise ConfigError(f"{named} has {len(value):,} entries; send at most {most:,} at once.")
        is_short = each.name not in _CONTENTS and not isinstance(value, Mapping)
        for item in (value.values() if isinstance(value, Mapping) else value) if is_list else (value,):
            if is_dataclass(item):
                check_sizes(item, f"{named}.")
            elif is_short and isinstance(item, str) and len(item) > MOST_CHARS:
                raise ConfigError(f"{named} has {len(item):,} characters; it may have at most {MOST_CHARS:,}.")

from .core.errors import (
    ContextEngineError,
    EvidenceNotFoundError,
    MigrationError,
    MnemosyneError,
    RedactionError,
    SchemaValidationError,
    SelectorResolveError,
    SessionNotFoundError,
    StoreError,
    StoreUnavailableError,
    VersionConflictError,
    WorldPackError,
)
from .core.tokens import CalibratedEstimator
from .documents.archive import export_session, import_session
from .documents.session_json import MigrateResult, Migrator, document_from_json, document_to_json
from .evidence.conflicts import resolve_conflicts
from .evidence.selectors import ParsedSelector, RefSelector, RefState, check_ref, extract, make_ref
from .host_parts import Sha256Hasher, SystemClock, UuidV4Generator
from .protocols import (
    BlockDeriver,
    Clock,
    Embedder,
    EventBus,
    EvidenceIngestor,
    EvidenceResolver,
    Hasher,
    IdGenerator,
    Importer,
    Redactor,
    Renderer,
    Retriever,
    Store,
    TokenEstimator,
)
from .schema.document import (
    Actor,
    AgentInfo,
    MessageIndexRange,
    Meta,
    ModelUsage,
    ModelUsageStage,
    ModelUsageStatus,
    ProviderKind,
    Session,
    SessionDocument,
    Summary,
    Task,
    TaskState,
    TaskStatus,
    TodoList,
    ToolCall,
    ToolCallStatus,
    ToolProvider,
    ToolState,
    ToolType,
)
from .schema.erasure import Erasure
from .schema.event import Event
from .schema.evidence import (
    BlockType,
    ContextBlock,
    DeriveOptions,
    Evidence,
    EvidenceLinks,
    EvidenceSource,
    EvidenceType,
    Priority,
    RenderedBlock,
    RenderHints,
    SourceKind,
)
from .schema.ingest import ConflictPolicy, ConflictRecord, IngestOptions
from .schema.memory import Chain, FactKind, MemoryEntry, StoryFact, UserFact
from .schema.query import BlockFilter, Candidate, EvidenceFilter, RetrievalQuery
from .schema.record import PutResult, SessionStart
from .schema.redaction import RedactionRecord, RedactionRules, RedactResult
from .schema.session import Author, AuthorKind, Message, Ref, Role
from .stores.file.store import FileStore
from .stores.open import open_store
from .stores.postgres.store import PostgresStore
from .stores.sqlite.memory import MemoryStore
from .stores.sqlite.store import SqliteStore
from .world import load_world

__all__ = [
    "Actor",
    "AgentInfo",
    "Author",
    "AuthorKind",
    "BlockDeriver",
    "BlockFilter",
    "BlockType",
    "CalibratedEstimator",
    "Candidate",
    "Chain",
    "Clock",
    "ConflictPolicy",
    "ConflictRecord",
    "ContextBlock",
    "ContextEngineError",
    "CorpusError",
    "DeriveOptions",
    "Embedder",
    "Erasure",
    "Event",
    "EventBus",
    "Evidence",
    "EvidenceFilter",
    "EvidenceIngestor",
    "EvidenceLinks",
    "EvidenceNotFoundError",
    "EvidenceResolver",
    "EvidenceSource",
    "EvidenceType",
    "FactKind",
    "FileStore",
    "Hasher",
    "IdGenerator",
    "Importer",
    "IngestOptions",
    "MemoryEntry",
    "MemoryStore",
    "Message",
    "MessageIndexRange",
    "Meta",
    "MigrateResult",
    "MigrationError",
    "Migrator",
    "MnemosyneError",
    "ModelUsage",
    "ModelUsageStage",
    "ModelUsageStatus",
    "ParsedSelector",
    "PostgresStore",
    "Priority",
    "ProviderKind",
    "PutResult",
    "Recall",
    "RedactResult",
    "RedactionError",
    "RedactionRecord",
    "RedactionRules",
    "Redactor",
    "Ref",
    "RefSelector",
    "RefState",
    "RenderHints",
    "RenderedBlock",
    "Renderer",
    "RetrievalQuery",
    "Retriever",
    "Role",
    "SchemaValidationError",
    "SelectorResolveError",
    "Session",
    "SessionDocument",
    "SessionNotFoundError",
    "SessionStart",
    "Sha256Hasher",
    "Signals",
    "SourceKind",
    "SqliteStore",
    "Store",
    "StoreError",
    "StoreUnavailableError",
    "StoryFact",
    "Summary",
    "SystemClock",
    "Task",
    "TaskState",
    "TaskStatus",
    "TodoList",
    "TokenEstimator",
    "ToolCall",
    "ToolCallStatus",
    "ToolProvider",
    "ToolState",
    "ToolType",
    "UserFact",
    "UuidV4Generator",
    "VersionConflictError",
    "WorldPackError",
    "check_ref",
    "document_from_json",
    "document_to_json",
    "export_session",
    "extract",
    "import_session",
    "load_world",
    "make_ref",
    "open_store",
    "resolve_conflicts",
]

# Internal. Each is imported from its module; the package passes them on, with a DeprecationWarning, until 0.2.
from .chains.session_start import session_start
from .chains.uris import parse_uri, resolve_uri
from .core.errors import (
    BranchExistsError,
    BranchNotFoundError,
    CodecError,
    CommitUnknownError,
    CorpusError,
    DamagedRecordError,
    EmbedderUnavailableError,
    EntryConflictError,
    IndexUnavailableError,
    LeaseLostError,
    NoPendingTurnError,
    PatternError,
    PluginError,
    ScopeDroppedError,
    SessionExistsError,
    StateOpError,
    StoreBusyError,
    TurnNotFoundError,
    TurnNotPendingError,
    UnreadableError,
    UriError,
    WorldNotAdoptedError,
)
from .core.exact_tokens.messages import MessageTokenEstimator
from .core.exact_tokens.tiktoken_encoding import TiktokenEstimator
from .core.exact_tokens.tokenizer_file import TokenizerFileEstimator
from .documents.package_json import package_from_json, package_to_json
from .documents.session_json import document_faults
from .evidence import FolderVault, IngestRules, RedactingIngestor, SessionIngestor
from .evidence.blocks.derive import EvidenceBlockDeriver, derive_evidence_blocks
from .evidence.blocks.render import RefRenderer
from .evidence.blocks.resolve import RefResolver
from .evidence.selectors import parse_selector
from .formats.corpora.corpus import CORPUS_FILE, Corpus, CorpusDocument, corpus_file, read_corpus, to_session
from .formats.losses import FieldCounter
from .plugins import (
    EmbedderFactory,
    ExtensionPoint,
    ImporterFactory,
    Plugin,
    RedactorFactory,
    StoreFactory,
    TokenEstimatorFactory,
    find_plugins,
)
from .privacy.redact import RegexRedactor
from .protocols import (
    ArchivedSession,
    EntrySource,
    Fetch,
    IdlePage,
    IdleSession,
    Index,
    Lease,
    MessageEstimator,
    OriginalVault,
    PiiDetector,
    ResolveRef,
    SessionLimit,
    SessionLocks,
    StoreUpkeep,
    StoreUsage,
    TextSelector,
    Vectors,
)
from .retrieval.embedding.export_onnx import export_model
from .retrieval.embedding.local import LocalEmbedder, model_folder
from .retrieval.embedding.prefetching import PrefetchingEmbedder
from .retrieval.embedding.remote import RemoteEmbedder
from .retrieval.engines.tables.memory import MemoryIndex
from .retrieval.engines.tiered_index import TieredIndex
from .retrieval.recall.arms import ALL_ARMS, BM25, VECTOR
from .retrieval.recall.entry_list import EntryList
from .retrieval.recall.hybrid import HybridRetriever
from .retrieval.text.words import has_cjk, word_tokens
from .schema.document import SCHEMA_VERSION
from .schema.erasure import ERASED, PACK_PLACE, AuditRecord, ErasureOutcome
from .schema.event import EventType
from .schema.evidence import RefFault, RenderFormat, ResolvedRef
from .schema.imported_files import (
    AuthorsNote,
    BookEntry,
    CharacterCard,
    Chat,
    DepthPrompt,
    Fate,
    FieldFate,
    ImportedFile,
    ImportedMemory,
    WorldBook,
)
from .schema.ingest import IngestResult, ShownText
from .schema.memory import EMPTY, MACRO, Comparison, Condition, LoreCategory, Trust, session_scope, world_scope
from .schema.package import MODES, PACKAGE_VERSION, SOURCES, ContextPackage, EvidenceItem, PackageBlock, PackageMessage
from .schema.query import PRIORITY_ORDER, EntryPlace, Hits, IndexFilter, RatedEntry, Recall, Signals, place_of
from .schema.record import (
    WINDOW_USAGES,
    ChosenInputs,
    HiddenRecords,
    ImportedBranch,
    ImportedConversation,
    ImportedConversations,
    ImportedTurn,
    ImportRequest,
    PathSummary,
    Prefetch,
    SequencedEntry,
    SessionWindow,
    TurnCommit,
    TurnInputs,
    TurnRecord,
)
from .schema.redaction import SensitiveSpan
from .schema.replies import AddedChunk, ChunkLimits, ChunkOutcome, ReplyChunk, UnfinishedReply
from .schema.session import BranchSpan, SessionHead, TurnKind, TurnStatus, WindowMessage
from .schema.world import (
    BARE_DIGEST,
    Entity,
    Injection,
    NumericalAction,
    PlannerRules,
    PrologueEvent,
    PrologueNarrative,
    PrologueTurn,
    TemplateRule,
    WorldPack,
)
from .stores.file.session_locks import FileSessionLocks
from .stores.locate import locate_store, postgres_address
from .stores.postgres.locks import PostgresSessionLocks

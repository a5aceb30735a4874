from .core.errors import (
    MnemosyneError,
    SessionNotFoundError,
    StoreError,
    StoreUnavailableError,
    VersionConflictError,
    WorldPackError,
)
from .core.tokens import CalibratedEstimator
from .documents.archive import export_session, import_session
from .documents.session_json import document_from_json, document_to_json
from .evidence.conflicts import resolve_conflicts
from .evidence.selectors import RefState, check_ref, extract, make_ref
from .protocols import (
    Clock,
    Embedder,
    EventBus,
    EvidenceIngestor,
    EvidenceResolver,
    Importer,
    Redactor,
    Renderer,
    Retriever,
    Store,
    TokenEstimator,
)
from .schema.document import (
    ModelUsage,
    ModelUsageStage,
    Session,
    SessionDocument,
    Summary,
    Task,
    TaskState,
    TodoList,
    ToolCall,
)
from .schema.erasure import Erasure
from .schema.evidence import ContextBlock, Evidence, EvidenceSource, EvidenceType, SourceKind
from .schema.ingest import ConflictPolicy, IngestOptions
from .schema.memory import Chain, FactKind, MemoryEntry, UserFact
from .schema.query import Candidate, RetrievalQuery
from .schema.record import SessionStart
from .schema.session import Author, AuthorKind, Message, Ref, Role
from .stores.file.store import FileStore
from .stores.open import open_store
from .stores.postgres.store import PostgresStore
from .stores.sqlite.memory import MemoryStore
from .stores.sqlite.store import SqliteStore
from .world import load_world

__all__ = [
    "Author",
    "AuthorKind",
    "CalibratedEstimator",
    "Candidate",
    "Chain",
    "Clock",
    "ConflictPolicy",
    "ContextBlock",
    "Embedder",
    "Erasure",
    "EventBus",
    "Evidence",
    "EvidenceIngestor",
    "EvidenceResolver",
    "EvidenceSource",
    "EvidenceType",
    "FactKind",
    "FileStore",
    "Importer",
    "IngestOptions",
    "MemoryEntry",
    "MemoryStore",
    "Message",
    "MnemosyneError",
    "ModelUsage",
    "ModelUsageStage",
    "PostgresStore",
    "Redactor",
    "Ref",
    "RefState",
    "Renderer",
    "RetrievalQuery",
    "Retriever",
    "Role",
    "Session",
    "SessionDocument",
    "SessionNotFoundError",
    "SessionStart",
    "SourceKind",
    "SqliteStore",
    "Store",
    "StoreError",
    "StoreUnavailableError",
    "Summary",
    "Task",
    "TaskState",
    "TodoList",
    "TokenEstimator",
    "ToolCall",
    "UserFact",
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
    ContextEngineError,
    CorpusError,
    DamagedRecordError,
    EmbedderUnavailableError,
    EntryConflictError,
    EvidenceNotFoundError,
    IndexUnavailableError,
    LeaseLostError,
    MigrationError,
    NoPendingTurnError,
    PatternError,
    PluginError,
    RedactionError,
    SchemaValidationError,
    ScopeDroppedError,
    SelectorResolveError,
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
from .evidence.selectors import RefSelector, parse_selector
from .formats.corpora.corpus import CORPUS_FILE, Corpus, CorpusDocument, corpus_file, read_corpus, to_session
from .formats.losses import FieldCounter
from .host_parts import Sha256Hasher, SystemClock, UuidV4Generator
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
    BlockDeriver,
    EntrySource,
    Fetch,
    Hasher,
    IdGenerator,
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
from .schema.document import (
    SCHEMA_VERSION,
    Actor,
    AgentInfo,
    MessageIndexRange,
    Meta,
    ModelUsageStatus,
    ProviderKind,
    TaskStatus,
    ToolCallStatus,
    ToolProvider,
    ToolState,
    ToolType,
)
from .schema.erasure import ERASED, PACK_PLACE, AuditRecord, ErasureOutcome
from .schema.event import Event, EventType
from .schema.evidence import (
    BlockType,
    DeriveOptions,
    EvidenceLinks,
    Priority,
    RefFault,
    RenderedBlock,
    RenderFormat,
    RenderHints,
    ResolvedRef,
)
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
from .schema.ingest import ConflictRecord, IngestResult, ShownText
from .schema.memory import EMPTY, MACRO, Comparison, Condition, LoreCategory, Trust, session_scope, world_scope
from .schema.package import MODES, PACKAGE_VERSION, SOURCES, ContextPackage, EvidenceItem, PackageBlock, PackageMessage
from .schema.query import (
    PRIORITY_ORDER,
    BlockFilter,
    EntryPlace,
    EvidenceFilter,
    Hits,
    IndexFilter,
    RatedEntry,
    Recall,
    Signals,
    place_of,
)
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
    PutResult,
    SequencedEntry,
    SessionWindow,
    TurnCommit,
    TurnInputs,
    TurnRecord,
)
from .schema.redaction import RedactionRecord, RedactionRules, RedactResult, SensitiveSpan
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

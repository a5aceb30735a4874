"""The protocols of mnemosyne. An implementation follows the numbered rules; the shipped contract suites test each by
its number.

Import them from here; the modules of this folder only group them.
"""

from __future__ import annotations

from mnemosyne.protocols.host import (
    Clock,
    EventBus,
    Hasher,
    IdGenerator,
    MessageEstimator,
    SessionLocks,
    TokenEstimator,
)
from mnemosyne.protocols.ingestion import EvidenceIngestor, Importer, OriginalVault, PiiDetector, Redactor
from mnemosyne.protocols.recall import (
    BatchIndex,
    EmbeddedText,
    Embedder,
    EntrySource,
    EvictingIndex,
    Index,
    IndexBase,
    MendableIndex,
    ParallelEmbedder,
    PartialIndex,
    ReencodableIndex,
    Retriever,
    SegmentRows,
    SegmentStore,
    SharedIndex,
    SharedIndexStore,
    SnapshotIndex,
    StoredSegments,
    Vectors,
    VectorStore,
)
from mnemosyne.protocols.rendering import BlockDeriver, EvidenceResolver, Fetch, Renderer, ResolveRef, TextSelector
from mnemosyne.protocols.store import Store, combined_reads
from mnemosyne.protocols.upkeep import (
    ArchivedSession,
    IdlePage,
    IdleSession,
    Lease,
    SharedIndexUpkeep,
    SharedScope,
    StoreUpkeep,
    StoreUsage,
)

__all__ = [
    "ArchivedSession",
    "BatchIndex",
    "BlockDeriver",
    "Clock",
    "EmbeddedText",
    "Embedder",
    "EntrySource",
    "EventBus",
    "EvictingIndex",
    "EvidenceIngestor",
    "EvidenceResolver",
    "Fetch",
    "Hasher",
    "IdGenerator",
    "IdlePage",
    "IdleSession",
    "Importer",
    "Index",
    "IndexBase",
    "Lease",
    "MendableIndex",
    "MessageEstimator",
    "OriginalVault",
    "ParallelEmbedder",
    "PartialIndex",
    "PiiDetector",
    "Redactor",
    "ReencodableIndex",
    "Renderer",
    "ResolveRef",
    "Retriever",
    "SegmentRows",
    "SegmentStore",
    "SessionLocks",
    "SharedIndex",
    "SharedIndexStore",
    "SharedIndexUpkeep",
    "SharedScope",
    "SnapshotIndex",
    "Store",
    "StoreUpkeep",
    "StoreUsage",
    "StoredSegments",
    "TextSelector",
    "TokenEstimator",
    "VectorStore",
    "Vectors",
    "combined_reads",
]

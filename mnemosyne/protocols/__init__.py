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
    EmbeddedText,
    Embedder,
    EntrySource,
    Index,
    IndexBase,
    LoadingEmbedder,
    OverlaidRetriever,
    ParallelEmbedder,
    Retriever,
    SegmentRows,
    SegmentStore,
    StoredSegments,
    Vectors,
    VectorStore,
    overlay_of,
)
from mnemosyne.protocols.rendering import BlockDeriver, EvidenceResolver, Fetch, Renderer, ResolveRef, TextSelector
from mnemosyne.protocols.store import Store, combined_reads
from mnemosyne.protocols.upkeep import (
    ArchivedSession,
    IdlePage,
    IdleSession,
    Lease,
    SessionLimit,
    SharedIndexStore,
    SharedScope,
    StoreUpkeep,
    StoreUsage,
)

__all__ = [
    "ArchivedSession",
    "BlockDeriver",
    "Clock",
    "EmbeddedText",
    "Embedder",
    "EntrySource",
    "EventBus",
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
    "LoadingEmbedder",
    "MessageEstimator",
    "OriginalVault",
    "OverlaidRetriever",
    "ParallelEmbedder",
    "PiiDetector",
    "Redactor",
    "Renderer",
    "ResolveRef",
    "Retriever",
    "SegmentRows",
    "SegmentStore",
    "SessionLimit",
    "SessionLocks",
    "SharedIndexStore",
    "SharedScope",
    "Store",
    "StoreUpkeep",
    "StoreUsage",
    "StoredSegments",
    "TextSelector",
    "TokenEstimator",
    "VectorStore",
    "Vectors",
    "combined_reads",
    "overlay_of",
]

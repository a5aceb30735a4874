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
    Embedder,
    EntrySource,
    EvictingIndex,
    Index,
    MendableIndex,
    ParallelEmbedder,
    ReencodableIndex,
    Retriever,
    SnapshotIndex,
    Vectors,
)
from mnemosyne.protocols.rendering import BlockDeriver, EvidenceResolver, Fetch, Renderer, ResolveRef, TextSelector
from mnemosyne.protocols.store import Store

__all__ = [
    "BatchIndex",
    "BlockDeriver",
    "Clock",
    "Embedder",
    "EntrySource",
    "EventBus",
    "EvictingIndex",
    "EvidenceIngestor",
    "EvidenceResolver",
    "Fetch",
    "Hasher",
    "IdGenerator",
    "Importer",
    "Index",
    "MendableIndex",
    "MessageEstimator",
    "OriginalVault",
    "ParallelEmbedder",
    "PiiDetector",
    "Redactor",
    "ReencodableIndex",
    "Renderer",
    "ResolveRef",
    "Retriever",
    "SessionLocks",
    "SnapshotIndex",
    "Store",
    "TextSelector",
    "TokenEstimator",
    "Vectors",
]

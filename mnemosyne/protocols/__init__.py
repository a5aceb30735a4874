"""Protocols of mnemosyne: the contracts between its parts and the parts that a host or a plugin supplies.

An implementation follows the numbered rules of its protocol. The contract test suites that we ship test each rule by
its number. Import the protocols from this package; its modules only group them.

Terms of the protocols:

- A session is one conversation. It is a tree of turns, and its branches are paths through the tree; the head of a
  branch is its newest committed turn.
- A turn is one user message with its reply. It is pending once its prompt is prepared, and committed once its reply
  is stored. A numerical turn changes the state without a model.
- A scope is one session or one world (`session:ID`, `world:ID`). Each scope has its own memory entries and its own
  index.
- A chain is one kind of entries in a scope: lore, narrative, event or history (messages).
- A sequence is the running number of a written entry. A watermark is the highest sequence that an index has seen.
- Evidence is a stored text with its source. A block is a piece of prompt text, and a ref is its pointer to a text.
- A lineage is the list of branch parts that lead to a head. The receipt of a turn states why each block is in its
  prompt.
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
    is_cold,
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
    "is_cold",
    "overlay_of",
]

"""Defines and reads the settings of turns and of the service. Settings are grouped in sections and have bounds. They
come from code, a file or the environment.
"""

from jacquard.config.sections import (
    ArmConfig,
    BudgetConfig,
    ChunkConfig,
    ConsolidationConfig,
    CurationConfig,
    EvidenceConfig,
    HistoryConfig,
    LayersConfig,
    LimitsConfig,
    LockConfig,
    MemoryConfig,
    ObservabilityConfig,
    PackageConfig,
    PlannerConfig,
    PruneConfig,
    RedactionConfig,
    RuntimeConfig,
    SelectorConfig,
    SnapshotConfig,
    SummaryConfig,
)

__all__ = [
    "ArmConfig",
    "BudgetConfig",
    "ChunkConfig",
    "ConsolidationConfig",
    "CurationConfig",
    "EvidenceConfig",
    "HistoryConfig",
    "LayersConfig",
    "LimitsConfig",
    "LockConfig",
    "MemoryConfig",
    "ObservabilityConfig",
    "PackageConfig",
    "PlannerConfig",
    "PruneConfig",
    "RedactionConfig",
    "RuntimeConfig",
    "SelectorConfig",
    "SnapshotConfig",
    "SummaryConfig",
]

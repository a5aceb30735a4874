from .adapters.models.litellm_adapter import LiteLlmModel
from .adapters.observe.bus import InMemoryEventBus
from .adapters.observe.otel import OtelTracing
from .adapters.observe.prometheus import PrometheusMetrics
from .adapters.observe.spans import NO_TRACING
from .authoring.linting.lint import LintReport, lint_templates
from .authoring.replay.provenance import count_tokens_by_block, find_origins
from .authoring.replay.replay import find_differences, replay_prompt
from .authoring.replay.turn_page import Check, FactRow, PageSection, PageTurn, Verdict, render_turn_page
from .authoring.replay.turn_view import LeftOut, ShownBlock, ShownMessage, TurnView, view_turn
from .config.experiments import apply_experiments
from .config.extension_points import EXTENSION_POINTS, PlannerFactory, PrunerFactory, SelectorFactory
from .config.sections import (
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
    ObservabilityConfig,
    PackageConfig,
    PlannerConfig,
    PruneConfig,
    RedactionConfig,
    RuntimeConfig,
    SelectorConfig,
    SnapshotConfig,
    SummaryConfig,
    WorldInfoConfig,
)
from .config.settings import config_from_environment, config_from_mapping, config_from_yaml, load_config
from .core.block_kinds import Layer
from .core.blocks import Placement, Position, PromptBlock, Sensitivity, Skein, SkeinTemplate, SlotRule, Stage
from .core.degradations import Degradation
from .core.errors import (
    AssemblerError,
    BudgetExceededError,
    ChunkConflictError,
    ConfigError,
    InputTooLargeError,
    JacquardError,
    LayoutError,
    MemoryNotFoundError,
    MissingChunksError,
    ModelError,
    SelectorError,
    SummarizerError,
    TemplateError,
    ToolPairError,
    WorldUnavailableError,
)
from .core.plan import PlanContext, SearchIntent, Temporal, Triage, plan_from_json, plan_to_json
from .core.protocols import (
    NO_RULES,
    ConversationTurn,
    GeneratesText,
    IndexFeeder,
    LlmAdapter,
    LlmRequest,
    LlmResponse,
    MessagePart,
    PairScorer,
    Planner,
    PlanRefiner,
    PlanRequest,
    PruneBudget,
    Pruner,
    PruneResult,
    PruneRules,
    QueryPrefetcher,
    Selection,
    SelectionContext,
    SelectionRequest,
    Selector,
    Shortener,
    Summarizer,
    SummaryRequest,
    SummaryText,
)
from .core.receipt import (
    Action,
    ActivationDecision,
    BlockDecision,
    BlockSpan,
    BudgetReport,
    CandidateDecision,
    CurationPath,
    PrefixReport,
    Report,
    StreamBReport,
)
from .memory.summarize.extract import ExtractSummarizer
from .memory.summarize.model import ModelSummarizer
from .memory.verbs.values import FoundMemory, Memory, MemoryAction, MemoryEdit
from .pipeline.curation.breaker import BreakerChange, BreakingSelector, CircuitBreaker
from .pipeline.curation.memory_blocks import MemoryLabels, render_memories
from .pipeline.curation.recall_query import build_recall_query, recent_lines
from .pipeline.curation.selectors.flash import FlashSelector
from .pipeline.curation.selectors.heuristic import HeuristicSelector
from .pipeline.curation.selectors.rerank import RerankSelector
from .pipeline.curation.stream import CurationStream
from .pipeline.planned_turn import PlannedTurn
from .pipeline.planning.model import ModelPlanner
from .pipeline.planning.rules import RulePlanner
from .pipeline.record.commit import CommitResult
from .pipeline.record.package import to_messages
from .pipeline.record.prepared_turn import AssembledInput, PreparedTurn, turn_from_record, turn_to_json
from .pipeline.record.prompt_snapshot import PromptSnapshot, read_snapshot
from .pipeline.skeleton.automation import AutomationStream
from .pipeline.weaving.assemble import AssembledPrompt, PromptMessage
from .pipeline.weaving.assembler import Assembler, RoleMessageAssembler
from .pipeline.weaving.layers import ContextCollector, ContextComposer
from .pipeline.weaving.pruners.degrade import DegradeToSummaryPruner
from .pipeline.weaving.pruners.greedy import GreedyPriorityPruner
from .pipeline.weaving.pruners.group_aware import GroupAwarePruner
from .pipeline.worlds import build_bare_world
from .templating import find_shipped_templates
from .templating.layouts import load_layout
from .turns.engine import ContextEngine
from .turns.parts import EngineParts, HostParts
from .wiring.factory import DefaultContextEngine, create_context_engine
from .wiring.gc_tuning import ProcessTuning
from .wiring.runtime import (
    Runtime,
    Workshop,
    open_embedder,
    open_reranker,
    open_runtime,
    open_selector,
    open_token_estimator,
    open_workshop,
)
from .wiring.verbs import MemoryVerbs

__all__ = [
    "EXTENSION_POINTS",
    "NO_RULES",
    "NO_TRACING",
    "Action",
    "ActivationDecision",
    "ArmConfig",
    "AssembledInput",
    "AssembledPrompt",
    "Assembler",
    "AssemblerError",
    "AutomationStream",
    "BlockDecision",
    "BlockSpan",
    "BreakerChange",
    "BreakingSelector",
    "BudgetConfig",
    "BudgetExceededError",
    "BudgetReport",
    "CandidateDecision",
    "Check",
    "ChunkConfig",
    "ChunkConflictError",
    "CircuitBreaker",
    "CommitResult",
    "ConfigError",
    "ConsolidationConfig",
    "ContextCollector",
    "ContextComposer",
    "ContextEngine",
    "ConversationTurn",
    "CurationConfig",
    "CurationPath",
    "CurationStream",
    "DefaultContextEngine",
    "Degradation",
    "DegradeToSummaryPruner",
    "EngineParts",
    "EvidenceConfig",
    "ExtractSummarizer",
    "FactRow",
    "FlashSelector",
    "FoundMemory",
    "GeneratesText",
    "GreedyPriorityPruner",
    "GroupAwarePruner",
    "HeuristicSelector",
    "HistoryConfig",
    "HostParts",
    "InMemoryEventBus",
    "IndexFeeder",
    "InputTooLargeError",
    "JacquardError",
    "Layer",
    "LayersConfig",
    "LayoutError",
    "LeftOut",
    "LimitsConfig",
    "LintReport",
    "LiteLlmModel",
    "LlmAdapter",
    "LlmRequest",
    "LlmResponse",
    "LockConfig",
    "Memory",
    "MemoryAction",
    "MemoryEdit",
    "MemoryLabels",
    "MemoryNotFoundError",
    "MemoryVerbs",
    "MessagePart",
    "MissingChunksError",
    "ModelError",
    "ModelPlanner",
    "ModelSummarizer",
    "ObservabilityConfig",
    "OtelTracing",
    "PackageConfig",
    "PageSection",
    "PageTurn",
    "PairScorer",
    "Placement",
    "PlanContext",
    "PlanRefiner",
    "PlanRequest",
    "PlannedTurn",
    "Planner",
    "PlannerConfig",
    "PlannerFactory",
    "Position",
    "PrefixReport",
    "PreparedTurn",
    "ProcessTuning",
    "PrometheusMetrics",
    "PromptBlock",
    "PromptMessage",
    "PromptSnapshot",
    "PruneBudget",
    "PruneConfig",
    "PruneResult",
    "PruneRules",
    "Pruner",
    "PrunerFactory",
    "QueryPrefetcher",
    "RedactionConfig",
    "Report",
    "RerankSelector",
    "RoleMessageAssembler",
    "RulePlanner",
    "Runtime",
    "RuntimeConfig",
    "SearchIntent",
    "Selection",
    "SelectionContext",
    "SelectionRequest",
    "Selector",
    "SelectorConfig",
    "SelectorError",
    "SelectorFactory",
    "Sensitivity",
    "Shortener",
    "ShownBlock",
    "ShownMessage",
    "Skein",
    "SkeinTemplate",
    "SlotRule",
    "SnapshotConfig",
    "Stage",
    "StreamBReport",
    "Summarizer",
    "SummarizerError",
    "SummaryConfig",
    "SummaryRequest",
    "SummaryText",
    "TemplateError",
    "Temporal",
    "ToolPairError",
    "Triage",
    "TurnView",
    "Verdict",
    "Workshop",
    "WorldInfoConfig",
    "WorldUnavailableError",
    "apply_experiments",
    "build_bare_world",
    "build_recall_query",
    "config_from_environment",
    "config_from_mapping",
    "config_from_yaml",
    "count_tokens_by_block",
    "create_context_engine",
    "find_differences",
    "find_origins",
    "find_shipped_templates",
    "lint_templates",
    "load_config",
    "load_layout",
    "open_embedder",
    "open_reranker",
    "open_runtime",
    "open_selector",
    "open_token_estimator",
    "open_workshop",
    "plan_from_json",
    "plan_to_json",
    "read_snapshot",
    "recent_lines",
    "render_memories",
    "render_turn_page",
    "replay_prompt",
    "to_messages",
    "turn_from_record",
    "turn_to_json",
    "view_turn",
]

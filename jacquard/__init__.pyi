from .adapters.observe.bus import InMemoryEventBus
from .authoring.replay.provenance import count_tokens_by_block, find_origins
from .authoring.replay.replay import find_differences, replay_prompt
from .authoring.why_not import why_not
from .config.experiments import apply_experiments
from .config.record_sections import SummarizeConfig
from .config.sections import (
    BudgetConfig,
    ConsolidationConfig,
    CurationConfig,
    EvidenceConfig,
    HistoryConfig,
    LimitsConfig,
    ObservabilityConfig,
    PruneConfig,
    RedactionConfig,
    RuntimeConfig,
    SelectorConfig,
    SummaryConfig,
)
from .config.settings import config_from_yaml, load_config
from .core.blocks import PlacedBlock
from .core.errors import (
    BudgetExceededError,
    ConfigError,
    InputTooLargeError,
    JacquardError,
    SummarizerError,
    WorldUnavailableError,
)
from .core.plan import PlanContext
from .core.protocols import (
    NO_RULES,
    LlmAdapter,
    LlmRequest,
    LlmResponse,
    MessagePart,
    Planner,
    PruneBudget,
    Pruner,
    PruneResult,
    PruneRules,
    Selection,
    SelectionContext,
    SelectionRequest,
    Selector,
    Summarizer,
    SummaryRequest,
    SummaryText,
)
from .core.receipt import BlockDecision, PruneDecision, Report
from .memory.verbs.values import Memory
from .pipeline.record.commit import CommitResult
from .pipeline.record.prepared_turn import AssembledInput, PreparedTurn, PrepareResult
from .pipeline.record.prompt_snapshot import read_snapshot
from .pipeline.weaving.assemble import Assembler
from .pipeline.weaving.layers import ContextCollector, ContextComposer
from .pipeline.weaving.pruners.greedy import GreedyPriorityPruner
from .turns.engine import ContextEngine
from .turns.host.values import ChatMessage
from .wiring.factory import DefaultContextEngine, create_context_engine
from .wiring.runtime import Runtime, open_runtime
from .wiring.verbs import MemoryVerbs

__all__ = [
    "NO_RULES",
    "AssembledInput",
    "Assembler",
    "BlockDecision",
    "BudgetConfig",
    "BudgetExceededError",
    "ChatMessage",
    "CommitResult",
    "ConfigError",
    "ConsolidationConfig",
    "ContextCollector",
    "ContextComposer",
    "ContextEngine",
    "CurationConfig",
    "DefaultContextEngine",
    "EvidenceConfig",
    "GreedyPriorityPruner",
    "HistoryConfig",
    "InMemoryEventBus",
    "InputTooLargeError",
    "JacquardError",
    "LimitsConfig",
    "LlmAdapter",
    "LlmRequest",
    "LlmResponse",
    "Memory",
    "MemoryVerbs",
    "MessagePart",
    "ModelError",
    "ObservabilityConfig",
    "PlacedBlock",
    "PlanContext",
    "Planner",
    "PrepareResult",
    "PreparedTurn",
    "PruneBudget",
    "PruneConfig",
    "PruneDecision",
    "PruneResult",
    "PruneRules",
    "Pruner",
    "RedactionConfig",
    "Report",
    "Runtime",
    "RuntimeConfig",
    "Selection",
    "SelectionContext",
    "SelectionRequest",
    "Selector",
    "SelectorConfig",
    "SelectorError",
    "SummarizeConfig",
    "Summarizer",
    "SummarizerError",
    "SummaryConfig",
    "SummaryRequest",
    "SummaryText",
    "WorldUnavailableError",
    "apply_experiments",
    "config_from_yaml",
    "count_tokens_by_block",
    "create_context_engine",
    "find_differences",
    "find_origins",
    "load_config",
    "open_runtime",
    "read_snapshot",
    "replay_prompt",
    "why_not",
]

# Internal. Each is imported from its module; the package passes them on, with a DeprecationWarning, until 0.2.
from .adapters.models.litellm_adapter import LiteLlmModel
from .adapters.observe.otel import OtelTracing
from .adapters.observe.prometheus import PrometheusMetrics
from .adapters.observe.spans import NO_TRACING
from .authoring.linting.lint import LintReport, lint_templates
from .authoring.replay.turn_page import Check, FactRow, PageSection, PageTurn, Verdict, render_turn_page
from .authoring.replay.turn_view import LeftOut, ShownBlock, ShownMessage, TurnView, view_turn
from .authoring.why_not import Absence
from .config.extension_points import EXTENSION_POINTS, PlannerFactory, PrunerFactory, SelectorFactory
from .config.sections import (
    ArmConfig,
    ChunkConfig,
    LayersConfig,
    LockConfig,
    MemoryConfig,
    PackageConfig,
    PlannerConfig,
    SnapshotConfig,
    WorldInfoConfig,
)
from .config.settings import config_from_environment, config_from_mapping
from .core.block_kinds import BlockKind, Layer
from .core.blocks import (
    Block,
    BlockOrigin,
    BlockPlace,
    Placement,
    Position,
    Sensitivity,
    Skein,
    SkeinTemplate,
    SlotRule,
    Stage,
)
from .core.degradations import Degradation, DegradationCode
from .core.errors import (
    AssemblerError,
    ChunkConflictError,
    LayoutError,
    MemoryNotFoundError,
    MissingChunksError,
    ModelError,
    QuotaExceededError,
    SelectorError,
    TemplateError,
    ToolPairError,
    TurnRateError,
)
from .core.plan import OverviewScope, SearchIntent, Temporal, Triage, plan_from_json, plan_to_json
from .core.protocols import (
    ConversationTurn,
    GeneratesText,
    IndexFeeder,
    PairScorer,
    PlanRefiner,
    PlanRequest,
    QueryPrefetcher,
    Shortener,
)
from .core.receipt import (
    Action,
    ActivationDecision,
    BlockSpan,
    BudgetReport,
    CandidateDecision,
    CurationPath,
    PrefixReport,
    SentPrompt,
    SentText,
    StreamBReport,
)
from .memory.consolidate.consolidator import ConsolidationResult
from .memory.summarize.extract import ExtractSummarizer
from .memory.summarize.model import ModelSummarizer
from .memory.verbs.values import FoundMemory, MemoryAction, MemoryEdit
from .pipeline.curation.breaker import BreakerChange, BreakingSelector, CircuitBreaker
from .pipeline.curation.memory_blocks import MemoryLabels, render_memories
from .pipeline.curation.recall_query import build_recall_query, recent_lines
from .pipeline.curation.selectors.flash import FlashSelector
from .pipeline.curation.selectors.heuristic import HeuristicSelector
from .pipeline.curation.selectors.rerank import RerankSelector
from .pipeline.curation.stream import CurationStream
from .pipeline.planning.model import ModelPlanner
from .pipeline.planning.rules import RulePlanner
from .pipeline.record.package import to_messages
from .pipeline.record.prepared_turn import turn_from_record, turn_to_json
from .pipeline.record.prompt_snapshot import PromptSnapshot
from .pipeline.skeleton.automation import AutomationStream
from .pipeline.turn import ShownHistory, Turn
from .pipeline.weaving.assemble import AssembledPrompt, PromptMessage, RoleMessageAssembler
from .pipeline.weaving.pruners.degrade import DegradeToSummaryPruner
from .pipeline.weaving.pruners.group_aware import GroupAwarePruner
from .pipeline.worlds import build_bare_world
from .templating import find_shipped_templates
from .templating.layouts import load_layout
from .turns.parts import EngineParts, HostParts
from .turns.writing.repair import RepairResult
from .wiring.process_tuning import ProcessTuning
from .wiring.runtime import Workshop, open_embedder, open_reranker, open_selector, open_token_estimator, open_workshop

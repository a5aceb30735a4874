"""All settings of a turn (seed 002 section 15). Every field has a default and bounds; a value outside of them is a
ConfigError.

Settings that change a prompt are part of a turn's fingerprint; those that only report on it (`observability`, `tags`)
are not. Files and the environment are read in `jacquard.config.settings`; `jacquard.config.reference` publishes every
field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from jacquard.config.fields import plain_field
from jacquard.config.prompt_sections import (
    BudgetConfig,
    CurationConfig,
    HistoryConfig,
    LayersConfig,
    PackageConfig,
    PlannerConfig,
    PruneConfig,
    SelectorConfig,
)
from jacquard.config.record_sections import (
    ArmConfig,
    ChunkConfig,
    ConsolidationConfig,
    EvidenceConfig,
    LimitsConfig,
    LockConfig,
    ObservabilityConfig,
    RedactionConfig,
    SummaryConfig,
)
from mnemosyne.core.addresses import mask_address
from mnemosyne.schema.memory import EMPTY

__all__ = [
    "API_BASE",
    "API_KEY",
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
    "ObservabilityConfig",
    "PackageConfig",
    "PlannerConfig",
    "PruneConfig",
    "RedactionConfig",
    "RuntimeConfig",
    "SelectorConfig",
    "SummaryConfig",
    "drop_config_secrets",
    "drop_secrets",
]

API_KEY, API_BASE = "api_key", "api_base"
"""The settings of a model that are secret or may contain a secret."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RuntimeConfig:
    """Everything that a caller may set for a turn. A session is in one arm of each experiment (`jacquard.config.experiments`)."""

    layout: str = plain_field(
        "classic", doc="Name of the layout of the prompt: `classic`, `cache_first`, `layers`, or one of the world pack."
    )
    template_id: str | None = plain_field(
        None, doc="Name of the template of every turn; none means that the plan chooses."
    )
    viewer: str | None = plain_field(
        None, doc="Id of the character who reads the reply; memories that it may not know are left out (B7)."
    )
    model_hint: str | None = plain_field(
        None,
        doc="Name of the main model; only its reported usage corrects the token estimate (none: that of any model).",
    )
    provider_hint: str | None = plain_field(
        None, doc="Name of the main model's provider; it is recorded with the settings of a turn."
    )
    token_estimator: str = plain_field(
        "estimate",
        doc="What counts tokens: `estimate` (by rules, without a tokenizer), `tiktoken:NAME` (exact, by an encoding or a model of "
        "OpenAI; without a name, of `model_hint`), `tokenizer:FILE` (exact, by a `tokenizer.json`), or the name of a plugin.",
    )
    tags: Mapping[str, str] = plain_field(
        default_factory=lambda: EMPTY, doc="Labels of every event and span; they do not change the prompt."
    )
    instructions: Mapping[str, str] = plain_field(
        default_factory=lambda: EMPTY,
        doc="Instructions of the host by name; they follow those of the world and are never dropped (seed 002 section 6.4).",
    )
    budget: BudgetConfig = field(default=BudgetConfig())
    prune: PruneConfig = field(default=PruneConfig())
    history: HistoryConfig = field(default=HistoryConfig())
    curation: CurationConfig = field(default=CurationConfig())
    selector: SelectorConfig = field(default=SelectorConfig())
    planner: PlannerConfig = field(default=PlannerConfig())
    summary: SummaryConfig = field(default=SummaryConfig())
    consolidation: ConsolidationConfig = field(default=ConsolidationConfig())
    redaction: RedactionConfig = field(default=RedactionConfig())
    evidence: EvidenceConfig = field(default=EvidenceConfig())
    observability: ObservabilityConfig = field(default=ObservabilityConfig())
    chunks: ChunkConfig = field(default=ChunkConfig())
    limits: LimitsConfig = field(default=LimitsConfig())
    locks: LockConfig = field(default=LockConfig())
    package: PackageConfig = field(default=PackageConfig())
    layers: LayersConfig = field(default=LayersConfig())
    experiments: Mapping[str, Mapping[str, ArmConfig]] = plain_field(
        default_factory=dict, doc="A/B experiments: for each experiment's name, its arms by name."
    )


def drop_config_secrets(config: RuntimeConfig) -> RuntimeConfig:
    """Return a configuration that may be stored and compared: without the keys of its models and without secrets in
    addresses.
    """
    bare: dict[str, Any] = {
        each.name: replace(section, api_key=None, api_base=section.api_base and mask_address(section.api_base))
        for each in fields(config)
        if hasattr(section := getattr(config, each.name), "api_key")
    }
    bare["experiments"] = {
        name: {arm: replace(settings, config=drop_secrets(settings.config)) for arm, settings in arms.items()}
        for name, arms in config.experiments.items()
    }
    return replace(config, **bare)


def drop_secrets(plain: Any) -> Any:
    """Return settings as plain values (nested as sections are) without keys of models and without secrets in addresses."""
    if isinstance(plain, Mapping):
        kept = {name: drop_secrets(value) for name, value in plain.items() if name != API_KEY}
        address = kept.get(API_BASE)
        return {**kept, API_BASE: mask_address(address)} if isinstance(address, str) else kept
    return [drop_secrets(value) for value in plain] if isinstance(plain, list | tuple) else plain

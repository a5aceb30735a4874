"""Defines RuntimeConfig, which contains all settings of a turn, and hides the credentials in settings.

Every field has a default and bounds. A value outside of its bounds raises ConfigError. Settings that change a prompt are
part of the turn's fingerprint (the hash that recognises a repeated request). Settings that only report on a turn
(`observability`, `tags`) or name places (`snapshots`) are not.

`jacquard.config.settings` reads files and the environment; `jacquard.config.reference` publishes every field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields, is_dataclass, replace
from functools import cache
from typing import Any, TypeVar, get_type_hints

from jacquard.config.fields import ANY, Credential, check, choice_field, credential_field, plain_field
from jacquard.config.prompt_sections import (
    BudgetConfig,
    CurationConfig,
    HistoryConfig,
    LayersConfig,
    PackageConfig,
    PlannerConfig,
    PruneConfig,
    SelectorConfig,
    WorldInfoConfig,
)
from jacquard.config.record_sections import (
    ArmConfig,
    ChunkConfig,
    ConsolidationConfig,
    EvidenceConfig,
    LimitsConfig,
    LockConfig,
    MemoryConfig,
    ObservabilityConfig,
    RedactionConfig,
    SnapshotConfig,
    SummaryConfig,
)
from mnemosyne.core.masking.addresses import mask_address
from mnemosyne.schema.memory import EMPTY
from mnemosyne.schema.world import RECALL, SILLYTAVERN
from mnemosyne.values import dataclass

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
    "WorldInfoConfig",
    "credential_names",
    "drop_config_secrets",
    "drop_secrets",
    "list_credentials",
]

AUTO = "auto"
S = TypeVar("S")


@dataclass(frozen=True, kw_only=True, slots=True)
class RuntimeConfig:
    """All settings that a caller may set for a turn. A session is in one arm of each experiment
    (`jacquard.config.experiments`).
    """

    profile: str = plain_field(
        "auto",
        doc="Kind of agent: `story`, `assistant`, `coding`, `support`, or one of the world pack; `auto` is "
        "what the pack names, `story` for a pack that names none, and `assistant` without a pack. A session remembers the profile "
        "that it was started with; a turn with `auto` has that one.",
        call=ANY,
    )
    locale: str = plain_field(
        "",
        doc="Language of our own words in a session without a world pack, such as `zh` or `en`, if its document names none "
        "(`meta.locale`); empty: English.",
        call=ANY,
    )
    layout: str = plain_field(
        "auto",
        doc="Name of the layout of the prompt: `classic`, `cache_first`, `cache_append`, `layers`, or one of the world pack; "
        "`auto` is that of the profile.",
        call=ANY,
    )
    activation: str = choice_field(
        AUTO,
        AUTO,
        RECALL,
        SILLYTAVERN,
        doc="Rules by which world info reaches a prompt: `recall` by relevance, like all lore; `sillytavern` by keys, as in "
        "SillyTavern (`world_info`); `auto` is the pack's choice.",
        call=ANY,
    )
    template_id: str | None = plain_field(
        None, doc="Name of the template of every turn; none means that the plan chooses.", call=ANY
    )
    viewer: str | None = plain_field(
        None, doc="Id of the character who reads the reply; memories that it may not know are left out.", call=ANY
    )
    model_hint: str | None = plain_field(
        None,
        doc="Name of the main model; only its reported usage corrects the token estimate (none: that of any model).",
        call=ANY,
    )
    provider_hint: str | None = plain_field(
        None, doc="Name of the main model's provider; it is recorded with the settings of a turn.", call=ANY
    )
    token_estimator: str = credential_field(
        "estimate",
        Credential.ARGUMENT,
        doc="Token counter: `estimate` (by rules, without a tokenizer), `tiktoken:NAME` (exact, by an encoding or a model of "
        "OpenAI; without a name, of `model_hint`), `tokenizer:NAME` (exact, by a model of Qwen or DeepSeek, or a file "
        "`tokenizer.json`; without a name, of `model_hint`), or the name of a plugin.",
    )
    tags: Mapping[str, str] = plain_field(
        default_factory=lambda: EMPTY, doc="Labels of every event and span; they do not change the prompt.", call=ANY
    )
    instructions: Mapping[str, str] = plain_field(
        default_factory=lambda: EMPTY,
        doc="Instructions of the host by name; they follow those of the world and are never dropped.",
        call=ANY,
    )
    untagged_updates: bool = plain_field(
        True,
        doc="Whether changes of the state that a model writes at the end of its reply without their tag (a list of ops that begins "
        "a line or follows a sentence, or a code fence with one) are carried out, unless the prompt contains one of them. They are "
        "never shown to the player, and the next prompt reports them to the model.",
    )
    budget: BudgetConfig = field(default=BudgetConfig())
    prune: PruneConfig = field(default=PruneConfig())
    history: HistoryConfig = field(default=HistoryConfig())
    curation: CurationConfig = field(default=CurationConfig())
    selector: SelectorConfig = field(default=SelectorConfig())
    planner: PlannerConfig = field(default=PlannerConfig())
    summary: SummaryConfig = field(default=SummaryConfig())
    consolidation: ConsolidationConfig = field(default=ConsolidationConfig())
    memory: MemoryConfig = field(default=MemoryConfig())
    redaction: RedactionConfig = field(default=RedactionConfig())
    evidence: EvidenceConfig = field(default=EvidenceConfig())
    observability: ObservabilityConfig = field(default=ObservabilityConfig())
    chunks: ChunkConfig = field(default=ChunkConfig())
    limits: LimitsConfig = field(default=LimitsConfig())
    locks: LockConfig = field(default=LockConfig())
    snapshots: SnapshotConfig = field(default=SnapshotConfig())
    package: PackageConfig = field(default=PackageConfig())
    layers: LayersConfig = field(default=LayersConfig())
    world_info: WorldInfoConfig = field(default=WorldInfoConfig())
    experiments: Mapping[str, Mapping[str, ArmConfig]] = plain_field(
        default_factory=dict, doc="A/B experiments: for each experiment's name, its arms by name."
    )

    def __post_init__(self) -> None:
        check(self)


def drop_config_secrets(config: RuntimeConfig) -> RuntimeConfig:
    """Return `config` without the keys of its models and without secrets in addresses.

    The result may be stored and compared.
    """
    experiments = {
        name: {arm: replace(settings, config=drop_secrets(settings.config)) for arm, settings in arms.items()}
        for name, arms in config.experiments.items()
    }
    bare = _drop_section_secrets(config)
    return replace(bare, experiments=experiments) if experiments else bare


def _drop_section_secrets(section: S) -> S:
    """Return a section, or the whole configuration, with the credentials of its fields hidden; unchanged if it has none."""
    changed: dict[str, Any] = {}
    for each in fields(section):  # type: ignore[arg-type]
        value = bare = getattr(section, each.name)
        if is_dataclass(value):
            bare = _drop_section_secrets(value)
        elif isinstance(value, str) and (holds := each.metadata.get("credential")):
            bare = _hide_credential(holds, value)
        if bare is not value and bare != value:
            changed[each.name] = bare
    # A section is checked whenever it is made, and this runs in every turn.
    return replace(section, **changed) if changed else section  # type: ignore[type-var]


def _hide_credential(holds: Credential, value: str) -> str | None:
    if holds is Credential.KEY:
        return None
    return mask_address(value) if holds is Credential.ADDRESS or "://" in value else value


def list_credentials(kind: type = RuntimeConfig, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Credential]:
    """Return the settings of `kind` that can contain a credential: from the path of a setting to the form of its credential."""
    found: dict[tuple[str, ...], Credential] = {}
    hints = get_type_hints(kind)
    for each in fields(kind):
        if (holds := each.metadata.get("credential")) is not None:
            found[(*path, each.name)] = holds
        elif is_dataclass(hints[each.name]):
            found |= list_credentials(hints[each.name], (*path, each.name))
    return found


@cache
def _credentials_by_name() -> dict[str, Credential]:
    return {path[-1]: holds for path, holds in list_credentials().items()}


def credential_names() -> frozenset[str]:
    """Return the names of settings whose text is a credential, or an address that may contain one."""
    return frozenset(name for name, holds in _credentials_by_name().items() if holds is not Credential.ARGUMENT)


def drop_secrets(plain: Any) -> Any:
    """Return plain values of settings without keys of models and without secrets in addresses.

    `plain` is nested like the sections.
    """
    if isinstance(plain, Mapping):
        held = _credentials_by_name()
        kept = {name: value for name, value in plain.items() if held.get(name) is not Credential.KEY}
        return {
            name: _hide_credential(held[name], value)
            if name in held and isinstance(value, str)
            else drop_secrets(value)
            for name, value in kept.items()
        }
    return [drop_secrets(value) for value in plain] if isinstance(plain, list | tuple) else plain

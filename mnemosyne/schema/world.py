"""Values of a world pack, after it has been checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mnemosyne.schema.memory import EMPTY, Condition, MemoryEntry

BARE_DIGEST = "bare"
"""The digest of a world without a pack: a session that was started without a pack continues without one."""

RECALL, SILLYTAVERN = "recall", "sillytavern"
ACTIVATIONS = (RECALL, SILLYTAVERN)
"""Rules by which entries from world info reach a prompt: recall by relevance, or the rules of SillyTavern."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entity:
    """A thing that the planner recognises in the input by its name or an alias."""

    entity_id: str
    name: str
    aliases: tuple[str, ...] = ()
    kind: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ActionNumber:
    """A number in the input of an action: the named group of its patterns, with its bounds."""

    name: str
    least: int = 1
    most: int = 999_999_999
    default: int | None = None
    """Value if the input has none (None: the least)."""
    message: str = ""
    """Answer outside of the bounds (empty: a sentence with the bounds)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NumericalAction:
    """An action that changes only numbers."""

    action_id: str
    patterns: tuple[str, ...]
    """Regular expressions that must match the whole input (after trimming, without end punctuation); `reply` may use
    their named groups.
    """
    ops: tuple[tuple[Any, ...], ...]
    """Ops in the flat-path spelling."""
    reply: str
    """Sandboxed template over the state after the ops."""
    guards: tuple[Condition, ...] = ()
    """Conditions on the state; the message of the first one that fails is the answer."""
    numbers: tuple[ActionNumber, ...] = ()
    """Groups that are numbers; values of ops and guards in braces are then calculated."""


INTENTS = ("fight", "recall", "overview")
"""Intents that the planner recognises without words of the author: a fight, a question about the past, a request for
many facts at once.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class TemplateRule:
    """Choose `template_id` if all given conditions hold."""

    template_id: str
    keywords: tuple[str, ...] = ()
    """One of them is in the input; an input with one of the `intents` passes too."""
    when: tuple[Condition, ...] = ()
    """Every condition holds on the state."""
    intents: tuple[str, ...] = ()
    """See INTENTS."""
    temporal_context: tuple[str, ...] = ()
    """The input's time is one of these: past, now, future."""
    description: str = ""
    """Purpose of the template, for a model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannerRules:
    """The author's planning rules. They are tried in order; the first that fits is used, else `default_template`."""

    default_template: str = "chat"
    templates: tuple[TemplateRule, ...] = ()
    past_words: tuple[str, ...] = ()
    future_words: tuple[str, ...] = ()
    domain_weights: Mapping[str, Mapping[str, float]] = field(default_factory=lambda: EMPTY)
    focus_locked: bool = False
    confidence_threshold: float = 0.6


@dataclass(frozen=True, kw_only=True, slots=True)
class Injection:
    """A text that is added to the prompt by a schedule, right before the input.

    With neither `every` nor `on` it is due in every turn. All conditions `when` must hold as well.
    """

    injection_id: str
    text: str
    title: str = ""
    every: int | None = None
    """Due in every such turn of the path, counted from 1."""
    on: tuple[str, ...] = ()
    """Due when the turn before caused one of these events (`quest_completed`, `quest_completed:q_temple`)."""
    when: tuple[Condition, ...] = ()
    cooldown: int = 0
    """Turns for which it is not shown again."""
    once: bool = False
    """Whether it is never shown again."""
    priority: int = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class PrologueEvent:
    """An event of a prologue turn."""

    event_id: str
    type: str
    summary: str
    participants: tuple[str, ...] = ()
    location: str | None = None
    quest_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PrologueTurn:
    """A turn that was played before the session starts; it becomes a committed turn of every new session."""

    user: str
    assistant: str
    summary: str | None = None
    events: tuple[PrologueEvent, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PrologueNarrative:
    """A macro narrative over prologue turns `from_turn`..`to_turn` (1-based, inclusive)."""

    narrative_id: str
    title: str
    text: str
    from_turn: int
    to_turn: int


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldPack:
    """A whole world, checked."""

    world_id: str
    title: str
    locale: str
    instruction: str
    persona: Mapping[str, Any]
    state: Mapping[str, Any]
    """The tree at the start of play (after the prologue): VWD pairs as `[value, description]`, quests under `quests`,
    `$meta` if declared.
    """
    entities: tuple[Entity, ...]
    lore: tuple[MemoryEntry, ...]
    actions: tuple[NumericalAction, ...]
    planner: PlannerRules
    prologue: tuple[PrologueTurn, ...]
    narratives: tuple[PrologueNarrative, ...]
    digest: str
    """Changes when any file of the pack does."""
    template_root: str | None = None
    """Folder of templates that were not read; a pack from a store has none."""
    user_name: str = ""
    injections: tuple[Injection, ...] = ()
    templates: Mapping[str, str] | None = None
    """The pack's own templates, manifests and layouts by their names below `templates/` (`combat/guidance.j2`), with
    line feeds as line ends; None: they were not read and are in the folder `template_root`.
    """
    story_time: tuple[str, ...] = ()
    """Paths of the state that have the time of the story."""
    profile: str = ""
    """Kind of agent that its prompts are for (empty: a game or a story)."""
    activation: str = RECALL
    """Rules by which entries from world info reach a prompt (ACTIVATIONS)."""
    disabled: tuple[MemoryEntry, ...] = ()
    """Lore that is switched off."""
    imported: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    """Data that the pack was imported from, for exports."""

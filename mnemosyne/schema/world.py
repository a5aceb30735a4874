"""Values of a world pack: what an author writes, after it has been checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mnemosyne.schema.memory import EMPTY, Condition, MemoryEntry

BARE_DIGEST = "bare"
"""The digest of a world without a pack: a session that was started without a pack continues without one."""

RECALL, SILLYTAVERN = "recall", "sillytavern"
ACTIVATIONS = (RECALL, SILLYTAVERN)
"""By whose rules entries that came from world info reach a prompt: recall by relevance, or the rules of SillyTavern."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entity:
    """A thing that the planner recognises in the input by its name or an alias."""

    entity_id: str
    name: str
    aliases: tuple[str, ...] = ()
    kind: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ActionNumber:
    """A number in the input of an action: the named group of its patterns, with the values that it may have.

    `default` is its value where the input has none (None: the least). `message` is the answer outside of the bounds;
    empty: a sentence with the bounds.
    """

    name: str
    least: int = 1
    most: int = 999_999_999
    default: int | None = None
    message: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class NumericalAction:
    """An action that changes numbers only.

    `patterns` are regular expressions that must match the whole input (after trimming, without end punctuation); named
    groups may be used by `reply`. `guards` must hold on the state; the message of the first that fails is the answer.
    `ops` are in the flat-path spelling. `reply` is a sandboxed template over the state after the ops.
    `numbers` are the groups that are numbers; values of ops and guards in braces are then calculated.
    """

    action_id: str
    patterns: tuple[str, ...]
    ops: tuple[tuple[Any, ...], ...]
    reply: str
    guards: tuple[Condition, ...] = ()
    numbers: tuple[ActionNumber, ...] = ()


INTENTS = ("fight", "recall", "overview")
"""What the planner recognises in an input without words of the author: somebody fights, something of the past is asked for or
called to mind, many facts at once are asked for.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class TemplateRule:
    """Choose `template_id` if all that is given holds: a keyword is in the input or it has one of the `intents` (INTENTS), its time
    is one of `temporal_context` (past, now, future), and every condition holds. `description` tells a model what the template is
    for.
    """

    template_id: str
    keywords: tuple[str, ...] = ()
    when: tuple[Condition, ...] = ()
    intents: tuple[str, ...] = ()
    temporal_context: tuple[str, ...] = ()
    description: str = ""


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

    It is due in every `every`th turn of the path (counted from 1), or when the turn before caused one of the events
    `on` (`quest_completed`, `quest_completed:q_temple`); with neither, in every turn. All conditions `when` must hold
    as well. After it was shown it is not shown for `cooldown` turns, or never again (`once`).
    """

    injection_id: str
    text: str
    title: str = ""
    every: int | None = None
    on: tuple[str, ...] = ()
    when: tuple[Condition, ...] = ()
    cooldown: int = 0
    once: bool = False
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
    """A whole world, checked.

    `state` is the tree at the start of play (after the prologue): VWD pairs as `[value, description]`, quests under
    `quests`, `$meta` where declared. `digest` changes when any file of the pack does. `templates` holds the texts of
    the pack's own templates, manifests and layouts by their names below `templates/` (`combat/guidance.j2`), with line
    feeds as line ends; None: they were not read and are in the folder `template_root`. A pack from a store has no
    folder. `story_time` are paths of the state that tell the time of the story. `profile` is the kind of agent that its
    prompts are for (empty: a game or a story). `activation` says by whose rules entries that came from world info reach a prompt
    (ACTIVATIONS). `disabled` is lore that is switched off. `imported` is what the pack was imported from, for exports.
    """

    world_id: str
    title: str
    locale: str
    instruction: str
    persona: Mapping[str, Any]
    state: Mapping[str, Any]
    entities: tuple[Entity, ...]
    lore: tuple[MemoryEntry, ...]
    actions: tuple[NumericalAction, ...]
    planner: PlannerRules
    prologue: tuple[PrologueTurn, ...]
    narratives: tuple[PrologueNarrative, ...]
    digest: str
    template_root: str | None = None
    user_name: str = ""
    injections: tuple[Injection, ...] = ()
    templates: Mapping[str, str] | None = None
    story_time: tuple[str, ...] = ()
    profile: str = ""
    activation: str = RECALL
    disabled: tuple[MemoryEntry, ...] = ()
    imported: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

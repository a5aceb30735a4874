"""Defines the values of a checked world pack: everything that an author writes about a world, such as state, lore and actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from mnemosyne.schema.memory import EMPTY, Condition, MemoryEntry
from mnemosyne.values import dataclass

BARE_DIGEST = "bare"
"""Digest of a world without a pack. A session that was started without a pack continues without a pack."""

RECALL, SILLYTAVERN = "recall", "sillytavern"
ACTIVATIONS = (RECALL, SILLYTAVERN)
"""Ways in which lore entries from a world info file get into a prompt: recall by relevance, or the rules of SillyTavern."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entity:
    """A thing or person that the planner recognises in the input by its name or an alias."""

    entity_id: str
    name: str
    aliases: tuple[str, ...] = ()
    kind: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ActionNumber:
    """A number in the input of an action. `name` is the named group for it in the action's patterns.

    Numbers below `least` or above `most` are refused.
    """

    name: str
    least: int = 1
    most: int = 999_999_999
    default: int | None = None
    """Value if the input has no number (None: `least`)."""
    message: str = ""
    """Reply to the user if the number is refused (empty: a sentence that states the bounds)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NumericalAction:
    """An action that only changes values of the state, such as buying an item. It needs no model."""

    action_id: str
    patterns: tuple[str, ...]
    """Regular expressions. The action runs if one of them matches the whole input, without outer spaces and end punctuation.
    `reply` may use their named groups.
    """
    ops: tuple[tuple[Any, ...], ...]
    """Changes of the state, with flat paths (`hero.health`)."""
    reply: str
    """Template of the reply. It can use the state after the ops, and runs in a sandbox."""
    guards: tuple[Condition, ...] = ()
    """Conditions on the state. If one of them is false, nothing is changed, and its message is the reply."""
    numbers: tuple[ActionNumber, ...] = ()
    """Named groups that are numbers. If there are any, values in braces in ops and guards are calculated from them."""


INTENTS = ("fight", "recall", "overview")
"""Intents of an input that the planner recognises by itself, without keywords from the author.

They are a fight, a question about the past, and a request for many facts at once.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class TemplateRule:
    """Rule that chooses the prompt template `template_id` if all given conditions are true."""

    template_id: str
    keywords: tuple[str, ...] = ()
    """The input must contain one of these words, or have one of the `intents`."""
    when: tuple[Condition, ...] = ()
    """All these conditions on the state must be true."""
    intents: tuple[str, ...] = ()
    """The input must have one of these INTENTS, or contain one of the `keywords`."""
    temporal_context: tuple[str, ...] = ()
    """The input must be about one of these times: past, now, future."""
    description: str = ""
    """Purpose of the template, for a model that chooses one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannerRules:
    """The author's rules for planning a turn.

    The rules in `templates` are tried in order, and the first one whose conditions are true is used. If there is none,
    `default_template` is used.
    """

    default_template: str = "chat"
    templates: tuple[TemplateRule, ...] = ()
    past_words: tuple[str, ...] = ()
    future_words: tuple[str, ...] = ()
    domain_weights: Mapping[str, Mapping[str, float]] = field(default_factory=lambda: EMPTY)
    focus_locked: bool = False
    confidence_threshold: float = 0.6


@dataclass(frozen=True, kw_only=True, slots=True)
class Injection:
    """A text that is added to the prompt in some turns, right before the input.

    `every` and `on` state the turns. If both are missing, these are all turns. The conditions in `when` must be true too.
    """

    injection_id: str
    text: str
    title: str = ""
    every: int | None = None
    """The text is shown in each turn whose number, counted from 1, is a multiple of this."""
    on: tuple[str, ...] = ()
    """The text is shown after a turn that caused one of these events (`quest_completed`, `quest_completed:q_temple`)."""
    when: tuple[Condition, ...] = ()
    cooldown: int = 0
    """Number of turns after a showing in which the text is not shown."""
    once: bool = False
    """Whether the text is shown only once."""
    priority: int = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class PrologueEvent:
    """An event that happens in a prologue turn."""

    event_id: str
    type: str
    summary: str
    participants: tuple[str, ...] = ()
    location: str | None = None
    quest_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PrologueTurn:
    """A turn of the story before play begins. It becomes a committed turn of every new session."""

    user: str
    assistant: str
    summary: str | None = None
    events: tuple[PrologueEvent, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PrologueNarrative:
    """A narrative that covers the prologue turns `from_turn` to `to_turn` (counted from 1, both included)."""

    narrative_id: str
    title: str
    text: str
    from_turn: int
    to_turn: int


@dataclass(frozen=True, kw_only=True, slots=True)
class WorldPack:
    """A whole world pack after all checks."""

    world_id: str
    title: str
    locale: str
    instruction: str
    persona: Mapping[str, Any]
    state: Mapping[str, Any]
    """The state tree at the start of play, after the prologue. A value with a description is a pair `[value, description]`. Quests
    are under `quests`. Declarations of the author, if there are any, are under `$meta`.
    """
    entities: tuple[Entity, ...]
    lore: tuple[MemoryEntry, ...]
    actions: tuple[NumericalAction, ...]
    planner: PlannerRules
    prologue: tuple[PrologueTurn, ...]
    narratives: tuple[PrologueNarrative, ...]
    digest: str
    """Digest that changes whenever a file of the pack changes."""
    template_root: str | None = None
    """Folder of the templates, if they were not read. A pack from a store has no such folder."""
    user_name: str = ""
    injections: tuple[Injection, ...] = ()
    templates: Mapping[str, str] | None = None
    """Texts of the pack's own templates, manifests and layouts, by their names below `templates/` (`combat/guidance.j2`). Lines end
    with line feeds. None: the files were not read and are in the folder `template_root`.
    """
    story_time: tuple[str, ...] = ()
    """Paths in the state at which the time of the story is."""
    profile: str = ""
    """Kind of agent for which the prompts are made (empty: a game or a story)."""
    activation: str = RECALL
    """Way in which entries from world info get into a prompt: one of ACTIVATIONS."""
    disabled: tuple[MemoryEntry, ...] = ()
    """Lore entries that are switched off."""
    imported: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    """Data of the file from which the pack was imported, for exports."""

"""Defines the immutable value `Turn`, which contains everything from which both streams of a turn make the prompt.

Stream A renders the skeleton (state, quests, history); Stream B recalls and selects memories.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from jacquard.config.sections import RuntimeConfig
from jacquard.core.plan import PlanContext, SearchIntent, Triage
from jacquard.core.receipt import LeftOut
from jacquard.templating.profiles import STORY, Profile
from mnemosyne.chains.story_facts import Ending, Validity
from mnemosyne.schema.evidence import ContextBlock, Evidence
from mnemosyne.schema.memory import EMPTY, Chain, Condition, MemoryEntry, UserFact
from mnemosyne.schema.record import SessionWindow
from mnemosyne.schema.session import Message, WindowMessage
from mnemosyne.schema.world import WorldPack
from mnemosyne.values import dataclass
from mnemosyne.world.activation.values import Activation, WorldInfoEntry

NO_ACTIVATION = Activation()
NO_PLAN = PlanContext(
    triage=Triage.NARRATIVE,
    active_quest_id=None,
    current_goal="",
    template_id="",
    search_intent=SearchIntent(enabled=False),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownHistory:
    """Conversation that a prompt shows."""

    messages: tuple[WindowMessage, ...] = ()
    """Messages of the history window (the newest part of the conversation), oldest first, already trimmed."""
    pinned: tuple[WindowMessage, ...] = ()
    """Older system messages, which every prompt shows before the history."""
    left_out: tuple[LeftOut, ...] = ()
    """Turns that neither the history nor the summary contains."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnLore:
    """Lore (the author's texts about the world) of one turn: entries that are hidden or withheld, and entries of world info.

    World info is lore that keywords bring into a prompt.
    """

    hidden: frozenset[str] = frozenset()
    """Ids of the entries that the turn's viewer must not see."""
    withheld: frozenset[str] = frozenset()
    """Ids of the entries that only the rules of world info may place. These entries are not recalled, and do not count
    as axioms (lore that every prompt shows) or directives (instructions of the author).
    """
    activation: Activation = NO_ACTIVATION
    entries: Mapping[tuple[str, str], MemoryEntry] = field(default_factory=dict)
    """(name of the book, uid in the book) -> lore entry."""
    unreadable: tuple[tuple[MemoryEntry, str], ...] = ()
    """(entry, fault) for each entry whose world info cannot be read; these entries are treated like other lore."""

    @property
    def gone(self) -> frozenset[str]:
        """Ids of the hidden and the withheld entries together."""
        return self.hidden | self.withheld

    def entry_of(self, found: WorldInfoEntry) -> MemoryEntry:
        """Return the lore entry from which the world info entry `found` was read."""
        return self.entries[found.world, found.uid]

    @property
    def active(self) -> tuple[MemoryEntry, ...]:
        """Activated lore entries, in the order of activation."""
        return tuple(self.entry_of(each.entry) for each in self.activation.active)


NO_LORE = TurnLore()


@dataclass(frozen=True, kw_only=True, slots=True)
class ActionOutcome:
    """Result of a numerical action: a declared action that changes numbers and answers a turn without a model."""

    reply: str
    """The reply for the player."""
    state: Mapping[str, Any]
    """The state after the action; unchanged if the action was refused."""
    patch: tuple[Mapping[str, Any], ...] = ()
    """The changes of the action as JSON Patch."""
    refused: Condition | None = None
    """Guard (condition of the action) that was false, so that the action was refused (None: no guard was false)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionFacts:
    """Other stored data of the session at the beginning of the turn."""

    user_id: str = ""
    """The user of the turn ('' for none)."""
    user_facts: tuple[UserFact, ...] = ()
    """Facts about the user, former ones too."""
    last_report: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    """Report that was stored when the model's last reply was committed: verdicts on its ops, events and more."""
    evidences: tuple[tuple[Evidence, ...], ...] | None = None
    """Evidence (stored texts with their sources) that may be shown: one group for each filter of `candidate_filters` (None: it
    is read from the store when it is needed).
    """
    blocks: tuple[ContextBlock, ...] | None = None
    """Context blocks of the session's document (None: they are read from the store when they are needed)."""
    gated: tuple[MemoryEntry, ...] = ()
    """Memory entries that only some viewers may know, or only under conditions."""
    written: Mapping[tuple[str, Chain], int] | None = None
    """(scope, chain) -> number of memory entries written there (`TurnInputs`). A scope is one session or one world."""
    kept_entries: Mapping[str, Mapping[str, MemoryEntry]] = field(default_factory=lambda: EMPTY)
    """Scope -> id -> memory entry, for entries that recall need not read from the store (`TurnInputs`)."""
    endings: Mapping[str, Ending] = field(default_factory=lambda: EMPTY)
    """Id of a memory -> its end on the path of the turn, for memories that a turn ended."""
    state_values: tuple[tuple[MemoryEntry, Validity], ...] = ()
    """Former and present values of the state as memories, if the input asks about the past."""
    tasks: Mapping[str, Any] | None = None
    """To-do list of a recorded prompt, for a replay (None: the tasks of the window are shown)."""


NO_FACTS = SessionFacts()


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """Everything that the prompt of one turn depends on, except templates, layout and memories."""

    message: Message
    """The user's input."""
    window: SessionWindow
    world: WorldPack
    config: RuntimeConfig
    plan: PlanContext = NO_PLAN
    turn_id: str = ""
    fingerprint: str = ""
    """Hash of everything that a stored answer depends on (`request_fingerprint`)."""
    profile: Profile = STORY
    """Kind of agent that the prompt is for."""
    history: ShownHistory | None = None
    """Conversation that the prompt shows (None: not known yet)."""
    lore: TurnLore = NO_LORE
    action: ActionOutcome | None = None
    """Outcome of the numerical action that answers the turn (None: a model answers)."""
    facts: SessionFacts = NO_FACTS

    @property
    def text(self) -> str:
        """Text of the user's input."""
        return self.message.content

    @property
    def shown(self) -> tuple[WindowMessage, ...]:
        """Messages of the history, oldest first; none if the history is not known yet."""
        return () if self.history is None else self.history.messages

    @property
    def pinned(self) -> tuple[WindowMessage, ...]:
        """Older system messages, which every prompt shows before the history."""
        return () if self.history is None else self.history.pinned

    @property
    def session_id(self) -> str:
        """Id of the session."""
        return self.window.head.session_id

    @property
    def boundary(self) -> str:
        """Mark around texts that the markup shows exactly as written. If it is '', texts are escaped instead."""
        return self.profile.boundary_of(self.session_id)

"""One turn during its preparation: everything that its prompt is made of. Both streams start from it, and it never changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jacquard.config.sections import RuntimeConfig
from jacquard.core.plan import PlanContext, SearchIntent, Triage
from jacquard.core.receipt import LeftOut
from jacquard.templating.profiles import STORY, Profile
from mnemosyne.schema.evidence import ContextBlock, Evidence
from mnemosyne.schema.memory import EMPTY, Chain, Condition, MemoryEntry, UserFact
from mnemosyne.schema.record import SessionWindow
from mnemosyne.schema.session import Message, WindowMessage
from mnemosyne.schema.world import WorldPack
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
    """The history window, oldest first, already trimmed."""
    pinned: tuple[WindowMessage, ...] = ()
    """Older system messages, which every prompt shows before the history."""
    left_out: tuple[LeftOut, ...] = ()
    """Turns that neither the history nor the summary contains."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnLore:
    """Lore of a turn: the entries withheld from its prompt, and those activated by the rules of world info."""

    hidden: frozenset[str] = frozenset()
    """Ids of the entries that the turn's viewer may not see."""
    withheld: frozenset[str] = frozenset()
    """Ids of the entries that only world info may place: they are neither recalled nor axioms or directives."""
    activation: Activation = NO_ACTIVATION
    entries: Mapping[tuple[str, str], MemoryEntry] = field(default_factory=dict)
    """Lore entries by the name of their book and their uid there."""
    unreadable: tuple[tuple[MemoryEntry, str], ...] = ()
    """Entries whose world info cannot be read, each with the fault; they are treated like other lore."""

    @property
    def gone(self) -> frozenset[str]:
        """Ids of the entries that are not placed in the prompt as lore."""
        return self.hidden | self.withheld

    def entry_of(self, found: WorldInfoEntry) -> MemoryEntry:
        """Return the lore entry from which an entry of world info was read."""
        return self.entries[found.world, found.uid]

    @property
    def active(self) -> tuple[MemoryEntry, ...]:
        """Activated lore entries, in the order of activation."""
        return tuple(self.entry_of(each.entry) for each in self.activation.active)


NO_LORE = TurnLore()


@dataclass(frozen=True, kw_only=True, slots=True)
class ActionOutcome:
    """Result of a numerical action, which answers a turn without a model."""

    reply: str
    """The reply for the player."""
    state: Mapping[str, Any]
    """The state after the action; unchanged if it was refused."""
    patch: tuple[Mapping[str, Any], ...] = ()
    """The ops of the action as JSON Patch."""
    refused: Condition | None = None
    """The guard that failed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionFacts:
    """Other stored data of the session at the beginning of the turn."""

    user_id: str = ""
    """The user of the turn ('' for none)."""
    user_facts: tuple[UserFact, ...] = ()
    """Facts about the user, former ones too."""
    last_report: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    """Record of the commit of the model's last reply."""
    evidences: tuple[tuple[Evidence, ...], ...] | None = None
    """Evidence that may be shown, one group for each of `candidate_filters` (None: read from the store)."""
    blocks: tuple[ContextBlock, ...] | None = None
    """Context blocks of the session (None: read from the store)."""
    gated: tuple[MemoryEntry, ...] = ()
    """Entries that have viewers or conditions."""
    written: Mapping[tuple[str, Chain], int] | None = None
    """Number of written memory entries by scope and chain (`TurnInputs`)."""
    tasks: Mapping[str, Any] | None = None
    """To-do list of a recorded prompt (None: the tasks of the window are shown)."""


NO_FACTS = SessionFacts()


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """One turn: everything that its prompt depends on, except templates, layout and memory."""

    message: Message
    """The user's input."""
    window: SessionWindow
    world: WorldPack
    config: RuntimeConfig
    plan: PlanContext = NO_PLAN
    turn_id: str = ""
    fingerprint: str = ""
    """Digest of everything that a stored answer depends on."""
    profile: Profile = STORY
    """Kind of agent that the prompt is for."""
    history: ShownHistory | None = None
    """Conversation to show (None: the window's, trimmed by the configuration)."""
    lore: TurnLore = NO_LORE
    action: ActionOutcome | None = None
    """Numerical action that was applied to the state of the window (None: a model answers)."""
    facts: SessionFacts = NO_FACTS

    @property
    def text(self) -> str:
        """Words of the user's input."""
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
        """Session of the turn."""
        return self.window.head.session_id

    @property
    def boundary(self) -> str:
        """Boundary around texts that are shown in markup exactly as written; '': they are escaped."""
        return self.profile.boundary_of(self.session_id)

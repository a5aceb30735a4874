"""The value that both streams start from: one turn, loaded and planned. Nothing in it changes while the turn is prepared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from jacquard.config.sections import RuntimeConfig
from jacquard.core.plan import PlanContext
from jacquard.core.receipt import LeftOut
from jacquard.templating.profiles import STORY, Profile
from mnemosyne.schema.evidence import ContextBlock, Evidence
from mnemosyne.schema.memory import EMPTY, Chain, MemoryEntry, UserFact
from mnemosyne.schema.record import SessionWindow
from mnemosyne.schema.session import Message, WindowMessage
from mnemosyne.schema.world import WorldPack
from mnemosyne.world.activation.values import Activation, WorldInfoEntry


@dataclass(frozen=True, kw_only=True, slots=True)
class ActivatedLore:
    """The lore that the rules of world info set off in a turn.

    `entries` are the entries of lore by the name of their book and their uid there. `withheld` are the ids of entries that stand
    in the prompt only where these rules put them: they are neither recalled nor axioms or directives. `unreadable` are entries
    whose fields cannot be read, each with what is wrong; they are lore as any other.
    """

    activation: Activation
    entries: Mapping[tuple[str, str], MemoryEntry] = field(default_factory=dict)
    withheld: frozenset[str] = frozenset()
    unreadable: tuple[tuple[MemoryEntry, str], ...] = ()

    def entry_of(self, found: WorldInfoEntry) -> MemoryEntry:
        """Return the entry of lore that an entry of world info was read from."""
        return self.entries[found.world, found.uid]

    @property
    def active(self) -> tuple[MemoryEntry, ...]:
        """The entries of lore that were set off, in the order of activation."""
        return tuple(self.entry_of(each.entry) for each in self.activation.active)


NO_LORE = ActivatedLore(activation=Activation())


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedTurn:
    """A turn that has been planned: everything that its prompt depends on, but for templates, layout and memory.

    `history` are the messages to show, oldest first, trimmed already (None: those of the window, trimmed by the
    configuration). `pinned` are older system messages, which every prompt shows before the history. `at` is when the user
    spoke (None: now). `hidden` are ids of entries that the turn's viewer may not see. `todo` is what is shown of the to-do
    list (None: what the window's tasks say). `left_out` says which turns neither `history` nor the summary holds. `reply` is
    the answer of a numerical action that has been applied to the window's state, and `ops` are its JSON Patch ops; None and
    none where a model answers. `last_report` is what
    the commit of the model's last reply recorded. `profile` is the kind of agent that the prompt is for. `message` is the user's
    message with its author and parts (None: `user_message` is all of it). `user_id` is the user of the turn ('' for none), `facts`
    what is remembered about them, former facts too. `lore` is what the rules of world info set off (nothing where entries are
    recalled).

    `evidences` are the session's evidence that may be shown (`jacquard.pipeline.evidence.candidates.candidate_filters`), `blocks`
    its context blocks, as they were when the turn began (None: the store is asked when they are needed). `written` says how far
    memory was written then (`TurnInputs`).
    """

    plan: PlanContext
    window: SessionWindow
    world: WorldPack
    user_message: str
    config: RuntimeConfig
    turn_id: str = ""
    at: datetime | None = None
    history: tuple[WindowMessage, ...] | None = None
    pinned: tuple[WindowMessage, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    hidden: frozenset[str] = frozenset()
    todo: Mapping[str, Any] | None = None
    reply: str | None = None
    ops: tuple[Mapping[str, Any], ...] = ()
    last_report: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    profile: Profile = STORY
    message: Message | None = None
    user_id: str = ""
    facts: tuple[UserFact, ...] = ()
    lore: ActivatedLore = NO_LORE
    evidences: tuple[tuple[Evidence, ...], ...] | None = None
    blocks: tuple[ContextBlock, ...] | None = None
    written: Mapping[tuple[str, Chain], int] | None = None

    @property
    def session_id(self) -> str:
        """The session that the turn belongs to."""
        return self.window.head.session_id

    @property
    def boundary(self) -> str:
        """The boundary between which texts stand in markup as they were written; empty: they are escaped."""
        return self.profile.boundary_of(self.session_id)

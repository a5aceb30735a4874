"""Collects the inputs of a turn's prompt for authors: of a recorded turn, a new input, or a pack.

The store is only read. A recorded turn gets the same state, messages, plan and memories as before. Therefore, if its
prompt differs, the templates are the reason. This module must not import an index or a model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime

from jacquard.authoring.replay.replay import select_untemplated_blocks
from jacquard.config.sections import HistoryConfig, RuntimeConfig
from jacquard.core.blocks import Block
from jacquard.core.errors import JacquardError
from jacquard.core.plan import PlanContext
from jacquard.core.protocols import Planner, Selection
from jacquard.core.receipt import BY_SELECTOR, Report
from jacquard.pipeline.planning.activation import find_withheld, read_world_info, uses_world_info
from jacquard.pipeline.record.prepared_turn import turn_from_record
from jacquard.pipeline.record.prompt_snapshot import read_snapshot
from jacquard.pipeline.record.stored_turn import plan_of, report_of
from jacquard.pipeline.turn import SessionFacts, Turn, TurnLore
from jacquard.pipeline.worlds import WorldSource
from jacquard.templating.profiles import AUTO, STORY_ID
from mnemosyne.chains.audience import may_read, read_audience
from mnemosyne.chains.event import closed_quests
from mnemosyne.chains.lore import gated_entries, hidden_entries, may_know
from mnemosyne.chains.state import view_state
from mnemosyne.protocols import Store
from mnemosyne.schema.document import Summary
from mnemosyne.schema.memory import MemoryEntry, session_scope, world_scope
from mnemosyne.schema.record import PathSummary, SessionWindow, TurnRecord
from mnemosyne.schema.session import Message, Role, WindowMessage
from mnemosyne.schema.world import WorldPack
from mnemosyne.values import dataclass

MESSAGES = 200
"""Number of messages before a turn that are read."""

NOTHING_CHOSEN = Selection(entry_ids=())
USUAL = RuntimeConfig()
NO_TIME = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthorTurn:
    """All inputs of one turn's prompt except the templates and the layout."""

    label: str
    """Name of the turn for people."""
    request: Turn
    entries: tuple[MemoryEntry, ...] = ()
    """Memories that Stream B chose, in the order of choice."""
    selection: Selection = NOTHING_CHOSEN
    fixed: tuple[Block, ...] | None = None
    """Blocks of a recorded turn that no template made: memories, results of tools, instructions of the host.

    None: the turn was not recorded, or these blocks are made again.
    """
    model: str = "heuristic"
    layout: str = AUTO
    profile: str = ""
    """Profile (kind of agent) of a recorded turn ('': the turn was not recorded)."""
    limit_tokens: int = 7168
    config: RuntimeConfig = USUAL
    """Settings that decide which blocks are dropped if the prompt is too long."""
    at: datetime = NO_TIME
    """Time at which these decisions are made."""
    carried: Mapping[str, Block] = field(default_factory=dict)
    """Blocks that were shortened or masked, by id."""
    recorded: str = ""
    """Text of the recorded prompt ('': the turn was not recorded)."""

    @property
    def template_id(self) -> str:
        """Template of the turn: from its configuration, else from its plan."""
        return self.request.config.template_id or self.request.plan.template_id


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnReader:
    """Reads turns from a store for one reader.

    `worlds` returns the packs and does not change them. Texts that the character `viewer` must not know are left out. If
    `viewer` is None, texts that only certain viewers may know are left out.
    """

    store: Store
    worlds: WorldSource
    planner: Planner
    viewer: str | None = None

    async def turn(self, session_id: str, turn_id: str | None) -> AuthorTurn:
        """Return the turn `turn_id` of a session (None: the newest turn).

        Raises JacquardError if there is no turn, or if it has no user message.
        """
        head = await self.store.head(session_id)
        if turn_id is None:
            window = await self.store.window(session_id, message_limit=1)
            newest = window.pending or window.previous
            if newest is None:
                raise JacquardError(f"Session {session_id!r} has no turn yet; give an --input, or weave one first.")
            turn_id = newest.turn_id
        record = await self.store.turn(session_id, turn_id)
        said = [message.content for message in record.messages if message.role is Role.USER]
        if not said:
            raise JacquardError(f"Turn {turn_id!r} has no message of the user; choose another one.")
        before = await self.store.turns(
            session_id, limit=MESSAGES // 2, branch_id=record.branch_id, before_depth=record.depth
        )
        state = await self.store.state_at(session_id, record.parent_id)
        world = await self.worlds.world(head.world_id, write=False)
        window = SessionWindow(
            head=replace(head, branch_id=record.branch_id, turn_id=record.parent_id, depth=record.depth - 1),
            messages=_messages(before),
            state=state,
        )
        return await self._load_recorded_turn(record, window, world, said[0])

    async def turns(self, session_id: str, limit: int) -> tuple[AuthorTurn, ...]:
        """Return the turns with a user message among the newest `limit` turns of a session, oldest first."""
        found: list[AuthorTurn] = []
        for record in await self.store.turns(session_id, limit=limit):
            if any(message.role is Role.USER for message in record.messages):
                found.append(await self.turn(session_id, record.turn_id))
        return tuple(found)

    async def build_new_turn(self, session_id: str, user_message: str) -> AuthorTurn:
        """Return the turn that `user_message` would have as the next input of a session, without memories. Nothing is
        written.
        """
        window = await self.store.window(session_id, message_limit=MESSAGES)
        world = await self.worlds.world(window.head.world_id, write=False)
        message = Message(role=Role.USER, content=user_message)
        plan = self.planner.plan(user_message, window, world)
        hidden = await self._find_hidden_entries(window, world, self.viewer)
        window = replace(window, messages=_known_messages(window.messages, self.viewer))
        request = Turn(
            plan=plan, window=window, world=world, message=message, config=RuntimeConfig(), lore=TurnLore(hidden=hidden)
        )
        return AuthorTurn(label=f"{session_id}: {user_message}", request=request)

    async def _load_recorded_turn(
        self, record: TurnRecord, window: SessionWindow, world: WorldPack, user_message: str
    ) -> AuthorTurn:
        message = Message(role=Role.USER, content=user_message)
        snapshot = read_snapshot(record)
        config = USUAL if snapshot is None else snapshot.runtime
        viewer = self.viewer or config.viewer
        hidden = await self._find_hidden_entries(window, world, viewer)
        window = replace(window, messages=_known_messages(window.messages, viewer))
        label = f"{record.session_id} {record.turn_id}"
        # Imported turns have no record of a prompt; they are planned as if they were prepared now.
        if record.prompt is None or record.plan is None or record.receipt is None:
            plan = self.planner.plan(user_message, window, world)
            request = Turn(
                plan=plan,
                window=window,
                world=world,
                message=message,
                config=RuntimeConfig(),
                lore=TurnLore(hidden=hidden),
            )
            return AuthorTurn(label=label, request=request)
        report = report_of(record)
        plan = plan_of(record)
        if uses_world_info(world, config):
            # They are among the blocks that no template makes.
            hidden |= find_withheld(read_world_info(world), {each.entry_id for each in report.activation})
        # Blocks rendered for another viewer are rendered again, from texts that this one may know.
        is_other = self.viewer is not None and self.viewer != config.viewer
        shown = _restore_shown_window(window, record)
        request = Turn(
            plan=plan,
            window=replace(shown, summary=None) if is_other else shown,
            world=world,
            message=message,
            config=_show_whole_history(plan),
            lore=TurnLore(hidden=hidden),
            facts=SessionFacts(tasks=None if snapshot is None else snapshot.source.variables.get("tasks")),
        )
        stream = report.stream_b
        entries = await self._entries(report, window, world)
        if is_other:
            view = view_state(window.state)
            entries = tuple(each for each in entries if may_know(each, self.viewer, view))
        chose = stream.model if stream.path in BY_SELECTOR else None
        return AuthorTurn(
            label=label,
            request=request,
            entries=entries,
            selection=Selection(entry_ids=stream.selected, rationale="" if is_other else stream.rationale),
            fixed=None if snapshot is None or is_other else select_untemplated_blocks(snapshot.blocks),
            model=chose or "heuristic",
            layout=report.layout,
            profile=report.profile or STORY_ID,
            limit_tokens=report.budget.limit_tokens if snapshot is None else snapshot.limit_tokens,
            config=config,
            at=NO_TIME if snapshot is None else snapshot.at,
            carried={} if snapshot is None or is_other else {block.block_id: block for block in snapshot.carried},
            recorded="" if is_other else turn_from_record(record, 0).text,
        )

    async def _find_hidden_entries(self, window: SessionWindow, world: WorldPack, viewer: str | None) -> frozenset[str]:
        scopes = (world_scope(world.world_id), session_scope(window.head.session_id))
        restricted = (*await self.store.gated_entries(scopes), *gated_entries(world.lore))
        return hidden_entries(restricted, viewer, window.state, window.head)

    async def _entries(self, report: Report, window: SessionWindow, world: WorldPack) -> tuple[MemoryEntry, ...]:
        wanted = list(report.stream_b.selected)
        found = {entry.entry_id: entry for entry in closed_quests(window.state, window.head.session_id)}
        for scope in (world_scope(world.world_id), session_scope(window.head.session_id)):
            found |= {entry.entry_id: entry for entry in await self.store.entries(scope, wanted)}
        return tuple(found[entry_id] for entry_id in wanted if entry_id in found)


def build_pack_turn(
    world: WorldPack, messages: Sequence[WindowMessage], window: SessionWindow, user_message: str, planner: Planner
) -> AuthorTurn:
    """Return the first turn after the prologue of a pack, for a reader without special knowledge.

    `messages` are the messages before this turn, and `window` contains the state.
    """
    opened = replace(window, messages=tuple(messages))
    plan = planner.plan(user_message, opened, world)
    hidden = hidden_entries(gated_entries(world.lore), None, window.state)
    message = Message(role=Role.USER, content=user_message)
    request = Turn(
        plan=plan, window=opened, world=world, message=message, config=RuntimeConfig(), lore=TurnLore(hidden=hidden)
    )
    return AuthorTurn(label=user_message, request=request)


def _messages(before: Sequence[TurnRecord]) -> tuple[WindowMessage, ...]:
    return tuple(
        WindowMessage(message=message, turn_id=record.turn_id, branch_id=record.branch_id, depth=record.depth)
        for record in before
        for message in record.messages
    )


def _restore_shown_window(window: SessionWindow, record: TurnRecord) -> SessionWindow:
    """Return the window with the conversation and the summary of the recorded prompt."""
    start = (record.prompt or {}).get("history_start")
    ids = [each.message.message_id for each in window.messages]
    shown = window.messages[ids.index(start) :] if start in ids else ()
    summary_text = turn_from_record(record, 0).package.working_summary if record.prompt else ""
    head = window.head
    summary = (
        PathSummary(
            turn_id=head.turn_id or "",
            branch_id=head.branch_id,
            depth=head.depth,
            summary=Summary(content=summary_text),
        )
        if summary_text
        else None
    )
    previous = replace(record, prompt={"history_start": start})
    return replace(window, messages=shown, summary=summary, previous=previous)


def _show_whole_history(plan: PlanContext) -> RuntimeConfig:
    """Return a configuration whose history limits trim nothing, because the record names the shown messages."""
    history = HistoryConfig(max_messages=10 * MESSAGES, max_tokens=10_000_000, low_water=1.0)
    return RuntimeConfig(template_id=plan.template_id, history=history)


def _known_messages(messages: Sequence[WindowMessage], viewer: str | None) -> tuple[WindowMessage, ...]:
    return tuple(each for each in messages if may_read(read_audience(each.message.extra), viewer))

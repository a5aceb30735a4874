"""ContextEngine: where the parts are joined (seed 002 section 6.7; spec 2). Only the engine writes to the store.

The road of one turn: window, plan, Stream A beside Stream B, one prompt inside one budget, one transaction. Nothing is
written before the whole turn stands, so a turn that fails leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup

from jacquard.commit import CommitResult, commit_of
from jacquard.config import RuntimeConfig
from jacquard.draft import Draft, EngineParts, TurnDrafter
from jacquard.errors import ConfigError
from jacquard.experiments import enrolled
from jacquard.plan import Triage
from jacquard.planners.actions import apply_action, match_action
from jacquard.race import CurationRace
from jacquard.stopwatch import Stopwatch
from jacquard.turn import PreparedTurn, fingerprint_of, record_of, turn_from_record, turn_id_of
from jacquard.worlds import bare_world
from mnemosyne.chains.start import session_start
from mnemosyne.errors import TurnNotFoundError, VersionConflictError
from mnemosyne.schema.record import SessionWindow, TurnRecord
from mnemosyne.schema.session import Message, Ref, Role, SessionHead, TurnStatus
from mnemosyne.schema.world import WorldPack

_SPARE_MESSAGES = 16
"""Loaded beyond the window's limit, so that its old start is still seen when it overflows."""


class ContextEngine:
    """Prepares and commits turns. Use it as an async context manager: late work of Stream B lives as long as it does.

    Calls on one session are serial; different sessions never wait for each other.
    """

    def __init__(self, parts: EngineParts, config: RuntimeConfig | None = None) -> None:
        self._parts = parts
        self._config = config or RuntimeConfig()
        self._locks: dict[str, anyio.Lock] = {}
        self._tasks: TaskGroup
        self._race: CurationRace
        self._drafter: TurnDrafter | None = None

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._race = CurationRace(self._tasks)
        self._drafter = TurnDrafter(self._parts, self._race)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel late work; an error of the caller's passes through as it is, not wrapped in a group."""
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(None, None, None)

    async def settle(self, seconds: float) -> bool:
        """Wait at most `seconds` for late work of Stream B; True when none is left."""
        self._open()
        with anyio.move_on_after(seconds):
            await self._race.idle()
            return True
        return False

    async def start_session(self, session_id: str, world: WorldPack) -> SessionHead:
        """Create a session from a world, its lore brought up to date; SessionExistsError."""
        await self._parts.store.replace_world(world.world_id, world.digest, world.lore)
        return await self._parts.store.create_session(session_start(session_id, world, self._parts.clock.now()))

    async def prepare_turn(
        self,
        session_id: str,
        user_message: Message | str,
        config: RuntimeConfig | None = None,
        *,
        turn_id: str | None = None,
        branch_id: str | None = None,
    ) -> PreparedTurn:
        """Return the prompt of one turn with its receipt.

        The same turn id (or the same input after the same turn) with the same configuration is answered from its record.
        Raises SessionNotFoundError, BudgetExceededError, TemplateError, LayoutError, StoreError; then nothing was written.
        """
        message = _user_message(user_message)
        asked = enrolled(config or self._config, session_id)
        async with self._lock(session_id):
            try:
                return await self._prepare(session_id, message, asked, turn_id, branch_id)
            except VersionConflictError:
                return await self._prepare(session_id, message, asked, turn_id, branch_id)

    async def assemble(
        self, session_id: str, turn_id: str, tail: Sequence[Mapping[str, Any]] = ()
    ) -> list[dict[str, Any]]:
        """Return the prompt of a prepared turn again, followed by the host's own tool calls and results, untouched."""
        record = await self._parts.store.turn(session_id, turn_id)
        prepared = turn_from_record(record, 0)
        return [*({"role": m.role, "content": m.content} for m in prepared.messages), *(dict(item) for item in tail)]

    async def commit_assistant_message(
        self,
        session_id: str,
        assistant_message: Message | str,
        *,
        turn_id: str | None = None,
        refs: Sequence[Ref] = (),
    ) -> CommitResult:
        """Commit the model's reply to the pending turn (or `turn_id`): its text, and its ops all or none.

        Raises TurnNotFoundError when nothing is pending, TurnNotPendingError when another input took its place.
        """
        reply = assistant_message
        if isinstance(reply, str):
            reply = Message(role=Role.ASSISTANT, content=reply)
        async with self._lock(session_id):
            try:
                return await self._commit(session_id, reply, turn_id, tuple(refs))
            except VersionConflictError:
                return await self._commit(session_id, reply, turn_id, tuple(refs))

    def _lock(self, session_id: str) -> anyio.Lock:
        return self._locks.setdefault(session_id, anyio.Lock())

    def _open(self) -> TurnDrafter:
        if self._drafter is None:
            raise ConfigError("Open the engine first: `async with ContextEngine(...) as engine`.")
        return self._drafter

    def _world(self, window: SessionWindow) -> WorldPack:
        return self._parts.worlds.get(window.head.world_id) or bare_world(window.head.world_id)

    async def _prepare(
        self, session_id: str, message: Message, config: RuntimeConfig, turn_id: str | None, branch_id: str | None
    ) -> PreparedTurn:
        watch = Stopwatch()
        limit = config.history.max_messages + _SPARE_MESSAGES
        window = await self._parts.store.window(session_id, message_limit=limit, branch_id=branch_id)
        watch.lap("window")
        world = self._world(window)
        head = window.head
        name = turn_id or turn_id_of(session_id, head.turn_id, head.depth + 1, message.content)
        fingerprint = fingerprint_of(message.content, config, world.digest)
        if (stored := await self._stored(session_id, name, window, fingerprint, given=turn_id is not None)) is not None:
            return turn_from_record(stored, head.version)
        plan = self._parts.planner.plan(message.content, window, world)
        if config.template_id is not None:
            plan = replace(plan, template_id=config.template_id)
        watch.lap("plan")
        draft = Draft(turn_id=name, message=message, config=config, window=window, world=world, plan=plan)
        if plan.triage is Triage.NUMERICAL:
            return await self._numerical(draft, fingerprint, watch)
        turn, anchors = await self._open().draft(draft, watch)
        record = record_of(turn, window, message, fingerprint, anchors)
        saved = await self._parts.store.save_prepared(record, expected_version=head.version)
        return replace(turn, version=saved.version)

    async def _stored(
        self, session_id: str, turn_id: str, window: SessionWindow, fingerprint: str, *, given: bool
    ) -> TurnRecord | None:
        """Return the record that answers this request already, if there is one."""
        record = window.pending
        if record is None or record.turn_id != turn_id:
            if not given:
                return None
            try:
                record = await self._parts.store.turn(session_id, turn_id)
            except TurnNotFoundError:
                return None
            if record.status is TurnStatus.COMMITTED and record.prompt is not None:
                return record
            if record.status is TurnStatus.ABANDONED:
                return None
        return record if record.fingerprint == fingerprint and record.prompt is not None else None

    async def _numerical(self, draft: Draft, fingerprint: str, watch: Stopwatch) -> PreparedTurn:
        """Apply a declared action and answer; the skeleton is built for hosts that want it, Stream B never starts."""
        found = match_action(draft.message.content, draft.world)
        if found is None:
            raise ConfigError(f"The plan names action {draft.plan.action_id!r}, but no action of the world matches.")
        outcome = apply_action(*found, draft.window.state)
        watch.lap("action")
        changed = replace(draft, window=replace(draft.window, state=outcome.state), reply=outcome.reply)
        turn, anchors = await self._open().draft(changed, watch)
        record = replace(record_of(turn, draft.window, draft.message, fingerprint, anchors), ops=tuple(outcome.patch))
        version = draft.window.head.version
        saved = await self._parts.store.commit_numerical(record, outcome.state, expected_version=version)
        return replace(turn, version=saved.version)

    async def _commit(
        self, session_id: str, reply: Message, turn_id: str | None, refs: tuple[Ref, ...]
    ) -> CommitResult:
        store = self._parts.store
        if turn_id is None:
            window = await store.window(session_id, message_limit=1)
            if window.pending is None:
                raise TurnNotFoundError(session_id, "(pending)")
            record = window.pending
        else:
            record = await store.turn(session_id, turn_id)
            window = await store.window(session_id, message_limit=1, branch_id=record.branch_id)
        world = self._world(window)
        agent = str(world.persona.get("name") or "assistant")
        commit, result = commit_of(record, window.state, reply, agent=agent, at=self._parts.clock.now(), refs=refs)
        head = await store.commit_turn(session_id, commit, expected_version=window.head.version)
        return replace(result, version=head.version)


def _user_message(message: Message | str) -> Message:
    made = Message(role=Role.USER, content=message) if isinstance(message, str) else message
    if not made.content.strip():
        raise ConfigError("The user message is empty; give the words that the turn should answer.")
    return made

"""Plays a script as a host would: prepares turns, answers them with the script's replies, does what happens between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from anyio import to_thread

from evals.play.engine import SESSION, OpenedEngine, limit_prompts, open_engine
from evals.play.script.reading import MAIN_BRANCH, edit_branch
from evals.play.script.values import Edit, Failure, Fork, GivenEvidence, HostEvent, Play, ScriptTurn, Switch, ToolResult
from evals.play.session import Item, ItemKind, Path, Step
from jacquard import CommitResult, JacquardError, PreparedTurn, RuntimeConfig
from jacquard.pipeline.worlds import build_bare_world
from mnemosyne import (
    Author,
    AuthorKind,
    Evidence,
    EvidenceSource,
    EvidenceType,
    Message,
    MnemosyneError,
    Role,
    SourceKind,
    ToolCall,
    load_world,
)

_CUT_CHARS = 40
_OWN = "mnemosyne://"

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class PlayedTurn:
    """One prompt of a play, with the truth before it."""

    turn: ScriptTurn
    place: int
    before: Path
    """The path when the prompt was made."""
    prepared: PreparedTurn | None = None
    """None if the engine gave none."""
    error: str = ""
    """Reason why the engine gave none."""
    result: CommitResult | None = None
    """Result of the committed reply."""
    fault: str = ""
    """Sentence if engine and script do not go together."""


async def play_script(
    play: Play,
    *,
    embedder: str = "auto",
    config: RuntimeConfig | None = None,
    progress: Progress = lambda what, done, total: None,
) -> tuple[PlayedTurn, ...]:
    """Play a whole script and return its prompts in the order of play.

    Raises WorldPackError for a pack with faults, EmbedderUnavailableError where the model cannot be loaded.
    """
    world = build_bare_world("bare") if play.world is None else await to_thread.run_sync(load_world, play.world)
    settings = limit_prompts(config, play.budget)
    if play.world is None and not settings.locale:
        settings = replace(settings, locale=play.locale)
    played = []
    async with open_engine(world, locale=play.locale, embedder=embedder, config=settings) as opened:
        host = Host(play, opened)
        for turn in play.turns:
            for event in play.events:
                if event.before == turn.number and (extra := await host.act(event)) is not None:
                    played.append(extra)
            played.append(await host.play_turn(turn))
            progress(play.name, turn.number, len(play.turns))
    return tuple(played)


class Host:
    """Plays the turns and events of one script on one session."""

    def __init__(self, script: Play, opened: OpenedEngine) -> None:
        self._script, self._opened = script, opened
        self._engine, self._store = opened.engine, opened.store
        self._path = Path(branch=MAIN_BRANCH, facts=script.facts, root=opened.root)
        self._paths: dict[str, Path] = {}
        self._played = 0

    async def play_turn(self, turn: ScriptTurn) -> PlayedTurn:
        """Prepare a turn and do with it what the script says."""
        self._opened.clock.step()
        self._played += 1
        played = PlayedTurn(turn=turn, place=self._played, before=self._path)
        author = Author(kind=AuthorKind.USER, id=self._script.user) if self._script.user else None
        try:
            message = Message(role=Role.USER, content=turn.input, author=author)
            prepared = await self._opened.prepare(message)
            played = replace(played, prepared=prepared)
            played = await self._answer(played, prepared)
        except (JacquardError, MnemosyneError) as error:
            played = replace(played, error=f"{type(error).__name__}: {error}")
        await self._opened.settle()
        return played

    async def act(self, event: HostEvent) -> PlayedTurn | None:
        """Do what a host does between turns; an edited message is a turn of its own."""
        action = event.action
        if isinstance(action, ToolResult | GivenEvidence):
            await self._take_in(event.before, action)
        elif isinstance(action, Fork):
            await self._fork(self._path.back_to(action.at, action.branch))
        elif isinstance(action, Switch):
            self._paths[self._path.branch] = self._path
            self._path = self._paths[action.branch]
            await self._store.switch(SESSION, action.branch)
        elif isinstance(action, Edit):
            await self._fork(self._path.back_to(action.of - 1, edit_branch(event)))
            return None if action.turn is None else await self.play_turn(action.turn)
        return None

    async def _answer(self, played: PlayedTurn, prepared: PreparedTurn) -> PlayedTurn:
        """Commit the script's reply to a prepared turn, or let its call fail; the turn is a step of the path either way."""
        turn, turn_id = played.turn, prepared.turn_id
        items = (Item(kind=ItemKind.MESSAGE, ids=(f"{turn_id}.u", turn_id), text=turn.input, turn=turn.number),)
        step = Step(number=turn.number, turn_id=turn_id, items=items, about=turn.about)
        result, reply, fault = None, prepared.reply, ""
        if reply is not None:
            if turn.reply is not None or turn.fails is not None:
                fault = f"the engine answered by the action {prepared.plan.action_id}; the script expects a model to be asked"
        elif turn.fails is not None:
            await self._fail(turn)
        elif turn.reply is None:
            fault = "the script has no reply for this turn, and the engine took it for no action; nothing was committed"
        else:
            result = await self._engine.commit_assistant_message(SESSION, turn.reply, turn_id=turn_id)
            reply = result.content
        if reply is not None:
            said = Item(kind=ItemKind.REPLY, ids=(f"{turn_id}.a", turn_id), text=reply, turn=turn.number)
            step = replace(step, answered=True, items=(*items, said), facts=turn.facts)
        self._path = self._path.after(step)
        return replace(played, result=result, fault=fault)

    async def _fail(self, turn: ScriptTurn) -> None:
        """Let a model call fail: of a reply that was cut off the host has the beginning, and drops it."""
        if turn.fails is Failure.CUT_OFF and turn.reply:
            await self._engine.commit_assistant_chunk(SESSION, turn.reply[:_CUT_CHARS], 0)
            await self._engine.abort_assistant_message(SESSION)

    async def _take_in(self, number: int, action: ToolResult | GivenEvidence) -> None:
        before = {each.evidence_id for each in await self._evidences()}
        call_id = f"call_{number}_{len(before)}"
        if isinstance(action, ToolResult):
            kind, names = ItemKind.TOOL_RESULT, [call_id]
            call = ToolCall(tool_call_id=call_id, tool=action.name, args_digest={"turn": number, "call": call_id})
            await self._engine.record_tool_call(SESSION, call, result=action.text)
        else:
            kind, names = ItemKind.EVIDENCE, []
            source = EvidenceSource(kind=SourceKind.RAG, name=action.kind, uri=f"{action.kind}:{call_id}")
            await self._opened.ingestor.ingest(SESSION, action.text, source, EvidenceType.RAG_DOC)
        fresh = [each.evidence_id for each in await self._evidences() if each.evidence_id not in before]
        item = Item(kind=kind, ids=(*fresh, *names), text=action.text, turn=number)
        self._path = self._path.after(Step(number=number, items=(item,), about=action.about))

    async def _evidences(self) -> tuple[Evidence, ...]:
        """Return the session's evidence that is not a recalled memory."""
        found = await self._store.list_evidences(SESSION)
        return tuple(each for each in found if not each.source.uri.startswith(_OWN))

    async def _fork(self, path: Path) -> None:
        self._paths[self._path.branch] = self._path
        self._path = path
        await self._store.fork(SESSION, path.head, path.branch)

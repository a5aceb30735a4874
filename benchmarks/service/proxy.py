"""Time that the proxy adds to a chat client's call, by the number of messages that the client shows, and its stages.

The model server is in this process and answers at once: the added time is all from the call's arrival until the model server gets
it, and from the answer until the client has it. Calls go on with one conversation, as chat clients make them: each shows all
messages, and the sizes take turns. Processor time is that of all threads of this process, and says most on a busy machine.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from inspect import iscoroutinefunction
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import anyio
from rich.console import Console
from rich.table import Table
from rich.text import Text
from starlette.applications import Starlette
from starlette.types import Message

from benchmarks.conversation import questions, utterances
from evals.errors import SetupError
from evals.reporting.machine import load, machine
from jacquard import ContextEngine, RuntimeConfig
from jacquard.config.service import ServiceSettings
from jacquard.service.access.principals import RequestNote
from jacquard.service.proxy import keeping, placing, routes, stored_paths
from jacquard.service.proxy.requests.headers import Headers
from jacquard.service.proxy.upstreams.protocol import UpstreamCall
from jacquard.service.tenants import TenantRuntimes
from mnemosyne import Message as SaidMessage
from mnemosyne import Role, SessionStart
from mnemosyne.schema.record import ImportedTurn

SEED = 7
WARM_CALLS, RESTARTS = 4, 5
IDLE_SECONDS = 0.2
WHOLE, OWN = "added", "without the engine's turn"
_OF_ENGINE = ("prepare", "keep")
REPLY = "Yes, that is how I remember it, 我也这么记得。"
STAGES: Mapping[str, tuple[tuple[Any, str], ...]] = {
    "parse": ((routes, "read_request"),),
    "rules": ((routes, "_treat"),),
    "forms": ((keeping, "read_said"),),
    "session": ((keeping, "find_session"),),
    "place": ((keeping, "place"),),
    "· paths": ((stored_paths, "find_paths"), (placing, "find_paths")),
    "· alignment": ((stored_paths, "align_behind_run"),),
    "prepare": ((ContextEngine, "prepare_turn"),),
    "render": ((routes, "with_our_text"),),
    "keep": ((keeping.TurnKeeper, "keep"),),
}
"""The functions of each stage; those with a dot are parts of others."""

Say = Callable[[str], None]
Progress = Callable[[str, int, int], None]


@dataclass(kw_only=True, slots=True)
class Clock:
    """Wall and processor time by stage, of the call that is on its way, in milliseconds."""

    spent: dict[str, list[float]] = field(default_factory=dict)

    @contextmanager
    def measure(self, stage: str) -> Iterator[None]:
        """Add what passes in the block to a stage."""
        began, worked = perf_counter(), process_time()
        try:
            yield
        finally:
            sums = self.spent.setdefault(stage, [0.0, 0.0])
            sums[0] += (perf_counter() - began) * 1000
            sums[1] += (process_time() - worked) * 1000

    def wrap(self, stage: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does the same and is measured."""

        async def work_async(*args: Any, **named: Any) -> Any:
            with self.measure(stage):
                return await work(*args, **named)

        def work_sync(*args: Any, **named: Any) -> Any:
            with self.measure(stage):
                return work(*args, **named)

        return work_async if iscoroutinefunction(work) else work_sync


@contextmanager
def _measured(clock: Clock) -> Iterator[None]:
    """Measure the functions of the stages in the block."""
    found = [(place, name, stage, getattr(place, name)) for stage, places in STAGES.items() for place, name in places]
    for place, name, stage, work in found:
        setattr(place, name, clock.wrap(stage, work))
    try:
        yield
    finally:
        for place, name, _, work in found:
            setattr(place, name, work)


class _Answer:
    """The whole answer of the model server."""

    status = 200

    @property
    def headers(self) -> Headers:
        """The headers of a whole answer."""
        return [("content-type", "application/json")]

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the reply."""
        reply = {"role": "assistant", "content": REPLY}
        yield json.dumps({"model": "m", "choices": [{"index": 0, "message": reply, "finish_reason": "stop"}]}).encode()


class InstantUpstream:
    """A model server that answers at once; it keeps the last call."""

    def __init__(self) -> None:
        self.calls: list[UpstreamCall] = []

    def call(self, call: UpstreamCall) -> AbstractAsyncContextManager[_Answer]:
        """Answer a call."""
        self.calls = [call]
        return self._answer()

    @asynccontextmanager
    async def _answer(self) -> AsyncIterator[_Answer]:
        yield _Answer()

    async def close(self) -> None:
        """Nothing is open."""


@dataclass(kw_only=True, slots=True)
class Conversation:
    """A client's conversation: its service, its messages, and the samples by stage, wall and processor time of each call."""

    messages: list[dict[str, str]]
    app: Starlette
    tenants: TenantRuntimes
    first_seconds: float = 0.0
    samples: dict[str, list[Sequence[float]]] = field(default_factory=dict)

    def add(self, spent: Mapping[str, Sequence[float]]) -> None:
        """Keep the times of one call."""
        times = {stage: spent.get(stage, (0.0, 0.0)) for stage in (WHOLE, *STAGES)}
        engine = [sum(parts) for parts in zip(*(times[stage] for stage in _OF_ENGINE), strict=True)]
        times[OWN] = [whole - part for whole, part in zip(times[WHOLE], engine, strict=True)]
        for stage, values in times.items():
            self.samples.setdefault(stage, []).append(values)

    async def ask(self, text: str, clock: Clock) -> None:
        """Make the next call, and keep its times in `clock`."""
        self.messages.append({"role": "user", "content": text})
        body = json.dumps({"model": "m", "messages": self.messages}, ensure_ascii=False).encode()
        sent: list[Message] = []

        async def receive() -> Message:
            if not sent and not scope["read"]:
                scope["read"] = True
                return {"type": "http.request", "body": body, "more_body": False}
            await anyio.sleep_forever()
            raise AssertionError

        async def send(message: Message) -> None:
            sent.append(message)

        scope: dict[str, Any] = {
            "type": "http",
            "method": "POST",
            "path": "/v1/chat/completions",
            "query_string": b"",
            "headers": [(b"content-type", b"application/json")],
            "state": {"note": RequestNote()},
            "read": False,
        }
        with clock.measure(WHOLE):
            await self.app(scope, receive, send)
        headers = dict(sent[0]["headers"])
        if sent[0]["status"] != 200 or b"x-jacquard-receipt" not in headers:
            raise SetupError(f"a call was not a turn: {sent[0]}")
        self.messages.append({"role": "assistant", "content": REPLY})


async def run(
    sizes: Sequence[int], calls: int, sessions: int, embedder: str, say: Say, progress: Progress
) -> dict[str, Any]:
    """Play a conversation of each size, the first among so many other `sessions` without a name; return the medians by
    stage. SetupError for calls that are not turns.
    """
    clock = Clock()
    with TemporaryDirectory(prefix="jacquard-bench-") as folder:
        async with AsyncExitStack() as stack:
            stack.enter_context(_measured(clock))
            talks = []
            for size in sizes:
                say(f"a conversation of {size:,} messages")
                talks.append(await _begin(stack, size, embedder, Path(folder) / str(size), clock))
            if sessions:
                await _fill(talks[0].tenants, sessions, progress)
            texts = questions(WARM_CALLS + calls, SEED)
            texts_after = questions(RESTARTS, SEED + 1)
            for number, text in enumerate(texts):
                for talk in talks[:: 1 if number % 2 else -1]:
                    # The engine indexes behind the turn before.
                    await anyio.sleep(IDLE_SECONDS)
                    clock.spent = {}
                    await talk.ask(text, clock)
                    if number >= WARM_CALLS:
                        talk.add(clock.spent)
                progress("calls", number + 1, WARM_CALLS + calls)
        restarts = []
        for _ in range(RESTARTS if sessions else 0):
            async with AsyncExitStack() as stack:
                stack.enter_context(_measured(clock))
                talk = await _open(stack, embedder, Path(folder) / str(sizes[0]), talks[0].messages)
                clock.spent = {}
                await talk.ask(next(texts_after), clock)
                restarts.append(clock.spent)
    return {
        "sizes": list(sizes),
        "calls": calls,
        "embedder": embedder,
        "sessions": sessions,
        "restarts": {stage: _medians([each[stage] for each in restarts]) for stage in (WHOLE, "session")}
        if restarts
        else {},
        "first_seconds": [talk.first_seconds for talk in talks],
        "stages": {stage: [_medians(talk.samples[stage]) for talk in talks] for stage in (WHOLE, OWN, *STAGES)},
        "machine": machine(),
        "load": load(),
    }


def _medians(samples: Sequence[Sequence[float]]) -> dict[str, float]:
    wall, processor = zip(*samples, strict=True)
    return {"wall_ms": statistics.median(wall), "processor_ms": statistics.median(processor)}


async def _begin(stack: AsyncExitStack, size: int, embedder: str, folder: Path, clock: Clock) -> Conversation:
    """Return a conversation that the proxy has taken in with its first call."""
    said = [
        {"role": ("user", "assistant")[at % 2], "content": text}
        for at, text in enumerate(islice(utterances(size, SEED), size))
    ]
    talk = await _open(stack, embedder, folder, said)
    await talk.ask("Let us begin.", clock)
    talk.first_seconds = clock.spent[WHOLE][0] / 1000
    return talk


async def _open(stack: AsyncExitStack, embedder: str, folder: Path, messages: list[dict[str, str]]) -> Conversation:
    """Return a conversation with a service over the store of a folder."""
    settings = ServiceSettings(store=str(folder), upstream="http://127.0.0.1:1/v1", embedder=embedder)
    tenants = await stack.enter_async_context(TenantRuntimes(settings, RuntimeConfig()))
    proxy = routes.Proxy(settings, tenants, InstantUpstream())
    await proxy.open()
    return Conversation(messages=messages, app=Starlette(routes=proxy.routes()), tenants=tenants)


async def _fill(tenants: TenantRuntimes, sessions: int, progress: Progress) -> None:
    """Store conversations of two exchanges without a name."""
    said = utterances(4 * sessions, SEED + 2)
    async with tenants.use() as runtime:
        for number in range(sessions):
            texts = list(islice(said, 4))
            turns = tuple(
                ImportedTurn(
                    turn_id=f"t{at}",
                    messages=(
                        SaidMessage(role=Role.USER, content=texts[2 * at]),
                        SaidMessage(role=Role.ASSISTANT, content=texts[2 * at + 1]),
                    ),
                )
                for at in range(2)
            )
            start = SessionStart(
                session_id=f"chat-{number:016x}", world_id="", locale="en", state={}, turns=turns, at=datetime.now(UTC)
            )
            await runtime.store.create_session(start)
            if number % 1_000 == 0:
                progress("sessions", number, sessions)


def show(figures: Mapping[str, Any], console: Console) -> None:
    """Print the stages, and of each size the wall and the processor time."""
    console.print(
        Text(
            f"{figures['machine']['cpu']}, load {figures['load']}; {figures['calls']} calls a size, in turn; "
            f"embedder {figures['embedder']}"
        )
    )
    table = Table(title="milliseconds that the proxy adds to a call, median: wall / processor", title_justify="left")
    table.add_column("stage")
    for size in figures["sizes"]:
        table.add_column(f"{size:,} messages shown", justify="right")
    for stage, medians in figures["stages"].items():
        cells = [f"{each['wall_ms']:.1f} / {each['processor_ms']:.1f}" for each in medians]
        table.add_row(stage, *cells, style="bold" if stage == WHOLE else "")
    console.print(table)
    for stage, median in figures["restarts"].items():
        times = f"{median['wall_ms']:.1f} / {median['processor_ms']:.1f} ms"
        console.print(Text(f"first call after a restart, among {figures['sessions']:,} sessions: {stage} {times}"))
    seconds = ", ".join(f"{each:.1f}" for each in figures["first_seconds"])
    console.print(Text(f"first calls, which the proxy takes in whole: {seconds} s"))

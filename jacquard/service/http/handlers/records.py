"""Handlers that show the record of a turn (prompt, receipt, page, sources), and the handler that streams events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import anyio
from anyio import to_thread
from anyio.streams.memory import MemoryObjectReceiveStream
from starlette.responses import HTMLResponse, Response, StreamingResponse

from filament.state.verdicts import OpVerdict
from jacquard.authoring.marks import TurnMark, put_mark
from jacquard.authoring.marks import export_marks as pack_marks
from jacquard.authoring.marks import list_marks as find_marks
from jacquard.authoring.render import Rendering, compare, rendering_of
from jacquard.authoring.replay.model_calls import find_model_calls
from jacquard.authoring.replay.provenance import Origin, count_tokens_by_block, find_origin, find_origins
from jacquard.authoring.replay.replay import (
    changed_settings,
    compare_decisions,
    find_differences,
    list_block_order,
    replay_prompt,
)
from jacquard.authoring.replay.turn_page import PageSection, PageTurn, render_turn_page
from jacquard.authoring.replay.turn_view import view_turn
from jacquard.authoring.replay.what_if import WhatIf
from jacquard.authoring.state_changes import find_changes
from jacquard.authoring.why_not import Absence
from jacquard.authoring.why_not import why_not as explain_absence
from jacquard.config.sections import RuntimeConfig
from jacquard.core.errors import ConfigError
from jacquard.pipeline.record.prepared_turn import PreparedTurn, turn_from_record
from jacquard.pipeline.record.prompt_snapshot import PromptSnapshot, read_snapshot
from jacquard.pipeline.record.stored_turn import report_of
from jacquard.pipeline.weaving.prompt import Prompt
from jacquard.remote.bodies import (
    MarkRequest,
    ReceiptAnswer,
    RenderedPrompt,
    ReplayAnswer,
    TurnChanges,
    WhatIfAnswer,
    WhatIfRequest,
)
from jacquard.remote.wire import SentMessage, encode_turn
from jacquard.service.answers import answer_file
from jacquard.service.host_paths import event_for, turn_for
from jacquard.service.http.call import Call, handles
from jacquard.service.http.call_settings import config_for, verbs_for
from jacquard.service.values import Principal
from jacquard.templating.files import find_shipped_templates, template_roots
from jacquard.wiring.parts.named_parts import open_token_estimator
from mnemosyne.core import codec
from mnemosyne.core.tokens import CalibratedEstimator
from mnemosyne.protocols import EventBus, TokenEstimator
from mnemosyne.schema.document import ModelUsage
from mnemosyne.schema.event import Event
from mnemosyne.schema.record import TurnRecord


@handles
async def get_turn(call: Call) -> bytes:
    """Return a prepared turn, read from its record."""
    return encode_turn((await load_turn(call))[1], call.query["include"])


@handles
async def get_receipt(call: Call) -> ReceiptAnswer:
    """Return the receipt of a turn: why each block is in the prompt, the tokens of the blocks, and the model calls."""
    record, turn = await load_turn(call)
    calls, tokens = await find_model_calls(call.runtime.store, record), count_tokens_by_block(turn)
    return ReceiptAnswer(turn_id=record.turn_id, report=turn.report, tokens_by_block=tokens, calls=calls)


@handles
async def get_changes(call: Call) -> TurnChanges:
    """Return the values of the state that a turn changed, and the verdicts on the ops of its reply."""
    store, session_id = call.runtime.store, call.session_id
    record = await store.turn(session_id, call.ids["turn_id"])
    before, after = [await store.state_at(session_id, each) for each in (record.parent_id, record.turn_id)]
    verdicts = [codec.from_plain(each, OpVerdict) for each in (record.report or {}).get("verdicts", ())]
    changes = await to_thread.run_sync(find_changes, before, after)
    return TurnChanges(turn_id=record.turn_id, changes=changes, verdicts=tuple(verdicts))


@handles
async def get_page(call: Call) -> Response:
    """Return an HTML page that shows the prompt of a turn block by block."""
    record, turn = await load_turn(call)
    calls = await find_model_calls(call.runtime.store, record)
    return HTMLResponse(await to_thread.run_sync(_render, record, turn, calls), headers=PAGE_HEADERS)


PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
    "x-content-type-options": "nosniff",
}
"""Headers of a page. They forbid scripts and content from elsewhere, because the page shows texts of strangers."""


def _render(record: TurnRecord, turn: PreparedTurn, calls: tuple[ModelUsage, ...]) -> str:
    said = [(message.role.value, message.content) for message in record.messages]
    shown = PageTurn(heading=record.turn_id, view=view_turn(turn), said=said, calls=calls)
    return render_turn_page(
        f"Turn {record.turn_id} of session {turn.session_id}", [PageSection(title="", turns=[shown])]
    )


@handles
async def replay(call: Call) -> ReplayAnswer:
    """Build the prompt of a turn again from its record, and return the differences from the recorded prompt."""
    record, _ = await load_turn(call)
    return await to_thread.run_sync(_replay, record)


def _replay(record: TurnRecord) -> ReplayAnswer:
    snapshot, estimator = read_inputs(record)
    differences = find_differences(record, replay_prompt(snapshot, estimator.estimate))
    return ReplayAnswer(turn_id=record.turn_id, differences=differences)


def read_inputs(record: TurnRecord) -> tuple[PromptSnapshot, TokenEstimator]:
    """Return what a prompt was made of, with the token estimator that counted it. Raises ConfigError if it was not recorded."""
    snapshot = read_snapshot(record)
    if snapshot is None:
        raise ConfigError(f"Turn {record.turn_id!r} was not recorded with what its prompt was made of; it is too old.")
    is_estimate = snapshot.counter == CalibratedEstimator.name
    return snapshot, CalibratedEstimator() if is_estimate else open_token_estimator(snapshot.runtime)


@handles
async def what_if(call: Call) -> WhatIfAnswer:
    """Render a recorded turn under the settings of the call, and compare both prompts."""
    record, _ = await load_turn(call)
    snapshot, estimator = await to_thread.run_sync(read_inputs, record)
    config = await config_for(call, call.read(WhatIfRequest).config, snapshot.runtime) or snapshot.runtime
    world = await call.runtime.world_of(call.session_id)
    roots = template_roots((await to_thread.run_sync(find_shipped_templates),), world)
    played = WhatIf(store=call.runtime.store, config=config, estimator=estimator, roots=roots)
    old, new, _ = await played.prompts(record, snapshot, played.start())
    return await to_thread.run_sync(_compare, record, snapshot, config, old, new)


def _compare(
    record: TurnRecord, snapshot: PromptSnapshot, config: RuntimeConfig, old: Prompt, new: Prompt
) -> WhatIfAnswer:
    template_id, layout = snapshot.source.template_id, report_of(record).layout
    other_layout = layout if config.layout == snapshot.runtime.layout else config.layout
    before = rendering_of(old, record.turn_id, template_id, layout)
    after = rendering_of(new, record.turn_id, config.template_id or template_id, other_layout)
    applied, ignored = changed_settings(snapshot, config)
    return WhatIfAnswer(
        turn_id=record.turn_id,
        before=show_rendering(before),
        after=show_rendering(after),
        changes=compare(before, after).changes,
        decisions=compare_decisions(old.decisions, new.decisions),
        moved=list_block_order(old) != list_block_order(new),
        applied=applied,
        ignored=ignored,
    )


def show_rendering(made: Rendering) -> RenderedPrompt:
    """Return a rendering as it is sent."""
    return RenderedPrompt(
        template_id=made.template_id,
        layout=made.layout,
        tokens=made.tokens,
        frame_tokens=made.frame_tokens,
        blocks=made.rows,
        messages=tuple(SentMessage(role=each.role, content=each.content) for each in made.prompt.assembled.messages),
    )


@handles
async def explain(call: Call) -> tuple[Origin, ...]:
    """Trace words, or one place in the prompt of a turn, to their sources. Raises ConfigError if the call has neither
    words nor a place.
    """
    text, at = call.query["text"], call.query["at"]
    if not text and at is None:
        raise ConfigError("text is empty; give words of the prompt.")
    record, turn = await load_turn(call)
    if at is not None:
        return (await to_thread.run_sync(lambda: find_origin(turn, at, read_snapshot(record))),)
    return tuple(await to_thread.run_sync(lambda: find_origins(turn, text, read_snapshot(record))))


@handles
async def why_not(call: Call) -> tuple[Absence, ...]:
    """Explain why an entry is not in the prompt of a turn."""
    return await explain_absence(call.runtime.engine, call.session_id, call.query["text"], turn_id=call.ids["turn_id"])


@handles
async def mark_memory(call: Call) -> TurnMark | None:
    """Mark a memory in a turn, or take a mark back."""
    record, _ = await load_turn(call)
    memory = await verbs_for(call).memory(call.session_id, call.ids["memory_id"])
    author = call.principal.token_id or call.principal.author or "host"
    at, wanted = datetime.now(UTC), call.read(MarkRequest).wanted
    return await put_mark(call.runtime.store, record, memory, wanted, author=author, at=at)


@handles
async def list_marks(call: Call) -> tuple[TurnMark, ...]:
    """List the marks of a session."""
    return await find_marks(call.runtime.store, call.session_id)


@handles
async def export_marks(call: Call) -> Response:
    """Return the marks of a session as a ZIP file."""
    return answer_file(await pack_marks(call.runtime.store, call.session_id), "marks.zip")


async def load_turn(call: Call) -> tuple[TurnRecord, PreparedTurn]:
    """Return the record of a turn and the prepared turn in it. Raises ConfigError if no prompt was made for the turn."""
    record = await call.runtime.store.turn(call.session_id, call.ids["turn_id"])
    if record.prompt is None or record.receipt is None:
        raise ConfigError(
            f"Turn {record.turn_id!r} was imported: no prompt was made for it, so there is nothing to show."
        )
    return record, turn_for(call.principal, await to_thread.run_sync(turn_from_record, record, 0))


MOST_WAITING = 1_000
"""Maximum number of events that wait for a slow reader. Further events are left out for this reader."""

HEARTBEAT_SECONDS = 15.0
HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


@handles
async def stream_events(call: Call) -> Response:
    """Stream the events of a session, from now on."""
    session_id, runtime = call.session_id, call.runtime
    await runtime.store.head(session_id)
    stream = _stream(runtime.watchers.events, session_id, call.principal)
    return StreamingResponse(stream, media_type="text/event-stream", headers=HEADERS)


async def _stream(bus: EventBus, session_id: str, principal: Principal) -> AsyncIterator[bytes]:
    sender, receiver = anyio.create_memory_object_stream[Event](MOST_WAITING)

    def pass_on(event: Event) -> None:
        if event.session_id == session_id:
            try:
                sender.send_nowait(event_for(principal, event))
            except anyio.WouldBlock:
                return

    bus.on_all(pass_on)
    try:
        yield b": the events of a session\n\n"
        async for line in _lines(receiver):
            yield line
    finally:
        off = getattr(bus, "off_all", None)
        if off is not None:
            off(pass_on)
        sender.close()
        receiver.close()


async def _lines(receiver: MemoryObjectReceiveStream[Event]) -> AsyncIterator[bytes]:
    while True:
        event: Event | None = None
        with anyio.move_on_after(HEARTBEAT_SECONDS):
            event = await receiver.receive()
        if event is None:
            yield b": still here\n\n"
        else:
            yield b"event: " + event.event_type.value.encode() + b"\ndata: " + codec.encode(event) + b"\n\n"

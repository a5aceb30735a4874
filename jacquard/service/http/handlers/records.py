"""Handlers that show the record of a turn (prompt, receipt, page, sources), and the handler that streams events."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
from anyio import to_thread
from anyio.streams.memory import MemoryObjectReceiveStream
from starlette.responses import HTMLResponse, Response, StreamingResponse

from filament.state.verdicts import OpVerdict
from jacquard.authoring.replay.model_calls import find_model_calls
from jacquard.authoring.replay.provenance import Origin, count_tokens_by_block, find_origin, find_origins
from jacquard.authoring.replay.replay import find_differences, replay_prompt
from jacquard.authoring.replay.turn_page import PageSection, PageTurn, render_turn_page
from jacquard.authoring.replay.turn_view import view_turn
from jacquard.authoring.state_changes import find_changes
from jacquard.authoring.why_not import Absence
from jacquard.authoring.why_not import why_not as explain_absence
from jacquard.core.errors import ConfigError
from jacquard.pipeline.record.prepared_turn import PreparedTurn, turn_from_record
from jacquard.pipeline.record.prompt_snapshot import read_snapshot
from jacquard.remote.bodies import ReceiptAnswer, ReplayAnswer, TurnChanges
from jacquard.remote.wire import encode_turn
from jacquard.service.host_paths import event_for, turn_for
from jacquard.service.http.call import Call, handles
from jacquard.service.values import Principal
from jacquard.wiring.parts.named_parts import open_token_estimator
from mnemosyne.core import codec
from mnemosyne.core.tokens import CalibratedEstimator
from mnemosyne.protocols import EventBus
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
    snapshot = read_snapshot(record)
    if snapshot is None:
        raise ConfigError(f"Turn {record.turn_id!r} was not recorded with what its prompt was made of; it is too old.")
    config = snapshot.runtime
    is_estimate = snapshot.counter == CalibratedEstimator.name
    estimator = CalibratedEstimator() if is_estimate else open_token_estimator(config)
    differences = find_differences(record, replay_prompt(snapshot, estimator.estimate))
    return ReplayAnswer(turn_id=record.turn_id, differences=differences)


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

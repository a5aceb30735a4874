"""The events of a session as a stream (SSE)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream
from starlette.responses import Response, StreamingResponse

from jacquard.service.host_paths import event_for
from jacquard.service.http.operation import Call, Operation
from jacquard.service.values import Principal, Scope
from mnemosyne.core import codec
from mnemosyne.core.errors import SessionNotFoundError
from mnemosyne.protocols import EventBus
from mnemosyne.schema.event import Event

MOST_WAITING = 1_000
"""So many events wait for a slow reader; newer ones are then left out for it."""

HEARTBEAT_SECONDS = 15.0
HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


async def stream_events(call: Call) -> Response:
    """Stream the events of a session from now on."""
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


OPERATIONS = (
    Operation(
        name="stream_events",
        method="GET",
        path="/api/v1/sessions/{session_id}/events",
        doc="Stream the events of a session from now on (Server-Sent Events: `event` is the type, `data` the event as JSON).",
        run=stream_events,
        scope=Scope.AUTHOR,
        answer=Event,
        errors=(SessionNotFoundError,),
        in_one_process=True,
    ),
)

"""Operations that read the record of a turn: its prompt, its receipt, its page, and a replay of it."""

from __future__ import annotations

from dataclasses import dataclass

from anyio import to_thread
from starlette.responses import HTMLResponse, Response

from jacquard.authoring.replay.model_calls import find_model_calls
from jacquard.authoring.replay.provenance import Origin, count_tokens_by_block, find_origins
from jacquard.authoring.replay.replay import find_differences, replay_prompt
from jacquard.authoring.replay.turn_page import PageSection, PageTurn, render_turn_page
from jacquard.authoring.replay.turn_view import view_turn
from jacquard.authoring.why_not import Absence
from jacquard.authoring.why_not import why_not as explain_absence
from jacquard.client.wire import SentTurn, encode_turn
from jacquard.core.errors import ConfigError, MemoryNotFoundError
from jacquard.core.receipt import Report
from jacquard.pipeline.record.prepared_turn import PreparedTurn, turn_from_record
from jacquard.pipeline.record.prompt_snapshot import read_snapshot
from jacquard.service.host_paths import turn_for
from jacquard.service.http.operation import INCLUDE, Call, Operation, Query
from jacquard.service.values import Scope
from jacquard.wiring.parts.named_parts import open_token_estimator
from mnemosyne.core.errors import DamagedRecordError, SessionNotFoundError, TurnNotFoundError
from mnemosyne.core.tokens import CalibratedEstimator
from mnemosyne.schema.document import ModelUsage
from mnemosyne.schema.record import TurnRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class ReceiptAnswer:
    """The receipt of a turn: its report, the tokens of each block of what was sent, and its model calls, oldest first."""

    turn_id: str
    report: Report
    tokens_by_block: dict[str, int]
    calls: tuple[ModelUsage, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayAnswer:
    """A replay of a prompt from its record: `differences` are sentences; there are none if the same bytes came out."""

    turn_id: str
    differences: tuple[str, ...]


async def get_turn(call: Call) -> bytes:
    """Return a prepared turn from its record."""
    return encode_turn((await _load(call))[1], call.query["include"])


async def get_receipt(call: Call) -> ReceiptAnswer:
    """Return the receipt of a turn."""
    record, turn = await _load(call)
    calls, tokens = await find_model_calls(call.runtime.store, record), count_tokens_by_block(turn)
    return ReceiptAnswer(turn_id=record.turn_id, report=turn.report, tokens_by_block=tokens, calls=calls)


async def get_page(call: Call) -> Response:
    """Return a page that shows a turn's prompt block by block."""
    record, turn = await _load(call)
    calls = await find_model_calls(call.runtime.store, record)
    return HTMLResponse(await to_thread.run_sync(_render, record, turn, calls), headers=PAGE_HEADERS)


PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
    "x-content-type-options": "nosniff",
}
"""A page shows texts of strangers; it needs neither scripts nor anything from elsewhere."""


def _render(record: TurnRecord, turn: PreparedTurn, calls: tuple[ModelUsage, ...]) -> str:
    said = [(message.role.value, message.content) for message in record.messages]
    shown = PageTurn(heading=record.turn_id, view=view_turn(turn), said=said, calls=calls)
    return render_turn_page(
        f"Turn {record.turn_id} of session {turn.session_id}", [PageSection(title="", turns=[shown])]
    )


async def replay(call: Call) -> ReplayAnswer:
    """Make a recorded prompt again and compare."""
    record, _ = await _load(call)
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


async def explain(call: Call) -> tuple[Origin, ...]:
    """Trace a text of a prompt to its source; ConfigError without a text."""
    text = call.query["text"]
    if not text:
        raise ConfigError("text is empty; give words of the prompt.")
    record, turn = await _load(call)
    return tuple(await to_thread.run_sync(lambda: find_origins(turn, text, read_snapshot(record))))


async def why_not(call: Call) -> tuple[Absence, ...]:
    """Say why an entry is not in a prompt."""
    return await explain_absence(call.runtime.engine, call.session_id, call.query["text"], turn_id=call.ids["turn_id"])


async def _load(call: Call) -> tuple[TurnRecord, PreparedTurn]:
    record = await call.runtime.store.turn(call.session_id, call.ids["turn_id"])
    if record.prompt is None or record.receipt is None:
        raise ConfigError(
            f"Turn {record.turn_id!r} was imported: no prompt was made for it, so there is nothing to show."
        )
    return record, turn_for(call.principal, await to_thread.run_sync(turn_from_record, record, 0))


_TURN = "/api/v1/sessions/{session_id}/turns/{turn_id}"
_ERRORS = (SessionNotFoundError, TurnNotFoundError, ConfigError, DamagedRecordError)
OPERATIONS = (
    Operation(
        name="get_turn",
        method="GET",
        path=_TURN,
        doc="Return a prepared turn from its record.",
        run=get_turn,
        answer=SentTurn,
        query=(INCLUDE,),
        errors=_ERRORS,
    ),
    Operation(
        name="get_receipt",
        method="GET",
        path=f"{_TURN}/receipt",
        doc="Return the receipt of a turn: why each candidate and block is, or is not, in its prompt.",
        run=get_receipt,
        answer=ReceiptAnswer,
        errors=_ERRORS,
    ),
    Operation(
        name="get_page",
        method="GET",
        path=f"{_TURN}/page",
        doc="Return a page (HTML) that shows a turn's prompt block by block, and all that was left out.",
        run=get_page,
        answer=str,
        errors=_ERRORS,
    ),
    Operation(
        name="replay",
        method="GET",
        path=f"{_TURN}/replay",
        doc="Make a recorded prompt again from its record alone, and compare it byte for byte.",
        run=replay,
        answer=ReplayAnswer,
        errors=_ERRORS,
    ),
    Operation(
        name="explain",
        method="GET",
        path=f"{_TURN}/explain",
        doc="Trace a text, wherever it stands in a prompt, to its block, its evidence and its source.",
        run=explain,
        answer=tuple[Origin, ...],
        query=(Query(name="text", doc="Words that stand in the prompt.", default=""),),
        errors=_ERRORS,
    ),
    Operation(
        name="why_not",
        method="GET",
        path=f"{_TURN}/why-not",
        doc="Say why an entry is not in a prompt: hidden, not recalled, not chosen, over the budget; or where it is.",
        run=why_not,
        scope=Scope.AUTHOR,
        answer=tuple[Absence, ...],
        query=(Query(name="text", doc="The id of an entry, or words of it.", default=""),),
        errors=(*_ERRORS, MemoryNotFoundError),
    ),
)

"""Shows the page of a turn: its prompt with the reason for each part, the parts that were left out, and the prompt of
the previous turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from jacquard.authoring.replay.model_calls import describe_call
from jacquard.authoring.replay.turn_diff import compare_turns
from jacquard.authoring.replay.turn_view import GROUPS, view_turn
from jacquard.authoring.why_not import Absence
from jacquard.core.receipt import CandidateDecision
from jacquard.pipeline.record.prepared_turn import PreparedTurn
from jacquard.pipeline.record.sent_prompt import as_sent
from jacquard.service.http.handlers.records import load_turn
from jacquard.service.values import Scope
from jacquard.studio.evaluation import find_labels, find_marks
from jacquard.studio.visit import Room, Visit, link, write_json
from mnemosyne.core.errors import ContextEngineError
from mnemosyne.schema.record import TurnRecord

LABEL = "label"
VIEWS = ("prompt", "left_out", "diff", "receipt", "messages", LABEL)
"""Views of a turn, in the order of their tabs."""

_NEIGHBOURS = 8


async def show_newest(visit: Visit) -> Response:
    """Lead the browser to the newest turn of a conversation."""
    head = await visit.ask("get_session_head")
    if head.turn_id is None:
        return await visit.show("turn_none.html")
    return visit.go(link("s", visit.ids["session_id"], "t", head.turn_id, view=visit.query.get("view")))


async def show_turn(visit: Visit) -> Response:
    """Return the page of a turn, or only the panel about one place of its prompt or about one candidate."""
    at, entry = visit.query.get("at"), visit.query.get("entry")
    detail: dict[str, Any] = {"origins": () if at is None else await visit.ask("explain", at=at)}
    receipt = await visit.ask("get_receipt")
    detail |= {"candidate": None, "absences": (), "floor": receipt.report.stream_b.relevance_floor}
    if entry is not None:
        known: tuple[CandidateDecision, ...] = (*receipt.report.stream_b.candidates, *receipt.report.evidence)
        detail["candidate"] = next((each for each in known if each.entry_id == entry), None)
        detail["absences"] = await _find_absences(visit, entry)
    marks = await find_marks(visit, visit.ids["turn_id"])
    detail |= {"marks": marks}
    if visit.is_partial:
        return await visit.show("_origin.html", **detail)
    record: TurnRecord
    turn: PreparedTurn
    record, turn = await visit.ask("get_turn", run=load_turn)
    views = VIEWS if marks is not None else tuple(each for each in VIEWS if each != LABEL)
    chosen = visit.query.get("view", VIEWS[0])
    chosen = chosen if chosen in views else VIEWS[0]
    before = turn.depth + _NEIGHBOURS
    around = await visit.ask("list_turns", branch=turn.branch_id, before=before, limit=2 * _NEIGHBOURS)
    return await visit.show(
        "turn.html",
        turn=turn,
        shown=view_turn(turn),
        said=record.messages,
        calls=receipt.calls,
        around=around.items,
        views=views,
        chosen=chosen,
        groups=GROUPS,
        describe_call=describe_call,
        **await _compare(visit, record, turn) if chosen == "diff" else {},
        **_find_forms(turn) if chosen == "messages" else {},
        **await find_labels(visit, turn.turn_id, turn.depth, receipt) if chosen == LABEL else {},
        **detail,
    )


async def _find_absences(visit: Visit, entry: str) -> tuple[Absence, ...]:
    """Return why an entry is not in the prompt; nothing if the caller may not ask, or if the entry is not stored."""
    if not visit.principal.allows(Scope.AUTHOR):
        return ()
    try:
        found: tuple[Absence, ...] = await visit.ask("why_not", text=entry)
    except ContextEngineError:
        return ()
    return found


async def _compare(visit: Visit, record: TurnRecord, turn: PreparedTurn) -> Mapping[str, Any]:
    """Return the differences from the prompt of the turn before (None: there is none to compare with)."""
    if record.parent_id is None:
        return {"diff": None}
    try:
        _, before = await visit.ask("get_turn", turn_id=record.parent_id, run=load_turn)
    except ContextEngineError:
        # The turn before was imported, so no prompt was made for it.
        return {"diff": None}
    return {"diff": compare_turns(view_turn(before), view_turn(turn)), "before": before}


def _find_forms(turn: PreparedTurn) -> Mapping[str, Any]:
    """Return the messages as they are sent to each provider, as texts."""
    sent = as_sent(turn)
    openai = write_json({"model": "MODEL", "messages": sent.to_openai()}, indent=2)
    anthropic = write_json({"model": "MODEL", "max_tokens": 1024, **sent.to_anthropic()}, indent=2)
    quoted = openai.replace("'", "'\\''")
    curl = (
        'curl "$BASE_URL/chat/completions" -H "Authorization: Bearer $API_KEY" -H "Content-Type: application/json" '
        f"-d '{quoted}'"
    )
    return {"forms": {"openai": openai, "anthropic": anthropic, "curl": curl}}


ROOM = Room(name="turn", pages={"GET /s/{session_id}": show_newest, "GET /s/{session_id}/t/{turn_id}": show_turn})

"""Turn: the prompt of a turn with the reason for each of its parts."""

from __future__ import annotations

from starlette.responses import Response

from jacquard.authoring.replay.turn_view import GROUPS, view_turn
from jacquard.pipeline.record.prepared_turn import PreparedTurn
from jacquard.service.http.handlers.records import load_turn
from jacquard.studio.visit import Room, Visit, link
from mnemosyne.schema.record import TurnRecord

VIEWS = ("prompt", "left_out", "receipt")
"""Views of a turn, in the order of their tabs."""

_NEIGHBOURS = 8


async def show_newest(visit: Visit) -> Response:
    """Lead to the newest turn of a conversation."""
    head = await visit.ask("get_session_head")
    if head.turn_id is None:
        return await visit.show("turn_none.html")
    return visit.go(link("s", visit.ids["session_id"], "t", head.turn_id, view=visit.query.get("view")))


async def show_turn(visit: Visit) -> Response:
    """Return the page of a turn, or the origin of one place in its prompt."""
    at = visit.query.get("at")
    origins = () if at is None else await visit.ask("explain", at=at)
    if at is not None and visit.is_partial:
        return await visit.show("_origin.html", origins=origins)
    record: TurnRecord
    turn: PreparedTurn
    record, turn = await visit.ask("get_turn", run=load_turn)
    receipt = await visit.ask("get_receipt")
    around = await visit.ask(
        "list_turns", branch=turn.branch_id, before=turn.depth + _NEIGHBOURS, limit=2 * _NEIGHBOURS
    )
    chosen = visit.query.get("view", VIEWS[0])
    return await visit.show(
        "turn.html",
        turn=turn,
        shown=view_turn(turn),
        said=record.messages,
        calls=receipt.calls,
        around=around.items,
        origins=origins,
        views=VIEWS,
        chosen=chosen if chosen in VIEWS else VIEWS[0],
        groups=GROUPS,
    )


ROOM = Room(name="turn", pages={"GET /s/{session_id}": show_newest, "GET /s/{session_id}/t/{turn_id}": show_turn})

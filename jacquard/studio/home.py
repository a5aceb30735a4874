"""Home: the conversations."""

from __future__ import annotations

from starlette.responses import Response

from jacquard.studio.visit import Room, Visit


async def show_home(visit: Visit) -> Response:
    """Return a page of conversations."""
    wanted, after = visit.query.get("query", ""), visit.query.get("after", "")
    found = await visit.ask("list_sessions", query=wanted, after=after)
    return await visit.show("home.html", found=found, wanted=wanted)


ROOM = Room(name="home", pages={"GET /": show_home})

"""Shows the home page: the conversations, the address for chat clients, and the state of the model server."""

from __future__ import annotations

from starlette.responses import Response

from jacquard.remote.bodies import HealthAnswer
from jacquard.service.values import Scope
from jacquard.studio.visit import Room, Visit

CLIENTS = ("sillytavern", "openwebui", "openai")
"""Programs for which the page names the steps to connect them."""


async def show_home(visit: Visit) -> Response:
    """Return a page of conversations."""
    wanted, after = visit.query.get("query", ""), visit.query.get("after", "")
    found = await visit.ask("list_conversations", query=wanted, after=after)
    return await visit.show(
        "home.html",
        found=found,
        wanted=wanted,
        address=f"{visit.request.base_url}v1",
        clients=CLIENTS,
        asks_upstream=visit.principal.allows(Scope.ADMIN),
        may_import=visit.principal.allows(Scope.AUTHOR),
    )


async def show_upstream(visit: Visit) -> Response:
    """Return the state of the model server, a part of the page."""
    return await visit.show("_upstream.html", upstream=await visit.ask("get_upstream"))


async def show_health(visit: Visit) -> Response:
    """Return what does not work in the store, a part of the page; nothing if all is well."""
    health: HealthAnswer = await visit.ask("check_health")
    return await visit.show("_health.html", health=health)


ROOM = Room(
    name="home",
    pages={"GET /": show_home, "GET /studio/upstream": show_upstream, "GET /studio/health": show_health},
)

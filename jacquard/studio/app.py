"""Opens the studio for a service. This module is imported only if the setting `studio` of the service is on."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from jacquard.service.access.records import ServiceRecords
from jacquard.service.answers import Refusal
from jacquard.service.http.endpoints import answer_failure
from jacquard.service.running.application import ServicePages
from jacquard.service.tenants import TenantRuntimes
from jacquard.studio import evaluation, home, house, memory, timeline, transfer, trial, turn, world
from jacquard.studio.door import Door
from jacquard.studio.visit import TEXTS, Page, Room, StudioService, Visit, language_of, read_ids

ROOMS: tuple[Room, ...] = (
    home.ROOM,
    timeline.ROOM,
    turn.ROOM,
    trial.ROOM,
    memory.ROOM,
    world.ROOM,
    evaluation.ROOM,
    transfer.ROOM,
    house.ROOM,
)
"""Rooms, in the order of the navigation."""


def open_studio(tenants: TenantRuntimes, records: ServiceRecords | None) -> ServicePages:
    """Return the pages of a service. `records` contains the tokens of the service (None: the service has no tenants)."""
    service = StudioService(tenants=tenants, records=records, rooms=ROOMS)
    routes = [_route(service, room, place, page) for room in ROOMS for place, page in room.pages.items()]
    return ServicePages(Middleware(Door, find=None if records is None else records.tokens.find), routes)


def _route(service: StudioService, room: Room, place: str, page: Page) -> Route:
    method, _, path = place.partition(" ")

    async def endpoint(request: Request) -> Response:
        if path == "/" and "text/html" not in request.headers.get("accept", ""):
            raise HTTPException(404)
        visit = Visit(request=request, service=service, room=room, t=TEXTS[language_of(request)], ids=read_ids(request))
        try:
            return await page(visit)
        except (Refusal, HTTPException):
            raise
        except Exception as error:
            return answer_failure(request, error)

    return Route(path, endpoint, methods=[method])

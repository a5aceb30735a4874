"""Defines a visit, which is one request for a page, and a room, which is a group of pages."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from jacquard.authoring.replay.pages import FOLDER as TURN_FOLDER
from jacquard.authoring.replay.pages import PageTexts, open_templates, read_texts
from jacquard.authoring.replay.turn_page import TEXTS as TURN_TEXTS
from jacquard.core.sentences import LANGUAGES
from jacquard.remote.operations import BY_NAME
from jacquard.service.access.principals import act_as, note_of
from jacquard.service.access.records import ServiceRecords
from jacquard.service.answers import Refusal, accepted_language
from jacquard.service.http.call import Run
from jacquard.service.http.endpoints import check_access, decode_id, read_parameter, run_operation
from jacquard.service.tenants import TenantRuntimes
from jacquard.service.values import Principal
from mnemosyne.core import codec
from mnemosyne.schema.memory import EMPTY
from mnemosyne.values import dataclass

FOLDER = Path(__file__).parent
LANGUAGE_COOKIE = "jacquard_language"
_COOKIE_SECONDS = 365 * 86_400

TEMPLATES = open_templates(FOLDER / "templates", TURN_FOLDER)
TEXTS = read_texts(TURN_TEXTS, *sorted((FOLDER / "texts").glob("*.toml")))


@dataclass(frozen=True, kw_only=True, slots=True)
class StudioService:
    """Parts of the service that pages work on."""

    tenants: TenantRuntimes
    records: ServiceRecords | None
    rooms: tuple[Room, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Visit:
    """One request for a page."""

    request: Request
    service: StudioService
    room: Room
    t: PageTexts
    ids: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    """Decoded ids from the address."""

    @property
    def query(self) -> Mapping[str, str]:
        """Parameters of the address."""
        return self.request.query_params

    @property
    def is_partial(self) -> bool:
        """True if htmx asks for a part of the page."""
        return "hx-request" in self.request.headers and "hx-boosted" not in self.request.headers

    @property
    def principal(self) -> Principal:
        """The caller."""
        return note_of(self.request).principal

    def here(self, **query: object) -> str:
        """Return the address of this page with changed parameters. A parameter whose new value is None is left out."""
        path, own = self.request.url.path, {**self.query, **query}
        return _join(path, own)

    async def ask(self, name: str, /, *, body: Any = None, run: Run | None = None, **sent: Any) -> Any:
        """Call the operation `name` and return its answer as a value.

        `sent` contains the ids in the operation's address, and its parameters (a text is checked as in an address). Ids
        that are missing in `sent` are taken from the page. `run` is a handler that returns the answer in another form
        (None: the handler of the operation). Raises Refusal if the caller has no right to call the operation. Raises the errors
        of the operation.
        """
        operation, note = BY_NAME[name], note_of(self.request)
        note.operation = name
        check_access(operation, note.principal)
        ids = {each: sent.get(each) or self.ids[each] for each in operation.path_ids}
        given = {each.name: sent.get(each.name, each.default) for each in operation.query}
        query = {
            each.name: read_parameter(each, value) if isinstance(value := given[each.name], str) else value
            for each in operation.query
        }
        note.principal = act_as(note.principal, query.get("viewer"), query.get("author"))
        value = await run_operation(
            operation,
            self.service.tenants,
            self.service.records,
            note,
            run,
            ids=ids,
            query=query,
            body=operation.body() if body is None and operation.body is not None else body,
            key="",
        )
        return await to_thread.run_sync(codec.decode, value, operation.answer) if isinstance(value, bytes) else value

    async def form(self, most_fields: int = 1_000) -> dict[str, str]:
        """Return the fields of the form that was sent, at most `most_fields`. If several fields have the same name, the last
        one counts.
        """
        data = (await self.request.body()).decode("utf-8", "replace")
        return dict(parse_qsl(data, keep_blank_values=True, max_num_fields=most_fields))

    async def show(self, template: str, status: int = 200, **values: Any) -> Response:
        """Return a page or a part of one. Templates get `values`, the texts as `t`, and this visit as `visit`."""
        values |= {"t": self.t, "visit": self, "link": link, "write_json": write_json}
        page = await to_thread.run_sync(lambda: TEMPLATES.get_template(template).render(values))
        return HTMLResponse(page, status)

    def go(self, address: str) -> Response:
        """Return an answer that leads the browser to another page of the studio."""
        if self.is_partial:
            return Response(headers={"hx-redirect": address})
        return RedirectResponse(address, 303)


Page = Callable[[Visit], Awaitable[Response]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """Pages for one purpose."""

    name: str
    """Name of the room's module, of its table of texts, and of its entry in the navigation (`room.NAME`)."""
    pages: Mapping[str, Page]
    """Functions of its pages, by method and path (`GET /s/{session_id}/t/{turn_id}`). The navigation leads to the first one
    whose ids a visit has.
    """

    def address(self, ids: Mapping[str, str]) -> str | None:
        """Return the address of the room's first page for which `ids` suffice. Return None if there is no such page."""
        known = {name: quote(value, safe="") for name, value in ids.items()}
        for place in self.pages:
            method, _, path = place.partition(" ")
            with suppress(KeyError):
                if method == "GET":
                    return path.format_map(known)
        return None


def write_json(value: Any, indent: int | None = None) -> str:
    """Return the JSON of a value for people to read."""
    return json.dumps(codec.to_plain(value), ensure_ascii=False, indent=indent)


def link(*parts: object, **query: object) -> str:
    """Return an address below the studio's root: `link("s", session_id, "t", turn_id, view="plan")`. None is left out."""
    return _join("/" + "/".join(quote(str(part), safe="") for part in parts), query)


def _join(path: str, query: Mapping[str, object]) -> str:
    sent = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in query.items() if value is not None)
    return f"{path}?{sent}" if sent else path


def language_of(request: Request) -> str:
    """Return the language of a page. It is named by the parameter `lang`, else by the cookie, else by the browser."""
    for asked in (request.query_params.get("lang"), request.cookies.get(LANGUAGE_COOKIE)):
        if asked in LANGUAGES:
            return asked
    return accepted_language(request.headers)


def keep_language(request: Request, response: Response) -> None:
    """Set the cookie of the language, if the address asks for one."""
    if (asked := request.query_params.get("lang")) in LANGUAGES:
        response.set_cookie(LANGUAGE_COOKIE, asked, _COOKIE_SECONDS, httponly=True, samesite="strict")


def read_ids(request: Request) -> dict[str, str]:
    """Return the decoded ids in the path of a request. Raises Refusal if one is not valid."""
    return {name: decode_id(name, value) for name, value in request.path_params.items()}


def forbid_cross_site(headers: Mapping[str, str]) -> None:
    """Raise Refusal unless a page of the studio itself sends the request."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    # Browsers name the origin, the relation of the sites, or both.
    agreed = [origin.partition("://")[2] == headers.get("host")] if origin is not None else []
    agreed += [site == "same-origin"] if site is not None else []
    if not agreed or not all(agreed):
        raise Refusal(
            403, "foreign_origin", "Only pages of the studio itself may send this; other programs use the API."
        )

"""Defines the middleware before the gate of the service that lets browsers in to the pages of the studio.

A browser sends no token by itself. So the studio keeps the token in a cookie that scripts cannot read and other sites
cannot use. For addresses of the studio, and only for these, the cookie counts as the token. Requests that change
something must come from a page of the studio. Every answer has the content policy, and a refused request gets a page
instead of JSON.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qsl

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jacquard.authoring.replay.pages import FOLDER as TURN_FOLDER
from jacquard.remote.operation import API
from jacquard.remote.wire import ErrorAnswer, ErrorBody
from jacquard.service.answers import Refusal
from jacquard.service.values import Principal
from jacquard.studio.visit import FOLDER, TEMPLATES, TEXTS, forbid_cross_site, keep_language, language_of, link
from mnemosyne.core import codec
from mnemosyne.core.errors import UnreadableError

OUR_PATHS = re.compile(r"/|/s/.*|/studio(?:/.*)?")
"""Paths of the studio."""

EVENTS = re.compile(r"/s(/[^/]+/events)")
"""Paths of streams of events. They lead to the operation of the API, so that the cookie opens them too."""

LOGIN, LOGOUT, STATIC = "/studio/login", "/studio/logout", "/studio/static/"
TOKEN_COOKIE = "jacquard_token"
_MOST_FORM_BYTES = 4_000

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    # Not `no-referrer`: browsers would then send `Origin: null` with forms.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}

_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".txt": "text/plain"}


def _read_static() -> dict[str, tuple[bytes, str]]:
    files = [*(FOLDER / "static").iterdir(), TURN_FOLDER / "turn_page.css"]
    return {each.name: (each.read_bytes(), _TYPES[each.suffix]) for each in files if each.suffix in _TYPES}


FILES = _read_static()
VERSION = hashlib.sha256(b"".join(data for _, (data, _) in sorted(FILES.items()))).hexdigest()[:12]
"""Hash that changes with every file that pages load, so that browsers may cache these files."""

TEMPLATES.globals["static"] = lambda name: f"{STATIC}{name}?v={VERSION}"

FindPrincipal = Callable[[str], Awaitable[Principal | None]]


class Door:
    """Wraps the application `app`. `find` returns the caller to whom a token belongs (None: the service has no tenants)."""

    def __init__(self, app: ASGIApp, *, find: FindPrincipal | None) -> None:
        self._app, self._find = app, find

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass requests of other addresses on unchanged, and those of the studio as this module says."""
        if scope["type"] != "http" or OUR_PATHS.fullmatch(scope["path"]) is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        answer = _Answer(request, send)
        try:
            if scope["method"] not in ("GET", "HEAD"):
                forbid_cross_site(request.headers)
            if (open_page := await self._open_page(request)) is not None:
                await open_page(scope, receive, answer.pass_on)
                return
        except Refusal as refusal:
            await answer.refuse(refusal.status, refusal.body)
            return
        inner = _with_token(scope, request)
        if (stream := EVENTS.fullmatch(scope["path"])) is not None and scope["method"] == "GET":
            inner = {**inner, "path": f"{API}/sessions{stream[1]}"}
        await self._app(inner, receive, answer.pass_on)
        await answer.finish()

    async def _open_page(self, request: Request) -> Response | None:
        """Return the answer of an address that is open to everyone; None for other addresses."""
        path, method = request.url.path, request.method
        if path.startswith(STATIC) and method in ("GET", "HEAD"):
            return _static_file(path.removeprefix(STATIC), request)
        if path == LOGOUT and method == "POST":
            gone = RedirectResponse(LOGIN, 303)
            gone.delete_cookie(TOKEN_COOKIE, httponly=True, samesite="strict")
            return gone
        if path != LOGIN:
            return None
        if self._find is None:
            return RedirectResponse("/", 303)
        if method == "POST":
            return await self._log_in(request)
        return show_login(request)

    async def _log_in(self, request: Request) -> Response:
        data = bytearray()
        async for chunk in request.stream():
            data += chunk
            if len(data) > _MOST_FORM_BYTES:
                raise Refusal(413, "body_too_large", "The form is too long.")
        form = dict(_parse_form(bytes(data)))
        token = form.get("token", "").strip()
        if self._find is None or await self._find(token) is None:
            return show_login(request, 401, is_refused=True)
        done = RedirectResponse(_own_address(form.get("next", "/")), 303)
        done.set_cookie(TOKEN_COOKIE, token, httponly=True, samesite="strict", secure=request.url.scheme == "https")
        return done


def show_login(request: Request, status: int = 200, *, is_refused: bool = False) -> Response:
    """Return the page on which a user enters a token. `status` is the HTTP status, and `is_refused` is true if a token
    was refused.
    """
    here = request.url.path if request.method == "GET" and request.url.path != LOGIN else "/"
    wanted = _own_address(request.query_params.get("next", here))
    page = TEMPLATES.get_template("login.html").render(
        t=TEXTS[language_of(request)], visit=None, link=link, wanted=wanted, is_refused=is_refused
    )
    return HTMLResponse(page, status)


class _Answer:
    """Sends the answer of the application with the headers of the studio; a fault becomes a page."""

    def __init__(self, request: Request, send: Send) -> None:
        self._request, self._send = request, send
        self._fault: tuple[int, bytearray] | None = None

    async def pass_on(self, message: Message) -> None:
        """Send a message of the answer, or keep it if the answer is a fault."""
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=list(message["headers"]))
            if message["status"] >= 400 and headers.get("content-type", "").startswith("application/json"):
                self._fault = message["status"], bytearray()
                return
            headers.update(HEADERS)
            headers.setdefault("cache-control", "no-store")
            kept = Response()
            kept.raw_headers = []
            keep_language(self._request, kept)
            message = {**message, "headers": [*headers.raw, *kept.raw_headers]}
        if self._fault is not None:
            self._fault[1].extend(message.get("body", b""))
            return
        await self._send(message)

    async def finish(self) -> None:
        """Send the page of a fault, if there was one."""
        if self._fault is not None:
            status, data = self._fault
            try:
                body = codec.decode(bytes(data), ErrorAnswer).error
            except UnreadableError:
                body = ErrorBody(code="http", message="")
            self._fault = None
            await self.refuse(status, body)

    async def refuse(self, status: int, body: ErrorBody) -> None:
        """Answer with a page that names a fault."""
        request = self._request
        is_part = "hx-request" in request.headers
        page: Response
        if status == 401 and is_part:
            page = Response(status_code=200, headers={"hx-redirect": LOGIN})
        elif status == 401:
            page = show_login(request, 401, is_refused=TOKEN_COOKIE in request.cookies)
        elif not is_part and "text/html" not in request.headers.get("accept", ""):
            page = Response(codec.encode(ErrorAnswer(error=body)), status, media_type="application/json")
            page.headers.update(HEADERS)
            await page(request.scope, request.receive, self._send)
            return
        else:
            name = "_fault.html" if is_part else "error.html"
            t = TEXTS[language_of(request)]
            page = HTMLResponse(
                TEMPLATES.get_template(name).render(t=t, visit=None, link=link, status=status, fault=body), status
            )
        await page(request.scope, request.receive, self.pass_on)


def _with_token(scope: Scope, request: Request) -> Scope:
    """Return the scope of a request with the token of its cookie, if it has no other."""
    token = request.cookies.get(TOKEN_COOKIE)
    if not token or "authorization" in request.headers or "x-api-key" in request.headers:
        return scope
    return {**scope, "headers": [*scope["headers"], (b"authorization", f"Bearer {token}".encode("latin-1", "replace"))]}


def _static_file(name: str, request: Request) -> Response:
    if name not in FILES:
        raise Refusal(404, "not_found", "There is no such file.")
    data, kind = FILES[name]
    is_current = request.query_params.get("v") == VERSION
    age = "public, max-age=31536000, immutable" if is_current else "no-cache"
    return Response(data, media_type=kind, headers={"cache-control": age})


def _own_address(wanted: str) -> str:
    """Return `wanted` if it is an address of the studio, or else its root."""
    return wanted if re.fullmatch(r"/(?![/\\])[^\\\x00-\x20]*", wanted) else "/"


def _parse_form(data: bytes) -> list[tuple[str, str]]:
    return parse_qsl(data.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=10)

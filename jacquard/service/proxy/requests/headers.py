"""Headers of a call that go upstream, and headers of an answer that come back. Pure.

A header has one Latin-1 character for each of its bytes, so it leaves byte for byte. Without tenants the client's keys go
upstream unchanged. With tenants they are tokens of this service: none of them leaves it, and the server's upstream key replaces
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Headers = list[tuple[str, str]]

SESSION_HEADERS = ("x-jacquard-session", "x-openwebui-chat-id", "x-librechat-conversation-id")
"""Headers that name the conversation.

The second is Open WebUI's with `ENABLE_FORWARD_USER_INFO_HEADERS`, the third is set by LibreChat's users.
"""

RECEIPT = "X-Jacquard-Receipt"
PAGE = "X-Jacquard-Page"
DEGRADED = "X-Jacquard-Degraded"
ERROR = "X-Jacquard-Error"
PASSED = "X-Jacquard-Pass"
ALIGNMENT = "X-Jacquard-Alignment"
"""Header with the decision on the client's messages (`jacquard.service.proxy.alignment.Decision`)."""
OWN_PREFIX = "x-jacquard-"

_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_NOT_UPSTREAM = _HOP_BY_HOP | {
    "accept-encoding",
    "content-length",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "origin",
    "referer",
    "x-real-ip",
    "x-request-id",
}
KEY_HEADERS = frozenset({"authorization", "x-api-key", "api-key", "x-goog-api-key", "x-auth-token"})
"""Headers in which clients send their key."""

_NOT_BACK = _HOP_BY_HOP | {
    "alt-svc",
    "content-encoding",
    "content-length",
    "date",
    "server",
    "set-cookie",
    "strict-transport-security",
}


def read_header(headers: Mapping[str, str], name: str) -> str:
    """Return the text of a header, which clients write in UTF-8, or else in Latin-1; '' if there is none."""
    value = headers.get(name, "")
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value


def headers_for_upstream(sent: Iterable[tuple[str, str]], key_headers: Headers | None) -> Headers:
    """Return the headers of the upstream call, in their order.

    `key_headers` are those of the server's own key; None: the client's own keys go upstream. Headers of one connection, of this
    service or of a browser's page here are left out, and so is compression, because events are read as they pass.
    """
    pairs = [(name.lower(), value) for name, value in sent]
    named = {word.strip().lower() for name, value in pairs if name == "connection" for word in value.split(",")}
    kept = [(name, value) for name, value in pairs if _goes_up(name) and name not in named]
    if key_headers is not None:
        kept = [(name, value) for name, value in kept if name not in KEY_HEADERS] + key_headers
    return [*kept, ("accept-encoding", "identity")]


def _goes_up(name: str) -> bool:
    return name not in _NOT_UPSTREAM and not name.startswith((OWN_PREFIX, "x-forwarded-", "sec-"))


def headers_for_client(received: Iterable[tuple[str, str]]) -> Headers:
    """Return the headers of an answer for the client, including limits, ids and times of the model server."""
    pairs = [(name.lower(), value) for name, value in received]
    return [(name, value) for name, value in pairs if name not in _NOT_BACK and not _is_own(name)]


def _is_own(name: str) -> bool:
    return name.startswith((OWN_PREFIX, "access-control-"))

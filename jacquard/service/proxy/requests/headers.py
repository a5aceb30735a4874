"""Selects the headers of a call that go to the model server, and the headers of the answer that go back to the client.

A header has one Latin-1 character for each byte, so it is sent on byte for byte. Without tenants, the client's keys go
to the model server unchanged. With tenants, the client's keys are tokens of this service. Such tokens are never sent
on; the key in the settings replaces them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Headers = list[tuple[str, str]]

SESSION_HEADERS = ("x-jacquard-session", "x-openwebui-chat-id", "x-librechat-conversation-id")
"""Headers in which clients name their conversation.

Open WebUI sends the second one if `ENABLE_FORWARD_USER_INFO_HEADERS` is set. Users of LibreChat configure the third
one.
"""

RECEIPT = "X-Jacquard-Receipt"
PAGE = "X-Jacquard-Page"
DEGRADED = "X-Jacquard-Degraded"
ERROR = "X-Jacquard-Error"
PASSED = "X-Jacquard-Pass"
ALIGNMENT = "X-Jacquard-Alignment"
"""Header that states how the client's messages were understood (`jacquard.service.proxy.alignment.Decision`)."""
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
"""Headers in which clients send their key, in lower case."""

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
    """Return the text of the header `name`. Return '' if there is no such header. Clients encode headers in UTF-8 or in
    Latin-1.
    """
    value = headers.get(name, "")
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value


def headers_for_upstream(sent: Iterable[tuple[str, str]], key_headers: Headers | None) -> Headers:
    """Return the headers for the call of the model server, in the order in which the client sent them.

    `key_headers` are the headers with the key of this service (None: the client's own keys are sent on). Headers that
    concern one connection, this service, or a web page in a browser are left out. The answer must not be compressed,
    because its events are read as they pass.
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
    """Return the headers of an answer that go to the client. They include the limits, ids and times of the model server."""
    pairs = [(name.lower(), value) for name, value in received]
    return [(name, value) for name, value in pairs if name not in _NOT_BACK and not _is_own(name)]


def _is_own(name: str) -> bool:
    return name.startswith((OWN_PREFIX, "access-control-"))

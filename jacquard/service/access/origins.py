"""Decides which web pages may call the service, and by which host names it may be called. Pure.

Before a page of another site sends JSON or reads an answer, its browser asks the service for permission (CORS). The
setting `service.origins` lists the sites that get the permission.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from jacquard.service.answers import JSON, Refusal

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})
PREFLIGHT_SECONDS = 600
"""Seconds for which a browser may remember that it has the permission."""

Pairs = list[tuple[bytes, bytes]]


def check_host(host: str, named: Iterable[str]) -> None:
    """Check the Host header of a request. Raises Refusal if it is neither a loopback name nor one of `named`.

    A page of a stranger can make the stranger's own host name lead to this service. This check stops requests under
    such a name.
    """
    name = host.rpartition(":")[0] if re.search(r":[0-9]{1,5}$", host) else host
    if name.strip("[]").lower() not in LOOPBACK_HOSTS.union(each.lower() for each in named):
        sentence = (
            "Only requests to localhost, 127.0.0.1 or a name in the setting service.hosts are accepted; add the name of this "
            "address there."
        )
        raise Refusal(403, "unknown_host", sentence)


def check_origin(headers: Mapping[str, str], allowed: Iterable[str], *, asks: bool) -> None:
    """Check whether a page of another site may send this request. `asks` is true if the request only asks for
    permission.

    Raises Refusal if the site of the page is not in `allowed`, and the request either asks for permission or has a
    content that is not declared as JSON. Requests with such a content are checked, because browsers send them without
    asking for permission before.
    """
    origin, kind = headers.get("origin"), headers.get("content-type", "").partition(";")[0].strip().lower()
    if origin is not None and not may_call(headers, allowed) and (asks or kind != JSON):
        sentence = (
            "Pages of other sites may not call this service, except those of the setting service.origins; other programs send "
            f"`Content-Type: {JSON}`."
        )
        raise Refusal(403, "foreign_origin", sentence)


def may_call(headers: Mapping[str, str], allowed: Iterable[str]) -> bool:
    """Return whether the page that sends a request may call the service. It may if it comes from the service itself, or
    if its origin is in `allowed`.
    """
    origin = headers.get("origin", "")
    return bool(origin) and (origin.partition("://")[2] == headers.get("host") or origin in allowed)


def is_preflight(method: str, headers: Mapping[str, str]) -> bool:
    """Return whether a request is a preflight, with which a browser asks whether a page may call the service."""
    return method == "OPTIONS" and "origin" in headers and "access-control-request-method" in headers


def permission_of(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that answer a preflight with permission."""
    permission = {
        "access-control-allow-methods": "GET, POST, PUT, PATCH, DELETE",
        "access-control-allow-headers": headers.get("access-control-request-headers", "*"),
        "access-control-max-age": str(PREFLIGHT_SECONDS),
    }
    # Chromium asks for it if a public page calls a local address.
    if headers.get("access-control-request-private-network") == "true":
        permission["access-control-allow-private-network"] = "true"
    return permission


def headers_for_page(headers: Mapping[str, str], allowed: Iterable[str]) -> Pairs:
    """Return the headers that let a page read the answer. The list is empty if the page's origin is not in `allowed`."""
    origin = headers.get("origin", "")
    if not origin or origin not in allowed:
        return []
    shown = [(b"access-control-allow-origin", origin.encode("latin-1")), (b"access-control-expose-headers", b"*")]
    return [*shown, (b"vary", b"Origin")]

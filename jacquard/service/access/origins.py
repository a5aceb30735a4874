"""Pages of other sites that may call the service, and the host names by which it answers. Pure.

A browser asks before a page of another site sends JSON or reads an answer (CORS); the setting `service.origins` lists the
allowed ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from jacquard.service.answers import JSON, Refusal

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})
PREFLIGHT_SECONDS = 600
"""Seconds for which a browser may remember a permission."""

Pairs = list[tuple[bytes, bytes]]


def check_host(host: str, named: Iterable[str]) -> None:
    """Raise Refusal for a host name to which only a browser could have been led, so that a stranger's page does not reach this
    service.
    """
    name = host.rpartition(":")[0] if re.search(r":[0-9]{1,5}$", host) else host
    if name.strip("[]").lower() not in LOOPBACK_HOSTS.union(each.lower() for each in named):
        sentence = (
            "Only requests to localhost, 127.0.0.1 or a name in the setting service.hosts are accepted; add the name of this "
            "address there."
        )
        raise Refusal(403, "unknown_host", sentence)


def check_origin(headers: Mapping[str, str], allowed: Iterable[str], *, asks: bool) -> None:
    """Raise Refusal for another site's page that asks for a permission, or that sends without asking.

    Browsers allow the latter for all content that is not declared as JSON.
    """
    origin, kind = headers.get("origin"), headers.get("content-type", "").partition(";")[0].strip().lower()
    if origin is not None and not may_call(headers, allowed) and (asks or kind != JSON):
        sentence = (
            "Pages of other sites may not call this service, except those of the setting service.origins; other programs send "
            f"`Content-Type: {JSON}`."
        )
        raise Refusal(403, "foreign_origin", sentence)


def may_call(headers: Mapping[str, str], allowed: Iterable[str]) -> bool:
    """Return whether a page may call the service: one served by the service, or one of an allowed origin."""
    origin = headers.get("origin", "")
    return bool(origin) and (origin.partition("://")[2] == headers.get("host") or origin in allowed)


def is_preflight(method: str, headers: Mapping[str, str]) -> bool:
    """Return whether a browser asks for a permission."""
    return method == "OPTIONS" and "origin" in headers and "access-control-request-method" in headers


def permission_of(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of the answer to a preflight of an allowed page."""
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
    """Return the headers with which a page of an allowed origin may read an answer; none for other pages."""
    origin = headers.get("origin", "")
    if not origin or origin not in allowed:
        return []
    shown = [(b"access-control-allow-origin", origin.encode("latin-1")), (b"access-control-expose-headers", b"*")]
    return [*shown, (b"vary", b"Origin")]

"""Which session a request names, and which of several processes a session belongs to.

Pure calculation: every process and every machine gives the same answer, and so does a client (`jacquard.client.affinity`).
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from jacquard.client.affinity import choose_node as choose_node

_IN_PATH = re.compile(r"/api/v1/sessions/([^/?]+)")


def session_in_path(raw_path: str) -> str:
    """Return the session that an address of the service names, as it was sent; empty where it names none."""
    found = _IN_PATH.match(raw_path)
    return unquote(found[1], errors="replace") if found else ""

"""Session of a request, and the process to which a session belongs.

Pure calculation: every process and every machine gets the same result, and so does a client (`jacquard.client.affinity`).
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from jacquard.client.affinity import choose_node as choose_node

_IN_PATH = re.compile(r"/api/v1/sessions/([^/?]+)")


def session_in_path(raw_path: str) -> str:
    """Return the session in a request's path, encoded as it was sent; '' if there is none."""
    found = _IN_PATH.match(raw_path)
    return unquote(found[1], errors="replace") if found else ""

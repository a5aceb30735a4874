"""Finds the session id in the path of a request, and chooses the process that works on a session.

`choose_node` (from `jacquard.client.affinity`) only calculates, so every process, machine and client chooses the same
process for a session.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from jacquard.client.affinity import choose_node as choose_node

_IN_PATH = re.compile(r"/api/v1/sessions/([^/?]+)")


def session_in_path(raw_path: str) -> str:
    """Return the decoded session id in the path of a request. Return '' if the path contains none. `raw_path` is the
    path as the client sent it.
    """
    found = _IN_PATH.match(raw_path)
    return unquote(found[1], errors="replace") if found else ""

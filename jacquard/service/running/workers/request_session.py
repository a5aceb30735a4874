"""Finds the session of a request whose URL has no session id, in its headers and its body. Pure.

A wrong result costs a detour or a cold cache, never a wrong answer: every process can work on every session.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jacquard.service.proxy.conversation import expected_session
from jacquard.service.proxy.requests.chat_request import Api, read_request

MCP_PATH = "/mcp"
_CHATS = {"/v1/chat/completions": Api.OPENAI, "/v1/messages": Api.ANTHROPIC}


def is_in_body(path: str) -> bool:
    """Return whether the session of a request to this address must be searched in its body."""
    return path == MCP_PATH or path in _CHATS


def session_in_body(path: str, headers: Mapping[str, str], body: bytes) -> str:
    """Return the session of a call of MCP or of a chat client; '' if unknown. `headers` by lower-case name."""
    if path == MCP_PATH:
        return _session_of_tool(body)
    call = read_request(_CHATS[path], body)
    return "" if call is None or call.last_user is None else expected_session(headers, call)


def _session_of_tool(body: bytes) -> str:
    try:
        sent: Any = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    for key in ("params", "arguments", "session_id"):
        sent = sent.get(key) if isinstance(sent, dict) else None
    return sent if isinstance(sent, str) else ""

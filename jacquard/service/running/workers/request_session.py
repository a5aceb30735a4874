"""Finds the session of a request whose URL does not name one, in its headers and its body. Pure.

A wrong result costs only a detour or a cold cache, because every process can work on every session.
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
    """Return whether requests to this path name their session in the headers or the body: calls of MCP and of chat clients."""
    return path == MCP_PATH or path in _CHATS


def session_in_body(path: str, headers: Mapping[str, str], body: bytes) -> str:
    """Return the session id of an MCP call or of a chat client's call. Return '' if the id is not known. The names in
    `headers` are in lower case.
    """
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

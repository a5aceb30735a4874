"""Runs the MCP server over standard input and output, for the program that started this process."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio

from jacquard.config.sections import RuntimeConfig
from jacquard.config.service import ServiceSettings, load_settings
from jacquard.service.access.principals import RequestNote
from jacquard.service.mcp.calls import Service
from jacquard.service.mcp.server import build_server, serve_stdio
from jacquard.service.running.logs import configure_logs, log_request
from jacquard.service.tenants import TenantRuntimes
from jacquard.service.values import Principal
from mnemosyne.schema.memory import EMPTY


def run_stdio(principal: Principal, file: Path | None = None, options: Mapping[str, Any] = EMPTY) -> None:
    """Serve one caller over standard input and output until the input ends. The log goes to standard error.

    `file` and `options` are the arguments of `load_settings`. Raises ConfigError that names every invalid setting.
    """
    settings, engine = load_settings(file, options=options)
    configure_logs()
    # Acknowledged data are stored, and a thread that waits for standard input cannot be asked to end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    anyio.run(_serve, principal, settings, engine)


async def _serve(principal: Principal, settings: ServiceSettings, engine: RuntimeConfig) -> None:
    async with TenantRuntimes(settings, engine) as tenants:
        server = build_server(Service(tenants=tenants), lambda _: RequestNote(principal=principal), log_request)
        await serve_stdio(server)

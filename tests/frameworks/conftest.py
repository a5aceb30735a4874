"""What frameworks must not do while they are tested: send anything, or write into the user's own folders."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def pytest_configure(config):
    """Set what the frameworks read when they are imported; the other tests, which need none of it, keep their environment."""
    if config.inipath is None or config.inipath.parent != Path(__file__).parent:
        return
    home = tempfile.mkdtemp(prefix="jacquard-frameworks-")
    os.environ.update(
        HOME=home,
        XDG_DATA_HOME=home,
        CREWAI_STORAGE_DIR=home,
        CREWAI_DISABLE_TELEMETRY="true",
        CREWAI_TRACING_ENABLED="false",
        HAYSTACK_TELEMETRY_ENABLED="false",
        OPENAI_AGENTS_DISABLE_TRACING="1",
        OPENAI_API_KEY="none",
        OTEL_SDK_DISABLED="true",
    )

"""What frameworks must not do while they are tested: send anything, or write outside of the tests' folders."""

from __future__ import annotations

import os

os.environ.update(
    HAYSTACK_TELEMETRY_ENABLED="false",
    OPENAI_AGENTS_DISABLE_TRACING="1",
    CREWAI_DISABLE_TELEMETRY="true",
    CREWAI_TRACING_ENABLED="false",
    OTEL_SDK_DISABLED="true",
)

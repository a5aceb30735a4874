"""Records the spans of an engine with OpenTelemetry. Only this module imports OpenTelemetry, and only its API.

The host decides where spans go. If the host installs an SDK with an exporter, spans go there; otherwise they are not
recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.trace import Status, StatusCode

from jacquard.adapters.observe.names import ERROR_TYPE, VERSION
from jacquard.adapters.observe.spans import Fact, Span
from mnemosyne.schema.memory import EMPTY


class _OtelSpan:
    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def put(self, facts: Mapping[str, Fact]) -> None:
        self._span.set_attributes(dict(facts))


class OtelTracing:
    """Opens spans with the tracer provider that the host has installed, or with `provider`."""

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("jacquard", VERSION, tracer_provider=provider)

    @contextmanager
    def span(self, name: str, facts: Mapping[str, Fact] = EMPTY) -> Iterator[Span]:
        """Open a span around the block, as a child of the current span. If the block raises, only the type of the
        exception is recorded.
        """
        with self._tracer.start_as_current_span(
            name, attributes=dict(facts), record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield _OtelSpan(span)
            except BaseException as error:
                span.set_attribute(ERROR_TYPE, type(error).__qualname__)
                span.set_status(Status(StatusCode.ERROR, type(error).__name__))
                raise

"""Opens the observers of an engine (events, tracing, metrics), the session locks, and Stream B with its tracing spans
(timed steps).

Stream B recalls and selects memories for a turn. OpenTelemetry, Prometheus and the driver of PostgreSQL are imported
only if a setting names them.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jacquard.adapters.observe.bus import InMemoryEventBus
from jacquard.adapters.observe.models import TracedModel
from jacquard.adapters.observe.spans import NO_TRACING, Tracing
from jacquard.adapters.observe.streams import TracedRetriever, TracedSelector
from jacquard.config.sections import ObservabilityConfig, RuntimeConfig
from jacquard.core.errors import ConfigError
from jacquard.core.protocols import LlmAdapter, Selector
from jacquard.pipeline.curation.stream import CurationStream
from mnemosyne.core.optional_packages import explain_missing_package
from mnemosyne.protocols import EventBus, Retriever, SessionLocks
from mnemosyne.stores.file.session_locks import FileSessionLocks
from mnemosyne.stores.locate import StoreLocation
from mnemosyne.values import dataclass

LOCKS_NAME = "locks"


@dataclass(frozen=True, kw_only=True, slots=True)
class Observability:
    """Observers of an engine.

    `metrics` is a `jacquard.adapters.observe.prometheus.PrometheusMetrics`. `metrics` is None if metrics are off.
    """

    events: EventBus
    tracing: Tracing
    metrics: Any = None


def open_observability(settings: ObservabilityConfig) -> Observability:
    """Return the observers that the settings require. Raises ConfigError if a required extra of the distribution is not
    installed.
    """
    events = InMemoryEventBus()
    tracing: Tracing = NO_TRACING
    metrics: Any = None
    if settings.tracing:
        _require("opentelemetry.trace", "opentelemetry-api", "observability.tracing", "otel")
        tracing = import_module("jacquard.adapters.observe.otel").OtelTracing()
    if settings.metrics:
        _require("prometheus_client", "prometheus-client", "observability.metrics", "prometheus")
        metrics = import_module("jacquard.adapters.observe.prometheus").PrometheusMetrics()
        events.on_all(metrics.count)
    return Observability(events=events, tracing=tracing, metrics=metrics)


def trace_model(model: LlmAdapter, tracing: Tracing, *, capture_content: bool) -> LlmAdapter:
    """Return `model` wrapped so that each call is recorded as a span. Return `model` unchanged if tracing is off. If
    `capture_content` is true, spans contain the texts of the calls.
    """
    if tracing is NO_TRACING or isinstance(model, TracedModel):
        return model
    return TracedModel(model, tracing, capture_content)


def build_curation_stream(
    retriever: Retriever, selector: Selector | None, fallback: Selector, tracing: Tracing
) -> CurationStream:
    """Return Stream B made of these parts. If tracing is on, its recalls and selections are recorded as spans.

    `fallback` selects if `selector` is None or fails.
    """
    if tracing is NO_TRACING:
        return CurationStream(retriever, selector, fallback)
    chooser = None if selector is None else TracedSelector(selector, tracing)
    return CurationStream(TracedRetriever(retriever, tracing), chooser, TracedSelector(fallback, tracing))


def _require(module: str, package: str, setting: str, extra: str) -> None:
    if find_spec(module.partition(".")[0]) is None or find_spec(module) is None:
        raise ConfigError(explain_missing_package(setting, package, extra))


def open_locks(location: StoreLocation, index: Path, tenant: str, settings: RuntimeConfig) -> SessionLocks | None:
    """Return locks that allow one call at a time on a session, across processes. Return None if the store is in memory.

    `index` is the folder of the index, next to which lock files are kept. For a store of a plugin, the locks work only
    on this host; a write of another host is detected by the version of the session.
    """
    wait_seconds = settings.locks.wait_seconds
    if location.postgres is not None:
        locks: SessionLocks = import_module("mnemosyne.stores.postgres.locks").PostgresSessionLocks(
            location.postgres, tenant=tenant, wait_seconds=wait_seconds
        )
        return locks
    if location.kind == "memory":
        return None
    folder = index.with_name(index.name.replace("index", LOCKS_NAME) if "index" in index.name else LOCKS_NAME)
    return FileSessionLocks(folder, tenant=tenant, wait_seconds=wait_seconds)

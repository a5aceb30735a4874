"""Counts requests and engine events for Prometheus, added up over all processes of the service."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from jacquard.adapters.observe.prometheus import PrometheusMetrics
from jacquard.service.access.admission import Admission
from jacquard.service.access.principals import RequestNote

if TYPE_CHECKING:
    from mnemosyne.schema.event import Event

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable with the folder in which the processes of a service share their counts. The library
prometheus_client reads the variable, so it is set before the processes start.
"""

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)


class ServiceMetrics:
    """Counts the requests, and the events of all engines, of this process."""

    def __init__(self, admission: Admission) -> None:
        registry = CollectorRegistry()
        self._engine = PrometheusMetrics(registry)
        self._registry, self._admission = registry, admission
        self._requests = Counter(
            "jacquard_http_requests", "Requests answered.", ["operation", "status"], registry=registry
        )
        self._errors = Counter("jacquard_http_errors", "Errors answered.", ["code"], registry=registry)
        self._seconds = Histogram(
            "jacquard_http_request_seconds", "Time of a request.", ["operation"], buckets=_SECONDS, registry=registry
        )
        self._passed_on = Counter(
            "jacquard_http_passed_on", "Requests that another process of the service has answered.", registry=registry
        )
        self._running = Gauge(
            "jacquard_http_running", "Requests that are worked on.", registry=registry, multiprocess_mode="livesum"
        )
        self._waiting = Gauge(
            "jacquard_http_waiting", "Requests that wait.", registry=registry, multiprocess_mode="livesum"
        )

        limits = Gauge(
            "jacquard_http_limit",
            "Limits of each process (`service.limits`).",
            ["what"],
            registry=registry,
            multiprocess_mode="max",
        )
        for what in ("at_once", "long_at_once", "waiting", "streams"):
            limits.labels(what).set(getattr(admission.limits, what))
        self._long = Gauge(
            "jacquard_http_running_long",
            "Requests that are worked on and took long the last time.",
            registry=registry,
            multiprocess_mode="livesum",
        )

    def count_request(self, note: RequestNote) -> None:
        """Count a finished request. If another process answered the request, only the forwarding is counted here."""
        if note.is_passed_on:
            self._passed_on.inc()
            return
        self._requests.labels(note.operation or "none", str(note.status)).inc()
        if note.error_code:
            self._errors.labels(note.error_code).inc()
        if note.operation:
            self._seconds.labels(note.operation).observe(note.seconds)
        self._running.set(self._admission.running)
        self._waiting.set(self._admission.waiting)
        self._long.set(self._admission.long_running)

    def count_event(self, event: Event) -> None:
        """Count one event of an engine."""
        self._engine.count(event)

    def exposition(self) -> bytes:
        """Return all metrics in the text format that Prometheus reads. With several processes, this blocks on reading files."""
        if SHARED_FOLDER not in os.environ:
            return generate_latest(self._registry)
        _forget_ended_processes()
        shared = CollectorRegistry()
        MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
        return generate_latest(shared)


def _forget_ended_processes() -> None:
    """Remove a killed process's running requests from the sums; its counters stay in them."""
    if os.name == "nt":
        # On such systems, checking for a process by a signal ends it.
        return
    for file in Path(os.environ[SHARED_FOLDER]).glob("gauge_live*_*.db"):
        number = int(file.stem.rpartition("_")[2])
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            mark_process_dead(number)  # type: ignore[no-untyped-call]

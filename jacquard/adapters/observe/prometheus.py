"""Counts the events of an engine as Prometheus metrics. Only this module imports prometheus_client.

Labels are words from short lists (paths, codes, kinds, models), never ids or texts, so a session adds no time series.
`docs/en/observability.md` lists every metric with a question that it answers.
"""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from mnemosyne.schema.event import Event, EventType

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.5, 5.0, 10.0)
_LONG_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0)
_TOKENS = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
_SHARES = (0.1, 0.25, 0.5, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 1.0)
_STEPS = frozenset(
    {"window", "plan", "streams", "stream_a", "stream_b", "recall", "select", "weave", "degrade", "total"}
)


class PrometheusMetrics:
    """Counts events. Pass `count` to a bus (`bus.on_all(metrics.count)`), and the result of `exposition` to the
    scraper.

    `registry` may be a registry of the host. Without one, the metrics have their own registry.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        own = self.registry
        self._events = Counter("jacquard_events", "Events told.", ["type"], registry=own)
        self._turns = Counter("jacquard_turns", "Turns written.", ["what"], registry=own)
        self._seconds = Histogram(
            "jacquard_turn_step_seconds", "Time of a step of prepare_turn.", ["step"], buckets=_SECONDS, registry=own
        )
        self._tokens = Histogram("jacquard_prompt_tokens", "Tokens of a prompt.", buckets=_TOKENS, registry=own)
        self._prefix = Histogram(
            "jacquard_prompt_shared_prefix_ratio",
            "Share of a prompt that its predecessor had.",
            buckets=_SHARES,
            registry=own,
        )
        self._stream_b = Counter("jacquard_stream_b", "Paths of Stream B.", ["path", "code"], registry=own)
        self._prefetch = Counter("jacquard_prefetch", "Late results that were at hand.", ["what"], registry=own)
        self._lease = Counter("jacquard_lease", "Leased choices that were at hand.", ["what"], registry=own)
        self._plans = Counter(
            "jacquard_plans", "Plans by tier and what came of tier 1.", ["tier", "tier1"], registry=own
        )
        self._flags = Counter("jacquard_plan_flags", "Plans that were flagged.", ["flag"], registry=own)
        self._decisions = Counter("jacquard_prune_decisions", "Decisions over blocks.", ["action"], registry=own)
        self._degraded = Counter("jacquard_degradations", "What was done without.", ["reason"], registry=own)
        self._errors = Counter("jacquard_errors", "Errors by kind.", ["reason"], registry=own)
        self._tools = Counter("jacquard_tool_calls", "Tool calls by how they ended.", ["status"], registry=own)
        self._tool_seconds = Histogram(
            "jacquard_tool_call_seconds", "Time of a tool call.", buckets=_LONG_SECONDS, registry=own
        )
        self._model_seconds = Histogram(
            "jacquard_model_call_seconds",
            "Time of a model call.",
            ["model", "stage"],
            buckets=_LONG_SECONDS,
            registry=own,
        )
        self._first_token = Histogram(
            "jacquard_model_first_token_seconds",
            "Time of a model call until its first token.",
            ["model", "stage"],
            buckets=_LONG_SECONDS,
            registry=own,
        )
        self._usage = Counter(
            "jacquard_model_tokens", "Tokens of model calls.", ["model", "stage", "kind"], registry=own
        )
        self._chunks = Counter("jacquard_reply_chunks", "Chunks of replies.", ["duplicate"], registry=own)
        self._evidence = Counter("jacquard_evidence", "Evidence taken in.", ["source"], registry=own)

    def count(self, event: Event) -> None:
        """Count one event."""
        kind, facts = event.event_type, event.payload
        self._events.labels(kind.value).inc()
        if kind is EventType.ASSEMBLED:
            self._count_assembled(facts)
        elif kind is EventType.PRUNE_COMPLETED:
            for action in ("kept", "dropped", "degraded"):
                self._decisions.labels(action).inc(facts.get(action, 0))
        elif kind is EventType.TURN_PLANNED:
            self._plans.labels(str(facts.get("tier")), facts.get("tier1") or "not_needed").inc()
            for flag in facts.get("flags", ()):
                self._flags.labels(flag).inc()
        elif kind is EventType.DEGRADED:
            self._degraded.labels(str(facts.get("reason"))).inc()
        elif kind is EventType.ERROR:
            self._errors.labels(str(facts.get("reason"))).inc()
        elif kind is EventType.TOOL_CALL_COMPLETED:
            self._tools.labels(str(facts.get("status"))).inc()
            if facts.get("duration_ms"):
                self._tool_seconds.observe(facts["duration_ms"] / 1000)
        elif kind is EventType.PERSISTED:
            self._count_persisted(facts)
        elif kind is EventType.ASSISTANT_CHUNK_RECEIVED:
            self._chunks.labels(str(bool(facts.get("duplicate"))).lower()).inc()
        elif kind is EventType.EVIDENCE_INGESTED:
            self._evidence.labels(str(facts.get("source", "ingest"))).inc(len(facts.get("evidence_ids", ("",))))

    def exposition(self) -> bytes:
        """Return all metrics in the text format that Prometheus reads."""
        return generate_latest(self.registry)

    def _count_assembled(self, facts: Any) -> None:
        self._tokens.observe(facts["tokens"])
        if facts["tokens"]:
            self._prefix.observe(facts["shared_prefix_tokens"] / facts["tokens"])
        self._stream_b.labels(facts["stream_b"], facts["stream_b_code"]).inc()
        if (what := facts.get("prefetch", "none")) != "none":
            self._prefetch.labels(what).inc()
        if (what := facts.get("lease", "none")) != "none":
            self._lease.labels(what).inc()
        for step, milliseconds in facts.get("timings_ms", {}).items():
            if step in _STEPS:
                self._seconds.labels(step).observe(milliseconds / 1000)

    def _count_persisted(self, facts: Any) -> None:
        what = str(facts.get("what"))
        self._turns.labels(what).inc()
        if what == "model_usage":
            model, stage = str(facts.get("model")), str(facts.get("stage"))
            self._usage.labels(model, stage, "input").inc(facts.get("prompt_tokens", 0))
            self._usage.labels(model, stage, "output").inc(facts.get("completion_tokens", 0))
            # 0 means that a time was not measured.
            if facts.get("latency_ms"):
                self._model_seconds.labels(model, stage).observe(facts["latency_ms"] / 1000)
            if facts.get("first_token_latency_ms") is not None:
                self._first_token.labels(model, stage).observe(facts["first_token_latency_ms"] / 1000)

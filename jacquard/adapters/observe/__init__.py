"""Makes the work of an engine visible: events, spans and metrics. Only the module `otel` imports OpenTelemetry, and
only the module `prometheus` imports Prometheus.
"""

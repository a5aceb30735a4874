"""Makes the work of an engine visible: events, spans and metrics. Only one module each imports OpenTelemetry and
Prometheus.
"""

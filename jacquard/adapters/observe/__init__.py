"""Observability of an engine: events, spans, metrics. OpenTelemetry and Prometheus have a module each."""

"""What an engine reports of its work: events, spans, metrics. OpenTelemetry and Prometheus have a module each."""

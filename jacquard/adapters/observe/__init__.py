"""What an engine tells of its work: events, spans, metrics. OpenTelemetry and Prometheus are met only by their own modules."""

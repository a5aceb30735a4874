"""Adapters: models behind LiteLLM or a local cross-encoder, and observability (event bus, spans, metrics)."""

"""Connects the engine to models (LiteLLM, a local cross-encoder) and to observers (event bus, spans, metrics)."""

"""Proxy for the OpenAI and Anthropic protocols."""

"""Proxy for chat clients of the OpenAI and the Anthropic protocols. It adds memories to their calls, and keeps each
conversation as a session.
"""

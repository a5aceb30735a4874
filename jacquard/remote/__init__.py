"""Defines each operation of the service once (`operations.py`), for all who need it.

An operation is one call of the service, such as `prepare_turn`. The HTTP routes, the OpenAPI description, the client, the
MCP tools and `docs/en/operations.md` are made from its definition.
"""

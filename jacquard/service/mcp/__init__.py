"""Offers the service to models as an MCP server (Model Context Protocol). Needs the extra `mcp`.

Tools run operations of the service, such as a search of memory or a turn. Resources are data that a client reads by address.
Prompts are texts that a user selects by name.
"""

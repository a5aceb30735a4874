"""MCP server: the memory verbs and the turns of the service as tools, resources and prompts for a model (extra `mcp`)."""

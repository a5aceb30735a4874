"""Service: lets clients in other processes and other languages use the engine.

A request passes the gate (`access`). Then it is answered by an operation (`http`), by the MCP server (`mcp`), or by the
proxy for chat clients (`proxy`). A turn is one user message with its prompt and its reply. A tenant is a customer whose
data are separate from all others. A viewer is the character whose knowledge limits what a caller may see.
"""

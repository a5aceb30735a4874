"""Service: lets clients in other processes and other languages use the engine.

A request passes the gate (`access`). Then it is answered by an operation (`http`), by the MCP server (`mcp`), or by the
proxy for chat clients (`proxy`). A turn is one user message with its prompt and its reply. A tenant is a customer whose
data are separate from all others. A viewer is the character whose knowledge limits what a caller may see. The gate is
the middleware that identifies the caller of a request and admits or refuses the request. A lease gives one process at a
time the right to do a job for the whole store.
"""

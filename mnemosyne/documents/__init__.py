"""Reads, writes and checks session documents and context packages, and generates their JSON Schemas.

A session document is a whole conversation as one JSON object: messages, tasks, tool calls, evidence (the sources of
texts) and context blocks (the parts of a prompt). A context package is the material for one prompt.
"""

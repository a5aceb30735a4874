"""JSON Schemas of the tools, from the types of their operations; short, because a model reads them with every request. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from jacquard.service.http.operation import Operation, Query
from jacquard.service.mcp.tools import Tool
from mnemosyne.core import codec

_PATH_ID = re.compile(r"\{(\w+)\}")
_KINDS = {str: "string", int: "integer", bool: "boolean"}
_PLACE = "#/$defs/{name}"
_DEFINED = re.compile(r"#/\$defs/([\w.]+)")
_CALLER = frozenset({"author", "viewer"})
_DOCS = {
    "changes": "Values by path.",
    "viewers": "Who may know it; none: all.",
    "turn_id": "Of prepare_turn.",
}


def path_ids(operation: Operation) -> tuple[str, ...]:
    """Return the names of the ids in the address of an operation, in its order."""
    return tuple(_PATH_ID.findall(operation.path))


def queries(tool: Tool) -> tuple[Query, ...]:
    """Return the parameters of a tool's address except the viewer, which is the same for all tools."""
    wanted = (each for each in tool.operation.query if each.name not in _CALLER)
    return tuple(each for each in wanted if not tool.only or each.name in tool.only)


def input_schema(tool: Tool, *, is_bound: bool) -> dict[str, Any]:
    """Return the schema of a tool's arguments; without the viewer's for a caller that `is_bound` to one."""
    operation = tool.operation
    properties: dict[str, Any] = {name: {"type": "string"} for name in path_ids(operation)}
    required = list(properties)
    for query in queries(tool):
        properties[query.name] = {"type": _KINDS[query.kind]}
    if operation.body is not None:
        _, named = codec.json_schemas([operation.body], _PLACE)
        body = named[operation.body.__name__]
        for name, schema in body["properties"].items():
            if not tool.only or name in tool.only:
                properties[name] = _shorten(schema, named)
        required += [name for name in body.get("required", ()) if name in properties]
    for name, text in _DOCS.items():
        if name in properties and name not in path_ids(operation):
            properties[name]["description"] = text
    if operation.open_to_viewers and not is_bound:
        properties["viewer"] = {"type": "string"}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def output_schema(tool: Tool) -> dict[str, Any]:
    """Return the schema of a tool's answer, an object: several values are its `items`."""
    schemas, named = codec.json_schemas([tool.answer], _PLACE)
    schema = schemas[0]
    if schema.get("type") == "array":
        schema = {"type": "object", "properties": {"items": schema}, "required": ["items"]}
    if "$ref" in schema:
        schema = dict(named[schema["$ref"].rpartition("/")[2]])
    plain: dict[str, Any] = _without(schema, tool.omit)
    used: dict[str, Any] = {}
    waiting: list[Any] = [plain]
    while waiting:
        for name in _DEFINED.findall(str(waiting.pop())):
            if name not in used:
                used[name] = _without(named[name], tool.omit)
                waiting.append(used[name])
    return {**plain, "$defs": used} if used else plain


def _shorten(schema: Any, named: Mapping[str, Any]) -> Any:
    """Return a schema of an argument without references, defaults and null, because a call leaves out unwanted arguments."""
    if "$ref" in schema:
        return _shorten(named[schema["$ref"].rpartition("/")[2]], named)
    kinds = [_shorten(each, named) for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    if kinds:
        # A message of a chat API has more than one form; a model writes text.
        return next((each for each in kinds if each.get("type") == "string"), kinds[0])
    told = {name: value for name, value in schema.items() if name in ("type", "enum")}
    if "items" in schema:
        told["items"] = _shorten(schema["items"], named)
    return told


def _without(node: Any, omit: frozenset[str]) -> Any:
    if isinstance(node, list):
        return [_without(each, omit) for each in node]
    if not isinstance(node, dict):
        return node
    told = {
        name: _without(value, omit) for name, value in node.items() if name not in ("description", "title", "default")
    }
    if isinstance(properties := node.get("properties"), dict):
        told["properties"] = {name: _without(value, omit) for name, value in properties.items() if name not in omit}
        told["required"] = [name for name in node.get("required", ()) if name not in omit]
    return told

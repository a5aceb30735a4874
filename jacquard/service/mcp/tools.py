"""Lists the tools of the MCP server, and makes the JSON Schemas of their arguments and answers.

A tool is an operation of the service, described for a model. Its description, arguments and answer are shorter than those of the
operation, because a model reads the tools with every request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import quote

from jacquard.remote.operation import Operation, Query, Tool
from jacquard.remote.operations import OPERATIONS
from jacquard.remote.wire import SentMessage, shorten_report
from jacquard.service.http.call import Call, Run
from jacquard.service.http.handlers.turns import prepare
from mnemosyne.core import codec
from mnemosyne.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationTool:
    """An operation that is a tool.

    `form` is its description as a tool. `run` runs the tool (None: run the operation as over HTTP). `answer` is the type of the
    tool's answer.
    """

    operation: Operation
    form: Tool
    run: Run | None = None
    answer: Any = None

    @property
    def name(self) -> str:
        """Name of the tool, which is also the name of its operation."""
        return self.operation.name


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnPrompt:
    """Answer of the tool `prepare_turn`: the prompt of a prepared turn."""

    turn_id: str
    messages: tuple[SentMessage, ...] = ()
    tokens: int = 0
    reply: str | None = None
    """Reply to the user, if the turn needs no model (None: the model has to reply)."""
    receipt: str = ""
    """Address of the resource that explains each part of the prompt (empty after a dry run)."""
    degradations: tuple[str, ...] = ()
    """Codes of the parts of the turn that had to be simplified or left out."""
    redacted: tuple[str, ...] = ()
    """Rules by which secrets were removed from the message."""


async def _prepare_prompt(call: Call) -> TurnPrompt:
    turn = await prepare(call)
    report = shorten_report(turn.report)
    return TurnPrompt(
        turn_id=turn.turn_id,
        messages=tuple(SentMessage(role=each.role, content=each.content) for each in turn.messages),
        tokens=report.budget.used_tokens,
        reply=turn.reply,
        receipt="" if call.is_dry_run else receipt_uri(turn.session_id, turn.turn_id),
        degradations=tuple(each.code for each in report.degradations),
        redacted=report.redacted,
    )


_OWN = {"prepare_turn": (_prepare_prompt, TurnPrompt)}
"""Tools whose answers differ from the answers of their operations: how each runs, and the type of its answer."""


def _offer(operation: Operation, form: Tool) -> OperationTool:
    run, answer = _OWN.get(operation.name, (None, operation.answer))
    return OperationTool(operation=operation, form=form, run=run, answer=answer)


TOOLS: Mapping[str, OperationTool] = {
    each.name: _offer(each, each.tool) for each in OPERATIONS if each.tool is not None
}
"""All tools by name, in the order in which clients list them."""


SCHEME = "jacquard://"


def receipt_uri(session_id: str, turn_id: str) -> str:
    """Return the address of the resource with a turn's receipt (why each block is in the prompt)."""
    return f"{SCHEME}sessions/{quote(session_id, safe='')}/turns/{quote(turn_id, safe='')}/receipt"


_KINDS = {str: "string", int: "integer", bool: "boolean"}
_PLACE = "#/$defs/{name}"
_DEFINED = re.compile(r"#/\$defs/([\w.]+)")
_CALLER = frozenset({"author", "viewer"})
_DOCS = {
    "changes": "Values by path.",
    "viewers": "Who may know it (none: all).",
    "turn_id": "Id from prepare_turn.",
}


def queries(tool: OperationTool) -> tuple[Query, ...]:
    """Return the parameters of an operation that are arguments of its tool, without those that name the caller."""
    wanted = (each for each in tool.operation.query if each.name not in _CALLER)
    return tuple(each for each in wanted if not tool.form.only or each.name in tool.form.only)


def input_schema(tool: OperationTool, *, is_bound: bool) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments.

    It has the argument `viewer` if the operation is open to viewers, except for a caller that `is_bound` to a viewer.
    """
    operation = tool.operation
    properties: dict[str, Any] = {name: {"type": "string"} for name in operation.path_ids}
    required = list(properties)
    for query in queries(tool):
        properties[query.name] = {"type": _KINDS[query.kind]}
    if operation.body is not None:
        _, named = codec.json_schemas([operation.body], _PLACE)
        body = named[operation.body.__name__]
        for name, schema in body["properties"].items():
            if not tool.form.only or name in tool.form.only:
                properties[name] = _shorten(schema, named)
        required += [name for name in body.get("required", ()) if name in properties]
    for name, text in _DOCS.items():
        if name in properties and name not in operation.path_ids:
            properties[name]["description"] = text
    if operation.open_to_viewers and not is_bound:
        properties["viewer"] = {"type": "string"}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


@cache
def output_schema(tool: OperationTool) -> dict[str, Any]:
    """Return the JSON Schema of a tool's answer. The answer is an object; a list becomes its field `items`."""
    schemas, named = codec.json_schemas([tool.answer], _PLACE)
    schema = schemas[0]
    if schema.get("type") == "array":
        schema = {"type": "object", "properties": {"items": schema}, "required": ["items"]}
    if "$ref" in schema:
        schema = dict(named[schema["$ref"].rpartition("/")[2]])
    plain: dict[str, Any] = _without(schema, tool.form.omit)
    used: dict[str, Any] = {}
    waiting: list[Any] = [plain]
    while waiting:
        for name in _DEFINED.findall(str(waiting.pop())):
            if name not in used:
                used[name] = _without(named[name], tool.form.omit)
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

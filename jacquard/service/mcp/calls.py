"""Runs tool calls of the MCP server.

A call's arguments are checked, the operation of the tool runs for the caller, and the answer is shortened for the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any

from anyio import to_thread

from jacquard.core.errors import ConfigError
from jacquard.service.access.principals import RequestNote, act_as
from jacquard.service.access.records import ServiceRecords
from jacquard.service.http.endpoints import check_access, read_parameter, run_operation
from jacquard.service.mcp.tools import OperationTool, input_schema, queries
from jacquard.service.tenants import TenantRuntimes
from mnemosyne.core import codec
from mnemosyne.core.errors import CodecError
from mnemosyne.values import dataclass

MOST_CHARS = 1_000_000
"""Maximum characters of the arguments of one call, as JSON."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Service:
    """The parts of the service that tools and resources use."""

    tenants: TenantRuntimes
    records: ServiceRecords | None = None


async def call_tool(
    service: Service, tool: OperationTool, arguments: Mapping[str, Any], note: RequestNote
) -> dict[str, Any]:
    """Run a tool for the caller in `note`, and return its answer as a JSON object. A list becomes `{"items": […]}`.

    `note` is the record of the request. The viewer and the turn of the call are written into it. Raises Refusal if the
    caller has no right to call the tool. Raises ConfigError if the arguments are invalid. Raises the errors of the operation.
    """
    check_access(tool.operation, note.principal)
    ids, query, body, viewer = await to_thread.run_sync(read_arguments, tool, arguments)
    note.principal = act_as(note.principal, viewer)
    note.turn_id = ids.get("turn_id") or getattr(body, "turn_id", None) or ""
    value = await run_operation(
        tool.operation, service.tenants, service.records, note, tool.run, ids=ids, query=query, body=body, key=""
    )
    return await to_thread.run_sync(_answer, value, tool.form.omit)


def read_arguments(
    tool: OperationTool, sent: Mapping[str, Any]
) -> tuple[dict[str, str], dict[str, Any], Any, str | None]:
    """Return (ids, parameters, body, viewer), read from the arguments that a client sent.

    `ids` are the ids in the operation's address. `parameters` belong to its query string. `body` is the operation's body (None:
    it has none), and `viewer` is None if the arguments name none. Raises ConfigError if an argument is unknown, is missing or has
    the wrong type, or if the arguments are too long. Raises Refusal for an invalid parameter.
    """
    operation = tool.operation
    schema = input_schema(tool, is_bound=False)
    known: dict[str, Any] = schema["properties"]
    # Clients that force a model to follow a schema send null for each argument that it leaves out.
    sent = {name: value for name, value in sent.items() if value is not None}
    if unknown := [name for name in sent if name not in known]:
        raise ConfigError(f"{tool.name} has no argument {unknown[0][:40]!r}; it has: {', '.join(known)}.")
    if missing := [name for name in schema.get("required", ()) if sent.get(name) in (None, "")]:
        raise ConfigError(f"{tool.name} needs {missing[0]!r}; it needs: {', '.join(schema['required'])}.")
    if len(codec.encode(dict(sent))) > MOST_CHARS:
        raise ConfigError(f"The arguments have more than {MOST_CHARS:,} characters; send less at once.")
    texts = (*operation.path_ids, *(("viewer",) if "viewer" in known else ()))
    for name in texts:
        if not isinstance(sent.get(name, ""), str):
            raise ConfigError(f"{name} of {tool.name} is {str(sent[name])[:40]!r}; give a text.")
    query = {each.name: each.default for each in operation.query}
    for each in queries(tool):
        query[each.name] = read_parameter(each, _as_text(sent.get(each.name)))
    body = None
    if operation.body is not None:
        given = {name: value for name, value in sent.items() if name not in texts and name not in query}
        try:
            body = codec.from_plain(given, operation.body, is_lax=True)
        except CodecError as error:
            fault = str(error).partition(": ")[2]
            raise ConfigError(f"An argument of {tool.name} has the wrong type: {fault}") from None
    return {name: sent[name] for name in operation.path_ids}, query, body, sent.get("viewer")


def _as_text(value: Any) -> str | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if value is None or isinstance(value, str) else str(value).lower()


def _answer(value: Any, omit: frozenset[str]) -> dict[str, Any]:
    plain = _shorten(codec.decode(value, dict) if isinstance(value, bytes) else value, omit)
    return {"items": plain} if isinstance(plain, list) else plain


def _shorten(value: Any, omit: frozenset[str]) -> Any:
    """Return a value as JSON data, without the fields of `omit` and without defaults."""
    if isinstance(value, tuple | list):
        return [_shorten(each, omit) for each in value]
    if not (is_dataclass(value) or isinstance(value, codec.Struct)):
        return codec.to_plain(value)
    kind: Any = type(value)
    return {
        name: _shorten(own, omit)
        for name, default in codec.find_defaults(kind).items()
        if name not in omit and (own := getattr(value, name)) != default
    }

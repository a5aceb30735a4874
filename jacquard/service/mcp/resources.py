"""Serves resources of the MCP server: data of the service that a client reads by address.

Each resource is an operation that only reads. Its address has the same path as over HTTP, with another scheme.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import mcp_types as types

from jacquard.remote.operation import Operation
from jacquard.remote.operations import BY_NAME
from jacquard.service.access.principals import RequestNote
from jacquard.service.answers import Refusal
from jacquard.service.http.endpoints import check_access, decode_id, run_operation
from jacquard.service.mcp.calls import Service
from jacquard.service.mcp.tools import SCHEME
from jacquard.service.values import Principal
from mnemosyne.core import codec
from mnemosyne.values import dataclass

JSON = "application/json"
MOST_LISTED = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Resource:
    """An operation that is offered as a resource, and its title for people."""

    operation: Operation
    title: str

    @property
    def template(self) -> str:
        """Address of the resource, with the names of ids in braces."""
        return SCHEME + self.operation.below.removeprefix("/")


RESOURCES = tuple(
    Resource(operation=BY_NAME[name], title=title)
    for name, title in (
        ("list_sessions", "Sessions"),
        ("get_session_head", "A session"),
        ("list_messages", "The newest messages of a session"),
        ("memory_log", "The edits of a session's memory"),
        ("get_receipt", "Why each part is, or is not, in a turn's prompt"),
        ("list_worlds", "Worlds"),
        ("get_world", "A world"),
    )
)


def list_templates(principal: Principal) -> list[types.ResourceTemplate]:
    """Return the templates (addresses that contain ids in braces) that a caller may read."""
    return [
        types.ResourceTemplate(uri_template=each.template, name=each.operation.name, title=each.title, mime_type=JSON)
        for each in RESOURCES
        if "{" in each.template and _may_read(each, principal)
    ]


async def list_resources(service: Service, note: RequestNote) -> list[types.Resource]:
    """Return the resources that the caller may read: the list of sessions, the list of worlds, and single sessions and worlds.

    At most MOST_LISTED single sessions, and as many worlds, are returned.
    """
    found: list[types.Resource] = []
    for each in RESOURCES:
        if "{" in each.template or not _may_read(each, note.principal):
            continue
        name = each.operation.name
        found.append(types.Resource(uri=each.template, name=name, title=each.title, mime_type=JSON))
        listed = await _run(service, each.operation, {}, note)
        ids = listed.items if name == "list_sessions" else [world.world_id for world in listed]
        one = next(other for other in RESOURCES if other.operation.path.startswith(f"{each.operation.path}/{{"))
        if _may_read(one, note.principal):
            found += [
                types.Resource(uri=f"{each.template}/{quote(own, safe='')}", name=own, title=one.title, mime_type=JSON)
                for own in ids[:MOST_LISTED]
            ]
    return found


async def read_resource(service: Service, uri: str, note: RequestNote) -> types.TextResourceContents:
    """Return a resource as JSON.

    Raises Refusal if there is no resource at the address `uri`, or if the caller has no right to read it. Raises the errors of its
    operation.
    """
    path = uri.removeprefix(SCHEME) if uri.startswith(SCHEME) else ""
    for each in RESOURCES:
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(each.template.removeprefix(SCHEME)))
        found = re.fullmatch(pattern, path)
        if found is not None:
            check_access(each.operation, note.principal)
            ids = {name: decode_id(name, value) for name, value in found.groupdict().items()}
            value = await _run(service, each.operation, ids, note)
            return types.TextResourceContents(uri=uri, mime_type=JSON, text=codec.encode(value).decode("utf-8"))
    known = ", ".join(each.template for each in RESOURCES)
    raise Refusal(404, "not_found", f"There is no resource {uri[:200]!r}; there are: {known}.")


async def _run(service: Service, operation: Operation, ids: Mapping[str, str], note: RequestNote) -> Any:
    query = {each.name: each.default for each in operation.query}
    value = await run_operation(
        operation, service.tenants, service.records, note, ids=ids, query=query, body=None, key=""
    )
    return codec.decode(value, list) if isinstance(value, bytes) else value


def _may_read(resource: Resource, principal: Principal) -> bool:
    try:
        check_access(resource.operation, principal)
    except Refusal:
        return False
    return True

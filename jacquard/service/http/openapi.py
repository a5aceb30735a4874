"""Builds the public description of the service (OpenAPI 3.1) from its operations and their types. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, fields
from typing import Any

from jacquard.client.errors import code_of
from jacquard.remote.operation import Operation, Query
from jacquard.remote.wire import ErrorAnswer
from jacquard.service.answers import DOWNLOAD, status_of
from mnemosyne.core import codec

JSON = "application/json"
HTML = "text/html"
_CONTENTS: dict[Any, dict[str, Any]] = {
    str: {HTML: {"schema": {"type": "string"}}},
    bytes: {DOWNLOAD: {"schema": {"type": "string", "format": "binary"}}},
}
"""Contents of answers that are not JSON: a page is a `str` and a file is `bytes`."""
_PLACE = "#/components/schemas/{name}"
_KINDS = {str: "string", int: "integer", bool: "boolean"}
COMMON = {
    400: "What was sent has not the form that is described here; the sentence says what and where.",
    401: "A token is missing, unknown, or has expired.",
    403: "The token does not allow this.",
    413: "The body or a text is too large.",
    415: "The body is no JSON.",
    422: "What was sent has the right form and cannot be used; the sentence says why.",
    429: "Too many requests; Retry-After says when to come again.",
    500: "The service failed.",
    503: "The store or the service is busy; Retry-After says when to come again.",
}
"""Descriptions of the error answers that every operation can give, by status."""


def build_openapi(operations: Sequence[Operation], version: str) -> dict[str, Any]:
    """Return the OpenAPI document that describes `operations`; `version` is the version of the API."""
    kinds = [
        kind for each in operations for kind in (each.described_body or each.body, each.answer) if kind is not None
    ]
    schemas, named = codec.json_schemas([ErrorAnswer, *kinds], _PLACE)
    _describe_times([schemas, named])
    error, rest = schemas[0], iter(schemas[1:])
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        body = None if each.body is None else next(rest)
        answer = None if each.answer is None else next(rest)
        paths.setdefault(each.path, {})[each.method.lower()] = _describe(each, body, answer, error)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Jacquard",
            "version": version,
            "summary": "The exact prompt of every turn of an agent, with a receipt.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": named,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


_DAY = (
    r"[12][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
    r"|([12][0-9](0[48]|[2468][048]|[13579][26])|(1[26]|2[048])00)-02-29"
)
_TIME = rf"^({_DAY})T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{{1,6}})?(Z|[+-](0[0-9]|1[0-3]):[0-5][0-9])$"
"""Times of the years 1000 to 2999, on days that exist: the service answers with them, and takes all of them."""


def _describe_times(node: Any) -> None:
    """Give every time its pattern, because `format` by itself forbids nothing."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if each.get("format") == "date-time":
                each |= {"pattern": _TIME, "minLength": 20}
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)


def _describe(operation: Operation, body: Any, answer: Any, error: Any) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.doc,
        "description": f"Scope of the token: {operation.scope.value}.",
        "parameters": [_id(name) for name in operation.path_ids] + [_query(each) for each in operation.query],
        "responses": _answers(operation, answer, error),
    }
    if operation.method == "POST" and operation.is_repeatable:
        described["parameters"].append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "description": "The same key with the same body is the same call: nothing is made twice.",
                "schema": {"type": "string", "maxLength": 255},
            }
        )
    if body is not None:
        described["requestBody"] = {"required": _is_needed(operation.body), "content": {JSON: {"schema": body}}}
    return described


def _is_needed(body: Any) -> bool:
    """Return whether a call must send a body, because a field of it has no default."""
    return any(each.default is MISSING and each.default_factory is MISSING for each in fields(body))


def _id(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _query(query: Query) -> dict[str, Any]:
    if query.kind is tuple:
        listed = {"type": "array", "minItems": 1, "items": {"type": "string", "enum": list(query.names)}}
        return {"name": query.name, "in": "query", "description": query.doc, "explode": False, "schema": listed}
    schema: dict[str, Any] = {"type": _KINDS[query.kind]}
    for name, value in (("minimum", query.least), ("maximum", query.most), ("default", query.default)):
        if value is not None:
            schema[name] = value
    return {"name": query.name, "in": "query", "description": query.doc, "schema": schema}


def _answers(operation: Operation, answer: Any, error: Any) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    if answer is None:
        answers["204"] = {"description": "Done."}
    else:
        content = _CONTENTS.get(operation.answer, {JSON: {"schema": answer}})
        answers[str(operation.status)] = {"description": "Done.", "content": content}
    codes: dict[int, list[str]] = {}
    if operation.path_ids:
        codes[404] = []
    for kind in operation.errors:
        codes.setdefault(status_of(kind), []).append(code_of(kind))
    for status in sorted({*COMMON, *codes, 409, 502}):
        sentence = COMMON.get(status, "It cannot be done as things stand.")
        named = f" Codes: {', '.join(sorted(codes[status]))}." if codes.get(status) else ""
        answers[str(status)] = {"description": f"{sentence}{named}", "content": {JSON: {"schema": error}}}
    return answers

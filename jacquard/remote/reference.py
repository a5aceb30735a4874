"""Writes the page `operations.md` in both languages from the table of operations; `reference.toml` has its Chinese texts.

Run `python -m jacquard.remote.reference docs` to write it.
"""

from __future__ import annotations

import sys
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from jacquard.core.sentences.pages import write_pages
from jacquard.remote.operation import API, Operation
from jacquard.remote.operations import OPERATIONS

PAGE = "operations.md"
TEXTS = Path(__file__).with_suffix(".toml")
_HEAD = f"""# Operations of the service

Each row is one call of the service. [The service](service.md) explains how to call them, and `/openapi.json` of a running service
has the types of all bodies and answers. This page is written by `python -m jacquard.remote.reference docs`.

- **Operation**: an operation with a **T** is also a [tool of MCP](mcp.md#tools).
- **Address**: the method, and the address below `{API}`.
- **Body, parameters**: `name` is a field of the body, and `name?` is a field that you may leave out. `?name` is a parameter of the
  address.
- **Token**: the scope that a token needs if the service has tenants. `viewer`: a token that is bound to a viewer may call it too.
  *audited*: `list_audited_calls` lists the calls. *no key*: the operation takes no idempotency key, because a second call makes a
  further change. *en, zh*: reasons in the answer are in English, or in Chinese if the header `Accept-Language` asks for it.
- **Python**: the method that does the same, of `ContextEngine` (or `RemoteEngine`), `MemoryVerbs` (or `RemoteVerbs`) or `Runtime`.

| Operation | Address | Body, parameters | Token | Python | Purpose |
|---|---|---|---|---|---|
"""


def render_page() -> str:
    """Return the page as Markdown: its introduction, and a table with one row for each operation."""
    return _HEAD + "".join(f"| {' | '.join(_cells(each))} |\n" for each in OPERATIONS)


def _cells(operation: Operation) -> list[str]:
    body = operation.described_body or operation.body
    sent = [_body_name(each) for each in (fields(body) if body is not None else ())]
    sent += [f"`?{each.name}`" for each in operation.query]
    notes = [operation.scope.value, *(["viewer"] if operation.open_to_viewers else [])]
    notes += ["*audited*"] if operation.is_audited else []
    notes += [] if operation.is_repeatable else ["*no key*"]
    notes += ["*en, zh*"] if operation.has_sentences else []
    return [
        f"`{operation.name}`{' **T**' if operation.tool else ''}",
        f"`{operation.method} {operation.below}`",
        " ".join(sent),
        ", ".join(notes),
        f"`{operation.python}`" if operation.python else "",
        operation.doc,
    ]


def _body_name(field: Field[Any]) -> str:
    is_needed = field.default is MISSING and field.default_factory is MISSING
    return f"`{field.name}{'' if is_needed else '?'}`"


if __name__ == "__main__":
    write_pages(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"), PAGE, render_page(), TEXTS)

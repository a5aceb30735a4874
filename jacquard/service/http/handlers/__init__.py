"""Answers calls of operations. Some operations have a handler: a function of this package. For every other operation, the
table of operations names a method of the engine, of the runtime, or of the memory verbs (functions that edit memory), and
this method answers the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from jacquard.remote.operation import Operation
from jacquard.remote.operations import AUTHOR, VIEWER
from jacquard.service.http.call import HANDLERS, Call
from jacquard.service.http.call_settings import verbs_for
from jacquard.service.http.handlers import (
    access,
    answers,
    evaluations,
    files,
    house,
    memory,
    records,
    sessions,
    turns,
    world_files,
)

_MODULES = (access, answers, evaluations, files, house, memory, records, sessions, turns, world_files)
"""Modules that register handlers when they are imported."""

_OWNERS: Mapping[str, Callable[[Call], Any]] = {
    "ContextEngine": lambda call: call.runtime.engine,
    "Runtime": lambda call: call.runtime,
    "MemoryVerbs": verbs_for,
}


async def run_call(operation: Operation, call: Call) -> Any:
    """Run an operation by its handler, or else by its method, and return the answer."""
    if (handler := HANDLERS.get(operation.name)) is not None:
        return await handler(call)
    owner, _, method = operation.python.partition(".")
    sent = {} if call.body is None else {each.name: getattr(call.body, each.name) for each in fields(call.body)}
    sent |= {name: value for name, value in call.query.items() if name not in (AUTHOR.name, VIEWER.name)}
    return await getattr(_OWNERS[owner](call), method)(*call.ids.values(), **sent)

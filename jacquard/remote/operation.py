"""Values that define an operation of a service: address, parameters, types, who may call it, and how a model sees it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from mnemosyne.core.errors import ContextEngineError

API = "/api/v1"
_ID = re.compile(r"\{(\w+)\}")


class Scope(StrEnum):
    """Scope of a token. `author` includes `play`, and `admin` includes both.

    `play`: sessions, their turns and memories. `author`: also worlds, lore and manual state changes. `admin`: also tokens,
    erasure, reads that are reserved for the host, and copies of the store.
    """

    PLAY = "play"
    AUTHOR = "author"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Query:
    """Parameter of an address.

    `kind` is `str`, `int`, `bool`, or `tuple` for a list of `names` with commas between them.
    """

    name: str
    doc: str
    kind: type = str
    default: Any = None
    least: int | None = None
    most: int | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tool:
    """An operation as a tool for a model, which reads every word of it with every request."""

    doc: str
    only: tuple[str, ...] = ()
    """Fields of the body and parameters that are arguments (none named: all)."""
    omit: frozenset[str] = frozenset()
    """Fields of the answer that are left out."""
    reads: bool = False
    """Whether it changes nothing, though it is not a GET."""
    destroys: bool = False
    is_idempotent: bool = False
    """Whether a second call with the same arguments changes nothing more."""
    for_review: bool = False
    """Whether it is listed only with `memory.review`."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of a service. Only `open_to_viewers` operations may be called with a token that is bound to a viewer: what they
    return is filtered for that viewer.
    """

    name: str
    method: str
    below: str
    """Address below `/api/v1`, with ids in braces."""
    python: str = ""
    """Method of the engine, the verbs or the runtime that does the same in Python (`MemoryVerbs.pin`; empty: none)."""
    body: Any = None
    described_body: Any = None
    """Published form of a body that is read as a looser type, so that all of its faults can be named."""
    answer: Any = None
    status: int = 200
    scope: Scope = Scope.PLAY
    open_to_viewers: bool = False
    is_audited: bool = False
    """Whether it returns texts that prompts would withhold, or erases."""
    is_repeatable: bool = True
    """Whether it takes an idempotency key: with the same key it does nothing more."""
    once: bool = False
    """Whether a client never makes a call again after a broken connection."""
    in_one_process: bool = False
    """Whether it keeps what it needs in memory, so that only the process of the session does it."""
    query: tuple[Query, ...] = ()
    errors: tuple[type[ContextEngineError], ...] = ()
    """Errors to expect besides those of every operation."""
    doc: str = ""
    tool: Tool | None = None

    @property
    def path(self) -> str:
        """The whole address."""
        return f"{API}{self.below}"

    @property
    def path_ids(self) -> tuple[str, ...]:
        """Names of the ids in the address, in its order."""
        return tuple(_ID.findall(self.below))

    @property
    def reads(self) -> bool:
        """Whether it changes nothing."""
        return self.method == "GET" or (self.tool is not None and self.tool.reads)

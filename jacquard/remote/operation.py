"""Defines the classes in which an operation (one call of the service) is described.

A description states the address, the parameters, the types of body and answer, and the rights that a caller needs. If
the operation is also a tool for a model, the description has a `Tool` with the form that the model sees.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any

from mnemosyne.core.errors import ContextEngineError
from mnemosyne.values import dataclass

API = "/api/v1"
_ID = re.compile(r"\{(\w+)\}")


class Scope(StrEnum):
    """Scope of a token: the operations that the token allows.

    - `play`: sessions with their turns and memories.
    - `author`: all of `play`, and worlds, lore and manual changes of the state.
    - `admin`: all of `author`, and tokens, erasure, reads that only the host may make, and copies of the store.
    """

    PLAY = "play"
    AUTHOR = "author"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Query:
    """Parameter in the query string of an address.

    `kind` is the type of the parameter's value: `str`, `int` or `bool`, or `tuple` for a comma-separated list of some
    of `names`. A number must be between `least` and `most`, both included (None: no bound).
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
    """Description of an operation as a tool for a model. Keep it short, because it is sent to the model with every request."""

    doc: str
    only: tuple[str, ...] = ()
    """Body fields and parameters that are arguments of the tool (empty: all of them)."""
    omit: frozenset[str] = frozenset()
    """Fields of the operation's answer that the tool does not return."""
    reads: bool = False
    """True if the operation changes nothing although its method is not GET."""
    destroys: bool = False
    is_idempotent: bool = False
    """True if a second call with the same arguments changes nothing more."""
    for_review: bool = False
    """True if the tool is listed only if the setting `memory.review` is on."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of a service.

    A token can be bound to a viewer (a character). Such a token allows only operations that are `open_to_viewers`.
    These operations return only data that the viewer may know.
    """

    name: str
    method: str
    below: str
    """Address below `/api/v1`, with ids in braces."""
    python: str = ""
    """Python method that does the same, such as `MemoryVerbs.pin` (empty: there is none)."""
    body: Any = None
    described_body: Any = None
    """Type of the body in the published description, if it is stricter than `body` (None: `body` is published)."""
    answer: Any = None
    status: int = 200
    scope: Scope = Scope.PLAY
    open_to_viewers: bool = False
    is_audited: bool = False
    """True if calls are recorded in the audit, because the operation erases data or returns texts that prompts
    withhold.
    """
    is_repeatable: bool = True
    """True if the operation accepts an idempotency key. A second call with the same key changes nothing more."""
    once: bool = False
    """True if the client must not repeat a call after a broken connection."""
    in_one_process: bool = False
    """True if the operation uses data in the memory of one process, so that only the process that works on the session
    can run it.
    """
    has_sentences: bool = False
    """True if reasons in the answer are in the language that the header Accept-Language names (English or Chinese)."""
    query: tuple[Query, ...] = ()
    errors: tuple[type[ContextEngineError], ...] = ()
    """Errors that the operation can return in addition to the errors of every operation."""
    doc: str = ""
    tool: Tool | None = None

    @property
    def path(self) -> str:
        """The whole address, with the names of ids in braces."""
        return f"{API}{self.below}"

    @property
    def path_ids(self) -> tuple[str, ...]:
        """Names of the ids in the address, in the order of the address."""
        return tuple(_ID.findall(self.below))

    @property
    def reads(self) -> bool:
        """True if the operation changes nothing."""
        return self.method == "GET" or (self.tool is not None and self.tool.reads)

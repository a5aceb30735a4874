"""Definition of an operation: its address, its types, who may call it, and its function. Values only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from jacquard.client.wire import ALL, PARTS
from jacquard.service.access.principals import RequestNote
from jacquard.service.access.records import ServiceRecords
from jacquard.service.values import Principal, Scope
from jacquard.wiring.runtime import Runtime
from mnemosyne.core.errors import ContextEngineError
from mnemosyne.schema.memory import EMPTY

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """Parameter of an address: its name, its type, its description, and its default.

    `kind` is `str`, `int`, `bool`, or `tuple` for a list of `names` with commas between them.
    """

    name: str
    doc: str
    kind: type = str
    default: Any = None
    least: int | None = None
    most: int | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One call of an operation: the caller, the runtime, and the request, all of it checked."""

    runtime: Runtime
    note: RequestNote
    """Record of the request."""
    records: ServiceRecords | None = None
    """Records of the service itself, if it has tenants."""
    ids: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    """Ids of the path, decoded."""
    query: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    body: Any = None
    key: str = ""
    """Idempotency key, '' if there is none."""

    @property
    def principal(self) -> Principal:
        """The caller."""
        return self.note.principal

    @property
    def session_id(self) -> str:
        """The session of the path."""
        return self.ids["session_id"]

    def read(self, kind: type[T]) -> T:
        """Return the body, which has the type that the operation names."""
        assert isinstance(self.body, kind)
        return self.body


VIEWER = Query(name="viewer", doc="See and edit what this character may know; with a token of a viewer it is that one.")
AUTHOR = Query(name="author", doc="Who makes the edit, in a service without tenants; with tenants it is the token.")
INCLUDE = Query(
    name="include",
    doc="Parts of the turn to send with its messages, its ids and its short report.",
    kind=tuple,
    default=(),
    names=(*PARTS, ALL),
)

Run = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """Operation of the service."""

    name: str
    method: str
    path: str
    """With ids in braces (`/api/v1/sessions/{session_id}`)."""
    doc: str
    run: Run
    """Returns a value of the type `answer` (or bytes of its JSON), None for no answer, or a response (a page, a stream)."""
    scope: Scope = Scope.PLAY
    body: Any = None
    described_body: Any = None
    """Published form of a body that is read as a looser type, so that all faults can be reported."""
    answer: Any = None
    status: int = 200
    query: tuple[Query, ...] = ()
    errors: tuple[type[ContextEngineError], ...] = ()
    """Errors in addition to those of every operation."""
    open_to_viewers: bool = False
    """True if a token bound to a viewer may call it; the answer is then filtered for that viewer."""
    is_audited: bool = False
    """True if it erases, or returns texts that prompts would withhold."""
    is_repeatable: bool = True
    """False if a repeated call runs again, so that it takes no idempotency key."""
    in_one_process: bool = False
    """True if its data are in memory, so that only the process of the session can do it."""
    is_dry: Callable[[Call], bool] = lambda call: False
    """Returns whether a call writes nothing, so that no quota is checked."""

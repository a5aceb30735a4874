"""What an operation of the service is: its address, its types, who may call it, and the function that does it. Values only."""

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
    """A parameter of an address: its name, its type, what it means, and its value when it is left out.

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
    """One call of an operation: who makes it, on which runtime, and what was sent, all of it checked.

    `note` is what is known of the request. `records` are the service's own, where it has tenants. `ids` are the ids of the path,
    decoded. `key` is the idempotency key, empty where none was sent.
    """

    runtime: Runtime
    note: RequestNote
    records: ServiceRecords | None = None
    ids: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    query: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    body: Any = None
    key: str = ""

    @property
    def principal(self) -> Principal:
        """Who makes the call."""
        return self.note.principal

    @property
    def session_id(self) -> str:
        """The session of the path."""
        return self.ids["session_id"]

    def read(self, kind: type[T]) -> T:
        """Return the body, which is of the type that the operation names."""
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
    """An operation: `run` returns a value of the type `answer` (or bytes of its JSON), None where there is no answer.

    `path` has ids in braces (`/api/v1/sessions/{session_id}`). `described_body` is the published form of a body that is read as a
    looser type, so that all faults can be named. `run` may return an answer of its own (a page, a stream). `errors`
    are those that a caller has to expect beside those of every operation. Only what is `open_to_viewers` may be called with a token
    that is bound to a viewer: what it returns is then filtered for that viewer.
    What is `is_audited` returns texts that prompts would withhold, or erases. What is not `is_repeatable` is done once more
    when a call comes again, so it takes no idempotency key. What is `in_one_process` keeps what it needs in memory, so of
    several processes only that of the session does it. `is_dry` returns whether a call writes nothing, so that no quota is asked.
    """

    name: str
    method: str
    path: str
    doc: str
    run: Run
    scope: Scope = Scope.PLAY
    body: Any = None
    described_body: Any = None
    answer: Any = None
    status: int = 200
    query: tuple[Query, ...] = ()
    errors: tuple[type[ContextEngineError], ...] = ()
    open_to_viewers: bool = False
    is_audited: bool = False
    is_repeatable: bool = True
    in_one_process: bool = False
    is_dry: Callable[[Call], bool] = lambda call: False

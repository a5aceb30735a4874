"""One call of an operation, and the registry of the functions that answer calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from jacquard.remote.operations import BY_NAME
from jacquard.service.access.principals import RequestNote
from jacquard.service.access.records import ServiceRecords
from jacquard.service.values import Principal
from jacquard.wiring.runtime import Runtime
from mnemosyne.schema.memory import EMPTY

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One call of an operation: who makes it, on which runtime, and what was sent, all of it checked."""

    runtime: Runtime
    note: RequestNote
    records: ServiceRecords | None = None
    """Records of the service's own, if it has tenants."""
    ids: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    """Ids of the path, decoded, in its order."""
    query: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    body: Any = None
    key: str = ""
    """Idempotency key (empty: none was sent)."""

    @property
    def principal(self) -> Principal:
        """The caller."""
        return self.note.principal

    @property
    def session_id(self) -> str:
        """The session of the path."""
        return self.ids["session_id"]

    @property
    def is_dry_run(self) -> bool:
        """Whether it writes nothing."""
        return bool(getattr(self.body, "dry_run", False) or self.query.get("dry_run"))

    def read(self, kind: type[T]) -> T:
        """Return the body, which has the type that the operation names."""
        assert isinstance(self.body, kind)
        return self.body


Run = Callable[[Call], Awaitable[Any]]
HANDLERS: dict[str, Run] = {}
"""Functions that answer calls, by the names of their operations: with a value of the operation's answer, with bytes of its JSON, or
with a response of their own (a page, a stream).
"""


def handles(run: Run) -> Run:
    """Register a function as the handler of the operation whose name it has; KeyError for another name."""
    HANDLERS[BY_NAME[run.__name__].name] = run
    return run

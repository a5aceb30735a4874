"""Defines a call of an operation, and registers the functions (handlers) that answer calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Any, TypeVar

from jacquard.config.service import ServiceSettings
from jacquard.remote.operations import BY_NAME
from jacquard.service.access.principals import RequestNote
from jacquard.service.access.records import ServiceRecords
from jacquard.service.tenants import TenantRuntimes
from jacquard.service.values import Principal
from jacquard.wiring.runtime import Runtime
from mnemosyne.schema.memory import EMPTY
from mnemosyne.values import dataclass

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """Call of an operation: the caller, the runtime of the caller's tenant, and the values that were sent. All of them
    are checked.
    """

    runtime: Runtime
    note: RequestNote
    records: ServiceRecords | None = None
    """Tokens and audit of the service (None: the service has no tenants)."""
    ids: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    """Decoded ids from the path of the request, in the order of the path."""
    query: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    body: Any = None
    tenants: TenantRuntimes
    """Runtimes of all tenants, for work that goes on after the handler has returned."""
    key: str = ""
    """Idempotency key of the request; '' if it has none."""

    @property
    def settings(self) -> ServiceSettings:
        """Settings of the service."""
        return self.tenants.settings

    @property
    def principal(self) -> Principal:
        """The caller."""
        return self.note.principal

    @property
    def session_id(self) -> str:
        """Session id in the path of the request. Raises KeyError if the path has none."""
        return self.ids["session_id"]

    @property
    def is_dry_run(self) -> bool:
        """True if the call only shows what it would do, and writes nothing."""
        return bool(getattr(self.body, "dry_run", False) or self.query.get("dry_run"))

    def read(self, kind: type[T]) -> T:
        """Return the body as a value of `kind`, which must be the type that the operation declares."""
        assert isinstance(self.body, kind)
        return self.body


Run = Callable[[Call], Awaitable[Any]]
HANDLERS: dict[str, Run] = {}
"""Handlers, by the names of their operations.

A handler returns a value of the operation's answer type, JSON of such a value as bytes, or a response of its own (a page, a
stream).
"""


def handles(run: Run) -> Run:
    """Register `run` as the handler of the operation that has the same name as the function. Return `run`.

    Raises KeyError if there is no such operation.
    """
    HANDLERS[BY_NAME[run.__name__].name] = run
    return run

"""Converts errors in a service's answer to exceptions of the same class, with the same message and attributes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from filament import FilamentError
from jacquard import JacquardError
from jacquard.remote.wire import ErrorAnswer, ErrorBody
from mnemosyne import ContextEngineError
from mnemosyne.core import codec
from mnemosyne.core.errors import UnreadableError

_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class ServiceError(JacquardError):
    """Raised if the service refused a call or could not be reached, and the engine has no error class for this.

    `status` is the HTTP status (0: no answer). `code` names the kind of error.
    """

    def __init__(self, status: int, code: str, message: str, facts: Mapping[str, Any]) -> None:
        self.status, self.code, self.facts = status, code, facts
        super().__init__(message)


class ServiceUnreachableError(ServiceError):
    """Raised if the service did not answer. `sent` is true if the call may have arrived at the service."""

    def __init__(self, url: str, reason: str, *, sent: bool) -> None:
        self.url, self.sent = url, sent
        what = "the call may have arrived; make it again with the same key" if sent else "nothing was sent; try again"
        super().__init__(0, "unreachable", f"The service at {url} did not answer ({reason}): {what}.", {})


def code_of(error: type[Exception]) -> str:
    """Return the code of an error class: its name in snake case, without `Error`."""
    return _CAPITAL.sub("_", error.__name__.removesuffix("Error")).lower()


def read_error(body: bytes) -> ErrorBody | None:
    """Return the error in the body of an answer. Return None if the body does not have the form of the service's
    errors, because another program, such as a balancer, wrote it.
    """
    try:
        return codec.decode(body, ErrorAnswer).error
    except UnreadableError:
        return None


def error_of(status: int, body: bytes) -> Exception:
    """Return the exception for an answer with an error. If the answer names an error class of the engine, the exception
    has this class. Otherwise it is a ServiceError.
    """
    told = read_error(body) or ErrorBody(
        code="http", message=f"The service answered with HTTP status {status} and no words of its own."
    )
    kind = _classes().get(told.code)
    if kind is None:
        return ServiceError(status, told.code, told.message, dict(told.facts))
    # The classes make their sentences from their arguments; this one has its sentence, and its facts are attributes.
    error = kind.__new__(kind)
    Exception.__init__(error, told.message)
    for name, value in told.facts.items():
        setattr(error, name, tuple(value) if isinstance(value, list) else value)
    return error


@cache
def _classes() -> Mapping[str, type[Exception]]:
    return {code_of(kind): kind for kind in _below(ContextEngineError, FilamentError)}


def _below(*kinds: type[Exception]) -> Iterator[type[Exception]]:
    for kind in kinds:
        yield kind
        yield from _below(*kind.__subclasses__())

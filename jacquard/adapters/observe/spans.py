"""Defines the interface for tracing. An engine opens spans (timed steps) and sets attributes on them; an implementation
records the spans.

The names of spans are ours, except the `gen_ai.*` names of the GenAI conventions (`jacquard.adapters.observe.names`).
This module must not import a tracing library; only `jacquard.adapters.observe.otel` imports one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from mnemosyne.schema.memory import EMPTY

Fact = str | int | float | bool | list[str]


class Span(Protocol):
    """One timed step."""

    def put(self, facts: Mapping[str, Fact]) -> None:
        """Set attributes on the span."""
        ...


class Tracing(Protocol):
    """Opens spans. An implementation keeps three rules.

    1. A span opened while another is open in the same task, or in a task that was started from there, is its child.
    2. An exception that passes through a span is recorded on it and raised again.
    3. The implementation raises no exception of its own.
    """

    def span(self, name: str, facts: Mapping[str, Fact] = EMPTY) -> AbstractContextManager[Span]:
        """Return a context manager whose span is open while the block runs."""
        ...


class _NullSpan:
    def put(self, facts: Mapping[str, Fact]) -> None:
        return None


class NoTracing:
    """Tracing that records nothing."""

    @contextmanager
    def span(self, name: str, facts: Mapping[str, Fact] = EMPTY) -> Iterator[Span]:
        """Yield a span that is not recorded."""
        yield _NOTHING


_NOTHING = _NullSpan()
NO_TRACING = NoTracing()

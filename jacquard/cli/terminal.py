"""The console through which commands print for people."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from mnemosyne.core.masking.controls import show_controls


class TerminalConsole(Console):
    """A console on which no text controls the terminal: tables, progress and errors too.

    Who lays out text makes its controls visible before (`show_controls`), so that its width is known.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Return the segments of what is printed; those that rich itself makes to control the terminal stay."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(show_controls(segment.text), segment.style)

"""Console on which commands print for people."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from mnemosyne.core.masking.controls import show_controls


class TerminalConsole(Console):
    """Console on which no text can control the terminal, including tables, progress and errors.

    Code that lays out text makes its control characters visible first (`show_controls`), so that its width is known.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Return the segments of the output; those that rich itself makes to control the terminal stay."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(show_controls(segment.text), segment.style)

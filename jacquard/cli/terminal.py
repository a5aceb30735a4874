"""Provides the console on which commands print for people, safe against control characters in texts."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from mnemosyne.core.masking.controls import show_controls


class TerminalConsole(Console):
    """Console on which no text can control the terminal, not even inside of tables, progress bars and errors.

    Code that lays out text must call `show_controls` on it first, because the layout depends on the width of the text.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Return the output of `renderable` with control characters made visible. Control sequences of rich itself stay
        unchanged.
        """
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(show_controls(segment.text), segment.style)

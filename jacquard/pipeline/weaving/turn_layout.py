"""The layout of a turn: the one that its configuration or its profile names, with the boundary of its session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jacquard.core.blocks import SkeinTemplate
from jacquard.pipeline.turn import Turn
from jacquard.templating.files import TemplateRoot
from jacquard.templating.layouts import load_layout
from jacquard.templating.profiles import AUTO


def load_turn_layout(turn: Turn, roots: Sequence[TemplateRoot], layout_id: str | None = None) -> SkeinTemplate:
    """Return the layout of a turn (`layout_id`: another than its own). Reads files: call it off the event loop.

    LayoutError for one that is missing or has faults.
    """
    named = layout_id or turn.config.layout
    layout = load_layout(turn.profile.layout if named == AUTO else named, roots)
    return replace(layout, boundary=turn.boundary) if turn.boundary else layout

"""HTML page of prepared turns: the prompt with its blocks by source, omissions with reasons, tokens as bars. Pure.

The page is self-contained, has no script and loads nothing, and its policy forbids both. Every text is escaped by the template,
and characters that control the direction of text are shown as escapes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from jacquard.authoring.replay.model_calls import describe_call
from jacquard.authoring.replay.turn_view import GROUPS, TurnView
from mnemosyne.core.masking.controls import show_controls
from mnemosyne.schema.document import ModelUsage

TEMPLATE = "turn_page.html.j2"


class Verdict(StrEnum):
    """Result of a check, and its colour on the page."""

    GOOD = "good"
    BAD = "bad"
    NOTE = "note"


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One sentence about a turn; the overview counts checks by `label`, a word or two (`missing`, `lost`)."""

    verdict: Verdict
    label: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FactRow:
    """Fact that the prompt was checked for: required words, forbidden words, and the fault ('': none)."""

    name: str
    wanted: str = ""
    forbidden: str = ""
    found: str = ""

    @property
    def holds(self) -> bool:
        """True if there is no fault."""
        return not self.found


@dataclass(frozen=True, kw_only=True, slots=True)
class PageTurn:
    """One turn of a page."""

    heading: str
    view: TurnView | None = None
    """None if there is no prompt."""
    said: Sequence[tuple[str, str]] = ()
    """Words before and after the prompt by speaker: the input, the reply."""
    checks: Sequence[Check] = ()
    facts: Sequence[FactRow] = ()
    marked: Mapping[str, str] = field(default_factory=dict)
    """Blocks with a fault, by id, with the fault."""
    calls: Sequence[ModelUsage] = ()
    """Model calls of the turn."""

    def count(self, label: str) -> int:
        """Return how many bad checks have a label."""
        return sum(check.label == label and check.verdict is Verdict.BAD for check in self.checks)


@dataclass(frozen=True, kw_only=True, slots=True)
class PageSection:
    """Turns under one title, with figures shown above them as pairs of a name and a value."""

    title: str
    turns: Sequence[PageTurn]
    figures: Sequence[tuple[str, str]] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """Kinds of faults in its turns, in the order of their first appearance."""
        found = (check.label for turn in self.turns for check in turn.checks if check.verdict is Verdict.BAD)
        return tuple(dict.fromkeys(found))

    @property
    def most_tokens(self) -> int:
        """Tokens of a full bar: the largest prompt, or the largest limit."""
        reports = [turn.view.report.budget for turn in self.turns if turn.view is not None]
        return max((max(each.limit_tokens, each.used_tokens) for each in reports), default=1)


def render_turn_page(title: str, sections: Sequence[PageSection]) -> str:
    """Return the page as HTML; a section of one turn is shown open."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    page = environment.get_template(TEMPLATE)
    return page.render(title=title, sections=sections, groups=GROUPS, describe_call=describe_call)


def _finalize(value: Any) -> Any:
    return show_controls(value) if type(value) is str else value

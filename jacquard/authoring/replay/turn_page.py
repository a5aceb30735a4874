"""Renders prepared turns as one HTML page: the prompt by blocks, what was left out with the reasons, and bars of
tokens. Pure.

The page has no script and loads nothing, and its content policy forbids both. The studio shows turns by the same macros
(`turn_parts.html.j2`) and the same stylesheet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum

from jacquard.authoring.replay.model_calls import describe_call
from jacquard.authoring.replay.pages import FOLDER, open_templates, read_texts
from jacquard.authoring.replay.turn_view import GROUPS, TurnView
from mnemosyne.schema.document import ModelUsage
from mnemosyne.values import dataclass

TEXTS = FOLDER / "turn_texts.toml"
"""File of the texts about turns."""


class Verdict(StrEnum):
    """Result of a check. It also decides the colour on the page."""

    GOOD = "good"
    BAD = "bad"
    NOTE = "note"


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One sentence about a turn. `label` is a word or two (`missing`, `lost`) by which the overview counts checks."""

    verdict: Verdict
    label: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FactRow:
    """Fact that the prompt was checked for.

    `wanted` are words that the prompt must contain, and `forbidden` are words that it must not contain. `found` is the
    fault ('': there is none).
    """

    name: str
    wanted: str = ""
    forbidden: str = ""
    found: str = ""

    @property
    def holds(self) -> bool:
        """True if the check found no fault."""
        return not self.found


@dataclass(frozen=True, kw_only=True, slots=True)
class PageTurn:
    """One turn on a page."""

    heading: str
    view: TurnView | None = None
    """View of the turn's prompt (None: the turn has no prompt)."""
    said: Sequence[tuple[str, str]] = ()
    """(speaker, text) of what was said before and after the prompt: the input and the reply."""
    checks: Sequence[Check] = ()
    facts: Sequence[FactRow] = ()
    marked: Mapping[str, str] = field(default_factory=dict)
    """Block id -> fault of the block."""
    calls: Sequence[ModelUsage] = ()
    """Model calls of the turn."""

    def count(self, label: str) -> int:
        """Return the number of bad checks that have the label `label`."""
        return sum(check.label == label and check.verdict is Verdict.BAD for check in self.checks)


@dataclass(frozen=True, kw_only=True, slots=True)
class PageSection:
    """Turns under one title. `figures` are (name, value) pairs shown above them."""

    title: str
    turns: Sequence[PageTurn]
    figures: Sequence[tuple[str, str]] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the bad checks of all turns, in the order in which they first occur."""
        found = (check.label for turn in self.turns for check in turn.checks if check.verdict is Verdict.BAD)
        return tuple(dict.fromkeys(found))

    @property
    def most_tokens(self) -> int:
        """Number of tokens that fill a bar: the largest prompt or limit of the section."""
        reports = [turn.view.report.budget for turn in self.turns if turn.view is not None]
        return max((max(each.limit_tokens, each.used_tokens) for each in reports), default=1)


def render_turn_page(title: str, sections: Sequence[PageSection], language: str = "en") -> str:
    """Return the page as HTML, in English or Chinese (`en`, `zh`). A section with only one turn is shown open."""
    page = open_templates(FOLDER).get_template("turn_page.html.j2")
    values = {"t": read_texts(TEXTS)[language], "groups": GROUPS, "describe_call": describe_call}
    return page.render(title=title, sections=sections, **values)

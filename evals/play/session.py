"""Contents and truth of a session at a turn of a play: by branch, from the script. Pure.

The engine is never asked: this is the truth that its prompts are compared with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from evals.play.script.values import Fact


class ItemKind(StrEnum):
    """Kind of an item that can be lost."""

    MESSAGE = "user message"
    REPLY = "reply"
    TOOL_RESULT = "tool result"
    EVIDENCE = "evidence"


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """An item that was given to the session."""

    kind: ItemKind
    ids: tuple[str, ...]
    """Names under which a receipt may mention it, the best first."""
    text: str
    turn: int
    """Turn of the script with the item."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One turn as it was played on a path. `turn_id` is None if no turn was prepared; `answered`: a reply was committed."""

    number: int
    turn_id: str | None = None
    answered: bool = False
    items: tuple[Item, ...] = ()
    facts: Mapping[str, Fact | None] = field(default_factory=dict)
    about: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Path:
    """The turns of one branch, from the first on. `root` is the turn before the first (a prologue's last, or None)."""

    branch: str
    facts: Mapping[str, Fact]
    root: str | None = None
    steps: tuple[Step, ...] = ()

    def after(self, step: Step) -> Path:
        """Return the path with a further step; a retry takes the place of the failed turn of the same id."""
        kept = tuple(each for each in self.steps if step.turn_id is None or each.turn_id != step.turn_id)
        return replace(self, steps=(*kept, step))

    def back_to(self, number: int, branch: str) -> Path:
        """Return the path up to the last answered turn whose number is at most `number`, as another branch."""
        places = [place for place, each in enumerate(self.steps) if each.answered and each.number <= number]
        return replace(self, branch=branch, steps=self.steps[: places[-1] + 1] if places else ())

    @property
    def head(self) -> str | None:
        """The id of the last answered turn, or of the root."""
        return next((each.turn_id for each in reversed(self.steps) if each.answered), self.root)

    def items(self) -> tuple[Item, ...]:
        """Return all that the session was given on this path, oldest first."""
        return tuple(item for step in self.steps for item in step.items)

    def facts_in_force(self) -> dict[str, Fact]:
        """Return what is true after the last step."""
        found: dict[str, Fact | None] = dict(self.facts)
        for step in self.steps:
            found.update(step.facts)
        return {name: fact for name, fact in found.items() if fact is not None}

    def labels(self) -> dict[str, frozenset[str]]:
        """Return the labels of each turn's content, by turn id."""
        return {step.turn_id: step.about for step in self.steps if step.turn_id is not None}

    def item_labels(self) -> dict[str, frozenset[str]]:
        """Return the labels of tool results and evidence, by each of their ids."""
        return {
            name: step.about
            for step in self.steps
            for item in step.items
            if item.kind in (ItemKind.TOOL_RESULT, ItemKind.EVIDENCE)
            for name in item.ids
        }

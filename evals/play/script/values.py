"""The values of a play: what is said, what the host does, and what is true at every turn. Values only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

DEFAULT_BUDGET_TOKENS = 4000
CHECKPOINTS = frozenset({30, 45, 60, 100})
"""Turns whose prompts are searched for the key facts of the turns before."""


class Failure(StrEnum):
    """Failure of a model call after its turn was prepared; none of them commits a reply."""

    TIMEOUT = "timeout"
    ERROR = "error"
    EMPTY = "empty"
    CUT_OFF = "cut_off"


@dataclass(frozen=True, kw_only=True, slots=True)
class Pattern:
    """A text to look for: literally, or as a regular expression where it was written between slashes."""

    text: str
    regex: re.Pattern[str] | None = None

    def find_in(self, text: str) -> bool:
        """Say whether it occurs in a text."""
        return self.find_first(text) is not None

    def find_first(self, text: str) -> str | None:
        """Return what it matches first in a text, None if it does not occur."""
        if self.regex is None:
            return self.text if self.text in text else None
        found = self.regex.search(text)
        return None if found is None else found[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """A fact that the prompt must say: it contains one of `shown`, and none of `wrong` if it states what holds."""

    shown: tuple[Pattern, ...] = ()
    wrong: tuple[Pattern, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """Texts that a prompt must contain so that the input can be answered: any of `answers`. The answer is in turn `told`."""

    answers: tuple[Pattern, ...]
    told: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ScriptTurn:
    """One turn of a play."""

    number: int
    """From 1."""
    input: str
    reply: str | None = None
    """None if the model call fails (`fails`) and on turns that need no model."""
    fails: Failure | None = None
    retry: bool = False
    slips: tuple[str, ...] = ()
    facts: Mapping[str, Fact | None] = field(default_factory=dict)
    """Facts that change with the reply (None: no longer in force)."""
    about: frozenset[str] = frozenset()
    """Labels of the turn's content."""
    relevant: frozenset[str] | None = None
    """Labels of memories that may be recalled for its input (None: not labelled)."""
    ask: Question | None = None
    key_facts: Mapping[str, tuple[Pattern, ...]] = field(default_factory=dict)
    """Facts for later questions; the prompts of CHECKPOINTS must have a text of each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolResult:
    """A tool returned a text."""

    name: str
    text: str
    about: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenEvidence:
    """The host stores a text as evidence; `kind` is the name of its source."""

    kind: str
    text: str
    about: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Fork:
    """A new branch from the end of turn `at` of the present path (0: before the first); it becomes the active one."""

    branch: str
    at: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Switch:
    """Another branch becomes the active one."""

    branch: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Edit:
    """An edit of the input of turn `of` by the user: a branch from the turn before it."""

    of: int
    turn: ScriptTurn | None = None
    """Turn that is played there instead; None if the next turn of the script is the edited one."""


HostAction = ToolResult | GivenEvidence | Fork | Switch | Edit


@dataclass(frozen=True, kw_only=True, slots=True)
class HostEvent:
    """Something that the host does before the turn with number `before`."""

    before: int
    action: HostAction


@dataclass(frozen=True, kw_only=True, slots=True)
class Play:
    """A whole script. `world` is the folder of its pack, None for an agent without one."""

    name: str
    locale: str
    turns: tuple[ScriptTurn, ...]
    world: Path | None = None
    user: str = ""
    budget: int = DEFAULT_BUDGET_TOKENS
    facts: Mapping[str, Fact] = field(default_factory=dict)
    events: tuple[HostEvent, ...] = ()
    lore_labels: Mapping[str, frozenset[str]] = field(default_factory=dict)

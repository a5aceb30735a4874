"""Defines the verdict on each op (a change of the state): applied or refused, a stable code, a sentence, and remarks.

A remark reports a side effect of an applied op.
Codes are for programs and do not change. Sentences are for models, players and authors, and may change. This module
imports nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from itertools import islice
from typing import Any

_CHOICES_SHOWN = 12


class Authority(StrEnum):
    """Giver of the ops that are judged. It decides which rules of the state apply.

    - MODEL: a model. All rules apply.
    - HOST: a program that repairs the state. It may do what the rules `updatable`, `extensible`, `necessary` and the
      transitions of quests forbid a model. Types and limits apply.
    - AUTHOR: the actions of a world pack. They may do the same as HOST, and may also change the kind of a value that has no
      declared type.
    """

    MODEL = "model"
    HOST = "host"
    AUTHOR = "author"


class Outcome(StrEnum):
    """Outcome of an op."""

    APPLIED = "applied"
    REFUSED = "refused"


class Refusal(StrEnum):
    """Reason why an op was refused.

    TURN_REFUSED means that this op has no fault of its own, but another op of its turn was refused.
    """

    MALFORMED = "malformed"
    UNREADABLE = "unreadable"
    NOT_EXPECTED = "not_expected"
    UNKNOWN_PATH = "unknown_path"
    AMBIGUOUS_ID = "ambiguous_id"
    PROTECTED = "protected"
    NOT_UPDATABLE = "not_updatable"
    NOT_EXTENSIBLE = "not_extensible"
    NECESSARY = "necessary"
    MISSING_FIELD = "missing_field"
    OUTSIDE_LIMITS = "outside_limits"
    WRONG_TYPE = "wrong_type"
    ILLEGAL_TRANSITION = "illegal_transition"
    NOT_A_NUMBER = "not_a_number"
    NOT_A_LIST = "not_a_list"
    NO_ENTRY = "no_entry"
    ID_TAKEN = "id_taken"
    ID_RETIRED = "id_retired"
    DIVISION_BY_ZERO = "division_by_zero"
    OUT_OF_RANGE = "out_of_range"
    RULED_DESCRIPTION = "ruled_description"
    BROKEN_RULES = "broken_rules"
    TOO_MANY_OPS = "too_many_ops"
    VALUE_TOO_LARGE = "value_too_large"
    STATE_TOO_LARGE = "state_too_large"
    TOO_DEEP = "too_deep"
    TURN_REFUSED = "turn_refused"


class Remark(StrEnum):
    """A side effect of an applied op.

    - CLAMPED: the result stopped at a limit.
    - NORMALISED: another spelling or a synonym of a legal value was given.
    - CONVERTED: a number or truth value was given as text.
    - DESCRIPTION_DROPPED: the description was dropped with the old value.
    - DESCRIPTION_RULED: the author's rule chose another description than the op gave.
    - READ_AS_DESCRIBED: a list of two texts was read as a value with a description.
    """

    CLAMPED = "clamped"
    NORMALISED = "normalised"
    CONVERTED = "converted"
    DESCRIPTION_DROPPED = "description_dropped"
    DESCRIPTION_RULED = "description_ruled"
    READ_AS_DESCRIBED = "read_as_described"


@dataclass(frozen=True, kw_only=True, slots=True)
class Legal:
    """Hints on legal alternatives to a refused op. Fields that do not apply are empty."""

    field: str = ""
    """The field (or id) that the op named."""
    near: str = ""
    """The most similar existing name."""
    choices: tuple[Any, ...] = ()
    """The values or names to choose from."""
    limits: tuple[float | None, float | None] | None = None
    """(least, greatest) legal value; None in the pair means that there is no such limit. None if the field has no limits."""
    kind: str = ""
    """Type of the field: `text`, `integer`, `number`, `boolean`, `list` or `mapping`."""


def find_nearest(name: str, names: Iterable[str], *, most: int = 60) -> str:
    """Return the name in `names` most similar to `name`, or '' if none is similar. At most `most` names are compared."""
    known = {each.casefold(): each for each in islice(names, most)}
    found = get_close_matches(name[:100].casefold(), known, n=1)
    return known[found[0]] if found else ""


def list_choices(choices: Iterable[Any]) -> str:
    """Return `choices` as text for a sentence: the first twelve, and the number of the others."""
    shown = [_describe_choice(choice) for choice in choices]
    more = len(shown) - _CHOICES_SHOWN
    return ", ".join(shown[:_CHOICES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _describe_choice(choice: Any) -> str:
    if choice is None:
        return "null"
    return str(choice).lower() if isinstance(choice, bool) else str(choice)


class RefusedError(ValueError):
    """Refusal of an op, with its code, the reason as a sentence, and legal alternatives. The caller adds the op's number."""

    def __init__(self, code: Refusal, reason: str, legal: Legal | None = None) -> None:
        self.code, self.reason, self.legal = code, reason, legal
        super().__init__(reason)


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """A remark on one field of an applied op."""

    code: Remark
    field: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class OpVerdict:
    """Verdict on one op."""

    number: int
    """0-based place of the op in the reply."""
    op: str
    """Text of the op."""
    outcome: Outcome
    code: str
    """`applied`, or a value of Refusal."""
    reason: str
    """Sentence that states what changed, or why nothing changed."""
    notes: tuple[Note, ...] = ()
    target: str = ""
    """Path of the op."""
    legal: Legal | None = None
    """Legal alternatives to a refused op."""

    @property
    def is_applied(self) -> bool:
        """Return whether the op took effect."""
        return self.outcome is Outcome.APPLIED


def build_refusal(
    number: int, op: str, code: Refusal, reason: str, *, target: str = "", legal: Legal | None = None
) -> OpVerdict:
    """Return the verdict on a refused op. `number` is its place in the reply, `op` its text, and `target` its path."""
    return OpVerdict(
        number=number, op=op, outcome=Outcome.REFUSED, code=code.value, reason=reason, target=target, legal=legal
    )

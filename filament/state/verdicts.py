"""The verdict on each op: applied or refused, a stable code, a sentence, and remarks on side effects.

Codes are for programs and do not change; sentences are for models, players and authors and may. Imports nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """Whether an op took effect."""

    APPLIED = "applied"
    REFUSED = "refused"


class Refusal(StrEnum):
    """Why an op was refused. TURN_REFUSED: nothing is wrong with this one, but another of its turn was refused."""

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

    CLAMPED: the result stopped at a limit. DESCRIPTION_KEPT: the value changed and its old description stayed, which
    may no longer be true. DESCRIPTION_DROPPED: it was dropped with the old value. DESCRIPTION_RULED: the author's table
    chose another description than the op gave. READ_AS_DESCRIBED: a list of two texts was read as a value with a
    description.
    """

    CLAMPED = "clamped"
    DESCRIPTION_KEPT = "description_kept"
    DESCRIPTION_DROPPED = "description_dropped"
    DESCRIPTION_RULED = "description_ruled"
    READ_AS_DESCRIBED = "read_as_described"


class RefusedError(ValueError):
    """Why an op is refused, as a code and a sentence; the caller adds which op it was."""

    def __init__(self, code: Refusal, reason: str) -> None:
        self.code, self.reason = code, reason
        super().__init__(reason)


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """A remark on one field of an applied op."""

    code: Remark
    field: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class OpVerdict:
    """The verdict on one op. `number` is its place in the reply (0-based), `op` its text.

    `code` is `applied` or a Refusal, `reason` a sentence that says what changed, or why nothing did.
    """

    number: int
    op: str
    outcome: Outcome
    code: str
    reason: str
    notes: tuple[Note, ...] = ()

    @property
    def is_applied(self) -> bool:
        """Whether the op took effect."""
        return self.outcome is Outcome.APPLIED


def build_refusal(number: int, op: str, code: Refusal, reason: str) -> OpVerdict:
    """Return the verdict on an op that is refused."""
    return OpVerdict(number=number, op=op, outcome=Outcome.REFUSED, code=code.value, reason=reason)

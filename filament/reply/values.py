"""The result of parsing a reply: its parts, its corrections, and the events of a reply that is still arriving. Values only;
imports ops.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from filament.state.changes.ops import Op
from filament.state.verdicts import OpVerdict

FORM_CODES = frozenset({"alias", "bare_text", "fence", "unknown_tag"})
"""Codes of oddities in a reply's form that need no repair; strict mode refuses these too."""
INSIDE, QUOTED, BEFORE_CONTENT, NOT_LAST, UNCLEAR, ECHOED, UNTAGGED = (
    "update_inside",
    "update_quoted",
    "update_before_content",
    "update_not_last",
    "update_unclear",
    "update_echoed",
    "update_untagged",
)
SET_ASIDE_CODES = frozenset({INSIDE, QUOTED, BEFORE_CONTENT, NOT_LAST, UNCLEAR, ECHOED, UNTAGGED})
"""Codes of updates that were read and not applied, because of where they are."""


class EventKind(StrEnum):
    """Kind of an event.

    TEXT: more of a text tag. BLOCK: a JSON block was read; a block of ops comes at the end, because only then it is
    known whether it counts. CORRECTED: something was repaired or noticed. MOVED: all `content` so far was `thought`
    (its opening tag was missing); a screen has to withdraw it.
    """

    TEXT = "text"
    BLOCK = "block"
    MOVED = "moved"
    CORRECTED = "corrected"


class PieceKind(StrEnum):
    """Kind of a stretch of a reply: text of a tag, the source of a JSON block, or a tag itself."""

    TEXT = "text"
    BLOCK = "block"
    MARKUP = "markup"


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """A stretch of `ParsedReply.source`: characters `start`..`end` (0-based, half-open); `tag` is the canonical name."""

    kind: PieceKind
    tag: str
    start: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Correction:
    """One entry of the log, about a stretch of the source.

    Codes: `unclosed`, `untagged`, `nested`, `crossed`, `stray_close`, `moved`, `repaired`, `dropped`, `trailing`,
    `out_of_order`, `too_many`, `not_expected`, `missing`, and those of SET_ASIDE_CODES and FORM_CODES.
    """

    code: str
    """For machines."""
    sentence: str
    """For people."""
    start: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """The value of a JSON block other than a list of ops, with the place of its source."""

    tag: str
    value: Any
    start: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ParseEvent:
    """One event of a reply that is still arriving. `text` is clean and unescaped; only MOVED withdraws it."""

    kind: EventKind
    tag: str = ""
    text: str = ""
    ops: tuple[Op, ...] = ()
    value: Any = None
    correction: Correction | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ParsedReply:
    """Result of reading a reply; texts are clean, unescaped and trimmed."""

    content: str
    """Text for the player."""
    thought: str = ""
    """Text for the log."""
    ops: tuple[Op, ...] = ()
    """Ops of the updates that count, in order, numbered from 0; `set_aside` names all other updates."""
    lost: tuple[OpVerdict, ...] = ()
    """Verdicts on ops that could not be read (an update whose ops cannot be separated counts as one op). Pass them to
    `judge_ops`: a host that applied half a reply would break the rule of all or none.
    """
    blocks: tuple[Block, ...] = ()
    """Other JSON tags, in order."""
    texts: tuple[tuple[str, str], ...] = ()
    """Other text tags as (tag, text)."""
    log: tuple[Correction, ...] = ()
    """All repairs and oddities, by their place."""
    source: str = ""
    """The reply that was read (line ends newlines, unclean characters replaced)."""
    pieces: tuple[Piece, ...] = ()
    """Stretches that cover `source` from end to end: nothing is lost."""
    tail: tuple[ParseEvent, ...] = field(default=(), compare=False, repr=False)
    """Events that were certain only at the end."""

    @property
    def corrections(self) -> tuple[str, ...]:
        """Return sentences on repairs and omissions; oddities of form are only in `log`."""
        return tuple(entry.sentence for entry in self.log if entry.code not in FORM_CODES)

    @property
    def set_aside(self) -> tuple[Correction, ...]:
        """Return the updates that were not applied because of their place: a code, the reason with advice, the
        place.
        """
        return tuple(entry for entry in self.log if entry.code in SET_ASIDE_CODES)

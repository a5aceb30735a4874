"""Defines the results of reading a reply: the parts of the reply, its corrections, and events while the reply arrives.

A correction reports a fault in the reply that was repaired or noticed. The module imports only ops and verdicts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from filament.state.changes.ops import Op
from filament.state.verdicts import OpVerdict

FORM_CODES = frozenset({"alias", "bare_text", "fence", "unknown_tag"})
"""Codes of oddities in a reply's form that need no repair. Strict mode refuses a reply with an oddity, too."""
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
"""Codes of updates that were read and, because of their place, not applied."""


class EventKind(StrEnum):
    """Kind of an event.

    - TEXT: more text of a text tag.
    - BLOCK: a JSON block was read. For a block of ops, the event comes when the reply ends, because only then it is
      certain that the block counts.
    - CORRECTED: something was repaired or noticed.
    - MOVED: the opening tag of the thought was missing, so all text that was reported as `content` so far was `thought`. A
      screen must withdraw this text.
    """

    TEXT = "text"
    BLOCK = "block"
    MOVED = "moved"
    CORRECTED = "corrected"


class PieceKind(StrEnum):
    """Kind of a stretch of a reply: text of a tag, the source of a JSON block, or a tag."""

    TEXT = "text"
    BLOCK = "block"
    MARKUP = "markup"


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """One stretch of `ParsedReply.source`, from character `start` up to, not including, `end` (0-based).

    `tag` is the canonical name of the tag to which the stretch belongs.
    """

    kind: PieceKind
    tag: str
    start: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Correction:
    """One repair or oddity of a reply, from `start` to `end` in the source.

    The codes are `unclosed`, `untagged`, `nested`, `crossed`, `stray_close`, `moved`, `repaired`, `dropped`,
    `trailing`, `out_of_order`, `too_many`, `not_expected`, `missing`, and those in SET_ASIDE_CODES and FORM_CODES.
    """

    code: str
    """Stable code, for programs."""
    sentence: str
    """Text for people."""
    start: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """Value of a JSON block that is not a list of ops, with the place of the block in the source."""

    tag: str
    value: Any
    start: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ParseEvent:
    """One event of a reply that is still arriving.

    `text` is clean and unescaped. Text that an event returned stays valid, unless a MOVED event withdraws it.
    """

    kind: EventKind
    tag: str = ""
    text: str = ""
    ops: tuple[Op, ...] = ()
    value: Any = None
    correction: Correction | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ParsedReply:
    """Result of reading a reply. Its texts are clean, unescaped and trimmed."""

    content: str
    """Text for the player."""
    thought: str = ""
    """Text for the log, not for the player."""
    ops: tuple[Op, ...] = ()
    """Ops of all updates that count, in order, numbered from 0. `set_aside` lists the other updates."""
    lost: tuple[OpVerdict, ...] = ()
    """Verdicts on ops that could not be read. If the ops of an update cannot be separated, the update counts as one op. Pass
    these verdicts to `judge_ops`: it applies either all ops of a reply or none, and ops in `lost` count as refused.
    """
    blocks: tuple[Block, ...] = ()
    """Blocks of all other JSON tags, in order."""
    texts: tuple[tuple[str, str], ...] = ()
    """(tag, text) of all other text tags."""
    log: tuple[Correction, ...] = ()
    """All repairs and oddities, in the order of their places."""
    source: str = ""
    """The reply as it was read: line ends are newlines, and illegal characters are replaced."""
    pieces: tuple[Piece, ...] = ()
    """Stretches that together cover `source` from beginning to end, so that nothing is lost."""
    tail: tuple[ParseEvent, ...] = field(default=(), compare=False, repr=False)
    """Events that became certain only when the reply ended."""

    @property
    def corrections(self) -> tuple[str, ...]:
        """One sentence for each repair and each omission. Oddities of form are only in `log`."""
        return tuple(entry.sentence for entry in self.log if entry.code not in FORM_CODES)

    @property
    def set_aside(self) -> tuple[Correction, ...]:
        """The log entries on updates that were not applied because of their place in the reply."""
        return tuple(entry for entry in self.log if entry.code in SET_ASIDE_CODES)

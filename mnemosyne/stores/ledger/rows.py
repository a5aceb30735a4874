"""The rows of a ledger, that is of one session or one world.

The memory store and the file store keep the same rows, and a journal records changes row by row. Bodies are JSON, written once
and parsed when read, so a ledger shares no object with its callers. It imports the schema and the codec, nothing of files or
threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum

from mnemosyne.core.codec import JsonText
from mnemosyne.schema.memory import Chain
from mnemosyne.schema.session import TurnKind, TurnStatus

NO_OPS = JsonText(b"[]")


class RecallMark(IntEnum):
    """Whether a message is in the history chain; one that was and must not be found any more leaves a mark there."""

    NO = 0
    YES = 1
    NO_MORE = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionRow:
    """The session itself; there is one."""

    session_id: str
    world_id: str
    locale: str
    active_branch: str
    version: int
    created_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchRow:
    """A branch: where it left its parent, where it stands, and how many changes of state lie behind its last snapshot."""

    ordinal: int
    parent: str | None = None
    fork_depth: int = 0
    head_turn: str | None = None
    head_depth: int = 0
    changes: int = 0
    pending: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnRow:
    """A turn without its heavy parts, which lie in tables of their own; `ops` is NO_OPS when it has none."""

    branch_id: str
    depth: int
    parent_id: str | None
    kind: TurnKind
    status: TurnStatus
    fingerprint: str
    created_at: datetime | None
    ops: JsonText


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageRow:
    """A message of a committed turn, by its id.

    `sequence` is its place in the order of writing, `place` that within its turn. `recalled`: whether recall may find it.
    """

    sequence: int
    turn_id: str
    place: int
    recalled: RecallMark
    body: JsonText


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryRow:
    """An entry, by its id. One that changes gets a new number; one that goes stays as a mark."""

    sequence: int
    chain: Chain
    restricted: bool
    deleted: bool
    body: JsonText


@dataclass(frozen=True, kw_only=True, slots=True)
class SnapshotRow:
    """The state after the turn at `depth` of a branch (depth 0 of branch '': before the first turn)."""

    branch_id: str
    depth: int
    state: JsonText


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceRow:
    """An evidence, by its id; `place` counts in the order of first writing."""

    place: int
    uri: str
    content_hash: str
    body: JsonText


Row = SessionRow | BranchRow | TurnRow | MessageRow | EntryRow | SnapshotRow | EvidenceRow | JsonText

ROW_TYPES: dict[str, type] = {
    "session": SessionRow,
    "branch": BranchRow,
    "turn": TurnRow,
    "message": MessageRow,
    "entry": EntryRow,
    "snapshot": SnapshotRow,
    "evidence": EvidenceRow,
}
"""Tables whose rows have fields. The rows of all other tables are bodies alone."""

PAPERS = ("plan", "anchors", "prompt", "receipt", "report", "draft")
"""Tables of the heavy parts of turns, by turn id; a draft holds the messages of a turn that is not committed."""

PARTS = ("block", "tool_call", "model_usage", "task", "document")
"""Tables of what a session document holds beside its messages, by id, in the order of first writing."""

PACK = "pack"
"""The table of a world's pack, by its digest; it holds the present version alone."""

BODIES = (*PAPERS, *PARTS, "late", "summary", "world", PACK)

TABLES = (*ROW_TYPES, *BODIES)


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One row that was written, or (`row` is None) dropped."""

    table: str
    key: str
    row: Row | None


def snapshot_key(branch_id: str, depth: int) -> str:
    """Return the key of a snapshot."""
    return f"{depth}@{branch_id}"

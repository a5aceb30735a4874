"""The rows of a ledger: of one session or one world.

The memory store and the file store have the same rows, and a journal records changes row by row. Bodies are JSON,
encoded once and parsed when read, so a ledger shares no object with its callers. The module imports the schema and the
codec, nothing of files or threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum

from mnemosyne.core.codec import JsonText
from mnemosyne.schema.memory import Chain
from mnemosyne.schema.session import TurnKind, TurnStatus

NO_OPS = JsonText(b"[]")


class RecallMark(IntEnum):
    """Whether a message is in the history chain; one that was removed from it leaves a mark."""

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
    """A branch: where it left its parent, its head, and the number of state changes since its last snapshot."""

    ordinal: int
    parent: str | None = None
    fork_depth: int = 0
    head_turn: str | None = None
    head_depth: int = 0
    changes: int = 0
    pending: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnRow:
    """A turn without its large parts, which are in tables of their own; `ops` is NO_OPS when it has none. `origin_id`: the
    turn that it is a copy of.
    """

    branch_id: str
    depth: int
    parent_id: str | None
    kind: TurnKind
    status: TurnStatus
    fingerprint: str
    created_at: datetime | None
    ops: JsonText
    origin_id: str | None = None


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
    """An entry, by its id. A changed entry gets a new number; a deleted one stays as a mark."""

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
    """An evidence item, by its id; `place` is its number in the order of first writing. `turn_id` is the turn that found it,
    `readers` may know it (none: everyone). `written_at` is the time of first writing of an item that has none itself.
    """

    place: int
    uri: str
    content_hash: str
    body: JsonText
    turn_id: str | None = None
    readers: tuple[str, ...] = ()
    written_at: datetime | None = None


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
"""Tables whose rows have fields. The rows of all other tables are bodies only."""

PAPERS = ("plan", "anchors", "prompt", "receipt", "report", "draft")
"""Tables of the large parts of turns, by turn id; a draft holds the messages of a turn that is not committed."""

PARTS = ("block", "tool_call", "model_usage", "task", "document")
"""Tables of the lists of a session document other than messages, by id, in the order of first writing."""

PACK = "pack"
"""The table of a world's pack, by its digest; it holds only the current version."""

BODIES = (*PAPERS, *PARTS, "late", "summary", "world", PACK)

TABLES = (*ROW_TYPES, *BODIES)


CONTENT_OF: Mapping[str, str] = {
    "message": "message",
    "entry": "entry",
    "snapshot": "state",
    "turn": "ops",
    "evidence": "evidence",
    "late": "prefetch",
    "summary": "path_summary",
    **{name: name for name in (*PAPERS, *PARTS)},
}
"""What is in the rows of each table of a session (`mnemosyne.privacy.places.CONTENTS`); the others hold ids, numbers and
times only. Every table is in here, in KEPT_TABLES or in OF_WORLDS (a test).
"""

BODY_OF: Mapping[str, str] = {
    "message": "body",
    "entry": "body",
    "snapshot": "state",
    "turn": "ops",
    "evidence": "body",
}
"""The field of a row that holds this content, where a row has fields."""

KEPT_TABLES = ("session", "branch")
OF_WORLDS = ("world", PACK)


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One row that was written, or (`row` is None) removed."""

    table: str
    key: str
    row: Row | None


def snapshot_key(branch_id: str, depth: int) -> str:
    """Return the key of a snapshot."""
    return f"{depth}@{branch_id}"

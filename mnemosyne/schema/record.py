"""Defines the records of sessions and turns that a store keeps, and the values that a store takes and returns.

The layers above make `plan`, `receipt` (why each block is in the prompt) and `prompt` as JSON values. The store does not
interpret them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Any

from mnemosyne.schema.document import Actor, Meta, ModelUsage, Summary, Task
from mnemosyne.schema.evidence import ContextBlock, Evidence
from mnemosyne.schema.memory import EMPTY, Chain, MemoryEntry
from mnemosyne.schema.session import Message, SessionHead, TurnKind, TurnStatus, WindowMessage
from mnemosyne.values import dataclass

WINDOW_USAGES = 24
"""Maximum number of model calls in a SessionWindow."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionStart:
    """A session to create, with the state, turns and entries from its world."""

    session_id: str
    world_id: str
    locale: str
    state: Mapping[str, Any]
    turns: tuple[ImportedTurn, ...] = ()
    """Turns that the session has from the start. They are committed on the branch `main`, at the depths 1, 2, …"""
    entries: tuple[MemoryEntry, ...] = ()
    """Memory entries of the session. They may refer to `turns` by `turn_id` and `depth`."""
    at: datetime | None = None
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    """Further metadata for the session's document, such as the id of the `profile`."""
    evidences: tuple[Evidence, ...] = ()
    """Evidence that the session has from the start."""
    blocks: tuple[ContextBlock, ...] = ()
    """Context blocks that the session has from the start."""
    actor: Actor | None = None
    """Owner of the session (user and agent)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedTurn:
    """A finished turn that was read from a world pack, a data set or a chat. `alternatives` are other replies to its input."""

    turn_id: str
    messages: tuple[Message, ...]
    kind: TurnKind = TurnKind.NARRATIVE
    alternatives: tuple[tuple[Message, ...], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedBranch:
    """A branch with finished turns, to be opened after the committed turn `after` (None: before the first turn)."""

    branch_id: str
    after: str | None
    turns: tuple[ImportedTurn, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportRequest:
    """A caller's options for the import of a file of conversations. Importers ignore options that their format cannot use."""

    session_id: str | None = None
    """Id of the new session (None: the id in the file)."""
    only: str | None = None
    """The only conversation of the file to read (None: all)."""
    users: tuple[str, ...] = ()
    """Names of speakers whose messages are those of a user."""
    assistants: tuple[str, ...] = ()
    """Names of speakers whose messages are replies."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedConversation:
    """One conversation that was read from a file. `notes` are sentences about omissions and guesses."""

    start: SessionStart
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedConversations:
    """The conversations of a file, in the order of the file. `notes` are sentences about the whole file."""

    conversations: tuple[ImportedConversation, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnRecord:
    """One turn as stored."""

    turn_id: str
    session_id: str
    branch_id: str
    depth: int
    parent_id: str | None
    kind: TurnKind
    status: TurnStatus
    messages: tuple[Message, ...]
    fingerprint: str = ""
    """Digest of the request (input and configuration) for which the turn was prepared. A second request with the same turn id and
    the same fingerprint is answered from this record.
    """
    plan: Mapping[str, Any] | None = None
    """JSON value. `plan`, `receipt` and `prompt` are None until they exist."""
    receipt: Mapping[str, Any] | None = None
    prompt: Mapping[str, Any] | None = None
    report: Mapping[str, Any] | None = None
    """Facts about the reply (None before the reply is committed)."""
    anchors: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    """Path in the state for each anchor (short name of a part of the state) in the prompt, at the time of rendering."""
    ops: tuple[Mapping[str, Any], ...] = ()
    created_at: datetime | None = None
    origin_id: str | None = None
    """Id of the turn on another branch of which this turn is a copy (None: it is not a copy). Evidence of the original turn is
    known in the copy too.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Prefetch:
    """A selection of memories (Stream B) that was too late for its own turn. The next turn of the branch can use it."""

    turn_id: str
    """The turn for which the selection was made."""
    branch_id: str
    """Branch of that turn."""
    depth: int
    """Depth of that turn."""
    focus_quest_id: str | None
    """Quest in focus in that turn. Together with `keywords` it describes the scene."""
    keywords: tuple[str, ...]
    value: Mapping[str, Any]
    """The selection as a JSON value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PathSummary:
    """A summary of the path up to and including a committed turn. It is valid on every branch that contains this turn."""

    turn_id: str
    branch_id: str
    depth: int
    summary: Summary


@dataclass(frozen=True, kw_only=True, slots=True)
class HiddenRecords:
    """Records of a session that no SessionWindow of a branch contains. A copy of the whole session needs them.

    All are ordered by turn id.
    """

    abandoned: tuple[TurnRecord, ...] = ()
    """Turns that never got a reply."""
    summaries: tuple[PathSummary, ...] = ()
    """All summaries, including replaced ones, because a branch that is opened at an older turn uses an older summary."""
    unsummed: tuple[str, ...] = ()
    """Ids of turns at which the summary of the path was removed. A path through such a turn does not use older summaries."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PutResult:
    """The outcome of a write to a session. `version` is the version of the session after the write."""

    version: int
    success: bool = True
    error: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionWindow:
    """The part of a session that one turn needs. Its size is limited, however long the session is."""

    head: SessionHead
    messages: tuple[WindowMessage, ...]
    """The newest messages on the path to the head, oldest first."""
    state: Mapping[str, Any]
    previous: TurnRecord | None = None
    """The last committed turn."""
    pending: TurnRecord | None = None
    """The prepared turn after the head that waits for its reply, if there is one."""
    prefetch: Prefetch | None = None
    """The newest selection of memories on this branch that was too late for its turn."""
    summary: PathSummary | None = None
    """The newest summary on the path to the head."""
    tasks: tuple[Task, ...] = ()
    """The to-do list."""
    usages: tuple[ModelUsage, ...] = ()
    """The newest model calls (at most WINDOW_USAGES), oldest first."""
    meta: Meta | None = None
    """Metadata of the session's document (None: none was ever written)."""
    world_digest: str | None = field(default=None, compare=False)
    """Digest of the current version of the session's world (None: the store does not provide it here)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnInputs:
    """Data of a session that a turn reads when it begins. All parts are read together, so they agree."""

    window: SessionWindow
    evidences: tuple[tuple[Evidence, ...], ...] = ()
    """For each requested filter, the evidence items that pass it."""
    blocks: tuple[ContextBlock, ...] = ()
    """The context blocks that pass the requested filter."""
    gated: tuple[MemoryEntry, ...] = ()
    """Entries of the session and of its world that have viewers or conditions, ordered by id."""
    written: Mapping[tuple[str, Chain], int] | None = None
    """Sequence (place in the order of writing) of the newest entry, by scope and chain. The scopes are those of the session
    and of its world, and the chains are those that recall reads. 0 means that there is no entry. None: the store does not
    provide the sequences.
    """
    kept_entries: Mapping[str, Mapping[str, MemoryEntry]] = field(
        default_factory=lambda: EMPTY, compare=False, repr=False
    )
    """Memory entries that need not be read, by scope and id, as they are at this moment or later. An entry that is
    missing may exist.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class ChosenInputs:
    """Data of the memories that a turn chose. All parts are read together, so they agree."""

    entries: Mapping[str, tuple[MemoryEntry, ...]] = field(default_factory=lambda: EMPTY)
    """The requested entries by scope, in the order of the request."""
    evidences: tuple[Evidence, ...] = ()
    """The session's evidence items with the requested ids."""
    states: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: EMPTY)
    """State after each requested turn, by turn id. Turns that are not committed are left out, and turns whose state can no longer
    be read.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnCommit:
    """The reply to a turn, to be committed: its messages, its ops (changes of the state, as JSON Patch), and the new state."""

    turn_id: str
    messages: tuple[Message, ...]
    ops: tuple[Mapping[str, Any], ...] = ()
    state: Mapping[str, Any] | None = None
    """State after the ops (None: no op was applied)."""
    entries: tuple[MemoryEntry, ...] = ()
    """Events and summaries that the turn adds to memory."""
    report: Mapping[str, Any] | None = None
    """JSON value that is stored with the turn, next to the receipt."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SequencedEntry:
    """A memory entry with its place in the order of writing, from which an index reads new entries.

    If `deleted` is true, the index must remove the entry.
    """

    sequence: int
    entry: MemoryEntry
    deleted: bool = False
